"""Work of kernels of emitted C: the iterations of each loop of a layer's kernel in one frame.

The instructions of a kernel are the sum over its loops of iterations times instructions of one
iteration, which `cnn2csdf.platforms.INSTRUCTIONS` has for each core. A key of these tables is the
name of a kernel (`_kernel_name` states its grammar) and the name of a loop. Taps in the padding are
skipped, so that windows are counted by their taps inside the tensor. The loops, each counted over
the whole frame:

| loop                     | counts in the emitted C                                            |
|--------------------------|--------------------------------------------------------------------|
| rows                     | calls for one output row                                           |
| places, outputs          | output pixels; output elements                                     |
| read, written            | elements that the kernel reads; elements that it writes            |
| taps, products           | taps of all windows; multiply-accumulates                          |
| filter rows              | rows of a window, for each filter                                  |
| blocks, block rows       | blocks of 4 filters; their rows of a window                        |
| words, tails             | groups of 4 values in these rows (SMLAD); values left over         |
| vectors                  | groups of 16 values in these rows (Helium)                         |
| singles                  | pixels at which filters are left over by the blocks                |
| single filters           | filters left over; single rows, single products: of these          |
| values of N, rows of N   | values, and rows of a window, times N filters (real numbers)       |
| lanes, rows, taps of N   | blocks of N channels of a depthwise window; their rows, taps       |
| ... beside N             | the same for the channels left over by blocks of N                 |
| bends                    | windows that wrap around a ring buffer, read in two runs           |
| gathers, gathered rows   | windows copied to scratch first; their rows                        |
| gathered, gathered bare  | values of these windows; of those that overlap the padding         |
| bare blocks, runs        | blocks, and runs in them, whose weights are summed again           |
| bare vectors             | groups of 16 weights in these runs                                 |
| cut rows, cut vectors    | rows and groups of 16 values in these blocks                       |
| fours, beside fours      | groups of 4 elements of an elementwise row; elements left over     |

Weights are summed again ("bare", "cut") where a window overlaps the padding or wraps: the stored sum
of a filter's weights times the zero point of the input holds for whole windows in one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.geometry import Axis, Window
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates, operations
from cnn2csdf.platforms import Platform
from cnn2csdf.shape import Shape

REAL_BYTES = 4
FILTER_BLOCK = 4  # filters of integers that are summed at once
REAL_FILTER_BLOCKS = (16, 8)  # filters of real numbers that are summed at once
VALUES_IN_WORD = 4  # values that are multiplied at once with SMLAD
VALUES_IN_VECTOR = 16  # values that are multiplied at once with Helium
CHANNELS_IN_WORD = 4  # channels of a depthwise convolution that are computed at once
CHANNELS_IN_VECTOR = 8  # the same with Helium
# A window with shorter rows, and no more values, is copied to scratch as one row.
GATHER_MAX_ROW_VALUES = 16
GATHER_MAX_VALUES = 256
TABLE_KERNEL = "Table"
PRODUCT_KERNEL = "Product"  # a product of matrices in single precision
HALVES_SUFFIX = ".halves"
ZEROS_SUFFIX = ".zeros"
EPILOGUE_PREFIX = "behind "  # before the words of a function that is fused after a kernel
UNKNOWN_KERNEL = "other"  # the kernel that stands for kernels without counted instructions
Counts = dict[str, int]
Loops = Mapping[tuple[str, str], int]  # by kernel and loop
UNTABLED_FUNCTIONS = ("relu", "clip", "prelu")  # int8 functions computed without a lookup table


def loops(
    layer: Layer,
    inputs: Sequence[Shape],
    element_bytes: int,
    *,
    source: Layer | None = None,
    ring: int = 0,
    adds_up: bool = False,
) -> Loops:
    """Return how often each loop of the kernels of a layer runs in a frame.

    element_bytes: of the computed elements: 4 are real numbers, fewer are integers. source: the layer
    of the first input; None if unknown. ring: columns of the ring buffer of the input; 0 where rows
    are stored whole. adds_up: whether the input is accumulated row by row.
    """
    is_real, epilogue = element_bytes == REAL_BYTES, layer.epilogue
    has_halves = is_real and any(map(layer.reads_halves, layer.operator.half_roles))
    if adds_up:
        kernel, counts = _sums(layer, inputs[0], is_real=is_real)
    else:
        kernel, counts = _kernel(layer, inputs, ring, is_real=is_real)
    if is_real and layer.operator.can_be_fused:  # copied first
        kernel, epilogue = "Pointwise", (layer.operator, *epilogue)
    kernel = _kernel_name(kernel, layer, element_bytes, source)
    if has_halves:
        kernel, counts = kernel + HALVES_SUFFIX, _with_halves(counts, layer.shape.channels)
    counts["rows"] = layer.shape.rows if layer.shape.is_map else 0
    counts_of = {(kernel, name): number for name, number in counts.items()}
    if is_real:
        counts_of |= _epilogue_loops(layer.shape, epilogue)
        zeros = "many" if source is not None and _is_limited(source) else "few"
        if not layer.operator.has_integer_weights:
            counts_of[kernel, f"products, {zeros} of zero"] = multiply_accumulates(layer, inputs)
    return {loop: number for loop, number in counts_of.items() if number}


def _kernel(
    layer: Layer, inputs: Sequence[Shape], ring: int, *, is_real: bool
) -> tuple[str, Counts]:
    """The kernel of an operator, and its loops; by default elements read and written."""
    name = type(layer.operator).__name__
    match layer.operator:
        case op.Convolution() as operator:
            return _convolution(operator, inputs[0], layer.shape, ring, is_real=is_real)
        case op.AttentionProduct() | op.MatrixProduct() | op.StreamedProduct():
            return _product(layer, inputs, is_real=is_real)
        case op.FullyConnected() as operator:
            return _fully_connected(operator, inputs[0], is_real=is_real)
        case op.Pooling(function=function) as operator:
            return f"{name}.{function}", _pooled(operator, inputs[0], layer.shape)
        case op.QuantizedLstm() | op.QuantizedSvdf() | op.Recurrence() as operator:
            return _recurrence(operator, inputs[0])
        case op.GlobalPooling(function=function):  # emitted as a reduction over both axes
            name = f"Reduction.{'mean' if function == 'average' else function}"
        case op.Pad(mode=mode):
            places = layer.shape.height * layer.shape.width - inputs[0].height * inputs[0].width
            return f"{name}.{mode}", _moved(layer, inputs) | {"places outside": places}
        case op.HybridProduct(product=product_operator):
            name = f"{name}.{type(product_operator).__name__}"
            return name, _hybrid(product_operator, inputs[0], layer.shape)
        case op.Concatenation(axis=axis):
            counts = _moved(layer, inputs)
            return name, counts | {"pieces": counts["places"] * (len(inputs) if axis == 0 else 1)}
        case op.Softmax(is_logarithm=True):
            name = f"{name}.logarithm"
        case op.Elementwise(function=function):
            return f"{name}.{function}", _combined(layer.shape, inputs)
        case (
            op.Activation(function=function)
            | op.Reduction(function=function)
            | op.Resize(function=function)
        ):
            name = f"{name}.{function}"
    return name, _moved(layer, inputs)


def work(platform: Platform, layer: Layer, inputs: Sequence[Shape], element_bytes: int) -> Fraction:
    """Return the operations of a layer in a frame, or on a core the instructions of its kernel.

    A kernel that was not counted takes for an operation those of a product in a plain loop.
    """
    if platform.core is None:
        return Fraction(operations(layer, inputs))
    if not inputs:
        return Fraction(0)
    table = platform.core.table
    loops_of = known_loops(layer, inputs, loops(layer, inputs, element_bytes), table)
    return sum(
        (
            table.get(kernel, {}).get(loop, Fraction(0)) * number
            for (kernel, loop), number in loops_of.items()
        ),
        Fraction(0),
    )


def known_loops(
    layer: Layer, inputs: Sequence[Shape], kernel_loops: Loops, table: Mapping[str, object]
) -> Loops:
    """Return the loops of kernels in the table; for other kernels their operations and elements.

    Of an unknown function after a known kernel, only the elements count. Kernels of weights of two
    bytes, or with a zero point, count as the kernels of other weights, where these are known.
    """
    kernel_loops = _of_usual_weights(kernel_loops, table)
    unknown = {kernel for kernel, _ in kernel_loops} - table.keys()
    if not unknown:
        return kernel_loops
    loops_known = {loop: number for loop, number in kernel_loops.items() if loop[0] not in unknown}
    instead = {"operations": operations(layer, inputs), **_moved(layer, inputs)}
    if all(kernel.startswith(EPILOGUE_PREFIX) for kernel in unknown):
        elements = sum(kernel_loops.get((kernel, "elements"), 0) for kernel in unknown)
        instead = {"operations": elements, "read": elements}
    return loops_known | {(UNKNOWN_KERNEL, name): number for name, number in instead.items()}


def _of_usual_weights(counts: Loops, table: Mapping[str, object]) -> Loops:
    """The loops with kernels of usual weights, for kernels that a table has of these weights only."""
    renamed: Counter[tuple[str, str]] = Counter()
    for (kernel, loop), number in counts.items():
        usual = kernel.removesuffix(HALVES_SUFFIX).removesuffix(ZEROS_SUFFIX)
        renamed[kernel if kernel in table or usual not in table else usual, loop] += number
    return renamed


def uncounted(platform: Platform, network: Network, element_bytes: int | None) -> tuple[str, ...]:
    """Return the kernels of a network that compute, and whose instructions on a core are a guess."""
    if platform.core is None:
        return ()
    kernels: set[str] = set()
    for layer in network.layers:
        inputs = network.input_shapes(layer)
        if inputs and operations(layer, inputs):
            source = network.layer(layer.inputs[0])
            loops_of = loops(layer, inputs, element_bytes or layer.element_bytes, source=source)
            kernels |= {kernel for kernel, _ in loops_of}
    return tuple(sorted(kernels - platform.core.table.keys()))


def _kernel_name(kernel: str, layer: Layer, element_bytes: int, source: Layer | None) -> str:
    """The name of a kernel for the types of its elements, as in the tables of instructions.

    kernel [.short | .wide | .real | .from real | .to real] [.single] [.zeros] [.halves], or Table:

    - no suffix: int8 in fixed point, such as `Convolution`; .short: int16, `Activation.tanh.short`
    - .wide: integers of another size than their input, or of 32 bits, `Conversion.wide`
    - .real: real numbers, `Depthwise.real`; .from real, .to real: quantises, dequantises
    - .single: integers rescaled in single precision, `Softmax.single`
    - .zeros: weights with zero points, `Convolution.zeros`
    - .halves: real weights of two bytes, `FullyConnected.real.halves`
    """
    input_bytes, types = element_bytes, layer.quantization
    if layer.operator.converts and source is not None:
        input_bytes, types = source.element_bytes, types or source.quantization
    single = ".single" if types is not None and not types.is_fixed_point else ""
    if element_bytes == REAL_BYTES:
        has_integers = layer.quantization is not None  # 32 bits
        is_real = input_bytes == REAL_BYTES
        return kernel + (".wide" if has_integers else ".real" if is_real else f".to real{single}")
    if input_bytes == REAL_BYTES:
        return f"{kernel}.from real{single}"
    if {input_bytes, types.element.bytes if types else input_bytes} != {element_bytes}:
        return f"{kernel}.wide"
    return _integer_kernel(kernel, layer, single, is_short=element_bytes == Element.INT16.bytes)


def _integer_kernel(kernel: str, layer: Layer, single: str, *, is_short: bool) -> str:
    """The name of a kernel whose input and output are integers of one size."""
    operator = layer.operator
    if not is_short and _has_table(operator, is_single=bool(single)):
        return TABLE_KERNEL
    if kernel == PRODUCT_KERNEL and (not single or is_short):
        kernel = "Convolution"
    kernel += ".short" if is_short else ""
    if operator.moves and operator.joined_axis is None:
        return kernel
    types = [stored.quantization for stored in layer.stored]
    has_zeros = operator.weight_role is not None and any(kind and kind.zero_point for kind in types)
    return kernel + single + (ZEROS_SUFFIX if has_zeros else "")


def _has_table(operator: op.Operator, *, is_single: bool) -> bool:
    """Whether 8-bit integers pass through a lookup table."""
    if operator.converts:
        return is_single
    return isinstance(operator, op.Activation) and operator.function not in UNTABLED_FUNCTIONS


def _is_limited(layer: Layer) -> bool:
    """Whether the last function of a layer cuts numbers off at zero; products of zero are fast."""
    limits = (layer.operator, *layer.epilogue)[-1].limits
    return limits is not None and limits[0] == 0


def _epilogue_loops(shape: Shape, operators: Sequence[op.Operator]) -> dict[tuple[str, str], int]:
    """The loops of functions of real numbers that are fused after a kernel."""
    counts_of: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        kernel = f"{EPILOGUE_PREFIX}{operator.in_words()}"
        counts_of[kernel, "elements"] += shape.elements
        counts_of[kernel, "places"] += shape.height * shape.width if shape.is_map else 1
    return dict(counts_of)


def _combined(shape: Shape, inputs: Sequence[Shape]) -> Counts:
    """The loops over two tensors: along whole rows, or place by place where one repeats."""
    repeats = any(source.elements < shape.elements for source in inputs)
    places = shape.height * shape.width if shape.is_map else 1
    runs = places if repeats else shape.rows if shape.is_map else 1
    fours, rest = divmod(shape.elements // runs, CHANNELS_IN_WORD)
    return {
        "read": sum(source.elements for source in inputs),
        "written": shape.elements,
        "places": places,
        "places apart": repeats * places,
        "fours": runs * fours,
        "beside fours": runs * rest,
    }


def _moved(layer: Layer, inputs: Sequence[Shape]) -> Counts:
    """The elements that a kernel reads and writes, and its output pixels."""
    shape = layer.shape
    return {
        "read": sum(source.elements for source in inputs),
        "written": shape.elements,
        "places": shape.height * shape.width if shape.is_map else 1,
    }


def _taps(axis: Axis, length: int, outputs: int, ring: int = 0) -> Counter[tuple[int, bool]]:
    """Number of windows by their taps on the tensor, and by whether they wrap around its ring.

    The first and last tap inside are constant between breakpoints, one for each tap at each border;
    between two breakpoints windows that wrap are counted as a sum of floors. O(min(kernel, outputs)).
    """
    limit = length + min(axis.after, 0)
    breakpoints = {0, outputs} if axis.kernel < outputs else set(range(outputs + 1))
    for tap in range(axis.kernel if axis.kernel < outputs else 0):
        for border in (0, limit):
            # The first window whose tap is at this border or beyond it.
            place = -((tap * axis.dilation - axis.before - border) // axis.stride)
            breakpoints.add(min(max(place, 0), outputs))
    counts: Counter[tuple[int, bool]] = Counter()
    for first, upto in pairwise(sorted(breakpoints)):
        begin = first * axis.stride - axis.before
        skipped = max(0, -(begin // axis.dilation))
        inside = min(axis.kernel, -((begin - limit) // axis.dilation)) - skipped
        windows, wrapping = upto - first, 0
        if inside > 0 and ring:
            start, reach = begin + skipped * axis.dilation, (inside - 1) * axis.dilation
            ends, starts = (
                _sum_of_floors(windows, ring, axis.stride, offset)
                for offset in (start + reach, start)
            )
            # Windows shorter than the ring pass at most one of its ends.
            wrapping = windows if reach >= ring else ends - starts
        counts[max(0, inside), True] += wrapping
        counts[max(0, inside), False] += windows - wrapping
    return +counts


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


class _Windows(NamedTuple):
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


def _windows(window: Window, source: Shape, shape: Shape, ring: int) -> list[_Windows]:
    """The windows over a tensor, grouped by their taps inside."""
    down_taps = _taps(window.rows, source.height, shape.height)
    across_taps = _taps(window.columns, source.width, shape.width, ring)
    return [
        _Windows(down_taps[down, False] * across_taps[across, wraps], down, across, wraps)
        for (down, _), (across, wraps) in product(down_taps, across_taps)
    ]


def _convolution(
    operator: op.Convolution, source: Shape, shape: Shape, ring: int, *, is_real: bool
) -> tuple[str, Counts]:
    """The kernel of a convolution, and its loops over all windows."""
    window, groups = operator.window, operator.groups
    inputs = source.channels // groups
    counts_of: Counter[str] = Counter()
    is_depthwise = groups > 1 and groups == source.channels == operator.filters
    for windows in _windows(window, source, shape, ring):
        if is_depthwise:
            counts_of.update(_depthwise_loops(windows, groups))
        elif is_real:
            values = windows.across * inputs // (1 + windows.wraps)
            filters = operator.filters // groups
            counts_of.update(_real_filters(windows.pixels * groups, windows.runs, values, filters))
        elif _is_gathered(operator, source):
            counts_of.update(_gathered_loops(windows, operator, inputs))
        else:
            counts_of.update(_direct_loops(windows, operator, inputs))
    if is_depthwise:
        return "Depthwise", dict(counts_of)
    if operator.block is not None and not is_real:  # a product of matrices in the file
        counts_of["inner"] = shape.height * shape.width * prod(window.kernel) * inputs
        return PRODUCT_KERNEL, dict(counts_of)
    return "Convolution" if groups == 1 else "GroupedConvolution", dict(counts_of)


def _is_gathered(operator: op.Convolution, source: Shape) -> bool:
    """Whether windows are copied to scratch before they meet blocks of filters."""
    kernel_rows, kernel_columns = operator.window.kernel
    row_values = kernel_columns * source.channels
    return (
        operator.groups == 1
        and kernel_rows > 1
        and row_values < GATHER_MAX_ROW_VALUES
        and kernel_rows * row_values <= GATHER_MAX_VALUES
    )


def _gathered_loops(windows: _Windows, operator: op.Convolution, inputs: int) -> Counter[str]:
    """The loops over windows that are copied to scratch; filters left over read the tensor."""
    pixels, down, across = windows.pixels, windows.down, windows.across
    taps = prod(operator.window.kernel)
    blocked = operator.filters // FILTER_BLOCK * FILTER_BLOCK
    counts_of = Counter(_filters(pixels, 1, taps * inputs, blocked))
    if operator.filters > blocked:
        counts_of.update(_filters(pixels, down, across * inputs, operator.filters - blocked))
        counts_of["places"] -= pixels  # both calls count these pixels
    counts_of["gathered rows"] = pixels * windows.runs
    counts_of["gathered"] = pixels * down * across * inputs
    counts_of["gathers"] = pixels
    counts_of["gathered bare"] = pixels * taps * inputs * (down * across < taps)
    return counts_of


def _direct_loops(windows: _Windows, operator: op.Convolution, inputs: int) -> Counter[str]:
    """The loops over windows of integers that are read where the tensor is stored."""
    pixels, down, across, wraps = windows
    values, filters = across * inputs // (1 + wraps), operator.filters // operator.groups
    counts_of = Counter(_filters(pixels * operator.groups, windows.runs, values, filters))
    counts_of["bends"] = pixels * operator.groups * wraps
    # The stored sums of weights times the zero point hold for whole windows in one run only.
    if wraps or down * across < prod(operator.window.kernel):
        runs = windows.runs if wraps or across < operator.window.kernel[1] else 1
        blocks = pixels * (operator.filters // FILTER_BLOCK)
        counts_of.update(_bare(blocks, runs, -(-down * across * inputs // max(runs, 1))))
        counts_of["cut rows"] = blocks * windows.runs
        counts_of["cut vectors"] = blocks * windows.runs * -(-values // VALUES_IN_VECTOR)
    return counts_of


def _hybrid(product_operator: op.Operator, source: Shape, shape: Shape) -> Counts:
    """The loops of products of real numbers that become integers: range, conversion, sums."""
    counts_of = {"read": source.elements, "outputs": shape.elements}
    filters = product_operator.filter_bank
    if filters is None:
        products = product_operator.multiply_accumulates((source,), shape)
        return counts_of | {"converted": source.elements, "integer products": products}
    window, inputs = filters.window, source.channels // filters.groups
    down_taps = _taps(window.rows, source.height, shape.height)
    across_taps = _taps(window.columns, source.width, shape.width)
    down, across = (
        sum(taps * number for (taps, _), number in counts.items())
        for counts in (down_taps, across_taps)
    )
    return counts_of | {
        "places": shape.height * shape.width,
        "converted": down * across * source.channels,
        "converted runs": down * across * filters.groups,
        "sums": down * shape.width * shape.channels,
        "integer products": down * across * inputs * shape.channels,
    }


def _fully_connected(
    operator: op.FullyConnected, source: Shape, *, is_real: bool
) -> tuple[str, Counts]:
    if is_real:
        count = source.row_elements
        return "FullyConnected", _real_filters(1, source.height, count, operator.units)
    counts = _filters(1, 1, source.elements, operator.units)  # all rows are one run of values
    counts["matrices"] = counts.pop("places")
    return "Convolution", counts  # which has the same loops of filters


def _filters(places: int, rows: int, count: int, filters: int) -> Counts:
    """The loops that multiply filters with rows of `count` values each, at this many pixels."""
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


def _real_filters(places: int, rows: int, count: int, filters: int) -> Counts:
    """The same for real numbers: filters in blocks of sixteen, then of eight, then singly."""
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


def _with_halves(counts: Counts, channels: int) -> Counts:
    """The loops over real weights of two bytes: eight filters at once, channels singly."""
    large, small = REAL_FILTER_BLOCKS
    loops_of = dict(counts)
    if f"values of {large}" in counts:
        for kind in ("values", "rows"):
            loops_of[f"{kind} of {small}"] += 2 * loops_of.pop(f"{kind} of {large}")
    elif f"taps of {CHANNELS_IN_VECTOR}" in counts:
        loops_of = {"places": counts["places"], "products": counts["products"]}
        loops_of["taps"] = counts["products"] // channels * -(-channels // CHANNELS_IN_VECTOR)
    return loops_of


def _bare(blocks: int, runs: int, count: int) -> Counts:
    """The loops that sum weights for the zero point of the input, in runs of this many weights."""
    return {
        "bare blocks": blocks,
        "bare runs": blocks * runs,
        "bare vectors": blocks * runs * -(-count // VALUES_IN_VECTOR),
    }


def _depthwise_loops(windows: _Windows, channels: int) -> Counts:
    """The loops of a depthwise convolution, in blocks of four, and of eight or sixteen, channels.

    Channels left over by the blocks are computed singly.
    """
    places, taps = windows.pixels, windows.pixels * windows.down * windows.across
    loops_of = {"places": places, "outputs": places * channels, "bends": places * windows.wraps}
    loops_of["products"] = taps * channels
    vector_pairs, rest = divmod(channels, 2 * CHANNELS_IN_VECTOR)
    blocks = {
        CHANNELS_IN_WORD: channels // CHANNELS_IN_WORD,
        CHANNELS_IN_VECTOR: rest // CHANNELS_IN_VECTOR,
        2 * CHANNELS_IN_VECTOR: vector_pairs,
    }
    for block_channels, number in blocks.items():
        loops_of |= {
            f"lanes of {block_channels}": places * number,
            f"rows of {block_channels}": places * number * windows.runs,
            f"taps of {block_channels}": taps * number,
        }
    for block_channels in (CHANNELS_IN_WORD, CHANNELS_IN_VECTOR):
        rest = channels % block_channels
        has_rest = -(-rest // CHANNELS_IN_VECTOR)  # 0 or 1, as the rest is shorter than a vector
        loops_of |= {
            f"places beside {block_channels}": places * has_rest,
            f"taps beside {block_channels}": taps * has_rest,
            f"products beside {block_channels}": taps * rest,
            f"outputs beside {block_channels}": places * rest,
        }
    return loops_of


def _pooled(operator: op.Pooling, source: Shape, shape: Shape) -> Counts:
    window = operator.window
    down = _taps(window.rows, source.height, shape.height)
    across = _taps(window.columns, source.width, shape.width)
    taps = prod(
        sum(n * number for (n, _), number in axis_counts.items()) for axis_counts in (down, across)
    )
    return {
        "places": shape.height * shape.width,
        "outputs": shape.elements,
        "taps": taps,
        "products": taps * shape.channels,
    }


def _sums(layer: Layer, source: Shape, *, is_real: bool) -> tuple[str, Counts]:
    """The loops of a layer that accumulates its input row by row."""
    rows, count = source.height, source.row_elements
    units = layer.operator.dense_units
    if units is None:
        counts = {"read": source.elements, "outputs": layer.shape.elements}
        return "sums of maps", counts | {"sums": rows * source.channels, "input rows": rows}
    counts_of = (_real_filters if is_real else _filters)(rows, 1, count, units)
    return "sums of products", counts_of | {"sums": rows * units, "units": units}


def _recurrence(
    operator: op.QuantizedLstm | op.QuantizedSvdf | op.Recurrence, source: Shape
) -> tuple[str, Counts]:
    match operator:
        case op.QuantizedSvdf():
            return _svdf(operator, source)
        case op.QuantizedLstm():
            return _lstm(operator, source)
    steps = source.dims[0] * source.dims[1] * operator.directions
    return f"Recurrence.{operator.kind}", {
        "frames": steps,
        "units": steps * operator.units,
        "products": operator.multiply_accumulates((source,), source),
    }


def _svdf(operator: op.QuantizedSvdf, source: Shape) -> tuple[str, Counts]:
    filters = operator.units * operator.rank
    kept = filters * (operator.places - 1) * operator.keeps
    wide = operator.state.element is Element.INT16
    counts_of = _filters(1, 1, source.elements, filters) | {"filters": filters}
    counts_of |= {"wide places" if wide else "places in time": kept, "units": operator.units}
    return "Svdf", counts_of | {"filters kept": filters * operator.keeps}


def _lstm(operator: op.QuantizedLstm, source: Shape) -> tuple[str, Counts]:
    frames, elements = operator.sequence(source)
    recurrent = frames - (operator.keeps is None)  # the first frame has no state to multiply
    counts_of = Counter(_filters(4 * frames, 1, elements, operator.units))
    counts_of.update(_filters(4 * recurrent, 1, operator.units, operator.units))
    return "Lstm", dict(counts_of) | {"frames": frames, "units": frames * operator.units}


def _product(layer: Layer, inputs: Sequence[Shape], *, is_real: bool) -> tuple[str, Counts]:
    products, shape = multiply_accumulates(layer, inputs), layer.shape
    kernel, counts_of = (
        type(layer.operator).__name__,
        {"outputs": shape.elements, "products": products},
    )
    match layer.operator:
        case op.AttentionProduct(gives=gives):
            kernel = f"{kernel}.{gives}"
            inner, places = products // shape.elements, shape.height * shape.width
            blocks = places * -(-shape.channels // CHANNELS_IN_VECTOR)
            counts_of |= {"inner": places * inner, "blocks": blocks, "block rows": blocks * inner}
        case op.StreamedProduct(units=units, places=places):
            sums = units * places
            counts_of |= {"sums": sums, "products": sums * inputs[0].elements}
        case op.MatrixProduct(units=int(units)):
            kernel = f"{kernel}.trained"
            if is_real:  # the kernel is a plain loop
                return kernel, counts_of
            counts_of = _filters(shape.elements // units, 1, products // shape.elements, units)
    return kernel, counts_of | {"places": shape.height * shape.width if shape.is_map else 1}
