"""Functions of 16-bit integers by tables with interpolation, as TensorFlow Lite Micro has them.

Described from tensorflow/tflite-micro, tensorflow/lite/kernels/internal: common.h, and in reference
integer_ops/logistic.h, integer_ops/tanh.h and softmax.h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import log2
from typing import Any

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.integers import Integers, away_from_zero, multiplier, rescaled

LEAST, LARGEST = -(2**15), 2**15 - 1
STEPS = 512  # of a table over all 16-bit integers
EXACT_SHIFTS = {"sigmoid": range(1), "tanh": range(2)}  # in which scales are powers of two
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
    while factor <= LARGEST / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return int(factor), shift


def _scaled(values: Integers, scale: float, exact_shifts: range) -> Integers:
    factor, shift = curve_steps(scale, exact_shifts)
    result: Integers = (values * factor + ((1 << shift) >> 1)) >> shift
    return result


def short_sigmoid(values: Integers, scale: float) -> Integers:
    """Return 1 / (1 + e ** -x) of 16-bit integers of that scale, in steps of 1 / 2 ** 15."""
    scaled = _scaled(values, scale, EXACT_SHIFTS["sigmoid"])
    place, rest, table = np.abs(scaled) >> 9, np.abs(scaled) & 511, sigmoid_table()
    left, right = table[np.minimum(place, LAST - 1)], table[np.minimum(place, LAST - 1) + 1]
    found = np.where(place >= LAST, LARGEST << 10, (left << 9) + rest * (right - left))
    result: Integers = np.where(scaled >= 0, found + 512, (1 << 25) - found + 511) >> 10
    return result


def short_hyperbolic_tangent(values: Integers, scale: float) -> Integers:
    """Return tanh x of 16-bit integers of that scale, in steps of 1 / 2 ** 15."""
    return _hyperbolic_tangent(_scaled(values, scale, EXACT_SHIFTS["tanh"]))


def power_steps(power: int) -> tuple[int, int, int]:
    """Return factor, what is added to round, and shift from a scale to steps of 1 / (3 * 4096).

    power: of two, the scale.
    """
    shift = 12 + power
    return (3 << shift, 0, 0) if shift >= 0 else (3, 1 << (-shift - 1), -shift)


def power_hyperbolic_tangent(values: Integers, power: int) -> Integers:
    """Return tanh x of 16-bit integers whose scale is that power of two, in 1 / 2 ** 15."""
    factor, half, shift = power_steps(power)
    return _hyperbolic_tangent((values * factor + half) >> shift)


def _hyperbolic_tangent(scaled: Integers) -> Integers:
    """Of integers in steps of 1 / (3 * 4096)."""
    place, rest, table = np.abs(scaled) >> 8, np.abs(scaled) & 255, sigmoid_table()
    left, right = table[np.minimum(place, LAST - 1)], table[np.minimum(place, LAST - 1) + 1]
    found = np.where(place >= LAST, 0xFFFF << 8, (left << 8) + rest * (right - left))
    above = found - (1 << 23) + 128
    result: Integers = np.where(scaled >= 0, above, -found + (1 << 23) + 127) >> 8
    return result


def _table(largest: float, zero: int, function: Callable[[Array], Array]) -> Integers:
    """A function of 16-bit integers i at every 128th of them, in steps of 2 / (2 ** 16 - 1).

    largest: (i - zero) / (2 ** 16 - 1) times that is what the function takes. From each value half
    of the error of interpolation in the middle is taken away. All in single precision.
    """
    single = np.float32
    scale, unit = single(largest) / single(2**16 - 1), single(2.0) / single(2**16 - 1)
    first, last = scale * single(LEAST - zero), scale * single(LARGEST - zero)
    step = (last - first) / single(STEPS)
    inverse = single(2**16) / (unit * single(LARGEST) - unit * single(LEAST))
    places = first + np.arange(STEPS + 1).astype(single) * step
    values = function(places) * inverse
    here, after = away_from_zero(values[:-1]), values[1:]
    between = away_from_zero(function(places[:-1] + step / single(2)) * inverse)
    error = away_from_zero((after + here) / single(2)) - between
    end = away_from_zero(function(np.array([last])) * inverse)
    table = np.append(here - away_from_zero(error / single(2)), end)
    result: Integers = np.clip(table, LEAST, LARGEST).astype(np.int64)
    return result


def _looked_up(values: Integers, table: Integers) -> Integers:
    place, rest = 256 + (values >> 7), values & 127
    result: Integers = table[place] + (((table[place + 1] - table[place]) * rest + 64) >> 7)
    return result


@cache
def exponential_table() -> Integers:
    """Return e ** x at 513 places from -10 to 0."""
    return _table(10.0, LARGEST, np.exp)


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
    beyond = rescaled(values - values.max(axis=axis, keepdims=True), *ratio) + LARGEST
    powers = _looked_up(np.clip(beyond, LEAST, LARGEST), exponential_table())
    sums = powers.sum(axis=axis, keepdims=True)
    lead = 32 - np.frexp(sums.astype(np.float64))[1]  # leading zeros of 32 bits
    shifted = ((sums << (lead - 1)) + (1 << 13)) >> 14
    centred = np.clip(shifted - ((1 << 15) + (1 << 16)), LEAST, LARGEST)
    shares = _looked_up(centred, reciprocal_table())
    shift = 31 - lead
    found = (powers * shares + (1 << (shift - 1))) >> shift
    result: Integers = np.clip(found, 0, LARGEST)
    return result
