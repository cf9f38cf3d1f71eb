"""Period with changed durations and tokens: K-periodic solutions that begin at nearby solutions.

The first schedule of a component is solved from scratch; each later schedule begins with its start
times and policy, and is therefore faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.components import Component, cyclic_components
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.critical import CriticalCycle, named_cycle
from csdf.analysis.periodic import Circuit, PeriodicProblem, PeriodicSolution, require_room
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed, is_ordered, part_of
from csdf.time_limit import Budget, Stop, stop_of

# All firings of an iteration are expanded immediately if they are at most FULL, and at most FULL_SHARE
# times the number of phases.
FULL = 20_000
FULL_SHARE = 8


class VaryingComponent:
    """A strongly connected component, with as many copies in its schedules as needed so far."""

    def __init__(self, graph: IndexedGraph, component: Component) -> None:
        self.component = component
        part = part_of(graph, component.actors, component.channels)
        self.problem = PeriodicProblem(part, component.cycles, has_one_timing=False)
        is_short = self.problem.nodes(component.cycles) <= min(FULL, FULL_SHARE * sum(part.phases))
        self.copies = list(component.cycles) if is_short else [1] * len(component.cycles)
        self._places = [
            graph.duration_start[actor] + phase
            for actor in component.actors
            for phase in range(graph.phases[actor])
        ]
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], PeriodicSolution] = {}
        self._nearby: PeriodicSolution | None = None

    def under(self, graph: IndexedGraph) -> VaryingComponent:
        """Return this component with other tokens, with the copies and the nearby solution so far."""
        copy = VaryingComponent(graph, self.component)
        copy.copies, copy._nearby = self.copies, self._nearby
        return copy

    def solution(
        self, durations: Sequence[int], tokens: Sequence[int], stop: Stop
    ) -> PeriodicSolution:
        """Return the exact solution; durations and tokens are indexed as in the whole graph."""
        own_times = tuple(durations[index] for index in self._places)
        own_tokens = tuple(tokens[channel] for channel in self.component.channels)
        key = (own_times, own_tokens)
        if key not in self._known:
            self._known = {key: self._refined(own_times, own_tokens, stop)}
        return self._known[key]

    def _refined(
        self, durations: Sequence[int], tokens: Sequence[int], stop: Stop
    ) -> PeriodicSolution:
        while True:
            stop.look()
            require_room(self.problem, self.copies)
            solution = self.problem.solve(
                self.copies, tokens=tokens, durations=durations, nearby=self._nearby, budget=stop
            )
            if self._nearby is None and solution.period is not None:
                # Always the first solution, so that answers do not depend on the order of queries.
                self._nearby = solution
            if solution.is_exact:
                return solution
            self.copies, self._nearby = self.problem.refined(solution), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Critical:
    """A period, and its critical cycle within a component, or None.

    period: in units of the user, None for a deadlock. time: of the firings of the circuit.
    """

    period: Fraction | None
    time: Fraction
    component: Component | None
    circuit: Circuit | None


class VaryingGraph:
    """A graph that is analysed with many durations and tokens; capacities are channels.

    Durations are in units of the user; their indices count the phases of all actors, actor by actor.
    The channels of `numbers` are the channels of the graph, each bounded channel followed by its
    space.
    """

    def __init__(self, graph: Graph, budget: Budget = None) -> None:
        self.stop = stop_of(budget)
        self.numbers = indexed(bound_channels(graph))
        self.number = {actor.name: number for number, actor in enumerate(graph.actors)}
        self.time_unit = graph.time_unit
        cycles = list(cycle_vector(graph).values())
        self.components = [
            VaryingComponent(self.numbers, component)
            for component in cyclic_components(self.numbers, cycles)
        ]

    @cached_property
    def as_given(self) -> Critical:
        """The period with the durations and tokens of the graph, and the critical cycle."""
        return self.critical({})

    def critical(
        self, longer: Mapping[int, Fraction], tokens: Sequence[int] | None = None
    ) -> Critical:
        """Return the exact period and a critical cycle.

        longer: times added to durations, by their indices; negative times shorten durations.
        """
        scale = lcm(*((time / self.time_unit).denominator for time in longer.values()))
        times = [time * scale for time in self.numbers.duration]
        for index, time in longer.items():
            times[index] += int(time / self.time_unit * scale)
        held = self.numbers.initial_tokens if tokens is None else tokens
        return self._critical(times, held, self.time_unit / scale, self.components)

    def only(self, durations: Mapping[int, Fraction]) -> Critical:
        """Return the period and a critical cycle if all other durations are zero."""
        scale = lcm(*(time.denominator for time in durations.values()))
        times = [0] * len(self.numbers.duration)
        for index, time in durations.items():
            times[index] = int(time * scale)
        held = self.numbers.initial_tokens
        return self._critical(times, held, Fraction(1, scale), self.components)

    def with_more_tokens(self, channel: int, more: int) -> Critical:
        """Return the exact period and a critical cycle with more tokens on a channel."""
        tokens = list(self.numbers.initial_tokens)
        tokens[channel] += more
        changed = self.numbers._replace(initial_tokens=tokens)
        actor, components = self.numbers.producer[channel], self.components
        if _keeps_order(self.numbers, actor) and not _keeps_order(changed, actor):
            components = [
                component.under(changed) if channel in component.component.channels else component
                for component in components
            ]
        return self._critical(self.numbers.duration, tokens, self.time_unit, components)

    def _critical(
        self,
        times: Sequence[int],
        tokens: Sequence[int],
        unit: Fraction,
        components: Sequence[VaryingComponent],
    ) -> Critical:
        nothing = Fraction(0)
        slowest = Critical(period=nothing, time=nothing, component=None, circuit=None)
        for varying in components:
            solution = varying.solution(times, tokens, self.stop)
            period = None
            if solution.period is not None:
                period = solution.period * varying.component.repeats * unit
            if slowest.component is None or period is None or period > (slowest.period or 0):
                time = solution.circuit.time * unit
                slowest = Critical(
                    period=period, time=time, component=varying.component, circuit=solution.circuit
                )
            if period is None:
                break
        return slowest

    def named(self, critical: Critical) -> CriticalCycle | None:
        """Return the cycle by the names of the graph, its time where it was found; None without one."""
        if critical.component is None or critical.circuit is None:
            return None
        return named_cycle(self.numbers, critical.component, critical.circuit, critical.time)

    def duration_indices(self, critical: Critical) -> list[int]:
        """Return the index of the duration of each firing on the cycle whose time counts."""
        component, circuit = critical.component, critical.circuit
        if component is None or circuit is None:
            return []
        return [
            self.numbers.duration_start[component.actors[actor]] + phase
            for actor, phase, channel in zip(
                circuit.actors, circuit.phases, circuit.channels, strict=True
            )
            if channel >= 0
        ]


def _keeps_order(graph: IndexedGraph, actor: int) -> bool:
    """Whether no firing of the actor overtakes another, whatever its durations are."""
    return is_ordered(graph, actor, has_one_timing=False)
