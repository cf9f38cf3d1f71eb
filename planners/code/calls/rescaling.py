"""Requantisation of integers in C kernels: multipliers, exponents, limits and lookup tables.

A kernel accumulates products of integers and requantises the sum to a stored integer of the output:
in fixed point by a multiplier and an exponent for each output channel, or in single precision by a
factor, as ONNX Runtime does. The numbers are those of cnn2csdf, so that the results are bit-identical.

Terms, which are also names in the C structure `scaling`:

    initial sums   bias less products of the input's zero point, by output channel: with them kernels of
                   Helium accumulate products of stored integers. The field `folded`, macro FOLDED
    small factors  all factors are below 1/2, as assembly for Helium needs (`SumKind`)
    narrow sums    factors are small, and 30 bits hold each sum, as assembly for Cortex-M4 needs
    mixed sums     layers of a library differ in their `SumKind`, and each scaling has its own
    rounds once    one rounding of the product, as LiteRT in fully connected layers, instead of two
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.fixed_point.flash import derived_arrays, initial_sums
from cnn2csdf.fixed_point.functions import DIFFERENCE_BITS, difference_multiplier, input_radius
from cnn2csdf.integers import has_wide_sums, mean_multiplier, multiplier, quantized
from cnn2csdf.network import Layer
from cnn2csdf.quantized_layers import LookupTable
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from planners.code.c_text import NULL, SumKind
from planners.code.calls.reductions import attention_fields, cube_fields, result_axes
from planners.code.layer_descriptor import Fields, KernelCall, LayerNode

ELEMENTS = (Element.INT8, Element.INT16)
LARGEST_MAGNITUDE = 255  # of an int8 less a zero point


def limits_of(node: LayerNode, operator: op.Operator) -> tuple[int, int]:
    """Return the minimum and maximum integer after an operator that follows a layer."""
    result = node.layer.quantization
    if result is None or not node.layer.operator.converts:
        result = result_type(node)
    limits = operator.limits
    if limits is None:
        raise node.refusal(f"of quantised integers with {operator.in_words()} behind it")
    least, most = (
        end if np.isinf(limit) else int(quantized(np.array(limit), result))
        for limit, end in zip(limits, _ends_of(result), strict=True)
    )
    return least, most


def limits_after_epilogue(node: LayerNode) -> tuple[int, int]:
    """Return the minimum and maximum integer after all operators that follow a layer."""
    least, most = _ends_of(result_type(node))
    for operator in node.layer.epilogue:
        low, high = limits_of(node, operator)
        least, most = (min(max(bound, low), high) for bound in (least, most))
    return least, most


def _ends_of(types: Quantization) -> tuple[int, int]:
    """Return the minimum and maximum integer of a type."""
    limits = np.iinfo(types.element.value)
    return int(limits.min), int(limits.max)


def result_type(node: LayerNode) -> Quantization:
    """Return how the output is stored.

    Raises UnsupportedOperator unless inputs and output are all integers of 8 bits, or all of 16, and
    all are rescaled in fixed point, or all in single precision.
    """
    result, all_types = node.layer.quantization, (*node.input_types, node.layer.quantization)
    for types in all_types:
        if types is None or types.element not in ELEMENTS:
            what = "real numbers" if types is None else types.element.value
            raise node.refusal(f"with {what} in a network of quantised integers")
    assert result is not None
    if len({types.is_fixed_point for types in all_types if types is not None}) > 1:
        raise node.refusal("between integers in fixed point and in single precision")
    if any(types is not None and types.element is not node.element for types in all_types):
        raise node.refusal("between integers of 8 and of 16 bits")
    return result


def input_type(node: LayerNode, index: int = 0) -> Quantization:
    """Return how an input of integers is stored."""
    types = node.input_types[index]
    assert types is not None
    return types


def stored_type(node: LayerNode, role: str, element: Element = Element.INT8) -> Quantization:
    """Return how weights are stored. Raises UnsupportedOperator for elements of another type."""
    quantization = node.layer.stored_as(role).quantization
    if quantization is None or quantization.element is not element:
        raise node.refusal(f"whose {role} is not stored as integers of {8 * element.bytes} bits")
    return quantization


def layer_rounds_once(layer: Layer) -> bool:
    """Whether a layer rounds its sums once, as fully connected layers of LiteRT."""
    return any(types.rounds_sums_once for types in layer.types(()).weights.values())


def scaling(node: LayerNode, role: str, *, reads_initial_sums: bool = True) -> Fields:
    """Return the field `to`: the structure `scaling`, by which sums of products become results.

    role: of the weights. reads_initial_sums: whether the kernel has a version for Helium that begins
    with initial sums. Fields that only some libraries need, such as zero points of weights, are in
    those libraries only; a kind of sums that all layers have is compiled into the kernels instead.
    """
    weights, source, result = stored_type(node, role), input_type(node), result_type(node)
    is_short, is_fixed_point = result.element is Element.INT16, result.is_fixed_point
    bias = NULL
    if "bias" in node.weights:
        bias = node.symbol("bias", node.weights["bias"].astype(np.int64 if is_short else np.int32))
    initial = _initial_sums(node, role) if reads_initial_sums and node.tables.has_helium else NULL
    fields: dict[str, object] = {"bias": bias_after_initial_sums(node, bias, initial)}
    names = ("multipliers", "exponents") if is_fixed_point else ("factors",)
    fields |= {name: node.derived(name) for name in names}
    if is_short and is_fixed_point:  # without zero points
        scatters = node.layer.operator.scatters_products
        fields |= {"zero_in": 0, "is_wide": scatters or has_wide_sums(source, node.weights)}
    else:
        fields |= zero_fields(source, result)
    fields |= limit_fields(node)
    if node.tables.weights_have_zeros:
        fields["zero_with"] = weights.zero_point
    arrays = derived_arrays(node.layer, node.input_types)
    if is_fixed_point and node.tables.sums_round_once:
        fields["rounds_once"] = layer_rounds_once(node.layer)
        fields["further"] = node.derived("further") if "further" in arrays else NULL
    kind = _sum_kind(node, role, arrays)
    node.tables.sum_kinds.add(kind)
    if node.tables.sums_are_mixed:
        fields |= kind._asdict()
    return {"to": fields}


def _sum_kind(node: LayerNode, role: str, arrays: Mapping[str, Array]) -> SumKind:
    """The kind of the sums of a layer: no assembly reads sums of int16 or in single precision.

    role: of the weights. arrays: the derived arrays of the layer, with the multipliers of its sums.
    """
    result = result_type(node)
    if result.element is Element.INT16 or not result.is_fixed_point:
        return SumKind(has_small_factors=False, has_narrow_sums=False)
    are_small = int(arrays["exponents"].max()) < 0  # all factors are below 1/2
    are_narrow = are_small and _are_narrow(node, role, arrays["multipliers"])
    return SumKind(has_small_factors=are_small, has_narrow_sums=are_narrow)


def limit_fields(node: LayerNode) -> dict[str, int]:
    """Return the fields of the smallest and the largest value of the result."""
    least, most = limits_after_epilogue(node)
    return {"least": least, "most": most}


def bias_after_initial_sums(node: LayerNode, bias: str, initial_sums: str) -> str:
    """Return the text of the field `bias`; if a target may have Helium, of `folded` and `bias`.

    The structure has the field `folded`, of initial sums, only in C for Helium. For other
    machines the macro FOLDED (`planners.code.machines`) is empty, which drops the field.
    """
    return f"FOLDED({initial_sums}) {bias}" if node.tables.has_helium else bias


def _initial_sums(node: LayerNode, role: str) -> str:
    """Return the symbol of the initial sums: bias minus zero point of the input times sum of weights.

    With sum((q - z) * w) = sum(q * w) - z * sum(w), Helium kernels accumulate products of stored
    integers q in windows inside the input. NULL if such kernels read none, or if 32 bits are too few.
    """
    weights = node.weights[role]
    has_zeros = node.tables.weights_have_zeros
    if has_zeros or not initial_sums(node.layer, node.inputs, node.input_types):
        return NULL
    initial = _bias(node) - input_type(node).zero_point * _by_output(weights).sum(axis=1)
    if np.abs(initial).max() >= 2**31:
        return NULL
    symbol = node.computed(f"{role}_folded", initial.astype(np.int32))
    node.tables.folded.add(symbol)
    return symbol


def _are_narrow(node: LayerNode, role: str, multipliers: Array) -> bool:
    """Whether 30 bits hold each sum of an output channel whose multiplier is not 0.

    Weights are taken to have no zero point: no assembly is written for a library of other weights.
    """
    magnitudes = np.abs(_by_output(node.weights[role]))
    # The rows of a transposed convolution are those of its input channels.
    scatters = node.layer.operator.scatters_products
    sums = magnitudes.sum() if scatters else magnitudes.sum(axis=1)
    bounds = LARGEST_MAGNITUDE * sums + np.abs(_bias(node))
    return bool(np.max(np.where(multipliers != 0, bounds, 0)) < 2**30)


def _bias(node: LayerNode) -> Array:
    """Return the bias in 64 bits; 0 without a bias."""
    return np.asarray(node.weights.get("bias", 0), np.int64)


def _by_output(weights: Array) -> Array:
    """Return weights as a matrix of 64 bits with a row for each output channel."""
    return weights.reshape(len(weights), -1).astype(np.int64)


def averaging(node: LayerNode, count: int, *, is_sum: bool = False) -> Fields:
    """Return the fields of the C structure `averaging`: the mean, or the sum, of `count` integers.

    In fixed point, the multiplier of a mean includes the division by `count`. In single precision the
    kernel divides, so sums are refused.
    """
    input_types, result = input_type(node), result_type(node)
    if count > 2 ** (31 - 8 * input_types.element.bytes):
        raise node.refusal(f"of {count} integers, whose sum may take more than 32 bits")
    ratio: Fields = {"given": input_types.scale, "result": result.scale}
    if result.is_fixed_point:
        scale = input_types.scale / result.scale
        ratio = factor_fields(multiplier(scale) if is_sum else mean_multiplier(scale, count))
    elif is_sum:
        raise node.refusal("of quantised integers: sums in single precision")
    return {"count": count, **ratio, **zero_fields(input_types, result)}


def factor_fields(pair: tuple[int, int], name: str = "") -> dict[str, int]:
    """Return the fields of a factor in fixed point: a multiplier and an exponent."""
    return {f"{name}multiplier": pair[0], f"{name}exponent": pair[1]}


def zero_fields(source: Quantization | None, result: Quantization | None) -> dict[str, int]:
    """Return the fields of the zero points; 0 for floating point."""
    zeros = [0 if types is None else types.zero_point for types in (source, result)]
    return {"zero_in": zeros[0], "zero_out": zeros[1]}


def table_symbol(node: LayerNode, table: LookupTable) -> str:
    """Return the symbol of a lookup table, whose function is computed for all 256 integers."""
    result_type(node)  # raises for types that no kernel has
    builder = NetworkBuilder("table")
    source = builder.input((1, 1, 256), element=Element.INT8, quantization=table.source)
    operator, result, epilogue = table.operator, table.result, table.epilogue
    output = builder.add(operator, source, name="table", quantization=result, epilogue=epilogue)
    builder.output(output)
    model = Model(network=builder.network(), weights={output: node.weights})
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
    try:
        results = run_layer_by_layer(model, {source: values})["output"]
    except ExecutionError:
        raise node.refusal(f"of quantised integers: {operator.in_words()}") from None
    return node.computed("table", results)


def look_up_call(node: LayerNode) -> KernelCall:
    """Return the call for an elementwise function of int8, by a lookup table."""
    (table,) = node.lookup_tables
    if table is None:
        words = node.layer.operator.in_words()
        raise node.refusal(f"of integers of 16 bits: {words}")
    return node.call("look_up_region", "table", values=table_symbol(node, table))


def softmax_fields(node: LayerNode) -> Fields:
    """Return the fields by which a softmax of int8 makes exponents of differences from the maximum.

    least: the most negative difference whose power is not 0 (`fixed_point.functions.softmax_int8`).
    """
    factor, exponent = difference_multiplier(input_type(node).scale)
    if exponent < 0:
        raise node.refusal("of quantised integers with so small a scale")
    least = -min(input_radius(DIFFERENCE_BITS, exponent), 256)
    return {**factor_fields((factor, exponent)), "least": least}


def by_columns(node: LayerNode) -> LayerNode:
    """Return a matrix product with its weights as a dense layer has them: a row for each output."""
    matrix = np.ascontiguousarray(node.weights["matrix"].T)
    return replace(node, weights={**node.weights, "matrix": matrix})


def packed_rows(kernel: Array, _groups: int) -> Array:
    """Return filters (filters, inputs, rows, columns) in the order of integers.c: inputs innermost."""
    return kernel.transpose(0, 2, 3, 1).reshape(-1)


def mean_call(
    node: LayerNode, axes: Sequence[int], count: int, *, keeps: bool, is_sum: bool = False
) -> KernelCall:
    """Return the call for sums along axes, over their number or as they are."""
    over = cube_fields(node, axes, result_axes(node, axes, keeps=keeps))
    to = averaging(node, count, is_sum=is_sum)
    return node.call("average", "mean_over", axes=over, to=to)


def attending(
    node: LayerNode, operator: op.AttentionProduct, types: Sequence[Quantization]
) -> Fields:
    """Return the fields of the C structure `attending`, of attention between integers."""
    zeros = tuple(quantization.zero_point for quantization in types)
    is_sum = operator.gives == "values"
    return {"at": attention_fields(node, operator), "sums_rows": is_sum, "zero": zeros}
