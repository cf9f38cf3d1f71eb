"""Exact periods of storage distributions, and the reason why each period is not shorter.

A distribution is a tuple of capacities, one for each `Variable`. It is evaluated as a graph in
which a space channel bounds each searched channel. The reason is the critical cycle: as long as the
searched spaces on it keep their capacities, the period cannot become shorter. `learned_bounds` derives
stronger constraints from the same cycle: a `DependencyCycle` for each simple cycle within it.

Three notions have "cycle" in their name. A phase cycle is a firing of each phase of an actor, and
`copies` counts phase cycles of a periodic schedule. A `Circuit` is a cycle of the constraint graph of
this schedule, whose nodes are phases of copies. A `DependencyCycle` is a constraint on capacities.
"""

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
from csdf.search.learned_bounds import CycleDecomposition, DependencyCycle, Sufficient
from csdf.search.variables import Variable, with_searched_spaces
from csdf.status import Why, because
from csdf.time_limit import Stop

# Sizes of periodic schedules, in phases of all copies.
LARGEST_LATE = 20_000  # still computed after the stop has ended the search
LARGEST_WITHOUT_STOP = 200_000  # some tenths of a second
SMALLEST_WITH_STOP = 1_000  # a shorter schedule ends before a look at the stop would pay


class EvaluationWhy(Why):
    """Why the period of a distribution is not known."""

    NO_TIME = "no time for a schedule of {firings} firings after the end of the search"


class PeriodEvaluation(NamedTuple):
    """The period of a distribution, None for a deadlock, and the reason why it is not shorter.

    holding: positions of the variables with space on the critical cycle. No distribution has a shorter
    period unless one of them gets a larger capacity. cycles: the linear constraints of the critical
    cycle; empty if an actor on it has several phases. minimums: pairs of a variable and the smallest
    capacity at which its storage has a longer read delay (FIFOs of planners.fifo.hls); the reason
    holds for distributions with at least these capacities.
    """

    period: Fraction | None
    holding: tuple[int, ...]
    cycles: tuple[DependencyCycle, ...] = ()
    minimums: tuple[tuple[int, int], ...] = ()


class Obstacles(NamedTuple):
    """Why the period of capacities is too long; both tuples are empty if it is short enough.

    holding: groups of variables; in each group at least one capacity has to grow. cycles: linear
    constraints of the slow cycles whose actors have one phase each.
    """

    holding: tuple[tuple[int, ...], ...]
    cycles: tuple[DependencyCycle, ...]


class Evaluates(Protocol):
    """Evaluates the storage distributions of a search: of a graph, or of a mapped graph.

    count: distributions evaluated so far; firings: of one iteration.
    """

    @property
    def count(self) -> int: ...  # noqa: D102

    @property
    def firings(self) -> int: ...  # noqa: D102

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation: ...  # noqa: D102


class CapacityEvaluator:
    """Computes the exact periods of one graph for many distributions, and caches them.

    Capacities are tuples in the order of the variables, None for an unbounded channel. Channels without
    a variable keep their capacity in the graph; self-loops do so only with `with_self_loops`.
    only_live: only deadlocks are detected, which is faster; a period that is not None has no other
    meaning. copies: only schedules in which this many phase cycles of each actor repeat are considered.
    cycles: phase cycles of each actor in an iteration.
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
        """Firings of one iteration, which measure the cost of an evaluation."""
        return self._firings

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the exact period with these capacities, and its critical cycle."""
        evaluation = self._known.get(capacities)
        if evaluation is None:
            self.count += 1
            bounded = tuple(i for i, capacity in enumerate(capacities) if capacity is not None)
            # The bounded channels determine the edges; their capacities only determine the tokens.
            if bounded not in self._systems:
                self._systems[bounded] = self._system(bounded)
            evaluation = self._known[capacities] = self._systems[bounded].evaluate(capacities)
        return evaluation

    def obstacles(self, capacities: tuple[int, ...], is_sufficient: Sufficient) -> Obstacles:
        """Return the cycles of one evaluation that make the period insufficient."""
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
            self._before_schedule,
            only_live=self._only_live,
            fixed_copies=self._fixed_copies,
        )

    def is_simply_live(self) -> bool:
        """Whether the graph without searched bounds has a 1-periodic schedule.

        In such a schedule the phase cycles of each actor are equidistant. The graph is live if it has
        a 1-periodic schedule; without one it may be live or not.
        """
        return self._system(()).is_simply_live()

    def _before_schedule(self, nodes: int) -> None:
        """Ask the stop, and refuse large schedules after its end. nodes: phases of all copies."""
        if self._is_late and nodes > LARGEST_LATE:
            raise GaveUp(because(EvaluationWhy.NO_TIME, firings=nodes))
        if nodes >= SMALLEST_WITH_STOP and not self._is_late:
            self._look_at_stop()

    def hurry(self) -> None:
        """Ignore the stop from now on, and refuse schedules of more than LARGEST_LATE phases."""
        self._is_late = True


class _System:
    """The K-periodic constraints for one set of bounded channels, with as many copies as needed so far.

    owners: the variable of each space channel; occupied: the initial tokens of the bounded channel.
    before_schedule: called before and during each schedule, with its size in phases of all copies.
    """

    def __init__(
        self,
        problem: PeriodicProblem,
        owners: Sequence[int],
        occupied: Sequence[int],
        before_schedule: Callable[[int], None],
        *,
        only_live: bool,
        fixed_copies: int | None,
    ) -> None:
        self._problem = problem
        self._before_schedule = before_schedule
        self._stop = Stop(report=lambda _: self._look())
        self._only_live = only_live
        self._owners = owners
        self._occupied = occupied
        self._tokens = list(problem.graph.initial_tokens)
        self._first = len(self._tokens) - len(owners)
        self._is_fixed = fixed_copies is not None
        self._copies = [min(count, fixed_copies or 1) for count in problem.cycles]
        spaces = enumerate(zip(owners, occupied, strict=True), self._first)
        self._decomposition = CycleDecomposition(
            problem.graph, problem.cycles, dict(spaces), is_timed=not only_live
        )
        self._has_zero_times = 0 in problem.graph.duration

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the exact period with these capacities, and its critical cycle."""
        self._set_capacities(capacities)
        needs_units = self._has_zero_times or self._only_live
        # A cycle of zero time constrains no period, even without a token: unit times detect its
        # deadlock. Their period is used only to detect a deadlock, or liveness.
        solution = self._refined(unit_times=True) if needs_units else None
        if solution is None or (solution.period is not None and not self._only_live):
            solution = self._refined(unit_times=False)
        cycles = self._decomposition.of(solution.circuit, self._stop)
        return PeriodEvaluation(solution.period, self._holding(solution.circuit), cycles)

    def obstacles(self, capacities: tuple[int | None, ...], is_sufficient: Sufficient) -> Obstacles:
        """Return the slow cycles of K-periodic schedules, the critical cycle first.

        Cycles that limit only schedules with the present copies do not enter `holding`.
        """
        self._set_capacities(capacities)
        # Deadlocks of cycles of zero time appear with unit times only, before any period.
        needs_both = self._has_zero_times and not self._only_live
        for unit_times in (True, False) if needs_both else (self._only_live,):
            while True:
                self._look()
                solution = self._problem.solve(
                    self._copies,
                    tokens=self._tokens,
                    unit_times=unit_times,
                    with_circuits=True,
                    budget=self._stop,
                )
                period = solution.period
                # More copies never make the period longer, so that a sufficient schedule settles it.
                # With unit times, any schedule proves that there is no deadlock.
                if is_sufficient(period) or (unit_times and period is not None):
                    break
                if self._is_fixed or solution.is_exact:
                    # With unit times, a cycle is slow only if it has a deadlock.
                    return self._slow_cycles(
                        solution, (lambda _: True) if unit_times else is_sufficient
                    )
                require_room(self._problem, copies := self._problem.refined(solution))
                self._copies = copies
        return Obstacles((), ())

    def _slow_cycles(self, solution: PeriodicSolution, is_sufficient: Sufficient) -> Obstacles:
        """Return the circuits of an exact solution that deadlock or are too slow."""
        # The height of a circuit is the sum of its tokens, each channel in iterations: the number of
        # iterations by which a firing precedes the firing that it waits for. At 0 or less the firing
        # waits for itself: a deadlock.
        slow = [
            circuit
            for circuit in solution.circuits
            if circuit.height <= 0 or not is_sufficient(Fraction(circuit.time) / circuit.height)
        ]
        holding = [self._holding(solution.circuit)]
        cycles = dict.fromkeys(self._decomposition.of(solution.circuit, self._stop))
        for circuit in slow:
            if self._is_fixed or self._problem.is_exact(solution.copies, circuit):
                holding.append(self._holding(circuit))
            cycles |= dict.fromkeys(self._decomposition.of(circuit, self._stop))
        return Obstacles(tuple(dict.fromkeys(holding)), tuple(cycles))

    def _look(self) -> None:
        self._before_schedule(self._problem.nodes(self._copies))

    def _set_capacities(self, capacities: Sequence[int | None]) -> None:
        """Set the tokens of each space channel: the capacity less the initial tokens of its channel."""
        self._tokens[self._first :] = [
            (capacities[owner] or 0) - occupied
            for owner, occupied in zip(self._owners, self._occupied, strict=True)
        ]

    def _holding(self, circuit: Circuit) -> tuple[int, ...]:
        """Return the variables with space on a circuit."""
        spaces = {channel - self._first for channel in circuit.channels if channel >= self._first}
        return tuple(sorted({self._owners[space] for space in spaces}))

    def is_simply_live(self) -> bool:
        """Whether there is a schedule with one copy of the phase cycle of each actor."""
        copies = [1] * len(self._problem.cycles)
        require_room(self._problem, copies)
        # Without the stop, even a search that is interrupted immediately has this answer.
        is_short = self._problem.nodes(copies) <= LARGEST_WITHOUT_STOP
        stop = None if is_short else self._stop
        solution = self._problem.solve(copies, tokens=self._tokens, unit_times=True, budget=stop)
        return solution.period is not None

    def _refined(self, *, unit_times: bool) -> PeriodicSolution:
        """Add copies until the period is exact; with unit times, until there is any schedule."""
        while True:
            require_room(self._problem, self._copies)
            self._look()
            solution = self._problem.solve(
                self._copies, tokens=self._tokens, unit_times=unit_times, budget=self._stop
            )
            is_enough = self._is_fixed or solution.is_exact
            if is_enough or (unit_times and solution.period is not None):
                return solution
            # K-periodic schedules: more copies for the actors on obstructing circuits only.
            self._copies = self._problem.refined(solution)
