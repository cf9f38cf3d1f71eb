"""Iterations of the loops in the C kernels of a layer, from which its instructions are predicted.

The instructions of a kernel are the sum over its loops of iterations times instructions of an
iteration; `cnn2csdf.platforms.INSTRUCTIONS` has the latter for each core. A key of these tables is the
name of a kernel (`_kernel_name` states its grammar) and the name of a loop.

All loops are counted over one inference. Windows are counted by their taps inside the tensor, because
kernels skip taps in the padding. Kernels compute output channels (filters) in blocks, and filters left
over by the blocks singly.

| loop                      | one iteration                                                     |
|---------------------------|-------------------------------------------------------------------|
| rows                      | a call, which computes an output row                              |
| places                    | an output pixel                                                   |
| outputs, written          | an output element                                                 |
| read                      | an input element                                                  |
| read in each call         | an input element that each call reads, to find the range          |
| taps                      | a tap of a window                                                 |
| products                  | a multiply-accumulate                                             |
| products, few of zero     | a multiply-accumulate of real numbers                             |
| products, many of zero    | the same, of an input that the layer before cuts off at zero      |
| fours, after fours        | 4 elements of an elementwise row; an element left over            |
| places apart              | a pixel in a call of its own, where operands are broadcast        |
| **integer filters**       |                                                                   |
| filter rows               | a row of a window, for each filter                                |
| blocks                    | a block of 4 filters, at an output pixel                          |
| block rows                | a row of a window, for each block                                 |
| words, tails              | 4 values of a block row (SMLAD); a value left over                |
| vectors                   | 16 values of a block row (lanes of a Helium register)             |
| singles                   | a pixel with filters left over                                    |
| single filters            | a filter left over                                                |
| single rows               | a row of a window, for each filter left over                      |
| single products           | a multiply-accumulate of filters left over                        |
| wrapping windows          | a window that wraps around a ring buffer                          |
| gathers                   | a window that is copied to scratch first                          |
| gathered rows, gathered   | a row, a value of such a window                                   |
| gathered at border        | a value of such a window over the padding                         |
| weight sum blocks         | a block of filters for a partial window                           |
| weight sum runs           | a run of contiguous weights in these blocks                       |
| weight sum vectors        | 16 weights of such a run                                          |
| partial rows              | a row of a partial window, for each block                         |
| partial vectors           | 16 values of such a row                                           |
| **floating-point filters**|                                                                   |
| blocks, block rows        | as above, in blocks of 16 filters                                 |
| rows of N, values of N    | a row of a window for a block of N filters; a value of the row    |
| values of rest            | a value for all filters left over                                 |
| products of rest          | a multiply-accumulate of filters left over                        |
| **depthwise channels**    |                                                                   |
| blocks of N               | a block of N channels of a window                                 |
| rows of N, taps of N      | a row, a tap of a window for such a block                         |
| places, taps, ... after N | the same for the channels left over by blocks of N                |

Methods `kernel_loops` of operators have further loops of single kernels, such as the pieces that a
concatenation copies. A window is partial if it overlaps the padding, or wraps and so is read in two
runs. The stored sum of weights times the zero point of the input holds for whole windows only, so
kernels sum up the weights of a partial window again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators.kernel_loops import (
    CHANNELS_IN_VECTOR,
    PRODUCT_KERNEL,
    REAL_FILTER_BLOCKS,
    filter_loops,
    real_filter_loops,
)
from cnn2csdf.operators.operator import Counts, KernelLoops, KernelUse, moved_elements
from cnn2csdf.parameters import multiply_accumulates, operations
from cnn2csdf.platforms import Platform
from cnn2csdf.shape import Shape

REAL_BYTES = 4
TABLE_KERNEL = "Table"
HALVES_SUFFIX = ".halves"
ZEROS_SUFFIX = ".zeros"
EPILOGUE_PREFIX = "fused "  # before the name of a function that is fused after a kernel
UNKNOWN_KERNEL = "other"  # the kernel that stands for kernels without counted instructions
Loops = Mapping[tuple[str, str], int]  # iterations, by kernel and loop


def loops(
    network: Network, layer: Layer, element_bytes: int, *, ring: int = 0, adds_up: bool = False
) -> Loops:
    """Return how often each loop of the kernels of a layer runs in a frame.

    element_bytes: of the computed elements: REAL_BYTES count as real numbers, fewer as integers. So
    kernels of 32-bit integers count as those of real numbers, under another name. ring: columns of the
    ring buffer of the input; 0 where rows are stored whole. adds_up: whether the input is accumulated
    row by row.

    A 1x1 convolution of int8 from 8 to 16 channels, on 4 pixels, has for example 512 "products", 16
    "blocks" of 4 filters and 32 "words" of 4 values, all of the kernel "Convolution".
    """
    is_real, epilogue = element_bytes == REAL_BYTES, layer.epilogue
    inputs = network.input_shapes(layer)
    source = network.layer(layer.inputs[0]) if layer.inputs else None
    if adds_up:
        family, counts = _accumulation_loops(layer, inputs[0], is_real=is_real)
    else:
        use = KernelUse(inputs, layer.shape, is_real, ring)
        family, counts = layer.operator.kernel_loops(use)
    if is_real and layer.operator.can_be_fused:
        # The kernel copies the input, and the function is a step on the copy.
        family, epilogue = "Pointwise", (layer.operator, *epilogue)
    kernel = _kernel_name(family, layer, element_bytes, source)
    if is_real and any(map(layer.reads_halves, layer.operator.half_roles)):
        kernel, counts = kernel + HALVES_SUFFIX, _with_halves(counts, layer.shape.channels)
    counts["rows"] = layer.shape.rows if layer.shape.is_map else 0
    if is_real and not layer.operator.has_integer_weights:
        # Multiplication by zero is fast where software computes real numbers.
        last = source and (source.operator, *source.epilogue)[-1]
        zeros = "many" if last and last.limits and last.limits[0] == 0 else "few"
        counts[f"products, {zeros} of zero"] = multiply_accumulates(layer, inputs)
    counts_of = {(kernel, name): number for name, number in counts.items()}
    if is_real:
        counts_of |= _epilogue_loops(layer.shape, epilogue)
    return {loop: number for loop, number in counts_of.items() if number}


def work(platform: Platform, network: Network, layer: Layer, element_bytes: int) -> Fraction:
    """Return the operations of a layer in a frame, or on a core the instructions of its kernel.

    A kernel that was not counted takes for an operation those of a product in a plain loop.
    """
    if platform.core is None:
        return Fraction(operations(layer, network.input_shapes(layer)))
    if layer.is_input:
        return Fraction(0)
    table = platform.core.table
    loops_of = tabulated_loops(network, layer, loops(network, layer, element_bytes), table)
    instructions = Fraction(0)
    for (kernel, loop), number in loops_of.items():
        instructions += table.get(kernel, {}).get(loop, 0) * number
    return instructions


def tabulated_loops(
    network: Network, layer: Layer, kernel_loops: Loops, table: Mapping[str, object]
) -> Loops:
    """Return the loops of a layer by kernels of a table of instructions.

    A kernel of weights of two bytes, or with a zero point, that the table lacks counts as the kernel of
    other weights. All further kernels that the table lacks count together, as loops of UNKNOWN_KERNEL:
    the elements, if these kernels are functions after a known kernel; else the operations and elements
    of the layer.
    """
    loops_of: Counter[tuple[str, str]] = Counter()
    for (kernel, loop), number in kernel_loops.items():
        usual = kernel.removesuffix(HALVES_SUFFIX).removesuffix(ZEROS_SUFFIX)
        is_replaced = kernel not in table and usual in table
        loops_of[usual if is_replaced else kernel, loop] += number
    unknown = {kernel for kernel, _ in loops_of} - table.keys()
    if not unknown:
        return loops_of
    known_loops = {loop: number for loop, number in loops_of.items() if loop[0] not in unknown}
    if all(kernel.startswith(EPILOGUE_PREFIX) for kernel in unknown):
        elements = sum(loops_of[kernel, "elements"] for kernel in unknown)
        unknown_loops = {"operations": elements, "read": elements}
    else:
        inputs = network.input_shapes(layer)
        moved = moved_elements(inputs, layer.shape)
        unknown_loops = {"operations": operations(layer, inputs), **moved}
    return known_loops | {(UNKNOWN_KERNEL, loop): number for loop, number in unknown_loops.items()}


def kernels_without_counts(
    platform: Platform, network: Network, element_bytes: int | None
) -> tuple[str, ...]:
    """Return the kernels of a network that compute, and that the table of the core lacks.

    Their instructions are a guess, also those of kernels that count as kernels of other weights.
    """
    if platform.core is None:
        return ()
    kernels: set[str] = set()
    for layer in network.layers:
        inputs = network.input_shapes(layer)
        if inputs and operations(layer, inputs):
            loops_of = loops(network, layer, element_bytes or layer.element_bytes)
            kernels |= {kernel for kernel, _ in loops_of}
    return tuple(sorted(kernels - platform.core.table.keys()))


def _kernel_name(family: str, layer: Layer, element_bytes: int, source: Layer | None) -> str:
    """The name of a kernel for the types of its elements, as in the tables of instructions.

    family [.short | .wide | .real | .from real | .to real] [.single] [.zeros] [.halves], or Table:

    - no suffix: int8 in fixed point, such as `Convolution`; .short: int16, `Activation.tanh.short`
    - .wide: integers of another size than their input, or of 32 bits, `Conversion.wide`
    - .real: real numbers, `Depthwise.real`; .from real, .to real: quantises, dequantises
    - .single: integers rescaled in single precision, `Softmax.single`
    - .zeros: weights with zero points, `Convolution.zeros`
    - .halves: real weights of two bytes, `FullyConnected.real.halves`, which `loops` appends
    """
    # A conversion has an input of another type; inputs of all other operators have that of the result.
    input_bytes, types = element_bytes, layer.quantization
    if layer.operator.converts and source is not None:
        input_bytes, types = source.element_bytes, types or source.quantization
    single = ".single" if types is not None and not types.is_fixed_point else ""
    gives_real = element_bytes == REAL_BYTES and layer.quantization is None
    stored_bytes = types.element.bytes if types is not None else input_bytes
    if gives_real:
        return f"{family}.real" if input_bytes == REAL_BYTES else f"{family}.to real{single}"
    if input_bytes == REAL_BYTES and element_bytes < REAL_BYTES:
        return f"{family}.from real{single}"
    if element_bytes == REAL_BYTES or not element_bytes == input_bytes == stored_bytes:
        return f"{family}.wide"
    return _integer_kernel(family, layer, single, is_short=element_bytes == Element.INT16.bytes)


def _integer_kernel(family: str, layer: Layer, single: str, *, is_short: bool) -> str:
    """The name of a kernel whose input and output are integers of one size.

    single: ".single" if integers are rescaled in single precision, else empty.
    """
    operator = layer.operator
    if operator.converts:
        has_table = bool(single)
    else:
        is_function = operator.has_lookup_table and operator.is_scalar_function
        has_table = is_function and operator.limits is None  # limits are compared
    if has_table and not is_short:
        return TABLE_KERNEL
    if family == PRODUCT_KERNEL and (not single or is_short):
        family = "Convolution"  # its kernel computes these products of matrices, too
    short = ".short" if is_short else ""
    if operator.moves and operator.joined_axis is None:
        return family + short
    types = [stored.quantization for stored in layer.stored]
    has_zeros = operator.weight_role is not None and any(kind and kind.zero_point for kind in types)
    return family + short + single + (ZEROS_SUFFIX if has_zeros else "")


def _epilogue_loops(shape: Shape, operators: Sequence[op.Operator]) -> dict[tuple[str, str], int]:
    """The loops of functions of real numbers that are fused after a kernel."""
    counts_of: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        kernel = f"{EPILOGUE_PREFIX}{operator.in_words()}"
        counts_of[kernel, "elements"] += shape.elements
        counts_of[kernel, "places"] += shape.height * shape.width if shape.is_map else 1
    return dict(counts_of)


def _with_halves(counts: Counts, channels: int) -> Counts:
    """The loops of a floating-point kernel, if its weights have two bytes.

    Filters are computed in blocks of 8, two for a block of 16 of other weights; depthwise channels in
    blocks of the lanes of a vector, the last perhaps not full.
    """
    large, small = REAL_FILTER_BLOCKS
    computes_filters = f"values of {large}" in counts
    computes_depthwise = f"taps of {CHANNELS_IN_VECTOR}" in counts
    if computes_filters:
        for loop in ("values", "rows"):
            counts[f"{loop} of {small}"] += 2 * counts.pop(f"{loop} of {large}")
    elif computes_depthwise:
        blocks = -(-channels // CHANNELS_IN_VECTOR)
        taps_of_channel = counts["products"] // channels
        places, products = counts["places"], counts["products"]
        return {"places": places, "products": products, "taps": taps_of_channel * blocks}
    return counts


def _accumulation_loops(layer: Layer, source: Shape, *, is_real: bool) -> KernelLoops:
    """The kernel and the loops of a layer that accumulates its input row by row.

    "sums" are accumulators that a row is added to, "units" the outputs of a fully connected layer.
    """
    rows, units = source.height, layer.operator.dense_units
    if units is None:
        counts = {"read": source.elements, "outputs": layer.shape.elements}
        return "sums of maps", counts | {"sums": rows * source.channels, "input rows": rows}
    counts_of = (real_filter_loops if is_real else filter_loops)(
        rows, 1, source.row_elements, units
    )
    return "sums of products", counts_of | {"sums": rows * units, "units": units}
