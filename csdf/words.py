"""Amounts in words: one way to say them for all commands, pages and pictures."""

from __future__ import annotations

from fractions import Fraction

TIMES = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))  # nanoseconds


def time_in_words(seconds: Fraction | float, digits: int = 3) -> str:
    """Return a time with a unit of its size and so many digits, never with an exponent."""
    return nanoseconds_in_words(Fraction(seconds) * 10**9, digits)


def nanoseconds_in_words(nanoseconds: Fraction | float, digits: int = 3) -> str:
    """Return a time with a unit of its size and so many digits, never with an exponent."""
    exact = Fraction(nanoseconds)
    if not exact:
        return "0 s"
    for unit, size in TIMES:
        text = f"{float(exact / size):.{digits}g}"
        if "e" in text:  # more digits before the point than are asked for
            text = f"{float(exact / size):.0f}"
        if float(text) >= 1:
            return f"{text} {unit}"
    return f"{float(exact):.{digits}g} ns"
