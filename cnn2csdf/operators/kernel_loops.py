"""Loops of the kernels of emitted C: windows by their taps inside, filters in blocks, pooling.

The loops of a kernel are counted over one frame, by names that cnn2csdf.instructions lists. A tap is
an element of a kernel; taps in the padding are skipped, so windows at the border have fewer. Windows
with the same number of taps inside are counted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from cnn2csdf.geometry import Axis, Window
from cnn2csdf.operators.operator import Counts, FilterBank, KernelLoops, KernelUse, Operator
from cnn2csdf.shape import Shape

FILTER_BLOCK = 4  # filters of integers that are summed at once
REAL_FILTER_BLOCKS = (16, 8)  # filters of real numbers that are summed at once
VALUES_IN_WORD = 4  # values that are multiplied at once with SMLAD
VALUES_IN_VECTOR = 16  # values that are multiplied at once with Helium
CHANNELS_IN_WORD = 4  # channels of a depthwise convolution that are computed at once
CHANNELS_IN_VECTOR = 8  # the same with Helium
# A window with shorter rows, and no more values, is copied to scratch as one row.
GATHER_MAX_ROW_VALUES = 16
GATHER_MAX_VALUES = 256
READ_IN_EACH_CALL = "read in each call"  # counted for one call
PRODUCT_KERNEL = "Product"  # a product of matrices in single precision


def combined_loops(use: KernelUse, constant: Sequence[int] | None) -> Counts:
    """Return the loops over two operands, of which a constant may be one.

    Kernels of integers combine whole rows where the step of each operand from element to element is
    the same along the row, and in fours where it is 1. Otherwise the pixels are apart: each takes a
    call. Kernels of real numbers combine pixel by pixel; pixels are apart where an input is repeated.
    """
    shape = use.output
    places = shape.height * shape.width if shape.is_map else 1
    is_apart = any(source.elements < shape.elements for source in use.inputs)
    is_contiguous = True
    if shape.is_map and not use.is_real:
        steps = [_steps(source.dims, is_constant=not source.is_map) for source in use.inputs]
        steps += [_steps(constant, is_constant=True)] if constant else []
        if shape.channels > 1:
            is_apart = any(channel * shape.channels != column for channel, column in steps)
            is_contiguous = all(channel == 1 for channel, _ in steps)
        else:
            is_apart, is_contiguous = False, all(column == 1 for _, column in steps)
    rows = shape.rows if shape.is_map else 1
    runs = places if is_apart else rows
    fours = shape.elements // runs // CHANNELS_IN_WORD if is_contiguous else 0
    return {
        "read": sum(source.elements for source in use.inputs),
        "written": shape.elements,
        "places": places,
        "places apart": places if is_apart else 0,
        "fours": runs * fours,
        "after fours": shape.elements - runs * fours * CHANNELS_IN_WORD,
    }


def _steps(dims: Sequence[int], *, is_constant: bool) -> tuple[int, int]:
    """The steps of an operand from a channel, and from a column, to the next; 0 where it repeats.

    Constants are stored in the order of their axes: channels, rows, columns; maps pixel by pixel.
    """
    channels, rows, columns = (1, 1, 1, *dims)[-3:]
    channel, column = (rows * columns, 1) if is_constant else (1, channels)
    return channel * (channels > 1), column * (columns > 1)


def taps_of_windows(
    axis: Axis, length: int, outputs: int, ring: int = 0
) -> Counter[tuple[int, bool]]:
    """Return the number of windows by their taps inside, and by whether they wrap around the ring.

    For a length of 5, 3 taps and a padding of 1 on both sides: 3 windows have 3 taps inside, and 2
    have 2. The first and last tap inside are constant between breakpoints; there windows that wrap
    are counted as a sum of floors. O(min(kernel, outputs)).
    """
    limit = length + min(axis.after, 0)
    counts: Counter[tuple[int, bool]] = Counter()
    for first, upto in pairwise(_breakpoints(axis, limit, outputs)):
        begin = first * axis.stride - axis.before
        skipped = max(0, -(begin // axis.dilation))
        inside = min(axis.kernel, -((begin - limit) // axis.dilation)) - skipped
        windows, wrapping = upto - first, 0
        if inside > 0 and ring:
            first_tap = begin + skipped * axis.dilation
            last_tap = first_tap + (inside - 1) * axis.dilation
            laps_of_first, laps_of_last = (
                _sum_of_floors(windows, ring, axis.stride, tap) for tap in (first_tap, last_tap)
            )
            # All windows pass at least one end of the ring, or all pass at most one.
            wrapping = min(windows, laps_of_last - laps_of_first)
        counts[max(0, inside), True] += wrapping
        counts[max(0, inside), False] += windows - wrapping
    return +counts


def _breakpoints(axis: Axis, limit: int, outputs: int) -> list[int]:
    """Numbers of windows, ascending, from 0 to outputs: where a tap passes a border, 0 or the limit.

    All numbers if windows are as few as taps.
    """
    if outputs <= axis.kernel:
        return list(range(outputs + 1))
    breakpoints = {0, outputs}
    for tap in range(axis.kernel):
        for border in (0, limit):
            # The first window whose tap is at this border or beyond it.
            window = -((tap * axis.dilation - axis.before - border) // axis.stride)
            breakpoints.add(min(max(window, 0), outputs))
    return sorted(breakpoints)


def _sum_of_floors(count: int, divisor: int, factor: int, offset: int) -> int:
    """Return the sum of (factor * i + offset) // divisor for i from 0 to count - 1.

    Lattice points below a line, by the steps of Euclid's algorithm: O(log(divisor)).
    """
    total = 0
    while count > 0:
        whole, factor = divmod(factor, divisor)
        total += whole * (count * (count - 1) // 2)
        whole, offset = divmod(offset, divisor)
        total += whole * count
        top = factor * count + offset
        if top < divisor:
            break
        # Count along the other axis, where the line has the inverse slope.
        count, offset = divmod(top, divisor)
        divisor, factor = factor, divisor
    return total


class _AlikeWindows(NamedTuple):
    """Windows with the same number of taps inside the tensor.

    pixels: the number of these windows, one for each output pixel. down, across: taps inside, by axis.
    wraps: whether each row of a window wraps around the ring, and is read in two runs.
    """

    pixels: int
    down: int
    across: int
    wraps: bool

    @property
    def runs(self) -> int:
        """The runs of consecutive values in a window."""
        return self.down * (1 + self.wraps)


def _alike_windows(window: Window, source: Shape, shape: Shape, ring: int) -> list[_AlikeWindows]:
    """The windows over a tensor, grouped by their taps inside."""
    down_taps = taps_of_windows(window.rows, source.height, shape.height)
    across_taps = taps_of_windows(window.columns, source.width, shape.width, ring)
    return [
        _AlikeWindows(down_taps[down, False] * across_taps[across, wraps], down, across, wraps)
        for (down, _), (across, wraps) in product(down_taps, across_taps)
    ]


def _taps_of_axes(window: Window, source: Shape, shape: Shape) -> tuple[int, int]:
    """The sums of the taps inside the tensor, over all windows down an axis and across."""
    down_taps = taps_of_windows(window.rows, source.height, shape.height)
    across_taps = taps_of_windows(window.columns, source.width, shape.width)
    down, across = (
        sum(taps * windows for (taps, _), windows in counts.items())
        for counts in (down_taps, across_taps)
    )
    return down, across


def convolution_loops(bank: FilterBank, use: KernelUse) -> KernelLoops:
    """Return the kernel of a convolution, and its loops over all windows."""
    window, groups, source = bank.window, bank.groups, use.inputs[0]
    inputs = source.channels // groups
    counts_of: Counter[str] = Counter()
    is_depthwise = bank.is_depthwise(source.channels)
    for windows in _alike_windows(window, source, use.output, use.ring):
        if is_depthwise:
            counts_of.update(_depthwise_loops(windows, groups))
        elif use.is_real:
            values = windows.across * inputs // (1 + windows.wraps)
            filters = bank.filters // groups
            counts_of.update(
                real_filter_loops(windows.pixels * groups, windows.runs, values, filters)
            )
        elif _is_gathered(bank, source):
            counts_of.update(_gathered_loops(windows, bank, inputs))
        else:
            counts_of.update(_direct_loops(windows, bank, inputs))
    if is_depthwise:
        return "Depthwise", dict(counts_of)
    if bank.block is not None and not use.is_real:  # a product of matrices in the file
        counts_of["inner"] = use.output.height * use.output.width * prod(window.kernel) * inputs
        return PRODUCT_KERNEL, dict(counts_of)
    return "Convolution" if groups == 1 else "GroupedConvolution", dict(counts_of)


def _is_gathered(bank: FilterBank, source: Shape) -> bool:
    """Whether windows are copied to scratch before they meet blocks of filters."""
    kernel_rows, kernel_columns = bank.window.kernel
    row_values = kernel_columns * source.channels
    return (
        bank.groups == 1
        and kernel_rows > 1
        and row_values < GATHER_MAX_ROW_VALUES
        and kernel_rows * row_values <= GATHER_MAX_VALUES
    )


def _gathered_loops(windows: _AlikeWindows, bank: FilterBank, inputs: int) -> Counter[str]:
    """The loops over windows that are copied to scratch; filters left over read the tensor."""
    pixels, down, across = windows.pixels, windows.down, windows.across
    taps = prod(bank.window.kernel)
    blocked = bank.filters // FILTER_BLOCK * FILTER_BLOCK
    counts_of = Counter(filter_loops(pixels, 1, taps * inputs, blocked))
    if bank.filters > blocked:
        counts_of.update(filter_loops(pixels, down, across * inputs, bank.filters - blocked))
        counts_of["places"] -= pixels  # both calls count these pixels
    counts_of["gathered rows"] = pixels * windows.runs
    counts_of["gathered"] = pixels * down * across * inputs
    counts_of["gathers"] = pixels
    counts_of["gathered at border"] = pixels * taps * inputs * (down * across < taps)
    return counts_of


def _direct_loops(windows: _AlikeWindows, bank: FilterBank, inputs: int) -> Counter[str]:
    """The loops over windows of integers that are read where the tensor is stored."""
    pixels, down, across, wraps = windows
    values, filters = across * inputs // (1 + wraps), bank.filters // bank.groups
    counts_of = Counter(filter_loops(pixels * bank.groups, windows.runs, values, filters))
    counts_of["wrapping windows"] = pixels * bank.groups * wraps
    # The stored sums of weights times the zero point hold for whole windows in one run only; for
    # other windows the weights are summed up run by run. Weights of whole rows are one run.
    if wraps or down * across < prod(bank.window.kernel):
        has_whole_rows = across == bank.window.kernel[1] and not wraps
        runs = 1 if has_whole_rows else windows.runs
        weights_of_run = -(-down * across * inputs // max(runs, 1))
        blocks = pixels * (bank.filters // FILTER_BLOCK)
        counts_of["weight sum blocks"] = blocks
        counts_of["weight sum runs"] = blocks * runs
        counts_of["weight sum vectors"] = blocks * runs * -(-weights_of_run // VALUES_IN_VECTOR)
        counts_of["partial rows"] = blocks * windows.runs
        counts_of["partial vectors"] = blocks * windows.runs * -(-values // VALUES_IN_VECTOR)
    return counts_of


def hybrid_loops(product_operator: Operator, source: Shape, shape: Shape) -> Counts:
    """Return the loops of products of real numbers that become integers: range, conversion, sums."""
    counts_of = {"outputs": shape.elements}
    filters = product_operator.filter_bank
    if filters is None:
        products = product_operator.multiply_accumulates((source,), shape)
        counts_of |= {"read": source.elements, "converted": source.elements}
        return counts_of | {"integer products": products}
    window, inputs = filters.window, source.channels // filters.groups
    down, across = _taps_of_axes(window, source, shape)
    return counts_of | {
        READ_IN_EACH_CALL: source.elements,
        "places": shape.height * shape.width,
        "converted": down * across * source.channels,
        "converted runs": down * across * filters.groups,
        "sums": down * shape.width * shape.channels,
        "integer products": down * across * inputs * shape.channels,
    }


def dense_loops(units: int, source: Shape, *, is_real: bool) -> KernelLoops:
    """Return the kernel of a fully connected layer, and its loops."""
    if is_real:
        count = source.row_elements
        return "FullyConnected", real_filter_loops(1, source.height, count, units)
    counts = filter_loops(1, 1, source.elements, units)  # all rows are one run of values
    counts["matrices"] = counts.pop("places")
    return "Convolution", counts  # which has the same loops of filters


def filter_loops(places: int, rows: int, count: int, filters: int) -> Counts:
    """Return the loops that multiply filters with rows of `count` values each, at this many pixels."""
    blocks, single = places * (filters // FILTER_BLOCK), places * (filters % FILTER_BLOCK)
    return {
        "places": places,
        "outputs": places * filters,
        "filter rows": places * filters * rows,
        "products": places * filters * rows * count,
        "blocks": blocks,
        "block rows": blocks * rows,
        "words": blocks * rows * (count // VALUES_IN_WORD),
        "tails": blocks * rows * (count % VALUES_IN_WORD),
        "vectors": blocks * rows * -(-count // VALUES_IN_VECTOR),
        "singles": places * (single > 0),
        "single filters": single,
        "single rows": single * rows,
        "single products": single * rows * count,
    }


def real_filter_loops(places: int, rows: int, count: int, filters: int) -> Counts:
    """Return the same for real numbers: filters in blocks of sixteen, then of eight, then singly."""
    large, small = REAL_FILTER_BLOCKS
    rest = filters % small
    blocks = {large: filters // large, small: filters % large // small}
    values = places * rows * count
    loops_of = {f"values of {size}": values * number for size, number in blocks.items()}
    loops_of |= {f"rows of {size}": places * rows * number for size, number in blocks.items()}
    return loops_of | {
        "places": places,
        "outputs": places * filters,
        "blocks": places * -(-filters // large),
        "block rows": places * rows * -(-filters // large),
        "values of rest": values * (rest > 0),
        "products of rest": values * rest,
    }


def _depthwise_loops(windows: _AlikeWindows, channels: int) -> Counts:
    """The loops of a depthwise convolution, in blocks of four, and of eight or sixteen, channels.

    Channels left over by the blocks are computed singly.
    """
    places, taps = windows.pixels, windows.pixels * windows.down * windows.across
    loops_of = {
        "places": places,
        "outputs": places * channels,
        "wrapping windows": places * windows.wraps,
    }
    loops_of["products"] = taps * channels
    vector_pairs, rest = divmod(channels, 2 * CHANNELS_IN_VECTOR)
    blocks = {
        CHANNELS_IN_WORD: channels // CHANNELS_IN_WORD,
        CHANNELS_IN_VECTOR: rest // CHANNELS_IN_VECTOR,
        2 * CHANNELS_IN_VECTOR: vector_pairs,
    }
    for block_channels, number in blocks.items():
        loops_of |= {
            f"blocks of {block_channels}": places * number,
            f"rows of {block_channels}": places * number * windows.runs,
            f"taps of {block_channels}": taps * number,
        }
    for block_channels in (CHANNELS_IN_WORD, CHANNELS_IN_VECTOR):
        rest = channels % block_channels
        loops_of |= {
            f"places after {block_channels}": places if rest else 0,
            f"taps after {block_channels}": taps if rest else 0,
            f"products after {block_channels}": taps * rest,
            f"outputs after {block_channels}": places * rest,
        }
    return loops_of


def pooling_loops(window: Window, source: Shape, shape: Shape) -> Counts:
    """Return the loops over the taps of windows of single channels."""
    taps = prod(_taps_of_axes(window, source, shape))
    return {
        "places": shape.height * shape.width,
        "outputs": shape.elements,
        "taps": taps,
        "products": taps * shape.channels,
    }
