"""Footprints of tiles along one axis of the maps: the number of input positions that tiles read.

Output position o and kernel position k read input position stride * o + dilation * k - padding, if the
map has it. A kernel position is live if it reads the map for any output. A tile is a range of output
positions times a range of live kernel positions; tiles may be cut from larger tiles.
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

Pair = tuple[int, int]  # the size of a tile, and of the tiles that it is cut into
Numbers = npt.NDArray[np.int64]

# Microseconds of a common machine, to count what all tiles read with one range of the kernel.
READS_EFFORT = 850


def used_weights(convolution: ConvolutionLoops) -> int:
    """Return the elements of all filters that participate: filters that see padding alone do not."""
    rows, columns = axes_of(convolution)
    kernel = len(rows.live) * len(columns.live)
    return convolution.filters * convolution.group_channels * kernel


def tile_sizes(length: int) -> tuple[int, ...]:
    """Return the smallest tile for each number of tiles, largest first.

    Where tiles do not overlap, a larger tile for the same number only takes more room. O(square root of
    the length). Example: a length of 8 has tiles of 8, 4, 3, 2 and 1.
    """
    tiles = [length]
    while tiles[-1] > 1:
        count = -(-length // (tiles[-1] - 1))  # the next number of tiles
        tiles.append(-(-length // count))
    return tuple(tiles)


def one_level(length: int) -> tuple[Pair, ...]:
    """Return all pairs of tile sizes with one cut: the larger tile is the whole, or the tile."""
    sizes = range(length, 0, -1)
    return tuple(
        dict.fromkeys([(length, size) for size in sizes] + [(size, size) for size in sizes])
    )


def two_levels(length: int) -> tuple[Pair, ...]:
    """Return the pairs of a tile and a tile in it that are the smallest for their numbers."""
    return tuple((outer, inner) for outer in tile_sizes(length) for inner in tile_sizes(outer))


def tiles_of(length: int, *sizes: int) -> int:
    """Return how many tiles there are where each tile is cut into tiles of the next size."""
    if not sizes:
        return 1
    whole, remainder = divmod(length, sizes[0])
    inner = tiles_of(sizes[0], *sizes[1:]) if whole else 0
    return whole * inner + (tiles_of(remainder, *sizes[1:]) if remainder else 0)


def all_touched(axis: ReceptiveField) -> int:
    """Return the number of input positions that are read at all."""
    if not axis.live:
        return 0
    whole = np.zeros(1, np.int64), np.array([axis.outputs])
    return int(_touched(axis, *whole, (0, len(axis.live)))[0])


@lru_cache(maxsize=200_000)
def input_reads(
    axis: ReceptiveField, outputs: Pair, kernel: Pair
) -> tuple[int, tuple[int, int, int]]:
    """Return the input positions that tiles read along an axis: of the largest tile, then of all tiles.

    outputs, kernel: sizes of a larger tile and of a tile in it, of output and of kernel positions. Of
    all tiles there are three numbers: without a sliding loop, and where the loop over the tiles of
    output, or of kernel, positions in a larger tile slides: each tile after the first reads only
    positions that the preceding tile did not read.
    """
    largest, moved = all_input_reads(axis, (outputs,), (kernel,))
    none, by_outputs, by_kernel = moved[:, 0, 0].tolist()
    return int(largest[0, 0]), (none, by_outputs, by_kernel)


class _Reads(NamedTuple):
    """Input positions that output tiles read with one range of the kernel, by pair of tile sizes."""

    all: Numbers  # of all tiles
    largest: Numbers  # of one tile
    repeated: Numbers  # read by a tile and by the next tile in the larger tile


def all_input_reads(
    axis: ReceptiveField, outputs: tuple[Pair, ...], taps: tuple[Pair, ...], budget: Budget = None
) -> tuple[Numbers, Numbers]:
    """Return the numbers of `input_reads` for all pairs of tile sizes of outputs and kernel (taps).

    First the positions of the largest tile, (P, K); then those of all tiles, (3, P, K).
    """
    if not axis.live:
        return np.zeros((len(outputs), len(taps)), int), np.zeros((3, len(outputs), len(taps)), int)
    stop, tiles = stop_of(budget), _OutputTiles(axis, outputs)
    by_range: dict[Range, _Reads] = {}

    def of(kernel: Range) -> _Reads:
        if kernel not in by_range:
            stop.look()
            stop.spend(READS_EFFORT)
            by_range[kernel] = tiles.reads(kernel)
        return by_range[kernel]

    largest, moved = [], []
    for pair in taps:
        larger_tiles = cut_twice(len(axis.live), *pair)
        reads_of_tiles = [of(tile) for larger_tile in larger_tiles for tile in larger_tile]
        whole = sum((reads.all for reads in reads_of_tiles), np.int64(0))
        repeated_by_outputs = sum((reads.repeated for reads in reads_of_tiles), np.int64(0))
        # Positions of two tiles in sequence, less the positions of both together.
        repeated_by_kernel = sum(
            (
                of(tile).all + of(after).all - of((tile[0], after[1])).all
                for larger_tile in larger_tiles
                for tile, after in pairwise(larger_tile)
            ),
            np.int64(0),
        )
        largest.append(np.max([reads.largest for reads in reads_of_tiles], axis=0))
        moved.append([whole, whole - repeated_by_outputs, whole - repeated_by_kernel])
    return np.stack(largest, axis=1), np.array(moved).transpose(1, 2, 0)


def cut_twice(length: int, outer: int, inner: int) -> list[list[Range]]:
    """Return for each outer tile the ranges of its inner tiles."""
    return [
        [(begin, min(begin + inner, end)) for begin in range(first, end, inner)]
        for first in range(0, length, outer)
        for end in [min(first + outer, length)]
    ]


class _OutputTiles:
    """The ranges of output positions of all tiles, pair of sizes by pair of sizes."""

    def __init__(self, axis: ReceptiveField, pairs: tuple[Pair, ...]) -> None:
        self._axis = axis
        ranges = [_ranges(axis.outputs, *pair) for pair in pairs]
        self._first, self._end = (np.concatenate(column) for column in zip(*ranges, strict=True))
        counts = np.array([len(first) for first, _ in ranges])
        self._begins = np.concatenate([[0], np.cumsum(counts)[:-1]])  # of each pair of sizes
        outers = np.repeat(np.array([outer for outer, _ in pairs]), counts)
        # Whether the next range is in the same larger tile.
        follows = (self._first[1:] == self._end[:-1]) & (self._first[1:] % outers[1:] != 0)
        self._follows = np.append(follows, False)

    def reads(self, kernel: Range) -> _Reads:
        """Return what the tiles read with a range of live kernel positions."""
        touched = _touched(self._axis, self._first, self._end, kernel)
        together = _touched(self._axis, self._first, np.append(self._end[1:], 0), kernel)
        repeated = np.where(self._follows, touched + np.append(touched[1:], 0) - together, 0)
        return _Reads(
            np.add.reduceat(touched, self._begins),
            np.maximum.reduceat(touched, self._begins),
            np.add.reduceat(repeated, self._begins),
        )


def _touched(axis: ReceptiveField, first: Numbers, end: Numbers, kernel: Range) -> Numbers:
    """The number of distinct input positions that each tile reads.

    first, end: ranges of output positions. kernel: a range of live kernel positions. Pairs (output,
    kernel position) that read the same position differ by multiples of (dilation / g, -stride / g),
    where g is the greatest common divisor. In a tile they follow one another without a hole, so the
    number of positions is the number of pairs, less the pairs whose successor is in the tile, too.
    """
    taps = range(axis.live[kernel[0]], axis.live[kernel[1] - 1] + 1)
    common = gcd(axis.stride, axis.dilation)
    step, back = min(axis.dilation // common, axis.outputs), axis.stride // common
    touched = np.zeros(len(first), dtype=np.int64)
    for tap in taps:
        # Clipped to the outputs, so that the ends fit 64 bits.
        minimum, maximum = axis.reading(tap)
        low = np.maximum(first, minimum)
        touched += np.maximum(np.minimum(end, maximum) - low, 0)
        if tap >= taps[0] + back:
            touched -= np.maximum(np.minimum(end - step, maximum) - low, 0)
    return touched


def _ranges(length: int, outer: int, inner: int) -> tuple[Numbers, Numbers]:
    """First positions and ends of the inner tiles."""
    starts = np.arange(0, outer, inner)
    first = (np.arange(0, length, outer)[:, None] + starts).ravel()
    first = first[first < length]
    return first, np.minimum.reduce(
        [first + inner, (first // outer + 1) * outer, np.full(len(first), length)]
    )
