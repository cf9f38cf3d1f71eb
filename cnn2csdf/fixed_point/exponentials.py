"""Exponentials of quantised integers, and what is made of them, in fixed point.

Bit by bit as the reference kernels of TensorFlow Lite Micro. Described from google/gemmlowp,
fixedpoint/fixedpoint.h, and tensorflow/tflite-micro, tensorflow/lite/kernels/internal/reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cnn2csdf.integers import (
    HALF,
    LARGEST,
    Integers,
    divided_by_power,
    high_product,
    multiplier,
)

EXPONENTIALS = (  # e ** -(1/4, 1/2, 1, 2, ...) as fractions of 2**31
    1672461947,
    1302514674,
    790015084,
    290630308,
    39332535,
    720401,
    242,
)
DIFFERENCE_BITS = 5  # before the point of what a softmax takes to the exponential


def exponential(values: Integers, whole_bits: int = DIFFERENCE_BITS) -> Integers:
    """Return e ** x for x <= 0, as fractions of 2 ** 31; x has so many bits before the point.

    A polynomial around -1/8 below a quarter, times a factor for each bit above.
    """
    lowest = 31 - whole_bits - 2  # bit of a quarter
    quarter = 2**lowest
    below = (values & (quarter - 1)) - quarter
    x = (below << whole_bits) + 2**28
    x2 = high_product(x, x)
    x3, x4 = high_product(x2, x), high_product(x2, x2)
    third = high_product(divided_by_power(x4, 2) + x3, 715827883)  # 1 / 3
    series = divided_by_power(third + x2, 1)
    start = 1895147668  # e ** (-1 / 8)
    result = start + high_product(start, x + series)
    rest = below - values
    for bit, factor in enumerate(EXPONENTIALS[: whole_bits + 2], start=lowest):
        result = np.where(rest & (1 << bit), high_product(result, factor), result)
    return np.where(values == 0, LARGEST, result)


def _twice_reciprocal(values: Integers) -> Integers:
    """2 / (1 + x) for 0 <= x <= 1, with two bits before the point, in three Newton steps."""
    half = (values + LARGEST + 1) // 2
    found = 1515870810 + high_product(half, -1010580540)  # 48 / 17 - 32 / 17 * half
    for _ in range(3):
        step = high_product(found, 2**29 - high_product(half, found))
        found = found + _saturated(step * 4)
    return found


def reciprocal_of_one_plus(values: Integers) -> Integers:
    """Return 1 / (1 + x) for 0 <= x <= 1, both as fractions of 2 ** 31."""
    return _saturated(_twice_reciprocal(values) * 2)


def sigmoid_of(values: Integers) -> Integers:
    """Return 1 / (1 + e ** -x) as fractions of 2 ** 31; x has four bits before the point."""
    positive = reciprocal_of_one_plus(exponential(-np.abs(values), 4))
    found = np.where(values > 0, positive, LARGEST - positive)
    return np.where(values == 0, HALF, found)


def hyperbolic_tangent_of(values: Integers) -> Integers:
    """Return tanh x as fractions of 2 ** 31; x has four bits before the point.

    (1 - y) / (1 + y) of y = e ** (-2 x), which is 2 / (1 + y) - 1.
    """
    powers = exponential(-np.abs(values), 5)  # the same bits with a bit more before the point: 2 x
    found = _saturated((_twice_reciprocal(powers) - 2**29) * 4)
    return np.where(values == 0, 0, np.where(values < 0, -found, found))


def _saturated(values: Integers) -> Integers:
    return np.clip(values, -LARGEST - 1, LARGEST)


def input_radius(whole_bits: int, exponent: int) -> int:
    """Return the largest integer that has room when it is multiplied with 2 ** exponent."""
    return int((2**whole_bits - 1) * 2 ** (31 - whole_bits) // 2**exponent)


def softmax_of(values: Integers, scale: float, axis: Any, bits: int = 8) -> Integers:
    """Return a softmax of 8-bit integers along axes, as stored in so many bits.

    The scale of the result is 1 / 2 ** bits, its zero point the least integer.
    """
    integer, exponent = multiplier(min(float(np.float32(scale)) * 2**26, LARGEST))
    radius = -input_radius(DIFFERENCE_BITS, exponent)
    beyond = values - values.max(axis=axis, keepdims=True)
    powers = exponential(high_product(beyond * 2**exponent, integer))
    powers = np.where(beyond < radius, 0, powers)
    sums = divided_by_power(powers, 12).sum(axis=axis, keepdims=True)
    lead = 32 - np.frexp(sums.astype(np.float64))[1]  # leading zeros of 32 bits
    shares = reciprocal_of_one_plus((sums << lead) - 2**31)
    least, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    found = divided_by_power(high_product(shares, powers), 12 - lead + 31 - bits) + least
    result: Integers = np.where(beyond < radius, least, np.clip(found, least, largest))
    return result
