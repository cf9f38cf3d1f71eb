"""Throughput and period, exactly, with the cycle that sets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from csdf.analysis.bounded import bound_channels
from csdf.analysis.component_search import ComponentSearch
from csdf.analysis.components import cyclic_components
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.critical import CriticalCycle, named_cycle
from csdf.analysis.liveness import Deadlock, deadlock
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.model.shown import Shown
from csdf.stopping import ENDS, Budget, reason_of, stop_of

Method = Literal["auto", "periodic", "execution"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput(Shown):
    """How fast a graph can run for ever.

    period: time of one iteration in the units of the user; 0 if nothing limits the graph (no cycle of
    it takes time); None if it deadlocks. critical_cycle: why it is not less; None if nothing does.
    method: what found it. is_exact: if not, the period is an upper bound: that of some schedules.
    """

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

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        period, speed, cycle = self.period, self.throughput, self.critical_cycle
        return {
            "deadlock": self.deadlock is not None,
            "blocked": [] if self.deadlock is None else self.deadlock.to_json(),
            "period": None if period is None else str(period),
            "throughput": None if speed is None else str(speed),
            "bottleneck": None if cycle is None else cycle.to_json(),
            "exact": self.is_exact,
            "method": self.method,
        }


def throughput(graph: Graph, *, method: Method = "auto", budget: Budget = None) -> Throughput:
    """Return the exact period of self-timed execution and the critical cycle that sets it.

    Capacities count. In a graph that is not strongly connected the slowest component decides; an
    actor on no cycle has period 0.

    method: `periodic` refines periodic schedules until one is optimal; `execution` executes the
    graph until a state recurs; `auto` begins with the first and tries the second where the graph's
    iteration is short against the work of refining. Both are exact.
    budget: a stop, or seconds.
    Raises InconsistentGraph; GaveUp, with the bounds proved so far, where the budget or Ctrl-C ends the
    analysis, or where
    the execution finds no recurring state in its memory.
    Source: Bodin et al., DAC 2016; Ghamarian et al., ACSD 2006.
    """
    if method not in METHODS:
        raise CsdfError(f"method {method!r}; expected one of {', '.join(METHODS)}")
    cycles = list(cycle_vector(graph).values())
    numbers = indexed(bound_channels(graph))
    stop = stop_of(budget)
    components = [
        ComponentSearch(numbers, actors, channels, [cycles[actor] for actor in actors], stop)
        for actors, channels in cyclic_components(numbers)
    ]
    try:
        slowest = _slowest(components, method)
        is_stuck = slowest is not None and slowest.is_stuck
        blocked = deadlock(graph, budget=stop) if is_stuck else None
    except ENDS as end:
        raise _gave_up(end, components, graph.time_unit) from end
    return _answer(graph, numbers, slowest, blocked, method)


def _answer(
    graph: Graph,
    numbers: IndexedGraph,
    slowest: ComponentSearch | None,
    blocked: Deadlock | None,
    method: str,
) -> Throughput:
    found_by = slowest.method if slowest is not None else method.replace("auto", "periodic")
    if slowest is not None and slowest.is_stuck:
        if blocked is None:
            raise AssertionError("two analyses disagree about a deadlock")
        return Throughput(period=None, critical_cycle=None, deadlock=blocked, method=found_by)
    if slowest is None or not slowest.period:
        return Throughput(period=Fraction(0), critical_cycle=None, deadlock=None, method=found_by)
    return Throughput(
        period=slowest.period * graph.time_unit,
        critical_cycle=_critical_cycle(numbers, slowest, graph.time_unit),
        deadlock=None,
        method=found_by,
    )


def _gave_up(
    end: BaseException, components: Sequence[ComponentSearch], time_unit: Fraction
) -> GaveUp:
    """Return the bounds of the period that are known when the search has to end."""
    low = max((component.low for component in components), default=Fraction(0)) * time_unit
    bounds = [component.bound for component in components]
    known = [bound for bound in bounds if bound is not None]
    high = max(known) * time_unit if len(known) == len(bounds) else None
    return GaveUp(reason_of(end), low=low, high=high)


def _slowest(components: Sequence[ComponentSearch], method: str) -> ComponentSearch | None:
    if method == "execution":
        return _slowest_by_execution(components)
    return _slowest_by_refinement(components, may_execute=method == "auto")


def _critical_cycle(
    graph: IndexedGraph, component: ComponentSearch, time_unit: Fraction
) -> CriticalCycle:
    """The cycle that sets the component's period, by the names of the graph."""
    circuit = component.circuit
    if circuit is None:
        raise AssertionError("a known period has its circuit")
    return named_cycle(graph, component, circuit, circuit.time * time_unit)


def _slowest_by_execution(components: Sequence[ComponentSearch]) -> ComponentSearch | None:
    """Execute every component; return the slowest, or the first that is stuck."""
    slowest = None
    for component in components:
        component.execute()
        if component.is_stuck:
            return component
        if slowest is None or (component.period or 0) > (slowest.period or 0):
            slowest = component
    if slowest is not None:
        slowest.method = "execution"
    return slowest


def _slowest_by_refinement(
    components: Sequence[ComponentSearch], *, may_execute: bool
) -> ComponentSearch | None:
    """Refine the component that may be the slowest until its period is known, others only as needed."""
    while components:
        unbounded = [component for component in components if component.bound is None]
        candidate = unbounded[0] if unbounded else max(components, key=lambda one: one.bound or 0)
        if candidate.period is not None:
            return candidate
        candidate.refine(may_execute=may_execute)
        if candidate.is_stuck:
            return candidate
    return None
