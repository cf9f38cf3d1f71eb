"""Tiled loop nests of one convolution: order, tiles, and where in the nest each array is held.

Six loops over tiles run in some order; tiles have any size, the last of a loop is what remains. An
array held at level b lies in the buffer as the tile that all iterations of the loops from position b
on touch, the b outer ones standing still: level 0 holds the whole array, level 6 just what one
innermost iteration needs. The loop over groups is the outermost of all, at every level: groups share
no element, so what is held for one is of no use to another.

What is transferred:
- A tile comes in when the loops outside its level reach another tile, not when they merely go
  round: filters move no input, rows and columns move no weights.
- Input tiles overlap. With Halo.RELOADED each comes in whole; with Halo.KEPT a step of the innermost
  loop that moves the input tile brings only what the tile before does not share; a step of any other
  brings the whole tile.
- An output tile goes out when it is left. When it comes back for more of its sums it is read again;
  the first time nothing is read.
- Padding is no element, and weights that only ever meet padding stay outside. Where strides or
  dilation pass over elements, those stay out of the buffer.
Each array has its part of the buffer, as large as its largest tile; the three fit together.
Source: Stoutchinin, Conti, Benini, Optimally Scheduling CNN Convolutions for Efficient Memory Access,
arXiv 1902.01492, 2019 (application-managed buffers at a level of the nest).

Elements that a loop nest holds and moves, counted without walking it.

Loop nests with two levels of tiles: a tile of one array within that of another.

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

A loop nest as text: what runs in what, and where tiles come in and go out.

Answers of a search for the least traffic of one layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, Self

from csdf.errors import InvalidPlan
from csdf.model.shown import Shown
from csdf.outcome import Reason
from planners.traffic.convolution import ArrayBytes, Convolution, group_of
from planners.traffic.footprints import Axis, Range, Reads, axes_of, cut, reads, used_weights


class Loop(IntEnum):
    """The dimension that a loop runs over, within one group."""

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
    """The arrays that lie in the memory outside."""

    INPUT = 0
    WEIGHTS = 1
    OUTPUT = 2


class Halo(Enum):
    """Whether the part that successive input tiles share comes in again."""

    RELOADED = "reloaded"
    KEPT = "kept"


MOVES: dict[Array, frozenset[Loop]] = {  # the loops whose steps reach other elements of the array
    Array.INPUT: frozenset(Loop) - {Loop.FILTERS},
    Array.WEIGHTS: frozenset({Loop.FILTERS, Loop.CHANNELS, Loop.KERNEL_ROWS, Loop.KERNEL_COLUMNS}),
    Array.OUTPUT: frozenset({Loop.FILTERS, Loop.ROWS, Loop.COLUMNS}),
}


@lru_cache(maxsize=10_000)
def lengths(convolution: Convolution) -> tuple[int, ...]:
    """Return how far each loop runs within one group, by Loop; over live kernel places alone."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopNest:
    """A schedule of one convolution with a managed buffer.

    tiles: size by Loop, in any case. levels: 0 to 6 by Array.
    Raises InvalidPlan where the order is none, or a tile or level is out of range.
    """

    order: tuple[Loop, ...]  # outermost first
    tiles: tuple[int, ...]
    levels: tuple[int, int, int]
    halo: Halo = Halo.KEPT

    def __post_init__(self) -> None:
        if sorted(self.order) != list(Loop):
            raise InvalidPlan(f"loop order {self.order} does not name each loop once")
        if len(self.tiles) != len(Loop) or min(self.tiles) < 1:
            raise InvalidPlan(f"tiles {self.tiles} are not {len(Loop)} positive sizes")
        if len(self.levels) != len(Array) or not 0 <= min(self.levels) <= max(self.levels) <= 6:
            raise InvalidPlan(f"levels {self.levels} are not three of 0 to {len(Loop)}")

    def trips(self, convolution: Convolution) -> tuple[int, ...]:
        """Iterations of each loop, by Loop."""
        return tuple(
            -(-length // tile)
            for length, tile in zip(lengths(convolution), self.tiles, strict=True)
        )

    def outside(self, array: Array) -> tuple[Loop, ...]:
        """The loops outside the level of the array, outermost first."""
        return self.order[: self.levels[array]]

    def canonical(self, convolution: Convolution) -> Self:
        """The same transfers, with no tile beyond its loop and no level deeper than it matters."""
        sizes = lengths(convolution)
        tiles = tuple(min(tile, size) for tile, size in zip(self.tiles, sizes, strict=True))
        trips = self.trips(convolution)
        levels = []
        for array in Array:
            moving = [
                place
                for place, loop in enumerate(self.outside(array), start=1)
                if loop in MOVES[array] and trips[loop] > 1
            ]
            levels.append(max(moving, default=0))
        return type(self)(
            order=self.order, tiles=tiles, levels=(levels[0], levels[1], levels[2]), halo=self.halo
        )


AXES = ((Loop.ROWS, Loop.KERNEL_ROWS), (Loop.COLUMNS, Loop.KERNEL_COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """Elements that a nest moves and holds, by Array."""

    input: int
    weights: int
    output: int  # written, and read back
    held: tuple[int, int, int]  # the largest tile of each array

    @property
    def total(self) -> int:
        """All elements moved."""
        return self.input + self.weights + self.output

    def total_bytes(self, sizes: ArrayBytes) -> int:
        """All bytes moved."""
        return self.input * sizes.input + self.weights * sizes.weights + self.output * sizes.output

    def held_bytes(self, sizes: ArrayBytes) -> int:
        """Bytes of the buffer that are taken."""
        return sum(held * size for held, size in zip(self.held, sizes, strict=True))

    @property
    def held_elements(self) -> int:
        """Elements of the buffer that are taken."""
        return sum(self.held)


def transfers(convolution: Convolution, nest: LoopNest) -> Transfers:
    """Return what the nest moves and holds, exactly.

    Tiles of the weights and of the output are apart, so one round over their loops moves the array
    once, and every loop that goes round it outside repeats that. Input tiles overlap: along each
    axis all tiles are added up, clipped to the map; as the axes are independent, the sums multiply.
    """
    nest = nest.canonical(convolution)
    rounds = {array: _rounds(convolution, nest, array) for array in Array}
    held = tuple(prod(largest_tile(convolution, nest, array)) for array in Array)
    return Transfers(
        input=_input_of_a_round(convolution, nest) * rounds[Array.INPUT],
        weights=used_weights(convolution) * rounds[Array.WEIGHTS],
        output=convolution.output_elements * (2 * rounds[Array.OUTPUT] - 1),
        held=(held[0], held[1], held[2]),
    )


def largest_tile(convolution: Convolution, nest: LoopNest, array: Array) -> tuple[int, ...]:
    """Return the extents of the largest tile of the array, along its dimensions."""
    extents = tuple(_extent(convolution, nest, array, loop) for loop in Loop)
    if array is not Array.INPUT:
        return tuple(extents[loop] for loop in sorted(MOVES[array]))
    rows, columns = (found.largest for found in _input_reads(convolution, nest))
    return extents[Loop.CHANNELS], rows, columns


def _extent(convolution: Convolution, nest: LoopNest, array: Array, loop: Loop) -> int:
    whole = lengths(convolution)[loop]
    return min(nest.tiles[loop], whole) if loop in nest.outside(array) else whole


def _input_reads(convolution: Convolution, nest: LoopNest) -> tuple[Reads, Reads]:
    """Return what the input tiles read along rows and along columns."""
    extents = [_extent(convolution, nest, Array.INPUT, loop) for loop in Loop]
    rows, columns = (
        reads(axis, extents[place], extents[kernel])
        for axis, (place, kernel) in zip(axes_of(convolution), AXES, strict=True)
    )
    return rows, columns


def _input_of_a_round(convolution: Convolution, nest: LoopNest) -> int:
    """Input elements that come in while the loops that move the input go once through their tiles.

    The nest is canonical: the last loop outside the level is the innermost that moves the input.
    """
    outside = nest.outside(Array.INPUT)
    innermost = outside[-1] if outside and nest.halo is Halo.KEPT else None
    read = convolution.channels
    for found, (place, kernel) in zip(_input_reads(convolution, nest), AXES, strict=True):
        if innermost is place:
            read *= found.by_outputs
        else:
            read *= found.by_kernel if innermost is kernel else found.reloaded
    return read


def _rounds(convolution: Convolution, nest: LoopNest, array: Array) -> int:
    """How often the loops that do not move the array go round it. The nest is canonical."""
    trips = nest.trips(convolution)
    return prod(trips[loop] for loop in nest.outside(array) if loop not in MOVES[array])


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
    sizes, reads = lengths(convolution), _nested_input_reads(convolution, nest)
    inputs = convolution.channels
    for found, loops in zip(reads, AXES, strict=True):
        inputs *= found.moved[1 + loops.index(nest.slides) if nest.slides in loops else 0]
    held = [
        prod(nest.tiles[array][loop] for loop in MOVES[array])
        for array in (Array.WEIGHTS, Array.OUTPUT)
    ]
    tile = nest.tiles[Array.INPUT][Loop.CHANNELS] * prod(found.largest for found in reads)
    return Transfers(
        input=inputs * _nested_rounds(nest, sizes, Array.INPUT),
        weights=used_weights(convolution) * _nested_rounds(nest, sizes, Array.WEIGHTS),
        output=convolution.output_elements * (2 * _nested_rounds(nest, sizes, Array.OUTPUT) - 1),
        held=(tile, held[0], held[1]),
    )


def largest_extents(convolution: Convolution, nest: NestedTiles, array: Array) -> tuple[int, ...]:
    """Return the extents of the largest tile of an array, along its dimensions."""
    if array is not Array.INPUT:
        return tuple(nest.tiles[array][loop] for loop in sorted(MOVES[array]))
    rows, columns = _nested_input_reads(convolution, nest)
    return nest.tiles[Array.INPUT][Loop.CHANNELS], rows.largest, columns.largest


def _nested_input_reads(convolution: Convolution, nest: NestedTiles) -> list[InputReads]:
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


def _nested_rounds(nest: NestedTiles, sizes: Sizes, array: Array) -> int:
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


INDENT = "  "
_WORDS = {Array.INPUT: "input", Array.WEIGHTS: "weights", Array.OUTPUT: "output"}


def listing(convolution: Convolution, nest: LoopNest | NestedTiles) -> str:
    """Return the nest, one line a loop or a transfer; loops of a single tile are left out.

    Tiles are given at their largest: channels x rows x columns of the input, filters x channels x
    kernel rows x kernel columns of the weights, filters x rows x columns of the output.
    """
    if isinstance(nest, NestedTiles):
        return _nested_listing(convolution, nest)
    nest = nest.canonical(convolution)
    before: list[str] = []
    after: list[str] = []
    depth = 0
    if convolution.groups > 1:
        before.append(f"for each of {convolution.groups} groups")
        depth = 1
    for level in range(len(Loop) + 1):
        before += [INDENT * depth + line for line in _entering(convolution, nest, level)]
        if nest.levels[Array.OUTPUT] == level:
            after.append(INDENT * depth + f"write {_tile(convolution, nest, Array.OUTPUT)}")
        if level < len(Loop) and nest.trips(convolution)[nest.order[level]] > 1:
            before.append(INDENT * depth + _loop(convolution, nest, nest.order[level]))
            depth += 1
    return "\n".join([*before, INDENT * depth + "multiply and add", *reversed(after)])


def _loop(convolution: Convolution, nest: LoopNest, loop: Loop) -> str:
    length, tile = lengths(convolution)[loop], nest.tiles[loop]
    if tile == 1:
        return f"for each of {length} {loop.words}"
    last = length % tile
    remainder = f", the last of {last}" if last else ""
    return f"for {nest.trips(convolution)[loop]} tiles of {tile} {loop.words}{remainder}"


def _entering(convolution: Convolution, nest: LoopNest, level: int) -> Iterator[str]:
    for array in (Array.OUTPUT, Array.WEIGHTS, Array.INPUT):
        if nest.levels[array] == level:
            yield f"{_deed(convolution, nest, array)} {_tile(convolution, nest, array)}"


def _tile(convolution: Convolution, nest: LoopNest, array: Array) -> str:
    whole = "all of the " if nest.levels[array] == 0 else ""
    extents = " x ".join(str(size) for size in largest_tile(convolution, nest, array))
    return f"{whole}{_WORDS[array]} {extents}"


def _deed(convolution: Convolution, nest: LoopNest, array: Array) -> str:
    outside = nest.outside(array)
    trips = nest.trips(convolution)
    if array is Array.OUTPUT:
        returns = any(trips[loop] > 1 for loop in outside if loop not in MOVES[array])
        return "clear, or read back," if returns else "clear"
    slides = array is Array.INPUT and nest.halo is Halo.KEPT and outside
    return "load what is new of" if slides and outside[-1] is not Loop.CHANNELS else "load"


def _nested_listing(convolution: Convolution, nest: NestedTiles) -> str:
    before: list[str] = []
    after: list[str] = []
    depth = 0
    if convolution.groups > 1:
        before.append(f"for each of {convolution.groups} groups")
        depth = 1
    for place, array in enumerate(nest.order):
        for loop, within, tile in band_loops(convolution, nest, place):
            before.append(INDENT * depth + nested_loop(loop, within, tile))
            depth += 1
        extents = " x ".join(map(str, largest_extents(convolution, nest, array)))
        before.append(INDENT * depth + f"{_nested_deed(convolution, nest, place)} {extents}")
        if array is Array.OUTPUT:
            after.append(INDENT * depth + f"write output {extents}")
    return "\n".join([*before, INDENT * depth + "multiply and add", *reversed(after)])


def band_loops(
    convolution: Convolution, nest: NestedTiles, place: int
) -> Iterator[tuple[Loop, int, int]]:
    """Each loop of a band that has several tiles: what it cuts, and into what."""
    array = nest.order[place]
    for loop in sorted(MOVES[array], key=lambda one: (one is nest.slides, one)):
        first, _ = nest.movers(loop)
        within = lengths(convolution)[loop] if first is array else nest.tiles[first][loop]
        if nest.tiles[array][loop] < within:
            yield loop, within, nest.tiles[array][loop]


def nested_loop(loop: Loop, within: int, tile: int) -> str:
    """Return a loop of a band in words."""
    if tile == 1:
        return f"for each of {within} {loop.words}"
    last = f", the last of {within % tile}" if within % tile else ""
    return f"for {-(-within // tile)} tiles of {tile} {loop.words}{last}"


def _nested_deed(convolution: Convolution, nest: NestedTiles, place: int) -> str:
    array = nest.order[place]
    if array is Array.OUTPUT:
        around = [loop for one in range(place) for loop, *_ in band_loops(convolution, nest, one)]
        comes_back = any(loop not in MOVES[array] for loop in around)
        return "clear, or read back, output" if comes_back else "clear output"
    slides = array is Array.INPUT and nest.slides is not None
    return f"load what is new of {_WORDS[array]}" if slides else f"load {_WORDS[array]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """Bytes that every schedule of the layer moves at least, loop nest or not."""

    name: str
    bytes: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTraffic(Shown):
    """The least traffic of one layer: no loop nest with one or two levels of tiles moves less.

    output_bytes: written, and read back for more sums. held_bytes: the three tiles at their largest.
    space: orders, tiles and levels that there are with one level of tiles; evaluated: how many of
    them were looked at. ended: why the search of nests with two levels ended early, if it did: then a
    nest may move less.
    """

    convolution: Convolution
    buffer_bytes: int
    element_bytes: ArrayBytes
    nest: LoopNest | NestedTiles
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    held_bytes: int
    bounds: tuple[LowerBound, ...]
    space: int
    evaluated: int
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
        """How far the traffic is above the best bound: (found - bound) / bound."""
        bound = self.lower_bound_bytes
        return Fraction(self.total_bytes - bound, bound)

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
