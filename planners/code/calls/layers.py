"""C calls for layers: the function of each, and the numbers that it takes.

Recurrent layers: the call for them, and the room that they keep their state in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from cnn2csdf.operators.operands import constant_role
from cnn2csdf.operators.recurrences import DIRECTIONS, GATES
from cnn2csdf.weights import Array
from planners.code.c_text import NULL, identifier, number
from planners.code.calls.moves import MOVES
from planners.code.calls.reductions import FOLDS
from planners.code.layer_descriptor import Call, Described
from planners.code.parts import defined_names

CELL_BYTES = 2  # of an LSTM of integers, among elements of one byte
KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn": "PLAIN"}
GIVEN = {"all": "GIVES_ALL", "last": "GIVES_LAST", "cell": "GIVES_CELL"}


def recurrence_call(one: Described, operator: op.Recurrence) -> Call:
    """Return the call for a recurrent layer."""
    frames, sequences, elements = one.inputs[0].dims
    senses = [int(sense < 0) for sense in DIRECTIONS[operator.direction]]
    one.tables.wanted.update((KINDS[operator.kind], GIVEN[operator.gives]))
    fields: tuple[str | int, ...] = (
        *(KINDS[operator.kind], GIVEN[operator.gives], int(operator.resets_after)),
        *(GATES[operator.kind], operator.units, frames, sequences, elements, len(senses)),
        "{" + ", ".join(map(str, (*senses, 0)[:2])) + "}",
        *(one.symbol(role, one.weights[role]) for role in ("matrix", "recurrent matrix")),
        one.optional("bias"),
        one.optional("state") if operator.has_state else NULL,
        one.optional("cell") if operator.has_cell else NULL,
        number(np.inf if operator.cell_limit is None else operator.cell_limit),
    )
    return Call("recur", one.structure("recurrence", *fields))


def scratch_elements(operator: op.Operator) -> int:
    """Return how many numbers an operator keeps while it works, beside input and output."""
    match operator:
        case op.Recurrence(kind=kind, units=units):
            return units * (2 + GATES[kind])
        case op.QuantizedLstm(units=units):
            return units * CELL_BYTES
    return 0


BLOCK = 16  # filters whose weights lie side by side, as in reals.c


def call_of(one: Described, packed: Array | None = None) -> Call:
    """Return the call for a layer that makes rows of its result.

    packed: the filters of a convolution as its kernel reads them, where they are not to be packed
    as usual. Raises UnsupportedOperator, naming the layer, where there is no kernel.
    """
    if packed is not None and isinstance(one.layer.operator, op.Convolution):
        return _convolution(one, one.layer.operator, packed)
    found = _CALLS.get(type(one.layer.operator))
    if found is None:
        raise one.refusal("at all")
    return found(one, one.layer.operator)


def sums_call(one: Described) -> Call:
    """Return the call for a layer that adds up its input row by row."""
    operator = one.layer.operator
    if isinstance(operator, op.FullyConnected):
        packed = row_order(one.weights["matrix"], one.inputs[0]).T
        fields = (operator.units, one.symbol("matrix", packed), one.optional("bias"))
        return Call("sum_fully", one.structure("matrix", *fields))
    return Call("sum_row", _summing(one))


def channels_calls(first: Described, last: Described) -> tuple[Call, Call]:
    """Return the calls for a convolution and the layer that sums up each of its feature maps."""
    if any(isinstance(step, op.LocalResponseNormalization) for step in first.layer.epilogue):
        raise first.refusal("with a normalisation over channels that are summed one by one")
    assert isinstance(first.layer.operator, op.Convolution)
    parameters = _dense(first, first.layer.operator).parameters
    return Call(NULL, parameters), Call("sum_channels", _summing(last))


def _summing(one: Described) -> str:
    source = one.inputs[0]
    rows, columns = source.height, source.width
    scale, is_largest = 1.0, False
    match one.layer.operator:
        case op.Pooling(function=function, window=window):
            rows, columns = window.extent
            scale, is_largest = 1 / (rows * columns), function == "max"
        case op.GlobalPooling(function=function):
            scale, is_largest = 1 / (rows * columns), function == "max"
        case op.Reduction(function=function):
            scale = 1 / (rows * columns) if function == "mean" else 1.0
            is_largest = function == "max"
        case _:
            raise one.refusal("row by row")
    scale = 1.0 if is_largest else scale
    return one.structure("summing", rows, columns, int(is_largest), number(scale))


def window_text(window: op.Window) -> str:
    """Return the initialiser of a window."""
    top, left, bottom, right = window.padding
    pairs = (window.kernel, window.stride, window.dilation, (top, left), (bottom, right))
    return "{" + ", ".join(f"{{{one}, {two}}}" for one, two in pairs) + "}"


def packed_filters(kernel: Array, groups: int, block: int = BLOCK) -> Array:
    """Return filters (filters, inputs, rows, columns) as the C code reads them.

    Group by group, block of filters by block of filters; in these tap by tap, input by input.
    """
    filters = len(kernel) // groups
    pieces = [
        kernel[group * filters + first : group * filters + min(first + block, filters)]
        .transpose(2, 3, 1, 0)
        .reshape(-1)
        for group in range(groups)
        for first in range(0, filters, block)
    ]
    return np.concatenate(pieces)


def _convolution(one: Described, operator: op.Convolution, packed: Array | None = None) -> Call:
    is_depthwise = operator.groups == one.inputs[0].channels == operator.filters
    if not is_depthwise or operator.groups == 1:
        return _dense(one, operator, packed)
    kernel = one.weights["kernel"][:, 0].transpose(1, 2, 0)
    fields = (window_text(operator.window), operator.groups, 1, 1)
    symbols = (one.symbol("kernel", kernel), one.optional("bias"))
    return Call("convolve_depthwise", one.structure("convolution", *fields, *symbols))


def _dense(one: Described, operator: op.Convolution, packed: Array | None = None) -> Call:
    kernel = packed_filters(one.weights["kernel"], operator.groups) if packed is None else packed
    fields = (
        window_text(operator.window),
        operator.groups,
        one.inputs[0].channels // operator.groups,
        operator.filters // operator.groups,
    )
    symbols = (one.symbol("kernel", kernel), one.optional("bias"))
    return Call("convolve", one.structure("convolution", *fields, *symbols))


def _transposed(one: Described, operator: op.TransposedConvolution) -> Call:
    groups, inputs = operator.groups, one.inputs[0].channels // operator.groups
    kernel = one.weights["kernel"]  # (inputs, filters of a group, rows, columns)
    turned = kernel.reshape(groups, inputs, -1, *operator.window.kernel).swapaxes(1, 2)
    packed = packed_filters(
        turned.reshape(operator.filters, inputs, *operator.window.kernel), groups
    )
    fields = (window_text(operator.window), groups, inputs, operator.filters // groups)
    symbols = (one.symbol("kernel", packed), one.optional("bias"))
    return Call("convolve_transposed", one.structure("convolution", *fields, *symbols))


def row_order(matrix: Array, source: Shape) -> Array:
    """Return the columns of a matrix in the order in which the input lies in the arena."""
    if not source.is_map:
        return matrix
    return matrix.reshape(-1, *source.dims).transpose(0, 2, 3, 1).reshape(len(matrix), -1)


def _fully_connected(one: Described, operator: op.FullyConnected) -> Call:
    matrix = row_order(one.weights["matrix"], one.inputs[0])
    packed = packed_filters(matrix[:, :, None, None], 1)
    fields = (operator.units, one.symbol("matrix", packed), one.optional("bias"))
    return Call("connect_fully", one.structure("matrix", *fields))


def _pooling(one: Described, operator: op.Pooling) -> Call:
    function = "pool_largest" if operator.function == "max" else "pool_mean"
    fields = (window_text(operator.window), int(operator.counts_padding))
    return Call(function, one.structure("pooling", *fields))


def _copy(_one: Described, _operator: op.Operator) -> Call:
    return Call("copy_region")


def _strides(dims: Sequence[int], operand: Sequence[int]) -> list[int]:
    """Steps of an operand along axes of the result, aligned at the end; zero where it repeats."""
    padded = [1] * (len(dims) - len(operand)) + list(operand)
    steps, step = [], 1
    for size in reversed(padded):
        steps.append(step if size > 1 else 0)
        step *= size
    return steps[::-1]


def _elementwise(one: Described, operator: op.Elementwise) -> Call:
    operands = [operand_text(one, index) for index in range(len(one.inputs))]
    if operator.constant is not None:
        place = 0 if operator.constant_first else len(operands)
        symbol, steps = laid_constant(one, one.weights["constant"], "constant")
        operands.insert(place, f"{{{symbol}, 0, 0, {', '.join(map(str, steps))}}}")
    function = f"of_{operator.function.replace(' ', '_')}"
    if function not in defined_names("combine.c"):
        raise one.refusal(f"of the function {operator.function!r}")
    each = one.tables.defined("operand", identifier(one.layer.name), operands)
    one.tables.wanted.add(function)
    fields = (function, len(operands), int(operator.function == "mean"), each)
    return Call("combine", one.structure("combining", *fields))


def operand_text(one: Described, index: int) -> str:
    """Return how an input lies beside the result: values, input, is_map, channel, row, column."""
    dims, shape = one.layer.shape.dims, one.inputs[index]
    if shape.is_map:
        if len(dims) != 3:
            raise one.refusal("of feature maps and a tensor of more axes")
        channels, height, width = shape.dims
        steps = (int(channels > 1), int(height > 1), int(width > 1))
    elif len(dims) == 3:
        steps = tuple(_strides(dims, shape.dims))  # type: ignore[assignment]
    elif shape.elements in (1, one.layer.shape.elements):
        steps = (int(shape.elements > 1), 0, 0)
    else:
        raise one.refusal("whose inputs repeat along an axis of tensors that are no maps")
    return "{NULL, " + ", ".join(map(str, (index, int(shape.is_map), *steps))) + "}"


def laid_constant(one: Described, constant: Array, role: str) -> tuple[str, list[int]]:
    """Return the symbol of a constant operand, and its steps along channels, rows, columns."""
    dims = one.layer.shape.dims
    if len(dims) == 3:
        return one.symbol(role, constant), _strides(dims, constant.shape)
    spread = np.broadcast_to(constant, dims) if constant.size > 1 else constant
    return one.symbol(role, spread), [int(constant.size > 1), 0, 0]


def _choice(one: Described, operator: op.Choice) -> Call:
    operands = [operand_text(one, index) for index in range(len(one.inputs))]
    for place, _ in operator.constants:
        symbol, steps = laid_constant(one, one.weights[constant_role(place)], f"constant_{place}")
        operands.insert(place, f"{{{symbol}, 0, 0, {', '.join(map(str, steps))}}}")
    each = one.tables.defined("operand", identifier(one.layer.name), operands)
    one.tables.wanted.add("first_of_two")
    return Call("choose", one.structure("combining", "first_of_two", len(operands), 0, each))


_CALLS: dict[type, Callable[[Described, Any], Call]] = {
    **MOVES,
    **FOLDS,
    op.Convolution: _convolution,
    op.TransposedConvolution: _transposed,
    op.Pooling: _pooling,
    op.FullyConnected: _fully_connected,
    op.BatchNormalization: _copy,
    op.LocalResponseNormalization: _copy,
    op.Activation: _copy,
    op.Elementwise: _elementwise,
    op.Choice: _choice,
    op.Recurrence: recurrence_call,
    op.Identity: _copy,
    op.Output: _copy,
    op.Conversion: _copy,
}
