"""The one place that knows the compiler.

A kernel is a plain function over flat sequences of integers. A Backend runs it: PLAIN as it is, on
lists of Python integers, which have no largest value; COMPILED translated by numba, on int64 arrays.
Translations are kept in a cache: beside the module where that is writable, else in the user's cache
folder, else in memory only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

SAFE = 2**61  # no compiled kernel lets a sum pass it: two such sums still fit into 64 bits
UNBOUNDED = 2**20_000  # the same for Python integers: a limit that nothing real reaches


class Plain:
    """Kernels as they are written, on lists of Python integers."""

    is_compiled = False
    limit = UNBOUNDED

    def kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function to call."""
        return function

    def array(self, values: Sequence[int]) -> Any:
        """Return the numbers in a sequence of their own, for a kernel to read or change."""
        return list(values)

    def view(self, values: Any) -> Any:
        """Return the numbers for a kernel to read, without a copy where they may stay."""
        return values if isinstance(values, list) else [int(value) for value in values]

    def blank(self, length: int) -> Any:
        """Return so many numbers for a kernel to fill."""
        return [0] * length

    def take(self, values: Any, places: Any) -> list[int]:
        """Return the values at these places."""
        return [values[place] for place in places]


class Compiled:
    """Kernels translated by numba, on int64 arrays; loading the compiler takes half a second."""

    is_compiled = True
    limit = SAFE

    def __init__(self) -> None:
        self._translated: dict[Callable[..., Any], Callable[..., Any]] = {}

    def kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the translated function, which is translated at its first call."""
        if function not in self._translated:
            from numba import njit

            try:
                self._translated[function] = njit(cache=True)(function)
            except RuntimeError:  # no place for a cache is writable
                self._translated[function] = njit(function)
        return self._translated[function]

    def array(self, values: Sequence[int]) -> Any:
        """Return the numbers as an int64 array; raises OverflowError if one does not fit."""
        import numpy as np

        return np.array(values, dtype=np.int64)

    def view(self, values: Any) -> Any:
        """Return the numbers for a kernel to read, without a copy where they may stay."""
        import numpy as np

        return np.asarray(values, dtype=np.int64)

    def blank(self, length: int) -> Any:
        """Return an int64 array of that length for a kernel to fill."""
        import numpy as np

        return np.empty(length, dtype=np.int64)

    def take(self, values: Any, places: Any) -> list[int]:
        """Return the values at these places, as Python integers."""
        return values[places].tolist()  # type: ignore[no-any-return]


Backend = Plain | Compiled
PLAIN = Plain()
COMPILED = Compiled()


def is_loaded() -> bool:
    """Whether the compiler is in memory, so that using it costs nothing more."""
    return "numba" in sys.modules
