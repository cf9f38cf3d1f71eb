"""Quantised integers in single precision: means, softmax, products of matrices, normalisations.

What ONNX Runtime adds up as integers, or looks up in a table, is added up as integers here: a sum
of real numbers would depend on the order of the rows. One rounding to single precision follows,
then operations that IEEE 754 defines to the last bit.

A product of matrices that were made real is summed as integers as well, and only where rounding in
between might lead to another integer it is summed as the runtime does: with fused multiply-adds, in
blocks of columns. Bound: Higham, Accuracy and Stability of Numerical Algorithms, 3.1.
Read from microsoft/onnxruntime, onnxruntime/core/mlas/lib (sgemm.cpp), and compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Quantization
from cnn2csdf.integers import Integers, quantized, stored

POWER_BITS = 24  # of the largest power in a table: all are exact in single precision
POWERS = 256  # differences of an 8-bit integer from the largest one: 0 to 255


def averaged(
    sums: Integers, counts: ArrayLike, source: Quantization, result: Quantization
) -> Array:
    """Return the means of this many integers each, as stored; sums are without zero points."""
    steps = np.float32(result.scale) * np.asarray(counts).astype(np.float32)
    ratios = np.float32(source.scale) / steps
    return stored(np.rint(sums.astype(np.float32) * ratios).astype(np.int64), result)


def power_table(scale: float) -> Integers:
    """Return e ** (-scale * n) for n from 0 on, as integers of at most 24 bits."""
    powers = np.exp(-np.float64(np.float32(scale)) * np.arange(POWERS))
    whole: Integers = np.rint(powers * 2**POWER_BITS).astype(np.int64)
    return whole


def softmax_by_table(
    values: Integers, axes: Sequence[int], source: Quantization, result: Quantization
) -> Array:
    """Return a softmax of 8-bit integers along axes, as stored."""
    powers = power_table(source.scale)[values.max(axis=tuple(axes), keepdims=True) - values]
    sums = powers.sum(axis=tuple(axes), keepdims=True)
    return quantized(powers.astype(np.float32) / sums.astype(np.float32), result)


UNIT_ROUNDOFF = 2.0**-24
OTHER_ROUNDINGS = 10  # an upper limit: of operands, bias, scales and the result
STRIDE = 128  # rows and columns of a block of the second matrix, where neither is few


def columns_at_once(columns: int, results: int) -> int:
    """Return how many products are summed before the sum is added to those of earlier columns.

    columns: those of the first matrix; results: those of the second.
    """
    block, width = STRIDE, STRIDE
    while results < columns and width > 16 and width >= 2 * results:
        block, width = 2 * block, width // 2
    return block


def fused_multiply_add(left: Array, right: Array, added: Array) -> Array:
    """Return left * right + added, rounded once to single precision.

    The product is exact in double precision; the sum there is rounded to odd, so that rounding it
    again does no harm (Boldo, Melquiond, Emulation of FMA and Correctly Rounded Sums, 2008).
    """
    product, addend = left.astype(np.float64) * right, added.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    toward = np.where(error > 0, np.inf, -np.inf)
    is_even = (total.view(np.int64) & 1) == 0
    odd: Array = np.where((error != 0) & is_even, np.nextafter(total, toward), total)
    return odd.astype(np.float32)


def products_in_order(left: Array, right: Array, bias: Array | None, block: int) -> Array:
    """Return the sum of products of each row of both, as the runtime rounds it.

    left, right: (sums, columns) in single precision. block: columns that are summed at once.
    """
    columns, summed = left.shape[1], np.zeros(0, np.float32)
    for first in range(0, columns, block):
        total = np.zeros(len(left), np.float32)
        for column in range(first, min(first + block, columns)):
            total = fused_multiply_add(left[:, column], right[:, column], total)
        if first:
            total = summed + total
        elif bias is not None:
            total = total + bias
        summed = total
    return summed


def product_factors(
    source: Quantization, factors: Quantization, result: Quantization
) -> tuple[Array, Array]:
    """Return the scales of the second matrix, and the value of a sum of 1 in steps of the result.

    One for each column, or one for all; in double precision.
    """
    steps = np.array(factors.scales)
    return steps, source.scale * steps / result.scale


def multiplied(
    left: Array,
    right: Array,
    bias: Array | None,
    types: Sequence[Quantization],
    block: int | None = None,
) -> Array:
    """Return the product of matrices in the last two axes, as stored.

    left, right: integers without zero points, in double precision. bias: integers, one for each
    column. types: of both, and of the result. block: columns that the runtime sums at once, by default
    as for these matrices.
    """
    left_types, right_types, result = types
    steps, ratios = product_factors(left_types, right_types, result)
    sums = np.matmul(left, right) + (0 if bias is None else bias)
    values = sums * ratios
    magnitudes = np.abs(left).sum(axis=-1, keepdims=True) * np.abs(right).max(initial=0)
    magnitudes = magnitudes + (0 if bias is None else np.abs(bias))
    error = (left.shape[-1] + OTHER_ROUNDINGS) * UNIT_ROUNDOFF * ratios * magnitudes
    products = stored(np.rint(values).astype(np.int64), result)
    # Where the rounding error may change the integer, the sum of the runtime decides.
    uncertain = np.nonzero(np.rint(values - error) != np.rint(values + error))
    if uncertain[0].size:
        *batch, row, column = uncertain
        rows = np.broadcast_to(left, (*sums.shape[:-1], left.shape[-1]))[(*batch, row)]
        transposed = np.swapaxes(right, -1, -2)
        transposed = np.broadcast_to(transposed, (*sums.shape[:-2], *transposed.shape[-2:]))
        columns = transposed[(*batch, column)]
        left_step = np.float32(left_types.scale)
        right_steps = np.broadcast_to(steps.astype(np.float32), sums.shape[-1:])[column]
        real_bias = None
        if bias is not None:
            real_bias = bias[column].astype(np.float32) * (left_step * right_steps)
        real = products_in_order(
            rows.astype(np.float32) * left_step,
            columns.astype(np.float32) * right_steps[:, None],
            real_bias,
            block or columns_at_once(left.shape[-1], sums.shape[-1]),
        )
        products[uncertain] = quantized(real, result)
    return products


LANES = 8  # partial sums of a row; at the end halves are added to halves: 8, 4, 2, 1


def standardised(values: Array, scale: Array, shift: Array | None, epsilon: float) -> Array:
    """Return real numbers with mean zero and variance one along the last axis, scaled and shifted.

    In single precision but for the sum of the mean.
    """
    count, single = values.shape[-1], np.float32
    mean = values.astype(np.float64).sum(axis=-1, keepdims=True) / count
    deviations = values - mean.astype(np.float32)
    padded = np.zeros((*deviations.shape[:-1], -(-count // LANES) * LANES), np.float32)
    padded[..., :count] = deviations
    sums = np.zeros((*deviations.shape[:-1], LANES), np.float32)
    for first in range(0, count, LANES):
        piece = padded[..., first : first + LANES]
        sums = fused_multiply_add(piece, piece, sums)
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    inverse = single(1) / np.sqrt(sums / single(count) + single(epsilon))
    normalised: Array = deviations * inverse * scale
    return normalised if shift is None else normalised + shift
