"""Integer arithmetic of quantised layers, bit by bit as the runtimes compute it.

A stored integer q stands for scale * (q - zero point); scales are numbers in single precision.
`centred` integers have no zero point, `stored` adds it and saturates. Sums of products are rescaled
to steps of the output by a ratio of scales, in the arithmetic of the runtime (`rescaled_sums`):

    rescaled                   a 31-bit multiplier and a shift, each rounded: halves of the product
                               up, halves of the shift away from zero (TensorFlow Lite Micro)
    rescaled_wide              a 15-bit multiplier, halves up (sums of 16-bit integers)
    rescaled_single_rounding   in double precision, halves away from zero (LiteRT, fully connected)
    rescaled_with_further      the same without floats: a multiplier of up to 62 bits, halves up

Described from tensorflow/tflite-micro, tensorflow/lite/kernels/internal/common.cc and
quantization_util.cc, and from google/gemmlowp, fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import frexp

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from csdf.errors import UnsupportedOperator

Integers = NDArray[np.int64]

INT32_MAX = 2**31 - 1
HALF_IN_Q31 = 2**30  # 1/2 with 31 fraction bits, in which a multiplier is from 1/2 to 1
# Limits of the exponents of multipliers.
MOST_EXPONENT = 30  # rounded once: a shift right by 31 - exponent, at least a bit to round
LEAST_EXPONENT = -15  # rounded once to 16 bits: sums are clipped to 2 ** (16 - exponent) in C
MOST_WIDE_EXPONENT = 14  # `rescaled_wide`: a shift right by 15 - exponent, at least a bit to round


def multiplier(ratio: float) -> tuple[int, int]:
    """Return a 31-bit integer and an exponent: ratio is about integer * 2 ** (exponent - 31)."""
    if ratio == 0:
        return 0, 0
    fraction, exponent = frexp(ratio)
    integer = int(fraction * 2**31 + 0.5)  # halves up; a fraction is positive
    if integer == 2**31:
        integer, exponent = HALF_IN_Q31, exponent + 1
    return (0, 0) if exponent < -31 else (integer, exponent)


def multipliers(ratios: Iterable[float]) -> tuple[Integers, Integers]:
    """Return the multipliers of several numbers as arrays of integers and of exponents."""
    pairs = np.array([multiplier(ratio) for ratio in ratios], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def mean_multiplier(ratio: float, count: int) -> tuple[int, int]:
    """Return the multiplier and exponent of ratio / count, by which a sum of integers becomes a mean.

    The multiplier of the ratio is divided as an integer, after a shift that keeps its bits. Described
    from tensorflow/lite/kernels/internal/reference/reduce.h, QuantizedMeanOrSum.
    """
    integer, exponent = multiplier(ratio)
    shift = min(count.bit_length() - 1, 32, 31 + exponent)
    return (integer << shift) // count, exponent - shift


def high_product(left: ArrayLike, right: ArrayLike, fraction_bits: int = 31) -> Integers:
    """Return a product / 2 ** fraction_bits, rounded: by default the upper half of twice the product.

    Halves go up: -1/2 becomes 0. Not saturated: that would change the product of -2**31 and -2**31
    only, and a factor that is a multiplier is not negative.
    """
    product = np.asarray(left, np.int64) * np.asarray(right, np.int64)
    half = 1 << (fraction_bits - 1)
    nudged = product + np.where(product >= 0, half, 1 - half)
    result: Integers = np.where(nudged >= 0, nudged >> fraction_bits, -(-nudged >> fraction_bits))
    return result


def divided_by_power(values: ArrayLike, exponent: ArrayLike) -> Integers:
    """Return values / 2 ** exponent, rounded to the nearest; halves go away from zero."""
    whole, power = np.asarray(values, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << power) - 1
    threshold = (mask >> 1) + (whole < 0)
    result: Integers = (whole >> power) + ((whole & mask) > threshold)
    return result


def rescaled(values: ArrayLike, integer: ArrayLike, exponent: ArrayLike) -> Integers:
    """Return values times integer * 2 ** (exponent - 31), rounded twice.

    A shift to the left by 32 or more, in a file with a scale of nearly zero, is undefined in C. Here it
    counts modulo 32, as x86 processors shift, and the product wraps.
    """
    power = np.asarray(exponent, np.int64)
    shifted = np.asarray(values, np.int64) << (np.maximum(power, 0) % 32)
    return divided_by_power(high_product(shifted.astype(np.int32), integer), np.maximum(-power, 0))


def rescaled_single_rounding(values: ArrayLike, ratios: ArrayLike) -> Integers:
    """Return products in double precision as 32-bit integers, halves away from zero, saturated.

    Described from google-ai-edge/LiteRT, tflite/kernels/internal/reference/integer_ops/
    fully_connected.h, the version with scales as arguments.
    """
    products = np.asarray(values, np.float64) * np.asarray(ratios, np.float64)
    result: Integers = np.clip(away_from_zero(products), -INT32_MAX - 1, INT32_MAX).astype(np.int64)
    return result


@lru_cache(maxsize=4096)
def multiplier_single_rounding(ratio: float, least: int, most: int) -> tuple[int, int, int]:
    """Return an integer of 31 bits, an exponent and 31 further bits, mostly 0.

    With them `rescaled_with_further` equals `rescaled_single_rounding` after both are clipped to least
    and most. For results of 8 bits this holds for all sums of 32 bits. For results of 16 bits it holds
    for sums within 2 ** (16 - exponent); results of larger sums are beyond the limits, so C clips the
    sums first. Both are monotone, so they are equal if they are equal next to each threshold, a sum at
    which the result changes. The first candidate that is equal there is returned.

    Raises UnsupportedOperator if no candidate is equal, or if C would have to clip sums of more than
    32 bits.
    """
    integer, exponent = multiplier(ratio)
    if not integer:
        return 0, -1, 0
    if exponent >= MOST_EXPONENT:  # each sum but zero is beyond the limits
        return HALF_IN_Q31, MOST_EXPONENT, 0
    if exponent < LEAST_EXPONENT and most - least > 2**8:
        raise _no_single_rounding(ratio, "below 2 ** -16, 16-bit results take sums of over 32 bits")
    # A threshold is seen between the two sums around it; the others allow for its rounding.
    thresholds = (np.arange(least + 1, most + 1) - 0.5) / ratio
    before = np.floor(np.clip(thresholds, -INT32_MAX - 1, INT32_MAX)).astype(np.int64)
    sums = np.clip(before[:, None] + np.arange(-2, 4), -INT32_MAX - 1, INT32_MAX)
    expected = np.clip(rescaled_single_rounding(sums, ratio), least, most)
    for factor, further in _candidates(ratio, integer):
        results = rescaled_with_further(sums, factor, exponent, further)
        if np.array_equal(np.clip(results, least, most), expected):
            return factor, exponent, further
    raise _no_single_rounding(ratio, "no multiplier of 62 bits rounds as double precision does")


def _no_single_rounding(ratio: float, why: str) -> UnsupportedOperator:
    return UnsupportedOperator(
        f"a ratio of scales of {ratio!r}: {why}; read the file with --runtime tflite-micro"
    )


def _candidates(ratio: float, integer: int) -> list[tuple[int, int]]:
    """Candidates for a multiplier, each an integer of 31 bits and 31 further bits.

    First numbers of 31 bits next to the rounded ratio, then of 62 bits next to its exact 53 bits.
    Products of candidates are rounded with halves up. Slightly above the ratio, a negative half falls
    below the half and rounds away from zero, as in double precision.
    """
    rounded = [(integer + step, 0) for step in (0, 1, -1, 2, -2, 3, -3, 4, -4)]
    last_bit = 2 ** (62 - 53)  # of the 53 bits, in a number of 62 bits
    exact = int(frexp(ratio)[0] * 2.0**53) * last_bit
    steps = (0, 1, 2, last_bit, 2 * last_bit, -last_bit)
    candidates = [*rounded, *(divmod(exact + step, 2**31) for step in steps)]
    return [(factor, further) for factor, further in candidates if factor <= INT32_MAX]


def rescaled_with_further(values: ArrayLike, integer: int, exponent: int, further: int) -> Integers:
    """Return values times (integer + further * 2 ** -31) * 2 ** (exponent - 31), halves up."""
    shift, whole = 31 - exponent, np.asarray(values, np.int64)
    product = whole * integer + ((whole * further) >> 31)
    result: Integers = (product + (np.int64(1) << (shift - 1))) >> shift
    return result


def rescaled_wide(values: ArrayLike, integer: ArrayLike, exponent: ArrayLike) -> Integers:
    """Return sums of up to 48 bits times integer * 2 ** (exponent - 31), halves up, as 32 bits.

    The integer is rounded to its upper 15 bits, so that a product has 63 bits. Results beyond 32 bits
    wrap, as in C. Raises UnsupportedOperator for ratios from 2 ** 14 on, which C does not define.
    """
    factor, power = np.asarray(integer, np.int64), np.asarray(exponent, np.int64)
    if np.any(power > MOST_WIDE_EXPONENT):
        raise UnsupportedOperator("a ratio of scales of 2 ** 14 or more with sums of 64 bits")
    short = np.minimum((factor + (1 << 15)) >> 16, 2**15 - 1)
    shift = 15 - power
    rounding = np.int64(1) << (shift - 1)
    product = (np.asarray(values, np.int64) * short + rounding) >> shift
    result: Integers = product.astype(np.int32).astype(np.int64)
    return result


def away_from_zero(values: Array) -> Array:
    """Return the nearest whole numbers, in the precision of the values; halves go away from 0."""
    whole = np.trunc(values)
    with np.errstate(invalid="ignore"):  # infinity less infinity; infinity stays as it is
        has_half = np.abs(values - whole) >= 0.5
    rounded: Array = whole + np.copysign(has_half, values)
    return rounded


def stored(values: Integers, types: Quantization) -> Array:
    """Return integers without their zero point as they are stored, saturated."""
    limits = np.iinfo(types.element.value)
    clipped = np.clip(values + types.zero_point, limits.min, limits.max)
    return clipped.astype(types.element.value)


def centred(values: Array, types: Quantization) -> Integers:
    """Return stored integers without their zero point."""
    result: Integers = values.astype(np.int64) - types.zero_point
    return result


def quantized(values: Array, types: Quantization) -> Array:
    """Return real numbers as stored integers; the division is in single precision."""
    scaled = np.asarray(values, np.float32) / np.float32(types.scale)
    rounded = away_from_zero(scaled) if types.is_fixed_point else np.rint(scaled)
    limits = np.iinfo(types.element.value)
    width = float(limits.max - limits.min)
    # Beyond these bounds all numbers saturate, whatever the zero point. fmax returns the bound for a
    # NaN: C and ONNX Runtime store the minimum, too.
    bounded = np.fmin(np.fmax(rounded, limits.min - width), limits.max + width)
    return stored(bounded.astype(np.int64), types)


def dequantized(values: Array, types: Quantization) -> Array:
    """Return stored integers of one scale as real numbers in single precision."""
    whole = values.astype(np.int64) - types.zero_point
    if types.is_fixed_point:
        return (np.float64(types.scale) * whole).astype(np.float32)
    return whole.astype(np.float32) * np.float32(types.scale)


def keeps_integers(source: Quantization, result: Quantization) -> bool:
    """Whether requantising 8-bit integers from one type to the other changes none, nor back."""
    if source.element.bytes > 1 or source.element is not result.element:
        return source == result
    limits = np.iinfo(source.element.value)
    values = np.arange(limits.min, limits.max + 1)
    return all(
        np.array_equal(quantized(dequantized(values, source_types), target_types), values)
        for source_types, target_types in ((source, result), (result, source))
    )


def rescaled_sums(
    sums: Integers,
    ratios: Sequence[float],
    result: Quantization,
    *,
    is_wide: bool = False,
    rounds_once: bool = False,
) -> Array:
    """Return sums of integer products as stored integers of another scale.

    ratios: of the scale of the sums to that of the result; one for all sums, or one for each position
    of the first axis.
    is_wide: whether the sums have 64 bits, as those of 16-bit integers without a bias of 32.
    rounds_once: whether products are rounded once, as of fully connected layers.
    """
    axes = (-1, *(1,) * (sums.ndim - 1))
    if not result.is_fixed_point:
        factors = np.array(ratios, np.float32).reshape(axes)
        return stored(np.rint(sums.astype(np.float32) * factors).astype(np.int64), result)
    if rounds_once:
        return stored(rescaled_single_rounding(sums, np.array(ratios).reshape(axes)), result)
    integers, exponents = (array.reshape(axes) for array in multipliers(ratios))
    rescale = rescaled_wide if is_wide else rescaled
    return stored(rescale(sums, integers, exponents), result)


def rescaled_products(
    sums: Array,
    source: Quantization,
    weights: Quantization,
    result: Quantization,
    arrays: Mapping[str, Array],
) -> Array:
    """Return sums of products with weights, one row for each output channel, as stored integers.

    arrays: the weights and the bias, by their role.
    """
    ratios, is_wide = (
        channel_ratios(source, weights, result, len(sums)),
        has_wide_sums(source, arrays),
    )
    rounds_once, whole = weights.rounds_sums_once, sums.astype(np.int64)
    return rescaled_sums(whole, ratios, result, is_wide=is_wide, rounds_once=rounds_once)


def channel_ratios(
    source: Quantization, weights: Quantization, result: Quantization, channels: int
) -> list[float]:
    """Return the ratio of the scale of sums of products to that of the result, for each channel.

    The precision is that of the runtime. For uint8 the product of scales is single, the division is
    double; in fixed point both are double; otherwise both are single.
    """
    scales = weights.scales if len(weights.scales) > 1 else weights.scales * channels
    if result.is_fixed_point and not weights.is_unsigned:
        return [source.scale * scale / result.scale for scale in scales]
    products = np.float32(source.scale) * np.array(scales, np.float32)
    if weights.is_unsigned:
        return [float(product) / result.scale for product in products]
    return [float(ratio) for ratio in products / np.float32(result.scale)]


def requantising_arrays(
    ratios: Sequence[float], result: Quantization, *, rounds_once: bool
) -> dict[str, Array]:
    """Return the constant arrays of a kernel that requantises sums of products, by their role.

    In fixed point multipliers of 32 bits and exponents of 8 bits, and further bits for a few ratios
    of sums that are rounded once; else factors in single precision. A multiplier of 0 has the
    exponent -1, and shifts to the left count modulo 32, as in `rescaled`.
    """
    if not result.is_fixed_point:
        return {"factors": np.array(ratios, np.float32)}
    if rounds_once:
        limits = np.iinfo(result.element.value)
        least, most = (int(limit) - result.zero_point for limit in (limits.min, limits.max))
        triples = [multiplier_single_rounding(ratio, least, most) for ratio in ratios]
        integers, exponents, further = np.array(triples, np.int64).T
    else:
        (integers, exponents), further = multipliers(ratios), np.zeros(1, np.int64)
    exponents = np.where(integers != 0, exponents, -1)
    exponents = np.where(exponents < 32, exponents, exponents % 32)
    arrays: dict[str, Array] = {"multipliers": integers.astype(np.int32)}
    arrays["exponents"] = exponents.astype(np.int8)
    if further.any():
        arrays["further"] = further.astype(np.int32)
    return arrays


def has_wide_sums(source: Quantization, weights: Mapping[str, Array]) -> bool:
    """Whether sums have 64 bits: those of 16-bit integers, but for a bias of 32 bits."""
    is_narrow = "bias" in weights and weights["bias"].dtype.itemsize <= 4
    return source.element is Element.INT16 and not is_narrow
