"""Expressions of PREESM files: rates, delays, times and parameters as exact fractions.

Expressions have numbers, names of parameters, + - * / ^ and %, comparisons and && || of truth values
(1 and 0), brackets, and the functions of FUNCTIONS. Values are fractions, so that width/2 of an odd
width is no integer and is refused as a rate. Functions without rational values, such as the
logarithm, are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, isqrt

from csdf.errors import counted
from csdf.model.exact import MalformedText, signed_rational
from csdf.model.expression import ExpressionParser, Grammar, tokens

MOST_BITS = 4096  # of a value
GRAMMAR = Grammar(
    token=re.compile(
        r"\s*(?:([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+)|([A-Za-z_][A-Za-z_0-9.]*)"
        r"|(<=|>=|==|!=|&&|\|\||[-+*/^%(),<>!]))"
    ),
    levels=(
        ("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"),
    ),
    prefixes=("+", "-", "!"),
    power="^",
    longest=10_000,
)  # fmt: skip


def value_of(text: str, names: Mapping[str, Fraction]) -> Fraction:
    """Return the value of an expression. Raises MalformedText."""

    def parameter(name: str) -> Fraction:
        if name not in names:
            raise MalformedText(f"there is no parameter {name!r}")
        return names[name]

    def number(word: str) -> Fraction:
        return _checked(signed_rational(word))

    value: Fraction = ExpressionParser(text, GRAMMAR, number, parameter, _applied).whole()
    return value


def parameter_names(text: str) -> set[str]:
    """Return the names of the parameters in an expression. Raises MalformedText."""
    listed = [*tokens(text, GRAMMAR), ("end", "")]
    return {
        word for (kind, word), (_, after) in pairwise(listed) if kind == "name" and after != "("
    }


def _applied(operator: str, operands: list[Fraction]) -> Fraction:
    """Return the value of an operator or a function. Raises MalformedText."""
    if operator[0].isalpha() or operator[0] == "_":
        return _checked(_called(operator, operands))
    if len(operands) == 1:
        return Fraction(not operands[0]) if operator == "!" else -operands[0]
    left, right = operands
    if operator == "^":
        return _checked(_power(left, right))
    if operator in ("/", "%") and not right:
        raise MalformedText("division by zero")
    return _checked(Fraction(OPERATORS[operator](left, right)))


def _called(name: str, values: list[Fraction]) -> Fraction:
    if name not in FUNCTIONS:
        functions = ", ".join(FUNCTIONS)
        raise MalformedText(f"the function {name!r} is not computed; expected one of {functions}")
    counts, function = FUNCTIONS[name]
    if len(values) not in counts:
        raise MalformedText(f"{name} of {counted(len(values), 'value')}")
    value = function(*values)
    if value is None:
        arguments = ", ".join(map(shortened, values))
        raise MalformedText(f"{name} of {arguments} is no number that is computed here")
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise MalformedText(f"a power of {shortened(exponent)} is not rational")
    if not base and exponent < 0:
        raise MalformedText("division by zero")
    if base in (0, 1, -1):  # the power is small for every exponent
        return Fraction(1) if not exponent else base if exponent % 2 else abs(base)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * bits > 2 * MOST_BITS:
        raise MalformedText(f"a number of more than {MOST_BITS} bits")
    return Fraction(base**exponent.numerator)


def _checked(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise MalformedText(f"a number of more than {MOST_BITS} bits")
    return value


def shortened(value: Fraction) -> str:
    """Return a value for a message, in at most 40 characters."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _root(value: Fraction) -> Fraction | None:
    """Return the exact square root; None for an irrational root."""
    if value < 0:
        return None
    up, down = isqrt(value.numerator), isqrt(value.denominator)
    root = Fraction(up, down)
    return root if root * root == value else None


def _geometric_sum(first: Fraction, ratio: Fraction, terms: Fraction) -> Fraction | None:
    """Return the sum of first * ratio ** k for k < terms; None unless `terms` is small and natural."""
    bits = max(ratio.numerator.bit_length(), ratio.denominator.bit_length(), 1)
    if terms.denominator != 1 or not 0 <= terms * bits <= MOST_BITS:
        return None
    return first * sum((ratio**power for power in range(int(terms))), Fraction(0))


def _largest_exponent(base: Fraction, number: Fraction) -> Fraction | None:
    """Return the largest k such that base ** k divides number; None unless base > 1 and number > 0."""
    if base.denominator != 1 or number.denominator != 1 or base < 2 or number < 1:
        return None
    exponent, left = 0, int(number)
    while left % int(base) == 0:
        left //= int(base)
        exponent += 1
    return Fraction(exponent)


OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction | bool]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a - b * int(a / b),  # as JEP: the remainder has the sign of the dividend
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}
Function = Callable[..., Fraction | None]
FUNCTIONS: dict[str, tuple[range, Function]] = {  # number of arguments, function
    "if": (range(3, 4), lambda condition, yes, no: yes if condition else no),
    "min": (range(1, 100), lambda *values: min(values)),
    "max": (range(1, 100), lambda *values: max(values)),
    "floor": (range(1, 2), lambda value: Fraction(floor(value))),
    "ceil": (range(1, 2), lambda value: Fraction(ceil(value))),
    "round": (range(1, 2), lambda value: Fraction(floor(value + Fraction(1, 2)))),
    "abs": (range(1, 2), abs),
    "sqrt": (range(1, 2), _root),
    "geo_sum": (range(3, 4), _geometric_sum),
    "pow_div_max": (range(2, 3), _largest_exponent),
}
