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
from math import ceil, floor, isqrt

from csdf.errors import counted
from csdf.model.exact import MalformedText, shown, signed_rational

MOST_DEPTH = 50  # nested brackets and functions
MOST_BITS = 4096  # of a value
MOST_TEXT = 10_000  # characters

_TOKEN = re.compile(
    r"\s*(?:([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+)|([A-Za-z_][A-Za-z_0-9.]*)"
    r"|(<=|>=|==|!=|&&|\|\||[-+*/^%(),<>!]))"
)
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))


def value_of(text: str, names: Mapping[str, Fraction]) -> Fraction:
    """Return the value of an expression. Raises MalformedText."""
    if len(text) > MOST_TEXT:
        raise MalformedText(f"expression {shown(text)} has more than {MOST_TEXT} characters")
    return ExpressionParser(text, names).value()


def expression_tokens(text: str) -> list[str]:
    """Return the numbers, names and operators of an expression. Raises MalformedText."""
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise MalformedText(
                f"expression {shown(text)}: {shown(text[at:].strip())} has no meaning"
            )
        tokens.append(match[match.lastindex or 0])
        at = match.end()
    return tokens


class ExpressionParser:
    """Recursive descent over the tokens of an expression: a rate, delay, time or parameter."""

    def __init__(self, text: str, names: Mapping[str, Fraction]) -> None:
        self._text = text
        self._names = names
        self._tokens = expression_tokens(text)
        self._at = 0
        self._depth = 0

    def value(self) -> Fraction:
        """Return the value of the whole expression. Raises MalformedText."""
        value = self._level(0)
        if self._at < len(self._tokens):
            raise self._fault(f"{shown(self._tokens[self._at])} is not expected")
        return value

    def _level(self, level: int) -> Fraction:
        """Operators of one precedence, from the left."""
        if level == len(_LEVELS):
            return self._signed()
        value = self._level(level + 1)
        while self._next() in _LEVELS[level]:
            operator, right = self._take(), self._level(level + 1)
            if operator in ("/", "%") and not right:
                raise self._fault("division by zero")
            value = self._checked(Fraction(OPERATORS[operator](value, right)))
        return value

    def _signed(self) -> Fraction:
        sign = 1
        while self._next() in ("-", "+", "!"):
            token = self._take()
            if token == "!":
                return sign * self._nested(lambda: Fraction(not self._signed()))
            sign = -sign if token == "-" else sign
        return sign * self._power()

    def _power(self) -> Fraction:
        base = self._operand()
        if self._next() != "^":
            return base
        self._take()
        exponent = self._nested(self._signed)
        if exponent.denominator != 1:
            raise self._fault(f"a power of {shortened(exponent)} is not rational")
        if not base and exponent < 0:
            raise self._fault("division by zero")
        if base in (0, 1, -1):  # the power is small for every exponent
            return Fraction(1) if not exponent else base if exponent % 2 else abs(base)
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits > 2 * MOST_BITS:
            raise self._fault(f"a number of more than {MOST_BITS} bits")
        return self._checked(Fraction(base**exponent.numerator))

    def _operand(self) -> Fraction:
        token = self._take()
        if token == "(":
            value = self._nested(lambda: self._level(0))
            self._expect(")")
            return value
        if token[0].isdigit() or token[0] == ".":
            return self._checked(signed_rational(token))
        if not (token[0].isalpha() or token[0] == "_"):
            raise self._fault(f"{shown(token)} is not expected")
        if self._next() == "(":
            return self._call(token)
        if token not in self._names:
            raise self._fault(f"there is no parameter {token!r}")
        return self._names[token]

    def _call(self, name: str) -> Fraction:
        values: list[Fraction] = []
        while not values or self._next() == ",":
            self._take()  # the bracket, or a comma
            values.append(self._nested(lambda: self._level(0)))
        self._expect(")")
        if name not in FUNCTIONS:
            functions = ", ".join(FUNCTIONS)
            raise self._fault(f"the function {name!r} is not computed; expected one of {functions}")
        counts, function = FUNCTIONS[name]
        if len(values) not in counts:
            raise self._fault(f"{name} of {counted(len(values), 'value')}")
        value = function(*values)
        if value is None:
            arguments = ", ".join(map(shortened, values))
            raise self._fault(f"{name} of {arguments} is no number that is computed here")
        return self._checked(value)

    def _nested(self, part: Callable[[], Fraction]) -> Fraction:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._fault(f"more than {MOST_DEPTH} brackets within one another")
        value = part()
        self._depth -= 1
        return value

    def _checked(self, value: Fraction) -> Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
            raise self._fault(f"a number of more than {MOST_BITS} bits")
        return value

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next()
        if not token:
            raise self._fault("it ends too early")
        self._at += 1
        return token

    def _expect(self, expected: str) -> None:
        if self._next() != expected:
            raise self._fault(f"{expected!r} is missing")
        self._at += 1

    def _fault(self, problem: str) -> MalformedText:
        return MalformedText(f"expression {shown(self._text)}: {problem}")


def shortened(value: Fraction) -> str:
    """Return a value for a message, in at most 40 characters."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _root(value: Fraction) -> Fraction | None:
    """Exact square root; None for an irrational root."""
    if value < 0:
        return None
    up, down = isqrt(value.numerator), isqrt(value.denominator)
    root = Fraction(up, down)
    return root if root * root == value else None


def _geometric_sum(first: Fraction, ratio: Fraction, terms: Fraction) -> Fraction | None:
    """Sum of first * ratio ** k for k < terms; None unless `terms` is a small natural number."""
    bits = max(ratio.numerator.bit_length(), ratio.denominator.bit_length(), 1)
    if terms.denominator != 1 or not 0 <= terms * bits <= MOST_BITS:
        return None
    return first * sum((ratio**power for power in range(int(terms))), Fraction(0))


def _largest_exponent(base: Fraction, number: Fraction) -> Fraction | None:
    """Largest k such that base ** k divides number: integers, base > 1, number > 0; else None."""
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
