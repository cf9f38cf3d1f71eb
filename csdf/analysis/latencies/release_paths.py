"""How late firings start behind a source that is released at even distances: longest paths."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from csdf.analysis.concurrency import is_single_firing_loop
from csdf.analysis.expansion import awaited_firings
from csdf.errors import CsdfError
from csdf.model.graph import Channel, Graph

MOST_DEPENDENCIES = 500_000  # of one iteration, once for each iteration that the sink is ahead


class LongestPath(NamedTuple):
    """The latest end of the sink, in units of the user, and the channels that lead up to it."""

    latency: Fraction
    channels: tuple[str, ...]


class _Dependency(NamedTuple):
    """Firing `after` starts `time` after the start of `before`, `distance` iterations ago, or later."""

    before: int
    after: int
    time: int
    distance: int
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Which iteration of the sink answers which of the source: number n + distance answers n."""

    source: str
    sink: str
    distance: int


class ReleasePaths:
    """The firings of one iteration of a graph whose source is released once in period / repetitions.

    The source starts its firing i when i such distances have gone by, or later where tokens or space
    are missing. Everything else starts as soon as it can, from time 0 on. `latency` is the longest
    time from the release of the first firing of an iteration of the source to the end of the last
    firing of the sink in the iteration that the pairing names, exactly, over all iterations.

    Each start is the longest path to it. Less the periods that have gone by, paths do not depend on
    the iteration, where a dependency on an earlier one is shorter by the periods in between.
    The graph has no capacities, and no longer period than the given one.
    """

    def __init__(
        self, graph: Graph, repetitions: dict[str, int], pairing: Pairing, period: Fraction
    ) -> None:
        self._graph = graph
        self._repetitions = repetitions
        self._pairing = pairing
        rate = repetitions[pairing.source]
        apart = period / graph.time_unit / rate
        self._scale = apart.denominator
        self._apart = apart.numerator  # between two releases, in scaled units
        self._period = apart.numerator * rate
        self._first: dict[str, int] = {}
        self._count = 0
        for actor in graph.actors:
            self._first[actor.name] = self._count
            self._count += repetitions[actor.name]
        self._single = {c.producer for c in graph.channels if is_single_firing_loop(c)}
        self._known: dict[tuple[str, int], list[_Dependency]] = {}
        self._orders = [one for actor in graph.actors for one in self._order_of(actor.name)]

    def latency(self, channels: tuple[Channel, ...]) -> LongestPath:
        """Return the latency where these are the channels, of which none has a capacity."""
        layers = self._pairing.distance + 1
        found = list(self._orders)
        for channel in channels:
            found += self._dependencies(channel)
        if len(found) * layers > MOST_DEPENDENCIES:
            raise CsdfError(
                f"graph {self._graph.name!r} has {len(found)} dependencies between firings over "
                f"{layers} iterations; latencies are computed for at most {MOST_DEPENDENCIES}"
            )
        starts, reasons = self._longest(found, layers)
        return self._latest(starts, reasons, layers)

    def _order_of(self, name: str) -> list[_Dependency]:
        """Return that the firings of an actor start in order."""
        first, count = self._first[name], self._repetitions[name]
        return [
            _Dependency(first + i, first + (i + 1) % count, 0, int(i + 1 == count), "")
            for i in range(count)
        ]

    def _dependencies(self, channel: Channel) -> list[_Dependency]:
        key = channel.name, channel.initial_tokens
        if key not in self._known:
            self._known[key] = list(self._awaited(channel))
        return self._known[key]

    def _awaited(self, channel: Channel) -> list[_Dependency]:
        producer = self._graph.actor(channel.producer)
        count = self._repetitions[producer.name]
        listed = awaited_firings(
            producer,
            channel,
            self._repetitions[channel.consumer],
            is_single=producer.name in self._single,
        )
        found = []
        for firing, source in listed:
            distance, index = divmod(source, count)
            before = self._first[producer.name] + index
            after = self._first[channel.consumer] + firing
            time = producer.durations[index % producer.phases] * self._scale
            found.append(_Dependency(before, after, time, -distance, channel.name))
        return found

    def _longest(
        self, dependencies: list[_Dependency], layers: int
    ) -> tuple[list[int], list[tuple[int, str] | None]]:
        """Return the latest start of each firing less its periods, and what it waits for.

        Node firing * layers + i is the firing in iteration i, the last layer all later ones.
        """
        out_of: dict[int, list[tuple[int, int, int, str]]] = defaultdict(list)
        for one in dependencies:
            length = one.time - one.distance * self._period
            out_of[one.before].append((one.after, length, one.distance, one.channel))
        starts = [-(node % layers) * self._period for node in range(self._count * layers)]
        first = self._first[self._pairing.source]
        for index in range(self._repetitions[self._pairing.source]):
            for layer in range(layers):
                starts[(first + index) * layers + layer] = index * self._apart
        reasons: list[tuple[int, str] | None] = [None] * len(starts)
        waiting = deque(range(len(starts)))
        is_waiting = [True] * len(starts)
        while waiting:
            node = waiting.popleft()
            is_waiting[node] = False
            firing, layer = divmod(node, layers)
            for after, length, distance, channel in out_of[firing]:
                later = after * layers + min(layer + distance, layers - 1)
                if starts[node] + length > starts[later]:
                    starts[later] = starts[node] + length
                    reasons[later] = node, channel
                    if not is_waiting[later]:
                        is_waiting[later] = True
                        waiting.append(later)
        return starts, reasons

    def _latest(
        self, starts: list[int], reasons: list[tuple[int, str] | None], layers: int
    ) -> LongestPath:
        sink = self._graph.actor(self._pairing.sink)
        first = self._first[sink.name]
        ends = {
            node: starts[node] + sink.durations[index % sink.phases] * self._scale
            for index in range(self._repetitions[sink.name])
            if (node := (first + index) * layers + layers - 1) >= 0
        }
        node = max(ends, key=lambda one: ends[one])
        time = Fraction(ends[node] + self._pairing.distance * self._period, self._scale)
        channels = []
        reason = reasons[node]
        while reason is not None:
            node, channel = reason
            channels.append(channel)
            reason = reasons[node]
        named = tuple(dict.fromkeys(one for one in reversed(channels) if one))
        return LongestPath(time * self._graph.time_unit, named)
