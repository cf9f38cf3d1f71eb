"""Kernel calls of integer layers in single precision, as ONNX Runtime computes them.

Integers are summed as integers, and rescaled by a factor in single precision with one rounding. The
formulas are those of `cnn2csdf.fixed_point.single_precision`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.single_precision import columns_at_once, product_factors
from cnn2csdf.weights import Array
from planners.code.calls.emitters import Emitter, Numbers, register
from planners.code.calls.layers import (
    call_of,
    convolution_fields,
    operands,
    pooling_call,
    pooling_fields,
    step_initialiser,
)
from planners.code.calls.moves import joined_fields
from planners.code.calls.reductions import attention_fields, cube_fields, product_fields
from planners.code.calls.rescaling import (
    attending,
    averaging,
    by_columns,
    input_type,
    look_up_call,
    mean_call,
    packed_rows,
    result_type,
    scaling,
    stored_type,
    table_symbol,
    zero_fields,
)
from planners.code.layer_descriptor import Fields, KernelCall, LayerNode


def scale_fields(source: Quantization, result: Quantization) -> Fields:
    """Return the fields of scales and zero points of a function in single precision."""
    return {"given": source.scale, "result": result.scale, **zero_fields(source, result)}


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
    return [step_initialiser("step_look_up", arrays=(table_symbol(node, table), None))]


def single_conversion(node: LayerNode, _operator: op.Conversion) -> KernelCall:
    """Return the call that stores real numbers, makes integers real, or changes their scale."""
    input_types, result = node.input_types[0], node.layer.quantization
    if input_types is not None and result is not None:
        if result.element is Element.INT8:
            return KernelCall("copy_region") if input_types == result else look_up_call(node)
        result_type(node)
        return node.call("restate_region", "restating", **scale_fields(input_types, result))
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


def _softmax(node: LayerNode, operator: op.Softmax) -> KernelCall:
    """A softmax by a table of powers of differences from the maximum: `softmax_by_table`."""
    result = result_type(node)
    if operator.is_logarithm or result.element is not Element.INT8:
        what = "its logarithm" if operator.is_logarithm else "16 bits in single precision"
        raise node.refusal(f"of quantised integers: {what}")
    fields = {"axes": cube_fields(node, operator.axes), "powers": node.derived("powers")}
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
        scale, zero = (types.scale, types.zero_point) if types else (0, 0)
        at = operand._replace(values=None)._asdict()
        real_operands.append({"at": at, "reals": operand.values, "scale": scale, "zero": zero})
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
    if operator.limits is not None and input_type(node) == result_type(node):
        return KernelCall("copy_region")  # the limits are a step after it, see `integer_steps`
    return look_up_call(node)


def _normalization(node: LayerNode, operator: op.BatchNormalization) -> KernelCall:
    """Factor and offset of each channel, in the single precision in which they are computed."""
    factors, offsets = operator.factors_and_offsets(node.weights)
    return _changing(node, {"scale": factors, "shift": offsets})


def _changing(node: LayerNode, arrays: Mapping[str, Array]) -> KernelCall:
    """A function with one or two real parameters for each channel."""
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
    # The largest magnitude in the second matrix bounds the rounding errors of the runtime's sums.
    if operator.units is None:
        factors = input_type(node, 1)
        magnitude = _largest_magnitude(factors)
    else:
        factors, turned = stored_type(node, "matrix"), by_columns(node).weights["matrix"]
        matrix = node.symbol("matrix", turned)
        magnitude = int(np.abs(turned.astype(np.int64) - factors.zero_point).max())
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
        steps=node.derived("steps"),  # scales of the columns of the second matrix
        ratios=node.derived("ratios"),  # of the sums' scales to the scale of the result
        has_many=len(factors.scales) > 1,
        zero=(input_types.zero_point, factors.zero_point),
        zero_out=result.zero_point,
        most=magnitude,
        block=columns_at_once(inner, node.layer.shape.dims[-1]),
        step=input_types.scale,
        scale=result.scale,
    )


def _largest_magnitude(types: Quantization) -> int:
    """Return the largest magnitude of an 8-bit integer less its zero point."""
    limits = np.iinfo(np.int8)
    return int(max(limits.max - types.zero_point, types.zero_point - limits.min))


def _attention(node: LayerNode, operator: op.AttentionProduct) -> KernelCall:
    result, kinds = result_type(node), (input_type(node), input_type(node, 1))
    if result.element is not Element.INT8:
        raise node.refusal("of integers of 16 bits")
    fields = attention_fields(node, operator)
    keys, width = fields["keys"], fields["width"]
    inner, results = (width, keys) if operator.gives == "scores" else (keys, width)
    _, (ratio,) = product_factors(*kinds, result)
    return node.call(
        "attend_as_reals",
        "attending_in_single",
        numbers=attending(node, operator, kinds),
        zero_out=result.zero_point,
        most=_largest_magnitude(kinds[1]),
        block=columns_at_once(inner, results),
        steps=tuple(kind.scale for kind in kinds),
        ratio=float(ratio),
        scale=result.scale,
    )


def product_convolution(
    node: LayerNode, operator: op.Convolution, packed: Array | None
) -> KernelCall:
    """Return the call for a convolution that is a product of matrices in the file."""
    types, input_types = stored_type(node, "kernel"), input_type(node)
    kernel = node.weights["kernel"]
    filters = packed_rows(kernel, 1) if packed is None else packed
    magnitude = int(np.abs(kernel.astype(np.int64) - types.zero_point).max())
    steps = node.derived("steps") if len(types.scales) > 1 else None
    sums = scaling(node, "kernel", reads_initial_sums=False)
    return node.call(
        "convolve_as_reals",
        "product_convolution",
        of={**convolution_fields(node, operator, filters), **sums},
        steps=steps,
        most=magnitude,
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
        axes=cube_fields(node, axes),
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
    kernel = "join_by_tables" if node.layer.shape.is_map else "join_pieces_by_tables"
    fields = joined_fields(node, operator.axis)
    return node.call(kernel, "joining_by_tables", **fields, tables=listed)


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
