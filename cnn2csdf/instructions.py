"""Work of kernels of emitted C: how often each loop of a layer's kernel runs in a frame.

A kernel's instructions are a sum of these counts, each times the instructions of one turn, which
`cnn2csdf.platforms.INSTRUCTIONS` has for each core. They depend on this: taps beside the tensor
do no work, filters go in blocks, values in words and vectors, and each result is rescaled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.geometry import Axis
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates, operations
from cnn2csdf.platforms import Platform
from cnn2csdf.shape import Shape

REAL_BYTES = 4
BLOCK, REAL_BLOCKS = 4, (16, 8)  # filters that are summed at once, of integers and of real numbers
WORD, VECTOR = 4, 16  # values that meet weights at once: with SMLAD, with Helium
WORDS, LANES = 4, 8  # channels of a depthwise convolution at once: in words, in vectors of Helium
FEW, MOST_GATHERED = 16, 256  # values in a row of a window, and in a window, that is gathered first
TABLE = "Table"
HALVES, ZEROS = ".halves", ".zeros"  # after the names of kernels: weights of two bytes, zero points
PRODUCT = "Product"  # rounded as sums in single precision; a plain convolution in fixed point
BEHIND = "behind "  # before the words of a function that follows a kernel
GUESSED = "other"  # the kernel that stands for those that were not counted
Counts = dict[str, int]
Loops = Mapping[tuple[str, str], int]  # by kernel and loop
LIMITS = ("relu", "clip", "prelu")  # functions of integers of 8 bits that do not go by a table


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

    element_bytes: of what is computed: 4 are real numbers, less are integers. source: the layer of the
    first input, if it is known. ring: columns of the circular buffer that the input lies in; 0 where
    its rows are whole. adds_up: whether the input is added up row by row.
    """
    is_real, behind = element_bytes == REAL_BYTES, layer.epilogue
    has_halves = is_real and any(map(layer.reads_halves, layer.operator.half_roles))
    if adds_up:
        kernel, counts = _sums(layer, inputs[0], is_real=is_real)
    else:
        kernel, counts = _kernel(layer, inputs, ring, is_real=is_real)
    if is_real and layer.operator.can_be_fused:  # copied first
        kernel, behind = "Pointwise", (layer.operator, *behind)
    kernel = _of_types(kernel, layer, element_bytes, source)
    if has_halves:
        kernel, counts = kernel + HALVES, _with_halves(counts, layer.shape.channels)
    counts["rows"] = layer.shape.rows if layer.shape.is_map else 0
    counts_of = {(kernel, name): number for name, number in counts.items()}
    if is_real:
        counts_of |= _behind(layer.shape, behind)
        zeros = "many" if source is not None and _is_limited(source) else "few"
        if not layer.operator.has_integer_weights:
            counts_of[kernel, f"products, {zeros} of zero"] = multiply_accumulates(layer, inputs)
    return {loop: number for loop, number in counts_of.items() if number}


def _kernel(
    layer: Layer, inputs: Sequence[Shape], ring: int, *, is_real: bool
) -> tuple[str, Counts]:
    """The kernel of an operator, and its loops; those of elements where nothing else is known."""
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
        case op.GlobalPooling(function=function):  # which is written as one over axes
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
    layer: Layer, inputs: Sequence[Shape], found: Loops, table: Mapping[str, object]
) -> Loops:
    """Return the loops; operations and elements instead of kernels that a table does not have.

    Of an unknown function behind a known kernel, only the elements count. Kernels of weights of two
    bytes, or with a zero point, count as the kernels of other weights, where these are known.
    """
    found = _of_usual_weights(found, table)
    unknown = {kernel for kernel, _ in found} - table.keys()
    if not unknown:
        return found
    loops_known = {loop: number for loop, number in found.items() if loop[0] not in unknown}
    instead = {"operations": operations(layer, inputs), **_moved(layer, inputs)}
    if all(kernel.startswith(BEHIND) for kernel in unknown):
        elements = sum(found.get((kernel, "elements"), 0) for kernel in unknown)
        instead = {"operations": elements, "read": elements}
    return loops_known | {(GUESSED, name): number for name, number in instead.items()}


def _of_usual_weights(counts: Loops, table: Mapping[str, object]) -> Loops:
    """The loops with kernels of usual weights, for kernels that a table has of these weights only."""
    renamed: Counter[tuple[str, str]] = Counter()
    for (kernel, loop), number in counts.items():
        usual = kernel.removesuffix(HALVES).removesuffix(ZEROS)
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


def _of_types(kernel: str, layer: Layer, element_bytes: int, source: Layer | None) -> str:
    """The kernel of a layer for the elements that it reads and makes."""
    operator, types, bytes_each = layer.operator, layer.quantization, element_bytes
    if operator.converts and source is not None:
        bytes_each, types = source.element_bytes, types or source.quantization
    single = ".single" if types is not None and not types.is_fixed_point else ""
    if element_bytes == REAL_BYTES:
        has_types = layer.quantization is not None  # 32 bits
        is_real = bytes_each == REAL_BYTES
        return kernel + (".wide" if has_types else ".real" if is_real else f".to real{single}")
    if bytes_each == REAL_BYTES:
        return f"{kernel}.from real{single}"
    if bytes_each != element_bytes or (types is not None and types.element.bytes != element_bytes):
        return f"{kernel}.wide"
    if kernel == PRODUCT and (not single or element_bytes == Element.INT16.bytes):
        kernel = "Convolution"
    if element_bytes == Element.INT16.bytes:
        kernel += ".short"
    elif operator.converts:
        kernel = TABLE if single else kernel
    elif isinstance(operator, op.Activation) and operator.function not in LIMITS:
        kernel = TABLE
    if kernel == TABLE or (operator.moves and operator.joined_axis is None):
        return kernel
    kinds = [stored.quantization for stored in layer.stored]
    has_zeros = operator.weight_role is not None and any(kind and kind.zero_point for kind in kinds)
    return kernel + single + (ZEROS if has_zeros else "")


def _is_limited(layer: Layer) -> bool:
    """Whether the last function of a layer cuts numbers off at zero; products of zero are fast."""
    limits = (layer.operator, *layer.epilogue)[-1].limits
    return limits is not None and limits[0] == 0


def _behind(shape: Shape, operators: Sequence[op.Operator]) -> dict[tuple[str, str], int]:
    """The loops of functions of real numbers that follow what a kernel makes."""
    counts_of: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        kernel = f"{BEHIND}{operator.in_words()}"
        counts_of[kernel, "elements"] += shape.elements
        counts_of[kernel, "places"] += shape.height * shape.width if shape.is_map else 1
    return dict(counts_of)


def _combined(shape: Shape, inputs: Sequence[Shape]) -> Counts:
    """The loops over two tensors: along whole rows, or place by place where one repeats."""
    repeats = any(source.elements < shape.elements for source in inputs)
    places = shape.height * shape.width if shape.is_map else 1
    runs = places if repeats else shape.rows if shape.is_map else 1
    fours, rest = divmod(shape.elements // runs, WORDS)
    return {
        "read": sum(source.elements for source in inputs),
        "written": shape.elements,
        "places": places,
        "places apart": repeats * places,
        "fours": runs * fours,
        "beside fours": runs * rest,
    }


def _moved(layer: Layer, inputs: Sequence[Shape]) -> Counts:
    """Elements that any other kernel reads and writes, and its places."""
    shape = layer.shape
    return {
        "read": sum(source.elements for source in inputs),
        "written": shape.elements,
        "places": shape.height * shape.width if shape.is_map else 1,
    }


def _taps(axis: Axis, length: int, outputs: int, ring: int = 0) -> Counter[tuple[int, bool]]:
    """Number of windows by their taps on the tensor, and by whether they bend around its ring.

    The first and last tap inside are constant between breakpoints, one for each tap at each border;
    between two of them windows that bend are counted as a sum of floors. O(min(kernel, outputs)).
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
        windows, bending = upto - first, 0
        if inside > 0 and ring:
            start, reach = begin + skipped * axis.dilation, (inside - 1) * axis.dilation
            ends, starts = (
                _sum_of_floors(windows, ring, axis.stride, offset)
                for offset in (start + reach, start)
            )
            # Windows shorter than the ring pass at most one of its ends.
            bending = windows if reach >= ring else ends - starts
        counts[max(0, inside), True] += bending
        counts[max(0, inside), False] += windows - bending
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


def _convolution(
    operator: op.Convolution, source: Shape, shape: Shape, ring: int, *, is_real: bool
) -> tuple[str, Counts]:
    window, groups = operator.window, operator.groups
    down_taps = _taps(window.rows, source.height, shape.height)
    across_taps = _taps(window.columns, source.width, shape.width, ring)
    taps, width = prod(window.kernel), window.kernel[1] * source.channels
    inputs, filters = source.channels // groups, operator.filters // groups
    is_depthwise = groups > 1 and groups == source.channels == operator.filters
    gathers = groups == 1 and window.kernel[0] > 1 and width < FEW
    gathers = gathers and taps * inputs <= MOST_GATHERED
    counts_of: Counter[str] = Counter()
    for (down, _), (across, bends) in product(down_taps, across_taps):
        number = down_taps[down, False] * across_taps[across, bends]
        rows, values = down * (1 + bends), across * inputs // (1 + bends)
        if is_depthwise:
            counts_of.update(_lanes(number, down, across, groups, bends=bends))
        elif is_real:
            counts_of.update(_real_filters(number * groups, rows, values, filters))
        elif gathers:
            blocks = filters // BLOCK * BLOCK
            counts_of.update(_filters(number, 1, taps * inputs, blocks))
            if filters > blocks:
                counts_of.update(_filters(number, down, across * inputs, filters - blocks))
                counts_of["places"] -= number
            counts_of["gathered rows"] += number * rows
            counts_of["gathered"] += number * down * across * inputs
            counts_of["gathers"] += number
            counts_of["gathered bare"] += number * taps * inputs * (down * across < taps)
        else:
            counts_of.update(_filters(number * groups, rows, values, filters))
            counts_of["bends"] += number * groups * bends
            if bends or down * across < taps:  # sums do not begin with the zero point's part
                runs = down * (1 + bends) if bends or across < window.kernel[1] else 1
                blocks = number * (operator.filters // BLOCK)
                counts_of.update(_bare(blocks, runs, -(-down * across * inputs // max(runs, 1))))
                counts_of["cut rows"] += blocks * rows
                counts_of["cut vectors"] += blocks * rows * -(-values // VECTOR)
    if is_depthwise:
        return "Depthwise", dict(counts_of)
    if operator.block is not None and not is_real:  # a product of matrices in the file
        counts_of["inner"] = shape.height * shape.width * taps * inputs
        return PRODUCT, dict(counts_of)
    return "Convolution" if groups == 1 else "GroupedConvolution", dict(counts_of)


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
    rows, count, units = source.height, source.row_elements, operator.units
    if is_real:
        return "FullyConnected", _real_filters(1, rows, count, units)
    counts = _filters(1, rows, count, units)
    if rows > 1:
        return "FullyConnected", counts | _bare(units // BLOCK, rows, count)
    counts["matrices"] = counts.pop("places")
    return "Convolution", counts  # which has the same loops of filters


def _filters(places: int, rows: int, count: int, filters: int) -> Counts:
    """The loops in which filters meet rows of this many values, at this many places."""
    blocks, single = places * (filters // BLOCK), places * (filters % BLOCK)
    return {
        "places": places,
        "outputs": places * filters,
        "filter rows": places * filters * rows,
        "products": places * filters * rows * count,
        "blocks": blocks,
        "block rows": blocks * rows,
        "words": blocks * rows * (count // WORD),
        "tails": blocks * rows * (count % WORD),
        "vectors": blocks * rows * -(-count // VECTOR),
        "singles": places * (single > 0),
        "single filters": single,
        "single rows": single * rows,
        "single products": single * rows * count,
    }


def _real_filters(places: int, rows: int, count: int, filters: int) -> Counts:
    """The same of real numbers: sixteen filters at once, then eight, then each."""
    most, few = REAL_BLOCKS
    rest = filters % few
    blocks = {most: filters // most, few: filters % most // few}
    values = places * rows * count
    loops_of = {f"values of {size}": values * number for size, number in blocks.items()}
    loops_of |= {f"rows of {size}": places * rows * number for size, number in blocks.items()}
    return loops_of | {
        "places": places,
        "outputs": places * filters,
        "blocks": places * -(-filters // most),
        "block rows": places * rows * -(-filters // most),
        "values of rest": values * (rest > 0),
        "products of rest": values * rest,
    }


def _with_halves(counts: Counts, channels: int) -> Counts:
    """The loops over real weights of two bytes: eight filters at once, channels singly."""
    most, few = REAL_BLOCKS
    loops_of = dict(counts)
    if f"values of {most}" in counts:
        for kind in ("values", "rows"):
            loops_of[f"{kind} of {few}"] += 2 * loops_of.pop(f"{kind} of {most}")
    elif f"taps of {LANES}" in counts:
        loops_of = {"places": counts["places"], "products": counts["products"]}
        loops_of["taps"] = counts["products"] // channels * -(-channels // LANES)
    return loops_of


def _bare(blocks: int, runs: int, count: int) -> Counts:
    """The loops that take the zero point from what weights add, in runs of this many weights."""
    return {
        "bare blocks": blocks,
        "bare runs": blocks * runs,
        "bare vectors": blocks * runs * -(-count // VECTOR),
    }


def _lanes(places: int, down: int, across: int, channels: int, *, bends: bool) -> Counts:
    """The loops of a depthwise convolution, with four channels at once, and with eight or sixteen.

    Rows that bend around a ring go in two runs; channels that are left go singly.
    """
    loops_of = {"places": places, "outputs": places * channels, "bends": places * bends}
    loops_of["products"] = places * down * across * channels
    pairs, rest = divmod(channels, 2 * LANES)
    blocks = {WORDS: channels // WORDS, LANES: rest // LANES, 2 * LANES: pairs}
    for lanes, number in blocks.items():
        loops_of |= {
            f"lanes of {lanes}": places * number,
            f"rows of {lanes}": places * number * down * (1 + bends),
            f"taps of {lanes}": places * number * down * across,
        }
    for lanes in (WORDS, LANES):
        rest = channels % lanes
        slow = places * -(-rest // LANES)
        loops_of |= {
            f"places beside {lanes}": slow,
            f"taps beside {lanes}": slow * down * across,
            f"products beside {lanes}": places * down * across * rest,
            f"outputs beside {lanes}": places * rest,
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
    """The loops of a layer that adds up its input row by row."""
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
    again = frames - (operator.keeps is None)  # the first frame meets nothing kept
    counts_of = Counter(_filters(4 * frames, 1, elements, operator.units))
    counts_of.update(_filters(4 * again, 1, operator.units, operator.units))
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
            inner, meetings = products // shape.elements, shape.height * shape.width
            blocks = meetings * -(-shape.channels // LANES)
            counts_of |= {"inner": meetings * inner, "blocks": blocks, "block rows": blocks * inner}
        case op.StreamedProduct(units=units, places=places):
            sums = units * places
            counts_of |= {"sums": sums, "products": sums * inputs[0].elements}
        case op.MatrixProduct(units=int(units)):
            kernel = f"{kernel}.trained"
            if is_real:  # by a plain loop
                return kernel, counts_of
            counts_of = _filters(shape.elements // units, 1, products // shape.elements, units)
    return kernel, counts_of | {"places": shape.height * shape.width if shape.is_map else 1}
