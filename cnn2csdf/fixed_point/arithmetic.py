"""Arithmetic of two quantised tensors, bit by bit as TensorFlow Lite Micro computes it.

Described from tensorflow/tflite-micro, tensorflow/lite/micro/kernels: add_common.cc, sub_common.cc,
mul_common.cc, div.cc, maximum_minimum.cc, squared_difference.cc, and
tensorflow/lite/kernels/internal/reference.

types: the quantisations of the two operands; result: that of the output. A `multiplier` of a real ratio
is an integer of 31 fraction bits and an exponent: ratio = integer / 2**31 * 2**exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.functions import leading_zeros, reciprocal_of_one_plus
from cnn2csdf.integers import (
    Integers,
    centred,
    divided_by_power,
    high_product,
    multiplier,
    rescaled,
    stored,
)

# Fraction bits while operands are added, and while a difference is squared.
SUM_BITS = {Element.INT8: 20, Element.UINT8: 20, Element.INT16: 15}
SQUARED_BITS = 7

Operands = Sequence[Array]
Types = Sequence[Quantization]


def _centred(operands: Operands, types: Types) -> list[Integers]:
    return [centred(*pair) for pair in zip(operands, types, strict=True)]


def addition_ratios(types: Types, result: Quantization) -> list[float]:
    """Return the factors of both operands of an addition, and of their sum.

    With the scales s1 and s2 of the operands and s of the result, integers less zero points satisfy
    s * result = s1 * a + s2 * b. As in TensorFlow Lite (kernels/add.cc), let t = 2 * max(s1, s2), and
    B be SUM_BITS: result = (a * 2 ** B * (s1 / t) + b * 2 ** B * (s2 / t)) * (t / (2 ** B * s)). The
    three ratios are the factors; the first two are at most a half, so that sums do not overflow.
    """
    step = 2 * max(quantization.scale for quantization in types)
    factors = [quantization.scale / step for quantization in types]
    return [*factors, step / (2 ** SUM_BITS[result.element] * result.scale)]


def _added(operands: Operands, types: Types, result: Quantization, sign: int = 1) -> Array:
    *factors, ratio = addition_ratios(types, result)
    first, second = (
        rescaled(values << SUM_BITS[result.element], *multiplier(factor))
        for values, factor in zip(_centred(operands, types), factors, strict=True)
    )
    return stored(rescaled(first + sign * second, *multiplier(ratio)), result)


def _multiplied(operands: Operands, types: Types, result: Quantization) -> Array:
    left, right = _centred(operands, types)
    ratio = types[0].scale * types[1].scale / result.scale
    return stored(rescaled(left * right, *multiplier(ratio)), result)


def _squared_difference(operands: Operands, types: Types, result: Quantization) -> Array:
    """Both operands with seven more bits, in steps of twice the larger scale, and their square."""
    step = 2 * max(quantization.scale for quantization in types)
    first, second = (
        rescaled(values << SQUARED_BITS, *multiplier(quantization.scale / step))
        for values, quantization in zip(_centred(operands, types), types, strict=True)
    )
    ratio = squared_ratio(step, result)
    return stored(rescaled((first - second) ** 2, *multiplier(ratio)), result)


def squared_ratio(step: float, result: Quantization) -> float:
    """Return what a square of steps is worth in steps of the result, divided in single precision."""
    return step * step / float(np.float32(2 ** (2 * SQUARED_BITS)) * np.float32(result.scale))


def _divided(operands: Operands, types: Types, result: Quantization) -> Array:
    """The dividend times the reciprocal of the divisor, both in 31 fraction bits.

    The divisor is 2**(31 - lead) * (1 + x) with 0 <= x < 1, which gives 1 / (1 + x) in fixed point. The
    dividend is shifted to the left by `room`, as far as 32 bits allow, before `high_product`, which is
    the product divided by 2**31. The last shift removes both scalings.
    """
    left, right = _centred(operands, types)
    integer, exponent = multiplier(types[0].scale / (types[1].scale * result.scale))
    left, right = np.where(right < 0, -left, left), np.maximum(np.abs(right), 1)
    lead = leading_zeros(right)
    inverse = reciprocal_of_one_plus((right << lead) - 2**31)
    # -2**n fits n bits beside the sign, as 2**n does not: subtracting a half counts it so.
    room = 31 - np.frexp(np.where(left < 0, -left - 0.5, left).astype(np.float64))[1]
    quotient = high_product(left << room, inverse)
    shift = room + (31 - lead) - exponent
    return stored(divided_by_power(high_product(quotient, integer), shift), result)


IN_INTEGERS: Mapping[str, Callable[[Operands, Types, Quantization], Array]] = {
    "add": _added,
    "subtract": partial(_added, sign=-1),
    "squared difference": _squared_difference,
    "multiply": _multiplied,
    "divide": _divided,
    "maximum": lambda operands, _given, _result: np.maximum(*operands),  # compared as stored
    "minimum": lambda operands, _given, _result: np.minimum(*operands),
}
