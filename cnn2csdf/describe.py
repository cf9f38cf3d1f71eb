"""Layers in words."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf.operators.operator import Operator
from csdf.words import bytes_in_words


def describe(operator: Operator, epilogue: Sequence[Operator] = ()) -> str:
    """Return what an operator does, with its window and what is fused behind it."""
    return " + ".join(one.in_words() for one in (operator, *epilogue))


def and_in_flash(parameters: int, stored: int) -> str:
    """Return what to say behind bytes of parameters where C takes another number of bytes for them.

    stored: what cnn2csdf.fixed_point.flash counts: factors that rescale integers come on top of the
    trained numbers, some are repeated, others fold into one.
    """
    if stored == parameters:
        return ""
    return f"; {bytes_in_words(stored)} of flash as C stores them (csdf fit)"
