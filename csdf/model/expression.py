"""Expressions in parameters, such as `2*n + 1`, from texts: exact values, and any other arithmetic.

Operators are + - * / // % ** and brackets; functions are min, max, floor and ceil. A text is never
run as a program, and no number is rounded. `ExpressionParser` also reads other grammars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple

from csdf.errors import counted
from csdf.model.exact import MalformedText, rational, shown

DEEPEST = 50  # brackets, signs and powers within one another
LARGEST_POWER = 1000  # exponent
MOST_BITS = 10_000  # of a power
NAME = "[A-Za-z_][A-Za-z_0-9]*"
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "floor": floor, "ceil": ceil}
ONE_ARGUMENT = ("floor", "ceil")


class Grammar(NamedTuple):
    """The form of expressions.

    token: a pattern with the groups number, name and sign. levels: binary operators from the left, the
    levels that bind least first. power: the operator from the right. longest: characters of a text.
    """

    token: re.Pattern[str]
    levels: tuple[tuple[str, ...], ...]
    prefixes: tuple[str, ...]
    power: str
    longest: int


GRAMMAR = Grammar(
    token=re.compile(
        rf"\s*(?:([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)|({NAME})|(//|\*\*|[-+*/%(),]))"
    ),
    levels=(("+", "-"), ("*", "/", "//", "%")),
    prefixes=("+", "-"),
    power="**",
    longest=1000,
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
        self._root = ExpressionParser(self.text, GRAMMAR, rational, _parameter, _node).whole()
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
    return not text.isascii() or any(
        kind == "name" for kind, _ in tokens(text, GRAMMAR, strict=False)
    )


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


def require_exponent(exponent: Fraction) -> None:
    """Raise MalformedText for an exponent that is not an integer, or is out of range."""
    if exponent.denominator != 1 or not 0 <= exponent <= LARGEST_POWER:
        raise MalformedText(f"exponent {exponent}; expected an integer from 0 to {LARGEST_POWER}")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    require_exponent(exponent)
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


def _parameter(name: str) -> Node:
    if name in FUNCTIONS:
        raise MalformedText(f"the function {name!r} has no operands")
    return name


def _node(operator: str, operands: list[Node]) -> Node:
    """Return a tuple of an operator or a function and its operands. Raises MalformedText."""
    if operator[0].isalpha() or operator[0] == "_":
        if operator not in FUNCTIONS:
            raise MalformedText(f"the function {operator!r} is not known")
        if (len(operands) == 1) != (operator in ONE_ARGUMENT):
            raise MalformedText(f"{operator} of {counted(len(operands), 'value')}")
    return (operator, *operands)


def tokens(text: str, grammar: Grammar, *, strict: bool = True) -> Iterator[tuple[str, str]]:
    """Yield kind (number, name or sign) and word of each token.

    strict: raise MalformedText for a character without meaning, instead of leaving it out.
    """
    at, end = 0, len(text.rstrip())
    while at < end:
        match = grammar.token.match(text, at)
        if match is None:
            if strict:
                raise MalformedText(f"{shown(text[at:end].lstrip())} has no meaning")
            at += 1
            continue
        number, name, sign = match.groups()
        yield ("number", number) if number else ("name", name) if name else ("sign", sign)
        at = match.end()


class ExpressionParser:
    """Recursive descent, an operator level each; a text that is too long raises MalformedText.

    number, name: the value of a number and of a parameter. apply: the value of an operator, or of a
    function, on the values of its operands. A value may be a tree or already a number.
    """

    def __init__(
        self,
        text: str,
        grammar: Grammar,
        number: Callable[[str], Any],
        name: Callable[[str], Any],
        apply: Callable[[str, list[Any]], Any],
    ) -> None:
        self._text, self._grammar = text, grammar
        self._number, self._name, self._apply = number, name, apply
        self._at = self._depth = 0
        if len(text) > grammar.longest:
            raise MalformedText(
                f"expression {shown(text)} has more than {grammar.longest} characters"
            )

    def whole(self) -> Any:
        """Return the value of the text. Raises MalformedText, with the text, for any fault."""
        try:
            self._tokens = [*tokens(self._text, self._grammar), ("end", "")]
            value = self._level(0)
            if self._next[0] != "end":
                raise self._unexpected()
        except MalformedText as error:
            raise MalformedText(f"expression {shown(self._text)}: {error}") from None
        return value

    @property
    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _take(self, *signs: str) -> str | None:
        kind, word = self._next
        if kind != "sign" or word not in signs:
            return None
        self._at += 1
        return word

    def _unexpected(self) -> MalformedText:
        word = self._next[1]
        return MalformedText(f"{shown(word)} is not expected" if word else "it ends too early")

    def _level(self, level: int) -> Any:
        if level == len(self._grammar.levels):
            return self._signed()
        value = self._level(level + 1)
        while (sign := self._take(*self._grammar.levels[level])) is not None:
            value = self._apply(sign, [value, self._level(level + 1)])
        return value

    def _signed(self) -> Any:
        self._depth += 1
        if self._depth > DEEPEST + 1:  # the outermost operand is in no bracket
            raise MalformedText(f"more than {DEEPEST} brackets or signs within one another")
        sign = self._take(*self._grammar.prefixes)
        if sign is not None:
            value = self._signed()
            value = value if sign == "+" else self._apply(sign, [value])
        else:
            value = self._operand()
            if self._take(self._grammar.power):
                value = self._apply(self._grammar.power, [value, self._signed()])
        self._depth -= 1
        return value

    def _operand(self) -> Any:
        kind, word = self._next
        if kind in ("number", "name"):
            self._at += 1
            if kind == "number":
                return self._number(word)
            return self._apply(word, self._operands()) if self._take("(") else self._name(word)
        if not self._take("("):
            raise self._unexpected()
        value = self._level(0)
        if not self._take(")"):
            raise self._unexpected()
        return value

    def _operands(self) -> list[Any]:
        """Return the operands of a function, after its opening bracket."""
        operands = [self._level(0)]
        while self._take(","):
            operands.append(self._level(0))
        if not self._take(")"):
            raise self._unexpected()
        return operands
