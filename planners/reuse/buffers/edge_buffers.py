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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cnn2csdf.lowering import channel_names
from cnn2csdf.network import Connection
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
