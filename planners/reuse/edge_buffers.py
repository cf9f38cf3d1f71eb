"""The buffers that an application has when nothing is shared: one for each edge, or several.

An edge between two layers of a partition has one buffer. An edge that is cut, from one partition to a
later one, is stored whole. Where the two partitions are pipelined it is stored once for each stage
from the one to the other: a double buffer, (1) written by the earlier partition, (2) read by the
later one.

What the published sharing of these buffers takes for granted: when both partitions have finished their
frames, (1) is copied to (2), for if the two changed places, what shares bytes with one of them within
its partition would meet the other partition there; and no other network runs between the frames of a
pipeline that is not drained, for what it shares with (2) would be overwritten.
Source: Minakova and Stefanov, TODAES 28(1), 2022, section 3 and Table 6.1 of the thesis.

Algorithm 8: whole buffers that several edges share, one after another.

Edges come in their order. An edge may go to any buffer in which nothing is in use together with it. Of
these buffers it goes to the one that has to grow least, and to the first if several grow equally. A new
buffer is opened only if no buffer may take the edge. Two edges of partitions that run in parallel never
share a buffer. Two edges of partitions that take turns may share a buffer. Two edges of one partition
may share a buffer if their lifetimes, closed intervals of steps, have no step in common.
Source: Minakova and Stefanov, TODAES 28(1), 2022, Algorithm 8 of the thesis (its `else` is that of
line 9); Tables 6.2 and 6.3.

Ours is the other order, the largest edges first: Algorithm 8 takes edges in the order of layers, where
a buffer opened for a small edge grows later and what it held before stays small in it. Then no buffer
grows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnn2csdf.lowering import channel_names
from cnn2csdf.network import Connection
from planners.arena.problem import loads
from planners.reuse.application.application import Application, Member


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

    @property
    def partitions(self) -> tuple[int, ...]:
        """Numbers of the partitions during which it is in use."""
        return tuple(stay.partition for stay in self.stays)


Residents = dict[int, tuple[EdgeBuffer, Stay]]
"""The edge buffers in use in one partition, by number, each with its stay there."""


def edge_buffers(application: Application) -> tuple[EdgeBuffer, ...]:
    """Return all buffers in the order of Algorithm 8: by partition, then by the writing layer.

    What a partition receives stands before what it makes.
    """
    groups = partition_groups(application)
    found: list[EdgeBuffer] = []
    begin = 0
    for number, member in enumerate(application.members):
        end = begin + len(member.partitions)
        found += _member_buffers(number, member, groups[begin:end], begin, application.unit)
        begin = end
    return tuple(sorted(found, key=_place))


def partition_groups(application: Application) -> tuple[int | None, ...]:
    """Return for each partition which of the parallel sets it is in."""
    group_of = {name: number for number, names in enumerate(application.parallel) for name in names}
    return tuple(group_of.get(partition.name) for _, partition in application.partitions)


def _place(buffer: EdgeBuffer) -> tuple[int, int, int]:
    stay = buffer.stays[0]
    first = -1 if stay.first is None else stay.first
    return stay.partition, first, -1 if buffer.inner is None else buffer.inner


def _member_buffers(
    number: int, member: Member, groups: Sequence[int | None], begin: int, unit: int
) -> Iterator[EdgeBuffer]:
    homes = {
        layer: (partition, place)
        for partition, one in enumerate(member.partitions)
        for place, layer in enumerate(one.layers)
    }
    names = channel_names(member.network)
    inner = [0] * len(groups)
    for connection in _ordered(member, homes):
        (source, first), (target, last) = homes[connection.producer], homes[connection.consumer]
        channel = names[connection]
        layer = member.network.layer(connection.producer)
        elements = layer.shape.elements * (layer.element_bytes // unit)
        copies = _copies(source, target, groups)
        for copy, (start, end) in enumerate(copies, start=1):
            stays = tuple(
                Stay(
                    partition=begin + partition,
                    first=first if partition == source else None,
                    last=last if partition == target else None,
                )
                for partition in range(start, end + 1)
            )
            yield EdgeBuffer(
                name=f"{member.name}: {channel}{f' ({copy})' if len(copies) > 1 else ''}",
                channel=channel,
                member=number,
                connection=connection,
                elements=elements,
                stays=stays,
                inner=inner[source] if source == target else None,
            )
        if source == target:
            inner[source] += 1


def _ordered(member: Member, homes: dict[str, tuple[int, int]]) -> list[Connection]:
    """The connections between layers that have a gene, by producer, then by consumer."""
    counted = [
        one for one in member.network.connections if {one.producer, one.consumer} <= set(homes)
    ]
    return sorted(counted, key=lambda one: (homes[one.producer], homes[one.consumer]))


def _copies(source: int, target: int, groups: Sequence[int | None]) -> list[tuple[int, int]]:
    """Ranges of partitions: a new copy wherever one partition and the next are pipelined."""
    ranges = [(source, source)]
    for partition in range(source + 1, target + 1):
        before = groups[partition - 1]
        if before is not None and before == groups[partition]:
            ranges.append((partition, partition))
        else:
            ranges[-1] = (ranges[-1][0], partition)
    return ranges


class SharedBuffer(NamedTuple):
    """A buffer as large as the largest edge in it; edges by their numbers, in order."""

    size: int
    edges: tuple[int, ...]


def shared_buffers(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the buffers of Algorithm 8.

    conflicts: for each edge, as bits, the edges that are in use together with it.
    O(edges * buffers) operations on numbers of as many bits as there are edges.
    """
    room: list[int] = []
    users: list[int] = []
    stored: list[list[int]] = []
    for edge, (size, conflict) in enumerate(zip(sizes, conflicts, strict=True)):
        place = _least_growth(size, conflict, room, users)
        if place == len(room):
            room.append(0)
            users.append(0)
            stored.append([])
        room[place] = max(room[place], size)
        users[place] |= 1 << edge
        stored[place].append(edge)
    return [SharedBuffer(size, tuple(edges)) for size, edges in zip(room, stored, strict=True)]


def shared_largest_first(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the buffers when each edge, from the largest on, goes to the first that is free.

    The edges of a buffer are in their own order. conflicts: as for `shared_buffers`.
    """
    users: list[int] = []
    room: list[int] = []
    stored: list[list[int]] = []
    for edge in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        conflict = conflicts[edge]
        place = next((n for n, bits in enumerate(users) if not bits & conflict), len(users))
        if place == len(users):
            users.append(0)
            room.append(sizes[edge])
            stored.append([])
        users[place] |= 1 << edge
        stored[place].append(edge)
    return [
        SharedBuffer(size, tuple(sorted(edges))) for size, edges in zip(room, stored, strict=True)
    ]


def best_shared(sizes: Sequence[int], conflicts: Sequence[int]) -> list[SharedBuffer]:
    """Return the smaller of Algorithm 8's buffers and those shared largest first."""
    either = [shared_buffers(sizes, conflicts), shared_largest_first(sizes, conflicts)]
    return min(either, key=lambda buffers: sum(buffer.size for buffer in buffers))


def _least_growth(size: int, conflict: int, room: Sequence[int], users: Sequence[int]) -> int:
    """The first buffer that has to grow least; one past the last if each is in use."""
    best, least = len(room), size + 1
    for place, (here, bits) in enumerate(zip(room, users, strict=True)):
        if not bits & conflict:
            growth = size - here
            if growth <= 0:
                return place
            if growth < least:
                best, least = place, growth
    return best


def overlaps(first: Sequence[int], last: Sequence[int], bits: Sequence[int]) -> list[int]:
    """Return for each closed interval the bits of those that have a step in common with it."""
    starts = sorted(zip(first, bits, strict=True))
    ends = sorted(zip(last, bits, strict=True))
    started, ended = _unions(starts), _unions(ends)
    start_steps, end_steps = [step for step, _ in starts], [step for step, _ in ends]
    return [
        started[bisect_right(start_steps, end)] & ~ended[bisect_left(end_steps, start)]
        for start, end in zip(first, last, strict=True)
    ]


def _unions(events: Sequence[tuple[int, int]]) -> list[int]:
    """The bits of the first events together, of none to all of them."""
    masks = [0]
    for _, bit in events:
        masks.append(masks[-1] | bit)
    return masks


def largest_load(first: Sequence[int], last: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the most that is in use at one step; intervals are closed."""
    after = [end + 1 for end in last]
    return max(loads(zip(first, after, sizes, strict=True)).values(), default=0)
