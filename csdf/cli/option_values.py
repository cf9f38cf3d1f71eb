"""Values of options, parsed by argparse: exact numbers, times, sizes, ranges of parameters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from csdf.arguments import bytes_of, seconds_of
from csdf.model.exact import MalformedText, natural, rational, shown, signed_rational, whole

Number = TypeVar("Number")


MOST_SECONDS = 10**9


def exact_seconds(text: str) -> Fraction:
    """Parse a time of at least 0, such as `10`, `10s`, `500ms`, `5us` or `2m`, in seconds."""
    return _parsed(text, seconds_of)


def seconds(text: str) -> float:
    """Parse a time above zero, in seconds."""
    value = exact_seconds(text)
    if not 0 < value < MOST_SECONDS:
        raise unfit(text, "a time above zero, such as 30s or 2m")
    return float(value)


def unfit(text: str, expected: str) -> argparse.ArgumentTypeError:
    """Return an error that states the expected form; argparse adds the name of the option."""
    return argparse.ArgumentTypeError(f"{shown(text)} is not {expected}")


def _parsed(text: str, parse: Callable[[str], Number]) -> Number:
    try:
        return parse(text)
    except MalformedText as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def fraction(text: str) -> Fraction:
    """Parse `3/2`, `1.5` or `7` exactly."""
    return _parsed(text, signed_rational)


def integer(text: str) -> int:
    """Parse an integer, with or without a sign."""
    return _parsed(text, whole)


def from_zero(text: str) -> int:
    """Parse an integer of at least zero."""
    return _parsed(text, natural)


def named_integers(text: str) -> tuple[str, int]:
    """Parse `NAME=7`."""
    name, _, value = text.rpartition("=")
    if not name:
        raise unfit(text, "NAME=NUMBER")
    return name, from_zero(value)


MOST_VALUES = 20_000  # of one parameter


def named_values(text: str) -> tuple[str, tuple[Fraction, ...]]:
    """Parse `n=4`, `n=1..64`, `n=0..64..4` (every fourth) or `n=1,2,3/2`."""
    name, equals, listed = text.partition("=")
    if not equals or not name.isidentifier():
        raise unfit(text, "NAME=VALUE, such as n=4, n=1..64 or n=1,2,3/2")
    values: dict[Fraction, None] = {}
    for part in listed.split(","):
        first, *bounds = part.split("..")
        if not bounds:
            values[fraction(part)] = None
            continue
        ends = [integer(number) for number in (first, *bounds)]
        if len(ends) > 3 or (step := ends[2] if len(ends) == 3 else 1) < 1 or ends[1] < ends[0]:
            raise unfit(part, "a range such as 1..64, or 0..64..4 for every fourth")
        numbers = range(ends[0], ends[1] + 1, step)
        if len(numbers) + len(values) > MOST_VALUES:
            raise unfit(part, f"a range of at most {MOST_VALUES} values")
        values.update(dict.fromkeys(map(Fraction, numbers)))
    return name, tuple(values)


def positive(text: str) -> int:
    """Parse an integer of at least one."""
    if (value := integer(text)) < 1:
        raise unfit(text, "a whole number of at least 1")
    return value


def above_zero(text: str) -> Fraction:
    """Parse an exact number above zero."""
    value = fraction(text)
    if value <= 0:
        raise unfit(text, "above zero")
    return value


def share(text: str) -> Fraction:
    """Parse a share of at least zero, such as `5%` or `0.05`."""
    number = _parsed(text.removesuffix("%"), rational)
    return number / 100 if text.endswith("%") else number


def size(text: str) -> int:
    """Parse bytes such as 64MB, 16MiB or 65536; print that KB is read as KiB."""
    result = _parsed(text, bytes_of)
    if text.endswith(("k", "K", "KB")):  # as in data sheets
        number = text.removesuffix("B")[:-1].rstrip()
        suggestion = f"understood as {number}KiB, 1024 bytes each; kB is 1000 bytes"
        print(f"{text}: {suggestion}", file=sys.stderr)
    return result
