"""C calls for layers of quantised integers, bit by bit as cnn2csdf computes them.

C calls for layers of 16-bit integers that have kernels of their own: curves and softmax.

C calls for layers between integers of different widths: what changes scales, and softmax.

C calls for recurrent layers of quantised integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2, prod
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.arithmetic import SUM_BITS
from cnn2csdf.fixed_point.flash import is_limit
from cnn2csdf.fixed_point.functions import (
    EXACT_SHIFTS,
    curve_steps,
    exponential_table,
    power_steps,
    reciprocal_table,
    sigmoid_table,
    softmax_multiplier,
)
from cnn2csdf.integers import multiplier, quantized
from cnn2csdf.operators.recurrences import CELL_GATES, GATE_POWER, SHORT, sum_multiplier
from cnn2csdf.weights import Array
from planners.code.c_text import NULL, number
from planners.code.calls.layers import (
    call_of,
    laid_constant,
    operand_text,
    row_order,
    window_text,
)
from planners.code.calls.moves import pad_call
from planners.code.calls.reductions import cube_fields
from planners.code.calls.rescaling import (
    ELEMENTS,
    SINGLE_CALLS,
    averaging,
    given_types,
    limits,
    mean_call,
    operand_types,
    packed_blocks,
    packed_quads,
    powers_of,
    result_types,
    scaling,
    single_conversion,
    single_steps,
    stored_types,
    table_symbol,
)
from planners.code.layer_descriptor import Call, Described

POWERS = range(-30, 3)  # of two: scales of cells whose steps have room in 32 bits


def lstm_call(one: Described, operator: op.QuantizedLstm) -> Call:
    """Return the call for an LSTM of integers, whose cells have 16 bits."""
    given, result = given_types(one), result_types(one)
    power = round(log2(operator.cell_scale))
    if not result.is_fixed_point or power not in POWERS:
        raise one.refusal(f"of quantised integers with cells of the scale {operator.cell_scale}")
    factor, half, shift = power_steps(power)
    table = one.computed("curve", sigmoid_table().astype(np.int32))
    frames, elements = one.inputs[0].dims
    limit = SHORT if operator.clip is None else operator.clip
    one.tables.wanted.update(("gate", "curve"))
    fields = (
        _braced([_gate(one, gate, given, result) for gate in CELL_GATES]),
        _braced([table, factor, half, shift, 1]),
        *(operator.units, frames, elements, given.zero_point, result.zero_point, limit),
        *_factors(operator, result),
    )
    return Call("recur_in_integers", one.structure("cells", *fields))


def _gate(one: Described, gate: str, given: Quantization, result: Quantization) -> str:
    fields: list[object] = []
    ratios: list[int] = []
    for role, read in ((f"{gate} matrix", given), (f"{gate} recurrent matrix", result)):
        types = stored_types(one, role)
        if types.zero_point or len(types.scales) > 1:
            raise one.refusal(f"whose {role} has a zero point, or a scale for each unit")
        fields.append(one.symbol(role, _packed(one.weights[role])))
        ratios += sum_multiplier(read, types)
    fields.append(one.symbol(f"{gate} bias", one.weights[f"{gate} bias"].astype(np.int32)))
    return _braced([*fields, *ratios])


def _packed(matrix: Array) -> Array:
    return packed_quads(matrix[:, :, None, None], 1)


def _factors(operator: op.QuantizedLstm, result: Quantization) -> tuple[str, str]:
    """Return the multipliers and the exponents of what a cell keeps, adds and gives."""
    pairs = [
        multiplier(2.0**GATE_POWER),
        multiplier(2.0 ** (2 * GATE_POWER) / operator.cell_scale),
        multiplier(2.0 ** (2 * GATE_POWER) / result.scale),
    ]
    first, second = zip(*pairs, strict=True)
    return _braced(first), _braced(second)


def _braced(fields: Sequence[object]) -> str:
    return "{" + ", ".join(map(str, fields)) + "}"


def svdf_call(one: Described, operator: op.QuantizedSvdf) -> Call:
    """Return the call for a filter over time in low rank, of which the last place in time counts."""
    given, result, state = given_types(one), result_types(one), operator.state
    filters = one.layer.stored_as("filters").quantization
    if one.inputs[0].is_map or not result.is_fixed_point or filters is None:
        raise one.refusal("of quantised integers that are a map, or rescaled in single precision")
    limits = np.iinfo(state.element.value)
    scale = stored_types(one, "matrix").scale
    fields = (
        one.symbol("matrix", _packed(one.weights["matrix"])),
        one.symbol("filters", one.weights["filters"][:, -1].astype(np.int16)),
        one.symbol("bias", one.weights["bias"].astype(np.int32)),
        *(operator.units, operator.rank, one.inputs[0].elements),
        *(given.zero_point, state.zero_point, result.zero_point, limits.min, limits.max),
        *multiplier(given.scale * scale / state.scale),
        *multiplier(state.scale * filters.scale / result.scale),
    )
    return Call("filter_in_time", one.structure("filtering", *map(str, fields)))


def integer_call(one: Described, packed: Array | None = None) -> Call:
    """Return the call for a layer that makes rows of its result.

    packed: the filters of a convolution as its kernel reads them, where they are not to be packed
    as usual. Raises UnsupportedOperator, naming the layer, where there is no kernel.
    """
    operator = one.layer.operator
    if is_wide(one):
        return wide_call(one)
    if packed is not None and isinstance(operator, op.Convolution):
        return _convolution(one, operator, packed)
    if isinstance(operator, op.Conversion):
        return (single_conversion if _is_single(one) else _conversion)(one, operator)
    if operator.moves or (isinstance(operator, op.Resize) and operator.function == "nearest"):
        result_types(one)
        if _is_single(one) and isinstance(operator, op.Concatenation):
            return SINGLE_CALLS[op.Concatenation](one, operator)
        if not _is_single(one) and set(one.given) != {one.layer.quantization}:
            raise one.refusal("of inputs with other scales than the result")
        return call_of(one)
    found = ({**_CALLS, **SINGLE_CALLS} if _is_single(one) else _CALLS).get(type(operator))
    if found is None:
        raise one.refusal("of quantised integers")
    result_types(one)
    return found(one, operator)


def integer_sums_call(one: Described) -> Call:
    """Return the call for a layer that adds up its input row by row."""
    operator = one.layer.operator
    result_types(one)
    if isinstance(operator, op.FullyConnected):
        source = one.inputs[0]
        matrix = row_order(one.weights["matrix"], source)
        packed = matrix.reshape(operator.units, source.rows, -1).transpose(1, 0, 2)
        fields = (operator.units, one.symbol("matrix", packed), scaling(one, "matrix"))
        return Call("sum_fully", one.structure("matrix", *fields))
    return Call("sum_row", _summing(one))


def integer_channels_calls(first: Described, last: Described) -> tuple[Call, Call]:
    """Return the calls for a convolution and the layer that sums up each of its feature maps."""
    assert isinstance(first.layer.operator, op.Convolution)
    result_types(last)
    parameters = _dense(first, first.layer.operator).parameters
    return Call(NULL, parameters), Call("sum_channels", _summing(last))


def _convolution(one: Described, operator: op.Convolution, packed: Array | None = None) -> Call:
    is_depthwise = operator.groups == one.inputs[0].channels == operator.filters
    if not is_depthwise or operator.groups == 1:
        return _dense(one, operator, packed)
    kernel = one.weights["kernel"][:, 0].transpose(1, 2, 0)
    fields = (window_text(operator.window), operator.groups, 1, 1, one.symbol("kernel", kernel))
    sums = scaling(one, "kernel")
    return Call("convolve_depthwise", one.structure("convolution", *fields, sums))


def _dense(one: Described, operator: op.Convolution, packed: Array | None = None) -> Call:
    kernel = packed
    if kernel is None:
        kernel = _packing(one)(one.weights["kernel"], operator.groups)
    fields = (
        window_text(operator.window),
        operator.groups,
        one.inputs[0].channels // operator.groups,
        operator.filters // operator.groups,
        one.symbol("kernel", kernel),
    )
    sums = scaling(one, "kernel")
    return Call("convolve", one.structure("convolution", *fields, sums))


def integer_steps(one: Described) -> list[str]:
    """Return the initialisers of the steps behind a layer, its own first if it is one.

    Layers that rescale sums keep the limits behind them themselves.
    """
    if isinstance(one.layer.operator, op.Convolution | op.FullyConnected):
        return []
    operators = [*one.layer.epilogue]
    operator = one.layer.operator
    if isinstance(operator, op.Activation) and is_limit(
        operator, given_types(one), result_types(one)
    ):
        operators.insert(0, operator)
    found = single_steps(one) if _is_single(one) else []
    for behind in operators:
        low, high = limits(one, behind)
        one.tables.wanted.add("step_limits")
        found.append(f"{{step_limits, {low}, {high}, NULL, NULL, 0, 0}}")
    return found


def _is_short(one: Described) -> bool:
    result = one.layer.quantization
    return result is not None and result.element is Element.INT16


def _is_single(one: Described) -> bool:
    """Whether integers that it reads or writes are rescaled in single precision."""
    return any(types and not types.is_fixed_point for types in (*one.given, one.layer.quantization))


def _packing(one: Described) -> Callable[[Array, int], Array]:
    return packed_blocks if _is_short(one) else packed_quads


def _fully_connected(one: Described, operator: op.FullyConnected) -> Call:
    matrix = row_order(one.weights["matrix"], one.inputs[0])
    rows = one.inputs[0].rows
    filters = matrix.reshape(operator.units, rows, -1).swapaxes(1, 2)[..., None]
    packed = _packing(one)(filters, 1)
    fields = (operator.units, one.symbol("matrix", packed), scaling(one, "matrix"))
    return Call("connect_fully", one.structure("matrix", *fields))


def _pooling(one: Described, operator: op.Pooling) -> Call:
    if given_types(one) != result_types(one):
        raise one.refusal("with other scales before than behind it")
    function = "pool_largest" if operator.function == "max" else "pool_mean"
    fields = (window_text(operator.window), int(operator.counts_padding))
    return Call(function, one.structure("pooling", *fields))


def _summing(one: Described) -> str:
    source = one.inputs[0]
    size = (source.height, source.width)
    match one.layer.operator:
        case op.Pooling(function=function, window=window):
            kind = "SUM_LARGEST" if function == "max" else "SUM_MEAN"
            mean = f"{{{prod(window.extent)}, 0, 0, 0, 0}}"
            if _is_single(one) and function != "max":
                kind, mean = "SUM_AVERAGE", averaging(one, prod(window.extent))
            elif not _is_single(one) and given_types(one) != result_types(one):
                raise one.refusal("with other scales before than behind it")
            return one.structure("summing", *window.extent, kind, mean)
        case op.GlobalPooling(function="max"):
            return one.structure("summing", *size, "SUM_LARGEST", "{1, 0, 0, 0, 0}")
        case op.Reduction(function="mean") | op.GlobalPooling(function="average"):
            return one.structure("summing", *size, "SUM_AVERAGE", averaging(one, prod(size)))
    raise one.refusal("of quantised integers, row by row")


def _reduction(one: Described, operator: op.Reduction) -> Call:
    if operator.function != "mean":
        raise one.refusal(f"of quantised integers: {operator.in_words()}")
    axes = tuple(sorted(operator.axes))
    count = prod(one.inputs[0].dims[axis] for axis in axes)
    return mean_call(one, axes, count, keeps=operator.keeps)


def _softmax(one: Described, operator: op.Softmax) -> Call:
    if _is_short(one):
        return short_softmax_call(one, operator)
    result = result_types(one)
    if operator.is_logarithm or (result.scale, result.zero_point) != (1 / 256, -128):
        raise one.refusal("of quantised integers, but to shares of 256")
    last = operator.axis if operator.last is None else operator.last
    cube = cube_fields(one, range(operator.axis, last + 1))
    fields = ("{" + ", ".join(cube) + "}", *powers_of(one))
    return Call("softmax", one.structure("softmax_over", *fields))


def _elementwise(one: Described, operator: op.Elementwise) -> Call:
    types = [given_types(one, index) for index in range(len(one.inputs))]
    operands = [operand_text(one, index) for index in range(len(one.inputs))]
    if operator.constant is not None:
        place = 0 if operator.constant_first else len(operands)
        symbol, steps = laid_constant(one, one.weights["constant"], "constant")
        operands.insert(place, f"{{{symbol}, 0, 0, {', '.join(map(str, steps))}}}")
        types.insert(place, operand_types(one, "constant"))
    if len(operands) != 2 or operator.function not in ("add", "subtract", "multiply"):
        raise one.refusal(f"of quantised integers: {operator.function} of {len(operands)} tensors")
    if operator.function == "multiply":
        pairs = [
            (0, 0),
            (0, 0),
            multiplier(types[0].scale * types[1].scale / result_types(one).scale),
        ]
    else:
        step = 2 * max(one_.scale for one_ in types)
        pairs = [multiplier(one_.scale / step) for one_ in types]
        pairs.append(
            multiplier(step / (2 ** SUM_BITS[result_types(one).element] * result_types(one).scale))
        )
    one.tables.wanted.add("operand")
    fields = (
        "{" + ", ".join(operands) + "}",
        f"{{{types[0].zero_point}, {types[1].zero_point}}}",
        result_types(one).zero_point,
        -1 if operator.function == "subtract" else 1,
        *("{" + ", ".join(str(pair[place]) for pair in pairs) + "}" for place in (0, 1)),
    )
    function = "multiply_tensors" if operator.function == "multiply" else "add_tensors"
    return Call(function, one.structure("combining", *fields))


def _activation(one: Described, operator: op.Activation) -> Call:
    if operator.function == "prelu":
        # Integers below zero times a slope for each channel, which is an integer too.
        given, slopes, result = given_types(one), stored_types(one, "slope"), result_types(one)
        above = multiplier(given.scale / result.scale)
        below = multiplier(given.scale * slopes.scale / result.scale)
        shape = one.layer.shape
        values = one.weights["slope"]
        if not shape.is_map:
            values = np.repeat(values, shape.elements // len(values))
        zeros = (given.zero_point, slopes.zero_point, result.zero_point)
        fields = (one.symbol("slope", values), *above, *below, *zeros)
        return Call("slope_region", one.structure("sloping", *fields))
    if _is_short(one):
        return short_activation(one, operator)
    is_bound = is_limit(operator, given_types(one), result_types(one))
    if is_bound:
        return Call("copy_region")
    symbol = table_symbol(one, operator, given_types(one))
    return Call("look_up_region", one.structure("table", symbol))


def _rescaled(one: Described) -> Call:
    given, result = given_types(one), result_types(one)
    if given == result:
        return Call("copy_region")
    pair = multiplier(given.scale / result.scale)
    fields = (*pair, given.zero_point, result.zero_point, "0")
    return Call("rescale_region", one.structure("converting", *fields))


def _conversion(one: Described, _operator: op.Conversion) -> Call:
    given, result = one.given[0], one.layer.quantization
    if given is not None and result is not None:
        result_types(one)
        return _rescaled(one)
    types = given or result
    if types is None or types.element not in ELEMENTS:
        raise one.refusal("of other elements than integers of 8 or 16 bits and single precision")
    zeros = (given.zero_point if given else 0, result.zero_point if result else 0)
    function = "dequantize_region" if given else "quantize_region"
    return Call(function, one.structure("converting", 0, 0, *zeros, number(types.scale)))


def _pad(one: Described, operator: op.Pad) -> Call:
    if given_types(one) != result_types(one):
        raise one.refusal("with other scales before than behind it")
    return pad_call(one, operator, str(int(quantized(np.array(operator.value), result_types(one)))))


_CALLS: dict[type, Callable[[Described, Any], Call]] = {
    op.Convolution: _convolution,
    op.Pooling: _pooling,
    op.FullyConnected: _fully_connected,
    op.Reduction: _reduction,
    op.Softmax: _softmax,
    op.Elementwise: _elementwise,
    op.Activation: _activation,
    op.Pad: _pad,
    op.QuantizedLstm: lstm_call,
    op.QuantizedSvdf: svdf_call,
}


def short_activation(one: Described, operator: op.Activation) -> Call:
    """Return the call for a curve, or for numbers with another slope below zero."""
    given, result = given_types(one), result_types(one)
    if is_limit(operator, given, result):
        return Call("copy_region")
    above = multiplier(given.scale / result.scale)
    match operator:
        case op.Activation(function="sigmoid" | "tanh" as function):
            factor, shift = curve_steps(given.scale, EXACT_SHIFTS[function])
            table = one.computed("curve", sigmoid_table().astype(np.int32))
            fields = (table, factor, (1 << shift) >> 1, shift, int(function == "tanh"))
            return Call("curve_region", one.structure("curve", *fields))
        case op.Activation(function="relu"):
            return Call("bend_region", one.structure("bending", *above, 0, 0, 1))
        case op.Activation(function="leaky relu", parameters=(slope,)):
            single = float(np.float32(slope))
            below = multiplier(given.scale * abs(single) / result.scale)
            sign = 1 if single >= 0 else -1
            return Call("bend_region", one.structure("bending", *above, *below, sign))
    raise one.refusal(f"of integers of 16 bits: {operator.in_words()}")


def short_softmax_call(one: Described, operator: op.Softmax) -> Call:
    """Return the call for shares of 2 ** 15."""
    if operator.is_logarithm:
        raise one.refusal("of quantised integers: its logarithm")
    result_types(one)
    last = operator.axis if operator.last is None else operator.last
    cube = cube_fields(one, range(operator.axis, last + 1))
    tables = [
        one.computed("powers", exponential_table().astype(np.int32)),
        one.computed("reciprocals", reciprocal_table().astype(np.int32)),
    ]
    axes, ratio = "{" + ", ".join(cube) + "}", softmax_multiplier(given_types(one).scale)
    return Call("softmax_short", one.structure("softmax_by_tables", axes, *tables, *ratio))


GIVEN = (Element.INT8, Element.INT16)
MADE = (*GIVEN, Element.INT32)


def is_wide(one: Described) -> bool:
    """Whether it reads or makes integers of other widths than those of the arena."""
    types = [found for found in (*one.given, one.layer.quantization) if found is not None]
    return any(found.element is not one.element for found in types)


def wide_call(one: Described) -> Call:
    """Return the call for a layer between integers of different widths."""
    operator, given, result = one.layer.operator, one.given[0], one.layer.quantization
    if given is None or result is None or one.element is not Element.INT8:
        raise one.refusal("between integers of 8 and of 16 bits")
    if not (given.is_fixed_point and result.is_fixed_point) or one.layer.epilogue:
        raise one.refusal("between integers of 8 and of 16 bits")
    if isinstance(operator, op.Conversion) and given.element in GIVEN and result.element in MADE:
        fields = (
            *multiplier(given.scale / result.scale),
            *(given.zero_point, result.zero_point, given.element.bytes, result.element.bytes),
        )
        return Call("widen_region", one.structure("widening", *fields))
    if isinstance(operator, op.Softmax):
        # Of 8-bit integers that lie side by side, to shares in 16 bits.
        shape = one.layer.shape
        last = operator.axis if operator.last is None else operator.last
        is_together = (
            prod(shape.dims[operator.axis : last + 1]) == shape.row_elements // shape.width
        )
        elements = (given.element, result.element)
        if elements != (Element.INT8, Element.INT16) or operator.is_logarithm or not is_together:
            raise one.refusal(f"of {elements[0].value} to {elements[1].value}")
        axes = "{" + ", ".join(cube_fields(one, range(operator.axis, last + 1))) + "}"
        return Call("softmax_wide", one.structure("softmax_over", axes, *powers_of(one)))
    raise one.refusal("between integers of 8 and of 16 bits")
