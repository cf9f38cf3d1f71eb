"""The one place that knows the compiler.

A kernel is a plain function over flat sequences. `compiled(kernel)` is the same function for int64
arrays, translated by numba on first use and kept in a cache: beside the module where that is
writable, else in the user's cache folder, else in memory only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

SAFE = 2**61  # no kernel lets a sum pass it: two such sums still fit into 64 bits

_translated: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel for int64 arrays; loading the compiler takes about half a second."""
    if kernel not in _translated:
        from numba import njit  # noqa: PLC0415  only large graphs pay for it

        try:
            _translated[kernel] = njit(cache=True)(kernel)
        except RuntimeError:  # no place for a cache is writable
            _translated[kernel] = njit(kernel)
    return _translated[kernel]


def is_loaded() -> bool:
    """Whether the compiler is in memory, so that using it costs nothing more."""
    return "numba" in sys.modules


def array(values: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the numbers as an int64 array; raises OverflowError if one does not fit."""
    import numpy as np  # noqa: PLC0415  only large graphs pay for it

    return np.array(values, dtype=np.int64)


def blank(length: int) -> np.ndarray[Any, Any]:
    """Return an int64 array of that length for a kernel to fill."""
    import numpy as np  # noqa: PLC0415  only large graphs pay for it

    return np.empty(length, dtype=np.int64)
