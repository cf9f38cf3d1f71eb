"""Functions of stored integers, bit by bit as TensorFlow Lite Micro computes them.

Functions of 8-bit integers are computed with exponentials in fixed point, those of 16-bit integers
with tables and linear interpolation. Qm.n is a 32-bit integer with m integer bits and n fraction bits:
its value is the integer / 2 ** n. Q0.31 and Q4.27 are the formats of most functions.
Described from tensorflow/tflite-micro: tensorflow/lite/micro/kernels (activations_common.cc,
elementwise.cc, elu.cc, hard_swish_common.cc, leaky_relu_common.cc, logistic_common.cc,
prelu_common.cc, tanh.cc) and tensorflow/lite/kernels/internal (common.h; in reference
integer_ops/logistic.h, integer_ops/tanh.h, softmax.h); and google/gemmlowp, fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.integers import (
    HALF_IN_Q31,
    INT32_MAX,
    Integers,
    away_from_zero,
    centred,
    divided_by_power,
    high_product,
    multiplier,
    quantized,
    rescaled,
    stored,
)

WHOLE_BITS = 4  # integer bits of the arguments of sigmoid and tanh: Q4.27
INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1

Function = Callable[..., Array]
"""(stored integers, their quantisation, quantisation of the result, parameters) -> stored integers."""


def _relu(values: Array, source: Quantization, result: Quantization) -> Array:
    if source != result:
        whole = rescaled(centred(values, source), *multiplier(source.scale / result.scale))
        values = stored(whole, result)
    positive: Array = np.maximum(values, quantized(np.array(0.0), result))
    return positive


def _clip(
    values: Array, source: Quantization, _result: Quantization, low: float, high: float
) -> Array:
    """Stored integers clipped to limits in the scale of the input, without rescaling."""
    least, largest = (
        None if np.isinf(limit) else quantized(np.array(limit), source) for limit in (low, high)
    )
    return values if least is largest is None else np.clip(values, least, largest)


def _leaky_relu(values: Array, source: Quantization, result: Quantization, slope: float) -> Array:
    factor = float(np.float32(slope))
    whole = centred(values, source)
    below = rescaled(whole, *multiplier(source.scale * abs(factor) / result.scale))
    above = rescaled(whole, *multiplier(source.scale / result.scale))
    return stored(np.where(whole >= 0, above, below if factor >= 0 else -below), result)


def prelu(
    values: Array, slopes: Array, source: Quantization, trained: Quantization, result: Quantization
) -> Array:
    """Return stored integers: elements below zero multiplied by slopes, which are stored integers."""
    whole, factors = centred(values, source), centred(slopes, trained)
    above = rescaled(whole, *multiplier(source.scale / result.scale))
    ratio = source.scale * trained.scale / result.scale
    return stored(
        np.where(whole >= 0, above, rescaled(whole * factors, *multiplier(ratio))), result
    )


def _q4_27_arguments(whole: Integers, source: Quantization) -> tuple[Integers, int]:
    """Q4.27 arguments, and the radius beyond which the input saturates."""
    integer, exponent = multiplier(float(np.float32(source.scale)) * 2 ** (31 - WHOLE_BITS))
    radius = input_radius(WHOLE_BITS, exponent)
    inside = np.clip(whole, -radius, radius)
    return rescaled(inside, integer, exponent), radius


def _stored_saturated(
    computed: Integers, whole: Integers, radius: int, result: Quantization
) -> Array:
    """Stored results; inputs beyond the radius have the smallest or the largest stored integer."""
    limits = np.iinfo(result.element.value)
    inside = np.where(whole >= radius, limits.max, computed)
    saturated = np.where(whole <= -radius, limits.min, inside)
    return np.clip(saturated, limits.min, limits.max).astype(result.element.value)


def _in_single_precision(
    values: Array,
    source: Quantization,
    result: Quantization,
    function: Callable[[NDArray[np.float32]], NDArray[np.float32]],
) -> Array:
    """Stored integers of a function in single precision: ELU, and tables of uint8."""
    real = np.float32(source.scale) * centred(values, source).astype(np.float32)
    scaled = function(real) * (np.float32(1) / np.float32(result.scale))
    return stored(away_from_zero(scaled).astype(np.int64), result)


def _sigmoid(values: Array, source: Quantization, result: Quantization) -> Array:
    if source.element is Element.UINT8 or source.is_unsigned:
        unity = np.float32(1)
        return _in_single_precision(
            values, source, result, lambda real: unity / (unity + np.exp(-real))
        )
    whole = centred(values, source)
    if source.element is Element.INT16:
        return sigmoid_int16(whole, source.scale).astype(np.int16)
    scaled, radius = _q4_27_arguments(whole, source)
    # 1 / (1 + e ** -x) in Q0.31 for x in Q4.27.
    positive = reciprocal_of_one_plus(exponential(-np.abs(scaled), 4))
    sigmoid = np.where(scaled > 0, positive, INT32_MAX - positive)
    sigmoid = np.where(scaled == 0, HALF_IN_Q31, sigmoid)
    in_256ths = divided_by_power(sigmoid, 23)  # of 31 fraction bits eight remain
    return _stored_saturated(in_256ths - 128, whole, radius, result)


def _hyperbolic_tangent(values: Array, source: Quantization, result: Quantization) -> Array:
    if source.element is Element.UINT8 or source.is_unsigned:
        return _in_single_precision(values, source, result, np.tanh)
    whole = centred(values, source)
    if source.element is Element.INT16:
        return _tanh(whole, *factor_to_steps("tanh", source.scale)).astype(np.int16)
    scaled, radius = _q4_27_arguments(whole, source)
    # tanh x = 2 / (1 + e ** -2x) - 1 in Q0.31 for x in Q4.27: read as Q5.26, the same 32 bits are 2 x.
    powers = exponential(-np.abs(scaled), 5)
    positive = _saturated_to_int32((_twice_reciprocal(powers) - 2**29) * 4)
    in_128ths = divided_by_power(np.sign(scaled) * positive, 24)  # seven fraction bits remain
    return _stored_saturated(in_128ths, whole, radius, result)


def _absolute(values: Array, source: Quantization, result: Quantization) -> Array:
    whole = np.abs(centred(values, source))
    if source.scale != result.scale:
        whole = rescaled(whole, *multiplier(source.scale / result.scale))
    return stored(whole, result)


def _elu(values: Array, source: Quantization, result: Quantization, alpha: float) -> Array:
    def elu(real: NDArray[np.float32]) -> NDArray[np.float32]:
        below = (np.exp(np.minimum(real, 0)) - np.float32(1)) * np.float32(alpha)
        return np.where(real < 0, below, real)

    return _in_single_precision(values, source, result, elu)


def _multiplier_int16(ratio: float) -> tuple[int, int]:
    """A 15-bit integer and an exponent."""
    integer, exponent = multiplier(ratio)
    return min((integer + 2**15) >> 16, INT16_MAX), exponent


def _hard_swish(values: Array, source: Quantization, result: Quantization) -> Array:
    """Product of x and a gate that rises linearly from 0 at -3 to 1 at 3, all in 16 bits."""
    # 1. Eight-bit inputs get seven fraction bits more.
    fine = source.scale / 128
    factor, shift = _multiplier_int16(fine / result.scale)
    gate_factor, gate_shift = _multiplier_int16(fine / (3 / 2**15))
    fine_values = centred(values, source) * 128
    # 2. A third of x in Q0.15, saturated. Of a shift to the left the last bit follows the product.
    if gate_shift > 0:
        shifted = np.clip(fine_values * 2 ** (gate_shift - 1), INT16_MIN, INT16_MAX)
        third = np.clip(2 * high_product(shifted, gate_factor, 15), INT16_MIN, INT16_MAX)
    else:
        third = divided_by_power(high_product(fine_values, gate_factor, 15), -gate_shift)
    # 3. The gate is (1 + x / 3) / 2, from 0 to 1 in Q0.15.
    gate = (2**15 + third) >> 1
    # 4. The product with x in the scale of the result, rounded towards zero, then shifted right.
    product = gate * high_product(fine_values, factor, 15)
    shortened = np.where(product >= 0, product >> 15, -(-product >> 15))
    return stored(divided_by_power(shortened, max(-shift, 0)), result)


ROOT_BITS = 20  # fraction bits of an inverse square root
ROOT_OF_HALF = 1518500250  # sqrt(1 / 2) in Q0.31


@lru_cache(maxsize=1024)  # the integers of a table of 8 bits are asked for again by each table
def inverse_root(value: int) -> tuple[int, int]:
    """Return 31-bit integer and exponent: 1 / sqrt(value) is about integer * 2 ** (exponent - 31).

    value: at least 1. Five Newton steps in Q3.28 from 1: r -> 3/2 r - scaled/2 r ** 3, with
    scaled = value * 4 ** pairs / 2 ** 29 between 1/4 and 1.
    """
    if value == 1:
        return INT32_MAX, 0
    pairs = (29 - value.bit_length()) // 2  # of bits to the left, so that 28 or 29 bits are filled
    scaled = np.int64(value << 2 * pairs if pairs > 0 else value >> -2 * pairs) >> 1
    half, root = divided_by_power(scaled, 1), np.full((), 2**28, np.int64)
    for _ in range(5):
        cube = _saturated_to_int32(high_product(high_product(root, root), root) * 2**6)
        step = high_product(3 * 2**27, root) - high_product(half, cube)
        root = _saturated_to_int32(step * 2**3)
    # In Q3.28 the root times sqrt(1 / 2) is 2 ** (14 + 28 - pairs) / sqrt(value).
    integer, exponent = int(high_product(root, ROOT_OF_HALF)), 31 - (14 + 28 - pairs)
    return integer << max(exponent, 0), min(exponent, 0)


def _reciprocal_root(values: Array, source: Quantization, result: Quantization) -> Array:
    """The runtime stops at a number below zero; here it counts as zero, whose result is the largest."""
    single = np.float32
    scales = float(np.sqrt(single(source.scale)) * single(result.scale))
    factor, power = multiplier(1 / scales)
    whole, limits = centred(values, source), np.iinfo(source.element.value)
    table_values = np.full(int(whole.max(initial=0)) + 1, limits.max, np.int64)
    for value in np.unique(whole[whole > 0]):
        integer, exponent = inverse_root(int(value))
        root = rescaled(1, integer, exponent + ROOT_BITS)
        table_values[value] = stored(rescaled(root, factor, power - ROOT_BITS), result)
    table: Array = table_values[np.maximum(whole, 0)].astype(result.element.value)
    return table


FUNCTIONS: dict[str, Function] = {
    "abs": _absolute,
    "clip": _clip,
    "elu": _elu,
    "hard swish": _hard_swish,
    "leaky relu": _leaky_relu,
    "relu": _relu,
    "rsqrt": _reciprocal_root,
    "sigmoid": _sigmoid,
    "tanh": _hyperbolic_tangent,
}


# e ** -(1/4, 1/2, 1, 2, ...) in Q0.31
EXPONENTIALS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
EXPONENTIAL_OF_EIGHTH = 1895147668  # e ** (-1 / 8) in Q0.31
THIRD = 715827883  # 1 / 3 in Q0.31
DIFFERENCE_BITS = 5  # integer bits of the exponents of a softmax: Q5.26
SUM_BITS = 12  # integer bits of the sum of powers of a softmax: Q12.19


def exponential(values: Integers, whole_bits: int = DIFFERENCE_BITS) -> Integers:
    """Return e ** x in Q0.31 for x <= 0; x has `whole_bits` integer bits.

    With r = x modulo 1/4 - 1/4, e ** r is a polynomial around -1/8. Each bit of r - x, from 1/4
    on, is a factor of EXPONENTIALS.
    """
    quarter_bit = 31 - whole_bits - 2
    quarter = 2**quarter_bit
    remainder = (values & (quarter - 1)) - quarter
    # e ** (-1/8 + d) = e ** (-1/8) * (1 + d + d ** 2 / 2 + d ** 3 / 6 + d ** 4 / 24), d in Q0.31.
    d = (remainder << whole_bits) + 2**28
    square = high_product(d, d)
    cube, fourth = high_product(square, d), high_product(square, square)
    third = high_product(divided_by_power(fourth, 2) + cube, THIRD)
    series = d + divided_by_power(third + square, 1)
    result = EXPONENTIAL_OF_EIGHTH + high_product(EXPONENTIAL_OF_EIGHTH, series)
    quarters = remainder - values
    for bit, factor in enumerate(EXPONENTIALS[: whole_bits + 2], start=quarter_bit):
        result = np.where(quarters & (1 << bit), high_product(result, factor), result)
    return np.where(values == 0, INT32_MAX, result)


def _twice_reciprocal(values: Integers) -> Integers:
    """2 / (1 + x) in Q2.29 for 0 <= x <= 1 in Q0.31.

    Three Newton steps for the reciprocal of half = (1 + x) / 2, from 48 / 17 - 32 / 17 * half.
    """
    half = (values + INT32_MAX + 1) // 2
    reciprocal = 1515870810 + high_product(half, -1010580540)  # both in Q2.29
    for _ in range(3):
        step = high_product(reciprocal, 2**29 - high_product(half, reciprocal))
        reciprocal = reciprocal + _saturated_to_int32(step * 4)
    return reciprocal


def reciprocal_of_one_plus(values: Integers) -> Integers:
    """Return 1 / (1 + x) for 0 <= x <= 1, both in Q0.31."""
    return _saturated_to_int32(_twice_reciprocal(values) * 2)


def _halves_up(values: Integers, shift: Integers | int) -> Integers:
    """The nearest integers to values / 2 ** shift; halves go up."""
    return (values + ((1 << shift) >> 1)) >> shift


def leading_zeros(values: Integers) -> Integers:
    """Return the number of leading zeros in 32 bits, for integers of at least 0."""
    bits: Integers = np.frexp(values.astype(np.float64))[1]
    return 32 - bits


def _saturated_to_int32(values: Integers) -> Integers:
    return np.clip(values, -INT32_MAX - 1, INT32_MAX)


def input_radius(whole_bits: int, exponent: int) -> int:
    """Return the largest integer whose product with 2 ** exponent fits into this fixed-point format."""
    return int((2**whole_bits - 1) * 2 ** (31 - whole_bits) // 2**exponent)


def difference_multiplier(scale: float) -> tuple[int, int]:
    """Return the multiplier and exponent that make differences of 8-bit integers exponents in Q5.26."""
    return multiplier(min(float(np.float32(scale)) * 2 ** (31 - DIFFERENCE_BITS), INT32_MAX))


def softmax_int8(values: Integers, scale: float, axis: Any, bits: int = 8) -> Integers:
    """Return a softmax of 8-bit integers along axes, stored in `bits` bits.

    The scale of the result is 1 / 2 ** bits, its zero point the smallest integer.
    """
    integer, exponent = difference_multiplier(scale)
    radius = -input_radius(DIFFERENCE_BITS, exponent)
    beyond = values - values.max(axis=axis, keepdims=True)
    powers = exponential(high_product(beyond * 2**exponent, integer))
    powers = np.where(beyond < radius, 0, powers)
    sums = divided_by_power(powers, SUM_BITS).sum(axis=axis, keepdims=True)
    # A sum is (1 + x) * 2 ** (SUM_BITS - lead), with x in Q0.31.
    lead = leading_zeros(sums)
    quotients = high_product(reciprocal_of_one_plus((sums << lead) - 2**31), powers)
    least, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    shares = divided_by_power(quotients, SUM_BITS - lead + 31 - bits) + least
    result: Integers = np.where(beyond < radius, least, np.clip(shares, least, largest))
    return result


TABLE_STEPS = 512  # intervals of a table over all 16-bit integers
# By function the shifts that make 2 ** (shift - 12) a scale with an exact factor.
EXACT_SHIFTS = {"sigmoid": range(1), "tanh": range(2)}
LAST_TABLE_INDEX = 255  # of the table of the sigmoid: 1 from here on


@cache
def sigmoid_table() -> Integers:
    """Return sigmoids of i / 24 times 2 ** 16, minus half of the interpolation error at i + 1/2."""
    indices = np.arange(LAST_TABLE_INDEX)
    here, between, after = (2**16 / (1 + np.exp(-(indices + shift) / 24)) for shift in (0, 0.5, 1))
    error = (here + after) / 2 - between
    table = np.floor(here - error / 2 + 0.5).astype(np.int64)
    result: Integers = np.append(table, 2**16 - 1)
    return result


def factor_to_steps(function: str, scale: float) -> tuple[int, int]:
    """Return factor and shift from stored integers to the argument of sigmoid or tanh.

    The argument counts steps of 1 / (3 * 4096). The factor is exact for the powers of two that
    EXACT_SHIFTS lists; otherwise it has 15 bits.
    """
    power = log2(float(np.float32(scale)))
    if abs(power - round(power)) < 1e-3 and 12 + round(power) in EXACT_SHIFTS[function]:
        return power_to_steps(round(power))
    factor, shift = float(np.float32(scale)) * 4096 * 3, 0
    while factor <= INT16_MAX / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return int(factor), shift


def power_to_steps(power: int) -> tuple[int, int]:
    """Return factor and shift from integers of scale 2 ** power to steps of 1 / (3 * 4096)."""
    return 3 << max(12 + power, 0), max(-12 - power, 0)


def _sigmoid_of_distance(steps: Integers, bits: int, largest: int) -> Integers:
    """The sigmoid of absolute values in Q0.(16 + bits), between entries of the table.

    bits: the logarithm of the steps from entry to entry. largest: the result behind the table.
    """
    distance = np.abs(steps)
    index, rest, table = distance >> bits, distance & ((1 << bits) - 1), sigmoid_table()
    inner = np.minimum(index, LAST_TABLE_INDEX - 1)
    left, right = table[inner], table[inner + 1]
    return np.where(index >= LAST_TABLE_INDEX, largest, (left << bits) + rest * (right - left))


def sigmoid_int16(values: Integers, scale: float) -> Integers:
    """Return 1 / (1 + e ** -x) in Q0.15, for 16-bit integers of this scale."""
    factor, shift = factor_to_steps("sigmoid", scale)
    steps = _halves_up(values * factor, shift)
    above = _sigmoid_of_distance(steps, 9, INT16_MAX << 10)
    below = (1 << 25) - above - 1  # less by 1: below zero halves go down
    return _halves_up(np.where(steps >= 0, above, below), 10)


def tanh_int16(values: Integers, power: int) -> Integers:
    """Return tanh x in Q0.15, for 16-bit integers of scale 2 ** power."""
    return _tanh(values, *power_to_steps(power))


def _tanh(values: Integers, factor: int, shift: int) -> Integers:
    """Tanh x = 2 sigmoid(2 x) - 1 in Q0.15; factor, shift: from integers to steps of 1 / (3 * 4096)."""
    steps = _halves_up(values * factor, shift)
    above = _sigmoid_of_distance(steps, 8, 0xFFFF << 8) - (1 << 23)
    below = -above - 1  # less by 1: below zero halves go down
    return _halves_up(np.where(steps >= 0, above, below), 8)


def _table(largest: float, zero: int, function: Callable[[Array], Array]) -> Integers:
    """A function at every 128th 16-bit integer i, in steps of 2 / (2 ** 16 - 1).

    largest: the argument of the function is largest * (i - zero) / (2 ** 16 - 1). Half of the
    interpolation error in the middle of an interval is subtracted. All in single precision.
    """
    single = np.float32
    scale, unit = single(largest) / single(2**16 - 1), single(2.0) / single(2**16 - 1)
    first, last = scale * single(INT16_MIN - zero), scale * single(INT16_MAX - zero)
    step = (last - first) / single(TABLE_STEPS)
    inverse = single(2**16) / (unit * single(INT16_MAX) - unit * single(INT16_MIN))
    arguments = first + np.arange(TABLE_STEPS + 1).astype(single) * step
    values = function(arguments) * inverse
    here, after = away_from_zero(values[:-1]), values[1:]
    between = away_from_zero(function(arguments[:-1] + step / single(2)) * inverse)
    error = away_from_zero((after + here) / single(2)) - between
    end = away_from_zero(function(np.array([last])) * inverse)
    table = np.append(here - away_from_zero(error / single(2)), end)
    result: Integers = np.clip(table, INT16_MIN, INT16_MAX).astype(np.int64)
    return result


def _looked_up(values: Integers, table: Integers) -> Integers:
    index, rest = 256 + (values >> 7), values & 127
    result: Integers = table[index] + _halves_up((table[index + 1] - table[index]) * rest, 7)
    return result


@cache
def exponential_table() -> Integers:
    """Return e ** x at 513 points from -10 to 0."""
    return _table(10.0, INT16_MAX, np.exp)


@cache
def reciprocal_table() -> Integers:
    """Return 1 / (1 + x) at 513 points from 0 to 1."""
    return _table(1.0, INT16_MIN, lambda values: 1 / (1 + values))


def softmax_multiplier(scale: float) -> tuple[int, int]:
    """Return integer and exponent from stored integers to steps of the table of exponentials."""
    return multiplier(float(np.float32(scale)) / (10.0 / 65535.0))


def softmax_int16(values: Integers, scale: float, axis: Any) -> Integers:
    """Return a softmax of 16-bit integers along axes, in Q0.15."""
    ratio = softmax_multiplier(scale)
    beyond = rescaled(values - values.max(axis=axis, keepdims=True), *ratio) + INT16_MAX
    powers = _looked_up(np.clip(beyond, INT16_MIN, INT16_MAX), exponential_table())
    sums = powers.sum(axis=axis, keepdims=True)
    # A sum is (1 + x) * 2 ** (16 - lead); x in Q0.16 minus 2 ** 15 is the argument of the table.
    lead = leading_zeros(sums)
    argument = _halves_up(sums << (lead - 1), 14) - 2**16 - 2**15
    reciprocals = _looked_up(np.clip(argument, INT16_MIN, INT16_MAX), reciprocal_table())
    shares = _halves_up(powers * reciprocals, 31 - lead)
    result: Integers = np.clip(shares, 0, INT16_MAX)
    return result
