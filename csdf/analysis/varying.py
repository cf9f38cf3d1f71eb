"""The period of one graph under other durations and tokens, again and again, and what sets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.components import cyclic_components
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.periodic import Circuit, PeriodicProblem, PeriodicSolution, require_room
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed, is_ordered, part_of
from csdf.time_limit import Budget, Stop, stop_of

FULL = 20_000  # firings of an iteration that are all copied at once,
FULL_SHARE = 8  # if they are no more than so many times the phases


class VaryingComponent:
    """A strongly connected component, its schedules refined as far as was needed so far.

    actors, channels: of the whole graph. repeats: iterations of it alone in one of the graph.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        actors: Sequence[int],
        channels: Sequence[int],
        cycles: Sequence[int],
    ) -> None:
        self.actors, self.channels = actors, channels
        self._cycles = cycles
        self.repeats = gcd(*(cycles[actor] for actor in actors))
        own = [cycles[actor] // self.repeats for actor in actors]
        part = part_of(graph, actors, channels)
        self.problem = PeriodicProblem(part, own, has_one_timing=False)
        self.copies = [1] * len(own)
        firings, phases = self.problem.nodes(own), sum(part.phases)
        if firings <= min(FULL, FULL_SHARE * phases):
            self.copies = own
        starts = graph.duration_start
        self._places = [
            starts[actor] + phase for actor in actors for phase in range(graph.phases[actor])
        ]
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], PeriodicSolution] = {}
        self._nearby: PeriodicSolution | None = None

    def under(self, graph: IndexedGraph) -> VaryingComponent:
        """Return this component of the same graph with other tokens, its schedules as refined."""
        other = VaryingComponent(graph, self.actors, self.channels, self._cycles)
        other.copies, other._nearby = self.copies, self._nearby
        return other

    def solution(
        self, durations: Sequence[int], tokens: Sequence[int], stop: Stop
    ) -> PeriodicSolution:
        """Return the exact solution; durations and tokens are those of the whole graph."""
        own_times = tuple(durations[place] for place in self._places)
        own_tokens = tuple(tokens[channel] for channel in self.channels)
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
                self._nearby = solution  # the first one: answers do not depend on the order asked
            if solution.is_exact:
                return solution
            self.copies, self._nearby = self.problem.refined(solution), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Critical:
    """The reason for a period: a cycle of firings in one component, or nothing at all.

    period: in the units of the user, None for a deadlock. time: of the firings of the circuit.
    """

    period: Fraction | None
    time: Fraction
    component: VaryingComponent | None
    circuit: Circuit | None


class VaryingGraph:
    """A graph whose durations and tokens are chosen again and again; capacities are channels.

    Durations are in the units of the user; each has a place among those of all phases, actor by actor.
    Channels of `numbers` are those of the graph and, behind each bounded one, its space.
    """

    def __init__(self, graph: Graph, budget: Budget = None) -> None:
        self.stop = stop_of(budget)
        self.numbers = indexed(bound_channels(graph))
        self.number = {actor.name: number for number, actor in enumerate(graph.actors)}
        self.time_unit = graph.time_unit
        self.cycles = list(cycle_vector(graph).values())
        self.components = [
            VaryingComponent(self.numbers, actors, channels, self.cycles)
            for actors, channels in cyclic_components(self.numbers)
        ]

    @cached_property
    def as_given(self) -> Critical:
        """The period with the durations and tokens of the graph, and what sets it."""
        return self.critical({})

    def critical(
        self, longer: Mapping[int, Fraction], tokens: Sequence[int] | None = None
    ) -> Critical:
        """Return the exact period and one cycle that sets it.

        longer: what is added to durations, by their places; negative where they are shorter.
        """
        scale = lcm(*((time / self.time_unit).denominator for time in longer.values()))
        times = [time * scale for time in self.numbers.duration]
        for place, time in longer.items():
            times[place] += int(time / self.time_unit * scale)
        held = self.numbers.initial_tokens if tokens is None else tokens
        return self._critical(times, held, self.time_unit / scale, self.components)

    def only(self, durations: Mapping[int, Fraction]) -> Critical:
        """Return the period, and what sets it, where all other durations are zero."""
        scale = lcm(*(time.denominator for time in durations.values()))
        times = [0] * len(self.numbers.duration)
        for place, time in durations.items():
            times[place] = int(time * scale)
        held = self.numbers.initial_tokens
        return self._critical(times, held, Fraction(1, scale), self.components)

    def with_more_tokens(self, channel: int, more: int) -> Critical:
        """Return the exact period, and what sets it, with more tokens on one channel."""
        tokens = list(self.numbers.initial_tokens)
        tokens[channel] += more
        changed = self.numbers._replace(initial_tokens=tokens)
        actor, components = self.numbers.producer[channel], self.components
        if _keeps_order(self.numbers, actor) and not _keeps_order(changed, actor):
            components = [
                one.under(changed) if channel in one.channels else one for one in components
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
        for component in components:
            solution = component.solution(times, tokens, self.stop)
            period = None
            if solution.period is not None:
                period = solution.period * component.repeats * unit
            if slowest.component is None or period is None or period > (slowest.period or 0):
                time = solution.circuit.time * unit
                slowest = Critical(
                    period=period, time=time, component=component, circuit=solution.circuit
                )
            if period is None:
                break
        return slowest

    def place(self, actor: int, phase: int) -> int:
        """Return where the duration of that phase stands among all durations."""
        return self.numbers.duration_start[actor] + phase

    def places(self, component: VaryingComponent, circuit: Circuit) -> list[int]:
        """Return of each firing on the circuit whose time counts where its duration stands."""
        starts, actors = self.numbers.duration_start, component.actors
        return [
            starts[actors[actor]] + phase
            for actor, phase, channel in zip(
                circuit.actors, circuit.phases, circuit.channels, strict=True
            )
            if channel >= 0
        ]


def _keeps_order(graph: IndexedGraph, actor: int) -> bool:
    """Whether no firing of the actor overtakes another, whatever its durations are."""
    return is_ordered(graph, actor, has_one_timing=False)
