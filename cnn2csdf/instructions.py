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
| read in each call        | elements that each call reads to find their range                  |
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
EPILOGUE_PREFIX = "behind "  # before the words of a function that is fused after a kernel
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
        zeros = "many" if source is not None and _is_limited(source) else "few"
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
        renamed[kernel if kernel in table or usual not in table else usual, loop] += number
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
    return operator.has_lookup_table and operator.is_scalar_function and not operator.is_limit


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


def _accumulation_loops(layer: Layer, source: Shape, *, is_real: bool) -> KernelLoops:
    """The kernel and the loops of a layer that accumulates its input row by row."""
    rows, count = source.height, source.row_elements
    units = layer.operator.dense_units
    if units is None:
        counts = {"read": source.elements, "outputs": layer.shape.elements}
        return "sums of maps", counts | {"sums": rows * source.channels, "input rows": rows}
    counts_of = (real_filter_loops if is_real else filter_loops)(rows, 1, count, units)
    return "sums of products", counts_of | {"sums": rows * units, "units": units}
