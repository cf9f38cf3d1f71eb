"""C calls of quantised layers, bit-identical to their execution by cnn2csdf.

They cover int8 and int16 layers, conversions between the two, and recurrent layers.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.arithmetic import addition_ratios, squared_ratio
from cnn2csdf.fixed_point.functions import (
    factor_to_steps,
    power_to_steps,
    softmax_multiplier,
)
from cnn2csdf.integers import multiplier, quantized
from cnn2csdf.operators.recurrences import CELL_GATES, GATE_POWER, SHORT, sum_multiplier, svdf_ratio
from cnn2csdf.operators.resizes import SINGLE_PRECISION
from cnn2csdf.quantized_layers import goes_by_table, is_of_one_element
from cnn2csdf.weights import Array
from planners.code.c_text import NULL
from planners.code.calls.emitters import Emitter, Numbers, emitter_of, register
from planners.code.calls.layers import (
    call_of,
    convolution_call,
    convolve_call,
    fully_connected_call,
    mean_offset,
    operands,
    pooling_call,
    row_order,
    step_initialiser,
    transposed_call,
)
from planners.code.calls.moves import pad_call, scattering_call
from planners.code.calls.reductions import cube_fields, detections_call, product_fields, result_axes
from planners.code.calls.rescaling import (
    ELEMENTS,
    attending,
    averaging,
    by_columns,
    factor_fields,
    input_type,
    limit_fields,
    limits_of,
    look_up_call,
    mean_call,
    packed_rows,
    result_type,
    scaling,
    softmax_fields,
    stored_type,
    zero_fields,
)
from planners.code.calls.single_layers import (
    product_convolution,
    rescaled_concatenation,
    single_conversion,
    single_steps,
)
from planners.code.layer_descriptor import Fields, KernelCall, LayerNode

KERNELS = {
    "add": "add_tensors",
    "subtract": "add_tensors",
    "multiply": "multiply_tensors",
    "squared difference": "square_difference",
    "maximum": "larger_of_tensors",
    "minimum": "smaller_of_tensors",
}
POWERS = range(-30, 3)  # of two: scales of cells whose steps have room in 32 bits
OTHER_SCALES = "with other scales before than behind it"
REAL_BYTES = 4
WIDTHS = "between integers of 8 and of 16 bits"


def integer_call(node: LayerNode, packed: Array | None = None) -> KernelCall:
    """Return the call for a layer that computes its result row by row.

    packed: the weights of a convolution in the order of its kernel; by default they are packed here.
    Raises UnsupportedOperator, naming the layer, if it has no kernel.
    """
    operator = node.layer.operator
    types = [
        tensor_types
        for tensor_types in (*node.input_types, node.layer.quantization)
        if tensor_types is not None
    ]
    if any(tensor_types.element is not node.element for tensor_types in types):
        return _wide_call(node)
    if node.lookup_tables[0] is not None and is_of_one_element(node.layer):
        return look_up_call(node)
    if packed is not None:
        return _convolution(node, operator, packed)
    mixed = emitter_of(operator, Numbers.MIXED)
    if mixed is not None:
        return mixed(node, operator)
    to_real = emitter_of(operator, Numbers.TO_REAL)
    if to_real is not None and node.layer.quantization is None:
        if node.layer.epilogue:
            raise node.refusal("of integers with functions fused behind it")
        return to_real(node, operator)
    if operator.moves or (operator.picks_elements and operator.reduction is None):
        return _moved(node, operator)
    arithmetics = (Numbers.SINGLE, Numbers.FIXED) if _is_single(node) else (Numbers.FIXED,)
    emitter = emitter_of(operator, *arithmetics)
    if emitter is None:
        raise node.refusal("of quantised integers")
    result_type(node)
    return emitter(node, operator)


def _moved(node: LayerNode, operator: Any) -> KernelCall:
    """The call for a layer that moves elements, as for floating point if no scale changes."""
    result_type(node)
    is_joined = operator.joined_axis is not None
    if _is_single(node) and is_joined:
        return rescaled_concatenation(node, operator)
    if not _is_single(node) and set(node.input_types) != {node.layer.quantization}:
        if is_joined and result_type(node).is_unsigned:
            return rescaled_concatenation(node, operator)
        raise node.refusal("of inputs with other scales than the result")
    return call_of(node)


def _gather_points(node: LayerNode, _operator: op.GatherPoints) -> KernelCall:
    if node.input_types != (node.layer.quantization, None) or node.layer.quantization is None:
        raise node.refusal("of integers with another scale than the result")
    return call_of(node)


def _embedding(node: LayerNode, operator: op.Embedding) -> KernelCall:
    if node.input_types != (None,):
        raise node.refusal("of positions that are quantised integers")
    table = node.symbol("table", node.weights["table"])
    return node.call("look_up_integers", "embedding", entries=operator.entries, table=table)


def integer_sums_call(node: LayerNode) -> KernelCall:
    """Return the call for a layer that accumulates its input row by row."""
    if node.layer.operator.scatters_rows:
        return scattering_call(node)
    result_type(node)
    units = node.layer.operator.dense_units
    if units is None:
        return KernelCall("sum_row", _summing(node))
    matrix = row_order(node.weights["matrix"], node.inputs[0])
    rows = matrix.reshape(units, node.inputs[0].rows, -1).transpose(1, 0, 2)
    weights = node.symbol("matrix", rows)
    sums = scaling(node, "matrix", reads_initial_sums=False)
    return node.call("sum_fully", "matrix", units=units, weights=weights, **sums)


def integer_channels_calls(first: LayerNode, last: LayerNode) -> tuple[KernelCall, KernelCall]:
    """Return the calls for a convolution and the reduction over each of its output channels."""
    result_type(last)
    convolution = convolve_call(first, packed_rows, scaling)
    return KernelCall(NULL, convolution.parameters), KernelCall("sum_channels", _summing(last))


def integer_steps(node: LayerNode) -> list[str]:
    """Return the initialisers of the in-place steps after a layer; first the layer if it is a step.

    Layers that requantise accumulators need no such steps for limits: their kernels clamp.
    """
    operator = node.layer.operator
    is_combined = operator.elementwise_function is not None and not _is_single(node)
    if operator.bias_axis == 0 or operator.scatters_products or is_combined:
        return []
    operators = [] if goes_by_table(node.layer) else [*node.layer.epilogue]
    if operator.limits is not None and input_type(node) == result_type(node):
        operators.insert(0, operator)
    steps = single_steps(node) if _is_single(node) else []
    for behind in operators:
        low, high = limits_of(node, behind)
        node.tables.wanted.add("step_limits")
        steps.append(step_initialiser("step_limits", (low, high)))
    return steps


def _is_short(node: LayerNode) -> bool:
    result = node.layer.quantization
    return result is not None and result.element is Element.INT16


def _is_single(node: LayerNode) -> bool:
    """Whether an input or the output is requantised in single precision."""
    return any(
        types and not types.is_fixed_point for types in (*node.input_types, node.layer.quantization)
    )


def _pooling(node: LayerNode, operator: op.Pooling) -> KernelCall:
    if input_type(node) != result_type(node):
        raise node.refusal(OTHER_SCALES)
    return pooling_call(node, operator)


def _summing(node: LayerNode) -> str:
    """The address of the structure of a pooling or reduction that accumulates rows or channels."""
    source, operator = node.inputs[0], node.layer.operator
    window, function = operator.sliding_window, operator.reduction
    if function not in ("max", "mean", "sum") or (function == "sum" and _is_single(node)):
        raise node.refusal("of quantised integers, row by row")
    if window is not None and (function == "max" or not _is_single(node)):
        if not _is_single(node) and input_type(node) != result_type(node):
            raise node.refusal(OTHER_SCALES)
        # The fields of `averaging`: without a change of scale, count and zero_in are read alone.
        unscaled = (prod(window.extent), 0, 0, mean_offset(operator), 0)
        kind = "SUM_LARGEST" if function == "max" else "SUM_MEAN"
        return _summed(node, window.extent, kind, unscaled)
    size = (source.height, source.width) if window is None else window.extent
    if function != "max":
        numbers = averaging(node, prod(size), is_sum=function == "sum")
        return _summed(node, size, "SUM_AVERAGE", numbers)
    if operator.picks_elements or not _is_single(node):
        return _summed(node, size, "SUM_LARGEST", (1, 0, 0, 0, 0))
    raise node.refusal("of quantised integers, row by row")


def _summed(node: LayerNode, size: tuple[int, int], kind: str, to: object) -> str:
    """The address of a structure `summing`. size: rows, columns; to: fields of `averaging`."""
    return node.structure("summing", rows=size[0], columns=size[1], kind=kind, to=to)


def _reduction(node: LayerNode, operator: op.Reduction) -> KernelCall:
    axes = tuple(sorted(operator.axes))
    if _is_single(node) and operator.function != "mean":
        raise node.refusal(f"of quantised integers: {operator.in_words()}")
    match operator.function:
        case "mean" | "sum" as function:
            count = prod(node.inputs[0].dims[axis] for axis in axes)
            is_sum = function == "sum"
            return mean_call(node, axes, count, keeps=operator.keeps, is_sum=is_sum)
        case "max" | "min" as function:
            over = cube_fields(node, axes, result_axes(node, axes, keeps=operator.keeps))
            sign = 1 if function == "max" else -1
            return node.call("reduce_extreme", "extreme_over", axes=over, sign=sign)
    raise node.refusal(f"of quantised integers: {operator.in_words()}")


def _softmax(node: LayerNode, operator: op.Softmax) -> KernelCall:
    """A softmax with results in units of 2 ** -8; for int16, by tables, in units of 2 ** -15."""
    if _is_short(node):
        if operator.is_logarithm:
            raise node.refusal("of quantised integers: its logarithm")
        result_type(node)
        over = cube_fields(node, operator.axes)
        tables = {role: node.derived(role) for role in ("powers", "reciprocals")}
        ratio = factor_fields(softmax_multiplier(input_type(node).scale))
        return node.call("softmax_short", "softmax_by_tables", axes=over, **tables, **ratio)
    result = result_type(node)
    if operator.is_logarithm or (result.scale, result.zero_point) != (1 / 256, -128):
        raise node.refusal("of quantised integers, but to shares of 256")
    over = cube_fields(node, operator.axes)
    return node.call("softmax", "softmax_over", axes=over, **softmax_fields(node))


def _elementwise(node: LayerNode, operator: op.Elementwise) -> KernelCall:
    """An operator of two tensors, or of a tensor and a constant, of which each has a factor."""
    types = [input_type(node, index) for index in range(len(node.inputs))]
    result, symbol = result_type(node), None
    if operator.constant is not None:
        constant = stored_type(node, "constant", result.element)
        types.insert(0 if operator.constant_first else len(types), constant)
        symbol = node.symbol("constant", node.weights["constant"])
    fields, places = operands(node, operator, symbol)
    kernel = KERNELS.get(operator.function)
    if len(fields) != 2 or kernel is None:
        raise node.refusal(f"of quantised integers: {operator.function} of {len(fields)} tensors")
    pairs = [multiplier(ratio) for ratio in addition_ratios(types, result)]
    match operator.function:
        case "multiply":
            ratio = types[0].scale * types[1].scale / result.scale
            pairs = [(0, 0), (0, 0), multiplier(ratio)]
        case "squared difference":
            step = 2 * max(operand.scale for operand in types)
            pairs[2] = multiplier(squared_ratio(step, result))
    node.tables.wanted.add("operand")
    multipliers, exponents = zip(*pairs, strict=True)
    return node.call(
        kernel,
        "combining",
        each=[operand._asdict() for operand in fields],
        pixels=places,
        zero=(types[0].zero_point, types[1].zero_point),
        zero_out=result.zero_point,
        sign=-1 if operator.function == "subtract" else 1,
        **limit_fields(node),
        multiplier=multipliers,
        exponent=exponents,
    )


def _attention(node: LayerNode, operator: op.AttentionProduct) -> KernelCall:
    result, kinds = result_type(node), (input_type(node), input_type(node, 1))
    if _is_short(node):
        raise node.refusal("of integers of 16 bits")
    pair = multiplier(kinds[0].scale * kinds[1].scale / result.scale)
    ends = {"zero_out": result.zero_point, **factor_fields(pair)}
    numbers = attending(node, operator, kinds)
    return node.call("attend_in_integers", "attending_in_fixed", numbers=numbers, **ends)


def _convolution(node: LayerNode, operator: Any, packed: Array | None = None) -> KernelCall:
    if operator.block is not None and _is_single(node) and not _is_short(node):
        return product_convolution(node, operator, packed)
    return convolution_call(node, operator, packed_rows, scaling, packed)


def _matrix_product(node: LayerNode, operator: op.MatrixProduct) -> KernelCall:
    result = result_type(node)
    if _is_short(node):
        raise node.refusal("of integers of 16 bits")
    fields = product_fields(node, operator.units)
    if operator.units is not None:
        turned = by_columns(node)
        matrix = node.symbol("matrix", turned.weights["matrix"])
        sums = scaling(turned, "matrix")
        numbers = {"axes": fields, "values": matrix, **sums}
        return node.call("multiply_by_trained", "trained_product", **numbers)
    input_types, second_types = input_type(node), input_type(node, 1)
    pair = multiplier(input_types.scale * second_types.scale / result.scale)
    zeros = (input_types.zero_point, second_types.zero_point)
    ends = {"zero": zeros, "zero_out": result.zero_point, **factor_fields(pair)}
    return node.call("multiply_both", "product_of_two", axes=fields, **ends)


def _activation(node: LayerNode, operator: op.Activation) -> KernelCall:
    input_types = input_type(node)
    if operator.function == "prelu":
        # Integers below zero times a slope for each channel, which is an integer too.
        slopes, result = stored_type(node, "slope"), result_type(node)
        shape, values = node.layer.shape, node.weights["slope"]
        if not shape.is_map:
            values = np.repeat(values, shape.elements // len(values))
        above = multiplier(input_types.scale / result.scale)
        below = multiplier(input_types.scale * slopes.scale / result.scale)
        return node.call(
            "slope_region",
            "sloping",
            slopes=node.symbol("slope", values),
            **factor_fields(above),
            **factor_fields(below, "below_"),
            **zero_fields(input_types, result),
            zero_slope=slopes.zero_point,
        )
    result = result_type(node)
    if operator.limits is not None and input_types == result:
        return KernelCall("copy_region")
    above = multiplier(input_types.scale / result.scale)
    match operator.function, operator.parameters:
        case "sigmoid" | "tanh" as function, _:
            ratio = factor_to_steps(function, input_types.scale)
            curve = _curve(node, *ratio, is_odd=function == "tanh")
            return node.call("curve_region", "curve", **curve)
        case "relu", _:
            return _bend(node, above, (0, 0), 1)
        case "leaky relu", (slope,):
            single = float(np.float32(slope))
            below = multiplier(input_types.scale * abs(single) / result.scale)
            return _bend(node, above, below, 1 if single >= 0 else -1)
    raise node.refusal(f"of integers of 16 bits: {operator.in_words()}")


def _bend(node: LayerNode, above: tuple[int, int], below: tuple[int, int], sign: int) -> KernelCall:
    """A function of two lines that meet at zero, with the factors and the sign of the slope below."""
    factors = {**factor_fields(above), **factor_fields(below, "below_")}
    return node.call("bend_region", "bending", **factors, sign=sign)


def _curve(node: LayerNode, factor: int, shift: int, *, is_odd: bool) -> Fields:
    """The fields of the C structure `curve`."""
    steps = {"factor": factor, "half": (1 << shift) >> 1, "shift": shift, "is_odd": is_odd}
    return {"values": node.derived("curve"), **steps}


def _conversion(node: LayerNode, _operator: op.Conversion) -> KernelCall:
    input_types, result = node.input_types[0], node.layer.quantization
    if input_types is not None and result is not None:
        result_type(node)
        if input_types == result:
            return KernelCall("copy_region")
        pair = multiplier(input_types.scale / result.scale)
        zeros = zero_fields(input_types, result)
        return node.call("rescale_region", "converting", **factor_fields(pair), **zeros, scale=0)
    types = input_types or result
    if types is None or types.element not in ELEMENTS:
        raise node.refusal("of other elements than integers of 8 or 16 bits and single precision")
    numbers = {**factor_fields((0, 0)), **zero_fields(input_types, result), "scale": types.scale}
    function = "dequantize_region" if input_types else "quantize_region"
    return node.call(function, "converting", **numbers)


def _pad(node: LayerNode, operator: op.Pad) -> KernelCall:
    if input_type(node) != result_type(node):
        raise node.refusal(OTHER_SCALES)
    return pad_call(node, operator, int(quantized(np.array(operator.value), result_type(node))))


def _wide_call(node: LayerNode) -> KernelCall:
    """The call for a layer whose input or output has another width than the arena."""
    types, emitter = (
        (node.input_types[0], node.layer.quantization),
        emitter_of(node.layer.operator, Numbers.WIDE),
    )
    is_fixed_point = all(kind is not None and kind.is_fixed_point for kind in types)
    is_plain = node.element is Element.INT8 and is_fixed_point and not node.layer.epilogue
    if emitter is None or not is_plain:
        raise node.refusal(WIDTHS)
    return emitter(node, node.layer.operator)


def _wide_conversion(node: LayerNode, _operator: op.Conversion) -> KernelCall:
    input_types, result = node.input_types[0], node.layer.quantization
    assert input_types is not None
    assert result is not None
    if input_types.element not in ELEMENTS or result.element not in (*ELEMENTS, Element.INT32):
        raise node.refusal(WIDTHS)
    pair = multiplier(input_types.scale / result.scale)
    sizes = {"bytes_in": input_types.element.bytes, "bytes_out": result.element.bytes}
    numbers = {**factor_fields(pair), **zero_fields(input_types, result), **sizes}
    return node.call("widen_region", "widening", **numbers)


def _wide_softmax(node: LayerNode, operator: op.Softmax) -> KernelCall:
    """A softmax of contiguous int8 elements with int16 results."""
    input_types, result, shape = node.input_types[0], node.layer.quantization, node.layer.shape
    assert input_types is not None
    assert result is not None
    along = prod(shape.dims[axis] for axis in operator.axes)
    elements = (input_types.element, result.element)
    is_together = along == shape.row_elements // shape.width
    if elements != (Element.INT8, Element.INT16) or operator.is_logarithm or not is_together:
        raise node.refusal(f"of {elements[0].value} to {elements[1].value}")
    over = cube_fields(node, operator.axes)
    return node.call("softmax_wide", "softmax_over", axes=over, **softmax_fields(node))


def _lstm(node: LayerNode, operator: op.QuantizedLstm) -> KernelCall:
    """A quantised LSTM with 16-bit cells."""
    input_types, result = input_type(node), result_type(node)
    if node.inputs[0].is_map and operator.keeps is None:
        raise node.refusal("over the rows of a map, from rest in each frame")
    power = round(log2(operator.cell_scale))
    if not result.is_fixed_point or power not in POWERS:
        raise node.refusal(f"of quantised integers with cells of the scale {operator.cell_scale}")
    frames, elements = operator.sequence(node.inputs[0])
    frames = 1 if node.inputs[0].is_map else frames  # of a row
    limit = SHORT if operator.clip is None else operator.clip
    node.tables.wanted.update(("lstm_gate", "curve"))
    ratios = [  # of what a cell keeps, adds and gives
        multiplier(2.0**GATE_POWER),
        multiplier(2.0 ** (2 * GATE_POWER) / operator.cell_scale),
        multiplier(2.0 ** (2 * GATE_POWER) / result.scale),
    ]
    multipliers, exponents = zip(*ratios, strict=True)
    return node.call(
        "lstm_frames" if operator.keeps is None else "lstm_with_state",
        "lstm",
        gates=[_gate(node, gate, input_types, result) for gate in CELL_GATES],
        tanh_table=_curve(node, *power_to_steps(power), is_odd=True),
        units=operator.units,
        frames=frames,
        elements=elements,
        **zero_fields(input_types, result),
        limit=limit,
        multipliers=multipliers,
        exponents=exponents,
    )


def _gate(node: LayerNode, gate: str, given: Quantization, result: Quantization) -> Fields:
    """The fields of the C structure `lstm_gate`."""
    symbols: dict[str, str] = {}
    ratios: dict[str, int] = {}
    for role, field, prefix, read in (
        (f"{gate} matrix", "matrix", "", given),
        (f"{gate} recurrent matrix", "recurrent", "recurrent_", result),
    ):
        types = stored_type(node, role)
        if types.zero_point or len(types.scales) > 1:
            raise node.refusal(f"whose {role} has a zero point, or a scale for each unit")
        symbols[field] = node.symbol(role, node.weights[role])
        ratios |= factor_fields(sum_multiplier(read, types), prefix)
    bias = node.symbol(f"{gate} bias", node.weights[f"{gate} bias"].astype(np.int32))
    return {**symbols, "bias": bias, **ratios}


def _svdf(node: LayerNode, operator: op.QuantizedSvdf) -> KernelCall:
    """A low-rank filter over time (SVDF); without a state only its last time step is used."""
    input_types, result, state = input_type(node), result_type(node), operator.state
    filters = node.layer.stored_as("filters").quantization
    if node.inputs[0].is_map or not result.is_fixed_point or filters is None:
        raise node.refusal("of quantised integers that are a map, or rescaled in single precision")
    limits = np.iinfo(state.element.value)
    keeps = bool(operator.kept(node.inputs))
    places = node.weights["filters"] if keeps else node.weights["filters"][:, -1:]
    return node.call(
        "svdf_frame",
        "svdf",
        matrix=node.symbol("matrix", node.weights["matrix"]),
        filters=node.symbol("filters", places.astype(np.int16)),
        bias=node.symbol("bias", node.weights["bias"].astype(np.int32)),
        units=operator.units,
        rank=operator.rank,
        elements=node.inputs[0].elements,
        **zero_fields(input_types, result),
        zero_state=state.zero_point,
        least=limits.min,
        most=limits.max,
        **factor_fields(multiplier(svdf_ratio(input_types, stored_type(node, "matrix"), state))),
        **factor_fields(multiplier(svdf_ratio(state, filters, result)), "out_"),
        length=places.shape[1],
        is_wide=state.element is Element.INT16,
    )


def _streamed_product(node: LayerNode, operator: op.StreamedProduct) -> KernelCall:
    """A matrix product with the inputs of several frames, with persistent accumulators."""
    types = stored_type(node, "matrix")
    if _is_short(node) or types.zero_point or result_type(node).element is not Element.INT8:
        raise node.refusal("of other integers than int8 without a zero point of the matrix")
    matrix = node.weights["matrix"].reshape(operator.units, operator.frames, -1).swapaxes(0, 1)
    return node.call(
        "dense_over_time",
        "time_matrix",
        units=operator.units,
        length=operator.frames,
        count=node.inputs[0].elements,
        weights=node.symbol("matrix", np.ascontiguousarray(matrix)),
        **scaling(node, "matrix"),
    )


def _extreme_place(node: LayerNode, operator: op.ExtremePlace) -> KernelCall:
    """The index of an extreme among integers (argmax or argmin), as a floating-point number."""
    axes, slots = (operator.axis,), REAL_BYTES // node.element.bytes
    to = result_axes(node, axes, keeps=True)
    first, second, third = (slots * step for step in to.steps)
    over = cube_fields(node, axes, to._replace(steps=(first, second, third)))
    flags = {"is_smallest": operator.function == "min", "takes_last": operator.takes_last}
    return node.call("place_of_integer_extreme", "extreme", axes=over, **flags)


def _unit_length(node: LayerNode, operator: op.UnitLength) -> KernelCall:
    if _is_short(node):
        raise node.refusal("of integers of 16 bits")
    times, raised = (128, 0) if result_type(node).is_unsigned else (1, 7)
    numbers = {"zero": input_type(node).zero_point, "times": times, "raised": raised}
    return node.call(
        "unit_length", "unit_scaling", axes=cube_fields(node, (operator.axis,)), **numbers
    )


def _resize(node: LayerNode, operator: op.Resize) -> KernelCall:
    """Means of four integers; tables hold the rows and columns around each pixel."""
    if (
        operator.function != "linear"
        or node.input_types[0] != node.layer.quantization
        or _is_short(node)
    ):
        raise node.refusal(f"of quantised integers: {operator.in_words()}")
    is_unsigned = operator.rounding == SINGLE_PRECISION
    kind, function = "interpolation_of_bytes", "resize_in_1024ths"
    if is_unsigned:
        kind, function = "interpolation_of_unsigned", "resize_unsigned"
    fields: dict[str, object] = {}
    names = (("above", "below", "down"), ("left", "right", "across"))
    for axis, (before, after, share) in zip(operator.axes(node.inputs[0]), names, strict=True):
        first, second, shares = operator.integer_neighbours(axis, np.arange(axis.size))
        fields[before] = node.table("uint16_t", "around", first)
        fields[after] = node.table("uint16_t", "around", second)
        fields[share] = node.table("float" if is_unsigned else "int16_t", "share", shares)
    return node.call(function, kind, **fields)


def _detections(node: LayerNode, operator: op.Detections) -> KernelCall:
    if None in node.input_types:
        raise node.refusal("of integers and real numbers together")
    return detections_call(node, operator)


_TO_REAL: dict[type, Emitter] = {
    op.Detections: _detections,
    op.ExtremePlace: _extreme_place,
}
_FIXED: dict[type, Emitter] = {
    op.Activation: _activation,
    op.AttentionProduct: _attention,
    op.Convolution: _convolution,
    op.Elementwise: _elementwise,
    op.FullyConnected: lambda node, operator: fully_connected_call(
        node, operator, packed_rows, scaling
    ),
    op.MatrixProduct: _matrix_product,
    op.Pad: _pad,
    op.Pooling: _pooling,
    op.QuantizedLstm: _lstm,
    op.QuantizedSvdf: _svdf,
    op.Reduction: _reduction,
    op.Resize: _resize,
    op.Softmax: _softmax,
    op.StreamedProduct: _streamed_product,
    op.TransposedConvolution: lambda node, operator: transposed_call(
        node, operator, packed_rows, scaling
    ),
    op.UnitLength: _unit_length,
}
register(Numbers.TO_REAL, _TO_REAL)
register(Numbers.FIXED, _FIXED)
register(
    Numbers.MIXED,
    {
        op.Conversion: lambda node, operator: (
            single_conversion if _is_single(node) else _conversion
        )(node, operator),
        op.Embedding: _embedding,
        op.GatherPoints: _gather_points,
    },
)
register(Numbers.WIDE, {op.Conversion: _wide_conversion, op.Softmax: _wide_softmax})
