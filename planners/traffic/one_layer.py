"""Minimum DRAM traffic of one layer: search over loop nests.

planners.traffic.nest has the loop nests and their transfers. Nests with one level of tiles are searched
first, with tiles of all sizes. If the best nest does not reach the lower bound, nests with two levels
follow; their tiles are the smallest for their number. All orders of the three arrays (input, weights,
output) are searched, outermost array first.

Each loop moves two of the arrays, and may transfer the third array again. Where tiles of the two
arrays do not overlap, the position of the third array leaves one choice of sizes to search:
- outermost: the loop transfers nothing again, so both arrays hold one element along the loop;
- between the two: only the tiles of the outer array repeat it, and the inner array holds one element;
- innermost: all tiles repeat it, and both arrays hold the same.
Tiles of the input overlap along rows and columns, so there every pair of sizes is searched.

With one level this covers every nest of six loops in any order, with each array held at any depth:
the order matters only through the set of loops around the tile of each array. A loop around the
outermost array that does not move it may be moved further inside, where it repeats less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cnn2csdf.geometry import ReceptiveField
from csdf.arguments import Bytes, Positive, byte_count, public
from csdf.errors import GaveUp, InvalidPlan
from csdf.kernels import compile as compiler
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.kernels import loop_nests as kernel
from planners.kernels import ranges
from planners.traffic.convolution import (
    ELEMENTS,
    ArrayBytes,
    ConvolutionLoops,
    array_bytes,
    axes_of,
    group_of,
)
from planners.traffic.footprints import (
    Numbers,
    Pair,
    all_input_reads,
    one_level,
    tile_sizes,
    tiles_of,
    two_levels,
    used_weights,
)
from planners.traffic.layer_bounds import lower_bounds
from planners.traffic.nest import (
    AXES,
    MOVES,
    Array,
    Halo,
    LayerTraffic,
    LoopNest,
    NestLoop,
    Order,
    Sizes,
    arrays_moved_by,
    lengths,
    transfers,
)

MOST_PAIRS = 10**7  # pairs of output and kernel positions along an axis; each pair is visited
MOST_TILES = 10**7  # tiles in all; maps of 4K with kernels of 3 and 64 filters have half as many
MOST_OPTIONS = 1_000_000  # pairs of row and column options between two checks of the budget
BLOCK = 256  # options along an axis that are compared with the Pareto front at a time

# Work units: microseconds of a common machine, within 2x on resnet8, vgg16 and mobilenet_v2.
NESTS_EFFORT = 400  # the best nest of a block of row options
OPTIONS_EFFORT = 250  # the comparison of a block of options
# Along a sliding loop only new input positions are loaded. At most one loop of a nest slides.
NO_SLIDE, OUTPUT_SLIDE, KERNEL_SLIDE = (
    0,
    1,
    2,
)  # of an axis: none, output positions, kernel positions
SLIDES: dict[Pair, NestLoop | None] = {  # of rows and of columns
    (NO_SLIDE, NO_SLIDE): None,
    (OUTPUT_SLIDE, NO_SLIDE): NestLoop.ROWS,
    (KERNEL_SLIDE, NO_SLIDE): NestLoop.KERNEL_ROWS,
    (NO_SLIDE, OUTPUT_SLIDE): NestLoop.COLUMNS,
    (NO_SLIDE, KERNEL_SLIDE): NestLoop.KERNEL_COLUMNS,
}

ArrayTiles = tuple[Sizes, Sizes, Sizes]  # by Array, as in LoopNest
Cuts = Callable[[int], tuple[Pair, ...]]  # `one_level` or `two_levels`: tile sizes for a length


@public
def minimum_traffic(
    convolution: ConvolutionLoops,
    *,
    buffer_bytes: Bytes,
    element_bytes: Positive | ArrayBytes,
    halo: Halo = Halo.CACHED,
    budget: Budget = None,
    searches: NestSearches | None = None,
) -> LayerTraffic:
    """Return the loop nest with the least traffic that fits the buffer, with lower bounds.

    No nest with one level of tiles moves less, and none with two levels whose tiles are the smallest
    for their number. The lower bound holds for any schedule. Ties go to one level, then to the first
    order. Groups are executed sequentially without loss: they share no element. halo: CACHED or
    RELOADED. element_bytes: of all three arrays, or of each. budget: a stop, or seconds, for nests with
    two levels; that search ends with the best nest so far, as it does at Ctrl-C, and `ended` says why.
    searches: results of earlier layers to be reused; None: of this layer alone. Raises InvalidPlan if
    the buffer cannot hold one element of each array, GaveUp if the layer has too many tiles to list.
    """
    buffer_bytes = byte_count(buffer_bytes)
    sizes = array_bytes(element_bytes)
    if min(sizes) < 1 or sum(sizes) > buffer_bytes:
        element_sizes = " + ".join(map(str, sizes)) if sizes.uniform is None else sizes.uniform
        raise InvalidPlan(
            f"a buffer of {buffer_bytes} bytes does not hold one element of {element_sizes} bytes "
            "of input, weights and output each"
        )
    check_lengths(convolution)
    group = replace(group_of(convolution), name="group")  # equal shapes are searched once
    arrays = group.input_elements, used_weights(group), group.output_elements
    all_bytes = sum(count * size for count, size in zip(arrays, sizes, strict=True))
    # A larger buffer saves nothing. Each tile holds one element even if it reads only padding.
    room = min(buffer_bytes, all_bytes + sum(sizes))
    search = (searches or NestSearches()).of_group(group, halo, sizes)
    # A nest exists: all tiles of one element fit.
    *_, nest = search.better(room, search.most(room), one_level, Stop())
    bounds = lower_bounds(convolution, buffer_bytes=buffer_bytes, element_bytes=sizes)
    least_traffic, ended = transfers(group, nest).total_bytes(sizes), None
    if least_traffic > max(bound.bytes for bound in bounds) // convolution.groups:
        try:
            for nest in search.better(room, least_traffic, two_levels, stop_of(budget)):  # noqa: B007
                pass  # the last is the best
        except ENDS as end:
            ended = reason_of(end)
    nest = _coarsened(group, nest, room, sizes)
    traffic = transfers(convolution, nest)
    return LayerTraffic(
        convolution=convolution,
        buffer_bytes=buffer_bytes,
        element_bytes=sizes,
        nest=nest,
        input_bytes=traffic.input * sizes.input,
        weight_bytes=traffic.weights * sizes.weights,
        output_bytes=traffic.output * sizes.output,
        held_bytes=traffic.held_bytes(sizes),
        bounds=bounds,
        ended=ended,
    )


def _coarsened(group: ConvolutionLoops, nest: LoopNest, room: int, sizes: ArrayBytes) -> LoopNest:
    """The nest with larger tiles, as far as they fit and move no more: fewer, longer transfers.

    Along filters and channels all tile sizes are tried, along the other loops the tile and the length.
    """
    least_traffic = transfers(group, nest).total_bytes(sizes)
    for loop, length in zip(NestLoop, lengths(group), strict=True):
        outer, inner = (nest.tiles[array][loop] for array in arrays_moved_by(nest.order, loop))
        has_many_sizes = loop in (NestLoop.FILTERS, NestLoop.CHANNELS)
        outer_sizes = tile_sizes(length) if has_many_sizes else (length, outer)
        # Largest outer tile first, with an inner tile of the same size, then with that of the nest.
        pairs = [
            (new_outer, new_inner)
            for new_outer in outer_sizes
            if new_outer >= outer
            for new_inner in (new_outer, inner)
        ]
        for pair in pairs:
            larger = replace(nest, tiles=_with_tiles(nest.tiles, nest.order, {loop: pair}))
            traffic = transfers(group, larger)
            if traffic.total_bytes(sizes) <= least_traffic and traffic.held_bytes(sizes) <= room:
                nest = larger
                break
    # A loop of one tile is no loop any more, so that nothing slides along it.
    input_loops = [loop for loop, *_ in nest.band(group, nest.order.index(Array.INPUT))]
    return nest if nest.slides in input_loops else replace(nest, slides=None)


def _with_tiles(
    tiles: ArrayTiles, order: Order, pairs: Mapping[NestLoop, Sequence[int]]
) -> ArrayTiles:
    """The tiles with other sizes along some loops: in the outer and inner array that the loop moves."""
    sizes = [list(sizes_of_array) for sizes_of_array in tiles]
    for loop, pair in pairs.items():
        for array, size in zip(arrays_moved_by(order, loop), pair, strict=True):
            sizes[array][loop] = size
    return tuple(sizes[0]), tuple(sizes[1]), tuple(sizes[2])


def check_lengths(convolution: ConvolutionLoops) -> None:
    """Raise GaveUp for a layer with too many tiles to list."""
    rows = convolution.output_rows * convolution.kernel_rows
    columns = convolution.output_columns * convolution.kernel_columns
    # A loop of length n has about 2 sqrt(n) different tile sizes.
    maps = isqrt(convolution.group_filters) + isqrt(convolution.group_channels)
    if max(rows, columns) > MOST_PAIRS or 32 * isqrt(rows) * isqrt(columns) * maps > MOST_TILES:
        raise GaveUp(
            f"layer {convolution.name!r} is too large to look at its tiles: "
            f"{convolution.group_filters} filters of {convolution.group_channels}x"
            f"{convolution.kernel_rows}x{convolution.kernel_columns} at "
            f"{convolution.output_rows}x{convolution.output_columns} places"
        )


class LoopOption(NamedTuple):
    """Tile sizes of filters or channels.

    first, second: in the two arrays that the loop moves, outer array first.
    rounds: factor of the transfers of the third array.
    """

    first: int
    second: int
    rounds: int


class _Choice(NamedTuple):
    """An order of the arrays and a sliding loop, with the tiles to choose from."""

    order: Order
    slides: Pair  # key of SLIDES
    filters: Sequence[LoopOption]
    channels: Sequence[LoopOption]
    rows: AxisOptions
    columns: AxisOptions


class NestSearches:
    """Searches for the nests of several layers, which share searches of equal groups and axes.

    A limit of steps counts shared steps once. Results are shared within this object only, so earlier
    calls have no effect on the reach of a limit.
    """

    def __init__(self) -> None:
        self._along_axis = cache(TilesAlongAxis)
        self._searches: dict[tuple[ConvolutionLoops, Halo, ArrayBytes], NestSearch] = {}

    def of_group(
        self, group: ConvolutionLoops, halo: Halo, sizes: ArrayBytes = ELEMENTS
    ) -> NestSearch:
        """Return the search for a group of a layer. sizes: bytes of the elements of each array."""
        key = group, halo, sizes
        if key not in self._searches:
            self._searches[key] = NestSearch(group, halo, sizes, along_axis=self._along_axis)
        return self._searches[key]


class NestSearch:
    """Search for the best nest of one group of a layer, for any number of buffer sizes."""

    def __init__(
        self,
        group: ConvolutionLoops,
        halo: Halo,
        sizes: ArrayBytes,
        *,
        along_axis: Callable[[ReceptiveField, Cuts], TilesAlongAxis],
    ) -> None:
        self._group = group
        self._along_axis = along_axis
        self._halo = halo
        self._sizes = sizes
        self._best_nests: dict[tuple[int, int, Cuts], LoopNest | None] = {}

    def most(self, room: int) -> int:
        """Return an upper bound on the traffic of any nest, and on any number in the kernel."""
        return ranges.loop_nests(lengths(self._group), self._sizes, room)

    def better(self, room: int, below: int, cuts: Cuts, stop: Stop) -> Iterator[LoopNest]:
        """Yield nests that move fewer than `below` bytes, each fewer than the last; the last is best.

        cuts: tile sizes to try along rows and columns. stop: may end the search by GaveUp; the
        last nest that was yielded is then not known to be the best.
        """
        key = room, below, cuts
        if key not in self._best_nests:
            least_traffic, best_nest = below, None
            for choice in self._choices(cuts, stop):
                for total, nest in self._better_of(choice, room, least_traffic, stop):
                    least_traffic, best_nest = total, nest
                    yield nest
            self._best_nests[key] = best_nest
            return
        previous_best = self._best_nests[key]
        if previous_best is not None:
            yield previous_best

    def _choices(self, cuts: Cuts, stop: Stop) -> Iterator[_Choice]:
        """All orders of the arrays and sliding loops."""
        sizes = lengths(self._group)
        axes = [self._along_axis(axis, cuts) for axis in axes_of(self._group)]
        for first, second, third in permutations(Array):
            order = first, second, third
            filters, channels = (
                loop_options(order, loop, sizes[loop])
                for loop in (NestLoop.FILTERS, NestLoop.CHANNELS)
            )
            for slides in SLIDES if self._halo is Halo.CACHED else [(NO_SLIDE, NO_SLIDE)]:
                rows, columns = (
                    axis.options(order, slide, stop)
                    for axis, slide in zip(axes, slides, strict=True)
                )
                yield _Choice(order, slides, filters, channels, rows, columns)

    def _better_of(
        self, choice: _Choice, room: int, below: int, stop: Stop
    ) -> Iterator[tuple[int, LoopNest]]:
        """Better and better nests of a choice, with their traffic, below a number of bytes.

        The kernel searches all combinations of options; the row options are given in blocks.
        """
        group, sizes = self._group, self._sizes
        backend = compiler.backend(fits=self.most(room) <= compiler.INT64_SUM_LIMIT)
        filters = backend.array(_numbers(choice.filters, choice.order, NestLoop.FILTERS))
        channels = backend.array(_numbers(choice.channels, choice.order, NestLoop.CHANNELS))
        columns = backend.view(choice.columns.costs.ravel().tolist())
        layer = backend.kernel(kernel.ConvolutionShape)(
            group.channels,
            used_weights(group) * sizes.weights,
            group.output_elements * sizes.output,
            room,
            *sizes,
        )
        for rows in choice.rows.blocks(MOST_OPTIONS // len(choice.columns.costs) + 1):
            stop.look()
            stop.spend(NESTS_EFFORT)
            answer = backend.array([below] + [0] * (kernel.ANSWER - 1))
            choices = backend.kernel(kernel.TileChoices)(
                filters, channels, backend.view(rows.costs.ravel().tolist()), columns
            )
            backend.kernel(kernel.minimum_traffic)(choices, layer, answer)
            total, *indices = backend.take(answer, range(kernel.ANSWER))
            if total < below:
                below = total
                yield total, _nest(choice._replace(rows=rows), indices)


def _numbers(options: Sequence[LoopOption], order: Order, loop: NestLoop) -> Iterator[int]:
    """The options as the kernel reads them: size in the other array, size in the weights, rounds."""
    has_weights_first = arrays_moved_by(order, loop)[0] is Array.WEIGHTS
    for first, second, rounds in options:
        yield from (second, first, rounds) if has_weights_first else (first, second, rounds)


def _nest(choice: _Choice, indices: Sequence[int]) -> LoopNest:
    """The nest of the options with these indices: of filters, channels, rows, columns."""
    filters, channels, row, column = indices
    pairs: dict[NestLoop, Sequence[int]] = {
        NestLoop.FILTERS: choice.filters[filters][:2],
        NestLoop.CHANNELS: choice.channels[channels][:2],
    }
    for loops, axis, at in zip(AXES, (choice.rows, choice.columns), (row, column), strict=True):
        tiles = axis.tiles[at].tolist()
        pairs |= {loops[0]: tiles[:2], loops[1]: tiles[2:]}
    one_element = (1,) * len(NestLoop)
    return LoopNest(
        order=choice.order,
        tiles=_with_tiles((one_element, one_element, one_element), choice.order, pairs),
        slides=SLIDES[choice.slides],
    )


def loop_options(order: Order, loop: NestLoop, length: int) -> list[LoopOption]:
    """Return the tiles of filters or channels to try, largest first.

    The array that the loop does not move is loaded again for each tile of the loops around it. So a
    loop without tiles around this array has tiles of 1, which hold the least.
    """
    around = bands_around(order, loop)
    if around == 0:
        return [LoopOption(1, 1, 1)]
    return [
        LoopOption(tile, tile if around == 2 else 1, -(-length // tile))
        for tile in tile_sizes(length)
    ]


def bands_around(order: Order, loop: NestLoop) -> int:
    """Return how many of a loop's two bands are around the array that the loop does not move.

    A loop is split into two bands of tiles, one for each array that the loop moves, in the order of
    these arrays: 0, 1 or 2 bands precede the third array.
    """
    (third,) = (array for array in order if loop not in MOVES[array])
    return order.index(third)


class AxisOptions(NamedTuple):
    """Tile sizes along rows or columns with their costs, fewest reads first.

    costs: (N, 6), in the order of planners.kernels.loop_nests: output positions and kernel positions
        held, input elements held and read, rounds of the weights and of the output.
    tiles: (N, 4): of output positions in the two arrays that they move, then of kernel positions.
    """

    costs: Numbers
    tiles: Numbers

    def blocks(self, maximum: int) -> Iterator[AxisOptions]:
        """Yield the options in order, at most this many at a time."""
        for begin in range(0, len(self.costs), maximum):
            end = begin + maximum
            yield AxisOptions(self.costs[begin:end], self.tiles[begin:end])


class TilesAlongAxis:
    """Pareto-optimal tiles along one axis, for each order of the arrays."""

    def __init__(self, axis: ReceptiveField, cuts: Cuts) -> None:
        self._axis = axis
        self._output_tiles = cuts(axis.outputs)
        self._kernel_tiles = cuts(max(1, len(axis.live)))
        self._known: dict[tuple[Order, int], AxisOptions] = {}
        self._reads: tuple[Numbers, Numbers] | None = None

    def options(self, order: Order, slide: int, stop: Stop) -> AxisOptions:
        """Return the Pareto-optimal tiles for an order, without duplicates.

        slide: number of the sliding loop, as in SLIDES. Raises GaveUp once the work of the stop is
        spent.
        """
        if (order, slide) not in self._known:
            costs, tiles = self.every(order, slide, stop)
            *_, input_reads, rounds_of_weights, rounds_of_output = costs.T
            keys = input_reads * rounds_of_weights * rounds_of_output, *costs.T, *tiles.T
            # In this order, an option is beaten by options before it only: by those of the front so
            # far, or by earlier options of its block.
            ordered = np.lexsort(keys[::-1])
            front = np.empty(0, dtype=np.int64)
            for begin in range(0, len(ordered), BLOCK):
                stop.look()
                stop.spend(OPTIONS_EFFORT)
                block = ordered[begin : begin + BLOCK]
                block = block[~_is_beaten(costs[block], costs[front]).any(axis=1)]
                by_earlier = np.tril(_is_beaten(costs[block], costs[block]), -1).any(axis=1)
                front = np.append(front, block[~by_earlier])
            self._known[order, slide] = AxisOptions(costs[front], tiles[front])
        return self._known[order, slide]

    def every(self, order: Order, slide: int, budget: Budget = None) -> AxisOptions:
        """Return all tiles for an order, dominated tiles included."""
        if self._reads is None:
            self._reads = all_input_reads(
                self._axis, self._output_tiles, self._kernel_tiles, budget
            )
        output_loop, kernel_loop = AXES[0]
        outputs = _axis_loop_options(order, output_loop, self._output_tiles)
        taps = _axis_loop_options(order, kernel_loop, self._kernel_tiles)
        # Cross product: each option of the output loop with each option of the kernel loop.
        outputs, taps = outputs.repeat(len(taps), axis=0), np.tile(taps, (len(outputs), 1))
        output_tiles, output_index, rounds_of_weights = outputs[:, :2], *outputs[:, 2:].T
        tap_tiles, tap_index, rounds_of_output = taps[:, :2], *taps[:, 2:].T
        held_input, reads = (table[..., output_index, tap_index] for table in self._reads)
        held_output = output_tiles[:, arrays_moved_by(order, output_loop).index(Array.OUTPUT)]
        held_weights = tap_tiles[:, arrays_moved_by(order, kernel_loop).index(Array.WEIGHTS)]
        costs = (
            *(held_output, held_weights, held_input),
            *(reads[slide], rounds_of_weights, rounds_of_output),
        )
        return AxisOptions(np.stack(costs, axis=1), np.hstack([output_tiles, tap_tiles]))


def _axis_loop_options(order: Order, loop: NestLoop, pairs: tuple[Pair, ...]) -> Numbers:
    """Options of one loop, (N, 4): outer and inner tile size, index of the input tile, rounds.

    pairs: the tile sizes to search, first the length of the loop twice. The tiles are those of the two
    arrays that the loop moves. The index is the position in `pairs` of the tiles that the input has.
    Rounds: as in LoopOption.
    """
    (length, _), around = pairs[0], bands_around(order, loop)
    index_of = {pair: index for index, pair in enumerate(pairs)}
    _, inner_array = arrays_moved_by(order, loop)
    is_input_inner = inner_array is Array.INPUT
    options = pairs
    if around < 2 and not is_input_inner:
        # Inner tiles do not overlap, and no third array is inside them: their size saves nothing.
        options = tuple((outer, 1) for outer in dict.fromkeys(outer for outer, _ in pairs))
    rows = []
    for outer, inner in options:
        # Tiles of the outer array are cut from the whole loop, tiles of the inner array from these.
        input_tiles = (outer, inner) if is_input_inner else (length, outer)
        rounds = tiles_of(length, *(outer, inner)[:around])
        rows.append((outer, inner, index_of[input_tiles], rounds))
    return np.array(rows, dtype=np.int64)


def _is_beaten(options: Numbers, rivals: Numbers) -> npt.NDArray[np.bool_]:
    """For each pair of an option and a rival, whether the option costs no less in any column."""
    beaten = np.ones((len(options), len(rivals)), dtype=bool)
    for left, right in zip(options.T, rivals.T, strict=True):
        beaten &= left[:, None] >= right
    return beaten
