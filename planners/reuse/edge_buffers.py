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
from collections.abc import Iterator, Sequence
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
    """When a buffer is in use within a partition, by layers as numbers in its schedule.

    From the first step of layer `first` to the last step of layer `last`, both included; None for
    the start, and for the end, of the partition.
    """

    partition: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBuffer:
    """Memory for the tensor of one connection, or for one copy of it.

    elements: of the whole tensor, in units of the application. inner: the number of the edge among
    those within its partition; None for one that is cut, which is always stored whole.
    """

    name: str
    channel: str  # its channel in the graph of the network; copies have the same
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
    homes = {
        layer: (index, place)
        for index, partition in enumerate(member.partitions)
        for place, layer in enumerate(partition.layers)
    }
    names = channel_names(member.network)
    inner = [0] * len(groups)
    counted = [
        connection
        for connection in member.network.connections
        if {connection.producer, connection.consumer} <= set(homes)
    ]
    for connection in sorted(
        counted, key=lambda edge: (homes[edge.producer], homes[edge.consumer])
    ):
        (source, first), (target, last) = homes[connection.producer], homes[connection.consumer]
        name = f"{member.name}: {names[connection]}"
        layer = member.network.layer(connection.producer)
        copies = _stages(source, target, groups)
        for copy, partitions in enumerate(copies, start=1):
            yield EdgeBuffer(
                name=name if len(copies) == 1 else f"{name} ({copy})",
                channel=names[connection],
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
                inner=inner[source] if source == target else None,
            )
        if source == target:
            inner[source] += 1


def _stages(source: int, target: int, groups: Sequence[int | None]) -> list[list[int]]:
    """Partitions from source to target that use the same copy: the next copy begins at a pipeline."""
    stages = [[source]]
    for partition in range(source + 1, target + 1):
        is_pipelined = groups[partition] is not None and groups[partition - 1] == groups[partition]
        if is_pipelined:
            stages.append([])
        stages[-1].append(partition)
    return stages


class SharedBuffer(NamedTuple):
    """A buffer as large as the largest edge in it; edges by their numbers, in order."""

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
    room: list[int] = []
    users: list[int] = []
    stored: list[list[int]] = []
    for edge in order:
        size, conflict = sizes[edge], conflicts[edge]
        # Algorithm 8: a new buffer counts as the last resort, after any buffer that grows.
        best, least = len(room), size + 1
        for place, (here, bits) in enumerate(zip(room, users, strict=True)):
            # One AND of bit sets tests an edge against all users of a buffer.
            if not bits & conflict:
                growth = size - here
                # The first buffer that need not grow is optimal, so the scan ends there.
                if growth <= 0:
                    best = place
                    break
                if growth < least:
                    best, least = place, growth
        if best == len(room):
            room.append(size)
            users.append(0)
            stored.append([])
        elif room[best] < size:
            room[best] = size
        users[best] |= 1 << edge
        stored[best].append(edge)
    return [
        SharedBuffer(size, tuple(sorted(edges))) for size, edges in zip(room, stored, strict=True)
    ]


def elements_of(buffers: Sequence[SharedBuffer]) -> int:
    """Return the elements of all buffers."""
    return sum(buffer.size for buffer in buffers)


def best_shared(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the smaller of Algorithm 8's buffers and those shared largest first."""
    # Neither order is better on all networks.
    either = [
        shared_buffers(sizes, conflicts, largest_first=largest_first)
        for largest_first in (False, True)
    ]
    return min(either, key=elements_of)


def overlaps(first: Sequence[int], last: Sequence[int], bits: Sequence[int]) -> list[int]:
    """Return for each closed interval, as bits, the intervals that have a step in common with it."""
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


def largest_load(first: Sequence[int], last: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the most that is in use at one step; intervals are closed."""
    after = [end + 1 for end in last]
    return max(loads(zip(first, after, sizes, strict=True)).values(), default=0)
