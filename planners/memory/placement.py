"""Buffer offsets of a memory plan, where a result may overlap dead rows of its input.

Three methods are combined: the exact search of planners.arena in an arena of a fixed size; first
fit in five orders; and dynamic programming along a chain of groups, each with one whole input (its
source) and one whole result. The dynamic programming is exact on a grid of offsets, except that bytes
between two separate tensors are left empty. Buffers inside a group are packed below the lower tensor
of the group and above its upper tensor.

A lead weakens the conflict of two buffers: the second buffer begins at least the lead above the
first, instead of at least the size of the first. Example: `below` of 60 bytes at offset 0 and a
lead of 20 bytes: `above` may begin at 20 instead of 60.

The exact search processes blocks by their offsets, and blocks of equal offsets in its internal
order. A lead of zero is therefore counted as a small fraction of a unit, which is subtracted from
the resulting offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
GRID_NEAR = 256  # the same along the chain, where offsets are on a grid
GRID_OFFSETS = 500  # about the maximum number of offsets of the grid
MOST_SUM_BYTES = 2**30  # of the subset sums of the sizes inside a group
TURNS = 16  # of the exact search in different orders, of a thousand placements and more each

Leads = Mapping[tuple[str, str], int]
"""Permitted overlaps: by the names of a buffer and a buffer above it, the minimum distance in bytes.

The distance is that of the begins of the two buffers.
"""


def arena_buffer(buffer: StreamBuffer, alignment: int) -> Buffer:
    """Return a buffer of a plan as one of an allocation problem, whose times are groups."""
    return Buffer(
        name=buffer.name,
        size=buffer.size,
        start=buffer.begin,
        end=buffer.end,
        alignment=alignment,
    )


def stream_offsets(
    buffers: Sequence[StreamBuffer],
    alignment: Callable[[StreamBuffer], int],
    leads: Leads,
    *,
    enough: int,
) -> dict[str, int]:
    """Return `buffer_offsets` for the buffers of a plan, live from group `begin` to before `end`."""
    pieces = [arena_buffer(buffer, alignment(buffer)) for buffer in buffers]
    whole = frozenset(buffer.name for buffer in buffers if buffer.kind is Kind.WHOLE)
    return buffer_offsets(pieces, leads, whole=whole, enough=enough)


def buffer_offsets(
    buffers: Sequence[Buffer], leads: Leads, *, whole: frozenset[str], enough: int
) -> dict[str, int]:
    """Return an offset in bytes for each buffer, such that the arena is small.

    Buffers with overlapping lifetimes have disjoint bytes, unless a lead permits an overlap. The
    exact search first tries `enough` bytes. If it fails, the arena is bisected between `enough` and
    the best heuristic placement (dynamic programming along the chain, or first fit). The result is
    heuristic: the exact search has a step limit, so a smaller arena may exist.

    buffers: buffers with sizes, and lifetimes in groups: (0, 2) for groups 0 and 1.
    leads: permitted overlaps.
    whole: names of the buffers that are whole tensors; the other buffers are ring buffers,
        accumulators or weights.
    enough: lower bound on the arena in bytes.
    """
    search = ExactPlacement(buffers, leads)
    offsets = search.within(enough)
    if offsets is not None:
        return offsets
    room = sum(buffer.size + buffer.alignment for buffer in buffers)
    in_order = _best_first_fit(buffers, leads, whole)
    along_chain = _along_the_chain(buffers, leads, whole, enough, room) or in_order
    best = min(along_chain, in_order, key=lambda offsets: _end(buffers, offsets))
    lower, upper = enough + 1, _end(buffers, best)
    while lower + lower // NEAR < upper:
        cap = (lower + upper - 1) // 2
        offsets = search.within(cap)
        if offsets is None:
            lower = cap + 1
        else:
            best, upper = offsets, _end(buffers, offsets)
    return best


def _along_the_chain(
    buffers: Sequence[Buffer], leads: Leads, whole: frozenset[str], enough: int, room: int
) -> dict[str, int]:
    """Return offsets by dynamic programming; empty if a group reads or writes several whole tensors.

    The arena is bisected between `enough` and `room` bytes. Buffers that several groups share and that
    are no whole tensors, such as resident weights, are placed at the lowest offsets; the chain begins
    at `base` bytes, above these buffers.
    """
    chain, shared = list[Buffer](), list[Buffer]()
    for buffer in buffers:
        is_of_chain = buffer.name in whole or _is_inner(buffer, whole)
        (chain if is_of_chain else shared).append(buffer)
    groups = _chain_groups(chain, leads, whole)
    if groups is None:
        return {}
    below = _best_first_fit(shared, {}, whole)
    base = _rounded_up(_end(shared, below), max(buffer.alignment for buffer in buffers))
    unit = max(buffer.alignment for buffer in chain)
    sizes = {
        buffer.name: _rounded_up(buffer.size, unit) for buffer in chain if buffer.name in whole
    }
    best: dict[str, int] = {}
    first_cap = lower = max(enough - base, 0)
    upper = room
    while lower <= upper:
        cap = lower if lower == first_cap else (lower + upper) // 2
        offsets = chain_offsets(groups, sizes, cap, unit)
        if offsets is None:
            lower = cap + 1 + lower // GRID_NEAR
        else:
            # Buffers without bytes are at offset 0.
            best = {buffer.name: offsets.get(buffer.name, 0) for buffer in chain}
            upper = min(_end(chain, best), cap) - 1 - lower // GRID_NEAR
    return {**below, **{name: base + offset for name, offset in best.items()}} if best else {}


def _rounded_up(size: int, unit: int) -> int:
    """Return the smallest multiple of a unit that is at least a size."""
    return -(-size // unit) * unit


def _is_inner(buffer: Buffer, whole: frozenset[str]) -> bool:
    """Whether a buffer belongs to a single group and is not a whole tensor."""
    return buffer.name not in whole and buffer.end - buffer.start == 1


def _chain_groups(
    buffers: Sequence[Buffer], leads: Leads, whole: frozenset[str]
) -> list[ChainGroup] | None:
    """Return the groups of a plan as a chain; None if a group has several sources or results."""
    unit = max((buffer.alignment for buffer in buffers), default=1)
    groups: list[ChainGroup] = []
    for number in range(max((buffer.end for buffer in buffers), default=0)):
        live = [buffer for buffer in buffers if buffer.start <= number < buffer.end]
        tensors = sorted(
            (buffer for buffer in live if buffer.name in whole), key=lambda buffer: buffer.start
        )
        sources = [
            tensor.name for tensor in tensors if tensor.start < number or tensor.end == number + 1
        ]
        results = [tensor.name for tensor in tensors if tensor.name not in sources]
        if not results and len(sources) == 2:  # of the last group, whose result ends with it
            sources, results = sources[:1], sources[1:]
        if len(sources) > 1 or len(results) > 1:
            return None
        source, result = "".join(sources), "".join(results)
        if groups and source != groups[-1].result:
            return None
        inner = tuple(
            (buffer.name, _rounded_up(buffer.size, unit))
            for buffer in live
            if _is_inner(buffer, whole) and buffer.size
        )
        result_size = sum(tensor.size for tensor in tensors if tensor.name == result)
        lead = _rounded_up(leads.get((result, source), result_size), unit)
        groups.append(ChainGroup(source, result, lead, inner))
    return groups or None


def _end(buffers: Sequence[Buffer], offsets: Mapping[str, int]) -> int:
    """Return the bytes of the arena: the end of the last buffer."""
    return max((offsets[buffer.name] + buffer.size for buffer in buffers), default=0)


def _best_first_fit(
    buffers: Sequence[Buffer], leads: Leads, whole: frozenset[str]
) -> dict[str, int]:
    """Return the offsets of first fit in the best of five orders."""
    orders: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
        lambda buffer: (-buffer.size, buffer.start),
        lambda buffer: (buffer.start, -buffer.size),
        lambda buffer: (_is_inner(buffer, whole), buffer.start, -buffer.size),
        lambda buffer: (_is_inner(buffer, whole), -buffer.end, -buffer.size),
        lambda buffer: (_is_inner(buffer, whole), -buffer.end, buffer.start),
    )
    return min(
        (_first_fit(sorted(buffers, key=order), leads) for order in orders),
        key=lambda offsets: _end(buffers, offsets),
    )


def _are_live_together(first: Buffer, second: Buffer) -> bool:
    """Whether the lifetimes of two buffers overlap."""
    return first.start < second.end and second.start < first.end


def _first_fit(order: Sequence[Buffer], leads: Leads) -> dict[str, int]:
    """Place the buffers in this order, each at the lowest free offset."""
    offsets: dict[str, int] = {}
    placed: list[Buffer] = []
    for buffer in order:
        forbidden = [
            _forbidden_offsets(buffer, neighbour, offsets[neighbour.name], leads)
            for neighbour in placed
            if _are_live_together(buffer, neighbour) and neighbour.size
        ]
        offset = 0
        for first, end in sorted(forbidden):
            if first < offset < end:
                offset = _rounded_up(end, buffer.alignment)
        offsets[buffer.name] = offset
        placed.append(buffer)
    return offsets


def _forbidden_offsets(buffer: Buffer, neighbour: Buffer, at: int, leads: Leads) -> tuple[int, int]:
    """Return the open interval of offsets at which a buffer would overlap its neighbour at `at`.

    Open: the offsets from the first bound plus 1 to the second minus 1 are forbidden.
    """
    first = at - leads.get((buffer.name, neighbour.name), buffer.size)
    end = at + leads.get((neighbour.name, buffer.name), neighbour.size)
    first, end = max(first, at - buffer.size), min(end, at + neighbour.size)
    return first, max(first, end)


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
    if any(_sum_bytes(group, cap) > MOST_SUM_BYTES for group in groups):
        return None
    step = alignment * max(1, cap // (GRID_OFFSETS * alignment))
    grid = np.array(range(0, cap + 1, step), ranges.number_type(4 * cap))
    source_of: list[Array] = []  # of each group: the source index for each index of the result
    reached: Array = np.ones(1 if groups[0].source not in sizes else len(grid), bool)
    for group in groups:
        sources = np.flatnonzero(reached)  # grid indices
        fits = _fits(group, sizes, cap, grid, sources)
        source_of.append(sources[fits.argmax(axis=0)])
        reached = np.asarray(fits.any(axis=0))
        if not reached.any():
            return None
    return _traced(groups, sizes, source_of, int(reached.argmax()), grid, alignment)


def _fits(
    group: ChainGroup, sizes: Mapping[str, int], cap: int, grid: Array, sources: Array
) -> Array:
    """Return whether a group fits, for source offsets (rows) and result offsets (columns) of the grid.

    The group fits if the two tensors do not conflict, and if inner buffers that do not fit below the
    lower tensor fit above the upper tensor.

    sources: grid indices of the source offsets.
    """
    has_source, has_result = group.source in sizes, group.result in sizes
    source_size, result_size = sizes.get(group.source, 0), sizes.get(group.result, 0)
    no_tensor = np.full((1, 1), cap, grid.dtype)  # all bytes of the arena are below it
    source = grid[sources, None] if has_source else no_tensor
    result = grid[None, :] if has_result else no_tensor
    top = np.maximum(
        source + source_size if has_source else 0, result + result_size if has_result else 0
    )
    inner_sizes = [size for _, size in group.inner]
    sums = _sums(inner_sizes, cap).astype(grid.dtype)
    bottom = np.minimum(source, result)
    below = sums[np.searchsorted(sums, bottom, side="right") - 1]  # the largest sum that fits
    fits = (top <= cap) & (sum(inner_sizes) - below <= cap - top)
    if has_source and has_result:
        is_result_below = result + min(group.lead, result_size) <= source
        fits &= is_result_below | (result >= source + source_size)
    return np.asarray(fits)


def _sum_bytes(group: ChainGroup, cap: int) -> int:
    """Upper bound on the bytes of subset sums: for each sum a byte, and a bit for each buffer."""
    sizes = [size for _, size in group.inner]
    return min(cap, sum(sizes)) // max(1, gcd(*sizes)) * max(8, len(sizes)) // 8


def _sums_of_prefixes(sizes: Sequence[int], cap: int) -> tuple[list[int], int]:
    """Return the subset sums up to a cap of the first 0, 1, ... sizes, and their common divisor.

    Sums are an integer whose bit n tells whether n divisors are a sum.
    """
    unit = max(1, gcd(*sizes))
    mask = (1 << (min(cap, sum(sizes)) // unit + 1)) - 1
    prefixes = [1]
    for size in sizes:
        prefixes.append((prefixes[-1] | prefixes[-1] << size // unit) & mask)
    return prefixes, unit


def _sums(sizes: Sequence[int], cap: int) -> Array:
    """Return the increasing subset sums of sizes up to a cap: (8, 12) with cap 20: 0, 8, 12, 20."""
    (*_, sums), unit = _sums_of_prefixes(sizes, cap)
    bits = np.frombuffer(sums.to_bytes(sums.bit_length() // 8 + 1, "little"), np.uint8)
    units = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    return units.astype(ranges.number_type(cap)) * unit


def _traced(
    groups: Sequence[ChainGroup],
    sizes: Mapping[str, int],
    source_of: Sequence[Array],
    result: int,
    grid: Array,
    alignment: int,
) -> dict[str, int]:
    """Return the offsets of all tensors, by backtracking from the last, and of the inner buffers.

    source_of: of each group, the grid index of the source for each grid index of the result.
    result: grid index of the last result.
    """
    offsets: dict[str, int] = {}
    index = result
    for group, source_index in zip(reversed(groups), reversed(source_of), strict=True):
        if group.result in sizes:
            offsets[group.result] = int(grid[index])
        index = int(source_index[index])
        if group.source in sizes:
            offsets[group.source] = int(grid[index])
    for group in groups:
        offsets.update(_inside(group, sizes, offsets, alignment))
    return offsets


def _inside(
    group: ChainGroup, sizes: Mapping[str, int], offsets: Mapping[str, int], alignment: int
) -> dict[str, int]:
    """Return the offsets of the inner buffers of a group, below its whole tensors and above them."""
    ends = [name for name in (group.source, group.result) if name in sizes]
    bottom = min((offsets[name] for name in ends), default=0)
    top = max((offsets[name] + sizes[name] for name in ends), default=0)
    low = _fullest_subset(group.inner, bottom)
    inner_offsets = {}
    at_low, at_high = 0, _rounded_up(top, alignment)
    for name, size in group.inner:
        if name in low:
            inner_offsets[name], at_low = at_low, at_low + size
        else:
            inner_offsets[name], at_high = at_high, at_high + size
    return inner_offsets


def _fullest_subset(inner: Sequence[tuple[str, int]], room: int) -> set[str]:
    """Return the names of the buffers with the largest total size that fits into `room` bytes."""
    (*prefixes, sums), unit = _sums_of_prefixes([size for _, size in inner], room)
    remaining = sums.bit_length() - 1
    subset = set[str]()
    for (name, size), without in zip(reversed(inner), reversed(prefixes), strict=True):
        if not without >> remaining & 1:
            subset.add(name)
            remaining -= size // unit
    return subset


class ExactPlacement:
    """Exact search for offsets of buffers with leads, in arenas of any size."""

    def __init__(self, buffers: Sequence[Buffer], leads: Leads) -> None:
        """Set buffers and leads. Buffers of 0 bytes are placed at offset 0."""
        self._without_bytes = {buffer.name: 0 for buffer in buffers if not buffer.size}
        self._buffers = [buffer for buffer in buffers if buffer.size]
        self._unit = gcd(
            *(number for buffer in self._buffers for number in (buffer.size, buffer.alignment))
        )
        # A lead of zero counts as one step. A chain of leads has fewer steps than a unit, so that leads
        # of zero move no offset to the next unit.
        self._steps_per_unit = len(self._buffers) + 1
        self._numbers = {buffer.name: number for number, buffer in enumerate(self._buffers)}
        self._sizes = [self._steps(buffer.size) for buffer in self._buffers]
        self._rises = {  # leads in steps: the second buffer of a pair is above the first
            (number, self._numbers[above]): max(1, min(self._steps(lead), self._sizes[number]))
            for (below, above), lead in leads.items()
            if above in self._numbers and (number := self._numbers.get(below)) is not None
        }
        self._blocks = self._conflicting_blocks()
        self._cliques = self._live_cliques()
        self._search_inputs: dict[bool, SearchInput] = {}

    def within(self, cap: int, turns: int = TURNS) -> dict[str, int] | None:
        """Return offsets within an arena of `cap` bytes; None if the search ends without a solution.

        turns: maximum number of searches in different orders.
        """
        if not self._buffers:
            return self._without_bytes
        capacity = cap // self._unit * self._steps_per_unit + self._steps_per_unit - 1
        attempt = Attempt(self._search_input(capacity), capacity)
        for _ in range(turns):
            outcome = attempt.step()
            if outcome == FOUND:
                placed = zip(self._buffers, attempt.offsets, strict=True)
                offsets = {
                    buffer.name: at // self._steps_per_unit * self._unit for buffer, at in placed
                }
                return {**self._without_bytes, **offsets}
            if outcome == NONE:
                break
        return None

    def _search_input(self, capacity: int) -> SearchInput:
        """Return the buffers for the backend whose integers hold all sums within the capacity."""
        blocks = self._blocks
        largest = ranges.placement_search(blocks.size, blocks.alignment, blocks.lowest, capacity)
        backend = compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
        if backend.is_compiled not in self._search_inputs:
            self._search_inputs[backend.is_compiled] = SearchInput(blocks, self._cliques, backend)
        return self._search_inputs[backend.is_compiled]

    def _steps(self, size: int) -> int:
        """Return a size in steps, rounded up to whole units."""
        return -(-size // self._unit) * self._steps_per_unit

    def _conflicting_blocks(self) -> Blocks:
        """Return the buffers as blocks, in steps, with leads as smaller rises and lifts."""
        start, near, rise, lift = [0], list[int](), list[int](), list[int]()
        sizes, rises = self._sizes, self._rises
        for first, buffer in enumerate(self._buffers):
            for second, neighbour in enumerate(self._buffers):
                if first != second and _are_live_together(buffer, neighbour):
                    near.append(second)
                    rise.append(rises.get((first, second), sizes[first]))
                    lift.append(rises.get((second, first), sizes[second]))
            start.append(len(near))
        return Blocks(
            members=tuple((buffer,) for buffer in self._buffers),
            by_lifetime=False,
            unit=1,
            grain=1,
            room=sizes,
            size=sizes,
            alignment=[
                self._steps(buffer.alignment) if buffer.alignment > self._unit else 1
                for buffer in self._buffers
            ],
            lowest=[0] * len(sizes),
            is_fixed=[False] * len(sizes),
            neighbour_start=start,
            neighbour=near,
            rise=rise,
            lift=lift,
        )

    def _live_cliques(self) -> list[Clique]:
        """Return cliques of buffers that are live in a group, with and without overlapped buffers.

        The second clique of a group omits the buffers that a result may overlap.
        """
        cliques: set[Clique] = set()
        for group in range(max((buffer.end for buffer in self._buffers), default=0)):
            alive = [
                number
                for number, buffer in enumerate(self._buffers)
                if buffer.start <= group < buffer.end
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
