"""Functions of one stored integer, bit by bit as TensorFlow Lite Micro computes them.

Described from tensorflow/tflite-micro: tensorflow/lite/micro/kernels (activations_common.cc,
elementwise.cc, elu.cc, hard_swish_common.cc, leaky_relu_common.cc, logistic_common.cc,
prelu_common.cc, tanh.cc) and tensorflow/lite/kernels/internal/reference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.elements import Element, Quantization
from cnn2csdf.fixed_point.exponentials import hyperbolic_tangent_of, input_radius, sigmoid_of
from cnn2csdf.fixed_point.short_functions import short_hyperbolic_tangent, short_sigmoid
from cnn2csdf.integers import (
    Integers,
    away_from_zero,
    centred,
    divided_by_power,
    multiplier,
    quantized,
    rescaled,
    stored,
)

WHOLE_BITS = 4  # before the point of what sigmoid and tanh take
LARGEST_SHORT = 2**15 - 1

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
    limits = (
        None if np.isinf(limit) else quantized(np.array(limit), given) for limit in (low, high)
    )
    low_stored, high_stored = limits
    if low_stored is high_stored is None:
        return values
    clipped: Array = np.clip(values, low_stored, high_stored)
    return clipped


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


def _sigmoid(values: Array, given: Quantization, result: Quantization) -> Array:
    whole = centred(values, given)
    if given.element is Element.INT16:
        return short_sigmoid(whole, given.scale).astype(np.int16)
    scaled, radius = _scaled(whole, given)
    return _saturated(divided_by_power(sigmoid_of(scaled), 23) - 128, whole, radius, result)


def _hyperbolic_tangent(values: Array, given: Quantization, result: Quantization) -> Array:
    whole = centred(values, given)
    if given.element is Element.INT16:
        return short_hyperbolic_tangent(whole, given.scale).astype(np.int16)
    scaled, radius = _scaled(whole, given)
    return _saturated(divided_by_power(hyperbolic_tangent_of(scaled), 24), whole, radius, result)


def _absolute(values: Array, given: Quantization, result: Quantization) -> Array:
    whole = np.abs(centred(values, given))
    if given.scale != result.scale:
        whole = rescaled(whole, *multiplier(_ratio(given, result)))
    return stored(whole, result)


def _elu(values: Array, given: Quantization, result: Quantization, alpha: float) -> Array:
    """In single precision, element by element."""
    single = np.float32
    real = single(given.scale) * centred(values, given).astype(single)
    found = np.where(real < 0, (np.exp(np.minimum(real, 0)) - single(1)) * single(alpha), real)
    return stored(
        away_from_zero(found * (single(1) / single(result.scale))).astype(np.int64), result
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


def _short(values: Integers) -> Integers:
    return np.clip(values, -(2**15), LARGEST_SHORT)


def _hard_swish(values: Array, given: Quantization, result: Quantization) -> Array:
    """A number times a gate that grows from zero to one between -3 and 3, all in 16 bits."""
    fine = given.scale / 128
    factor, shift = _short_multiplier(fine / result.scale)
    gate_factor, gate_shift = _short_multiplier(fine / (3 / 2**15))
    fine_values = centred(values, given) * 128
    gate = fine_values
    if gate_shift > 0:
        gate = _short(gate * 2 ** (gate_shift - 1))
    gate = _short_high_product(gate, gate_factor)
    if gate_shift > 0:
        gate = _short(gate * 2)
    gate = divided_by_power(gate, max(-gate_shift, 0))
    gate = (gate + 2**15) >> 1
    product = gate * _short_high_product(fine_values, factor)
    shortened = np.where(product >= 0, product >> 15, -(-product >> 15))
    return stored(divided_by_power(shortened, max(-shift, 0)), result)


FUNCTIONS: dict[str, Function] = {
    "abs": _absolute,
    "clip": _clip,
    "elu": _elu,
    "hard swish": _hard_swish,
    "leaky relu": _leaky_relu,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "tanh": _hyperbolic_tangent,
}
