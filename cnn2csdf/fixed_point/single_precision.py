"""Means and softmax of quantised integers in single precision, whatever order they are summed in.

What ONNX Runtime adds up as integers, or looks up in a table, is added up as integers here: a sum
of real numbers would depend on the order of the rows. One rounding to single precision follows,
then operations that IEEE 754 defines to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Quantization
from cnn2csdf.integers import Integers, quantized, stored

POWER_BITS = 24  # of the largest power in a table: all are exact in single precision
POWERS = 256  # how far an 8-bit integer lies below the largest one


def averaged(sums: Integers, counts: ArrayLike, given: Quantization, result: Quantization) -> Array:
    """Return the means of so many integers each, as stored; sums are without zero points."""
    steps = np.float32(result.scale) * np.asarray(counts).astype(np.float32)
    ratios = np.float32(given.scale) / steps
    found: Array = np.rint(sums.astype(np.float32) * ratios)
    return stored(found.astype(np.int64), result)


def power_table(scale: float) -> Integers:
    """Return e ** (-scale * n) for n from 0 on, as integers of at most 24 bits."""
    powers = np.exp(-np.float64(np.float32(scale)) * np.arange(POWERS))
    whole: Integers = np.rint(powers * 2**POWER_BITS).astype(np.int64)
    return whole


def shares(
    values: Integers, axes: Sequence[int], given: Quantization, result: Quantization
) -> Array:
    """Return a softmax of 8-bit integers along axes, as stored."""
    powers = power_table(given.scale)[values.max(axis=tuple(axes), keepdims=True) - values]
    sums = powers.sum(axis=tuple(axes), keepdims=True)
    return quantized(powers.astype(np.float32) / sums.astype(np.float32), result)
