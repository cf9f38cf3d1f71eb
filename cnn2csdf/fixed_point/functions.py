"""Functions of stored integers, bit by bit as TensorFlow Lite Micro computes them.

Of 8-bit integers by exponentials in fixed point, of 16-bit integers by tables with interpolation.
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
    HALF,
    LARGEST,
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

WHOLE_BITS = 4  # integer bits of the fixed-point arguments of sigmoid and tanh
LEAST, LARGEST_SHORT = -(2**15), 2**15 - 1

Function = Callable[..., Array]
"""Stored integers, how they and the result are quantised, parameters -> stored integers."""


def _ratio(given: Quantization, result: Quantization) -> float:
    return given.scale / result.scale


def _relu(values: Array, given: Quantization, result: Quantization) -> Array:
    if given != result:
        ratio = multiplier(_ratio(given, result))
        values = stored(rescaled(centred(values, given), *ratio), result)
    positive: Array = np.maximum(values, quantized(np.array(0.0), result))
    return positive


def _clip(
    values: Array, given: Quantization, _result: Quantization, low: float, high: float
) -> Array:
    """Stored integers within limits by the scale of the input; they are not rescaled."""
    least, largest = (
        None if np.isinf(limit) else quantized(np.array(limit), given) for limit in (low, high)
    )
    return values if least is largest is None else np.clip(values, least, largest)


def _leaky_relu(values: Array, given: Quantization, result: Quantization, slope: float) -> Array:
    factor = float(np.float32(slope))
    whole = centred(values, given)
    below = rescaled(whole, *multiplier(given.scale * abs(factor) / result.scale))
    above = rescaled(whole, *multiplier(_ratio(given, result)))
    return stored(np.where(whole >= 0, above, below if factor >= 0 else -below), result)


def prelu(
    values: Array, slopes: Array, given: Quantization, trained: Quantization, result: Quantization
) -> Array:
    """Return stored integers, those below zero times slopes, which are stored integers too."""
    whole, factors = centred(values, given), centred(slopes, trained)
    above = rescaled(whole, *multiplier(_ratio(given, result)))
    ratio = given.scale * trained.scale / result.scale
    return stored(
        np.where(whole >= 0, above, rescaled(whole * factors, *multiplier(ratio))), result
    )


def _scaled(whole: Integers, given: Quantization) -> tuple[Integers, int]:
    """Integers with four bits before the point, and from where on there is no room for them."""
    integer, exponent = multiplier(float(np.float32(given.scale)) * 2 ** (31 - WHOLE_BITS))
    radius = input_radius(WHOLE_BITS, exponent)
    inside = np.clip(whole, -radius, radius)
    return rescaled(inside, integer, exponent), radius


def _saturated(found: Integers, whole: Integers, radius: int, result: Quantization) -> Array:
    limits = np.iinfo(result.element.value)
    found = np.where(whole <= -radius, limits.min, np.where(whole >= radius, limits.max, found))
    return np.clip(found, limits.min, limits.max).astype(result.element.value)


def _by_real_numbers(
    values: Array,
    given: Quantization,
    result: Quantization,
    function: Callable[[NDArray[np.float32]], NDArray[np.float32]],
) -> Array:
    """Stored integers of a function in single precision: TensorFlow Lite's table for uint8."""
    real = np.float32(given.scale) * centred(values, given).astype(np.float32)
    scaled = function(real) * (np.float32(1) / np.float32(result.scale))
    return stored(away_from_zero(scaled).astype(np.int64), result)


def _sigmoid(values: Array, given: Quantization, result: Quantization) -> Array:
    if given.element is Element.UINT8 or given.is_unsigned:
        unity = np.float32(1)
        return _by_real_numbers(values, given, result, lambda real: unity / (unity + np.exp(-real)))
    whole = centred(values, given)
    if given.element is Element.INT16:
        return short_sigmoid(whole, given.scale).astype(np.int16)
    scaled, radius = _scaled(whole, given)
    # 1 / (1 + e ** -x) as fractions of 2 ** 31; x has four bits before the point.
    positive = reciprocal_of_one_plus(exponential(-np.abs(scaled), 4))
    reciprocal = np.where(scaled > 0, positive, LARGEST - positive)
    return _saturated(
        divided_by_power(np.where(scaled == 0, HALF, reciprocal), 23) - 128, whole, radius, result
    )


def _hyperbolic_tangent(values: Array, given: Quantization, result: Quantization) -> Array:
    if given.element is Element.UINT8 or given.is_unsigned:
        return _by_real_numbers(values, given, result, np.tanh)
    whole = centred(values, given)
    if given.element is Element.INT16:
        # Tanh x of 16-bit integers of that scale, in steps of 1 / 2 ** 15.
        return _short_tanh(_short_scaled(whole, given.scale, EXACT_SHIFTS["tanh"])).astype(np.int16)
    scaled, radius = _scaled(whole, given)
    # Tanh x as fractions of 2 ** 31; x has four bits before the point.
    # Read with five integer bits instead of four, the same 32 bits are 2 x.
    powers = exponential(-np.abs(scaled), 5)
    hyperbolic = _exponentials_saturated((_twice_reciprocal(powers) - 2**29) * 4)
    return _saturated(
        divided_by_power(
            np.where(scaled == 0, 0, np.where(scaled < 0, -hyperbolic, hyperbolic)), 24
        ),
        whole,
        radius,
        result,
    )


def _absolute(values: Array, given: Quantization, result: Quantization) -> Array:
    whole = np.abs(centred(values, given))
    if given.scale != result.scale:
        whole = rescaled(whole, *multiplier(_ratio(given, result)))
    return stored(whole, result)


def _elu(values: Array, given: Quantization, result: Quantization, alpha: float) -> Array:
    """In single precision, element by element."""
    single = np.float32
    real = single(given.scale) * centred(values, given).astype(single)
    exponential = np.where(
        real < 0, (np.exp(np.minimum(real, 0)) - single(1)) * single(alpha), real
    )
    return stored(
        away_from_zero(exponential * (single(1) / single(result.scale))).astype(np.int64), result
    )


def _short_multiplier(ratio: float) -> tuple[int, int]:
    """A 15-bit integer and an exponent."""
    integer, exponent = multiplier(ratio)
    return min((integer + 2**15) >> 16, LARGEST_SHORT), exponent


def _short_high_product(left: Integers, right: int) -> Integers:
    """The rounded upper half of twice a product of 16-bit integers; halves go away from zero."""
    product = left * right
    nudged = product + np.where(product >= 0, 2**14, 1 - 2**14)
    return np.where(nudged >= 0, nudged >> 15, -(-nudged >> 15))


def _hard_swish(values: Array, given: Quantization, result: Quantization) -> Array:
    """A number times a gate that grows from zero to one between -3 and 3, all in 16 bits."""
    fine = given.scale / 128
    factor, shift = _short_multiplier(fine / result.scale)
    gate_factor, gate_shift = _short_multiplier(fine / (3 / 2**15))
    fine_values = centred(values, given) * 128
    gate = fine_values
    if gate_shift > 0:
        gate = np.clip(gate * 2 ** (gate_shift - 1), LEAST, LARGEST_SHORT)
    gate = _short_high_product(gate, gate_factor)
    if gate_shift > 0:
        gate = np.clip(gate * 2, LEAST, LARGEST_SHORT)
    gate = divided_by_power(gate, max(-gate_shift, 0))
    gate = (gate + 2**15) >> 1
    product = gate * _short_high_product(fine_values, factor)
    shortened = np.where(product >= 0, product >> 15, -(-product >> 15))
    return stored(divided_by_power(shortened, max(-shift, 0)), result)


ROOT_BITS = 20  # fraction bits of an inverse square root


@lru_cache(maxsize=1024)  # the integers of a table of 8 bits are asked for again by each table
def inverse_root(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as a 31-bit integer and an exponent, for a whole number from 1 on.

    Five Newton steps in fixed point with three bits before the point.
    """
    if value == 1:
        return LARGEST, 0
    right = 11
    while value >= 2**29:
        value, right = value // 4, right + 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1  # of bits, by which there is room above
    right -= pairs
    operand = np.int64(value << 2 * pairs) >> 1
    half, estimate = divided_by_power(operand, 1), np.full((), 2**28, np.int64)
    for _ in range(5):
        cube = _exponentials_saturated(
            high_product(high_product(estimate, estimate), estimate) * 2**6
        )
        step = high_product(3 * 2**27, estimate) - high_product(half, cube)
        estimate = _exponentials_saturated(step * 2**3)
    integer = int(high_product(estimate, 1518500250))  # sqrt(1 / 2)
    return (integer << -right, 0) if right < 0 else (integer, -right)


def _reciprocal_root(values: Array, given: Quantization, result: Quantization) -> Array:
    """The runtime stops at a number below zero; here it counts as zero, whose result is the largest."""
    single = np.float32
    scales = float(np.sqrt(single(given.scale)) * single(result.scale))
    factor, power = multiplier(1 / scales)
    whole, limits = centred(values, given), np.iinfo(given.element.value)
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


EXPONENTIALS = (  # e ** -(1/4, 1/2, 1, 2, ...) as fractions of 2**31
    1672461947,
    1302514674,
    790015084,
    290630308,
    39332535,
    720401,
    242,
)
DIFFERENCE_BITS = 5  # integer bits of the fixed-point exponents of a softmax


def exponential(values: Integers, whole_bits: int = DIFFERENCE_BITS) -> Integers:
    """Return e ** x for x <= 0, as fractions of 2 ** 31; x has this many bits before the point.

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
    reciprocal = 1515870810 + high_product(half, -1010580540)  # 48 / 17 - 32 / 17 * half
    for _ in range(3):
        step = high_product(reciprocal, 2**29 - high_product(half, reciprocal))
        reciprocal = reciprocal + _exponentials_saturated(step * 4)
    return reciprocal


def reciprocal_of_one_plus(values: Integers) -> Integers:
    """Return 1 / (1 + x) for 0 <= x <= 1, both as fractions of 2 ** 31."""
    return _exponentials_saturated(_twice_reciprocal(values) * 2)


def _exponentials_saturated(values: Integers) -> Integers:
    return np.clip(values, -LARGEST - 1, LARGEST)


def input_radius(whole_bits: int, exponent: int) -> int:
    """Return the largest integer that has room when it is multiplied with 2 ** exponent."""
    return int((2**whole_bits - 1) * 2 ** (31 - whole_bits) // 2**exponent)


def softmax_of(values: Integers, scale: float, axis: Any, bits: int = 8) -> Integers:
    """Return a softmax of 8-bit integers along axes, as stored in this many bits.

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
    quotient = divided_by_power(high_product(shares, powers), 12 - lead + 31 - bits) + least
    result: Integers = np.where(beyond < radius, least, np.clip(quotient, least, largest))
    return result


STEPS = 512  # of a table over all 16-bit integers
# Exact shifts of `curve_steps` for scales that are powers of two, by function.
EXACT_SHIFTS = {"sigmoid": range(1), "tanh": range(2)}
LAST = 255  # of the table of the sigmoid: all above is one


@cache
def sigmoid_table() -> Integers:
    """Return sigmoids of i / 24 as fractions of 2 ** 16, less half of the error between them."""
    places = np.arange(LAST)
    here, between, after = (2**16 / (1 + np.exp(-(places + shift) / 24)) for shift in (0, 0.5, 1))
    error = (here + after) / 2 - between
    table = np.floor(here - error / 2 + 0.5).astype(np.int64)
    result: Integers = np.append(table, 2**16 - 1)
    return result


def curve_steps(scale: float, exact_shifts: range) -> tuple[int, int]:
    """Return factor and shift from stored integers to steps of 1 / (3 * 4096).

    A shift alone for powers of two that have room; a 15-bit factor otherwise.
    """
    power = log2(float(np.float32(scale)))
    shift = 12 + round(power)
    if abs(power - round(power)) < 1e-3 and shift in exact_shifts:
        return 3 << shift, 0
    factor, shift = float(np.float32(scale)) * 4096 * 3, 0
    while factor <= LARGEST_SHORT / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return int(factor), shift


def _short_scaled(values: Integers, scale: float, exact_shifts: range) -> Integers:
    factor, shift = curve_steps(scale, exact_shifts)
    result: Integers = (values * factor + ((1 << shift) >> 1)) >> shift
    return result


def short_sigmoid(values: Integers, scale: float) -> Integers:
    """Return 1 / (1 + e ** -x) of 16-bit integers of that scale, in steps of 1 / 2 ** 15."""
    scaled = _short_scaled(values, scale, EXACT_SHIFTS["sigmoid"])
    place, rest, table = np.abs(scaled) >> 9, np.abs(scaled) & 511, sigmoid_table()
    left, right = table[np.minimum(place, LAST - 1)], table[np.minimum(place, LAST - 1) + 1]
    interpolated = np.where(place >= LAST, LARGEST_SHORT << 10, (left << 9) + rest * (right - left))
    result: Integers = (
        np.where(scaled >= 0, interpolated + 512, (1 << 25) - interpolated + 511) >> 10
    )
    return result


def power_steps(power: int) -> tuple[int, int, int]:
    """Return factor, what is added to round, and shift from a scale to steps of 1 / (3 * 4096).

    power: of two, the scale.
    """
    shift = 12 + power
    return (3 << shift, 0, 0) if shift >= 0 else (3, 1 << (-shift - 1), -shift)


def power_hyperbolic_tangent(values: Integers, power: int) -> Integers:
    """Return tanh x of 16-bit integers whose scale is that power of two, in 1 / 2 ** 15."""
    factor, half, shift = power_steps(power)
    return _short_tanh((values * factor + half) >> shift)


def _short_tanh(scaled: Integers) -> Integers:
    """Of integers in steps of 1 / (3 * 4096)."""
    place, rest, table = np.abs(scaled) >> 8, np.abs(scaled) & 255, sigmoid_table()
    left, right = table[np.minimum(place, LAST - 1)], table[np.minimum(place, LAST - 1) + 1]
    interpolated = np.where(place >= LAST, 0xFFFF << 8, (left << 8) + rest * (right - left))
    above = interpolated - (1 << 23) + 128
    result: Integers = np.where(scaled >= 0, above, -interpolated + (1 << 23) + 127) >> 8
    return result


def _table(largest: float, zero: int, function: Callable[[Array], Array]) -> Integers:
    """A function of 16-bit integers i at every 128th of them, in steps of 2 / (2 ** 16 - 1).

    largest: (i - zero) / (2 ** 16 - 1) times that is what the function takes. From each value half
    of the error of interpolation in the middle is taken away. All in single precision.
    """
    single = np.float32
    scale, unit = single(largest) / single(2**16 - 1), single(2.0) / single(2**16 - 1)
    first, last = scale * single(LEAST - zero), scale * single(LARGEST_SHORT - zero)
    step = (last - first) / single(STEPS)
    inverse = single(2**16) / (unit * single(LARGEST_SHORT) - unit * single(LEAST))
    places = first + np.arange(STEPS + 1).astype(single) * step
    values = function(places) * inverse
    here, after = away_from_zero(values[:-1]), values[1:]
    between = away_from_zero(function(places[:-1] + step / single(2)) * inverse)
    error = away_from_zero((after + here) / single(2)) - between
    end = away_from_zero(function(np.array([last])) * inverse)
    table = np.append(here - away_from_zero(error / single(2)), end)
    result: Integers = np.clip(table, LEAST, LARGEST_SHORT).astype(np.int64)
    return result


def _looked_up(values: Integers, table: Integers) -> Integers:
    place, rest = 256 + (values >> 7), values & 127
    result: Integers = table[place] + (((table[place + 1] - table[place]) * rest + 64) >> 7)
    return result


@cache
def exponential_table() -> Integers:
    """Return e ** x at 513 places from -10 to 0."""
    return _table(10.0, LARGEST_SHORT, np.exp)


@cache
def reciprocal_table() -> Integers:
    """Return 1 / (1 + x) at 513 places from 0 to 1."""
    return _table(1.0, LEAST, lambda values: 1 / (1 + values))


def softmax_multiplier(scale: float) -> tuple[int, int]:
    """Return integer and exponent from stored integers to steps of the table of exponentials."""
    return multiplier(float(np.float32(scale)) / (10.0 / 65535.0))


def short_softmax(values: Integers, scale: float, axis: Any) -> Integers:
    """Return a softmax of 16-bit integers along axes, in steps of 1 / 2 ** 15."""
    ratio = softmax_multiplier(scale)
    beyond = rescaled(values - values.max(axis=axis, keepdims=True), *ratio) + LARGEST_SHORT
    powers = _looked_up(np.clip(beyond, LEAST, LARGEST_SHORT), exponential_table())
    sums = powers.sum(axis=axis, keepdims=True)
    lead = 32 - np.frexp(sums.astype(np.float64))[1]  # leading zeros of 32 bits
    shifted = ((sums << (lead - 1)) + (1 << 13)) >> 14
    centred = np.clip(shifted - ((1 << 15) + (1 << 16)), LEAST, LARGEST_SHORT)
    shares = _looked_up(centred, reciprocal_table())
    shift = 31 - lead
    quotient = (powers * shares + (1 << (shift - 1))) >> shift
    result: Integers = np.clip(quotient, 0, LARGEST_SHORT)
    return result
