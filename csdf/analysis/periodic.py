"""The K-periodic method: the period of a strongly connected graph by maximum cycle ratio.

A schedule that starts `copies` cycles of each actor freely and then repeats them has a smallest
period, an upper bound on the period of the graph, and a critical cycle that sets it. Where that
cycle's actors already have as many copies as the cycle alone would need, the bound is exact; if
not, they get them, and the search goes on. What is not critical is never expanded.

Source: Bodin, Munier-Kordon, Dupont de Dinechin, Optimal and fast throughput evaluation of CSDF,
DAC 2016, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import Any, NamedTuple

from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from csdf.kernels import periodic
from csdf.model.indexed import IndexedGraph, is_ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """A cycle of phases in the constraints of a periodic schedule.

    actors: of each firing on it; channels: from each firing to the next, -1 where it is the order
    of the actor's own firings, which takes no time. phases: of each firing, where they are known.
    time: time units; height: iterations.
    """

    actors: tuple[int, ...]
    channels: tuple[int, ...]
    time: int
    height: Fraction
    phases: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicSolution:
    """The smallest period of a schedule with the given copies, or None where there is no schedule.

    starts: scaled start times of each phase of each copy, actor by actor: divide by `scale`.
    others: the actors of further cycles that stand in the way, unless it is exact.
    is_exact: whether its period, or its lack of one, is that of the graph.
    """

    copies: tuple[int, ...]
    period: Fraction | None
    circuit: Circuit
    starts: Any
    scale: int
    others: tuple[tuple[int, ...], ...]
    is_exact: bool
    work: int  # edges looked at


class _Columns(NamedTuple):
    """The graph as the constraints need it, without the tokens: see `periodic.Layout`."""

    node_start: Sequence[int]
    phases: Sequence[int]
    copies: Sequence[int]
    wrap_height: Sequence[int]
    input_start: Sequence[int]
    input_channel: Sequence[int]
    producer: Sequence[int]
    produced: Sequence[int]
    produced_before: Sequence[int]
    production_start: Sequence[int]
    consumed: Sequence[int]
    consumed_upto: Sequence[int]
    consumption_start: Sequence[int]
    step: Sequence[int]
    step_height: Sequence[int]
    is_ordered: Sequence[int]


class _Edges(NamedTuple):
    """Constraints as the kernel wrote them, and their number."""

    number: int
    start: Any
    source: Any
    height: Any
    channel: Any
    listed: Any  # the kernel's own


class _Layout(NamedTuple):
    """Arrays that depend on the copies, not on the tokens, as the kernels want them."""

    nodes: int
    columns: Any
    times: Any
    owner: Any  # of each node, its actor
    starts: list[int]  # the first node of each actor
    room: list[int]  # edges that the latest expansion needed, one entry


class Constraints(NamedTuple):
    """The constraints of schedules with some copies, as the kernels want them.

    Edges come node by node, those that enter it; heights are in units of 1 / `scale` iterations.
    """

    edge_start: Any  # (nodes + 1,)
    source: Any  # (edges,)
    height: Any  # (edges,)
    channel: Any  # (edges,) -1: order of an actor's own firings, without time
    times: Any  # (nodes,)
    owner: Any  # (nodes,) actor
    starts: list[int]  # (actors,) first node


class PeriodicProblem:
    """The constraints of one graph, ready to be expanded for any number of copies.

    graph: strongly connected, without capacities. cycles: of each actor in one iteration.
    has_one_timing: False if it is to be solved with other durations than those of the graph.
    """

    def __init__(
        self, graph: IndexedGraph, cycles: Sequence[int], *, has_one_timing: bool = True
    ) -> None:
        self.graph = graph
        self.cycles = list(cycles)
        self.scale = lcm(*cycles)
        channels = range(len(graph.producer))
        self._produced = [graph.produced(channel) for channel in channels]
        self._consumed = [graph.consumed(channel) for channel in channels]
        ordered = [
            is_ordered(graph, actor, has_one_timing=has_one_timing)
            for actor in range(len(graph.phases))
        ]
        self._is_ordered = [int(ordered[actor]) for actor in graph.producer]
        self._before = _running_sums(graph.production_start, graph.production, inclusive=False)
        self._upto = _running_sums(graph.consumption_start, graph.consumption, inclusive=True)
        self._latest: tuple[tuple[object, ...], _Layout] | None = None
        self._step = _ConstraintSteps(
            graph, self._produced, self._consumed, self.scale, self.cycles
        )

    def solve(
        self,
        copies: Sequence[int],
        low: Fraction = Fraction(0),
        *,
        tokens: Sequence[int] | None = None,
        durations: Sequence[int] | None = None,
        unit_times: bool = False,
    ) -> PeriodicSolution:
        """Return the smallest period with so many copies of each actor.

        low: a proven lower bound of the period; cycles above it are reported as `others`.
        tokens: initial tokens of each channel, durations: of each phase, actor by actor; instead of
        the graph's own.
        unit_times: every firing lasts one unit, whatever the graph says.
        Raises GaveUp for numbers that nothing holds.
        """
        tokens = self.graph.initial_tokens if tokens is None else tokens
        for backend in dict.fromkeys((compiler.backend(fits=True), compiler.PLAIN)):
            try:
                layout = self._layout(copies, backend, unit_times=unit_times)
                if durations is not None:
                    times = backend.array(self._times(copies, durations))
                    layout = layout._replace(times=times)
                solution = self._solve(copies, low, tokens, backend, layout)
            except OverflowError:  # a number does not even fit into the arrays
                solution = None
            if solution is not None:
                return solution
        raise GaveUp(f"sums of more than {compiler.UNBOUNDED.bit_length()} bits")

    def _solve(
        self,
        copies: Sequence[int],
        low: Fraction,
        tokens: Sequence[int],
        backend: compiler.Backend,
        layout: _Layout,
    ) -> PeriodicSolution | None:
        """Solve on one backend; None where its numbers do not hold the sums."""
        if max(self.scale, int(low)) > backend.limit:
            return None
        edges = self._edges(layout, tokens, backend)
        value, cycle = backend.blank(layout.nodes), backend.blank(layout.nodes)
        others = backend.blank(2 * layout.nodes)
        policy = backend.kernel(periodic.Policy)(value, cycle, others, backend.blank)
        policy.within(int(low), self.scale, backend.limit)
        status = backend.kernel(periodic.maximum_cycle_ratio)(edges.listed, layout.times, policy)
        if status == periodic.OVERFLOW:
            return None
        # Edges come from consumer to producer; in the order of time they read backwards.
        critical = [int(edge) for edge in cycle[: policy.length]][::-1]
        nodes = backend.take(edges.source, critical)
        circuit = self.circuit(
            nodes,
            backend.take(edges.channel, critical),
            layout.starts,
            backend.take(layout.owner, nodes),
            time=policy.time,
            height=policy.height,
        )
        exact = self.is_exact(copies, circuit)
        feasible = status == periodic.OPTIMAL
        period = Fraction(circuit.time) / circuit.height if feasible else None
        return PeriodicSolution(
            copies=tuple(copies),
            period=period,
            circuit=circuit,
            starts=value,
            scale=(period / self.scale).denominator if period is not None else 1,
            others=()
            if exact
            else _separated(
                backend.take(others, range(policy.reported)), edges.source, layout.owner
            ),
            is_exact=exact,
            work=edges.number + policy.work,
        )

    def circuit(
        self,
        nodes: Sequence[int],
        channels: Sequence[int],
        starts: Sequence[int],
        actors: Sequence[int],
        *,
        time: int,
        height: int,
    ) -> Circuit:
        """Return a cycle of nodes in terms of the graph; its height comes in units of 1 / scale."""
        phases = self.graph.phases
        return Circuit(
            actors=tuple(actors),
            channels=tuple(channels),
            time=time,
            height=Fraction(height, self.scale),
            phases=tuple(
                (node - starts[actor]) % phases[actor]
                for node, actor in zip(nodes, actors, strict=True)
            ),
        )

    def constraints(self, copies: Sequence[int], backend: compiler.Backend) -> Constraints:
        """Return the constraints with so many copies. Raises OverflowError if a number does not fit."""
        layout = self._layout(copies, backend, unit_times=False)
        edges = self._edges(layout, self.graph.initial_tokens, backend)
        return Constraints(
            edge_start=edges.start,
            source=edges.source[: edges.number],
            height=edges.height[: edges.number],
            channel=edges.channel[: edges.number],
            times=layout.times,
            owner=layout.owner,
            starts=layout.starts,
        )

    def _edges(self, layout: _Layout, tokens: Sequence[int], backend: compiler.Backend) -> _Edges:
        """The constraints for so many initial tokens."""
        expand, make = backend.kernel(periodic.expand), backend.kernel(periodic.Edges)
        start, initial_tokens = backend.blank(layout.nodes + 1), backend.array(tokens)
        while True:
            source, height, channel = (backend.blank(layout.room[0]) for _ in range(3))
            listed = make(start, source, height, channel)
            count = expand(layout.columns, initial_tokens, listed)
            if count <= layout.room[0]:
                return _Edges(count, start, source, height, channel, listed)
            layout.room[0] = count

    def _layout(
        self, copies: Sequence[int], backend: compiler.Backend, *, unit_times: bool
    ) -> _Layout:
        """Return the arrays that do not depend on tokens; those of the latest copies are kept."""
        key = (tuple(copies), backend, unit_times)
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, self._new_layout(copies, backend, unit_times=unit_times))
        return self._latest[1]

    def _new_layout(
        self, copies: Sequence[int], backend: compiler.Backend, *, unit_times: bool
    ) -> _Layout:
        sizes = list(map(int.__mul__, copies, self.graph.phases))
        starts = [0, *accumulate(sizes)]
        self._step.adapt(copies)
        wrap = [self.scale * k // r for k, r in zip(copies, self.cycles, strict=True)]
        graph = self.graph
        columns = _Columns(
            node_start=starts[:-1],
            phases=graph.phases,
            copies=copies,
            wrap_height=wrap,
            input_start=graph.input_start,
            input_channel=graph.input_channel,
            producer=graph.producer,
            produced=self._produced,
            produced_before=self._before,
            production_start=graph.production_start,
            consumed=self._consumed,
            consumed_upto=self._upto,
            consumption_start=graph.consumption_start,
            step=self._step.tokens,
            step_height=self._step.height,
            is_ordered=self._is_ordered,
        )
        return _Layout(
            nodes=starts[-1],
            columns=backend.kernel(periodic.Layout)(columns, backend.array),
            times=backend.array(
                [1] * starts[-1] if unit_times else self._times(copies, graph.duration)
            ),
            owner=backend.array([a for a, size in enumerate(sizes) for _ in range(size)]),
            starts=starts[:-1],
            room=[2 * starts[-1] + len(graph.producer)],
        )

    def _times(self, copies: Sequence[int], durations: Sequence[int]) -> list[int]:
        times: list[int] = []
        for actor, start in enumerate(self.graph.duration_start):
            phases = self.graph.phases[actor]
            times += list(durations[start : start + phases]) * copies[actor]
        return times

    def nodes(self, copies: Sequence[int]) -> int:
        """Return the size of the schedule: phases of all copies."""
        return sum(map(int.__mul__, copies, self.graph.phases))

    def needed_copies(self, actors: Sequence[int]) -> dict[int, int]:
        """Copies with which a cycle through these actors is exact."""
        distinct = set(actors)
        shared = gcd(*(self.cycles[actor] for actor in distinct))
        return {actor: self.cycles[actor] // shared for actor in distinct}

    def is_exact(self, copies: Sequence[int], circuit: Circuit) -> bool:
        """Whether the critical cycle limits the graph itself, not only schedules of this kind."""
        needed = self.needed_copies(circuit.actors)
        return all(copies[actor] % count == 0 for actor, count in needed.items())

    def refined(self, solution: PeriodicSolution) -> list[int]:
        """Return more copies: as many as the critical cycle and all other cycles found need."""
        copies = list(solution.copies)
        for actors in (solution.circuit.actors, *solution.others):
            for actor, count in self.needed_copies(actors).items():
                copies[actor] = lcm(copies[actor], count)
        return copies


class _ConstraintSteps:
    """How far apart the constraints of each channel are, for the latest copies.

    tokens: of each channel, the greatest common divisor of what the copies of both ends move;
    height: the same in iterations, times `scale`.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        produced: Sequence[int],
        consumed: Sequence[int],
        scale: int,
        cycles: Sequence[int],
    ) -> None:
        self._graph = graph
        self._moved = list(zip(graph.producer, produced, graph.consumer, consumed, strict=True))
        # One iteration moves cycles * produced tokens and is `scale` units high.
        self._unit = [cycles[one] * count for one, count, _, _ in self._moved]
        self._scale = scale
        self._copies = [0] * len(cycles)
        self.tokens = [0] * len(self._moved)
        self.height = [0] * len(self._moved)

    def adapt(self, copies: Sequence[int]) -> None:
        """Count again where an end has other copies than before."""
        pairs = enumerate(zip(copies, self._copies, strict=True))
        changed = [actor for actor, (count, before) in pairs if count != before]
        self._copies = list(copies)
        for channel in self._channels_at(changed):
            producer, produced, consumer, consumed = self._moved[channel]
            step = gcd(copies[producer] * produced, copies[consumer] * consumed)
            self.tokens[channel] = step
            self.height[channel] = self._scale * step // self._unit[channel]

    def _channels_at(self, actors: Sequence[int]) -> Iterable[int]:
        """The channels that begin or end at one of the actors."""
        graph = self._graph
        if 2 * len(actors) > len(self._copies):
            return range(len(self._moved))
        sides = (
            (graph.input_start, graph.input_channel),
            (graph.output_start, graph.output_channel),
        )
        return {
            channel
            for actor in actors
            for start, listed in sides
            for channel in listed[start[actor] : start[actor + 1]]
        }


def _running_sums(starts: Sequence[int], rates: Sequence[int], *, inclusive: bool) -> list[int]:
    """Sums of the rates since the start of each channel's cycle, with or without the entry itself."""
    sums = [0] * len(rates)
    ends = [*starts, len(rates)][1:]
    for start, end in zip(starts, ends, strict=True):
        total = 0
        for at in range(start, end):
            sums[at] = total
            total += rates[at]
            if inclusive:
                sums[at] = total
    return sums


def _separated(edges: list[int], source: Any, owner: Any) -> tuple[tuple[int, ...], ...]:
    """The distinct sets of actors on cycles whose edges are listed one after the other."""
    found: dict[frozenset[int], None] = {}
    actors: set[int] = set()
    for edge in edges:
        if edge >= 0:
            actors.add(int(owner[source[edge]]))
        else:
            found[frozenset(actors)] = None
            actors = set()
    return tuple(tuple(sorted(group)) for group in found)
