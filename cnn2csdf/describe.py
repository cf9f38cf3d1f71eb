"""Layers in words."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf.operators.operator import Operator


def describe(operator: Operator, epilogue: Sequence[Operator] = ()) -> str:
    """Return what an operator does, with its window and what is fused behind it."""
    return " + ".join(one.in_words() for one in (operator, *epilogue))
