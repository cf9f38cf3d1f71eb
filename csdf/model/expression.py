"""Expressions in parameters, such as `2*n + 1`, from texts: exact values, and any other arithmetic.

Operators are + - * / // % ** and brackets; functions are min, max, floor and ceil. A text is never
run as a program, and no number is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

from csdf.model.exact import MalformedText, rational, shown

LONGEST = 1000  # characters of a text
DEEPEST = 50  # brackets, signs and powers within one another
LARGEST_POWER = 1000  # exponent
MOST_BITS = 10_000  # of a power
NAME = "[A-Za-z_][A-Za-z_0-9]*"
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "floor": floor, "ceil": ceil}
ONE_ARGUMENT = ("floor", "ceil")
LEVELS = (("+", "-"), ("*", "/", "//", "%"))  # of operators, those that bind least first

_TOKEN = re.compile(
    rf"\s*(?:([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)|({NAME})|(//|\*\*|[-+*/%(),]))"
)
Node = Any  # a Fraction, a name, or a tuple of an operator or a function and its operands


class Expression:
    """An expression and its text. Equal where the texts are.

    names: the parameters in it, in the order of the alphabet.
    """

    __slots__ = ("_root", "names", "text")

    def __init__(self, text: str) -> None:
        """Parse the text. Raises MalformedText."""
        self.text = text.strip()
        self._root = _Parser(self.text).whole()
        self.names: tuple[str, ...] = tuple(sorted(set(_names(self._root))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def value(self, values: Mapping[str, Fraction]) -> Fraction:
        """Return the exact value. Raises MalformedText for a parameter without one, and for 1/0."""
        for name in self.names:
            if name not in values:
                raise MalformedText(f"{shown(self.text)}: parameter {name!r} has no value")
        try:
            return Fraction(self.computed(values, Fraction, _apply))
        except ZeroDivisionError:
            raise MalformedText(f"{shown(self.text)} divides by zero") from None

    def computed(
        self,
        values: Mapping[str, Any],
        number: Callable[[Fraction], Any],
        apply: Callable[[str, list[Any]], Any],
    ) -> Any:
        """Return the expression in other arithmetic, such as symbolic.

        number: the value of a constant; apply: an operator or function on operands.
        """

        def of(node: Node) -> Any:
            if isinstance(node, str):
                return values[node]
            if isinstance(node, Fraction):
                return number(node)
            return apply(node[0], [of(operand) for operand in node[1:]])

        return of(self._root)


def has_names(text: str) -> bool:
    """Whether a text has letters that are not the exponent of a number: an expression, or nonsense."""
    return not text.isascii() or any(kind == "name" for kind, _ in _tokens(text, strict=False))


def _apply(operator: str, operands: list[Fraction]) -> Fraction:
    if operator in FUNCTIONS:
        return Fraction(FUNCTIONS[operator](*operands))
    if len(operands) == 1:
        return -operands[0]
    first, second = operands
    if operator == "**":
        return _power(first, second)
    if operator == "+":
        return first + second
    if operator == "-":
        return first - second
    if operator == "*":
        return first * second
    if operator == "/":
        return first / second
    return Fraction(first // second) if operator == "//" else first % second


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or not 0 <= exponent <= LARGEST_POWER:
        raise MalformedText(f"exponent {exponent}; expected an integer from 0 to {LARGEST_POWER}")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * int(exponent) > MOST_BITS:
        raise MalformedText(f"a power of more than {MOST_BITS} bits")
    return base ** int(exponent)


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, tuple):
        for operand in node[1:]:
            yield from _names(operand)


def _tokens(text: str, *, strict: bool) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            if strict:
                raise MalformedText(f"{shown(text)}: {text[at:].lstrip()[:1]!r} has no meaning")
            at += 1
            continue
        number, name, sign = match.groups()
        yield ("number", number) if number else ("name", name) if name else ("sign", sign)
        at = match.end()


class _Parser:
    """Recursive descent, an operator level each."""

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > LONGEST:
            raise MalformedText(f"{shown(text)} has more than {LONGEST} characters")
        self._tokens = [*_tokens(text, strict=True), ("end", "")]
        self._at = self._depth = 0

    def whole(self) -> Node:
        root = self._level(0)
        if self._next[0] != "end":
            raise self._refusal()
        return root

    @property
    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _take(self, *signs: str) -> str | None:
        kind, word = self._next
        if kind != "sign" or word not in signs:
            return None
        self._at += 1
        return word

    def _refusal(self) -> MalformedText:
        token = self._next[1] or "its end"
        return MalformedText(
            f"{shown(self._text)} is no expression: {token!r} is not expected there"
        )

    def _level(self, level: int) -> Node:
        if level == len(LEVELS):
            return self._signed()
        node = self._level(level + 1)
        while (sign := self._take(*LEVELS[level])) is not None:
            node = (sign, node, self._level(level + 1))
        return node

    def _signed(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise MalformedText(f"{shown(self._text)} is nested too deeply")
        sign = self._take("+", "-")
        if sign is not None:
            node = self._signed()
            node = ("-", node) if sign == "-" else node
        else:
            node = self._atom()
            if self._take("**"):
                node = ("**", node, self._signed())
        self._depth -= 1
        return node

    def _atom(self) -> Node:
        kind, word = self._next
        if kind == "number":
            self._at += 1
            return rational(word)
        if kind == "name" and word in FUNCTIONS:
            self._at += 1
            return self._call(word)
        if kind == "name":
            self._at += 1
            return word
        if not self._take("("):
            raise self._refusal()
        node = self._level(0)
        if not self._take(")"):
            raise self._refusal()
        return node

    def _call(self, function: str) -> Node:
        if not self._take("("):
            raise self._refusal()
        operands = [self._level(0)]
        while self._take(","):
            operands.append(self._level(0))
        if not self._take(")") or (len(operands) == 1) != (function in ONE_ARGUMENT):
            raise self._refusal()
        return (function, *operands)
