"""Multipliers and shifts with which the kernels in C rescale integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.elements import Element, Quantization
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.fixed_point.flash import sum_ratios
from cnn2csdf.integers import LARGEST, has_wide_sums, multiplier, multipliers, quantized
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.ends import Input, Output
from cnn2csdf.weights import Model
from csdf.errors import ExecutionError
from planners.code.described import Described
from planners.code.names import number
from planners.code.tables import NULL

ELEMENTS = (Element.INT8, Element.INT16)


def limits(one: Described, operator: op.Operator) -> tuple[int, int]:
    """Return the least and the largest integer that an operator behind a layer leaves."""
    result = one.layer.quantization
    if result is None or not isinstance(one.layer.operator, op.Conversion):
        result = result_types(one)
    match operator:
        case op.Activation(function="relu"):
            bounds = (0.0, np.inf)
        case op.Activation(function="clip", parameters=(low, high)):
            bounds = (low, high)
        case _:
            raise one.refusal(f"of quantised integers with {operator.in_words()} behind it")
    least, most = (
        bound if np.isinf(limit) else int(quantized(np.array(limit), result))
        for limit, bound in zip(bounds, _ends_of(result), strict=True)
    )
    return least, most


def _ends_of(types: Quantization) -> tuple[int, int]:
    """Return the least and the largest integer there is."""
    limits = np.iinfo(types.element.value)
    return int(limits.min), int(limits.max)


def _all_limits(one: Described) -> tuple[int, int]:
    """Return the limits that all operators behind a layer leave, applied in turn."""
    least, most = _ends_of(result_types(one))
    for operator in one.layer.epilogue:
        low, high = limits(one, operator)
        least, most = (min(max(place, low), high) for place in (least, most))
    return least, most


def result_types(one: Described) -> Quantization:
    """Return how the output is stored.

    Raises UnsupportedOperator where not all tensors are integers of 8 bits, or all of 16, and where
    some are rescaled in another arithmetic than the result.
    """
    found, result = [*one.given, one.layer.quantization], one.layer.quantization
    for types in found:
        if types is None or types.element not in ELEMENTS:
            what = "real numbers" if types is None else types.element.value
            raise one.refusal(f"with {what} in a network of quantised integers")
    assert result is not None
    if any(types and types.arithmetic is not result.arithmetic for types in found):
        raise one.refusal("between integers in fixed point and in single precision")
    if any(types and types.element is not one.element for types in found):
        raise one.refusal("between integers of 8 and of 16 bits")
    return result


def given_types(one: Described, index: int = 0) -> Quantization:
    """Return how an input is stored, which is quantised."""
    found = one.given[index]
    assert found is not None
    return found


def stored_types(one: Described, role: str) -> Quantization:
    """Return how trained numbers are stored. Raises UnsupportedOperator where not in 8 bits."""
    return _stored_in(one, role, Element.INT8)


def operand_types(one: Described, role: str) -> Quantization:
    """Return how trained numbers are stored that are used as tensors are, in elements of these."""
    return _stored_in(one, role, result_types(one).element)


def _stored_in(one: Described, role: str, element: Element) -> Quantization:
    found = one.layer.stored_as(role).quantization
    if found is None or found.element is not element:
        raise one.refusal(f"whose {role} is not stored as integers of {8 * element.bytes} bits")
    return found


def scaling(one: Described, role: str) -> str:
    """Return the initialiser of how sums of products become stored integers.

    role: of the factors.
    """
    zeros = (stored_types(one, role).zero_point,) if one.tables.weights_have_zeros else ()
    given, result = given_types(one), result_types(one)
    ratios = sum_ratios(one.layer, given, result)
    assert ratios is not None
    is_short, bias = result.element is Element.INT16, NULL
    if "bias" in one.weights:
        array = one.weights["bias"].astype(np.int64 if is_short else np.int32)
        bias = one.symbol("bias", array)
    if result.is_fixed_point:
        integers, exponents = multipliers(ratios)
        factors = [
            one.computed("multipliers", integers.astype(np.int32)),
            one.computed("exponents", exponents.astype(np.int8)),
        ]
    else:
        factors = [one.computed("factors", np.array(ratios, np.float32))]
    ends = (given.zero_point, result.zero_point, *_all_limits(one))
    if is_short and result.is_fixed_point:  # without zero points
        ends = (0, int(has_wide_sums(given, one.weights)), *_all_limits(one))
    return "{" + ", ".join([bias, *factors, *map(str, (*ends, *zeros))]) + "}"


def averaging(one: Described, count: int) -> str:
    """Return the initialiser of how the sum of so many integers becomes their mean.

    In fixed point the multiplier was divided by their number.
    """
    given, result = given_types(one), result_types(one)
    if count > 2 ** (31 - 8 * given.element.bytes):
        raise one.refusal(f"of {count} integers, whose sum may take more than 32 bits")
    fields: tuple[object, ...]
    if result.is_fixed_point:
        integer, exponent = multiplier(given.scale / result.scale)
        shift = min(count.bit_length() - 1, 32, 31 + exponent)
        fields = (count, (integer << shift) // count, exponent - shift)
    else:
        fields = (count, number(given.scale), number(result.scale))
    return f"{{{', '.join(map(str, (*fields, given.zero_point, result.zero_point)))}}}"


def table_symbol(one: Described, operator: op.Operator, given: Quantization) -> str:
    """Return the symbol of what each of the 256 integers becomes, as cnn2csdf computes it."""
    if given.element is not Element.INT8:
        raise one.refusal(f"of integers of 16 bits: {operator.in_words()}")
    source = Input(dims=(1, 1, 256))
    first = Layer(
        name="given",
        operator=source,
        inputs=(),
        shape=Shape(dims=source.dims),
        element=Element.INT8,
        quantization=given,
    )
    found = replace(first, name="found", operator=operator, inputs=("given",))
    found = replace(found, quantization=result_types(one))
    result = replace(found, name="result", operator=Output(), inputs=("found",))
    model = Model(network=Network(name="table", layers=(first, found, result)), weights={})
    values = np.arange(-128, 128, dtype=np.int8).reshape(source.dims)
    try:
        table = run_whole(model, {"given": values})["result"]
    except ExecutionError:
        raise one.refusal(f"of quantised integers: {operator.in_words()}") from None
    return one.computed("table", table)


def powers_of(one: Described) -> tuple[int, int, int]:
    """Return factor and exponent to what a softmax takes powers of, and the least that counts."""
    scale = float(np.float32(given_types(one).scale))
    integer, exponent = multiplier(min(scale * 2**26, LARGEST))
    if exponent < 0:
        raise one.refusal("of quantised integers with so small a scale")
    return integer, exponent, max(-int(31 * 2**26 // 2**exponent), -256)
