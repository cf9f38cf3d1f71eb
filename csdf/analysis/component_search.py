"""The period of one strongly connected component: bounds that close in on it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd

from csdf.analysis.critical import critical_circuit
from csdf.analysis.execution import ExecutionWhy, fits
from csdf.analysis.period.periodic import Circuit, PeriodicProblem, PeriodicSolution
from csdf.analysis.schedule_room import require_room
from csdf.analysis.steady import steady_state
from csdf.errors import GaveUp, NoRecurrence
from csdf.model.indexed import IndexedGraph, is_one_at_a_time, part_of
from csdf.outcome import because
from csdf.stopping import Stop

TRIAL_ITERATIONS = 64  # of an execution, before the periodic method goes on
TRIAL_SHARE = 12  # an execution is tried once the periodic method did as much work as so many
LARGE_SCHEDULE = 300_000  # or before it starts to need gigabytes: phases of all copies
LONGEST_ITERATION = 500_000_000  # firings to execute before a state can recur: some minutes,
LONGEST_PLAIN_ITERATION = 20_000_000  # or so many where 64 bits do not hold the numbers


class ComponentSearch:
    """The search for the period of one strongly connected component.

    actors, channels: of the whole graph. repeats: iterations of the component alone in one of the
    graph; low, bound: lower and upper bound of the period, in iterations of the graph, the upper None
    as long as there is none; period: once it is known; circuit: then what sets it, in the numbers and
    iterations of the component alone.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        actors: Sequence[int],
        channels: Sequence[int],
        cycles: Sequence[int],
        stop: Stop,
    ) -> None:
        shared = gcd(*cycles)
        self._whole, self.actors, self.channels = graph, actors, channels
        self._stop = stop
        self.repeats = shared
        self._cycles = [count // shared for count in cycles]
        self.bound: Fraction | None = None
        self.period: Fraction | None = None
        self.is_stuck = False
        self.method = "periodic"
        self.circuit: Circuit | None = None
        self._solution: PeriodicSolution | None = None
        self._work = 0
        self._is_known_live = False
        self._may_try_execution = True
        self._graph = graph
        self._own_low = self.low = Fraction(0)
        if len(actors) == 1 and all(is_one_at_a_time(graph, channel) for channel in channels):
            self._settle_single(actors[0])
            return
        self._graph = part_of(graph, actors, channels)
        self._firings = [
            count * phases for count, phases in zip(self._cycles, self._graph.phases, strict=True)
        ]
        self._is_known_live = 0 not in self._graph.duration
        self._own_low = self._largest_load()
        self.low = self.repeats * self._own_low

    def _settle_single(self, actor: int) -> None:
        """An actor that fires one at a time and has no other cycle."""
        graph = self._whole
        start, phases = graph.duration_start[actor], graph.phases[actor]
        busy = sum(graph.duration[start : start + phases])
        self.circuit = Circuit(actors=(0,), channels=(0,), time=busy, height=Fraction(1))
        self.low = self.bound = self.period = Fraction(self.repeats * busy)

    def _largest_load(self) -> Fraction:
        """The busiest actor among those that fire one at a time: no period is shorter."""
        graph = self._graph
        loads = [Fraction(0)]
        for channel, actor in enumerate(graph.producer):
            if is_one_at_a_time(graph, channel):
                start = graph.duration_start[actor]
                cycle_time = sum(graph.duration[start : start + graph.phases[actor]])
                loads.append(Fraction(self._cycles[actor] * cycle_time))
        return max(loads)

    def refine(self, *, may_execute: bool) -> None:
        """Make the bound smaller, or find the period, or that there is none."""
        if self._solution is None:
            self._problem = PeriodicProblem(self._graph, self._cycles)
            copies = [1] * len(self._cycles)
        else:
            copies = self._problem.refined(self._solution)
        if may_execute and self._is_execution_worth_a_try(copies):
            self._may_try_execution = False
            if self._execute(TRIAL_ITERATIONS):
                return
        require_room(self._problem, copies)
        self._stop.look()
        solution = self._problem.solve(
            copies, self._own_low, unit_times=not self._is_known_live, budget=self._stop
        )
        self._work += solution.work
        self._solution = solution
        if solution.period is not None and not self._is_known_live:
            self._is_known_live = True
            solution = self._problem.solve(copies, self._own_low, budget=self._stop)
            self._solution = solution
        if solution.period is not None:
            self.bound = self.repeats * solution.period
        if not solution.is_exact:
            return
        if solution.period is None:
            self.is_stuck = True
        else:
            self.period = self.bound
            self.circuit = solution.circuit

    def _is_execution_worth_a_try(self, copies: Sequence[int]) -> bool:
        """Whether the next step of refining is about as costly as a few iterations."""
        ports = 1 + len(self.channels) // len(self.actors)
        nodes = self._problem.nodes(copies)
        is_long = self._work > TRIAL_SHARE * ports * sum(self._firings)
        is_short = sum(self._firings) <= self._longest_iteration
        return self._may_try_execution and is_short and (is_long or nodes > LARGE_SCHEDULE)

    @property
    def _longest_iteration(self) -> int:
        is_within = fits(self._graph, self._firings)
        return LONGEST_ITERATION if is_within else LONGEST_PLAIN_ITERATION

    def execute(self) -> None:
        """Find the period by execution alone. Raises GaveUp."""
        if self.period is not None:
            return
        firings, most = sum(self._firings), self._longest_iteration
        if firings > most:
            raise GaveUp(because(ExecutionWhy.TOO_LONG, firings=firings, most=most))
        self._execute(None)

    def _narrow(self, low: Fraction, high: Fraction) -> None:
        """Take bounds of the component's own period."""
        self._own_low = max(self._own_low, low)
        self.low = self.repeats * self._own_low
        if self.bound is None or self.repeats * high < self.bound:
            self.bound = self.repeats * high

    def _execute(self, limit: int | None) -> bool:
        try:
            state = steady_state(
                self._graph,
                self._firings,
                limit=limit,
                budget=self._stop,
                on_bounds=self._narrow,
            )
        except NoRecurrence:
            if limit is None:
                raise
            return False
        self.method = "execution"
        if state is None:
            self.is_stuck = True
            return True
        self.bound = self.period = self.repeats * state.period
        if state.time:
            self.circuit = critical_circuit(self._graph, state)
        return True
