"""Footprints of tiles along one axis of the maps: how many input places the tiles of a loop read.

Output place o and kernel place k read input place stride * o + dilation * k - padding, if it lies in
the map. A kernel place is live if it does so for some output. A tile is a range of output places
times a range of live kernel places; it may lie in a larger tile.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cnn2csdf.geometry import Range, ReceptiveField
from csdf.time_limit import Budget, stop_of
from planners.traffic.convolution import ConvolutionLoops, axes_of

Pair = tuple[int, int]  # the size of a tile, and of the tiles in it
Numbers = npt.NDArray[np.int64]

# Microseconds of a usual machine, to count what tiles read of a range of a kernel.
READS_EFFORT = 850


def used_weights(convolution: ConvolutionLoops) -> int:
    """Return the elements of all filters that participate: filters that see padding alone do not."""
    rows, columns = axes_of(convolution)
    kernel = len(rows.live) * len(columns.live)
    return convolution.filters * convolution.group_channels * kernel


def tile_sizes(length: int) -> tuple[int, ...]:
    """Return the smallest tile for each number of tiles, largest first.

    Of two with the same number the larger one only takes more room, where tiles do not overlap.
    O(square root of the length).
    """
    tiles = [length]
    while tiles[-1] > 1:
        trips = -(-length // (tiles[-1] - 1))  # the next number of tiles that there is
        tiles.append(-(-length // trips))
    return tuple(tiles)


def one_level(length: int) -> tuple[Pair, ...]:
    """Return all sizes of tiles that are cut once: the larger tile is the whole, or the tile."""
    sizes = range(length, 0, -1)
    return tuple(
        dict.fromkeys([(length, size) for size in sizes] + [(size, size) for size in sizes])
    )


def two_levels(length: int) -> tuple[Pair, ...]:
    """Return all tiles, with smaller ones in them, that are the smallest for their number."""
    return tuple((outer, inner) for outer in tile_sizes(length) for inner in tile_sizes(outer))


def tiles_of(length: int, *sizes: int) -> int:
    """Return how many tiles there are where each tile is cut into tiles of the next size."""
    if not sizes:
        return 1
    whole, remainder = divmod(length, sizes[0])
    inner = tiles_of(sizes[0], *sizes[1:]) if whole else 0
    return whole * inner + (tiles_of(remainder, *sizes[1:]) if remainder else 0)


def all_touched(axis: ReceptiveField) -> int:
    """Return the input places that are read at all."""
    if not axis.live:
        return 0
    whole = np.zeros(1, np.int64), np.array([axis.outputs])
    return int(_touched(axis, *whole, (0, len(axis.live)))[0])


@lru_cache(maxsize=200_000)
def input_reads(
    axis: ReceptiveField, places: Pair, kernel: Pair
) -> tuple[int, tuple[int, int, int]]:
    """Return the input positions that tiles read along an axis: of the largest tile, then of all tiles.

    places, kernel: the sizes of a tile of output positions and of kernel positions, each in a larger
    tile, a step of which brings a whole tile. Of all tiles there are three numbers: with no loop
    sliding, with output positions, with kernel positions.
    """
    largest, moved = all_input_reads(axis, (places,), (kernel,))
    none, by_places, by_kernel = moved[:, 0, 0].tolist()
    return int(largest[0, 0]), (none, by_places, by_kernel)


class _Reads(NamedTuple):
    """Input places that tiles of a range of kernel places read, for each pair of output sizes."""

    all: Numbers  # of all tiles
    largest: Numbers
    repeated: Numbers  # read by a tile and by the next one in the larger tile


def all_input_reads(
    axis: ReceptiveField, places: tuple[Pair, ...], taps: tuple[Pair, ...], budget: Budget = None
) -> tuple[Numbers, Numbers]:
    """Return what input tiles read, for each pair of sizes of output places and of kernel places.

    First the positions of the largest tile, (P, K); then those of all tiles, (3, P, K): with no loop
    sliding, with output places, with kernel places.
    """
    if not axis.live:
        return np.zeros((len(places), len(taps)), int), np.zeros((3, len(places), len(taps)), int)
    stop, tiles = stop_of(budget), _PlaceTiles(axis, places)
    by_range: dict[Range, _Reads] = {}

    def of(kernel: Range) -> _Reads:
        if kernel not in by_range:
            stop.look()
            stop.spend(READS_EFFORT)
            by_range[kernel] = tiles.reads(kernel)
        return by_range[kernel]

    largest, moved = [], []
    for pair in taps:
        chunks = cut_twice(len(axis.live), *pair)
        ranges = [of(range_of) for chunk in chunks for range_of in chunk]
        whole = sum((reads.all for reads in ranges), np.int64(0))
        by_places = sum((reads.repeated for reads in ranges), np.int64(0))
        by_kernel = sum(
            (
                of(piece).all + of(after).all - of((piece[0], after[1])).all
                for chunk in chunks
                for piece, after in pairwise(chunk)
            ),
            np.int64(0),
        )
        largest.append(np.max([reads.largest for reads in ranges], axis=0))
        moved.append([whole, whole - by_places, whole - by_kernel])
    return np.stack(largest, axis=1), np.array(moved).transpose(1, 2, 0)


def cut_twice(length: int, outer: int, inner: int) -> list[list[Range]]:
    """Return the ranges of the inner tiles, for each of the outer ones."""
    return [
        [(begin, min(begin + inner, end)) for begin in range(first, end, inner)]
        for first in range(0, length, outer)
        for end in [min(first + outer, length)]
    ]


class _PlaceTiles:
    """The ranges of output positions of all tiles, for one pair of sizes after another."""

    def __init__(self, axis: ReceptiveField, pairs: tuple[Pair, ...]) -> None:
        self._axis = axis
        ranges = [_ranges(axis.outputs, *pair) for pair in pairs]
        self._first, self._end = (np.concatenate(column) for column in zip(*ranges, strict=True))
        counts = np.array([len(first) for first, _ in ranges])
        self._begins = np.concatenate([[0], np.cumsum(counts)[:-1]])  # of each pair of sizes
        outers = np.repeat(np.array([outer for outer, _ in pairs]), counts)
        # Whether the next range lies in the same larger tile.
        follows = (self._first[1:] == self._end[:-1]) & (self._first[1:] % outers[1:] != 0)
        self._follows = np.append(follows, False)

    def reads(self, kernel: Range) -> _Reads:
        """Return what the tiles read with these live kernel places."""
        touched = _touched(self._axis, self._first, self._end, kernel)
        together = _touched(self._axis, self._first, np.append(self._end[1:], 0), kernel)
        repeated = np.where(self._follows, touched + np.append(touched[1:], 0) - together, 0)
        return _Reads(
            np.add.reduceat(touched, self._begins),
            np.maximum.reduceat(touched, self._begins),
            np.add.reduceat(repeated, self._begins),
        )


def _touched(axis: ReceptiveField, first: Numbers, end: Numbers, kernel: Range) -> Numbers:
    """Different input places that tiles read: ranges of output places, a range of live kernel places.

    Pairs that read one place differ by multiples of (dilation / g, -stride / g), where g is the
    greatest common divisor. Those of them in a tile follow one another without a hole, so the
    places are the pairs, less those whose successor is in the tile too.
    """
    taps = range(axis.live[kernel[0]], axis.live[kernel[1] - 1] + 1)
    common = gcd(axis.stride, axis.dilation)
    step, back = min(axis.dilation // common, axis.outputs), axis.stride // common
    touched = np.zeros(len(first), dtype=np.int64)
    for tap in taps:
        # No more than there are outputs: so the ends fit 64 bits, as the outputs do.
        minimum, maximum = axis.reading(tap)
        low = np.maximum(first, minimum)
        touched += np.maximum(np.minimum(end, maximum) - low, 0)
        if tap >= taps[0] + back:
            touched -= np.maximum(np.minimum(end - step, maximum) - low, 0)
    return touched


def _ranges(length: int, outer: int, inner: int) -> tuple[Numbers, Numbers]:
    """First places and ends of the inner tiles."""
    starts = np.arange(0, outer, inner)
    first = (np.arange(0, length, outer)[:, None] + starts).ravel()
    first = first[first < length]
    return first, np.minimum.reduce(
        [first + inner, (first // outer + 1) * outer, np.full(len(first), length)]
    )
