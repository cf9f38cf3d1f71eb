"""Requantisation parameters of C kernels: multipliers, shifts, limits and lookup tables.

A kernel accumulates products of integers and requantises the sum to a stored integer of the output:
in fixed point by a multiplier and an exponent for each output channel, or in single precision by a
factor, as ONNX Runtime does. The calls of the latter are emitted here, those of the former in
`integer_layers`. Each kernel executes the same operations as cnn2csdf, so that the results are
bit-identical.
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
from cnn2csdf.fixed_point.flash import derived_arrays, initial_sums
from cnn2csdf.fixed_point.single_precision import columns_at_once, product_factors
from cnn2csdf.integers import INT32_MAX, has_wide_sums, multiplier, quantized
from cnn2csdf.network import Layer
from cnn2csdf.quantized_layers import LookupTable
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from planners.code.c_text import NULL
from planners.code.calls.emitters import Emitter, Numbers, register
from planners.code.calls.layers import (
    call_of,
    convolution_fields,
    operands,
    pooling_call,
    pooling_fields,
    step_initialiser,
)
from planners.code.calls.reductions import attention_fields, cube, product_fields, reduced_to
from planners.code.layer_descriptor import Fields, KernelCall, LayerNode

ELEMENTS = (Element.INT8, Element.INT16)
MOST_VALUE = 255  # magnitude of an int8 less a zero point


def limits_of(node: LayerNode, operator: op.Operator) -> tuple[int, int]:
    """Return the minimum and maximum integer after an operator that follows a layer."""
    result = node.layer.quantization
    if result is None or not node.layer.operator.converts:
        result = result_type(node)
    bounds = operator.limits
    if bounds is None:
        raise node.refusal(f"of quantised integers with {operator.in_words()} behind it")
    least, most = (
        bound if np.isinf(limit) else int(quantized(np.array(limit), result))
        for limit, bound in zip(bounds, _ends_of(result), strict=True)
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

    Raises UnsupportedOperator where not all tensors are integers of 8 bits, or all of 16, and where
    some are rescaled in another arithmetic than the result.
    """
    types_all, result = [*node.input_types, node.layer.quantization], node.layer.quantization
    for types in types_all:
        if types is None or types.element not in ELEMENTS:
            what = "real numbers" if types is None else types.element.value
            raise node.refusal(f"with {what} in a network of quantised integers")
    assert result is not None
    if any(types and types.is_fixed_point != result.is_fixed_point for types in types_all):
        raise node.refusal("between integers in fixed point and in single precision")
    if any(types and types.element is not node.element for types in types_all):
        raise node.refusal("between integers of 8 and of 16 bits")
    return result


def input_type(node: LayerNode, index: int = 0) -> Quantization:
    """Return how an input is stored, which is quantised."""
    types = node.input_types[index]
    assert types is not None
    return types


def stored_type(node: LayerNode, role: str, element: Element = Element.INT8) -> Quantization:
    """Return how weights are stored. Raises UnsupportedOperator where not in that type."""
    quantization = node.layer.stored_as(role).quantization
    if quantization is None or quantization.element is not element:
        raise node.refusal(f"whose {role} is not stored as integers of {8 * element.bytes} bits")
    return quantization


def layer_rounds_once(layer: Layer) -> bool:
    """Whether a layer rounds its sums once, as fully connected layers of LiteRT."""
    return any(types.rounds_sums_once for types in layer.types(()).weights.values())


def scaling(node: LayerNode, role: str, *, has_whole_sums: bool = True) -> Fields:
    """Return the field `to`: how sums of products become stored integers. role: of the weights.

    has_whole_sums: whether the kernel makes sums at once, from initial ones.

    Fields that only some libraries need, such as zero points of weights, are in those libraries only.
    A kind of sums that all layers have is compiled into the kernels (`Tables.sum_kinds`).
    """
    weights, input_types, result = (
        stored_type(node, role),
        input_type(node),
        result_type(node),
    )
    is_short, is_fixed_point = result.element is Element.INT16, result.is_fixed_point
    bias = NULL
    if "bias" in node.weights:
        bias = node.symbol("bias", node.weights["bias"].astype(np.int64 if is_short else np.int32))
    fields: dict[str, object] = {
        "bias": f"FOLDED({_folded(node, role) if has_whole_sums else NULL}) {bias}"
        if node.tables.has_helium
        else bias
    }
    has_small_factors = has_narrow_sums = False
    if is_fixed_point:
        arrays = derived_arrays(node.layer, node.input_types)
        fields |= {name: node.derived(name) for name in ("multipliers", "exponents")}
        has_small_factors = not is_short and int(arrays["exponents"].max()) < 0
        has_narrow_sums = has_small_factors and _has_narrow_sums(
            node, role, arrays["multipliers"] != 0
        )
    else:
        fields["factors"] = node.derived("factors")
    if is_short and is_fixed_point:  # without zero points
        scatters = node.layer.operator.scatters_products
        fields |= {"zero_in": 0, "is_wide": scatters or has_wide_sums(input_types, node.weights)}
    else:
        fields |= {"zero_in": input_types.zero_point, "zero_out": result.zero_point}
    fields |= limit_fields(node)
    if node.tables.weights_have_zeros:
        fields["zero_with"] = weights.zero_point
    if is_fixed_point and node.tables.sums_round_once:
        fields["rounds_once"] = layer_rounds_once(node.layer)
        fields["further"] = node.derived("further") if "further" in arrays else NULL
    node.tables.sum_kinds.add((has_small_factors, has_narrow_sums))
    if node.tables.sums_are_mixed:
        fields |= {"has_small_factors": has_small_factors, "has_narrow_sums": has_narrow_sums}
    return {"to": fields}


def limit_fields(node: LayerNode) -> dict[str, int]:
    """Return the fields of the smallest and the largest value of the result."""
    least, most = limits_after_epilogue(node)
    return {"least": least, "most": most}


def _has_narrow_sums(node: LayerNode, role: str, counts: Array) -> bool:
    """Whether 30 bits hold each accumulator. counts: output channels with a nonzero multiplier."""
    if input_type(node).element is not Element.INT8:
        return True
    rows = np.abs(node.weights[role].reshape(len(node.weights[role]), -1).astype(np.int64))
    # The rows of a transposed convolution are those of its input channels.
    sums = rows.sum() if node.layer.operator.scatters_products else rows.sum(axis=1)
    products = MOST_VALUE * sums
    bias = node.weights["bias"].astype(np.int64) if "bias" in node.weights else np.int64(0)
    return bool(np.max(np.where(counts, np.abs(bias) + products, 0)) < 2**30)


def _folded(node: LayerNode, role: str) -> str:
    """Return the symbol of initial accumulators: bias minus zero point times the sum of weights.

    With them, kernels of Helium accumulate products of stored values, without zero points, in windows
    inside the input. NULL for other kernels, and where an accumulator would not fit 32 bits.
    """
    weights = node.weights[role]
    has_zeros = node.tables.weights_have_zeros
    if has_zeros or not initial_sums(node.layer, node.inputs, node.input_types):
        return NULL
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    bias = node.weights["bias"].astype(np.int64) if "bias" in node.weights else np.int64(0)
    begin = bias - input_type(node).zero_point * rows.sum(axis=1)
    if np.abs(begin).max() >= 2**31:
        return NULL
    symbol = node.computed(f"{role}_folded", begin.astype(np.int32))
    node.tables.folded.add(symbol)
    return symbol


def averaging(node: LayerNode, count: int, *, is_sum: bool = False) -> Fields:
    """Return the fields of the C structure `averaging`: the mean, or the sum, of `count` integers.

    In fixed point, the multiplier of a mean includes the division by `count`.
    """
    input_types, result = input_type(node), result_type(node)
    if count > 2 ** (31 - 8 * input_types.element.bytes):
        raise node.refusal(f"of {count} integers, whose sum may take more than 32 bits")
    ratio: Fields = {"given": input_types.scale, "result": result.scale}
    if result.is_fixed_point:
        integer, exponent = multiplier(input_types.scale / result.scale)
        shift = min(count.bit_length() - 1, 32, 31 + exponent)
        divided = ((integer << shift) // count, exponent - shift)
        ratio = factor_fields((integer, exponent) if is_sum else divided)
    return {"count": count, **ratio, **zero_fields(input_types, result)}


def factor_fields(pair: tuple[int, int], name: str = "") -> dict[str, int]:
    """Return the fields of a factor in fixed point: a multiplier and an exponent."""
    return {f"{name}multiplier": pair[0], f"{name}exponent": pair[1]}


def zero_fields(source: Quantization | None, result: Quantization | None) -> dict[str, int]:
    """Return the fields of the zero points; 0 for floating point."""
    zeros = [0 if types is None else types.zero_point for types in (source, result)]
    return {"zero_in": zeros[0], "zero_out": zeros[1]}


def scale_fields(source: Quantization, result: Quantization) -> Fields:
    """Return the fields of scales and zero points of a function in single precision."""
    return {"given": source.scale, "result": result.scale, **zero_fields(source, result)}


def table_symbol(node: LayerNode, table: LookupTable) -> str:
    """Return the symbol of a lookup table, whose function is computed for all 256 integers."""
    builder = NetworkBuilder("table")
    source = builder.input((1, 1, 256), element=Element.INT8, quantization=table.source)
    result_type(node)
    output = builder.add(
        *(table.operator, source), name="result", quantization=table.result, epilogue=table.epilogue
    )
    builder.output(output)
    model = Model(network=builder.network(), weights={output: node.weights})
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
    try:
        results = run_layer_by_layer(model, {source: values})["output"]
    except ExecutionError:
        raise node.refusal(f"of quantised integers: {table.operator.in_words()}") from None
    return node.computed("table", results)


def look_up_call(node: LayerNode) -> KernelCall:
    """Return the call for an elementwise function of int8, by a lookup table."""
    (table,) = node.lookup_tables
    if table is None:
        words = node.layer.operator.in_words()
        raise node.refusal(f"of integers of 16 bits: {words}")
    return node.call("look_up_region", "table", values=table_symbol(node, table))


def powers_of(node: LayerNode) -> Fields:
    """Return multiplier and exponent of the differences in a softmax, and the minimum that counts."""
    scale = float(np.float32(input_type(node).scale))
    integer, exponent = multiplier(min(scale * 2**26, INT32_MAX))
    if exponent < 0:
        raise node.refusal("of quantised integers with so small a scale")
    least = max(-int(31 * 2**26 // 2**exponent), -256)
    return {**factor_fields((integer, exponent)), "least": least}


def by_columns(node: LayerNode) -> LayerNode:
    """Return a product with the matrix of its weights transposed, in the order of a dense layer."""
    matrix = np.ascontiguousarray(node.weights["matrix"].T)
    return replace(node, weights={**node.weights, "matrix": matrix})


def packed_rows(kernel: Array, _groups: int) -> Array:
    """Return filters (filters, inputs, rows, columns) as integers.c reads them.

    Filter by filter, in each tap by tap, input by input.
    """
    return kernel.transpose(0, 2, 3, 1).reshape(-1)


def single_steps(node: LayerNode) -> list[str]:
    """Return the conversion step after a layer that moves elements; empty if types are equal."""
    operator, table = node.layer.operator, node.lookup_tables[0]
    are_alike = node.input_types[0] == node.layer.quantization
    if not operator.picks_elements or operator.joined_axis is not None:
        return []
    if table is None:
        if None not in (*node.input_types[:1], node.layer.quantization) and not are_alike:
            raise node.refusal("of integers of 16 bits with another scale than the result")
        return []
    node.tables.wanted.add("step_look_up")
    return [step_initialiser("step_look_up", values=table_symbol(node, table))]


def single_conversion(node: LayerNode, _operator: op.Conversion) -> KernelCall:
    """Return the call that stores real numbers, makes integers real, or changes their scale."""
    input_types, result = node.input_types[0], node.layer.quantization
    if input_types is not None and result is not None:
        if result.element is Element.INT8:
            return KernelCall("copy_region") if input_types == result else look_up_call(node)
        result_type(node)
        scales = {"given": input_types.scale, "result": result.scale}
        return node.call(
            "restate_region", "restating", **scales, **zero_fields(input_types, result)
        )
    types = input_types or result
    if types is None or types.element is not node.element:
        raise node.refusal(f"of other elements than {node.element.value} and single precision")
    function = "widen_region" if input_types else "round_region"
    return node.call(function, "rounding", scale=types.scale, zero=types.zero_point)


def _pooling(node: LayerNode, operator: op.Pooling) -> KernelCall:
    if operator.function == "max":
        return pooling_call(node, operator)
    windows = pooling_fields(operator.window, counts_padding=operator.counts_padding)
    return node.call("pool_scaled", "scaled_pooling", windows=windows, to=averaging(node, 1))


def _global_pooling(node: LayerNode, operator: op.GlobalPooling) -> KernelCall:
    if operator.function != "average":
        raise node.refusal(f"of quantised integers: {operator.in_words()}")
    return mean_call(node, (1, 2), node.inputs[0].height * node.inputs[0].width, keeps=True)


def mean_call(
    node: LayerNode, axes: Sequence[int], count: int, *, keeps: bool, is_sum: bool = False
) -> KernelCall:
    """Return the call for sums along axes, over their number or as they are."""
    over = cube(node, axes, reduced_to(node, axes, keeps=keeps))
    to = averaging(node, count, is_sum=is_sum)
    return node.call("average", "mean_over", axes=over, to=to)


def _softmax(node: LayerNode, operator: op.Softmax) -> KernelCall:
    result = result_type(node)
    if operator.is_logarithm or result.element is not Element.INT8:
        what = "its logarithm" if operator.is_logarithm else "16 bits in single precision"
        raise node.refusal(f"of quantised integers: {what}")
    fields = {"axes": cube(node, operator.axes), "powers": node.derived("powers")}
    ends = {"scale": result.scale, "zero": result.zero_point}
    return node.call("share_by_table", "sharing_by_table", **fields, **ends)


KINDS = {
    "add": "REAL_SUM",
    "subtract": "REAL_DIFFERENCE",
    "multiply": "REAL_PRODUCT",
    "divide": "REAL_QUOTIENT",
    "maximum": "REAL_LARGEST",
    "minimum": "REAL_LEAST",
}


def _elementwise(node: LayerNode, operator: op.Elementwise) -> KernelCall:
    result, symbol = result_type(node), None
    if operator.constant is not None:
        symbol = node.symbol("constant", node.weights["constant"].astype(np.float32))
    read_operands, places = operands(node, operator, symbol)
    real_operands = []
    for operand in read_operands:
        types = None if operand.values is not None else input_type(node, operand.input)
        numbers = (types.scale, types.zero_point) if types else (0, 0)
        at = operand._replace(values=None)._asdict()
        real_operands.append(
            {"at": at, "reals": operand.values, "scale": numbers[0], "zero": numbers[1]}
        )
    kind = KINDS.get(operator.function)
    if kind is None or len(real_operands) != 2:
        raise node.refusal(
            f"of quantised integers: {operator.function} of {len(real_operands)} tensors"
        )
    node.tables.wanted.update((kind, "operand", "real_operand"))
    ends = {"scale": result.scale, "zero": result.zero_point}
    return node.call(
        "combine_in_single", "joining_reals", each=real_operands, pixels=places, kind=kind, **ends
    )


def _activation(node: LayerNode, operator: op.Activation) -> KernelCall:
    if operator.function == "prelu":
        return _changing(node, {"slope": node.weights["slope"]})
    if operator.is_limit and input_type(node) == result_type(node):
        return KernelCall("copy_region")
    return look_up_call(node)


def _normalization(node: LayerNode, operator: op.BatchNormalization) -> KernelCall:
    """Factor and offset of each channel, in the single precision in which they are computed."""
    arrays = node.weights
    factor = arrays["scale"] / np.sqrt(arrays["variance"] + operator.epsilon)
    return _changing(node, {"scale": factor, "shift": arrays["shift"] - arrays["mean"] * factor})


def _changing(node: LayerNode, arrays: Mapping[str, Array]) -> KernelCall:
    input_types, result, shape = input_type(node), result_type(node), node.layer.shape
    symbols: list[str | None] = []
    for role, array in arrays.items():
        if array.dtype != np.float32:
            raise node.refusal(f"of quantised integers with numbers in {array.dtype}")
        spread = array if shape.is_map else np.repeat(array, shape.elements // len(array))
        symbols.append(node.symbol(role, spread))
    factors, offsets = (*symbols, None)[:2]
    scales = scale_fields(input_types, result)
    return node.call("change_region", "changing", factors=factors, offsets=offsets, **scales)


def _matrix_product(node: LayerNode, operator: op.MatrixProduct) -> KernelCall:
    """A product with integer accumulators, and the factors that round as floating-point sums do."""
    input_types, result = input_type(node), result_type(node)
    if result.element is not Element.INT8:
        raise node.refusal("of integers of 16 bits")
    fields, matrix, bias, largest_bias = product_fields(node, operator.units), None, None, 0
    # most: the largest magnitude of a factor, for the bound on rounding errors of the sum.
    if operator.units is None:
        factors = input_type(node, 1)
        most = max(127 - factors.zero_point, 128 + factors.zero_point)
    else:
        factors, turned = stored_type(node, "matrix"), by_columns(node).weights["matrix"]
        matrix = node.symbol("matrix", turned)
        most = int(np.abs(turned.astype(np.int64) - factors.zero_point).max())
        if operator.has_bias:
            bias = node.symbol("bias", node.weights["bias"].astype(np.int32))
            largest_bias = int(np.abs(node.weights["bias"]).max())
    inner = node.inputs[0].dims[-1]
    if (inner + 1) * 2**16 + largest_bias >= 2**31:  # a product is below 2**16
        raise node.refusal(f"of {inner} integers, whose sum may take more than 32 bits")
    return node.call(
        "multiply_as_reals",
        "product_in_single",
        axes=fields,
        values=matrix,
        bias=bias,
        steps=node.derived("steps"),
        ratios=node.derived("ratios"),
        has_many=len(factors.scales) > 1,
        zero=(input_types.zero_point, factors.zero_point),
        zero_out=result.zero_point,
        most=most,
        block=columns_at_once(inner, node.layer.shape.dims[-1]),
        step=input_types.scale,
        scale=result.scale,
    )


def attending(
    node: LayerNode, operator: op.AttentionProduct, types: Sequence[Quantization]
) -> Fields:
    """Return the fields of the C structure `attending`, of attention between integers."""
    zeros = tuple(quantization.zero_point for quantization in types)
    is_sum = operator.gives == "values"
    return {"at": attention_fields(node, operator), "sums_rows": is_sum, "zero": zeros}


def _attention(node: LayerNode, operator: op.AttentionProduct) -> KernelCall:
    result, kinds = result_type(node), (input_type(node), input_type(node, 1))
    if result.element is not Element.INT8:
        raise node.refusal("of integers of 16 bits")
    fields = attention_fields(node, operator)
    keys, width = fields["keys"], fields["width"]
    inner, results = (width, keys) if operator.gives == "scores" else (keys, width)
    _, (ratio,) = product_factors(*kinds, result)
    zero = kinds[1].zero_point
    return node.call(
        "attend_as_reals",
        "attending_in_single",
        numbers=attending(node, operator, kinds),
        zero_out=result.zero_point,
        most=max(127 - zero, 128 + zero),
        block=columns_at_once(inner, results),
        steps=tuple(kind.scale for kind in kinds),
        ratio=float(ratio),
        scale=result.scale,
    )


def product_convolution(
    node: LayerNode, operator: op.Convolution, packed: Array | None
) -> KernelCall:
    """Return the call for a convolution that is a product of matrices in the file."""
    types, input_types, kernel = (
        stored_type(node, "kernel"),
        input_type(node),
        node.weights["kernel"],
    )
    filters = packed_rows(kernel, 1) if packed is None else packed
    most = int(np.abs(kernel.astype(np.int64) - types.zero_point).max())
    steps = node.derived("steps") if len(types.scales) > 1 else None
    sums = scaling(node, "kernel", has_whole_sums=False)
    return node.call(
        "convolve_as_reals",
        "product_convolution",
        of={**convolution_fields(node, operator, filters), **sums},
        steps=steps,
        most=most,
        block=operator.block,
        given=input_types.scale,
        step=types.scale,
        scale=result_type(node).scale,
    )


def _layer_normalization(node: LayerNode, operator: op.LayerNormalization) -> KernelCall:
    input_types, result = input_type(node), result_type(node)
    rank = len(node.layer.shape.dims)
    axes = range(operator.axis, rank if operator.last is None else operator.last + 1)
    return node.call(
        "standardise_as_reals",
        "standardising",
        axes=cube(node, axes),
        scales=node.symbol("scale", node.weights["scale"]),
        shifts=node.optional("shift"),
        **scale_fields(input_types, result),
        epsilon=float(np.float32(operator.epsilon)),
    )


def rescaled_concatenation(node: LayerNode, operator: op.Concatenation) -> KernelCall:
    """Inputs with another scale than the result pass through a table each."""
    result = result_type(node)
    if all(types == result for types in node.input_types):
        return call_of(node)
    tables = [
        {"values": None if table is None else table_symbol(node, table)}
        for table in node.lookup_tables
    ]
    node.tables.wanted.add("table")
    listed = node.table("table", "tables", tables)
    dims, axis = node.layer.shape.dims, operator.axis
    if node.layer.shape.is_map:
        return node.call("join_by_tables", "joining_by_tables", axis=axis, pieces=1, tables=listed)
    pieces = prod(dims[:axis])
    return node.call(
        "join_pieces_by_tables", "joining_by_tables", axis=3, pieces=pieces, tables=listed
    )


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
