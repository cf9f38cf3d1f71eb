"""Buffers of the edges of an application, and Algorithm 8: whole buffers that several edges share.

Without sharing, an edge within a partition has one buffer. An edge from a partition to a later one is
cut, and stored whole. If the two partitions are pipelined, the edge has a buffer for each stage of the
pipeline from producer to consumer. While P works on frame n and Q, the next stage, on frame n - 1, an
edge from P to Q has a double buffer:

    time                   buffer (1)        buffer (2)
    during the frames      P writes n        Q reads n - 1
    after P and Q end      n is copied to (2), where it replaces n - 1

If (1) and (2) were swapped instead of copied, other buffers of P that share bytes with (1) would
overwrite bytes that Q reads. No other network may run between the frames of a pipeline that is not
drained: it might overwrite (2).
Source: Minakova and Stefanov, TODAES 28(1), 2022, section 3; Table 6.1 of Minakova's thesis.

Algorithm 8 assigns the edges, in their order, to shared buffers. Two edges conflict
- in partitions that run in parallel: always;
- in partitions that run in sequence: never;
- in one partition: if their lifetimes, closed intervals of steps, have a step in common.
An edge is assigned to a buffer whose edges do not conflict with it: to the buffer that grows least, the
first of several. A new buffer is opened only if each buffer has a conflict.
Source: Minakova and Stefanov, TODAES 28(1), 2022; Algorithm 8 of Minakova's thesis (its `else` belongs
to line 9), Tables 6.2 and 6.3.

Here the edges may also be assigned in the order of decreasing size: then no buffer grows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import or_
from typing import NamedTuple

from cnn2csdf.lowering import channel_names
from cnn2csdf.network import Connection
from planners.arena.problem import loads
from planners.reuse.application import Application, ApplicationNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """The time of a buffer in a partition: from the first step of a layer to the last step of another.

    first, last: numbers of these layers in the partition; None for its start, and for its end.
    """

    partition: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBuffer:
    """Memory for the tensor of a connection, or for a copy of it.

    member: number of the network. connection: copies of a tensor have the same. elements: of the whole
    tensor, in units of the application. stays: in each partition that uses the buffer, in their order.
    inner: number of the edge within its partition; None for an edge that is cut, which is always stored
    whole.
    """

    name: str
    member: int
    connection: Connection
    elements: int
    stays: tuple[Stay, ...]
    inner: int | None


Residents = dict[int, tuple[EdgeBuffer, Stay]]
"""The edge buffers in use in one partition, by number, each with its stay there."""


def edge_buffers(application: Application) -> tuple[EdgeBuffer, ...]:
    """Return all buffers in the order of Algorithm 8: by partition, then by the writing layer.

    The tensors that a partition receives precede the tensors that it writes.
    """
    groups = partition_groups(application)
    buffers: list[EdgeBuffer] = []
    begin = 0
    for number, member in enumerate(application.members):
        end = begin + len(member.partitions)
        buffers += _member_buffers(number, member, groups[begin:end], begin, application.unit)
        begin = end

    def order(buffer: EdgeBuffer) -> tuple[int, int, int]:
        stay = buffer.stays[0]
        first = -1 if stay.first is None else stay.first
        return stay.partition, first, -1 if buffer.inner is None else buffer.inner

    return tuple(sorted(buffers, key=order))


def partition_groups(application: Application) -> tuple[int | None, ...]:
    """Return for each partition which of the parallel sets it is in."""
    group_of = {name: number for number, names in enumerate(application.parallel) for name in names}
    return tuple(group_of.get(partition.name) for _, partition in application.partitions)


def _member_buffers(
    number: int, member: ApplicationNetwork, groups: Sequence[int | None], begin: int, unit: int
) -> Iterator[EdgeBuffer]:
    """The buffers of a network. groups: of its partitions; begin: number of its first partition."""
    positions = {  # of layers: partition, and number in it
        layer: (index, layer_number)
        for index, partition in enumerate(member.partitions)
        for layer_number, layer in enumerate(partition.layers)
    }
    names = channel_names(member.network)
    inner_edges = [0] * len(groups)
    stored = [
        connection
        for connection in member.network.connections
        if {connection.producer, connection.consumer} <= set(positions)
    ]
    for connection in sorted(
        stored, key=lambda edge: (positions[edge.producer], positions[edge.consumer])
    ):
        source, first = positions[connection.producer]
        target, last = positions[connection.consumer]
        name = f"{member.name}: {names[connection]}"
        layer = member.network.layer(connection.producer)
        copies = _partitions_of_copies(source, target, groups)
        for copy, partitions in enumerate(copies, start=1):
            yield EdgeBuffer(
                name=name if len(copies) == 1 else f"{name} ({copy})",
                member=number,
                connection=connection,
                elements=layer.shape.elements * (layer.element_bytes // unit),
                stays=tuple(
                    Stay(
                        partition=begin + partition,
                        first=first if partition == source else None,
                        last=last if partition == target else None,
                    )
                    for partition in partitions
                ),
                inner=inner_edges[source] if source == target else None,
            )
        if source == target:
            inner_edges[source] += 1


def _partitions_of_copies(
    source: int, target: int, groups: Sequence[int | None]
) -> list[list[int]]:
    """For each copy of a tensor, the partitions from source to target that use the copy.

    A partition that is pipelined with the preceding partition has a copy of its own.
    """
    copies = [[source]]
    for partition in range(source + 1, target + 1):
        is_pipelined = groups[partition] is not None and groups[partition - 1] == groups[partition]
        if is_pipelined:
            copies.append([])
        copies[-1].append(partition)
    return copies


class SharedBuffer(NamedTuple):
    """A buffer as large as its largest edge, in elements; edges by number, in ascending order."""

    size: int
    edges: tuple[int, ...]


def shared_buffers(
    sizes: Sequence[int], conflicts: Sequence[int], *, largest_first: bool = False
) -> list[SharedBuffer]:
    """Return the buffers of Algorithm 8.

    conflicts: for each edge, as bits, the edges that are in use together with it. largest_first: take
    the edges by decreasing size instead of in their order; then no buffer grows.
    O(edges * buffers) operations on numbers of as many bits as there are edges.
    """
    order = list(range(len(sizes)))
    if largest_first:
        order.sort(key=lambda number: -sizes[number])
    # Of each buffer: its size, and its edges as a list and as bits.
    buffer_sizes: list[int] = []
    buffer_edges: list[list[int]] = []
    edge_bits: list[int] = []
    for edge in order:
        size, conflict = sizes[edge], conflicts[edge]
        # Algorithm 8: a new buffer is the last resort, after any buffer that grows.
        best, least_growth = len(buffer_sizes), size + 1
        for buffer, (buffer_size, bits) in enumerate(zip(buffer_sizes, edge_bits, strict=True)):
            # One AND of bit sets compares an edge with all edges of a buffer.
            if not bits & conflict:
                growth = size - buffer_size
                # The first buffer that need not grow is optimal, so the scan ends there.
                if growth <= 0:
                    best = buffer
                    break
                if growth < least_growth:
                    best, least_growth = buffer, growth
        if best == len(buffer_sizes):
            buffer_sizes.append(size)
            buffer_edges.append([])
            edge_bits.append(0)
        elif buffer_sizes[best] < size:
            buffer_sizes[best] = size
        buffer_edges[best].append(edge)
        edge_bits[best] |= 1 << edge
    return [
        SharedBuffer(size, tuple(sorted(edges)))
        for size, edges in zip(buffer_sizes, buffer_edges, strict=True)
    ]


def elements_of(buffers: Sequence[SharedBuffer]) -> int:
    """Return the elements of all buffers."""
    return sum(buffer.size for buffer in buffers)


def best_shared(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the smaller of Algorithm 8's buffers and those shared largest first."""
    # Neither order is better on all networks.
    candidates = (
        shared_buffers(sizes, conflicts, largest_first=largest_first)
        for largest_first in (False, True)
    )
    return min(candidates, key=elements_of)


def overlaps(first: Sequence[int], last: Sequence[int], bits: Sequence[int]) -> list[int]:
    """Return for each closed interval, as bits, the intervals that have a step in common with it.

    bits: the bit of each interval.
    """
    starts = sorted(zip(first, bits, strict=True))
    ends = sorted(zip(last, bits, strict=True))
    started, ended = (
        list(accumulate((bit for _, bit in events), or_, initial=0)) for events in (starts, ends)
    )
    start_steps, end_steps = [step for step, _ in starts], [step for step, _ in ends]
    return [
        # Intervals that start no later than this one ends, less those that end before it starts.
        started[bisect_right(start_steps, end)] & ~ended[bisect_left(end_steps, start)]
        for start, end in zip(first, last, strict=True)
    ]


def largest_load(lives: Iterable[tuple[int, int, int]]) -> int:
    """Return the maximum sum of the sizes in use at a step; lives: first step, last step, size."""
    half_open = ((first, last + 1, size) for first, last, size in lives)
    return max(loads(half_open).values(), default=0)
