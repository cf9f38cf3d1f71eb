"""Exact throughput with its critical cycle: K-periodic refinement, or self-timed state space.

Each method narrows a lower and an upper bound of the period of each strongly connected component. The
period of the graph is the maximum over its components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, get_args

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.components import Component, cyclic_components
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.critical import CriticalCycle, critical_circuit, named_cycle
from csdf.analysis.execution import ExecutionWhy, fits, steady_state
from csdf.analysis.liveness import Deadlock, Executed, deadlock
from csdf.analysis.periodic import Circuit, PeriodicProblem, PeriodicSolution, require_room
from csdf.arguments import public
from csdf.errors import CsdfError, GaveUp, NoRecurrence
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed, is_one_at_a_time, part_of
from csdf.status import because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of

Method = Literal["auto", "periodic", "execution"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput(Executed):
    """The throughput of a graph.

    period: long-run time of one iteration in units of the user; 0 if no cycle of the graph takes time;
    None for a deadlock. critical_cycle: the proof that the period is not shorter; None for period 0
    and for a deadlock. method: `periodic` or `execution`. is_exact: if false, the period is an upper
    bound.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "deadlock=is_deadlocked", "blocked", "period", "throughput", "critical_cycle",
        "exact", "method",
    )  # fmt: skip

    period: Fraction | None
    critical_cycle: CriticalCycle | None
    deadlock: Deadlock | None
    method: str
    is_exact: bool = True

    @property
    def throughput(self) -> Fraction | None:
        """Iterations per time unit: 0 for a deadlock, None if unbounded."""
        if self.period is None:
            return Fraction(0)
        return 1 / self.period if self.period else None


@public
def throughput(graph: Graph, *, method: Method = "auto", budget: Budget = None) -> Throughput:
    """Return the exact period of self-timed execution and the critical cycle that determines it.

    Capacities of the graph are respected. In a graph that is not strongly connected the slowest
    component decides; an actor on no cycle has period 0.

    method: `periodic` refines periodic schedules until one is optimal; `execution` executes the graph
    until a state recurs; `auto` begins with `periodic`, and tries `execution` if an iteration is short
    compared with the refinement. Both are exact. budget: a stop, or seconds.

    Raises InconsistentGraph; GaveUp, with the bounds so far, if the budget or Ctrl-C ends the
    analysis, or if no recurring state is found within the memory. Source: Bodin et al., DAC 2016;
    Ghamarian et al., ACSD 2006.
    """
    if method not in METHODS:
        raise CsdfError(f"method {method!r}; expected one of {', '.join(METHODS)}")
    cycles = list(cycle_vector(graph).values())
    numbers = indexed(bound_channels(graph))
    stop = stop_of(budget)
    searches = [
        ComponentSearch(numbers, component, stop)
        for component in cyclic_components(numbers, cycles)
    ]
    try:
        if method == "execution":
            slowest = _slowest_by_execution(searches)
        else:
            slowest = _slowest_by_refinement(searches, may_execute=method == "auto")
        blocked = deadlock(graph, budget=stop) if slowest is not None and slowest.is_stuck else None
    except ENDS as end:
        bounds = [search.bound for search in searches if search.bound is not None]
        low = max((search.low for search in searches), default=Fraction(0)) * graph.time_unit
        high = max(bounds) * graph.time_unit if len(bounds) == len(searches) else None
        raise GaveUp(reason_of(end), low=low, high=high) from end
    found_by = slowest.method if slowest is not None else method.replace("auto", "periodic")
    if slowest is not None and slowest.is_stuck:
        if blocked is None:
            raise AssertionError("two analyses disagree about a deadlock")
        return Throughput(period=None, critical_cycle=None, deadlock=blocked, method=found_by)
    if slowest is None or not slowest.period:
        return Throughput(period=Fraction(0), critical_cycle=None, deadlock=None, method=found_by)
    if slowest.circuit is None:
        raise AssertionError("a known period has its circuit")
    time = slowest.circuit.time * graph.time_unit
    return Throughput(
        period=slowest.period * graph.time_unit,
        critical_cycle=named_cycle(numbers, slowest.component, slowest.circuit, time),
        deadlock=None,
        method=found_by,
    )


def component_periods(
    graph: IndexedGraph, cycles: Sequence[int], stop: Stop
) -> dict[int, Fraction]:
    """Return the period of the strongly connected component of each actor that is on a cycle.

    graph: live; cycles: of each actor in one iteration, for which the periods are. Raises GaveUp.
    """
    periods = {}
    for component in cyclic_components(graph, cycles):
        search = ComponentSearch(graph, component, stop)
        _slowest_by_refinement([search], may_execute=True)
        if search.period is None:
            raise AssertionError("a component of a live graph is stuck")
        periods.update(dict.fromkeys(component.actors, search.period))
    return periods


def _slowest_by_execution(searches: Sequence[ComponentSearch]) -> ComponentSearch | None:
    """Execute every component; return the slowest, or the first that is stuck."""
    slowest = None
    for search in searches:
        search.execute()
        if search.is_stuck:
            return search
        if slowest is None or (search.period or 0) > (slowest.period or 0):
            slowest = search
    if slowest is not None:
        slowest.method = "execution"
    return slowest


def _slowest_by_refinement(
    searches: Sequence[ComponentSearch], *, may_execute: bool
) -> ComponentSearch | None:
    """Refine the component that may be the slowest until its period is known, others only as needed."""
    while searches:
        unbounded = [search for search in searches if search.bound is None]
        candidate = (
            unbounded[0] if unbounded else max(searches, key=lambda search: search.bound or 0)
        )
        if candidate.period is not None:
            return candidate
        # Lazy maximum: a component whose upper bound is below the
        # largest known period is never solved exactly.
        candidate.refine(may_execute=may_execute)
        if candidate.is_stuck:
            return candidate
    return None


TRIAL_ITERATIONS = 64  # of an execution, before the periodic method goes on
# An execution is tried once the periodic method did as much work as this number of iterations.
TRIAL_SHARE = 12
# After FIRST_SCHEDULES schedules, all firings of an iteration are expanded at once, if an actor fires
# at most MEAN_REPETITIONS times in it on average, and the schedule has at most LARGEST_FULL_SCHEDULE
# firings. A random graph of 10,000 actors, q 1 to 12, took 156 schedules and 14 s; all firings at once
# took 0.75 s. Few graphs take four schedules. Execution is quicker if actors fire hundreds of times.
FIRST_SCHEDULES = 3
MEAN_REPETITIONS = 12
LARGEST_FULL_SCHEDULE = 1_000_000
# Phases of all copies from which on an execution is tried too, before a schedule needs gigabytes.
LARGE_SCHEDULE = 300_000
LONGEST_ITERATION = 500_000_000  # firings to execute before a state can recur: some minutes
LONGEST_PLAIN_ITERATION = 20_000_000  # the limit where 64 bits do not hold the numbers


class ComponentSearch:
    """The search for the period of one strongly connected component.

    low, bound: lower and upper bound of the period, for an iteration of the graph; bound is None
    before the first schedule. period: once it is known; circuit: then its critical cycle, in the
    numbers and iterations of the component.
    """

    def __init__(self, graph: IndexedGraph, component: Component, stop: Stop) -> None:
        self.component, self._stop = component, stop
        self.bound: Fraction | None = None
        self.period: Fraction | None = None
        self.is_stuck = False
        self.method = "periodic"
        self.circuit: Circuit | None = None
        self._solution: PeriodicSolution | None = None
        self._schedules = 0
        self._work = 0
        self._may_try_execution = True
        self._graph = part = part_of(graph, component.actors, component.channels)
        self._firings = list(map(int.__mul__, component.cycles, part.phases))
        self._is_known_live = 0 not in part.duration
        # The busiest actor among those that fire one at a time: no period is shorter.
        single = [
            channel for channel in range(len(part.producer)) if is_one_at_a_time(part, channel)
        ]
        busy = [sum(part.durations(part.producer[channel])) for channel in single]
        loads = [
            component.cycles[part.producer[channel]] * time
            for channel, time in zip(single, busy, strict=True)
        ]
        self._own_low = Fraction(max(loads, default=0))
        self.low = component.repeats * self._own_low
        if len(component.actors) == 1 and len(single) == len(component.channels):
            self.circuit = Circuit(actors=(0,), channels=(0,), time=busy[0], height=Fraction(1))
            self.bound = self.period = self.low

    def refine(self, *, may_execute: bool) -> None:
        """Lower the upper bound, or determine the period or a deadlock."""
        if self._solution is None:
            self._problem = PeriodicProblem(self._graph, self.component.cycles)
            copies = [1] * len(self._graph.phases)
        else:
            copies = self._refined_copies(self._solution)
        if may_execute and self._is_execution_worth_a_try(copies):
            self._may_try_execution = False
            if self._execute(TRIAL_ITERATIONS):
                return
        require_room(self._problem, copies)
        self._stop.look()
        solution = self._problem.solve(
            copies, self._own_low, unit_times=not self._is_known_live, budget=self._stop
        )
        self._schedules += 1
        self._work += solution.work
        self._solution = solution
        if solution.period is not None and not self._is_known_live:
            self._is_known_live = True
            solution = self._problem.solve(copies, self._own_low, budget=self._stop)
            self._solution = solution
        if solution.period is not None:
            self.bound = self.component.repeats * solution.period
        if not solution.is_exact:
            return
        if solution.period is None:
            self.is_stuck = True
        else:
            self.period = self.bound
            self.circuit = solution.circuit

    def _refined_copies(self, solution: PeriodicSolution) -> list[int]:
        """Return the copies of the next schedule: as many as critical cycles need, or all."""
        if self._schedules >= FIRST_SCHEDULES and self._may_expand_all:
            return list(self.component.cycles)
        return self._problem.refined(solution)

    @property
    def _may_expand_all(self) -> bool:
        maximum = min(MEAN_REPETITIONS * sum(self._graph.phases), LARGEST_FULL_SCHEDULE)
        return sum(self._firings) <= maximum

    def _is_execution_worth_a_try(self, copies: Sequence[int]) -> bool:
        """Whether the next step of refining is about as costly as a few iterations."""
        ports = 1 + len(self._graph.producer) // len(self._graph.phases)
        nodes = self._problem.nodes(copies)
        is_long = self._work > TRIAL_SHARE * ports * sum(self._firings)
        is_short = sum(self._firings) <= self._longest_iteration
        is_costly = is_long or nodes > LARGE_SCHEDULE
        return self._may_try_execution and is_short and is_costly and not self._may_expand_all

    @property
    def _longest_iteration(self) -> int:
        is_within = fits(self._graph, self._firings)
        return LONGEST_ITERATION if is_within else LONGEST_PLAIN_ITERATION

    def execute(self) -> None:
        """Find the period by execution alone. Raises GaveUp."""
        if self.period is not None:
            return
        firings, maximum = sum(self._firings), self._longest_iteration
        if firings > maximum:
            raise GaveUp(because(ExecutionWhy.TOO_LONG, firings=firings, most=maximum))
        self._execute(None)

    def _narrow(self, low: Fraction, high: Fraction) -> None:
        """Take bounds of the component's own period."""
        repeats = self.component.repeats
        self._own_low = max(self._own_low, low)
        self.low = repeats * self._own_low
        if self.bound is None or repeats * high < self.bound:
            self.bound = repeats * high

    def _execute(self, limit: int | None) -> bool:
        """Execute at most this many iterations; return whether a state recurred or nothing can fire."""
        try:
            state = steady_state(
                self._graph, self._firings, limit=limit, budget=self._stop, on_bounds=self._narrow
            )
        except NoRecurrence:
            if limit is None:
                raise
            return False
        self.method = "execution"
        if state is None:
            self.is_stuck = True
            return True
        self.bound = self.period = self.component.repeats * state.period
        if state.time:
            self.circuit = critical_circuit(self._graph, state)
        return True
