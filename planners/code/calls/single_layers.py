"""C calls for layers of integers that are rescaled in single precision, as ONNX Runtime does.

Each kernel does what cnn2csdf does, operation by operation, so that outputs are the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.elements import Element, Quantization
from cnn2csdf.fixed_point.flash import is_choice, is_limit
from cnn2csdf.fixed_point.single_precision import power_table
from cnn2csdf.weights import Array
from planners.code.calls.folds import cube_fields, reduced_to
from planners.code.calls.layers import call_of, laid_constant, operand_text, window_text
from planners.code.calls.rescaling import averaging, given_types, result_types, table_symbol
from planners.code.described import Call, Described
from planners.code.names import identifier, number
from planners.code.tables import NULL

KINDS = {
    "add": "REAL_SUM",
    "subtract": "REAL_DIFFERENCE",
    "multiply": "REAL_PRODUCT",
    "divide": "REAL_QUOTIENT",
    "maximum": "REAL_LARGEST",
    "minimum": "REAL_LEAST",
}


def single_steps(one: Described) -> list[str]:
    """Return the step behind a layer that moves integers or picks some, where scales differ."""
    operator = one.layer.operator
    if not is_choice(operator) or isinstance(operator, op.Concatenation):
        return []
    given, result = one.given[0], one.layer.quantization
    if given is None or result is None or given == result:
        return []
    if result.element is not Element.INT8:
        raise one.refusal("of integers of 16 bits with another scale than the result")
    one.tables.wanted.add("step_look_up")
    symbol = table_symbol(one, op.Conversion(), given)
    return [f"{{step_look_up, 0, 0, {symbol}, NULL, 0, 0}}"]


def single_conversion(one: Described, _operator: op.Conversion) -> Call:
    """Return the call that stores real numbers, makes integers real, or changes their scale."""
    given, result = one.given[0], one.layer.quantization
    if given is not None and result is not None:
        return _restated(one, given, result)
    types = given or result
    if types is None or types.element is not one.element:
        raise one.refusal(f"of other elements than {one.element.value} and single precision")
    function = "widen_region" if given else "round_region"
    return Call(function, one.structure("rounding", number(types.scale), types.zero_point))


def _restated(one: Described, given: Quantization, result: Quantization) -> Call:
    if result.element is Element.INT8:
        return _looked_up(one, op.Conversion())
    result_types(one)
    scales = (number(given.scale), number(result.scale))
    fields = (*scales, given.zero_point, result.zero_point)
    return Call("restate_region", one.structure("restating", *fields))


def _looked_up(one: Described, operator: op.Operator) -> Call:
    symbol = table_symbol(one, operator, given_types(one))
    return Call("look_up_region", one.structure("table", symbol))


def _pooling(one: Described, operator: op.Pooling) -> Call:
    fields = (window_text(operator.window), int(operator.counts_padding))
    if operator.function == "max":
        return Call("pool_largest", one.structure("pooling", *fields))
    pooling = "{" + ", ".join(map(str, fields)) + "}"
    return Call("pool_scaled", one.structure("scaled_pooling", pooling, averaging(one, 1)))


def _global_pooling(one: Described, operator: op.GlobalPooling) -> Call:
    if operator.function != "average":
        raise one.refusal(f"of quantised integers: {operator.in_words()}")
    return mean_call(one, (1, 2), one.inputs[0].height * one.inputs[0].width, keeps=True)


def mean_call(one: Described, axes: Sequence[int], count: int, *, keeps: bool) -> Call:
    """Return the call for sums along axes, over a number."""
    cube = cube_fields(one, axes, reduced_to(one, tuple(axes), keeps=keeps))
    fields = ("{" + ", ".join(cube) + "}", averaging(one, count))
    return Call("average", one.structure("mean_over", *fields))


def _softmax(one: Described, operator: op.Softmax) -> Call:
    result = result_types(one)
    if operator.is_logarithm or result.element is not Element.INT8:
        what = "its logarithm" if operator.is_logarithm else "16 bits in single precision"
        raise one.refusal(f"of quantised integers: {what}")
    last = operator.axis if operator.last is None else operator.last
    cube = cube_fields(one, range(operator.axis, last + 1))
    powers = one.computed("powers", power_table(given_types(one).scale).astype(np.int32))
    fields = ("{" + ", ".join(cube) + "}", powers, number(result.scale), result.zero_point)
    return Call("share_by_table", one.structure("sharing_by_table", *fields))


def _elementwise(one: Described, operator: op.Elementwise) -> Call:
    result = result_types(one)
    operands = []
    for index in range(len(one.inputs)):
        types, at = given_types(one, index), operand_text(one, index)
        operands.append(f"{{{at}, NULL, {number(types.scale)}, {types.zero_point}}}")
    if operator.constant is not None:
        real = one.weights["constant"].astype(np.float32)
        symbol, steps = laid_constant(one, real, "constant")
        place = 0 if operator.constant_first else len(operands)
        beside = f"{{NULL, 0, 0, {', '.join(map(str, steps))}}}"
        operands.insert(place, f"{{{beside}, {symbol}, 0, 0}}")
    kind = KINDS.get(operator.function)
    if kind is None or len(operands) != 2:
        raise one.refusal(f"of quantised integers: {operator.function} of {len(operands)} tensors")
    one.tables.wanted.update((kind, "operand", "real_operand"))
    fields = ("{" + ", ".join(operands) + "}", kind, number(result.scale), result.zero_point)
    return Call("combine_in_single", one.structure("joining_reals", *fields))


def _activation(one: Described, operator: op.Activation) -> Call:
    if operator.function == "prelu":
        return _changing(one, one.weights["slope"], None)
    if is_limit(operator, given_types(one), result_types(one)):
        return Call("copy_region")
    return _looked_up(one, operator)


def _normalization(one: Described, operator: op.BatchNormalization) -> Call:
    """Factor and offset of each channel, in the single precision in which they are computed."""
    arrays = one.weights
    factor = arrays["scale"] / np.sqrt(arrays["variance"] + operator.epsilon)
    return _changing(one, factor, arrays["shift"] - arrays["mean"] * factor)


def _changing(one: Described, factors: Array, offsets: Array | None) -> Call:
    given, result, shape = given_types(one), result_types(one), one.layer.shape
    arrays = [factors] if offsets is None else [factors, offsets]
    if not shape.is_map:
        arrays = [np.repeat(array, shape.elements // len(array)) for array in arrays]
    for array in arrays:
        if array.dtype != np.float32:
            raise one.refusal(f"of quantised integers with numbers in {array.dtype}")
    symbols = [
        one.computed(role, array)
        for role, array in zip(("factors", "offsets"), arrays, strict=False)
    ]
    if offsets is None:
        symbols.append(NULL)
    scales = (number(given.scale), number(result.scale))
    fields = one.structure("changing", *symbols, *scales, given.zero_point, result.zero_point)
    return Call("change_region", fields)


def _concatenation(one: Described, operator: op.Concatenation) -> Call:
    """Inputs with another scale than the result pass through a table each."""
    result = result_types(one)
    if all(types == result for types in one.given):
        return call_of(one)
    if not one.layer.shape.is_map:
        raise one.refusal("of inputs with other scales than the result, which are no maps")
    tables = [_table_of(one, types, result) for types in one.given]
    one.tables.wanted.add("table")
    listed = one.tables.defined("table", f"{identifier(one.layer.name)}_tables", tables)
    return Call("join_by_tables", one.structure("joining_by_tables", operator.axis, listed))


def _table_of(one: Described, given: Quantization | None, result: Quantization) -> str:
    assert given is not None
    symbol = NULL if given == result else table_symbol(one, op.Conversion(), given)
    return f"{{{symbol}}}"


SINGLE_CALLS: dict[type, Callable[[Described, Any], Call]] = {
    op.Pooling: _pooling,
    op.GlobalPooling: _global_pooling,
    op.Softmax: _softmax,
    op.Elementwise: _elementwise,
    op.Activation: _activation,
    op.BatchNormalization: _normalization,
    op.Concatenation: _concatenation,
}
