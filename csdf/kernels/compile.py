"""The choice between compiled and plain kernels; no other module knows which are compiled.

A kernel is a plain function over flat sequences of integers. A Backend executes it: PLAIN interprets
the function on lists of Python integers, which have no largest value; COMPILED calls machine code on
arrays of 64-bit integers. The build compiles the same source text into the package `compiled`. Without
a C compiler at build time, or where the environment variable CSDF_KERNELS is `plain`, only PLAIN is
available, and all computations are slower.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Largest partial sum in a compiled kernel: two such sums still fit into a signed 64-bit integer.
INT64_SUM_LIMIT = 2**61
# Largest partial sum in a plain kernel: Python integers have no bound, and no graph reaches this one.
UNBOUNDED = 2**20_000
PROBE = "csdf.kernels.compiled.self_timed"  # one build makes the twins of all packages, or none


class Plain:
    """Kernels as they are written, on lists of Python integers."""

    is_compiled = False
    limit = UNBOUNDED
    fuel = 50_000  # steps of a loop between two looks at the stop: some hundredths of a second

    def kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function to call."""
        return function

    def array(self, values: Iterable[int]) -> Any:
        """Return the numbers in a sequence of their own, for a kernel to read or change."""
        return list(values)

    def view(self, values: Any) -> Any:
        """Return the numbers for a kernel to read, without a copy where they may stay."""
        return values if isinstance(values, list) else list(values)

    def blank(self, length: int) -> Any:
        """Return this many zeros for a kernel to change."""
        return [0] * length

    def take(self, values: Any, places: Iterable[int]) -> list[int]:
        """Return the values at these places."""
        return [values[place] for place in places]


class Compiled(Plain):
    """Kernels as machine code, on arrays of 64 bits."""

    is_compiled = True
    limit = INT64_SUM_LIMIT
    fuel = 5_000_000

    def kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the compiled twin of the function."""
        return _twin(function)

    def array(self, values: Iterable[int]) -> Any:
        """Return the numbers in an array; raises OverflowError if one does not fit."""
        return array("q", values)

    def view(self, values: Any) -> Any:
        """Return the numbers for a kernel to read, without a copy where they may stay."""
        return values if isinstance(values, array) else array("q", values)

    def blank(self, length: int) -> Any:
        """Return this many zeros for a kernel to change."""
        return array("q", [0]) * length


Backend = Plain | Compiled
PLAIN = Plain()
COMPILED = Compiled()


@cache
def _twin(function: Callable[..., Any]) -> Callable[..., Any]:
    # The compiled module has the name of the kernel's module, in the subpackage `compiled`.
    package, _, name = function.__module__.rpartition(".")
    module = import_module(f"{package}.compiled.{name}")
    return getattr(module, function.__name__)  # type: ignore[no-any-return]


@cache
def has_compiled() -> bool:
    """Whether there are compiled kernels, and they are wanted."""
    # find_spec looks the extension up without loading it.
    return os.environ.get("CSDF_KERNELS") != "plain" and find_spec(PROBE) is not None


def backend(*, fits: bool) -> Backend:
    """Return the quickest backend there is. fits: whether 64 bits hold every sum."""
    return COMPILED if fits and has_compiled() else PLAIN


def choice() -> str:
    """Say which kernels run, for people."""
    return "compiled kernels" if has_compiled() else "plain kernels, slower"
