"""Row streaming: a group of layers as a dataflow graph, each working row by row in small buffers.

Nothing is computed twice. The engine searches the smallest buffers in which the layers run, section
by section: between two sections a single tensor is alive, so that the buffers of one section do not
depend on those of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cnn2csdf.durations import platform_durations
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import channel_names, lower
from cnn2csdf.network import Layer, Network
from cnn2csdf.platforms import Platform
from csdf.analysis.bounded import with_capacities
from csdf.analysis.liveness import deadlock
from csdf.model.graph import Channel, Graph
from csdf.outcome import Why, because
from csdf.search.pareto import SmallestStorage
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import Choice
from csdf.stopping import NOTHING_KNOWN, Budget, Stop, stop_of
from planners.fusion.chains import Chain
from planners.fusion.memory import scratch_bytes, scratch_name
from planners.fusion.ways import Scratch
from planners.plan import Buffer
from planners.tiling.layer_ranges import part_of

MOST_EVALUATIONS = 2000  # of the search for the smallest buffers; then the best found is taken
MOST_PHASES = 4_000_000  # of all evaluations together: those of large graphs take longer


class Streamed(NamedTuple):
    """Bytes of the buffers of layers that stream rows, and what the rows cost.

    inner: of all buffers but the one that holds rows of the result for whoever reads them, which is
    `exit`. inner_bound, exit_bound: no buffers in which the layers run are smaller.
    """

    inner: int
    exit: int
    scratch: int
    nanoseconds: int
    inner_bound: int
    exit_bound: int


class _Found(NamedTuple):
    """Buffers of one section: its network, its bounded graph, bytes that no buffers are below."""

    part: Network
    graph: Graph
    lower_bound: int


class SectionWhy(Why):
    """Why the search for the buffers of one section ended."""

    EVALUATIONS = "the evaluations for one section are used up"


class Streams:
    """The smallest buffers for the rows of the sections of a chain, each searched once."""

    def __init__(self, chain: Chain, element_bytes: int | None) -> None:
        self._chain = chain
        self._element_bytes = element_bytes
        self._found: dict[int, _Found] = {}

    def streamed(
        self, number: int, platform: Platform, scratch: Scratch, budget: Budget = None
    ) -> Streamed:
        """Return what a section needs to work row by row. Raises GaveUp."""
        found = self._section(number, stop_of(budget))
        layers = self._chain.layers(number, number + 1)
        result = found.part.outputs[0].name
        leaving = [one for one in found.graph.channels if one.consumer == result and one.capacity]
        leaving_bytes = sum(map(bytes_of, leaving))
        total = sum(bytes_of(one) for one in found.graph.channels)
        durations = platform_durations(
            found.part, ROWS, platform, element_bytes=self._element_bytes
        )
        return Streamed(
            inner=total - leaving_bytes,
            exit=leaving_bytes,
            scratch=max(
                row_scratch(self._chain.network, layer, scratch, self._element_bytes)
                for layer in layers
            ),
            nanoseconds=sum(sum(durations[layer.name]) for layer in layers),
            inner_bound=found.lower_bound - leaving_bytes,
            exit_bound=sum(max(one.production) * (one.token_size or 1) for one in leaving),
        )

    def graph(self, first: int, upto: int, budget: Budget = None) -> Graph:
        """Return sections [first, upto) as one graph, with the capacities of each section.

        Raises GaveUp where no buffers are found.
        """
        stop = stop_of(budget)
        section = self._chain.sections[first]
        part = part_of(self._chain.network, section.source, self._chain.layers(first, upto))
        graph = lower(part, ROWS, element_bytes=self._element_bytes)
        names = channel_names(part)
        capacities: dict[str, int] = {}
        for number in range(first, upto):
            own = self._section(number, stop)
            for connection, name in channel_names(own.part).items():
                capacity = own.graph.channel(name).capacity
                if connection in names and capacity is not None:
                    capacities[names[connection]] = capacity
        bounded = with_capacities(graph, capacities)
        if deadlock(bounded) is None:
            return bounded
        return _bounded(graph, stop)[0]

    def _section(self, number: int, stop: Stop) -> _Found:
        if number not in self._found:
            layers = self._chain.layers(number, number + 1)
            part = part_of(self._chain.network, self._chain.sections[number].source, layers)
            graph = lower(part, ROWS, element_bytes=self._element_bytes)
            self._found[number] = _Found(part, *_bounded(graph, stop))
        return self._found[number]


def _bounded(graph: Graph, stop: Stop) -> tuple[Graph, int]:
    """The graph in the smallest buffers that are found, and bytes that no buffers are below.

    If none are found, each channel holds a whole tensor: then layer after layer can run.
    """
    found = _searched(graph, stop)
    if found.point is not None:
        return with_capacities(graph, found.point.capacities), found.lower_bound
    whole = {one.name: sum(one.production) for one in graph.channels if not one.is_self_loop}
    return with_capacities(graph, whole), found.lower_bound


def _searched(graph: Graph, stop: Stop) -> SmallestStorage:
    """The search answers an end with the best by then; that of the stop is to end all work."""
    phases = sum(actor.phases for actor in graph.actors)
    most = min(MOST_EVALUATIONS, max(1, MOST_PHASES // phases))
    looks = stop.part(steps=most, reason=because(SectionWhy.EVALUATIONS))
    part = looks.part(as_whole=lambda _: NOTHING_KNOWN)  # each look counts as an evaluation
    found = smallest_storage(graph, Choice(unit="bytes"), budget=part)
    stop.end_whole(found.reason)
    return found


def bytes_of(channel: Channel) -> int:
    """Return the bytes that a channel holds."""
    return (channel.capacity or 0) * (channel.token_size or 1)


def row_scratch(network: Network, layer: Layer, scratch: Scratch, element_bytes: int | None) -> int:
    """Return the bytes of scratch for one row of a layer."""
    return scratch_bytes(network, layer, layer.shape.width, scratch, element_bytes)


def channel_name(channel: str) -> str:
    """Name of the buffer for a channel."""
    return f"{channel} rows"


def streaming_buffers(
    network: Network,
    graph: Graph,
    layers: Sequence[Layer],
    scratch: Scratch,
    *,
    begin: int,
    element_bytes: int | None,
) -> Iterator[Buffer]:
    """Yield the buffers of layers that stream rows, all needed for as long as they work."""
    end = begin + len(layers)
    for channel in graph.channels:
        if channel.capacity:
            yield Buffer(
                name=channel_name(channel.name),
                size=bytes_of(channel),
                start=begin,
                end=end,
                alignment=channel.token_size or 1,
            )
    largest = max(layers, key=lambda layer: row_scratch(network, layer, scratch, element_bytes))
    size = row_scratch(network, largest, scratch, element_bytes)
    if size:
        yield Buffer(
            name=scratch_name(largest.name),
            size=size,
            start=begin,
            end=end,
            alignment=element_bytes or network.layer(largest.inputs[0]).element_bytes,
        )
