"""The arrays of feature maps and weights: single precision, or integers as stored in the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def are_halves(array: Array) -> bool:
    """Whether each number is one of float16, so that two bytes hold it."""
    with np.errstate(over="ignore"):
        halves = array.astype(np.float16)
    return np.array_equal(halves.astype(array.dtype), array)
