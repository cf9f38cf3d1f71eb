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
| places, outputs           | an output pixel; an output element                                |
| read, written             | an input element; an output element                               |
| read in each call         | an input element that each call reads, to find the range          |
| taps, products            | a tap of a window; a multiply-accumulate                          |
| fours, after fours        | 4 elements of an elementwise row; an element left over            |
| places apart              | a pixel in a call of its own, where operands are broadcast        |
| **integer filters**       |                                                                   |
| filter rows               | a row of a window, for each filter                                |
| blocks, block rows        | a block of 4 filters; a row of a window, for each block           |
| words, tails              | 4 values of a block row (SMLAD); a value left over                |
| vectors                   | 16 values of a block row (lanes of a Helium register)             |
| singles                   | a pixel with filters left over                                    |
| single filters            | a filter left over; single rows, single products: of such filters |
| wrapping windows          | a window that wraps around a ring buffer                          |
| gathers, gathered rows    | a window that is copied to scratch first; a row of it             |
| gathered                  | a copied value; gathered at border: of a window over the padding  |
| weight sum blocks         | a block of filters for a partial window                           |
| weight sum runs, vectors  | a run of contiguous weights in these blocks; 16 weights of a run  |
| partial rows, vectors     | a row of a partial window for a block; 16 values of the row       |
| **floating-point filters**|                                                                   |
| rows of N, values of N    | a row of a window for a block of N filters; a value of the row    |
| values of rest            | a value for the filters left over; products of rest: products     |
| **depthwise channels**    |                                                                   |
| blocks of N               | a block of N channels of a window; rows of N, taps of N: of these |
| places, taps, ... after N | the same for the channels left over by blocks of N                |

A window is partial if it overlaps the padding, or wraps and so is read in two runs. The stored sum of
weights times the zero point of the input holds for whole windows only, so kernels sum up the weights of
a partial window again.
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
Loops = Mapping[tuple[str, str], int]  # by kernel and loop


def loops(
    network: Network, layer: Layer, element_bytes: int, *, ring: int = 0, adds_up: bool = False
) -> Loops:
    """Return how often each loop of the kernels of a layer runs in a frame.

    element_bytes: of the computed elements: 4 are real numbers, fewer are integers. ring: columns of
    the ring buffer of the input; 0 where rows are stored whole. adds_up: whether the input is
    accumulated row by row.

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
    counts_of = {(kernel, name): number for name, number in counts.items()}
    if is_real:
        counts_of |= _epilogue_loops(layer.shape, epilogue)
        last = source and (source.operator, *source.epilogue)[-1]
        # The last function of the source may cut numbers off at zero; products of zero are fast.
        zeros = "many" if last and last.limits and last.limits[0] == 0 else "few"
        if not layer.operator.has_integer_weights:
            counts_of[kernel, f"products, {zeros} of zero"] = multiply_accumulates(layer, inputs)
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
    return sum(
        (
            table.get(kernel, {}).get(loop, Fraction(0)) * number
            for (kernel, loop), number in loops_of.items()
        ),
        Fraction(0),
    )


def tabulated_loops(
    network: Network, layer: Layer, kernel_loops: Loops, table: Mapping[str, object]
) -> Loops:
    """Return the loops of kernels in the table; for other kernels their operations and elements.

    For an unknown function after a kernel of the table, only the elements count. Kernels of weights
    of two bytes, or with a zero point, count as kernels of other weights, where these are known.
    """
    kernel_loops = _with_usual_weights(kernel_loops, table)
    unknown = {kernel for kernel, _ in kernel_loops} - table.keys()
    if not unknown:
        return kernel_loops
    tabulated = {loop: number for loop, number in kernel_loops.items() if loop[0] not in unknown}
    if all(kernel.startswith(EPILOGUE_PREFIX) for kernel in unknown):
        elements = sum(kernel_loops.get((kernel, "elements"), 0) for kernel in unknown)
        substitutes = {"operations": elements, "read": elements}
    else:
        inputs = network.input_shapes(layer)
        moved = moved_elements(inputs, layer.shape)
        substitutes = {"operations": operations(layer, inputs), **moved}
    return tabulated | {(UNKNOWN_KERNEL, loop): number for loop, number in substitutes.items()}


def _with_usual_weights(counts: Loops, table: Mapping[str, object]) -> Loops:
    """The loops with kernels of usual weights, for kernels that a table has of these weights only."""
    renamed: Counter[tuple[str, str]] = Counter()
    for (kernel, loop), number in counts.items():
        usual = kernel.removesuffix(HALVES_SUFFIX).removesuffix(ZEROS_SUFFIX)
        is_replaced = kernel not in table and usual in table
        renamed[usual if is_replaced else kernel, loop] += number
    return renamed


def kernels_without_counts(
    platform: Platform, network: Network, element_bytes: int | None
) -> tuple[str, ...]:
    """Return the kernels of a network that compute, and whose instructions on a core are a guess."""
    if platform.core is None:
        return ()
    kernels: set[str] = set()
    for layer in network.layers:
        inputs = network.input_shapes(layer)
        if inputs and operations(layer, inputs):
            loops_of = loops(network, layer, element_bytes or layer.element_bytes)
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
    writes_words, reads_words = element_bytes == REAL_BYTES, input_bytes == REAL_BYTES
    if writes_words and layer.quantization is not None:  # integers of 32 bits
        return f"{kernel}.wide"
    if writes_words and reads_words:
        return f"{kernel}.real"
    if writes_words:
        return f"{kernel}.to real{single}"
    if reads_words:
        return f"{kernel}.from real{single}"
    sizes = {element_bytes, input_bytes, types.element.bytes if types else input_bytes}
    if len(sizes) > 1:
        return f"{kernel}.wide"
    return _integer_kernel(kernel, layer, single, is_short=element_bytes == Element.INT16.bytes)


def _integer_kernel(kernel: str, layer: Layer, single: str, *, is_short: bool) -> str:
    """The name of a kernel whose input and output are integers of one size.

    Products of matrices in fixed point, or of int16, are computed by the kernel of convolutions.
    """
    operator = layer.operator
    # 8-bit integers pass through a lookup table.
    has_table = (
        operator.has_lookup_table and operator.is_scalar_function and operator.limits is None
    )
    if operator.converts:
        has_table = bool(single)
    if has_table and not is_short:
        return TABLE_KERNEL
    if kernel == PRODUCT_KERNEL and (not single or is_short):
        kernel = "Convolution"
    short = ".short" if is_short else ""
    if operator.moves and operator.joined_axis is None:
        return kernel + short
    types = [stored.quantization for stored in layer.stored]
    has_zeros = operator.weight_role is not None and any(kind and kind.zero_point for kind in types)
    return kernel + short + single + (ZEROS_SUFFIX if has_zeros else "")


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

    Filters are computed in blocks of 8 instead of 16 and 8, depthwise channels in blocks of 8 only.
    """
    large, small = REAL_FILTER_BLOCKS
    if f"values of {large}" in counts:
        of_small = {
            f"{kind} of {small}": counts[f"{kind} of {small}"] + 2 * counts[f"{kind} of {large}"]
            for kind in ("values", "rows")
        }
        return counts | of_small | {f"values of {large}": 0, f"rows of {large}": 0}
    if f"taps of {CHANNELS_IN_VECTOR}" in counts:
        taps, blocks = counts["products"] // channels, -(-channels // CHANNELS_IN_VECTOR)
        return {"places": counts["places"], "products": counts["products"], "taps": taps * blocks}
    return counts


def _accumulation_loops(layer: Layer, source: Shape, *, is_real: bool) -> KernelLoops:
    """The kernel and the loops of a layer that accumulates its input row by row."""
    rows, count = source.height, source.row_elements
    units = layer.operator.dense_units
    if units is None:
        counts = {"read": source.elements, "outputs": layer.shape.elements}
        return "sums of maps", counts | {"sums": rows * source.channels, "input rows": rows}
    counts_of = (real_filter_loops if is_real else filter_loops)(rows, 1, count, units)
    return "sums of products", counts_of | {"sums": rows * units, "units": units}
