"""Loop nests with two levels of tiles: a tile of one array within that of another.

The three arrays stand in an order. Each has a band of loops that lead from one of its tiles to the
next, inside the band of the array before it, and its tile is in the buffer inside its own band. Every
loop moves two arrays. It stands in the band of the first of them, over tiles of the size that this
array holds, and in the band of the second, over the smaller tiles that this one holds (tile loop and
point loop). Where both sizes are equal, one of the two loops is left.

The tile of an array comes in every time that the loops around its band and the loops of the band make
a step, so once for each of its tiles and each iteration of the loops around that do not move it.
Of the input, a step of one loop of its band, the innermost, may bring what is new only. Output tiles
are written when they are left, and read back when they come again.
Source: Liao, Liao, Hsu (tile loops, point loops and a level for each array).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

from planners.traffic.convolution import Convolution
from planners.traffic.counting import AXES, Transfers
from planners.traffic.footprints import Axis, Range, axes_of, cut, used_weights
from planners.traffic.nest import MOVES, Array, Loop, lengths

Sizes = tuple[int, ...]  # by Loop


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedTiles:
    """How the tiles of the arrays lie in one another.

    order: of the arrays, the outermost first. tiles: by Array, sizes by Loop; those of loops that do
    not move the array have no meaning. slides: the loop whose steps bring only what is new.
    """

    order: tuple[Array, Array, Array]
    tiles: tuple[Sizes, Sizes, Sizes]
    slides: Loop | None = None

    def movers(self, loop: Loop) -> tuple[Array, Array]:
        """The two arrays that a loop moves, the outer one first."""
        first, second = (array for array in self.order if loop in MOVES[array])
        return first, second


def nested_transfers(convolution: Convolution, nest: NestedTiles) -> Transfers:
    """Return what the nest moves and holds, in elements."""
    sizes, reads = lengths(convolution), _input_reads(convolution, nest)
    inputs = convolution.channels
    for found, loops in zip(reads, AXES, strict=True):
        inputs *= found.moved[1 + loops.index(nest.slides) if nest.slides in loops else 0]
    held = [
        prod(nest.tiles[array][loop] for loop in MOVES[array])
        for array in (Array.WEIGHTS, Array.OUTPUT)
    ]
    tile = nest.tiles[Array.INPUT][Loop.CHANNELS] * prod(found.largest for found in reads)
    return Transfers(
        input=inputs * _rounds(nest, sizes, Array.INPUT),
        weights=used_weights(convolution) * _rounds(nest, sizes, Array.WEIGHTS),
        output=convolution.output_elements * (2 * _rounds(nest, sizes, Array.OUTPUT) - 1),
        held=(tile, held[0], held[1]),
    )


def largest_extents(convolution: Convolution, nest: NestedTiles, array: Array) -> tuple[int, ...]:
    """Return the extents of the largest tile of an array, along its dimensions."""
    if array is not Array.INPUT:
        return tuple(nest.tiles[array][loop] for loop in sorted(MOVES[array]))
    rows, columns = _input_reads(convolution, nest)
    return nest.tiles[Array.INPUT][Loop.CHANNELS], rows.largest, columns.largest


def _input_reads(convolution: Convolution, nest: NestedTiles) -> list[InputReads]:
    """Return what the input tiles read along rows and along columns."""
    sizes = lengths(convolution)
    found = []
    for axis, loops in zip(axes_of(convolution), AXES, strict=True):
        pairs = []
        for loop in loops:
            first, _ = nest.movers(loop)
            around = sizes[loop] if first is Array.INPUT else nest.tiles[first][loop]
            pairs.append((around, nest.tiles[Array.INPUT][loop]))
        found.append(input_reads(axis, *pairs))
    return found


def _rounds(nest: NestedTiles, sizes: Sizes, array: Array) -> int:
    """Iterations of the loops around the band of an array that do not move it."""
    around = nest.order[: nest.order.index(array)]
    rounds = 1
    for loop in Loop:
        if loop not in MOVES[array]:
            tiles = [nest.tiles[one][loop] for one in nest.movers(loop) if one in around]
            rounds *= tiles_of(sizes[loop], *tiles)
    return rounds


def tiles_of(length: int, *sizes: int) -> int:
    """Return how many tiles there are where each tile is cut into tiles of the next size."""
    if not sizes:
        return 1
    whole, rest = divmod(length, sizes[0])
    inner = tiles_of(sizes[0], *sizes[1:]) if whole else 0
    return whole * inner + (tiles_of(rest, *sizes[1:]) if rest else 0)


class InputReads(NamedTuple):
    """Input places along an axis: of the largest tile; of all, with no loop, places, kernel sliding."""

    largest: int
    moved: tuple[int, int, int]


@lru_cache(maxsize=200_000)
def input_reads(axis: Axis, places: tuple[int, int], kernel: tuple[int, int]) -> InputReads:
    """Return what input tiles read along an axis: tiles of places and kernel places, each in a larger.

    The larger ones are those around the tile; a step of them brings a whole tile.
    """
    live = axis.live
    if not live:
        return InputReads(0, (0, 0, 0))
    downs = _cut_twice(axis.outputs, *places)
    steps = _cut_twice(len(live), *kernel)
    each = {
        (one, other): _seen(axis, one, other)
        for chunk in downs
        for one in chunk
        for taps in steps
        for other in taps
    }
    whole = sum(mask.bit_count() for mask in each.values())
    by_places = sum(
        (each[one, other] & each[after, other]).bit_count()
        for chunk in downs
        for one, after in pairwise(chunk)
        for taps in steps
        for other in taps
    )
    by_kernel = sum(
        (each[one, other] & each[one, after]).bit_count()
        for chunk in downs
        for one in chunk
        for taps in steps
        for other, after in pairwise(taps)
    )
    largest = max(mask.bit_count() for mask in each.values())
    return InputReads(largest, (whole, whole - by_places, whole - by_kernel))


def _cut_twice(length: int, outer: int, inner: int) -> list[list[Range]]:
    return [
        [(first + one, first + other) for one, other in cut(end - first, inner)]
        for first, end in cut(length, outer)
    ]


@lru_cache(maxsize=200_000)
def _seen(axis: Axis, outputs: Range, kernel: Range) -> int:
    """The input places that a tile reads, as bits."""
    found = 0
    if kernel[1] - kernel[0] > 1:
        for step in range(*kernel):
            found |= _seen(axis, outputs, (step, step + 1))
        return found
    start = axis.live[kernel[0]] * axis.dilation - axis.padding
    for output in range(*outputs):
        place = start + output * axis.stride
        if 0 <= place < axis.inputs:
            found |= 1 << place
    return found
