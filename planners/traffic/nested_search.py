"""The nest with two levels of tiles that moves least.

All orders of the arrays, and all tiles that are the smallest for their number, but for choices that
cannot be better: of a loop whose tiles in an array repeat nothing, that array holds one element; where
all of its tiles are around the third array, both arrays hold the same. With the input, whose tiles
overlap, every pair of sizes is looked at.

Tiles along rows or columns for nests with two levels of tiles: all that are worth a try.

What the input tiles of every pair of sizes read is counted at once, on arrays. Of two pairs of sizes
where one holds no more and repeats no more of any array, only that one is left.

Tile sizes worth trying for each loop of a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, permutations
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from csdf.kernels import compile as compiler
from csdf.time_limit import Budget, Stop, stop_of
from planners.kernels import loop_nests as kernel
from planners.kernels import ranges
from planners.traffic.convolution import ELEMENTS, ArrayBytes, Convolution
from planners.traffic.footprints import Axis, Range, Reads, axes_of, cut, reads, used_weights
from planners.traffic.nest import AXES, MOVES, Array, Halo, Loop, NestedTiles, lengths, tiles_of

# What slides along rows and along columns: no loop, that of places (1), that of the kernel (2).
SLIDES: tuple[Pair, ...] = ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2))
BackendFor = Callable[[int], compiler.Backend]
MOST_PAIRS = 1_000_000  # of options of rows and columns between looks at the clock


class LoopOption(NamedTuple):
    """Tiles of filters or channels: in the two arrays, and the rounds of the third."""

    first: int
    second: int
    rounds: int


class _Choice(NamedTuple):
    """An order of arrays and a loop that slides, with the tiles to choose from."""

    order: Order
    slides: Pair  # along rows, along columns
    filters: Sequence[LoopOption]
    channels: Sequence[LoopOption]
    rows: AxisOptions
    columns: AxisOptions


@lru_cache(maxsize=10_000)
def nested_search(group: Convolution, halo: Halo, sizes: ArrayBytes = ELEMENTS) -> NestedSearch:
    """Return the search for a layer of one group; equal ones share it."""
    return NestedSearch(group, halo, sizes)


class NestedSearch:
    """Finds the best nest of one layer for one buffer after another."""

    def __init__(self, group: Convolution, halo: Halo, sizes: ArrayBytes) -> None:
        self._group = group
        self._halo = halo
        self._sizes = sizes
        self._known: dict[tuple[int, int], NestedTiles | None] = {}

    def better(
        self, room: int, below: int, *, backend_for: BackendFor, stop: Stop
    ) -> Iterator[NestedTiles]:
        """Yield nests that move less than `below` bytes, and less and less; the last is the best.

        backend_for: told the largest number of the kernel. stop: may
        end the search by GaveUp, and no nest that was yielded is then known to be best.
        """
        if (room, below) not in self._known:
            best, found = below, None
            for choice in self._choices(stop):
                for total, nest in self._of(choice, room, best, backend_for, stop):
                    best, found = total, nest
                    yield nest
            self._known[room, below] = found
            return
        known = self._known[room, below]
        if known is not None:
            yield known

    def _choices(self, stop: Stop) -> Iterator[_Choice]:
        sizes, axes = lengths(self._group), axes_of(self._group)
        rows, columns = map(tiles_along, axes)
        for one, other, third in permutations(Array):
            order = one, other, third
            filters = loop_options(order, Loop.FILTERS, sizes[Loop.FILTERS])
            channels = loop_options(order, Loop.CHANNELS, sizes[Loop.CHANNELS])
            for slides in SLIDES if self._halo is Halo.KEPT else SLIDES[:1]:
                along = (
                    axis.options(order, way, stop)
                    for axis, way in zip((rows, columns), slides, strict=True)
                )
                yield _Choice(order, slides, filters, channels, *along)

    def _of(
        self, choice: _Choice, room: int, below: int, backend_for: BackendFor, stop: Stop
    ) -> Iterator[tuple[int, NestedTiles]]:
        """Better and better nests of a choice, with what they move: rows of the maps in blocks."""
        for rows in choice.rows.blocks(MOST_PAIRS // len(choice.columns.costs) + 1):
            stop.look()
            part = choice._replace(rows=rows)
            backend = backend_for(ranges.loop_nests(lengths(self._group), self._sizes, room))
            total, *places = _search(part, self._group, self._sizes, room, below, backend)
            if total < below:
                below = total
                yield total, _nest(part, places)


def _search(
    choice: _Choice,
    group: Convolution,
    sizes: ArrayBytes,
    room: int,
    below: int,
    backend: compiler.Backend,
) -> list[int]:
    """The answer of the kernel."""
    answer = backend.array([below] + [0] * (kernel.NESTED_ANSWER - 1))
    choices = backend.kernel(kernel.Choices)(
        backend.blank(0),
        backend.array(_flat(choice.filters, choice.order, Loop.FILTERS)),
        backend.array(_flat(choice.channels, choice.order, Loop.CHANNELS)),
        backend.view(choice.rows.costs.ravel().tolist()),
        backend.view(choice.columns.costs.ravel().tolist()),
    )
    layer = backend.kernel(kernel.Layer)(
        group.channels,
        used_weights(group) * sizes.weights,
        group.output_elements * sizes.output,
        room,
        *sizes,
    )
    backend.kernel(kernel.nested_traffic)(choices, layer, answer)
    return backend.take(answer, range(kernel.NESTED_ANSWER))


def _nest(choice: _Choice, places: Sequence[int]) -> NestedTiles:
    order = choice.order
    filters, channels, row, column = places
    pairs: dict[Loop, Sequence[int]] = {
        Loop.FILTERS: choice.filters[filters][:2],
        Loop.CHANNELS: choice.channels[channels][:2],
    }
    for (place, step), axis, at in zip(
        AXES, (choice.rows, choice.columns), (row, column), strict=True
    ):
        tiles = axis.tiles[at].tolist()
        pairs |= {place: tiles[:2], step: tiles[2:]}
    held = [[1] * len(Loop) for _ in Array]
    for loop, pair in pairs.items():
        for array, size in zip(movers(order, loop), pair, strict=True):
            held[array][loop] = size
    sliding = [loops[way - 1] for way, loops in zip(choice.slides, AXES, strict=True) if way]
    return NestedTiles(
        order=order,
        tiles=(tuple(held[0]), tuple(held[1]), tuple(held[2])),
        slides=sliding[0] if sliding else None,
    )


def loop_options(order: Order, loop: Loop, length: int) -> list[LoopOption]:
    """Return the tiles of filters or channels that are worth a try, the largest first."""
    bands = bands_around(order, loop)
    if bands == 0:
        return [LoopOption(1, 1, 1)]
    return [
        LoopOption(tile, tile if bands == 2 else 1, -(-length // tile))
        for tile in tile_sizes(length)
    ]


def _flat(options: Sequence[LoopOption], order: Order, loop: Loop) -> list[int]:
    """Options as the kernel wants them: of filters output, weights, rounds; of channels input, ..."""
    first, _ = movers(order, loop)
    turned = first is Array.WEIGHTS
    return [
        number
        for one in options
        for number in ((one.second, one.first) if turned else one[:2]) + (one.rounds,)
    ]


Order = tuple[Array, Array, Array]
Pair = tuple[int, int]  # tiles of a loop in the first array that it moves, and in the second
Numbers = npt.NDArray[np.int64]
BLOCK = 256  # options that are compared with the best ones together


class AxisOptions(NamedTuple):
    """Tiles along rows or columns and what they cost, fewest reads first.

    costs: (N, 6), as planners.kernels.loop_nests lays an option out. tiles: (N, 4), those of output
    places in the two arrays that they move, and those of kernel places.
    """

    costs: Numbers
    tiles: Numbers

    def blocks(self, most: int) -> Iterator[AxisOptions]:
        """Yield the options in order, so many at a time."""
        for begin in range(0, len(self.costs), most):
            end = begin + most
            yield AxisOptions(self.costs[begin:end], self.tiles[begin:end])


class _Reads(NamedTuple):
    """Return what input tiles of a range of kernel places read, for each pair of output sizes."""

    all: Numbers  # of all tiles
    largest: Numbers
    repeated: Numbers  # read by a tile and by the next one in the larger tile


def movers(order: Order, loop: Loop) -> tuple[Array, Array]:
    """Return the two arrays that a loop moves, the outer one first."""
    first, second = (array for array in order if loop in MOVES[array])
    return first, second


def bands_around(order: Order, loop: Loop) -> int:
    """Return how many of the loop's two bands lie around the array that it does not move."""
    (third,) = (array for array in order if loop not in MOVES[array])
    return order.index(third)


def pairs_of(length: int) -> tuple[Pair, ...]:
    """Return all tiles, with smaller ones in them, that are the smallest for their number."""
    return tuple((outer, inner) for outer in tile_sizes(length) for inner in tile_sizes(outer))


@lru_cache(maxsize=1000)
def tiles_along(axis: Axis) -> AxisTiles:
    """Return the tiles along an axis; equal axes share them."""
    return AxisTiles(axis)


class AxisTiles:
    """Knows the tiles along one axis that no other ones beat, for one order after another."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._places = pairs_of(axis.outputs)
        self._taps = pairs_of(max(1, len(axis.live)))
        self._known: dict[tuple[Order, int], AxisOptions] = {}
        self._reads: tuple[Numbers, Numbers] | None = None

    def options(self, order: Order, way: int, stop: Stop) -> AxisOptions:
        """Return the tiles for an order; way: nothing slides (0), output places (1), kernel places (2).

        stop: may end the work by GaveUp.
        """
        if (order, way) not in self._known:
            self._known[order, way] = _front(self.every(order, way, stop), stop)
        return self._known[order, way]

    def every(self, order: Order, way: int, budget: Budget = None) -> AxisOptions:
        """Return all tiles for an order, those that others beat too."""
        if self._reads is None:
            self._reads = input_reads_of_all(self._axis, self._places, self._taps, budget)
        place, step = AXES[0]
        downs, taken = _of_loop(order, place, self._places), _of_loop(order, step, self._taps)
        downs, taken = downs.repeat(len(taken), axis=0), np.tile(taken, (len(downs), 1))
        largest, moved = (one[..., downs[:, 2], taken[:, 2]] for one in self._reads)
        held_output = downs[:, movers(order, place).index(Array.OUTPUT)]
        held_weights = taken[:, movers(order, step).index(Array.WEIGHTS)]
        costs = held_output, held_weights, largest, moved[way], downs[:, 3], taken[:, 3]
        return AxisOptions(np.stack(costs, axis=1), np.hstack([downs[:, :2], taken[:, :2]]))


def _of_loop(order: Order, loop: Loop, pairs: tuple[Pair, ...]) -> Numbers:
    """The pairs of tiles to try, the number of that of the input tile, and rounds of the third array.

    All of them, but for an inner array whose tiles cost nothing: one that is not the input, with no
    third array inside that would come again for them. It holds one element.
    """
    length, bands = pairs[0][0], bands_around(order, loop)
    _, second = movers(order, loop)
    numbers = {pair: number for number, pair in enumerate(pairs)}
    is_free = second is not Array.INPUT and bands < 2
    return np.array(
        [
            (
                *pair,
                numbers[pair if second is Array.INPUT else (length, pair[0])],
                tiles_of(length, *pair[:bands]),
            )
            for pair in pairs
            if not is_free or pair[1] == 1
        ],
        dtype=np.int64,
    )


def input_reads_of_all(
    axis: Axis, places: tuple[Pair, ...], taps: tuple[Pair, ...], budget: Budget = None
) -> tuple[Numbers, Numbers]:
    """Return what input tiles read, for each pair of sizes of output places and of kernel places.

    First the places of the largest tile, (P, K); then those of all tiles, (3, P, K): with no loop
    sliding, with output places, with kernel places. As `input_reads` counts them one by one.
    """
    if not axis.live:
        return np.zeros((len(places), len(taps)), int), np.zeros((3, len(places), len(taps)), int)
    stop, tiles = stop_of(budget), _PlaceTiles(axis, places)
    by_range: dict[Range, _Reads] = {}

    def of(kernel: Range) -> _Reads:
        if kernel not in by_range:
            stop.look()
            by_range[kernel] = tiles.reads(kernel)
        return by_range[kernel]

    largest, moved = [], []
    for pair in taps:
        chunks = cut_twice(len(axis.live), *pair)
        ranges = [of(one) for chunk in chunks for one in chunk]
        whole = sum((one.all for one in ranges), np.int64(0))
        by_places = sum((one.repeated for one in ranges), np.int64(0))
        by_kernel = sum(
            (
                of(one).all + of(after).all - of((one[0], after[1])).all
                for chunk in chunks
                for one, after in pairwise(chunk)
            ),
            np.int64(0),
        )
        largest.append(np.max([one.largest for one in ranges], axis=0))
        moved.append([whole, whole - by_places, whole - by_kernel])
    return np.stack(largest, axis=1), np.array(moved).transpose(1, 2, 0)


def cut_twice(length: int, outer: int, inner: int) -> list[list[Range]]:
    """Return the ranges of the inner tiles, for each of the outer ones."""
    return [
        [(first + one, first + other) for one, other in cut(end - first, inner)]
        for first, end in cut(length, outer)
    ]


class _PlaceTiles:
    """The ranges of output places of all tiles, for one pair of sizes after another."""

    def __init__(self, axis: Axis, pairs: tuple[Pair, ...]) -> None:
        self._axis = axis
        found = [_ranges(axis.outputs, *pair) for pair in pairs]
        self._first, self._end = (np.concatenate(one) for one in zip(*found, strict=True))
        counts = np.array([len(first) for first, _ in found])
        self._begins = np.concatenate([[0], np.cumsum(counts)[:-1]])  # of each pair of sizes
        outers = np.repeat(np.array([outer for outer, _ in pairs]), counts)
        # Whether the next range lies in the same larger tile.
        follows = (self._first[1:] == self._end[:-1]) & (self._first[1:] % outers[1:] != 0)
        self._follows = np.append(follows, False)

    def reads(self, kernel: Range) -> _Reads:
        """Return what the tiles read with these live kernel places."""
        each = self._touched(self._first, self._end, kernel)
        together = self._touched(self._first, np.append(self._end[1:], 0), kernel)
        repeated = np.where(self._follows, each + np.append(each[1:], 0) - together, 0)
        return _Reads(
            np.add.reduceat(each, self._begins),
            np.maximum.reduceat(each, self._begins),
            np.add.reduceat(repeated, self._begins),
        )

    def _touched(self, first: Numbers, end: Numbers, kernel: Range) -> Numbers:
        """Axis.touched of many ranges of output places."""
        axis = self._axis
        taps = range(axis.live[kernel[0]], axis.live[kernel[1] - 1] + 1)
        common = gcd(axis.stride, axis.dilation)
        step, back = min(axis.dilation // common, axis.outputs), axis.stride // common
        touched = np.zeros(len(first), dtype=np.int64)
        for tap in taps:
            before = axis.padding - axis.dilation * tap
            ends = -(-before // axis.stride), -(-(axis.inputs + before) // axis.stride)
            # Beyond the outputs there are none: so the ends fit 64 bits, as the outputs do.
            least, most = (min(max(place, 0), axis.outputs) for place in ends)
            low = np.maximum(first, least)
            touched += np.maximum(np.minimum(end, most) - low, 0)
            if tap >= taps[0] + back:
                touched -= np.maximum(np.minimum(end - step, most) - low, 0)
        return touched


def _ranges(length: int, outer: int, inner: int) -> tuple[Numbers, Numbers]:
    """First places and ends of the inner tiles."""
    starts = np.arange(0, outer, inner)
    first = (np.arange(0, length, outer)[:, None] + starts).ravel()
    first = first[first < length]
    return first, np.minimum.reduce(
        [first + inner, (first // outer + 1) * outer, np.full(len(first), length)]
    )


def _front(options: AxisOptions, stop: Stop) -> AxisOptions:
    """Return the tilings that no other one beats or equals, fewest reads first."""
    costs = options.costs
    keys = costs[:, 3] * costs[:, 4] * costs[:, 5], *costs.T, *options.tiles.T
    ordered = np.lexsort(keys[::-1])
    kept = np.empty(0, dtype=np.int64)
    for begin in range(0, len(ordered), BLOCK):
        stop.look()
        block = ordered[begin : begin + BLOCK]
        block = block[~_is_beaten(costs[block], costs[kept]).any(axis=1)]
        by_another = np.tril(_is_beaten(costs[block], costs[block]), -1).any(axis=1)
        kept = np.append(kept, block[~by_another])
    return AxisOptions(costs[kept], options.tiles[kept])


def _is_beaten(some: Numbers, others: Numbers) -> npt.NDArray[np.bool_]:
    """Whether each one costs no less than each of the others."""
    beaten = np.ones((len(some), len(others)), dtype=bool)
    for one, other in zip(some.T, others.T, strict=True):
        beaten &= one[:, None] >= other
    return beaten


Option = tuple[int, ...]  # as planners.kernels.loop_nests lays it out


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


@lru_cache(maxsize=1000)
def axis_options(axis: Axis) -> tuple[Option, ...]:
    """Return pairs of tile sizes along rows or columns of the maps, uncut first.

    Those with as many tiles as another pair are left out where they hold no less and read no less,
    whichever of the two loops cut the input. Nearly always the smallest tiles remain; at the padding
    larger ones may read less, or hold less.
    """
    kept: dict[tuple[int, int], list[Option]] = {}
    for places in range(1, axis.outputs + 1):
        for taps in range(1, max(1, len(axis.live)) + 1):
            option = _option(axis, places, taps)
            alike = kept.setdefault((option[2], option[3]), [])
            if not any(_is_no_worse(known, option) for known in alike):
                alike.append(option)
    return tuple(option for trips in sorted(kept) for option in kept[trips])


def _is_no_worse(known: Option, option: Option) -> bool:
    return all(one <= other for one, other in zip(known, option, strict=True))


def _option(axis: Axis, places: int, kernel: int) -> Option:
    cuts = tuple(_ways_to_cut(axis, places, kernel))
    return (
        places,
        kernel,
        -(-axis.outputs // places),
        -(-max(1, len(axis.live)) // kernel),
        *(one.largest for one in cuts),
        *(one.reloaded for one in cuts),
        *(one.by_outputs for one in cuts),
        *(one.by_kernel for one in cuts),
    )


def _ways_to_cut(axis: Axis, places: int, kernel: int) -> Iterator[Reads]:
    """The reads of input tiles where no loop cuts them, output places, kernel places, and both."""
    for kernel_tile in (max(1, len(axis.live)), kernel):
        for tile in (axis.outputs, places):
            yield reads(axis, tile, kernel_tile)
