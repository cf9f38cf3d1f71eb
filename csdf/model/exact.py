"""Exact numbers from users: integers, fractions, decimals, or texts such as "3/2"; never floats.

Every text that becomes a number is read by this module. It refuses texts of numbers that are too large
to compute with: `1e999999999` is short, but its value would fill the memory.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from csdf.errors import CsdfError

Exact = int | str | Fraction | Decimal

MOST_CHARACTERS = 1000  # of a text

_PLAIN = 19  # digits of a number that needs no closer look
_SHOWN = 40  # characters of a text that a message quotes
_NATURAL = "[0-9]+"
_RATIONAL = r"([0-9]+/0*[1-9][0-9]*|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?)"
_SIGN = "[+-]?"
_SUCH_AS = "a number such as 7, 3/2 or 1.5"
_NEGATIVE = r"-\s*[0-9./]+"
_LONG_EXPONENT = r"[+-]?[0-9.]+[eE][+-]?[0-9]{4,}"


class MalformedText(CsdfError):
    """A text that is not the number or the sequence it should be; readers add where it stands."""


def shown(text: str) -> str:
    """Return the text in quotes, cut to a length that fits a message."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}...")


def natural(text: str) -> int:
    """Return the integer >= 0 that the text says. Raises MalformedText."""
    is_plain = len(text) < _PLAIN and text.isascii() and text.isdigit()  # most are, and fast
    return int(text if is_plain else _checked(text, _NATURAL, "an integer"))


def whole(text: str) -> int:
    """Return the integer that the text says, with or without a sign. Raises MalformedText."""
    return int(_checked(text, _SIGN + _NATURAL, "a whole number"))


def rational(text: str) -> Fraction:
    """Return the exact number >= 0 that `7`, `3/2`, `1.5` or `3e-8` says. Raises MalformedText."""
    return Fraction(_checked(text, _RATIONAL, _SUCH_AS))


def signed_rational(text: str) -> Fraction:
    """Return the exact number that the text says, with or without a sign. Raises MalformedText."""
    return Fraction(_checked(text, _SIGN + _RATIONAL, _SUCH_AS))


def value_fault(error: ValueError) -> str:
    """Return what is wrong with a document whose parser raised this.

    Of a number that is too long Python says how to change Python; users are told of the number.
    """
    return "a number has too many digits" if "int_max_str_digits" in str(error) else str(error)


def exact(value: Exact, what: str, refusal: type[CsdfError] = CsdfError) -> Fraction:
    """Return the number. Raises the refusal, saying what it is, for a float and for no number."""
    if isinstance(value, float | bool):
        raise refusal(f"{what} {value!r} is not exact; write it as text")
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))  # NumPy's integers overflow
    if not isinstance(value, str | Decimal):
        raise refusal(f"{what} {repr(value)[:_SHOWN]} is not a number")
    try:
        return signed_rational(str(value))
    except MalformedText as error:
        raise refusal(f"{what} {error}") from None


def exact_above_zero(value: Exact, what: str) -> Fraction:
    """Return the number. Raises CsdfError for a float, for no number, and unless it is above zero."""
    number = exact(value, what)
    if number <= 0:
        raise CsdfError(f"{what} {value}; expected more than 0")
    return number


def _checked(text: str, pattern: str, expected: str) -> str:
    """The text without spaces around it, if it has that form and is short enough to compute with."""
    number = text.strip()
    if len(number) > MOST_CHARACTERS:
        raise MalformedText(f"{shown(number)} has more than {MOST_CHARACTERS} characters")
    if re.fullmatch(pattern, number):
        return number
    if re.fullmatch(_LONG_EXPONENT, number):
        raise MalformedText(f"{shown(number)} has more than 3 digits in its exponent")
    if re.fullmatch(_NEGATIVE, number) and not pattern.startswith(_SIGN):
        raise MalformedText(f"{shown(number)} is negative")
    raise MalformedText(f"{shown(number)} is not {expected}")
