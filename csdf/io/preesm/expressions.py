"""Expressions of PREESM's parameters and rates, exactly.

Numbers, names of parameters, + - * / ^ and %, comparisons and && || of truth values (1 and 0),
brackets, and the functions of FUNCTIONS. Values are fractions, so that width/2 of an odd width is no
whole number and is refused as a rate. What is not rational, such as the logarithm, is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import zip_longest
from math import ceil, floor, isqrt

from csdf.errors import counted
from csdf.model.exact import MalformedText, shown, signed_rational

MOST_DEPTH = 50  # brackets and functions within one another
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
    return _Parser(text, names).value()


def names_in(text: str) -> set[str]:
    """Return the names of parameters in an expression; raise MalformedText where it has no form."""
    tokens = _tokens(text)
    return {
        token
        for token, after in zip_longest(tokens, tokens[1:], fillvalue="")
        if (token[0].isalpha() or token[0] == "_") and after != "("
    }


def from_zero(text: str, names: Mapping[str, Fraction]) -> Fraction:
    """Return the value >= 0 that an expression is. Raises MalformedText."""
    value = value_of(text, names)
    if value < 0:
        raise MalformedText(f"{shown(text)} is {_told(value)}, which is negative")
    return value


def natural_of(text: str, names: Mapping[str, Fraction]) -> int:
    """Return the integer >= 0 that an expression is. Raises MalformedText."""
    value = value_of(text, names)
    if value.denominator != 1 or value < 0:
        raise MalformedText(f"{shown(text)} is {_told(value)}, not an integer >= 0")
    return value.numerator


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise MalformedText(
                f"expression {shown(text)}: {shown(text[at:].strip())} has no meaning"
            )
        tokens.append(found[found.lastindex or 0])
        at = found.end()
    return tokens


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, names: Mapping[str, Fraction]) -> None:
        self._text = text
        self._names = names
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def value(self) -> Fraction:
        found = self._level(0)
        if self._at < len(self._tokens):
            raise self._fault(f"{shown(self._tokens[self._at])} is not expected")
        return found

    def _level(self, level: int) -> Fraction:
        """Operators of one precedence, from the left."""
        if level == len(_LEVELS):
            return self._signed()
        value = self._level(level + 1)
        while self._next() in _LEVELS[level]:
            operator = self._take()
            value = self._combined(operator, value, self._level(level + 1))
        return value

    def _signed(self) -> Fraction:
        sign = 1
        while self._next() in ("-", "+", "!"):
            found = self._take()
            if found == "!":
                return sign * self._nested(lambda: Fraction(not self._signed()))
            sign = -sign if found == "-" else sign
        return sign * self._power()

    def _power(self) -> Fraction:
        base = self._operand()
        if self._next() != "^":
            return base
        self._take()
        return self._raised(base, self._nested(self._signed))

    def _operand(self) -> Fraction:
        token = self._take()
        if token == "(":
            found = self._nested(lambda: self._level(0))
            self._expect(")")
            return found
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
        self._expect("(")
        values = [self._nested(lambda: self._level(0))]
        while self._next() == ",":
            self._take()
            values.append(self._nested(lambda: self._level(0)))
        self._expect(")")
        if name not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise self._fault(f"the function {name!r} is not computed; expected one of {known}")
        counts, function = FUNCTIONS[name]
        if len(values) not in counts:
            raise self._fault(f"{name} of {counted(len(values), 'value')}")
        found = function(*values)
        if found is None:
            told = ", ".join(map(_told, values))
            raise self._fault(f"{name} of {told} is no number that is computed here")
        return self._checked(found)

    def _nested(self, part: Callable[[], Fraction]) -> Fraction:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._fault(f"more than {MOST_DEPTH} brackets within one another")
        found = part()
        self._depth -= 1
        return found

    def _combined(self, operator: str, left: Fraction, right: Fraction) -> Fraction:
        if operator in ("/", "%") and not right:
            raise self._fault("division by zero")
        return self._checked(Fraction(OPERATORS[operator](left, right)))

    def _raised(self, base: Fraction, exponent: Fraction) -> Fraction:
        if exponent.denominator != 1:
            raise self._fault(f"a power of {_told(exponent)} is not rational")
        if not base and exponent < 0:
            raise self._fault("division by zero")
        if base in (0, 1, -1):  # whatever the exponent, not large
            return Fraction(1) if not exponent else base if exponent % 2 else abs(base)
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits > 2 * MOST_BITS:
            raise self._fault(f"a number of more than {MOST_BITS} bits")
        return self._checked(Fraction(base**exponent.numerator))

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

    def _expect(self, wanted: str) -> None:
        if self._next() != wanted:
            raise self._fault(f"{wanted!r} is missing")
        self._at += 1

    def _fault(self, what: str) -> MalformedText:
        return MalformedText(f"expression {shown(self._text)}: {what}")


def _told(value: Fraction) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _root(value: Fraction) -> Fraction | None:
    if value < 0:
        return None
    up, down = isqrt(value.numerator), isqrt(value.denominator)
    root = Fraction(up, down)
    return root if root * root == value else None


def _geometric_sum(first: Fraction, ratio: Fraction, terms: Fraction) -> Fraction | None:
    """The sum of so many terms that begin with the first, or None where it is no sum of a few."""
    bits = max(ratio.numerator.bit_length(), ratio.denominator.bit_length(), 1)
    if terms.denominator != 1 or not 0 <= terms * bits <= MOST_BITS:
        return None
    return first * sum((ratio**power for power in range(int(terms))), Fraction(0))


def _largest_exponent(base: Fraction, number: Fraction) -> Fraction | None:
    """The largest power of the base that divides the number; None unless both are such integers."""
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
    "%": lambda a, b: a - b * int(a / b),  # as JEP, with the sign of what is divided
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
FUNCTIONS: dict[str, tuple[range, Function]] = {  # how many values each takes
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
