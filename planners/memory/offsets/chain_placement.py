"""Offsets for a chain of groups, of which each reads one whole tensor and writes one.

What lies inside a group is packed below the lower of its two tensors and above the upper one. For an
arena of some bytes all places of each tensor from which the chain can go on are found, on a grid:
exact for it, but for the bytes between two tensors that lie apart, which are left empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from cnn2csdf.weights import Array
from planners.kernels import ranges

PLACES = 500  # of the grid at most, about
MOST_SUMS = 2**30  # sums of sizes inside a group, a bit each


class ChainGroup(NamedTuple):
    """A group: bytes of what it reads and writes, nought for none, and names and bytes inside it.

    lead: bytes by which what it reads has to begin behind what it writes, to lie over it.
    """

    source: str
    result: str
    lead: int
    inner: tuple[tuple[str, int], ...]


def chain_offsets(
    groups: Sequence[ChainGroup], sizes: Mapping[str, int], cap: int, alignment: int
) -> dict[str, int] | None:
    """Return offsets within a cap; None where the grid has none. Sizes are of whole alignments.

    None too where too many numbers may be sums of sizes. A source or result that is not in `sizes`
    lies elsewhere.
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
    """Whether a group works with its source (rows) and its result (columns) at places of the grid.

    places: numbers of those where the source may lie.
    """
    nowhere = np.full((1, 1), cap, grid.dtype)
    source = grid[places, None] if group.source in sizes else nowhere
    result = grid[None, :] if group.result in sizes else nowhere
    one, two = sizes.get(group.source, 0), sizes.get(group.result, 0)
    has_both = group.source in sizes and group.result in sizes
    top = np.maximum(
        source + one if group.source in sizes else 0, result + two if group.result in sizes else 0
    )
    sums = _sums([size for _, size in group.inner], cap).astype(grid.dtype)
    packed = np.minimum(_largest(sums, source), _largest(sums, result))  # below the lower of them
    total = sum(size for _, size in group.inner)
    found = (top <= cap) & (total - packed <= cap - top)
    if has_both:
        found &= (result + min(group.lead, two) <= source) | (result >= source + one)
    return np.asarray(found)


def _bits(group: ChainGroup, cap: int) -> int:
    """How many numbers up to the cap, in the largest unit of all sizes, may be a sum of some sizes."""
    sizes = [size for _, size in group.inner]
    return min(cap, sum(sizes)) // max(1, gcd(*sizes))


def _sums(sizes: Sequence[int], cap: int) -> Array:
    """The sums of some of the sizes up to a cap, growing; 0 is the first."""
    unit = max(1, gcd(*sizes))
    most = min(cap, sum(sizes)) // unit
    sums = 1  # bit n: whether n units are a sum
    for size in sizes:
        sums |= sums << size // unit
    bits = np.frombuffer(
        (sums & ((1 << (most + 1)) - 1)).to_bytes(most // 8 + 1, "little"), np.uint8
    )
    found = np.flatnonzero(np.unpackbits(bits, bitorder="little")[: most + 1])
    return found.astype(ranges.number_type(cap)) * unit


def _largest(sums: Array, most: Array) -> Array:
    """The largest of growing sums that is at most each number."""
    return np.asarray(sums[np.searchsorted(sums, most, side="right") - 1])


def _traced(
    groups: Sequence[ChainGroup],
    sizes: Mapping[str, int],
    before: Sequence[Array],
    place: int,
    grid: Array,
    alignment: int,
) -> dict[str, int]:
    """The offsets of all tensors, from the last back to the first, and of what lies inside."""
    offsets: dict[str, int] = {}
    for group, found in zip(reversed(groups), reversed(before), strict=True):
        if group.result in sizes:
            offsets[group.result] = int(grid[place])
        place = int(found[place])
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
    found, at = {}, 0
    for name, size in group.inner:
        if name in low:
            found[name], at = at, at + size
    at = -(-top // alignment) * alignment
    for name, size in group.inner:
        if name not in low:
            found[name], at = at, at + size
    return found


def _some_below(inner: Sequence[tuple[str, int]], room: int) -> set[str]:
    """Names of pieces with the largest sum that fits into a room."""
    known: dict[int, tuple[str, ...]] = {0: ()}
    for name, size in inner:
        for total, names in list(known.items()):
            if total + size <= room and total + size not in known:
                known[total + size] = (*names, name)
    return set(known[max(known)])
