"""C calls for layers of quantised integers, bit by bit as cnn2csdf computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.elements import Element, Quantization
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.fixed_point.arithmetic import SUM_BITS
from cnn2csdf.fixed_point.flash import is_limit, sum_ratios
from cnn2csdf.integers import LARGEST, multiplier, multipliers, quantized
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.ends import Input, Output
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from planners.code.calls.folds import cube_fields, reduced_to
from planners.code.calls.layers import (
    call_of,
    laid_constant,
    operand_text,
    packed_filters,
    row_order,
    window_text,
)
from planners.code.calls.moves import pad_call
from planners.code.described import Call, Described
from planners.code.names import number
from planners.code.tables import NULL

BLOCK = 4  # filters whose weights lie side by side, as in integers.c
QUAD = 4  # values that meet as many weights of each filter in turn


def integer_call(one: Described, packed: Array | None = None) -> Call:
    """Return the call for a layer that makes rows of its result.

    packed: the filters of a convolution as its kernel reads them, where they are not to be packed
    as usual. Raises UnsupportedOperator, naming the layer, where there is no kernel.
    """
    operator = one.layer.operator
    if packed is not None and isinstance(operator, op.Convolution):
        return _convolution(one, operator, packed)
    if isinstance(operator, op.Conversion):
        return _conversion(one, operator)
    if isinstance(operator, op.Softmax) and one.layer.quantization is None is one.given[0]:
        return _real_softmax(one, operator)
    if operator.moves or (isinstance(operator, op.Resize) and operator.function == "nearest"):
        if {one.layer.quantization, *one.given} != {one.layer.quantization}:
            raise one.refusal("of inputs with other scales than the result")
        _result(one)
        return call_of(one)
    found = _CALLS.get(type(operator))
    if found is None:
        raise one.refusal("of quantised integers")
    _result(one)
    return found(one, operator)


def integer_sums_call(one: Described) -> Call:
    """Return the call for a layer that adds up its input row by row."""
    operator = one.layer.operator
    if isinstance(operator, op.FullyConnected):
        source = one.inputs[0]
        matrix = row_order(one.weights["matrix"], source)
        packed = matrix.reshape(operator.units, source.rows, -1).transpose(1, 0, 2)
        fields = (operator.units, one.symbol("matrix", packed), _matrix_scaling(one))
        return Call("sum_fully", one.structure("matrix", *fields))
    return Call("sum_row", _summing(one))


def integer_channels_calls(first: Described, last: Described) -> tuple[Call, Call]:
    """Return the calls for a convolution and the layer that sums up each of its feature maps."""
    assert isinstance(first.layer.operator, op.Convolution)
    parameters = _dense(first, first.layer.operator).parameters
    return Call(NULL, parameters), Call("sum_channels", _summing(last))


def integer_steps(one: Described) -> list[str]:
    """Return the initialisers of the steps behind a layer, its own first if it is one.

    Layers that rescale sums keep the limits behind them themselves.
    """
    if isinstance(one.layer.operator, op.Convolution | op.FullyConnected):
        return []
    operators = [*one.layer.epilogue]
    operator = one.layer.operator
    if isinstance(operator, op.Activation) and is_limit(operator, _given(one), _result(one)):
        operators.insert(0, operator)
    found = []
    for behind in operators:
        low, high = _limits(one, behind)
        one.tables.wanted.add("step_limits")
        found.append(f"{{step_limits, {low}, {high}, NULL, NULL, 0, 0}}")
    return found


def _limits(one: Described, operator: op.Operator) -> tuple[int, int]:
    """The least and the largest integer that an operator behind a layer leaves."""
    match operator:
        case op.Activation(function="relu"):
            limits = (0.0, np.inf)
        case op.Activation(function="clip", parameters=(low, high)):
            limits = (low, high)
        case _:
            raise one.refusal(f"of quantised integers with {operator.in_words()} behind it")
    result = _result(one)
    least, most = (
        bound if np.isinf(limit) else int(quantized(np.array(limit), result))
        for limit, bound in zip(limits, (-128, 127), strict=True)
    )
    return least, most


def _all_limits(one: Described) -> tuple[int, int]:
    """Return the limits that all operators behind a layer leave, applied in turn."""
    least, most = -128, 127
    for operator in one.layer.epilogue:
        low, high = _limits(one, operator)
        least, most = (min(max(place, low), high) for place in (least, most))
    return least, most


def _result(one: Described) -> Quantization:
    """Return how the output is stored. Raises UnsupportedOperator for anything but 8-bit integers.

    Those of ONNX files are rescaled in single precision, which kernels of integers do not do.
    """
    found = [*one.given, one.layer.quantization]
    for types in found:
        if types is not None and not types.is_fixed_point:
            raise one.refusal(f"of integers that are rescaled in {types.arithmetic.value}")
        if types is None or types.element is not Element.INT8:
            what = "real numbers" if types is None else types.element.value
            raise one.refusal(f"with {what} in a network of 8-bit integers")
    result = one.layer.quantization
    assert result is not None
    return result


def _given(one: Described, index: int = 0) -> Quantization:
    found = one.given[index]
    assert found is not None
    return found


def _stored_types(one: Described, role: str) -> Quantization:
    found = one.layer.stored_as(role).quantization
    if found is None or found.element is not Element.INT8:
        raise one.refusal(f"whose {role} is not stored as 8-bit integers")
    return found


def _scaling(one: Described) -> str:
    """The initialiser of how sums become stored integers."""
    ratios = sum_ratios(one.layer, _given(one), _result(one))
    assert ratios is not None
    integers, exponents = multipliers(ratios)
    bias = NULL
    if "bias" in one.weights:
        bias = one.symbol("bias", one.weights["bias"].astype(np.int32))
    fields = (
        bias,
        one.symbol("multipliers", integers.astype(np.int32)),
        one.symbol("exponents", exponents.astype(np.int8)),
        str(_given(one).zero_point),
        str(_result(one).zero_point),
        *map(str, _all_limits(one)),
    )
    return "{" + ", ".join(fields) + "}"


def _filter_scaling(one: Described) -> str:
    _stored_types(one, "kernel")
    return _scaling(one)


def _convolution(one: Described, operator: op.Convolution, packed: Array | None = None) -> Call:
    is_depthwise = operator.groups == one.inputs[0].channels == operator.filters
    if not is_depthwise or operator.groups == 1:
        return _dense(one, operator, packed)
    kernel = one.weights["kernel"][:, 0].transpose(1, 2, 0)
    fields = (window_text(operator.window), operator.groups, 1, 1, one.symbol("kernel", kernel))
    scaling = _filter_scaling(one)
    return Call("convolve_depthwise", one.structure("convolution", *fields, scaling))


def _dense(one: Described, operator: op.Convolution, packed: Array | None = None) -> Call:
    kernel = packed_quads(one.weights["kernel"], operator.groups) if packed is None else packed
    fields = (
        window_text(operator.window),
        operator.groups,
        one.inputs[0].channels // operator.groups,
        operator.filters // operator.groups,
        one.symbol("kernel", kernel),
    )
    scaling = _filter_scaling(one)
    return Call("convolve", one.structure("convolution", *fields, scaling))


def _matrix_scaling(one: Described) -> str:
    if _stored_types(one, "matrix").zero_point:
        raise one.refusal("whose weights have a zero point")
    return _scaling(one)


def packed_quads(kernel: Array, groups: int) -> Array:
    """Return filters (filters, inputs, rows, columns) as add_quads and add_products read them.

    As packed_filters, but where the inputs are a multiple of four, four inputs of a filter lie side
    by side, then those of the next filter of a whole block.
    """
    filters, inputs = len(kernel) // groups, kernel.shape[1]
    if inputs % QUAD:
        return packed_filters(kernel, groups, BLOCK)
    pieces = []
    for first in range(0, len(kernel), filters):
        for begin in range(first, first + filters, BLOCK):
            block = kernel[begin : min(begin + BLOCK, first + filters)].transpose(2, 3, 1, 0)
            if block.shape[-1] == BLOCK:
                block = block.reshape(*block.shape[:2], -1, QUAD, BLOCK).swapaxes(3, 4)
            pieces.append(block.reshape(-1))
    return np.concatenate(pieces)


def _fully_connected(one: Described, operator: op.FullyConnected) -> Call:
    matrix = row_order(one.weights["matrix"], one.inputs[0])
    rows = one.inputs[0].rows
    packed = packed_quads(matrix.reshape(operator.units, rows, -1).swapaxes(1, 2)[..., None], 1)
    fields = (operator.units, one.symbol("matrix", packed), _matrix_scaling(one))
    return Call("connect_fully", one.structure("matrix", *fields))


def _pooling(one: Described, operator: op.Pooling) -> Call:
    if _given(one) != _result(one):
        raise one.refusal("with other scales before than behind it")
    function = "pool_largest" if operator.function == "max" else "pool_mean"
    fields = (window_text(operator.window), int(operator.counts_padding))
    return Call(function, one.structure("pooling", *fields))


def _summing(one: Described) -> str:
    source = one.inputs[0]
    match one.layer.operator:
        case op.Pooling(function=function, window=window):
            if _given(one) != _result(one):
                raise one.refusal("with other scales before than behind it")
            rows, columns = window.extent
            kind = "SUM_LARGEST" if function == "max" else "SUM_MEAN"
            fields = (rows, columns, kind, f"{{{rows * columns}, 0, 0, 0, 0}}")
            return one.structure("summing", *fields)
        case op.Reduction(function="mean"):
            size = (source.height, source.width)
            return one.structure("summing", *size, "SUM_AVERAGE", _averaging(one, prod(size)))
    raise one.refusal("of quantised integers, row by row")


def _averaging(one: Described, count: int) -> str:
    """Sums rescaled by a multiplier that was divided by their number."""
    given, result = _given(one), _result(one)
    integer, exponent = multiplier(given.scale / result.scale)
    shift = min(count.bit_length() - 1, 32, 31 + exponent)
    fields = (count, (integer << shift) // count, exponent - shift)
    return f"{{{', '.join(map(str, (*fields, given.zero_point, result.zero_point)))}}}"


def _reduction(one: Described, operator: op.Reduction) -> Call:
    if operator.function != "mean":
        raise one.refusal(f"of quantised integers: {operator.in_words()}")
    axes = tuple(sorted(operator.axes))
    cube = cube_fields(one, axes, reduced_to(one, axes, keeps=operator.keeps))
    count = prod(one.inputs[0].dims[axis] for axis in axes)
    fields = ("{" + ", ".join(cube) + "}", _averaging(one, count))
    return Call("average", one.structure("mean_over", *fields))


def _softmax(one: Described, operator: op.Softmax) -> Call:
    result = _result(one)
    if operator.is_logarithm or (result.scale, result.zero_point) != (1 / 256, -128):
        raise one.refusal("of quantised integers, but to shares of 256")
    last = operator.axis if operator.last is None else operator.last
    cube = cube_fields(one, range(operator.axis, last + 1))
    integer, exponent = multiplier(min(float(np.float32(_given(one).scale)) * 2**26, LARGEST))
    least = -int(31 * 2**26 // 2**exponent)
    if exponent < 0:
        raise one.refusal("of quantised integers with so small a scale")
    fields = ("{" + ", ".join(cube) + "}", integer, exponent, max(least, -256))
    return Call("softmax", one.structure("softmax_over", *fields))


def _real_softmax(one: Described, operator: op.Softmax) -> Call:
    """Of what became real numbers again: over all that lies side by side."""
    shape = one.layer.shape
    last = operator.axis if operator.last is None else operator.last
    count = prod(shape.dims[operator.axis : last + 1])
    if count != shape.row_elements // shape.width:
        raise one.refusal("with real numbers in a network of 8-bit integers")
    return Call("softmax_of_reals", one.structure("sharing", int(operator.is_logarithm)))


def _elementwise(one: Described, operator: op.Elementwise) -> Call:
    types = [_given(one, index) for index in range(len(one.inputs))]
    operands = [operand_text(one, index) for index in range(len(one.inputs))]
    if operator.constant is not None:
        place = 0 if operator.constant_first else len(operands)
        symbol, steps = laid_constant(one, one.weights["constant"], "constant")
        operands.insert(place, f"{{{symbol}, 0, 0, {', '.join(map(str, steps))}}}")
        types.insert(place, _stored_types(one, "constant"))
    if len(operands) != 2 or operator.function not in ("add", "subtract", "multiply"):
        raise one.refusal(f"of quantised integers: {operator.function} of {len(operands)} tensors")
    if operator.function == "multiply":
        pairs = [(0, 0), (0, 0), multiplier(types[0].scale * types[1].scale / _result(one).scale)]
    else:
        step = 2 * max(one_.scale for one_ in types)
        pairs = [multiplier(one_.scale / step) for one_ in types]
        pairs.append(multiplier(step / (2 ** SUM_BITS[Element.INT8] * _result(one).scale)))
    one.tables.wanted.add("operand")
    fields = (
        "{" + ", ".join(operands) + "}",
        f"{{{types[0].zero_point}, {types[1].zero_point}}}",
        _result(one).zero_point,
        -1 if operator.function == "subtract" else 1,
        *("{" + ", ".join(str(pair[place]) for pair in pairs) + "}" for place in (0, 1)),
    )
    function = "multiply_tensors" if operator.function == "multiply" else "add_tensors"
    return Call(function, one.structure("combining", *fields))


def _activation(one: Described, operator: op.Activation) -> Call:
    if operator.function == "prelu":
        return _prelu(one)
    is_bound = is_limit(operator, _given(one), _result(one))
    return Call("copy_region") if is_bound else _looked_up(one, operator)


def _looked_up(one: Described, operator: op.Activation) -> Call:
    """A table of what each of the 256 integers becomes, as cnn2csdf computes it."""
    source = Input(dims=(1, 1, 256))
    given = Layer(
        name="given",
        operator=source,
        inputs=(),
        shape=Shape(dims=source.dims),
        element=Element.INT8,
        quantization=_given(one),
    )
    found = replace(given, name="found", operator=operator, inputs=("given",))
    found = replace(found, quantization=_result(one))
    result = replace(found, name="result", operator=Output(), inputs=("found",))
    model = Model(network=Network(name="table", layers=(given, found, result)), weights={})
    values = np.arange(-128, 128, dtype=np.int8).reshape(source.dims)
    try:
        table = run_whole(model, {"given": values})["result"]
    except ExecutionError:
        raise one.refusal(f"of quantised integers: {operator.function}") from None
    return Call("look_up_region", one.structure("table", one.symbol("table", table)))


def _prelu(one: Described) -> Call:
    """Integers below nought times a slope for each channel, which is an integer too."""
    given, slopes, result = _given(one), _stored_types(one, "slope"), _result(one)
    above = multiplier(given.scale / result.scale)
    below = multiplier(given.scale * slopes.scale / result.scale)
    shape = one.layer.shape
    values = one.weights["slope"]
    if not shape.is_map:
        values = np.repeat(values, shape.elements // len(values))
    zeros = (given.zero_point, slopes.zero_point, result.zero_point)
    fields = (one.symbol("slope", values), *above, *below, *zeros)
    return Call("slope_region", one.structure("sloping", *fields))


def _rescaled(one: Described) -> Call:
    given, result = _given(one), _result(one)
    if given == result:
        return Call("copy_region")
    pair = multiplier(given.scale / result.scale)
    fields = (*pair, given.zero_point, result.zero_point, "0")
    return Call("rescale_region", one.structure("converting", *fields))


def _conversion(one: Described, _operator: op.Conversion) -> Call:
    given, result = one.given[0], one.layer.quantization
    if given is not None and result is not None:
        _result(one)
        return _rescaled(one)
    types = given or result
    if types is None or types.element is not Element.INT8:
        raise one.refusal("of other elements than 8-bit integers and single precision")
    if not types.is_fixed_point:
        raise one.refusal(f"to or from integers that are rounded in {types.arithmetic.value}")
    zeros = (given.zero_point if given else 0, result.zero_point if result else 0)
    function = "dequantize_region" if given else "quantize_region"
    return Call(function, one.structure("converting", 0, 0, *zeros, number(types.scale)))


def _pad(one: Described, operator: op.Pad) -> Call:
    if _given(one) != _result(one):
        raise one.refusal("with other scales before than behind it")
    return pad_call(one, operator, str(int(quantized(np.array(operator.value), _result(one)))))


_CALLS: dict[type, Callable[[Described, Any], Call]] = {
    op.Convolution: _convolution,
    op.Pooling: _pooling,
    op.FullyConnected: _fully_connected,
    op.Reduction: _reduction,
    op.Softmax: _softmax,
    op.Elementwise: _elementwise,
    op.Activation: _activation,
    op.Pad: _pad,
}
