"""Exact numbers from users: integers, fractions, or texts such as "3/2" and "1.5"; never floats."""

from __future__ import annotations

from fractions import Fraction

from csdf.errors import CsdfError

Exact = int | str | Fraction


def exact(value: Exact, what: str, refusal: type[CsdfError] = CsdfError) -> Fraction:
    """Return the number. Raises the refusal, saying what it is, for a float and for no number."""
    if isinstance(value, float | bool):
        raise refusal(f"{what} {value!r} is not exact; write it as text")
    try:
        return Fraction(value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise refusal(f"{what} {value!r} is not a number") from None
