"""Numbers, bytes, times, percentages and lists of names in words, for tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

SHOWN = 6  # most names listed in a sentence
TIMES = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))  # nanoseconds


def exact(value: Fraction | int) -> str:
    """Return the exact value, with a decimal next to it where it is a fraction."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    return f"{value} (about {rounded(value)})"


def rounded(value: Fraction) -> str:
    """Return the value with six digits; where no float can hold it, as it is."""
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return str(value)


def percent(value: Fraction) -> str:
    """Return a part of one as a percentage with three digits."""
    return f"{rounded_to(value * 100, 3)}%"


def rounded_to(value: Fraction, digits: int) -> str:
    """Return the value with this many digits, without an exponent where it has few."""
    try:
        number = float(value)
    except OverflowError:
        return str(value)
    return f"{number:.0f}" if 10**digits <= abs(number) < 10**9 else f"{number:.{digits}g}"


def rate_in_words(per_second: Fraction, digits: int = 6) -> str:
    """Return how often something happens in a second, from a million on in millions, no exponent."""
    if per_second >= 10**6:
        return f"{rounded_to(per_second / 10**6, 4)} million"
    number = float(per_second)
    text = f"{number:.{digits}g}"
    if "e" not in text:
        return text
    return f"{number:.0f}" if number >= 1 else f"{number:.12f}".rstrip("0")


def bytes_in_words(count: int) -> str:
    """Return bytes with four digits and a unit; kB and MB are 1000 and 1,000,000 bytes."""
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def needed_bytes_in_words(count: int) -> str:
    """Return bytes rounded up to four digits: a limit of the size that is printed suffices."""
    return _four_digits(count, is_rounded_up=True)


def free_bytes_in_words(count: int) -> str:
    """Return bytes rounded down to four digits: this many are free."""
    return _four_digits(count, is_rounded_up=False)


def _four_digits(count: int, *, is_rounded_up: bool) -> str:
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            parts = 10 ** max(0, 4 - len(str(count // size)))  # of a unit, that four digits tell
            shown = (count * parts + (size - 1 if is_rounded_up else 0)) // size
            text = (
                f"{shown // parts}.{shown % parts:0{len(str(parts)) - 1}}"
                if parts > 1
                else str(shown)
            )
            return f"{text.rstrip('0').rstrip('.') if parts > 1 else text} {unit}"
    return f"{count} B"


def size_as_given(count: int) -> str:
    """Return bytes exactly, in the largest unit that needs no more than four digits."""
    for unit, size in (("MB", 10**6), ("MiB", 2**20), ("kB", 10**3), ("KiB", 2**10)):
        shown = Fraction(count, size)
        if shown >= 1 and shown.denominator == 1 and shown < 10**4:
            return f"{shown} {unit}"
    return f"{count} B"


def size(count: int, unit: str) -> str:
    """Return a storage size in its unit."""
    return bytes_in_words(count) if unit == "bytes" else f"{count} {unit}"


def listed(names: Sequence[str]) -> str:
    """Return the names as in a sentence; the rest of many as a number."""
    shown = [f"“{name}”" for name in names[:SHOWN]]
    if len(names) > SHOWN:
        shown.append(f"{len(names) - SHOWN} more")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def listed_up_to(names: Sequence[str], maximum: int) -> str:
    """Return names with commas, and the number of those beyond the maximum: `a, b and 3 more`."""
    listed = ", ".join(names[:maximum])
    return listed if len(names) <= maximum else f"{listed} and {len(names) - maximum} more"


def time_in_words(seconds: Fraction | float, digits: int = 3) -> str:
    """Return a time with a unit of its size and this many digits, never with an exponent."""
    return nanoseconds_in_words(Fraction(seconds) * 10**9, digits)


def duration(value: Fraction | int, unit: str, digits: int = 4) -> str:
    """Return a time with its unit; nanoseconds with a unit of their size and this many digits."""
    return nanoseconds_in_words(value, digits) if unit == "ns" else f"{exact(value)} {unit}"


def nanoseconds_in_words(nanoseconds: Fraction | float, digits: int = 3) -> str:
    """Return a time with a unit of its size and this many digits, never with an exponent."""
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
