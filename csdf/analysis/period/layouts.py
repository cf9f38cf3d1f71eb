"""Constraints of periodic schedules as arrays for the kernels.

Some arrays depend on the copies of each actor, not on the tokens: they are made once for the latest
copies. The rest is expanded from them for any tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import gcd, lcm
from typing import Any, NamedTuple

from csdf.kernels import compile as compiler
from csdf.kernels import periodic, ranges
from csdf.model.indexed import IndexedGraph, is_ordered
from csdf.stopping import Stop


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


class EdgeArrays(NamedTuple):
    """Constraints as the kernel wrote them, and their number."""

    number: int
    start: Any
    source: Any
    height: Any
    channel: Any
    listed: Any  # the kernel's own


class NodeArrays(NamedTuple):
    """Arrays that depend on the copies, not on the tokens, as the kernels want them."""

    nodes: int
    columns: Any
    times: Any
    owner: Any  # of each node, its actor
    starts: list[int]  # the first node of each actor
    room: list[int]  # edges that the latest expansion needed, one entry


class Layouts:
    """The constraints of a graph for any number of copies of each actor.

    cycles: of each actor in one iteration. has_one_timing: False if durations may change.
    """

    def __init__(self, graph: IndexedGraph, cycles: Sequence[int], *, has_one_timing: bool) -> None:
        self.graph = graph
        self.cycles = cycles
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
        self._latest: tuple[tuple[object, ...], NodeArrays] | None = None
        self._step = _ConstraintSteps(
            graph, self._produced, self._consumed, self.scale, self.cycles
        )

    def fits(self, copies: Sequence[int], tokens: Sequence[int]) -> bool:
        """Whether 64 bits hold the constraints for so many initial tokens, times apart."""
        if self.scale > compiler.SAFE or not all(map(int.__le__, copies, self.cycles)):
            return False
        self._step.adapt(copies)
        most = self._step.most_tokens
        return not tokens or -most <= min(tokens) <= max(tokens) <= most

    def of(
        self, copies: Sequence[int], backend: compiler.Backend, *, unit_times: bool
    ) -> NodeArrays:
        """Return the arrays that do not depend on tokens; those of the latest copies are kept."""
        key = (tuple(copies), backend, unit_times)
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, self._new_layout(copies, backend, unit_times=unit_times))
        return self._latest[1]

    def _new_layout(
        self, copies: Sequence[int], backend: compiler.Backend, *, unit_times: bool
    ) -> NodeArrays:
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
        return NodeArrays(
            nodes=starts[-1],
            columns=backend.kernel(periodic.Layout)(columns, backend.array),
            times=backend.array(
                [1] * starts[-1] if unit_times else self.times(copies, graph.duration)
            ),
            owner=backend.array([a for a, size in enumerate(sizes) for _ in range(size)]),
            starts=starts[:-1],
            room=[2 * starts[-1] + len(graph.producer)],
        )

    def times(self, copies: Sequence[int], durations: Sequence[int]) -> list[int]:
        """Return the duration of each phase of each copy; durations: of each phase."""
        times: list[int] = []
        for actor, start in enumerate(self.graph.duration_start):
            phases = self.graph.phases[actor]
            times += list(durations[start : start + phases]) * copies[actor]
        return times

    def edges(
        self, layout: NodeArrays, tokens: Sequence[int], backend: compiler.Backend, stop: Stop
    ) -> EdgeArrays:
        """Return the constraints for so many initial tokens. Raises GaveUp."""
        expand, make = backend.kernel(periodic.expand), backend.kernel(periodic.Edges)
        start, initial_tokens = backend.blank(layout.nodes + 1), backend.array(tokens)
        while True:
            source, height, channel = (backend.blank(layout.room[0]) for _ in range(3))
            listed = make(start, source, height, channel)
            while not expand(layout.columns, initial_tokens, listed, backend.fuel):
                stop.look()
            if listed.number <= layout.room[0]:
                return EdgeArrays(listed.number, start, source, height, channel, listed)
            layout.room[0] = listed.number


class _ConstraintSteps:
    """How far apart the constraints of each channel are, for the latest copies.

    tokens: of each channel, the greatest common divisor of what the copies of both ends move;
    height: the same in iterations, times `scale`. most_tokens: of any channel, for 64 bits to hold its
    constraints, or -1.
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
        self._most_tokens = [0] * len(self._moved)
        self.most_tokens = compiler.SAFE

    def adapt(self, copies: Sequence[int]) -> None:
        """Count again where an end has other copies than before."""
        if self._copies == list(copies):
            return
        pairs = enumerate(zip(copies, self._copies, strict=True))
        changed = [actor for actor, (count, before) in pairs if count != before]
        self._copies = list(copies)
        for channel in self._channels_at(changed):
            producer, produced, consumer, consumed = self._moved[channel]
            made, taken = copies[producer] * produced, copies[consumer] * consumed
            step = gcd(made, taken)
            height = self._scale * step // self._unit[channel]
            self.tokens[channel], self.height[channel] = step, height
            self._most_tokens[channel] = ranges.expandable_tokens(made, taken, step, height)
        self.most_tokens = min(self._most_tokens, default=compiler.SAFE)

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
