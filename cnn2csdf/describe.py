"""Layers and numbers of bytes in words."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf.operators.operator import Operator


def describe(operator: Operator, epilogue: Sequence[Operator] = ()) -> str:
    """Return what an operator does, with its window and what is fused behind it."""
    return " + ".join(one.in_words() for one in (operator, *epilogue))


def bytes_in_words(count: int) -> str:
    """Return bytes with three digits and a unit; kB and MB are 1000 and 1,000,000 bytes."""
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"
