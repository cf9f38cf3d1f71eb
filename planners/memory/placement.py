"""Buffer offsets of a memory plan, where a result may overlap dead rows of its input.

Three methods are combined: the exact search of planners.arena in an arena of a fixed size; first
fit in five orders; and dynamic programming along a chain of groups, each with one whole input and
one whole result. The dynamic programming is exact on a grid of offsets, except that bytes between
two separate tensors are left empty. Buffers inside a group are packed below the lower tensor of the
group and above its upper tensor.

A lead weakens the conflict of two buffers: the second buffer begins at least the lead above the
first, instead of at least the size of the first. Example: `below` of 60 bytes at offset 0 and a
lead of 20 bytes: `above` may begin at 20 instead of 60.

The exact search processes blocks by their offsets, and blocks of equal offsets in its internal
order. A lead of zero is therefore counted as a small fraction of a unit, which is subtracted from
the resulting offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from cnn2csdf.weights import Array
from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks, Clique
from planners.arena.orders import SearchInput
from planners.arena.portfolio import Attempt
from planners.arena.problem import Buffer
from planners.kernels import ranges
from planners.kernels.placement_search import FOUND, NONE
from planners.plan.plan import Kind, StreamBuffer

NEAR = 1024  # stop within this fraction of the lower bound
GRID = 256  # the same along the chain, where offsets are on a grid

Leads = Mapping[tuple[str, str], int]
"""Permitted overlaps: by the names of a buffer and a buffer above it, the minimum distance in bytes.

The distance is that of the begins of the two buffers.
"""


def placed(pieces: Sequence[GroupBytes], leads: Leads, *, enough: int) -> dict[str, int]:
    """Return an offset in bytes for each buffer, such that the arena is small.

    Buffers with overlapping lifetimes have disjoint bytes, unless a lead permits an overlap. The
    exact search first tries `enough` bytes. If it fails, the arena is bisected between `enough` and
    the best heuristic placement (dynamic programming along the chain, or first fit). The result is
    heuristic: the exact search has a step limit, so a smaller arena may exist.

    pieces: buffers with sizes and lifetimes.
    leads: permitted overlaps.
    enough: lower bound on the arena in bytes.
    """
    search = ExactPlacement(pieces, leads)
    offsets = search.within(enough)
    if offsets is not None:
        return offsets
    room = sum(piece.size + piece.alignment for piece in pieces)
    in_order = _in_some_order(pieces, leads)
    along_chain = _along_the_chain(pieces, leads, enough, room) or in_order
    best = min(along_chain, in_order, key=lambda offsets: _end(pieces, offsets))
    lower, upper = enough + 1, _end(pieces, best)
    while lower + lower // NEAR < upper:
        cap = (lower + upper - 1) // 2
        offsets = search.within(cap)
        if offsets is None:
            lower = cap + 1
        else:
            best, upper = offsets, _end(pieces, offsets)
    return best


def _along_the_chain(
    pieces: Sequence[GroupBytes], leads: Leads, enough: int, room: int
) -> dict[str, int]:
    """Return offsets by dynamic programming; empty if a group reads or writes several whole tensors.

    The grid covers buffers of a single group and tensors between two groups. Buffers that several
    groups share, such as resident weights, are placed at the lowest offsets; the chain begins above
    these buffers.
    """
    shared = [piece for piece in pieces if piece.is_shared]
    if shared:
        unit = max(piece.alignment for piece in pieces)
        below = _in_some_order(shared, {})
        base = -(-_end(shared, below) // unit) * unit
        chain = [piece for piece in pieces if not piece.is_shared]
        above = _along_the_chain(chain, leads, max(enough - base, 0), room)
        return {**below, **{name: base + at for name, at in above.items()}} if above else {}
    groups = _chain(pieces, leads)
    if groups is None:
        return {}
    unit = max(piece.alignment for piece in pieces)
    sizes = {piece.name: -(-piece.size // unit) * unit for piece in pieces if piece.is_tensor}
    best: dict[str, int] = {}
    lower, upper = enough, room
    while lower <= upper:
        cap = lower if lower == enough else (lower + upper) // 2
        offsets = chain_offsets(groups, sizes, cap, unit)
        if offsets is None:
            lower = cap + 1 + lower // GRID
        else:
            offsets = {piece.name: offsets.get(piece.name, 0) for piece in pieces}  # 0: no bytes
            best, upper = offsets, min(_end(pieces, offsets), cap) - 1 - lower // GRID
    return best


def _chain(pieces: Sequence[GroupBytes], leads: Leads) -> list[ChainGroup] | None:
    unit = max((piece.alignment for piece in pieces), default=1)
    groups: list[ChainGroup] = []
    for number in range(max((piece.end for piece in pieces), default=0)):
        alive = [piece for piece in pieces if piece.begin <= number < piece.end]
        tensors = sorted(
            (piece for piece in alive if piece.is_tensor), key=lambda piece: piece.begin
        )
        old = [
            tensor.name for tensor in tensors if tensor.begin < number or tensor.end == number + 1
        ]
        new = [tensor.name for tensor in tensors if tensor.name not in old]
        is_last = not new and len(old) == 2
        source, result = (old[0], old[1]) if is_last else (_only(old), _only(new))
        if source is None or result is None or (groups and source != groups[-1].result):
            return None
        inner = tuple(
            (piece.name, -(-piece.size // unit) * unit)
            for piece in alive
            if piece.is_inner and piece.size
        )
        whole_size = {tensor.name: tensor.size for tensor in tensors}.get(result, 0)
        lead = leads.get((result, source), whole_size)
        groups.append(ChainGroup(source, result, -(-lead // unit) * unit, inner))
    return groups or None


def _only(names: Sequence[str]) -> str | None:
    """The only name of a sequence, "" if it is empty, None for several."""
    return None if len(names) > 1 else "".join(names)


def _end(pieces: Sequence[GroupBytes], offsets: Mapping[str, int]) -> int:
    return max((offsets[piece.name] + piece.size for piece in pieces), default=0)


def _in_some_order(pieces: Sequence[GroupBytes], leads: Leads) -> dict[str, int]:
    """First fit in five orders; the smallest arena wins."""
    orders = (
        sorted(pieces, key=lambda piece: (-piece.size, piece.begin)),
        sorted(pieces, key=lambda piece: (piece.begin, -piece.size)),
        sorted(pieces, key=lambda piece: (piece.is_inner, piece.begin, -piece.size)),
        sorted(pieces, key=lambda piece: (piece.is_inner, -piece.end, -piece.size)),
        sorted(pieces, key=lambda piece: (piece.is_inner, -piece.end, piece.begin)),
    )
    return min(
        (_tried(order, leads) for order in orders), key=lambda offsets: _end(pieces, offsets)
    )


def _tried(order: Sequence[GroupBytes], allowed: Leads) -> dict[str, int]:
    """First fit: place the buffers in this order, each at the lowest free offset."""
    offsets: dict[str, int] = {}
    done: list[GroupBytes] = []
    for piece in order:
        barred = [
            _barred(piece, neighbour, offsets[neighbour.name], allowed)
            for neighbour in done
            if piece.meets(neighbour) and neighbour.size
        ]
        offset = 0
        for first, end in sorted(barred):  # offsets from first + 1 to end - 1 are taken
            if first < offset < end:
                offset = -(-end // piece.alignment) * piece.alignment
        offsets[piece.name] = offset
        done.append(piece)
    return offsets


def _barred(piece: GroupBytes, other: GroupBytes, at: int, allowed: Leads) -> tuple[int, int]:
    """Return the open interval of offsets at which a buffer would overlap its neighbour."""
    first, end = at - piece.size, at + other.size
    if (piece.name, other.name) in allowed:  # the piece may be below and overlap the other
        first = max(first, at - allowed[piece.name, other.name])
    if (other.name, piece.name) in allowed:
        end = min(end, at + allowed[other.name, piece.name])
    return first, max(first, end)


PLACES = 500  # of the grid at most, about
MOST_SUMS = 2**30  # sums of sizes inside a group, a bit each


class ChainGroup(NamedTuple):
    """Group of a chain: whole input, whole result, and inner buffers.

    source, result: names of the whole tensors; "" for none.
    lead: minimum of source offset minus result offset, in bytes, at which the tensors may overlap.
    inner: names and bytes of the buffers inside the group.
    """

    source: str
    result: str
    lead: int
    inner: tuple[tuple[str, int], ...]


def chain_offsets(
    groups: Sequence[ChainGroup], sizes: Mapping[str, int], cap: int, alignment: int
) -> dict[str, int] | None:
    """Return offsets within a cap by dynamic programming; None if the grid has no solution.

    The states are grid offsets of the tensor between two groups. None also if the subset sums of
    the inner buffers are too many. A source or result that is not in `sizes` is stored elsewhere.

    groups: the chain, in execution order.
    sizes: bytes of each whole tensor, multiples of the alignment.
    cap: bytes of the arena.
    alignment: bytes of which each offset is a multiple.
    """
    if any(_bits(group, cap) > MOST_SUMS for group in groups):
        return None
    step = alignment * max(1, cap // (PLACES * alignment))
    grid = np.array(range(0, cap + 1, step), ranges.number_type(4 * cap))
    before: list[Array] = []
    reached: Array = np.ones(1 if groups[0].source not in sizes else len(grid), bool)
    for group in groups:
        places = np.flatnonzero(reached)
        possible = _possible(group, sizes, cap, grid, places)
        before.append(places[possible.argmax(axis=0)])
        reached = np.asarray(possible.any(axis=0))
        if not reached.any():
            return None
    return _traced(groups, sizes, before, int(reached.argmax()), grid, alignment)


def _possible(
    group: ChainGroup, sizes: Mapping[str, int], cap: int, grid: Array, places: Array
) -> Array:
    """Return whether a group fits, for source offsets (rows) and result offsets (columns) of the grid.

    places: grid indices of the reachable source offsets.
    """
    nowhere = np.full((1, 1), cap, grid.dtype)
    source = grid[places, None] if group.source in sizes else nowhere
    result = grid[None, :] if group.result in sizes else nowhere
    source_size, two = sizes.get(group.source, 0), sizes.get(group.result, 0)
    has_both = group.source in sizes and group.result in sizes
    top = np.maximum(
        source + source_size if group.source in sizes else 0,
        result + two if group.result in sizes else 0,
    )
    sums = _sums([size for _, size in group.inner], cap).astype(grid.dtype)
    packed = np.minimum(_largest(sums, source), _largest(sums, result))  # below the lower of them
    total = sum(size for _, size in group.inner)
    is_free = (top <= cap) & (total - packed <= cap - top)
    if has_both:
        is_free &= (result + min(group.lead, two) <= source) | (result >= source + source_size)
    return np.asarray(is_free)


def _bits(group: ChainGroup, cap: int) -> int:
    """Upper bound on the number of subset sums up to the cap, by their common divisor."""
    sizes = [size for _, size in group.inner]
    return min(cap, sum(sizes)) // max(1, gcd(*sizes))


def _sums(sizes: Sequence[int], cap: int) -> Array:
    """Return the increasing subset sums of sizes up to a cap: (8, 12) with cap 20: 0, 8, 12, 20."""
    unit = max(1, gcd(*sizes))
    most = min(cap, sum(sizes)) // unit
    sums = 1  # bit n: whether n units are a sum
    for size in sizes:
        sums |= sums << size // unit
    bits = np.frombuffer(
        (sums & ((1 << (most + 1)) - 1)).to_bytes(most // 8 + 1, "little"), np.uint8
    )
    free_offsets = np.flatnonzero(np.unpackbits(bits, bitorder="little")[: most + 1])
    return free_offsets.astype(ranges.number_type(cap)) * unit


def _largest(sums: Array, most: Array) -> Array:
    """Return, for each limit, the largest of the increasing sums that is at most the limit."""
    return np.asarray(sums[np.searchsorted(sums, most, side="right") - 1])


def _traced(
    groups: Sequence[ChainGroup],
    sizes: Mapping[str, int],
    before: Sequence[Array],
    place: int,
    grid: Array,
    alignment: int,
) -> dict[str, int]:
    """Return the offsets of all tensors, by backtracking from the last, and of the inner buffers."""
    offsets: dict[str, int] = {}
    for group, free_offsets in zip(reversed(groups), reversed(before), strict=True):
        if group.result in sizes:
            offsets[group.result] = int(grid[place])
        place = int(free_offsets[place])
        if group.source in sizes:
            offsets[group.source] = int(grid[place])
    for group in groups:
        offsets.update(_inside(group, sizes, offsets, alignment))
    return offsets


def _inside(
    group: ChainGroup, sizes: Mapping[str, int], offsets: Mapping[str, int], alignment: int
) -> dict[str, int]:
    ends = [name for name in (group.source, group.result) if name in sizes]
    bottom = min((offsets[name] for name in ends), default=0)
    top = max((offsets[name] + sizes[name] for name in ends), default=0)
    low = _some_below(group.inner, bottom)
    inner_offsets, at = {}, 0
    for name, size in group.inner:
        if name in low:
            inner_offsets[name], at = at, at + size
    at = -(-top // alignment) * alignment
    for name, size in group.inner:
        if name not in low:
            inner_offsets[name], at = at, at + size
    return inner_offsets


def _some_below(inner: Sequence[tuple[str, int]], room: int) -> set[str]:
    """Return the names of the buffers with the largest total size that fits into `room` bytes."""
    sums_of: dict[int, tuple[str, ...]] = {0: ()}
    for name, size in inner:
        for total, names in list(sums_of.items()):
            if total + size <= room and total + size not in sums_of:
                sums_of[total + size] = (*names, name)
    return set(sums_of[max(sums_of)])


TURNS = 16  # of searches in different orders, of a thousand placements and more each


class ExactPlacement:
    """Exact search for offsets of buffers with leads, in arenas of any size."""

    def __init__(self, pieces: Sequence[GroupBytes], leads: Leads) -> None:
        """Set buffers and leads. Buffers of 0 bytes are placed at offset 0."""
        self._resting = {piece.name: 0 for piece in pieces if not piece.size}
        self._pieces = [piece for piece in pieces if piece.size]
        self._unit = gcd(
            *(number for piece in self._pieces for number in (piece.size, piece.alignment))
        )
        self._part = (
            len(self._pieces) + 1
        )  # of a unit is a step; more than there are leads in a row
        self._numbers = {piece.name: number for number, piece in enumerate(self._pieces)}
        self._sizes = [self._steps(piece.size) for piece in self._pieces]
        self._rises = {  # leads in steps: the second piece of a pair begins above the first
            (number, self._numbers[above]): max(1, min(self._steps(lead), self._sizes[number]))
            for (below, above), lead in leads.items()
            if above in self._numbers and (number := self._numbers.get(below)) is not None
        }
        self._blocks = self._conflicting()
        self._cliques = self._alive_together()
        self._search_inputs: dict[bool, SearchInput] = {}

    def within(self, cap: int, turns: int = TURNS) -> dict[str, int] | None:
        """Return offsets within an arena of `cap` bytes; None if the search ends without a solution."""
        if not self._pieces:
            return self._resting
        capacity = cap // self._unit * self._part + self._part - 1
        attempt = Attempt(self._search_input(capacity), capacity)
        for _ in range(turns):
            outcome = attempt.step()
            if outcome == FOUND:
                placed = zip(self._pieces, attempt.offsets, strict=True)
                offsets = {piece.name: at // self._part * self._unit for piece, at in placed}
                return {**self._resting, **offsets}
            if outcome == NONE:
                break
        return None

    def _search_input(self, capacity: int) -> SearchInput:
        """Return the pieces for the backend whose integers hold all sums within the capacity."""
        blocks = self._blocks
        lies = blocks.size, blocks.alignment, blocks.lowest
        backend = compiler.backend(
            fits=ranges.placement_search(*lies, capacity) <= compiler.INT64_SUM_LIMIT
        )
        if backend.is_compiled not in self._search_inputs:
            self._search_inputs[backend.is_compiled] = SearchInput(blocks, self._cliques, backend)
        return self._search_inputs[backend.is_compiled]

    def _steps(self, size: int) -> int:
        """Return a size in steps, rounded up to whole units."""
        return -(-size // self._unit) * self._part

    def _conflicting(self) -> Blocks:
        start, near, rise, lift = [0], list[int](), list[int](), list[int]()
        sizes, rises = self._sizes, self._rises
        for number, piece in enumerate(self._pieces):
            for second, neighbour in enumerate(self._pieces):
                if number != second and piece.meets(neighbour):
                    near.append(second)
                    rise.append(rises.get((number, second), sizes[number]))
                    lift.append(rises.get((second, number), sizes[second]))
            start.append(len(near))
        return Blocks(
            members=tuple(
                (Buffer(name=piece.name, size=piece.size, start=piece.begin, end=piece.end),)
                for piece in self._pieces
            ),
            by_lifetime=False,
            unit=1,
            grain=1,
            room=sizes,
            size=sizes,
            alignment=[
                self._steps(piece.alignment) if piece.alignment > self._unit else 1
                for piece in self._pieces
            ],
            lowest=[0] * len(sizes),
            is_fixed=[False] * len(sizes),
            neighbour_start=start,
            neighbour=near,
            rise=rise,
            lift=lift,
        )

    def _alive_together(self) -> list[Clique]:
        """Return cliques of buffers that are live in a group, with and without overlapped buffers.

        The second clique of a group omits the buffers that a result may overlap.
        """
        cliques: set[Clique] = set()
        for group in range(max((piece.end for piece in self._pieces), default=0)):
            alive = [
                number
                for number, piece in enumerate(self._pieces)
                if piece.begin <= group < piece.end
            ]
            pairs = [pair for pair in self._rises if pair[0] in alive and pair[1] in alive]
            covered = {above for _, above in pairs}
            for members in (alive, [number for number in alive if number not in covered]):
                weights = {number: self._sizes[number] for number in members}
                for below, above in pairs:
                    if below in weights and above in weights:
                        weights[below] = min(weights[below], self._rises[below, above])
                if members:
                    cliques.add(Clique(tuple(members), tuple(weights.values())))
        return sorted(cliques)


class GroupBytes(NamedTuple):
    """Buffer of a plan: bytes that the groups from `begin` to before `end` need.

    name: name of the buffer.
    size: bytes.
    begin, end: half-open range of group numbers, such as (0, 2) for groups 0 and 1.
    alignment: bytes of which the offset is a multiple.
    is_tensor: whether the buffer is a whole tensor; otherwise a ring buffer, accumulators or
        weights.
    """

    name: str
    size: int
    begin: int
    end: int
    alignment: int
    is_tensor: bool = True

    @classmethod
    def of(cls, buffer: StreamBuffer, alignment: int) -> GroupBytes:
        """Return the bytes of a buffer of a plan."""
        is_tensor = buffer.kind is Kind.WHOLE
        return cls(buffer.name, buffer.size, buffer.begin, buffer.end, alignment, is_tensor)

    @property
    def is_inner(self) -> bool:
        """Whether the buffer belongs to a single group and is not a whole tensor."""
        return not self.is_tensor and self.end - self.begin == 1

    @property
    def is_shared(self) -> bool:
        """Whether several groups need the buffer, and the buffer is not a whole tensor."""
        return not self.is_tensor and not self.is_inner

    def meets(self, other: GroupBytes) -> bool:
        """Return whether the lifetimes of two buffers overlap."""
        return self.begin < other.end and other.begin < self.end
