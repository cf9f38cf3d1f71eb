"""Requantisation parameters of C kernels: multipliers, shifts, limits and lookup tables.

The module also emits the calls for layers that are requantised in single precision, as ONNX Runtime
does. Each kernel executes the same operations as cnn2csdf, so that the results are bit-identical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.fixed_point.flash import derived_arrays
from cnn2csdf.fixed_point.single_precision import columns_at_once, product_factors
from cnn2csdf.integers import (
    LARGEST,
    has_wide_sums,
    multiplier,
    quantized,
)
from cnn2csdf.network import Layer
from cnn2csdf.quantized_layers import LookupTable
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from planners.code.c_text import NULL
from planners.code.calls.emitters import Emitter, Numbers, register
from planners.code.calls.layers import (
    call_of,
    convolved,
    is_depthwise,
    operands,
    pooling_call,
    window_fields,
)
from planners.code.calls.reductions import attention_fields, cube, product_fields, reduced_to
from planners.code.layer_descriptor import Described, KernelCall

ELEMENTS = (Element.INT8, Element.INT16)
MOST_VALUE = 255  # magnitude of an int8 less a zero point


def limits(one: Described, operator: op.Operator) -> tuple[int, int]:
    """Return the minimum and maximum integer after an operator that follows a layer."""
    result = one.layer.quantization
    if result is None or not one.layer.operator.converts:
        result = result_types(one)
    bounds = operator.limits
    if bounds is None:
        raise one.refusal(f"of quantised integers with {operator.in_words()} behind it")
    least, most = (
        bound if np.isinf(limit) else int(quantized(np.array(limit), result))
        for limit, bound in zip(bounds, _ends_of(result), strict=True)
    )
    return least, most


def limits_behind(one: Described) -> tuple[int, int]:
    """Return the minimum and maximum integer after all operators that follow a layer."""
    least, most = _ends_of(result_types(one))
    for operator in one.layer.epilogue:
        low, high = limits(one, operator)
        least, most = (min(max(place, low), high) for place in (least, most))
    return least, most


def _ends_of(types: Quantization) -> tuple[int, int]:
    """Return the minimum and maximum integer of a type."""
    limits = np.iinfo(types.element.value)
    return int(limits.min), int(limits.max)


def result_types(one: Described) -> Quantization:
    """Return how the output is stored.

    Raises UnsupportedOperator where not all tensors are integers of 8 bits, or all of 16, and where
    some are rescaled in another arithmetic than the result.
    """
    types_all, result = [*one.given, one.layer.quantization], one.layer.quantization
    for types in types_all:
        if types is None or types.element not in ELEMENTS:
            what = "real numbers" if types is None else types.element.value
            raise one.refusal(f"with {what} in a network of quantised integers")
    assert result is not None
    if any(types and types.is_fixed_point != result.is_fixed_point for types in types_all):
        raise one.refusal("between integers in fixed point and in single precision")
    if any(types and types.element is not one.element for types in types_all):
        raise one.refusal("between integers of 8 and of 16 bits")
    return result


def given_types(one: Described, index: int = 0) -> Quantization:
    """Return how an input is stored, which is quantised."""
    types = one.given[index]
    assert types is not None
    return types


def stored_types(one: Described, role: str, element: Element = Element.INT8) -> Quantization:
    """Return how weights are stored. Raises UnsupportedOperator where not in that type."""
    stored_type = one.layer.stored_as(role).quantization
    if stored_type is None or stored_type.element is not element:
        raise one.refusal(f"whose {role} is not stored as integers of {8 * element.bytes} bits")
    return stored_type


def layer_rounds_once(layer: Layer) -> bool:
    """Whether a layer rounds its sums once, as fully connected layers of LiteRT."""
    return any(types.rounds_sums_once for types in layer.types(()).weights.values())


def scaling(one: Described, role: str) -> tuple[object, ...]:
    """Return how sums of products become stored integers. role: of the factors."""
    zeros = (stored_types(one, role).zero_point,) if one.tables.weights_have_zeros else ()
    input_types, result = given_types(one), result_types(one)
    is_short, bias = result.element is Element.INT16, None
    if "bias" in one.weights:
        bias = one.symbol("bias", one.weights["bias"].astype(np.int64 if is_short else np.int32))
    is_small, counts = result.is_fixed_point and not is_short, np.ones(1, bool)
    arrays = derived_arrays(one.layer, one.given)
    if result.is_fixed_point:
        if one.tables.sums_round_once:
            further = one.derived("further") if "further" in arrays else NULL
            zeros = (*zeros, int(layer_rounds_once(one.layer)), further)
        counts = arrays["multipliers"] != 0
        is_small = is_small and int(arrays["exponents"].max()) < 0
        factors = [one.derived("multipliers"), one.derived("exponents")]
    else:
        factors = [one.derived("factors")]
    ends: tuple[int, int] = (input_types.zero_point, result.zero_point)
    if is_short and result.is_fixed_point:  # without zero points
        always = one.layer.operator.scatters_products
        ends = (0, int(always or has_wide_sums(input_types, one.weights)))
    kind = (is_small, is_small and _has_narrow_sums(one, role, counts))
    one.tables.sum_kinds.add(kind)
    if one.tables.sums_are_mixed:
        zeros = (*zeros, *map(int, kind))
    folded = _folded(one, role)
    begin = f"FOLDED({folded}) {bias or NULL}" if one.tables.has_helium else bias or NULL
    return (begin, *factors, *ends, *limits_behind(one), *zeros)


def _has_narrow_sums(one: Described, role: str, counts: Array) -> bool:
    """Whether accumulators have 30 bits, for output channels with a nonzero factor (counts)."""
    if given_types(one).element is not Element.INT8:
        return True
    rows = np.abs(one.weights[role].reshape(len(one.weights[role]), -1).astype(np.int64))
    # The rows of a transposed convolution are those of its input channels.
    sums = rows.sum() if one.layer.operator.scatters_products else rows.sum(axis=1)
    products = MOST_VALUE * sums
    bias = one.weights["bias"].astype(np.int64) if "bias" in one.weights else np.int64(0)
    return bool(np.max(np.where(counts, np.abs(bias) + products, 0)) < 2**30)


def _folded(one: Described, role: str) -> str:
    """Return the symbol of initial accumulators: bias minus zero point times the sum of weights.

    With them, windows inside the input accumulate products of stored values, without zero points.
    """
    input_types, weights = given_types(one), one.weights[role]
    if input_types.element is not Element.INT8:
        return NULL
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    bias = one.weights["bias"].astype(np.int64) if "bias" in one.weights else np.int64(0)
    begin = bias - input_types.zero_point * rows.sum(axis=1)
    has_whole_windows = not (is_depthwise(one) or one.layer.operator.scatters_products)
    has_sums = bool(input_types.zero_point) and np.abs(begin).max() < 2**31 and has_whole_windows
    if not (one.tables.has_helium and has_sums):
        return NULL
    symbol = one.computed(f"{role}_folded", begin.astype(np.int32))
    one.tables.folded.add(symbol)
    return symbol


def averaging(one: Described, count: int, *, is_sum: bool = False) -> tuple[object, ...]:
    """Return the requantisation fields for the mean, or the sum, of `count` integers.

    In fixed point, the multiplier of a mean includes the division by `count`.
    """
    input_types, result = given_types(one), result_types(one)
    if count > 2 ** (31 - 8 * input_types.element.bytes):
        raise one.refusal(f"of {count} integers, whose sum may take more than 32 bits")
    ratio: tuple[object, ...] = (input_types.scale, result.scale)
    if result.is_fixed_point:
        integer, exponent = multiplier(input_types.scale / result.scale)
        shift = min(count.bit_length() - 1, 32, 31 + exponent)
        divided = ((integer << shift) // count, exponent - shift)
        ratio = (integer, exponent) if is_sum else divided
    return (count, *ratio, input_types.zero_point, result.zero_point)


def table_symbol(one: Described, table: LookupTable) -> str:
    """Return the symbol of a lookup table, whose function is computed for all 256 integers."""
    builder = NetworkBuilder("table")
    source = builder.input((1, 1, 256), element=Element.INT8, quantization=table.given)
    result_types(one)
    output = builder.add(
        *(table.operator, source), name="result", quantization=table.result, epilogue=table.epilogue
    )
    builder.output(output)
    model = Model(network=builder.network(), weights={output: one.weights})
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
    try:
        results = run_layer_by_layer(model, {source: values})["output"]
    except ExecutionError:
        raise one.refusal(f"of quantised integers: {table.operator.in_words()}") from None
    return one.computed("table", results)


def look_up_call(one: Described) -> KernelCall:
    """Return the call for an elementwise function of int8, by a lookup table."""
    (table,) = one.lookup_tables
    if table is None:
        words = one.layer.operator.in_words()
        raise one.refusal(f"of integers of 16 bits: {words}")
    return one.call("look_up_region", "table", table_symbol(one, table))


def powers_of(one: Described) -> tuple[int, int, int]:
    """Return multiplier and exponent of the differences in a softmax, and the minimum that counts."""
    scale = float(np.float32(given_types(one).scale))
    integer, exponent = multiplier(min(scale * 2**26, LARGEST))
    if exponent < 0:
        raise one.refusal("of quantised integers with so small a scale")
    return integer, exponent, max(-int(31 * 2**26 // 2**exponent), -256)


def by_columns(one: Described) -> Described:
    """Return a product with the matrix of its weights transposed, in the order of a dense layer."""
    matrix = np.ascontiguousarray(one.weights["matrix"].T)
    return replace(one, weights={**one.weights, "matrix": matrix})


def packed_rows(kernel: Array, _groups: int) -> Array:
    """Return filters (filters, inputs, rows, columns) as integers.c reads them.

    Filter by filter, in each tap by tap, input by input.
    """
    return kernel.transpose(0, 2, 3, 1).reshape(-1)


def single_steps(one: Described) -> list[str]:
    """Return the conversion step after a layer that moves elements; empty if types are equal."""
    operator, table = one.layer.operator, one.lookup_tables[0]
    are_alike = one.given[0] == one.layer.quantization
    if not operator.picks_elements or operator.joined_axis is not None:
        return []
    if table is None:
        if None not in (*one.given[:1], one.layer.quantization) and not are_alike:
            raise one.refusal("of integers of 16 bits with another scale than the result")
        return []
    one.tables.wanted.add("step_look_up")
    return [f"{{step_look_up, 0, 0, {table_symbol(one, table)}, NULL, 0, 0}}"]


def single_conversion(one: Described, _operator: op.Conversion) -> KernelCall:
    """Return the call that stores real numbers, makes integers real, or changes their scale."""
    input_types, result = one.given[0], one.layer.quantization
    if input_types is not None and result is not None:
        if result.element is Element.INT8:
            return KernelCall("copy_region") if input_types == result else look_up_call(one)
        result_types(one)
        scales = (input_types.scale, result.scale, input_types.zero_point, result.zero_point)
        return one.call("restate_region", "restating", *scales)
    types = input_types or result
    if types is None or types.element is not one.element:
        raise one.refusal(f"of other elements than {one.element.value} and single precision")
    function = "widen_region" if input_types else "round_region"
    return one.call(function, "rounding", types.scale, types.zero_point)


def _pooling(one: Described, operator: op.Pooling) -> KernelCall:
    if operator.function == "max":
        return pooling_call(one, operator)
    pooling = (window_fields(operator.window), operator.counts_padding, 0)
    return one.call("pool_scaled", "scaled_pooling", pooling, averaging(one, 1))


def _global_pooling(one: Described, operator: op.GlobalPooling) -> KernelCall:
    if operator.function != "average":
        raise one.refusal(f"of quantised integers: {operator.in_words()}")
    return mean_call(one, (1, 2), one.inputs[0].height * one.inputs[0].width, keeps=True)


def mean_call(
    one: Described, axes: Sequence[int], count: int, *, keeps: bool, is_sum: bool = False
) -> KernelCall:
    """Return the call for sums along axes, over their number or as they are."""
    over = cube(one, axes, reduced_to(one, axes, keeps=keeps))
    return one.call("average", "mean_over", over, averaging(one, count, is_sum=is_sum))


def _softmax(one: Described, operator: op.Softmax) -> KernelCall:
    result = result_types(one)
    if operator.is_logarithm or result.element is not Element.INT8:
        what = "its logarithm" if operator.is_logarithm else "16 bits in single precision"
        raise one.refusal(f"of quantised integers: {what}")
    over = cube(one, operator.axes)
    fields = (over, one.derived("powers"), result.scale, result.zero_point)
    return one.call("share_by_table", "sharing_by_table", *fields)


KINDS = {
    "add": "REAL_SUM",
    "subtract": "REAL_DIFFERENCE",
    "multiply": "REAL_PRODUCT",
    "divide": "REAL_QUOTIENT",
    "maximum": "REAL_LARGEST",
    "minimum": "REAL_LEAST",
}


def _elementwise(one: Described, operator: op.Elementwise) -> KernelCall:
    result, symbol = result_types(one), None
    if operator.constant is not None:
        symbol = one.symbol("constant", one.weights["constant"].astype(np.float32))
    read_operands, places = operands(one, operator, symbol)
    operands_found: list[tuple[object, ...]] = []
    for values, index, *steps in read_operands:
        types = None if values is not None else given_types(one, int(str(index)))
        numbers = (types.scale, types.zero_point) if types else (0, 0)
        operands_found.append(((None, index, *steps), values, *numbers))
    kind = KINDS.get(operator.function)
    if kind is None or len(operands_found) != 2:
        raise one.refusal(
            f"of quantised integers: {operator.function} of {len(operands_found)} tensors"
        )
    one.tables.wanted.update((kind, "operand", "real_operand"))
    fields = (operands_found, places, kind, result.scale, result.zero_point)
    return one.call("combine_in_single", "joining_reals", *fields)


def _activation(one: Described, operator: op.Activation) -> KernelCall:
    if operator.function == "prelu":
        return _changing(one, {"slope": one.weights["slope"]})
    if operator.is_limit and given_types(one) == result_types(one):
        return KernelCall("copy_region")
    return look_up_call(one)


def _normalization(one: Described, operator: op.BatchNormalization) -> KernelCall:
    """Factor and offset of each channel, in the single precision in which they are computed."""
    arrays = one.weights
    factor = arrays["scale"] / np.sqrt(arrays["variance"] + operator.epsilon)
    return _changing(one, {"scale": factor, "shift": arrays["shift"] - arrays["mean"] * factor})


def _changing(one: Described, arrays: Mapping[str, Array]) -> KernelCall:
    input_types, result, shape = given_types(one), result_types(one), one.layer.shape
    symbols: list[str | None] = []
    for role, array in arrays.items():
        if array.dtype != np.float32:
            raise one.refusal(f"of quantised integers with numbers in {array.dtype}")
        spread = array if shape.is_map else np.repeat(array, shape.elements // len(array))
        symbols.append(one.symbol(role, spread))
    scales = (input_types.scale, result.scale, input_types.zero_point, result.zero_point)
    return one.call("change_region", "changing", *(*symbols, None)[:2], *scales)


def _matrix_product(one: Described, operator: op.MatrixProduct) -> KernelCall:
    """A product with integer accumulators, and the factors that round as floating-point sums do."""
    input_types, result = given_types(one), result_types(one)
    if result.element is not Element.INT8:
        raise one.refusal("of integers of 16 bits")
    fields, matrix, bias = product_fields(one, operator.units), None, None
    if operator.units is None:
        factors = given_types(one, 1)
        most = max(127 - factors.zero_point, 128 + factors.zero_point)
    else:
        factors, turned = stored_types(one, "matrix"), by_columns(one).weights["matrix"]
        matrix = one.symbol("matrix", turned)
        most = int(np.abs(turned.astype(np.int64) - factors.zero_point).max())
        if operator.has_bias:
            bias = one.symbol("bias", one.weights["bias"].astype(np.int32))
    inner = one.inputs[0].dims[-1]
    if (inner + 1) * 2**16 + (0 if bias is None else np.abs(one.weights["bias"]).max()) >= 2**31:
        raise one.refusal(f"of {inner} integers, whose sum may take more than 32 bits")
    return one.call(
        "multiply_as_reals",
        "product_in_single",
        fields,
        *(matrix, bias),
        *(one.derived("steps"), one.derived("ratios"), len(factors.scales) > 1),
        (input_types.zero_point, factors.zero_point),
        *(result.zero_point, most, columns_at_once(inner, one.layer.shape.dims[-1])),
        *(input_types.scale, result.scale),
    )


def attending(
    one: Described, operator: op.AttentionProduct, types: Sequence[Quantization]
) -> tuple[object, ...]:
    """Return what attention between integers has in both arithmetics."""
    zeros = tuple(quantization.zero_point for quantization in types)
    return (attention_fields(one, operator), operator.gives == "values", zeros)


def _attention(one: Described, operator: op.AttentionProduct) -> KernelCall:
    result, kinds = result_types(one), (given_types(one), given_types(one, 1))
    if result.element is not Element.INT8:
        raise one.refusal("of integers of 16 bits")
    _, keys, width = attention_fields(one, operator)
    inner, results = (width, keys) if operator.gives == "scores" else (keys, width)
    _, (ratio,) = product_factors(*kinds, result)
    zero = kinds[1].zero_point
    return one.call(
        "attend_as_reals",
        "attending_in_single",
        attending(one, operator, kinds),
        *(result.zero_point, max(127 - zero, 128 + zero), columns_at_once(inner, results)),
        tuple(kind.scale for kind in kinds),
        *(float(ratio), result.scale),
    )


def product_convolution(
    one: Described, operator: op.Convolution, packed: Array | None
) -> KernelCall:
    """Return the call for a convolution that is a product of matrices in the file."""
    types, input_types, kernel = (
        stored_types(one, "kernel"),
        given_types(one),
        one.weights["kernel"],
    )
    filters = packed_rows(kernel, 1) if packed is None else packed
    most = int(np.abs(kernel.astype(np.int64) - types.zero_point).max())
    steps = one.derived("steps") if len(types.scales) > 1 else None
    return one.call(
        "convolve_as_reals",
        "product_convolution",
        (*convolved(one, operator, filters), scaling(one, "kernel")),
        *(steps, most, operator.block),
        *(input_types.scale, types.scale, result_types(one).scale),
    )


def _layer_normalization(one: Described, operator: op.LayerNormalization) -> KernelCall:
    input_types, result = given_types(one), result_types(one)
    rank = len(one.layer.shape.dims)
    axes = range(operator.axis, rank if operator.last is None else operator.last + 1)
    symbols = (one.symbol("scale", one.weights["scale"]), one.optional("shift"))
    return one.call(
        "standardise_as_reals",
        "standardising",
        cube(one, axes),
        *symbols,
        *(input_types.scale, result.scale, float(np.float32(operator.epsilon))),
        *(input_types.zero_point, result.zero_point),
    )


def rescaled_concatenation(one: Described, operator: op.Concatenation) -> KernelCall:
    """Inputs with another scale than the result pass through a table each."""
    result = result_types(one)
    if all(types == result for types in one.given):
        return call_of(one)
    tables = [(None if table is None else table_symbol(one, table),) for table in one.lookup_tables]
    one.tables.wanted.add("table")
    listed = one.table("table", "tables", tables)
    dims, axis = one.layer.shape.dims, operator.axis
    if one.layer.shape.is_map:
        return one.call("join_by_tables", "joining_by_tables", axis, 1, listed)
    return one.call("join_pieces_by_tables", "joining_by_tables", 3, prod(dims[:axis]), listed)


_SINGLE: dict[type, Emitter] = {
    op.AttentionProduct: _attention,
    op.Activation: _activation,
    op.BatchNormalization: _normalization,
    op.Concatenation: rescaled_concatenation,
    op.Elementwise: _elementwise,
    op.GlobalPooling: _global_pooling,
    op.LayerNormalization: _layer_normalization,
    op.MatrixProduct: _matrix_product,
    op.Pooling: _pooling,
    op.Softmax: _softmax,
}
register(Numbers.SINGLE, _SINGLE)
