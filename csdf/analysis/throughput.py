"""Throughput and period, exactly, with the cycle that sets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from csdf.analysis.bounded import bound_channels
from csdf.analysis.components import strong_components
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.critical import SteadyTrace, critical_circuit
from csdf.analysis.execution import steady_state
from csdf.analysis.liveness import Deadlock, deadlock
from csdf.analysis.periodic import (
    Circuit,
    PeriodicProblem,
    PeriodicSolution,
    is_one_at_a_time,
)
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed, part_of

METHODS = ("auto", "periodic", "execution")
TRIAL_ITERATIONS = 64  # of an execution, before the periodic method goes on
TRIAL_SHARE = 12  # an execution is tried once the periodic method did as much work as so many


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalCycle:
    """A cycle of firings that no schedule can pass faster: the proof of a period.

    actors: the actors it visits; channels: the channels that lead from one to the next, in order,
    each named once. It holds `time` time units of firings and spans `tokens` iterations, so that
    time / tokens is the period.
    """

    actors: tuple[str, ...]
    channels: tuple[str, ...]
    time: Fraction
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """How fast a graph can run for ever.

    period: time of one iteration in the units of the user; 0 if nothing limits the graph (no cycle of
    it takes time); None if it deadlocks. critical_cycle: why it is not less; None if nothing does.
    method: what found it.
    """

    period: Fraction | None
    critical_cycle: CriticalCycle | None
    deadlock: Deadlock | None
    method: str

    @property
    def throughput(self) -> Fraction | None:
        """Iterations per time unit: 0 for a deadlock, None if unbounded."""
        if self.period is None:
            return Fraction(0)
        return 1 / self.period if self.period else None


def throughput(graph: Graph, *, method: str = "auto") -> Throughput:
    """Return the exact period of self-timed execution and the critical cycle that sets it.

    Capacities count. In a graph that is not strongly connected the slowest component decides; an
    actor on no cycle has period 0.

    method: `periodic` refines periodic schedules until one is optimal; `execution` executes the
    graph until a state recurs; `auto` begins with the first and tries the second where the graph's
    iteration is short against the work of refining. Both are exact.
    Raises InconsistentGraph; GaveUp where the execution finds no recurring state in its memory.
    Source: Bodin et al., DAC 2016; Ghamarian et al., ACSD 2006.
    """
    if method not in METHODS:
        raise CsdfError(f"method {method!r}; expected one of {', '.join(METHODS)}")
    cycles = cycle_vector(graph)
    numbers = indexed(bound_channels(graph))
    components = [
        _Component(numbers, actors, channels, [cycles[numbers.actor_names[a]] for a in actors])
        for actors, channels in _cyclic_components(numbers)
    ]
    if method == "execution":
        slowest = _slowest_by_execution(components)
    else:
        slowest = _slowest_by_refinement(components, may_execute=method == "auto")
    if slowest is not None and slowest.is_stuck:
        return Throughput(
            period=None, critical_cycle=None, deadlock=deadlock(graph), method=slowest.method
        )
    if slowest is None or not slowest.period:
        found_by = "periodic" if method == "auto" else method
        return Throughput(period=Fraction(0), critical_cycle=None, deadlock=None, method=found_by)
    return Throughput(
        period=slowest.period * graph.time_unit,
        critical_cycle=slowest.critical_cycle(graph.time_unit),
        deadlock=None,
        method=slowest.method,
    )


def _cyclic_components(graph: IndexedGraph) -> list[tuple[list[int], list[int]]]:
    """Actors and inner channels of every strongly connected component that has a channel."""
    actors = range(len(graph.phases))
    successors: list[list[int]] = [[] for _ in actors]
    for producer, consumer in zip(graph.producer, graph.consumer, strict=True):
        successors[producer].append(consumer)
    component = strong_components(len(actors), successors)
    members: dict[int, tuple[list[int], list[int]]] = {}
    for channel, (producer, consumer) in enumerate(
        zip(graph.producer, graph.consumer, strict=True)
    ):
        if component[producer] == component[consumer]:
            members.setdefault(component[producer], ([], []))[1].append(channel)
    for actor in actors:
        if component[actor] in members:
            members[component[actor]][0].append(actor)
    return [members[number] for number in sorted(members)]


class _Component:
    """The search for the period of one strongly connected component.

    bound: an upper bound of its period, None as long as there is none; period: once it is known.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        actors: Sequence[int],
        channels: Sequence[int],
        cycles: Sequence[int],
    ) -> None:
        shared = gcd(*cycles)
        self._whole, self._actors, self._channels = graph, actors, channels
        self._repeats = shared  # iterations of the component alone in one of the graph
        self._cycles = [count // shared for count in cycles]
        self.bound: Fraction | None = None
        self.period: Fraction | None = None
        self.is_stuck = False
        self.method = "periodic"
        self._circuit: Circuit | None = None
        self._solution: PeriodicSolution | None = None
        self._work = 0
        self._is_known_live = False
        self._may_try_execution = True
        self._graph = graph
        self._low = Fraction(0)
        if len(actors) == 1 and all(is_one_at_a_time(graph, channel) for channel in channels):
            self._settle_single(actors[0])
            return
        self._graph = part_of(graph, actors, channels)
        self._firings = [
            count * phases for count, phases in zip(self._cycles, self._graph.phases, strict=True)
        ]
        self._is_known_live = 0 not in self._graph.duration
        self._low = self._largest_load()

    def _settle_single(self, actor: int) -> None:
        """An actor that fires one at a time and has no other cycle."""
        graph = self._whole
        start, phases = graph.duration_start[actor], graph.phases[actor]
        busy = sum(graph.duration[start : start + phases])
        self._circuit = Circuit(
            actors=(0,), phases=(0,), channels=(0,), time=busy, height=Fraction(1)
        )
        self.bound = self.period = Fraction(self._repeats * busy)

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
        elif may_execute and self._is_execution_worth_a_try():
            self._may_try_execution = False
            if self._execute(TRIAL_ITERATIONS):
                return
            copies = self._problem.refined(self._solution)
        else:
            copies = self._problem.refined(self._solution)
        solution = self._problem.solve(copies, self._low, unit_times=not self._is_known_live)
        self._work += solution.work
        self._solution = solution
        if solution.period is not None and not self._is_known_live:
            self._is_known_live = True
            solution = self._problem.solve(copies, self._low)
            self._solution = solution
        if solution.period is not None:
            self.bound = self._repeats * solution.period
        if not self._problem.is_exact(solution):
            return
        if solution.period is None:
            self.is_stuck = True
        else:
            self.period = self.bound
            self._circuit = solution.circuit

    def _is_execution_worth_a_try(self) -> bool:
        ports = 1 + len(self._channels) // len(self._actors)
        return self._may_try_execution and self._work > TRIAL_SHARE * ports * sum(self._firings)

    def execute(self) -> None:
        """Find the period by execution alone. Raises GaveUp."""
        if self.period is None:
            self._execute(None)

    def _execute(self, limit: int | None) -> bool:
        try:
            state = steady_state(self._graph, self._firings, limit=limit)
        except GaveUp:
            if limit is None:
                raise
            return False
        self.method = "execution"
        if state is None:
            self.is_stuck = True
            return True
        self.bound = self.period = self._repeats * state.period
        firings = [count * state.iterations for count in self._firings]
        trace = SteadyTrace(self._graph, firings, state.starts, state.time)
        self._circuit = critical_circuit(trace, state.iterations)
        return True

    def critical_cycle(self, time_unit: Fraction) -> CriticalCycle:
        """The cycle that sets the period, by the names of the graph."""
        circuit = self._circuit
        if circuit is None:
            raise AssertionError("a known period has its circuit")
        # `repeats` iterations of the component alone make one of the graph; go round often enough
        # to span whole iterations.
        tokens = circuit.height / self._repeats
        names = self._whole.actor_names, self._whole.channel_names
        actors = dict.fromkeys(names[0][self._actors[actor]] for actor in circuit.actors)
        channels = dict.fromkeys(
            names[1][self._channels[channel]] for channel in circuit.channels if channel >= 0
        )
        return CriticalCycle(
            actors=tuple(actors),
            channels=tuple(channels),
            time=circuit.time * tokens.denominator * time_unit,
            tokens=tokens.numerator,
        )


def _slowest_by_execution(components: list[_Component]) -> _Component | None:
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


def _slowest_by_refinement(components: list[_Component], *, may_execute: bool) -> _Component | None:
    """Refine whatever may be the slowest until its period is known, the others only as needed."""
    while components:
        unbounded = [component for component in components if component.bound is None]
        candidate = unbounded[0] if unbounded else max(components, key=lambda one: one.bound or 0)
        if candidate.period is None and not candidate.is_stuck:
            candidate.refine(may_execute=may_execute)
        if candidate.is_stuck or (not unbounded and candidate.period is not None):
            return candidate
    return None
