"""A problem as numbers: blocks, their conflicts, and the unit in which offsets are counted.

A block is a buffer, or several that begin at the same offset, because a layer computes in place.
Buffers without bytes are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from planners.arena.problem import Buffer, Problem
from planners.kernels import placement as kernel
from planners.kernels import ranges

MOST_CONFLICTS = 100_000_000  # entries; each takes 24 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks and their conflicts, all counted in units of so many bytes, except `room`.

    The conflicts of block b are entries neighbour_start[b] : neighbour_start[b + 1]; `rise` says how
    far above b the neighbour must begin, if it lies higher, and `lift` how far above it b.
    """

    members: tuple[tuple[Buffer, ...], ...]
    by_lifetime: bool  # whether blocks are single buffers that conflict when their lifetimes meet
    unit: int  # bytes
    grain: int  # bytes; every alignment is a multiple
    room: Sequence[int]  # bytes from the offset of a block to the end of its largest buffer
    size: Sequence[int]
    alignment: Sequence[int]
    lowest: Sequence[int]  # the offset if it is fixed, else 0
    is_fixed: Sequence[bool]
    neighbour_start: Sequence[int]
    neighbour: Any  # sequences of the backend that wrote them
    rise: Any
    lift: Any

    def __len__(self) -> int:
        return len(self.members)

    def neighbours(self, block: int) -> list[int]:
        """Return the blocks that conflict with this one."""
        return list(self.neighbour[self.neighbour_start[block] : self.neighbour_start[block + 1]])

    def highest(self, capacity: int) -> list[int]:
        """Return the largest offset of each block with which it ends within so many bytes."""
        return [
            min(place, (capacity - room) // self.unit) if fixed else (capacity - room) // self.unit
            for place, room, fixed in zip(self.lowest, self.room, self.is_fixed, strict=True)
        ]

    def peak(self, offsets: Sequence[int]) -> int:
        """Return the bytes up to the end of the highest block."""
        ends = (at * self.unit + room for at, room in zip(offsets, self.room, strict=True))
        return max(ends, default=0)

    @property
    def can_be(self) -> bool:
        """Whether no two blocks with fixed offsets are in each other's way."""
        start, place = self.neighbour_start, self.lowest
        return not any(
            self.is_fixed[self.neighbour[entry]]
            and place[block] + self.rise[entry] > place[self.neighbour[entry]]
            and place[self.neighbour[entry]] + self.lift[entry] > place[block]
            for block in range(len(self))
            if self.is_fixed[block]
            for entry in range(start[block], start[block + 1])
        )

    def part(self, numbers: Sequence[int]) -> Blocks:
        """Return these blocks alone; nothing outside may conflict with them."""
        new = {number: position for position, number in enumerate(numbers)}
        start, neighbour, rise, lift = [0], [], [], []
        for number in numbers:
            for entry in range(self.neighbour_start[number], self.neighbour_start[number + 1]):
                neighbour.append(new[int(self.neighbour[entry])])
                rise.append(int(self.rise[entry]))
                lift.append(int(self.lift[entry]))
            start.append(len(neighbour))
        return Blocks(
            members=tuple(self.members[number] for number in numbers),
            by_lifetime=self.by_lifetime,
            unit=self.unit,
            grain=self.grain,
            room=[self.room[number] for number in numbers],
            size=[self.size[number] for number in numbers],
            alignment=[self.alignment[number] for number in numbers],
            lowest=[self.lowest[number] for number in numbers],
            is_fixed=[self.is_fixed[number] for number in numbers],
            neighbour_start=start,
            neighbour=neighbour,
            rise=rise,
            lift=lift,
        )


def blocks_of(problem: Problem, groups: Sequence[Sequence[str]] = ()) -> Blocks:
    """Return the blocks of a problem; the buffers of a group are to begin at the same offset."""
    buffers = [buffer for buffer in problem.buffers if buffer.takes_bytes]
    members: tuple[tuple[Buffer, ...], ...] = tuple((buffer,) for buffer in buffers)
    scale = _Scale(members)
    start, neighbour, rise, lift = _meetings(buffers, scale)
    if not (problem.conflicts or problem.may_overlap or groups):
        return _assembled(members, scale, (start, neighbour, rise, lift), by_lifetime=True)
    conflicts = _adjusted(problem, buffers, start, neighbour)
    members, rises = _grouped(buffers, conflicts, groups)
    scale = _Scale(members)
    return _assembled(members, scale, _entries(rises, scale), by_lifetime=False)


def _meetings(buffers: Sequence[Buffer], scale: _Scale) -> tuple[list[int], Any, Any, Any]:
    """Return the conflicts of lifetimes that meet: start, neighbour, rise and lift."""
    starts, ends = [b.start for b in buffers], [b.end for b in buffers]
    begun, ended = sorted(starts), sorted(ends)
    start = [0]
    for one in buffers:  # those that begin before its end, but not those that end before its start
        met = bisect_left(begun, one.end) - bisect_right(ended, one.start) - 1
        start.append(start[-1] + met)
    if start[-1] > MOST_CONFLICTS:
        raise GaveUp(
            f"{start[-1] // 2} pairs of buffers conflict; the limit is {MOST_CONFLICTS // 2}"
        )
    times = {time: place for place, time in enumerate(sorted({*starts, *ends}))}
    sizes = [scale.rounded(buffer.size) for buffer in buffers]
    backend = compiler.backend(fits=ranges.overlaps(sizes) <= compiler.SAFE)
    entries = [backend.blank(start[-1]) for _ in range(3)]
    columns = [times[time] for time in starts], [times[time] for time in ends], sizes
    backend.kernel(kernel.overlaps)(
        backend.kernel(kernel.Lifetimes)(*map(backend.array, columns)),
        backend.array(sorted(range(len(buffers)), key=starts.__getitem__)),
        backend.blank(len(buffers)),
        backend.array(start[:-1]),
        backend.kernel(kernel.Conflicts)(backend.array(start), *entries),
    )
    return start, entries[0], entries[1], entries[2]


def _adjusted(
    problem: Problem, buffers: Sequence[Buffer], start: Sequence[int], neighbour: Any
) -> list[set[int]]:
    """Return the conflicts of each buffer after the exceptions to the rule of lifetimes."""
    found = [
        {int(other) for other in neighbour[start[number] : start[number + 1]]}
        for number in range(len(buffers))
    ]
    number_of = {buffer.name: number for number, buffer in enumerate(buffers)}
    for pairs, change in ((problem.conflicts, set.add), (problem.may_overlap, set.discard)):
        for one, other in pairs:
            if one in number_of and other in number_of:
                change(found[number_of[one]], number_of[other])
                change(found[number_of[other]], number_of[one])
    return found


def _grouped(
    buffers: Sequence[Buffer], conflicts: Sequence[set[int]], groups: Sequence[Sequence[str]]
) -> tuple[tuple[tuple[Buffer, ...], ...], list[dict[int, int]]]:
    """Return the members of each block, and for each block how far above it each other must be."""
    number_of = {buffer.name: number for number, buffer in enumerate(buffers)}
    block_of = list(range(len(buffers)))
    for group in groups:
        numbers = [number_of[name] for name in group if name in number_of]
        for number in numbers:
            block_of[number] = numbers[0]
    leaders = sorted(set(block_of))
    position = {leader: place for place, leader in enumerate(leaders)}
    members: list[list[Buffer]] = [[] for _ in leaders]
    rises: list[dict[int, int]] = [{} for _ in leaders]
    for number, buffer in enumerate(buffers):
        own = position[block_of[number]]
        members[own].append(buffer)
        for other in conflicts[number]:
            theirs = position[block_of[other]]
            if theirs != own:
                rises[own][theirs] = max(rises[own].get(theirs, 0), buffer.size)
    return tuple(map(tuple, members)), rises


def _entries(rises: list[dict[int, int]], scale: _Scale) -> tuple[list[int], Any, Any, Any]:
    start = [0]
    neighbour: list[int] = []
    rise: list[int] = []
    lift: list[int] = []
    for block, above in enumerate(rises):
        for other in sorted(above):
            neighbour.append(other)
            rise.append(scale.rounded(above[other]))
            lift.append(scale.rounded(rises[other][block]))
        start.append(len(neighbour))
    return start, neighbour, rise, lift


def _assembled(
    members: tuple[tuple[Buffer, ...], ...],
    scale: _Scale,
    entries: tuple[list[int], Any, Any, Any],
    *,
    by_lifetime: bool,
) -> Blocks:
    start, neighbour, rise, lift = entries
    fixed = [next((b.offset for b in block if b.offset is not None), None) for block in members]
    room = [max(buffer.size for buffer in block) for block in members]
    return Blocks(
        members=members,
        by_lifetime=by_lifetime,
        unit=scale.unit,
        grain=scale.grain,
        room=room,
        size=[scale.rounded(size) for size in room],
        alignment=[scale.alignment(block) for block in members],
        lowest=[0 if place is None else place // scale.unit for place in fixed],
        is_fixed=[place is not None for place in fixed],
        neighbour_start=start,
        neighbour=neighbour,
        rise=rise,
        lift=lift,
    )


class _Scale:
    """The largest unit in which all offsets of plans without needless gaps are whole numbers."""

    def __init__(self, members: Sequence[Sequence[Buffer]]) -> None:
        alignments = {lcm(*(buffer.alignment for buffer in block)) for block in members} or {1}
        buffers = [buffer for block in members for buffer in block]
        self.grain = gcd(*alignments)
        unit = gcd(*(-buffer.size // self.grain * self.grain for buffer in buffers))
        unit = gcd(unit, *(b.offset for b in buffers if b.offset is not None)) or self.grain
        while odd := [one for one in sorted(alignments) if unit % one and one % unit]:
            unit = gcd(unit, odd[0])
        self.unit = unit

    def rounded(self, size: int) -> int:
        """Return the units to the first place where something may begin after so many bytes."""
        return -(-size // self.grain * self.grain // self.unit)

    def alignment(self, block: Sequence[Buffer]) -> int:
        """Return the alignment of a block in units."""
        return max(1, lcm(*(buffer.alignment for buffer in block)) // self.unit)
