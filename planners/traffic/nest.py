"""Loop nests of one convolution with two levels of tiles: the tiles of two arrays are nested.

The three arrays have an order. Each array has a band of loops over its tiles, inside the band of the
preceding array, and its current tile is in the buffer inside its own band. `listing` prints this nest
of a 1x1 convolution with 64 filters, 64 channels and 8x8 pixels, in the order output, weights, input:

    for 2 tiles of 4 rows               band of the output
      clear output 64 x 4 x 8
      for 4 tiles of 16 channels        band of the weights
        load weights 64 x 16 x 1 x 1
        for each of 4 rows              band of the input
          load input 16 x 1 x 8
          multiply and add
      write output 64 x 4 x 8

Every loop moves two arrays. It is in the band of the outer array, over the tiles of that array, and in
the band of the inner array, over smaller tiles (tile loop and point loop): rows move output and input.
If both tiles have the same size, or the outer tile covers the loop, one of the two loops is omitted:
channels move weights and input, both in tiles of 16. That is one level of tiles.

Rules of transfers:
- A tile is loaded at each step of the loops of its band or around it: once for each of its tiles and
  each iteration of the surrounding loops that do not move it.
- Input tiles overlap. At a step of the innermost loop of the band only the elements outside the
  preceding tile may be loaded (Halo.CACHED); at a step of any other loop the whole tile is loaded.
- An output tile is written when the loops leave it, and read when they return to it with partial sums;
  at the first visit nothing is read.
- Padding is not loaded, nor are weights that only multiply padding, nor elements that strides or
  dilation skip.
- Groups share no element, so the loop over groups is the outermost of all.
Each array has a separate part of the buffer, of the size of its largest tile.
Sources: Stoutchinin, Conti, Benini, Optimally Scheduling CNN Convolutions for Efficient Memory Access,
arXiv 1902.01492, 2019 (a buffer for each array at a level of the nest); Liao, Liao, Hsu (tile loops,
point loops).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from csdf.status import Reason
from planners.traffic.convolution import ArrayBytes, ConvolutionLoops, axes_of, group_of
from planners.traffic.footprints import input_reads, tiles_of, used_weights


class NestLoop(IntEnum):
    """The dimension of a loop, within one group."""

    FILTERS = 0
    CHANNELS = 1
    ROWS = 2  # of the output
    COLUMNS = 3  # of the output
    KERNEL_ROWS = 4
    KERNEL_COLUMNS = 5

    @property
    def words(self) -> str:
        """The name in a text."""
        return self.name.lower().replace("_", " ")


class Array(IntEnum):
    """The arrays in DRAM."""

    INPUT = 0
    WEIGHTS = 1
    OUTPUT = 2

    @property
    def words(self) -> str:
        """The name in a text."""
        return self.name.lower()


class Halo(Enum):
    """The treatment of elements that several tiles need, of an input or of an inner map."""

    CACHED = "cached"  # they stay in the buffer
    SPILLED = "spilled"  # they are written to DRAM, and read back
    RECOMPUTED = "recomputed"  # each tile computes them
    RELOADED = "reloaded"  # of the input: each tile reads them

    @property
    def is_once(self) -> bool:
        """Whether no element is computed, or read as input, twice."""
        return self in (Halo.CACHED, Halo.SPILLED)


# For each array, the loops whose steps reach other elements of it.
MOVES: dict[Array, frozenset[NestLoop]] = {
    Array.INPUT: frozenset(NestLoop) - {NestLoop.FILTERS},
    Array.WEIGHTS: frozenset(
        {NestLoop.FILTERS, NestLoop.CHANNELS, NestLoop.KERNEL_ROWS, NestLoop.KERNEL_COLUMNS}
    ),
    Array.OUTPUT: frozenset({NestLoop.FILTERS, NestLoop.ROWS, NestLoop.COLUMNS}),
}
AXES = ((NestLoop.ROWS, NestLoop.KERNEL_ROWS), (NestLoop.COLUMNS, NestLoop.KERNEL_COLUMNS))

Order = tuple[Array, Array, Array]
Sizes = tuple[int, ...]  # by NestLoop


@lru_cache(maxsize=10_000)
def lengths(convolution: ConvolutionLoops) -> Sizes:
    """Return the iterations of each loop within one group, over live kernel positions only."""
    group = group_of(convolution)
    rows, columns = axes_of(group)
    return (
        group.filters,
        group.channels,
        group.output_rows,
        group.output_columns,
        max(1, len(rows.live)),
        max(1, len(columns.live)),
    )


def arrays_moved_by(order: Order, loop: NestLoop) -> tuple[Array, Array]:
    """Return the two arrays that a loop moves, the outer one first."""
    first, second = (array for array in order if loop in MOVES[array])
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopNest:
    """The tiles of the arrays and the order of their bands.

    order: of the arrays, the outermost first. tiles: sizes by Array and NestLoop; sizes of loops
    that do not move the array are ignored. slides: the loop whose steps load only new elements.
    Raises InvalidPlan if the order is no permutation, or a tile is larger than the tile that
    contains it.
    """

    order: Order
    tiles: tuple[Sizes, Sizes, Sizes]
    slides: NestLoop | None = None

    def __post_init__(self) -> None:
        if sorted(self.order) != list(Array):
            raise InvalidPlan(f"order {self.order} does not name each array once")
        for loop in NestLoop:
            first, second = arrays_moved_by(self.order, loop)
            outer, inner = self.tiles[first][loop], self.tiles[second][loop]
            if not 1 <= inner <= outer:
                raise InvalidPlan(f"tiles of {inner} {loop.words} do not lie in tiles of {outer}")

    def within(self, convolution: ConvolutionLoops, array: Array, loop: NestLoop) -> int:
        """Return the size that the tiles of an array are cut from: the loop, or the outer tile."""
        first, _ = arrays_moved_by(self.order, loop)
        return lengths(convolution)[loop] if first is array else self.tiles[first][loop]

    def band(
        self, convolution: ConvolutionLoops, level: int
    ) -> Iterator[tuple[NestLoop, int, int]]:
        """Yield the loops of a band with several tiles: loop, size that is cut, size of a tile.

        level: of the array of the band, 0 for the outermost. The sliding loop is the innermost.
        """
        array = self.order[level]
        for loop in sorted(MOVES[array], key=lambda loop: (loop is self.slides, loop)):
            within, tile = self.within(convolution, array, loop), self.tiles[array][loop]
            if tile < within:
                yield loop, within, tile


class Transfers(NamedTuple):
    """Elements that a nest moves of each array, and elements of the largest tile of each array."""

    input: int
    weights: int
    output: int  # written, and read back
    held: tuple[int, int, int]

    def total_bytes(self, sizes: ArrayBytes) -> int:
        """All bytes moved."""
        return self.input * sizes.input + self.weights * sizes.weights + self.output * sizes.output

    def held_bytes(self, sizes: ArrayBytes) -> int:
        """Bytes of the largest tiles together."""
        return sum(held * size for held, size in zip(self.held, sizes, strict=True))


def transfers(convolution: ConvolutionLoops, nest: LoopNest) -> Transfers:
    """Return the elements that a nest moves and holds, without executing it.

    Tiles of weights and of outputs are disjoint, so one round over their loops moves the array
    once, and each surrounding loop that does not move it repeats the round. Input tiles overlap:
    along each axis, the extents of all tiles are added, clipped to the map. The axes are
    independent, so the sums multiply.
    """
    sizes, inputs, rounds = lengths(convolution), convolution.channels, [1, 1, 1]
    for (_, reads), loops in zip(_input_reads(convolution, nest), AXES, strict=True):
        # Reads without a sliding loop, then with each of the loops.
        inputs *= reads[1 + loops.index(nest.slides) if nest.slides in loops else 0]
    for array in Array:
        around = nest.order[: nest.order.index(array)]
        for loop in set(NestLoop) - MOVES[array]:
            tiles = [
                nest.tiles[moved][loop]
                for moved in arrays_moved_by(nest.order, loop)
                if moved in around
            ]
            rounds[array] *= tiles_of(sizes[loop], *tiles)
    held = tuple(prod(largest_tile(convolution, nest, array)) for array in Array)
    return Transfers(
        input=inputs * rounds[Array.INPUT],
        weights=used_weights(convolution) * rounds[Array.WEIGHTS],
        output=convolution.output_elements * (2 * rounds[Array.OUTPUT] - 1),
        held=(held[0], held[1], held[2]),
    )


def largest_tile(convolution: ConvolutionLoops, nest: LoopNest, array: Array) -> tuple[int, ...]:
    """Return the extents of the largest tile of an array, by dimension."""
    if array is not Array.INPUT:
        return tuple(nest.tiles[array][loop] for loop in sorted(MOVES[array]))
    rows, columns = (largest for largest, _ in _input_reads(convolution, nest))
    return nest.tiles[Array.INPUT][NestLoop.CHANNELS], rows, columns


def _input_reads(
    convolution: ConvolutionLoops, nest: LoopNest
) -> list[tuple[int, tuple[int, int, int]]]:
    """The input positions that tiles read, for rows and for columns, in the form of `input_reads`."""
    return [
        input_reads(
            axis,
            *(
                (nest.within(convolution, Array.INPUT, loop), nest.tiles[Array.INPUT][loop])
                for loop in loops
            ),
        )
        for axis, loops in zip(axes_of(convolution), AXES, strict=True)
    ]


INDENT = "  "


def listing(convolution: ConvolutionLoops, nest: LoopNest) -> str:
    """Return the nest, one line a loop or a transfer; loops of a single tile are left out.

    Tiles are given at their largest: channels x rows x columns of the input, filters x channels x
    kernel rows x kernel columns of the weights, filters x rows x columns of the output.
    """
    before: list[str] = []  # lines before the multiplications
    after: list[str] = []
    around: list[NestLoop] = []
    indent = ""
    if convolution.groups > 1:
        before.append(f"for each of {convolution.groups} groups")
        indent = INDENT
    for level, array in enumerate(nest.order):
        returns = any(loop not in MOVES[array] for loop in around)
        for loop, within, tile in nest.band(convolution, level):
            before.append(f"{indent}for {_tiles(loop, within, tile)}")
            around.append(loop)
            indent += INDENT
        transfer = "load"
        if array is Array.OUTPUT:
            transfer = "clear, or read back," if returns else "clear"
        elif array is Array.INPUT and nest.slides is not None:
            transfer = "load what is new of"
        extents = " x ".join(map(str, largest_tile(convolution, nest, array)))
        tile_text = f"{'' if around else 'all of the '}{array.words} {extents}"
        before.append(f"{indent}{transfer} {tile_text}")
        if array is Array.OUTPUT:
            after.append(f"{indent}write {tile_text}")
    return "\n".join([*before, f"{indent}multiply and add", *after])


def _tiles(loop: NestLoop, within: int, tile: int) -> str:
    """Return a loop of a band as text."""
    if tile == 1:
        return f"each of {within} {loop.words}"
    last = f", the last of {within % tile}" if within % tile else ""
    return f"{-(-within // tile)} tiles of {tile} {loop.words}{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """Bytes that every schedule of the layer moves at least, loop nest or not."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTraffic(Shown):
    """The minimum traffic of one layer over loop nests with one or two levels of tiles.

    output_bytes: written, and read back for further sums. held_bytes: the largest tiles of the
    three arrays. ended: the reason if the search of nests with two levels ended early; then a nest
    may move less.
    """

    convolution: ConvolutionLoops
    buffer_bytes: int
    element_bytes: ArrayBytes
    nest: LoopNest
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    held_bytes: int
    bounds: tuple[LowerBound, ...]
    ended: Reason | None = None

    @property
    def total_bytes(self) -> int:
        """All that moves between the buffer and the memory outside."""
        return self.input_bytes + self.weight_bytes + self.output_bytes

    @property
    def lower_bound_bytes(self) -> int:
        """The best of the lower bounds."""
        return max(bound.bytes for bound in self.bounds)

    @property
    def gap(self) -> Fraction:
        """Distance of the traffic from the best bound: (traffic - bound) / bound."""
        bound = self.lower_bound_bytes
        return Fraction(self.total_bytes - bound, bound)

    def in_short(self) -> str:
        """Return the loops that run more than once, from the outermost."""
        groups = [f"{self.convolution.groups} groups"] if self.convolution.groups > 1 else []
        loops = [
            _tiles(*band).removeprefix("each of ")
            for level in range(len(Array))
            for band in self.nest.band(self.convolution, level)
        ]
        return ", ".join(groups + loops) or "untiled"

    def to_json(self) -> dict[str, Any]:
        """Return traffic, nest and bounds as a JSON value; the gap as text."""
        return {
            "layer": self.convolution.name,
            "buffer_bytes": self.buffer_bytes,
            "element_bytes": self.element_bytes.to_json(),
            "input_bytes": self.input_bytes,
            "weight_bytes": self.weight_bytes,
            "output_bytes": self.output_bytes,
            "traffic_bytes": self.total_bytes,
            "held_bytes": self.held_bytes,
            "bounds": {bound.name: bound.bytes for bound in self.bounds},
            "gap": str(self.gap),
            "nest": listing(self.convolution, self.nest).splitlines(),
        }
