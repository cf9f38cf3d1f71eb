"""Minimum DRAM traffic of one layer: search over loop nests, and lower bounds for any schedule.

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
from functools import cache, partial
from itertools import permutations, product
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
    all_touched,
    one_level,
    tile_sizes,
    tiles_of,
    two_levels,
    used_weights,
)
from planners.traffic.nest import (
    AXES,
    MOVES,
    Array,
    Halo,
    LayerTraffic,
    LoopNest,
    LowerBound,
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
# The sliding loop along rows and along columns: none (0), output positions (1), kernel positions (2).
SLIDES: tuple[Pair, ...] = ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2))

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
        pairs = [(size, tile) for size in outer_sizes if size >= outer for tile in (size, inner)]
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
    slides: Pair  # along rows, along columns
    filters: Sequence[LoopOption]
    channels: Sequence[LoopOption]
    rows: AxisOptions
    columns: AxisOptions


class NestSearches:
    """Searches for the nests of several layers, which share searches of equal groups and axes.

    of_group: the search for a group of a layer; arguments as of NestSearch.

    A limit of steps counts shared steps once. Results are shared within this object only, so earlier
    calls have no effect on the reach of a limit.
    """

    def __init__(self) -> None:
        self.of_group = cache(partial(NestSearch, along_axis=cache(AxisTiles)))


class NestSearch:
    """Search for the best nest of one group of a layer, for any number of buffer sizes."""

    def __init__(
        self,
        group: ConvolutionLoops,
        halo: Halo,
        sizes: ArrayBytes = ELEMENTS,
        *,
        along_axis: Callable[[ReceptiveField, Cuts], AxisTiles],
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
            for slides in SLIDES if self._halo is Halo.CACHED else SLIDES[:1]:
                rows, columns = (
                    axis.options(order, way, stop) for axis, way in zip(axes, slides, strict=True)
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
    sliding = [loops[way - 1] for way, loops in zip(choice.slides, AXES, strict=True) if way]
    return LoopNest(
        order=choice.order,
        tiles=_with_tiles((one_element, one_element, one_element), choice.order, pairs),
        slides=sliding[0] if sliding else None,
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


class AxisTiles:
    """Pareto-optimal tiles along one axis, for each order of the arrays."""

    def __init__(self, axis: ReceptiveField, cuts: Cuts) -> None:
        self._axis = axis
        self._output_tiles = cuts(axis.outputs)
        self._kernel_tiles = cuts(max(1, len(axis.live)))
        self._known: dict[tuple[Order, int], AxisOptions] = {}
        self._reads: tuple[Numbers, Numbers] | None = None

    def options(self, order: Order, way: int, stop: Stop) -> AxisOptions:
        """Return the Pareto-optimal tiles for an order, without duplicates.

        way: the sliding loop: none (0), output positions (1) or kernel positions (2). stop:
        raises GaveUp once its work is spent.
        """
        if (order, way) not in self._known:
            costs, tiles = self.every(order, way, stop)
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
            self._known[order, way] = AxisOptions(costs[front], tiles[front])
        return self._known[order, way]

    def every(self, order: Order, way: int, budget: Budget = None) -> AxisOptions:
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
        *_, output_index, rounds_of_weights = outputs.T
        *_, tap_index, rounds_of_output = taps.T
        held_input, reads = (table[..., output_index, tap_index] for table in self._reads)
        held_output = outputs[:, arrays_moved_by(order, output_loop).index(Array.OUTPUT)]
        held_weights = taps[:, arrays_moved_by(order, kernel_loop).index(Array.WEIGHTS)]
        costs = (
            *(held_output, held_weights, held_input),
            *(reads[way], rounds_of_weights, rounds_of_output),
        )
        return AxisOptions(np.stack(costs, axis=1), np.hstack([outputs[:, :2], taps[:, :2]]))


def _axis_loop_options(order: Order, loop: NestLoop, pairs: tuple[Pair, ...]) -> Numbers:
    """Options of one loop, (N, 4): tile sizes of its two arrays, index of the input tile, rounds.

    pairs: the tile sizes to search, first the length of the loop twice. The index is the position in
    `pairs` of the tiles that the input has. Rounds: as in LoopOption.
    """
    (length, _), around = pairs[0], bands_around(order, loop)
    index_of = {pair: index for index, pair in enumerate(pairs)}
    is_input_inner = arrays_moved_by(order, loop)[1] is Array.INPUT
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


COMPULSORY = "compulsory"
COMMUNICATION = "communication"
SCALE = 1024  # square roots are scaled before they are rounded: an error below 0.1%


def lower_bounds(
    convolution: ConvolutionLoops, *, buffer_bytes: int, element_bytes: int | ArrayBytes
) -> tuple[LowerBound, ...]:
    """Return lower bounds on the bytes moved between the buffer and DRAM.

    They hold for all schedules that do each multiplication once, with its three operands in the
    buffer, adding into the output element itself; sums that leave the buffer are written, and
    read again later. Groups share no element, so the bounds of one group, with the entire buffer,
    add up. With elements of several sizes, the buffer holds at most as many elements as of the
    smallest size; each element that moves takes the smallest size, and larger elements take the
    rest at least once each.
    """
    group, sizes = group_of(convolution), array_bytes(element_bytes)
    elements, minimum = array_elements(group), min(sizes)
    compulsory = sum(count * size for count, size in zip(elements, sizes, strict=True))
    remainder = compulsory - minimum * sum(elements)
    communication = communication_elements(group, buffer_bytes // minimum) * minimum + remainder
    return (
        LowerBound(name=COMPULSORY, bytes=compulsory * convolution.groups),
        LowerBound(name=COMMUNICATION, bytes=communication * convolution.groups),
    )


def array_elements(group: ConvolutionLoops) -> tuple[int, int, int]:
    """Return the elements of input and weights that any multiplication reads, and of the output."""
    rows, columns = axes_of(group)
    input_elements = group.channels * all_touched(rows) * all_touched(columns)
    return input_elements, used_weights(group), group.output_elements


def communication_elements(group: ConvolutionLoops, room: int) -> int:
    """Return a lower bound on the elements one group moves through a buffer of M = `room` elements.

    1. Reads R: each output counts a free read of zero when its sum begins. The group moves
       R - outputs + writes >= R elements, as each output is written. Cut a schedule into segments of T
       reads; the last segment has t <= T.
    2. A segment uses i inputs, w weights and o outputs, held at its start or read in it:
       i + w + o <= M + T, and i + w + o <= T in the first segment, whose buffer begins empty.
    3. Class k: the input rows and columns of one residue modulo the stride, the weights that read
       them, and their multiplications. An input element has at most r_k positions in the unfolded
       input. Two of an output, a weight and an unfolded position determine a multiplication, so m_k
       multiplications of a segment need i_k inputs and w_k weights of the class with
       m_k <= sqrt(r_k i_k * w_k * o)                                   (Loomis, Whitney).
    4. Weight of multiplications: the sum of m_k / sqrt(r_k) over the classes. In a segment it is
       sum of sqrt(i_k w_k o) <= sqrt(i w o) <= F(i + w + o)            (Cauchy, Schwarz),
       where F(n), `_maximum_weight`, is the maximum of sqrt(i w o) for a sum of n.
    5. A schedule of s > 1 segments has (s - 1) T + t reads, and a weight of at most
       F(T) + (s - 2) F(M + T) + F(M + t). `_reads` is the minimum of these reads for the weight of all
       multiplications.
    This holds for each T; several are tried. T = 2 M gives about 2 m / sqrt(r M) for m multiplications
    of one class; for a matrix product r is 1, and no larger constant than 2 holds.
    Source: Irony, Toledo, Tiskin, J. Parallel Distrib. Comput. 64(9), 2004 (segments); Smith et
    al., A Tight I/O Lower Bound for Matrix Multiplication, arXiv 1702.02017 (reads alone, constant
    2); Demmel, Dinh, Communication-Optimal Convolutional Neural Nets, arXiv 1802.06905, and Chen et
    al., Communication Lower Bound in Convolution Accelerators, HPCA 2020 (reuse of windows).
    """
    filters = group.filters * group.channels
    weight = sum(
        isqrt((SCALE * filters * down * across) ** 2 // (down_reuse * across_reuse))
        for (down, down_reuse), (across, across_reuse) in product(*map(_classes, axes_of(group)))
    )
    limits = sorted(array_elements(group))
    segments = [sum(limits), *(max(1, room * part // 8) for part in range(1, 49))]
    return max(_reads(weight, limits, room=room, segment=segment) for segment in segments)


def _classes(axis: ReceptiveField) -> list[tuple[int, int]]:
    """For each residue class modulo the stride: its pairs of output and kernel, its maximum reuse.

    The reuse of an input position is the number of pairs that read the position.
    """
    reads_by_class: dict[int, dict[int, int]] = {}
    for output, tap in product(range(axis.outputs), range(axis.kernel)):
        position = axis.stride * output + axis.dilation * tap - axis.padding
        if 0 <= position < axis.inputs:
            reads_of_class = reads_by_class.setdefault(axis.dilation * tap % axis.stride, {})
            reads_of_class[position] = reads_of_class.get(position, 0) + 1
    return [(sum(count.values()), max(count.values())) for count in reads_by_class.values()]


def _reads(weight: int, limits: Sequence[int], *, room: int, segment: int) -> int:
    """Minimum reads of a schedule for multiplications of this weight; segment: reads of a segment.

    limits: elements of the three arrays, in ascending order. room: elements of the buffer.
    """
    after_first = weight - _maximum_weight(segment, limits)
    if after_first <= 0:
        return _minimum_reads(weight, limits, held=0, segment=segment)
    weight_per_segment = _maximum_weight(room + segment, limits)
    # The last segment has a weight from 1 to `weight_per_segment`; those between are complete.
    between = (after_first - 1) // weight_per_segment
    last_weight = after_first - between * weight_per_segment
    last_reads = _minimum_reads(last_weight, limits, held=room, segment=segment)
    return segment * (1 + between) + last_reads


def _minimum_reads(weight: int, limits: Sequence[int], *, held: int, segment: int) -> int:
    """Minimum reads, up to one segment, that allow multiplications of this weight.

    held: elements in the buffer before the segment.
    """
    low, high = 0, segment
    # Bisection by hand: `bisect` accepts ranges up to 2^63 only.
    while low < high:
        reads = (low + high) // 2
        if _maximum_weight(held + reads, limits) < weight:
            low = reads + 1
        else:
            high = reads
    return low


def _maximum_weight(elements: int, limits: Sequence[int]) -> int:
    """Upper bound on the scaled weight of a segment that uses this many elements, rounded up.

    The product of three numbers of a given sum, each at most its limit, is largest if they are as
    equal as the limits (in ascending order) allow.
    """
    product_of_counts, remaining = 1, elements
    for index, limit in enumerate(limits):
        count = min(limit, remaining // (len(limits) - index))
        product_of_counts *= count
        remaining -= count
    return isqrt(SCALE**2 * product_of_counts) + 1
