"""A problem as numbers: blocks, their conflicts, the unit of offsets, and bounds by cliques.

A block is a buffer, or several buffers at the same offset, because a layer computes in place. Buffers
without bytes are omitted. A clique is a set of blocks in which each pair conflicts: the blocks are
stacked in any plan, so the sum of their sizes is a lower bound on the peak.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import gcd, lcm, prod
from operator import mul
from typing import Any, NamedTuple

from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from planners.arena.problem import Buffer, Problem, loads
from planners.kernels import placement as kernel
from planners.kernels import ranges

MOST_CONFLICTS = 80_000_000  # entries; each takes 24 bytes
# States of the search for the lowest stacks of all cliques, about 0.3 s of a processor. A clique of 16
# different blocks has this number of states.
STACK_STATES = 2**16
MOST_EXACT = 4000  # blocks of a part that is searched exactly; larger parts are searched greedily


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks and their conflicts, counted in units of `unit` bytes; `room` and `grain` are in bytes.

    The conflicts of block b are the entries neighbour_start[b] : neighbour_start[b + 1]. Either the
    neighbour begins at least `rise` above b, or b begins at least `lift` above the neighbour. Such a
    distance is the size of the largest member of the lower block that conflicts with a member of the
    upper block: if x (8 units) and y (2 units) are block b, and z conflicts with y alone, then z begins
    at least 2 above b, and `rise` is 2.

    If lifetimes alone decide, and there are more than MOST_EXACT blocks, conflicts are only counted.
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

    @property
    def starts(self) -> list[int]:
        """The start of the lifetime of each block."""
        return [min(buffer.start for buffer in members) for members in self.members]

    @property
    def ends(self) -> list[int]:
        """The end of the lifetime of each block."""
        return [max(buffer.end for buffer in members) for members in self.members]

    @property
    def conflicts_each(self) -> list[int]:
        """The number of conflicts of each block."""
        first = self.neighbour_start
        return [first[block + 1] - first[block] for block in range(len(self))]

    @property
    def is_large(self) -> bool:
        """Whether there are too many blocks for exact search."""
        return len(self) > MOST_EXACT

    @property
    def is_full(self) -> bool:
        """Whether the same number of bytes is live at every time, and no block is fixed or aligned."""
        is_plain = self.by_lifetime and not any(self.is_fixed) and max(self.alignment) == 1
        if not is_plain or self.room != [size * self.unit for size in self.size]:
            return False
        loaded = list(loads(zip(self.starts, self.ends, self.size, strict=True)).values())
        return len(set(loaded[:-1])) == 1

    @property
    def is_listed(self) -> bool:
        """Whether the conflicts are listed, not only counted."""
        return len(self.neighbour) == self.neighbour_start[-1]

    def neighbours(self, block: int) -> list[int]:
        """Return the blocks that conflict with this one."""
        if not self.is_listed:
            (buffer,) = self.members[block]
            near = [
                buffer.start < neighbour.end and neighbour.start < buffer.end
                for (neighbour,) in self.members
            ]
            return [number for number, meets in enumerate(near) if meets and number != block]
        return list(self.neighbour[self.neighbour_start[block] : self.neighbour_start[block + 1]])

    def highest(self, capacity: int) -> list[int]:
        """Return the largest offset of each block for which it ends within `capacity` bytes."""
        return [
            min(offset, (capacity - room) // self.unit) if fixed else (capacity - room) // self.unit
            for offset, room, fixed in zip(self.lowest, self.room, self.is_fixed, strict=True)
        ]

    def peak(self, offsets: Sequence[int]) -> int:
        """Return the bytes up to the end of the highest block."""
        ends = (at * self.unit + room for at, room in zip(offsets, self.room, strict=True))
        return max(ends, default=0)

    @property
    def fixed_offsets_agree(self) -> bool:
        """Whether no two blocks with fixed offsets overlap.

        True if every block is a single buffer: `check_fixed` compared single buffers already.
        """
        if self.by_lifetime:
            return True
        start, lowest = self.neighbour_start, self.lowest
        return not any(
            self.is_fixed[self.neighbour[entry]]
            and lowest[block] + self.rise[entry] > lowest[self.neighbour[entry]]
            and lowest[self.neighbour[entry]] + self.lift[entry] > lowest[block]
            for block in range(len(self))
            if self.is_fixed[block]
            for entry in range(start[block], start[block + 1])
        )

    def part_with_fixed(self, numbers: Sequence[int], offsets: Mapping[int, int]) -> Blocks:
        """Return these blocks, a subset of them fixed at `offsets` in units; all conflicts are listed.

        For blocks that conflict by lifetime alone. Blocks outside may conflict with fixed blocks only.
        """
        part = self.part(numbers, MOST_CONFLICTS)
        lowest = [offsets.get(number, self.lowest[number]) for number in numbers]
        fixed = [number in offsets or self.is_fixed[number] for number in numbers]
        return replace(part, lowest=lowest, is_fixed=fixed)

    def part(self, numbers: Sequence[int], maximum: int = MOST_EXACT) -> Blocks:
        """Return these blocks alone; no block outside may conflict with them.

        maximum: number of blocks up to which conflicts by lifetime are listed.
        """
        shared: dict[str, Any] = {
            name: [getattr(self, name)[number] for number in numbers]
            for name in ("members", "room", "size", "alignment", "lowest", "is_fixed")
        }
        shared["members"] = tuple(shared["members"])
        if self.by_lifetime:
            single = [member for (member,) in shared["members"]]
            conflicts = _meetings(single, shared["size"], maximum)
        else:
            new = {number: position for position, number in enumerate(numbers)}
            first = self.neighbour_start
            ranges_of_blocks = [range(first[number], first[number + 1]) for number in numbers]
            kept = [entry for entries in ranges_of_blocks for entry in entries]
            conflicts = (
                [0, *accumulate(map(len, ranges_of_blocks))],
                [new[int(self.neighbour[entry])] for entry in kept],
                [int(self.rise[entry]) for entry in kept],
                [int(self.lift[entry]) for entry in kept],
            )
        columns = ("neighbour_start", "neighbour", "rise", "lift")
        return replace(self, **shared, **dict(zip(columns, conflicts, strict=True)))


def blocks_of(problem: Problem, groups: Sequence[Sequence[str]] = ()) -> Blocks:
    """Return the blocks of a problem; each group of buffers becomes one block."""
    buffers = [buffer for buffer in problem.buffers if buffer.takes_bytes]
    members: tuple[tuple[Buffer, ...], ...] = tuple((buffer,) for buffer in buffers)
    scale = _Scale(members)
    by_lifetime = not (problem.conflicts or problem.may_overlap or groups)
    maximum = MOST_EXACT if by_lifetime else len(buffers)
    sizes = [scale.rounded(buffer.size) for buffer in buffers]
    start, neighbour, rise, lift = _meetings(buffers, sizes, maximum)
    if not by_lifetime:
        conflicts = [
            {int(block) for block in neighbour[start[number] : start[number + 1]]}
            for number in range(len(buffers))
        ]
        members, rises = _grouped(problem, buffers, conflicts, groups)
        scale = _Scale(members)
        start, neighbour, rise, lift = [0], [], [], []
        for block, above in enumerate(rises):
            for upper in sorted(above):
                neighbour.append(upper)
                rise.append(scale.rounded(above[upper]))
                lift.append(scale.rounded(rises[upper][block]))
            start.append(len(neighbour))
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
        lowest=[0 if offset is None else offset // scale.unit for offset in fixed],
        is_fixed=[offset is not None for offset in fixed],
        neighbour_start=start,
        neighbour=neighbour,
        rise=rise,
        lift=lift,
    )


def _meetings(
    buffers: Sequence[Buffer], sizes: Sequence[int], maximum: int
) -> tuple[list[int], Any, Any, Any]:
    """Return the conflicts of lifetimes that meet, as the columns start, neighbour, rise and lift.

    sizes: of the buffers, in units. maximum: number of buffers up to which conflicts are listed.
    """
    starts, ends = [b.start for b in buffers], [b.end for b in buffers]
    begun, ended = sorted(starts), sorted(ends)
    start = [0]
    for buffer in buffers:
        # Buffers that begin before its end, without those that end by its start, and without itself.
        met = bisect_left(begun, buffer.end) - bisect_right(ended, buffer.start) - 1
        start.append(start[-1] + met)
    if len(buffers) > maximum:
        return start, (), (), ()
    if start[-1] > MOST_CONFLICTS:
        raise GaveUp(
            f"{start[-1] // 2} pairs of buffers conflict; the limit is {MOST_CONFLICTS // 2}"
        )
    times = {time: index for index, time in enumerate(sorted({*starts, *ends}))}
    backend = compiler.backend(fits=ranges.overlaps(sizes) <= compiler.INT64_SUM_LIMIT)
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


def _grouped(
    problem: Problem,
    buffers: Sequence[Buffer],
    conflicts: Sequence[set[int]],
    groups: Sequence[Sequence[str]],
) -> tuple[tuple[tuple[Buffer, ...], ...], list[dict[int, int]]]:
    """Return the members of each block, and its rises in bytes by neighbour (see `Blocks`).

    conflicts: of the lifetimes of the buffers; the exceptions of the problem are applied here.
    """
    number_of = {buffer.name: number for number, buffer in enumerate(buffers)}
    for pairs, change in ((problem.conflicts, set.add), (problem.may_overlap, set.discard)):
        for first, second in pairs:
            if first in number_of and second in number_of:
                change(conflicts[number_of[first]], number_of[second])
                change(conflicts[number_of[second]], number_of[first])
    leader_of = list(range(len(buffers)))
    for group in groups:
        numbers = [number_of[name] for name in group if name in number_of]
        for number in numbers:
            leader_of[number] = numbers[0]
    position = {leader: index for index, leader in enumerate(sorted(set(leader_of)))}
    block_of = [position[leader] for leader in leader_of]
    members: list[list[Buffer]] = [[] for _ in position]
    rises: list[dict[int, int]] = [{} for _ in position]
    for number, buffer in enumerate(buffers):
        own_block = block_of[number]
        members[own_block].append(buffer)
        for block in (block_of[neighbour] for neighbour in conflicts[number]):
            if block != own_block:
                rises[own_block][block] = max(rises[own_block].get(block, 0), buffer.size)
    return tuple(map(tuple, members)), rises


class _Scale:
    """The unit of offsets: in some optimal plan every offset is a multiple of it.

    In a plan pushed down, each block begins at zero, at a fixed offset, or at the first multiple of its
    alignment after a block below. All these offsets are multiples of the unit if
    - the unit divides all fixed offsets, and all sizes rounded up to the grain, and
    - of the unit and each alignment, one divides the other: an aligned offset is a multiple of the
      unit, or every multiple of the unit is aligned.
    With alignments 4 and 6, and sizes of 8, the unit is 2: neither of 8 and 6 divides the other.
    """

    def __init__(self, members: Sequence[Sequence[Buffer]]) -> None:
        alignments = {lcm(*(buffer.alignment for buffer in block)) for block in members} or {1}
        buffers = [buffer for block in members for buffer in block]
        self.grain = gcd(*alignments)
        unit = gcd(*(self._in_grains(buffer.size) for buffer in buffers))
        unit = gcd(unit, *(b.offset for b in buffers if b.offset is not None)) or self.grain
        # A smaller unit divides more alignments, but a multiple of fewer: repeat from the first.
        while indivisible := [
            alignment for alignment in sorted(alignments) if unit % alignment and alignment % unit
        ]:
            unit = gcd(unit, indivisible[0])
        self.unit = unit

    def _in_grains(self, size: int) -> int:
        return -(-size // self.grain) * self.grain

    def rounded(self, size: int) -> int:
        """Return the units from an offset to the first possible offset after `size` bytes."""
        return self._in_grains(size) // self.unit

    def alignment(self, block: Sequence[Buffer]) -> int:
        """Return the alignment of a block in units."""
        return max(1, lcm(*(buffer.alignment for buffer in block)) // self.unit)


def twins(blocks: Blocks) -> list[int]:
    """Return for each block the last earlier block that may exchange offsets with it, or -1.

    A search tries such blocks in one order only: symmetry breaking.
    """
    last: dict[tuple[int, ...], int] = {}
    twin_of = []
    for block, members in enumerate(blocks.members):
        buffer = members[0]
        key = buffer.start, buffer.end, buffer.size, blocks.alignment[block]
        # If lifetimes alone decide, each block is a single buffer.
        is_interchangeable = blocks.by_lifetime and not blocks.is_fixed[block]
        twin_of.append(last.get(key, -1) if is_interchangeable else -1)
        if is_interchangeable:
            last[key] = block
    return twin_of


class Clique(NamedTuple):
    """A clique of conflicting blocks, and the units that each block takes in a stack."""

    blocks: tuple[int, ...]
    weights: tuple[int, ...]


class Bound(NamedTuple):
    """A lower bound on the peak, and the blocks that prove it."""

    peak: int  # bytes
    blocks: tuple[int, ...]
    by_search: bool = False  # whether exhaustive search proves it, not the sum of a clique
    is_stacked: bool = False  # whether the clique has alignments or fixed offsets in its best order


def cliques_of(blocks: Blocks) -> list[Clique]:
    """Return cliques that together contain every block.

    If lifetimes alone decide, these are the maximal sets that are live at one time. Otherwise a greedy
    clique, large blocks first, is chosen within each such set, and among the neighbours of each block.
    """
    if blocks.by_lifetime:
        return [
            Clique(numbers, tuple(blocks.size[block] for block in numbers))
            for numbers in _live_sets(blocks)
        ]
    near = [set(blocks.neighbours(block)) for block in range(len(blocks))]
    seeds = [*_live_sets(blocks), *((block, *sorted(near[block])) for block in range(len(blocks)))]
    cliques = set()
    # Greedy cliques: finding the heaviest clique is NP-hard, and any clique is a valid bound.
    for seed in seeds:
        clique: list[int] = []
        allowed = set(seed)
        for block in sorted(seed, key=lambda block: (-blocks.size[block], block)):
            if block in allowed:
                clique.append(block)
                allowed &= near[block]
        cliques.add(tuple(sorted(clique)))
    return [Clique(numbers, _weights(blocks, numbers)) for numbers in sorted(cliques)]


def clique_bound(blocks: Blocks, cliques: Sequence[Clique]) -> Bound:
    """Return the best bound of a single clique, or of a single block."""
    bounds = [
        Bound(blocks.lowest[block] * blocks.unit + blocks.room[block], (block,))
        for block in range(len(blocks))
    ]
    for clique in cliques:
        taken = [weight * blocks.unit for weight in clique.weights]
        rooms = [blocks.room[block] for block in clique.blocks]
        # In a stack the highest block alone is not rounded up, and it may be any block: the bound
        # holds without the largest rounding.
        largest_rounding = max(0, *(size - room for size, room in zip(taken, rooms, strict=True)))
        bounds.append(Bound(sum(taken) - largest_rounding, clique.blocks))
    best = max(bounds, key=lambda bound: bound.peak, default=Bound(0, ()))
    return _stacked_bound(blocks, cliques, best)


def _stacked_bound(blocks: Blocks, cliques: Sequence[Clique], best: Bound) -> Bound:
    """Return a better bound if alignments or fixed offsets leave gaps in every order of a clique.

    The height of one order of a clique is an upper bound on its bound. Cliques are examined by
    decreasing height, while that height exceeds the best bound, and within STACK_STATES.
    """
    # Without alignments and fixed offsets a stack has no gaps: the sum of sizes is the height.
    if max(blocks.alignment, default=1) == 1 and not any(blocks.is_fixed):
        return best
    stacks: list[tuple[int, Clique, Counter[BlockKind]]] = []
    for clique in cliques:
        if all(len(blocks.members[block]) == 1 for block in clique.blocks):
            kinds = [
                BlockKind(
                    is_fixed=blocks.is_fixed[block],
                    lowest=blocks.lowest[block],
                    alignment=blocks.alignment[block],
                    room=blocks.room[block],
                    unit=blocks.unit,
                )
                for block in clique.blocks
            ]
            stacks.append((_height_in_order(kinds), clique, Counter(kinds)))
    states = STACK_STATES
    for height, clique, stack in sorted(stacks, key=lambda stack: -stack[0]):
        needed = prod(count + 1 for count in stack.values())
        if height <= best.peak:
            break
        if needed <= states:
            states -= needed
            minimum = Bound(_least_height(stack), clique.blocks, is_stacked=True)
            best = max(best, minimum, key=lambda bound: bound.peak)
    return best


class BlockKind(NamedTuple):
    """A block in a stack. lowest, alignment: in units of `unit` bytes; room: bytes."""

    is_fixed: bool
    lowest: int
    alignment: int
    room: int
    unit: int

    def raised(self, height: int) -> int | None:
        """Return the height with this block on top; None if its fixed offset is below the stack."""
        if self.is_fixed:
            offset = self.lowest * self.unit
            return None if height > offset else offset + self.room
        step = self.alignment * self.unit
        return -(-height // step) * step + self.room


def _height_in_order(kinds: Sequence[BlockKind]) -> int:
    """Return the height of one stack: blocks with fixed offsets first, then all others."""
    height = 0
    for kind in sorted(kinds, key=lambda kind: (not kind.is_fixed, kind.lowest)):
        height = kind.raised(height) or height
    return height


def _least_height(stack: Mapping[BlockKind, int]) -> int:
    """Return the minimum height of a stack over all orders: dynamic programming over multisets.

    A state is the number of placed blocks of each kind, as a mixed-radix number. A lower stack of the
    same blocks is never worse, since `raised` is monotone in the height.
    """
    kinds, counts = list(stack), list(stack.values())
    steps = list(accumulate((count + 1 for count in counts), mul, initial=1))
    minimum: list[int | None] = [None] * steps[-1]
    minimum[0] = 0
    for state in range(steps[-1]):
        height = minimum[state]
        if height is None:
            continue
        for number, kind in enumerate(kinds):
            if state // steps[number] % (counts[number] + 1) == counts[number]:
                continue
            after, raised = state + steps[number], kind.raised(height)
            lowest = minimum[after]
            # Dominance: of two stacks with the same blocks only the lower one is kept.
            if raised is not None and (lowest is None or raised < lowest):
                minimum[after] = raised
    return minimum[-1] or 0


def load_bound(blocks: Blocks) -> Bound:
    """Return the bound of the largest live load, for blocks that conflict by lifetime alone.

    Unlike `clique_bound` of all cliques it lists the live blocks of one time only.
    """
    load = loads(
        (buffer.start, buffer.end, size)
        for (buffer,), size in zip(blocks.members, blocks.size, strict=True)
    )
    peak_time = max(load, key=lambda time: (load[time], time), default=0)
    live = tuple(
        number
        for number, (buffer,) in enumerate(blocks.members)
        if buffer.start <= peak_time < buffer.end
    )
    clique = Clique(live, tuple(blocks.size[number] for number in live))
    return clique_bound(blocks, [clique] if live else [])


def _live_sets(blocks: Blocks) -> Iterator[tuple[int, ...]]:
    """Yield the maximal sets of blocks that are live at one time, by time."""
    spans = [
        (buffer.start, buffer.end, number)
        for number, members in enumerate(blocks.members)
        for buffer in members
    ]
    # Ends sort before starts of the same time, since lifetimes are half open.
    events = sorted(event for start, end, n in spans for event in ((start, 1, n), (end, 0, n)))
    live: dict[int, int] = {}  # the number of live buffers of each live block
    has_grown = False
    for _, is_start, number in events:
        if is_start:
            live[number] = live.get(number, 0) + 1
            has_grown = True
            continue
        # Only a set to which a block was added since the last end is maximal.
        if has_grown:
            yield tuple(sorted(live))
            has_grown = False
        live[number] -= 1
        if not live[number]:
            del live[number]


def _weights(blocks: Blocks, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return for each block of a clique the smallest rise to another block of the clique."""
    inside = set(numbers)
    if len(numbers) == 1:
        return (blocks.size[numbers[0]],)
    return tuple(
        min(
            int(blocks.rise[entry])
            for entry in range(blocks.neighbour_start[block], blocks.neighbour_start[block + 1])
            if int(blocks.neighbour[entry]) in inside
        )
        for block in numbers
    )
