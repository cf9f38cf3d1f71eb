"""Exact periods of storage distributions, remembered, with the channels that hold each one back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple, Protocol

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.periodic import Circuit, PeriodicProblem, PeriodicSolution, require_room
from csdf.errors import GaveUp
from csdf.model.graph import Graph
from csdf.search.learned_bounds import Cycle, Rounds, Sufficient
from csdf.search.variables import Variable, with_searched_spaces
from csdf.status import Why, because
from csdf.time_limit import Stop

MOST_LATE = 20_000  # phases of a schedule that is made after the stop has ended the search
SHORT = 200_000  # phases of a schedule that is made in some tenths of a second
LONG = 1_000  # phases of a schedule from which on it takes long enough to look at the stop first


class EvaluationWhy(Why):
    """Why the period of a distribution is not known."""

    NO_TIME = "no time for a schedule of {firings} firings after the end of the search"


class PeriodEvaluation(NamedTuple):
    """The period of a distribution, None for a deadlock, and a reason why it is no less.

    holding: positions of the variables whose lack of space lies on the critical cycle. As long as none
    of them gets more, no distribution has a smaller period. cycles: what more it says, where its
    actors have one phase each. deep: variables whose storage is slower from a capacity on, with that
    capacity, if the reason rests on it.
    """

    period: Fraction | None
    holding: tuple[int, ...]
    cycles: tuple[Cycle, ...] = ()
    deep: tuple[tuple[int, int], ...] = ()


class Obstacles(NamedTuple):
    """Why capacities do not suffice: nothing of both where they suffice.

    holding: groups of variables; in each group one variable has to get more. cycles: of all firings
    whose order K-periodic schedules fix, where the actors have one phase each.
    """

    holding: tuple[tuple[int, ...], ...]
    cycles: tuple[Cycle, ...]


class Evaluates(Protocol):
    """The questions of a search over storage distributions to a graph, or to a mapped graph.

    count: distributions evaluated so far; firings: of one iteration.
    """

    @property
    def count(self) -> int: ...  # noqa: D102

    @property
    def firings(self) -> int: ...  # noqa: D102

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation: ...  # noqa: D102


class CapacityEvaluator:
    """A graph whose capacities are chosen again and again.

    Capacities are tuples in the order of the variables, None for one without a bound. Channels that
    belong to no variable keep what the graph says, self-loops only where they are bounded at all.
    Evaluations are exact, and remembered. only_live: a period is then no more than the sign that
    there is no deadlock, which takes less to find out. copies: periods are those of schedules in which
    this many cycles of each actor repeat.
    look: called between the steps of long evaluations; may end them by raising.
    """

    def __init__(
        self,
        graph: Graph,
        variables: Sequence[Variable],
        *,
        with_self_loops: bool = False,
        only_live: bool = False,
        copies: int | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self.count = 0
        self._look_at_stop = look
        self._is_late = False
        self._only_live = only_live
        self._fixed_copies = copies
        self._groups = [variable.channels for variable in variables]
        names = {channel.name for group in self._groups for channel in group}
        # The searched channels get their bound as a space channel of the system, whose tokens are
        # exchanged from evaluation to evaluation without building the system again.
        unbounded = tuple(
            replace(channel, capacity=None) if channel.name in names else channel
            for channel in graph.channels
        )
        self.bare = bound_channels(
            replace(graph, channels=unbounded), with_self_loops=with_self_loops
        )
        self.cycles = cycle_vector(graph)
        self._systems: dict[tuple[int, ...], _System] = {}
        self._known: dict[tuple[int | None, ...], PeriodEvaluation] = {}
        self._firings = sum(
            count * actor.phases
            for count, actor in zip(self.cycles.values(), self.bare.actors, strict=True)
        )

    @property
    def firings(self) -> int:
        """Firings of one iteration: a measure of what an evaluation costs."""
        return self._firings

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the exact period under these capacities and what holds it back."""
        evaluation = self._known.get(capacities)
        if evaluation is None:
            self.count += 1
            bounded = tuple(i for i, capacity in enumerate(capacities) if capacity is not None)
            # Which channels are bounded determines the edges; how much only determines the tokens.
            if bounded not in self._systems:
                self._systems[bounded] = self._system(bounded)
            evaluation = self._known[capacities] = self._systems[bounded].evaluate(capacities)
        return evaluation

    def obstacles(self, capacities: tuple[int, ...], is_sufficient: Sufficient) -> Obstacles:
        """Return all cycles that one evaluation meets and that make the period too long."""
        self.count += 1
        bounded = tuple(range(len(capacities)))
        if bounded not in self._systems:
            self._systems[bounded] = self._system(bounded)
        return self._systems[bounded].obstacles(capacities, is_sufficient)

    def _system(self, bounded: tuple[int, ...]) -> _System:
        """The graph with a space channel for each bounded channel."""
        owners = [index for index in bounded for _ in self._groups[index]]
        channels = [channel for index in bounded for channel in self._groups[index]]
        numbers = with_searched_spaces(self.bare, channels)
        occupied = [channel.initial_tokens for channel in channels]
        problem = PeriodicProblem(numbers, list(self.cycles.values()))
        return _System(
            problem,
            owners,
            occupied,
            self._look,
            only_live=self._only_live,
            fixed_copies=self._fixed_copies,
        )

    def is_simply_live(self) -> bool:
        """Whether the graph, with nothing searched bounded, has the simplest kind of schedule.

        Each cycle of an actor follows at equal distance. Then it is live; if not, it still may be.
        """
        return self._system(()).is_simply_live()

    def _look(self, nodes: int) -> None:
        if self._is_late and nodes > MOST_LATE:
            raise GaveUp(because(EvaluationWhy.NO_TIME, firings=nodes))
        # Short schedules end before a look at the stop would pay.
        if nodes >= LONG and not self._is_late:
            self._look_at_stop()

    def hurry(self) -> None:
        """Look at no stop any more, and give up what takes more than a moment."""
        self._is_late = True


class _System:
    """The constraints for one set of bounded channels, refined as needed.

    owners: the variable of each searched space; occupied: the initial tokens of its channel.
    """

    def __init__(
        self,
        problem: PeriodicProblem,
        owners: Sequence[int],
        occupied: Sequence[int],
        look: Callable[[int], None],
        *,
        only_live: bool,
        fixed_copies: int | None,
    ) -> None:
        self._problem = problem
        self._look = look
        self._stop = Stop(report=lambda _: look(problem.nodes(self._copies)))
        self._only_live = only_live
        self._owners = owners
        self._occupied = occupied
        self._tokens = list(problem.graph.initial_tokens)
        self._first = len(self._tokens) - len(owners)
        self._is_fixed = fixed_copies is not None
        self._copies = [min(count, fixed_copies or 1) for count in problem.cycles]
        spaces = enumerate(zip(owners, occupied, strict=True), self._first)
        self._rounds = Rounds(problem.graph, problem.cycles, dict(spaces), is_timed=not only_live)
        self._has_zero_times = 0 in problem.graph.duration

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the exact period under these capacities and what holds it back."""
        self._place(capacities)
        needs_units = self._has_zero_times or self._only_live
        # Without durations a cycle of zero time has no period, even if it has no token: unit times
        # show the deadlock.
        solution = self._refined(unit_times=True) if needs_units else None
        if solution is None or (solution.period is not None and not self._only_live):
            solution = self._refined(unit_times=False)
        rounds = self._rounds.of(solution.circuit, self._stop)
        return PeriodEvaluation(solution.period, self._holding(solution.circuit), rounds)

    def obstacles(self, capacities: tuple[int | None, ...], is_sufficient: Sufficient) -> Obstacles:
        """Return the cycles of schedules that are not fast enough, the critical cycle first.

        Cycles that only schedules with these copies have say nothing of `holding`.
        """
        self._place(capacities)
        needs_units = self._has_zero_times and not self._only_live
        for unit_times in (True, False) if needs_units else (self._only_live,):
            while True:
                self._look(self._problem.nodes(self._copies))
                solution = self._problem.solve(
                    self._copies,
                    tokens=self._tokens,
                    unit_times=unit_times,
                    with_circuits=True,
                    budget=self._stop,
                )
                period = solution.period
                if is_sufficient(period) or (unit_times and period is not None):
                    break  # with these copies; with more the period may be shorter
                if self._is_fixed or solution.is_exact:
                    return self._standing_in_the_way(
                        solution, (lambda _: True) if unit_times else is_sufficient
                    )
                require_room(self._problem, copies := self._problem.refined(solution))
                self._copies = copies
        return Obstacles((), ())

    def _standing_in_the_way(
        self, solution: PeriodicSolution, is_sufficient: Sufficient
    ) -> Obstacles:
        """Return the circuits of a solution that block or are too slow; the critical one is exact."""
        slow = [
            circuit
            for circuit in solution.circuits
            if circuit.height <= 0 or not is_sufficient(Fraction(circuit.time) / circuit.height)
        ]
        holding = [self._holding(solution.circuit)]
        cycles = dict.fromkeys(self._rounds.of(solution.circuit, self._stop))
        for circuit in slow:
            if self._is_fixed or self._problem.is_exact(solution.copies, circuit):
                holding.append(self._holding(circuit))
            cycles |= dict.fromkeys(self._rounds.of(circuit, self._stop))
        return Obstacles(tuple(dict.fromkeys(holding)), tuple(cycles))

    def _place(self, capacities: Sequence[int | None]) -> None:
        """Give each searched channel the space that its capacity leaves."""
        self._tokens[self._first :] = [
            (capacities[owner] or 0) - occupied
            for owner, occupied in zip(self._owners, self._occupied, strict=True)
        ]

    def _holding(self, circuit: Circuit) -> tuple[int, ...]:
        """Return the variables whose space lies on a circuit."""
        return tuple(
            sorted(
                {
                    self._owners[channel - self._first]
                    for channel in circuit.channels
                    if channel >= self._first
                }
            )
        )

    def is_simply_live(self) -> bool:
        """Whether there is a schedule with one copy of each actor's cycle."""
        copies = [1] * len(self._problem.cycles)
        require_room(self._problem, copies)
        # A search that is ended at once has an answer by this: what is short ends by itself.
        stop = self._stop if self._problem.nodes(copies) > SHORT else None
        solution = self._problem.solve(copies, tokens=self._tokens, unit_times=True, budget=stop)
        return solution.period is not None

    def _refined(self, *, unit_times: bool) -> PeriodicSolution:
        """Refine until exact; with unit times only whether there is a schedule has to be known."""
        while True:
            require_room(self._problem, self._copies)
            self._look(self._problem.nodes(self._copies))
            solution = self._problem.solve(
                self._copies, tokens=self._tokens, unit_times=unit_times, budget=self._stop
            )
            is_enough = self._is_fixed or solution.is_exact
            if is_enough or (unit_times and solution.period is not None):
                return solution
            # K-periodic schedules: only the actors on obstructing circuits get more copies, until
            # the period is exact.
            self._copies = self._problem.refined(solution)
