"""Row streaming: a group of layers as a dataflow graph, each working row by row in small buffers.

Nothing is computed twice; the engine proves the buffers the smallest in which the group runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cnn2csdf.durations import Platform, platform_durations
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.network import Layer, Network
from csdf.analysis.bounded import with_capacities
from csdf.errors import GaveUp
from csdf.model.graph import Channel, Graph
from csdf.search.trade_off import Progress, smallest_storage
from csdf.search.variables import Choice
from planners.fusion.chains import part_of
from planners.fusion.memory import Scratch, scratch_elements, scratch_name
from planners.plan import Buffer

MOST_EVALUATIONS = 2000  # of the search for the smallest buffers; then the best found is taken


class Streamed(NamedTuple):
    """Bytes of the buffers of layers that stream rows, and what the rows cost.

    inner: of all buffers but the one that holds rows of the result for whoever reads them.
    """

    inner: int
    exit: int
    scratch: int
    nanoseconds: int


def streamed(
    network: Network,
    source: str,
    layers: Sequence[Layer],
    platform: Platform,
    scratch: Scratch,
    *,
    element_bytes: int,
) -> Streamed:
    """Return what layers need that read one tensor and write one, row by row."""
    part = part_of(network, source, layers)
    graph = streaming_graph(part, element_bytes)
    sizes = {channel: bytes_of(channel) for channel in graph.channels if channel.capacity}
    leaving = sum(
        size for channel, size in sizes.items() if channel.consumer == part.outputs[0].name
    )
    durations = platform_durations(part, ROWS, platform, element_bytes=element_bytes)
    return Streamed(
        inner=sum(sizes.values()) - leaving,
        exit=leaving,
        scratch=max(row_scratch(network, layer, scratch) for layer in layers) * element_bytes,
        nanoseconds=sum(sum(durations[layer.name]) for layer in layers),
    )


def streaming_graph(part: Network, element_bytes: int) -> Graph:
    """Return the graph of a network that works by rows, with the smallest capacities."""
    graph = lower(part, ROWS, element_bytes=element_bytes)
    looks = 0

    def watch(_: Progress) -> None:
        nonlocal looks
        looks += 1
        if looks > MOST_EVALUATIONS:
            raise GaveUp(f"{MOST_EVALUATIONS} evaluations are used up")

    found = smallest_storage(graph, Choice(unit="bytes"), watch=watch)
    if found.point is None:
        raise GaveUp(f"no buffers for {part.name!r} by rows: {found.reason}")
    return with_capacities(graph, found.point.capacities)


def bytes_of(channel: Channel) -> int:
    """Return the bytes that a channel holds."""
    return (channel.capacity or 0) * (channel.token_size or 1)


def row_scratch(network: Network, layer: Layer, scratch: Scratch) -> int:
    """Return the elements of scratch for one row of a layer."""
    return scratch_elements(network, layer, layer.shape.width, scratch)


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
    element_bytes: int,
) -> Iterator[Buffer]:
    """Yield the buffers of layers that stream rows, all needed for as long as they work."""
    end = begin + len(layers)
    for channel in graph.channels:
        if channel.capacity:
            yield Buffer(
                name=channel_name(channel.name), size=bytes_of(channel), start=begin, end=end
            )
    largest = max(layers, key=lambda layer: row_scratch(network, layer, scratch))
    size = row_scratch(network, largest, scratch) * element_bytes
    if size:
        yield Buffer(name=scratch_name(largest.name), size=size, start=begin, end=end)
