"""Arguments of public functions: checked against their annotations, refused in one line.

`@public` reads the annotations of a function once, at its first call, as the texts that they are, so
that types that only type checkers import count too. It takes integers of NumPy as integers, and texts
such as "60s" where a budget is wanted. A value of another kind raises InvalidArgument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from functools import cache, wraps
from numbers import Rational
from types import GenericAlias, UnionType
from typing import Any, TypeVar, cast

from csdf.errors import CsdfError, InvalidArgument, NotRead
from csdf.model.exact import MalformedText, rational, shown
from csdf.time_limit import Stop

Natural = int  # at least 0
Positive = int  # at least 1
Bytes = int | str  # at least 0, or a text such as "16kB"; `byte_count` returns the number

Function = TypeVar("Function", bound=Callable[..., Any])
Check = Callable[[Any], Any]  # returns the value as the function takes it; raises _Wrong

LOOKED_AT = 1000  # elements of a sequence, so that long ones cost no time

SIZE_UNITS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    **dict.fromkeys(("K", "k", "KB"), 2**10),
}
SIZE = r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)"
TIME_UNITS = {
    "": Fraction(1),
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
TIME = r"([0-9][0-9./]*) ?([a-z]*)"

READERS = {
    "Graph": "csdf.read_graph",
    "Mapping": "csdf.read_mapping",
    "Model": "cnn2csdf.read_model",
    "Network": "cnn2csdf.read_model",
    "Profile": "planners.read_profile",
    "ScenarioGraph": "csdf.read_scenarios",
}


class _Wrong(Exception):
    """A value that is not what it should be, said by its text."""


def seconds_of(text: str) -> Fraction:
    """Return the time of at least 0 that `10`, `10s`, `500ms`, `5us` or `2m` says, in seconds.

    Raises MalformedText.
    """
    match = re.fullmatch(TIME, text)
    try:
        return rational(match[1]) * TIME_UNITS[match[2]]  # type: ignore[index]
    except (MalformedText, KeyError, TypeError):
        raise MalformedText(f"{shown(text)} is not a time such as 30s, 500ms or 2m") from None


def bytes_of(text: str) -> int:
    """Return the bytes, at least 1, that `64MB`, `16MiB` or `65536` says. Raises MalformedText.

    K, k and KB are 1024 bytes each, as in data sheets of microcontrollers; kB are 1000.
    """
    try:
        return _bytes_in(text)
    except _Wrong as wrong:
        raise MalformedText(f"{shown(text)} is not {wrong}") from None


def _bytes_in(text: str) -> int:
    """Return the bytes that a text says. Raises _Wrong, which says what the text should be."""
    if text.startswith("-") and re.fullmatch(SIZE, text[1:]):
        raise _Wrong("at least one byte")
    match = re.fullmatch(SIZE, text)
    if match and re.fullmatch("[KMGkmg]i?b", match[2]):
        letter = match[2][0].upper()
        decimal = f"{match[1]}{letter.replace('K', 'k')}B"
        raise _Wrong(
            f"a size in bytes: a small b stands for bits; write {decimal} "
            f"(powers of 1000) or {match[1]}{letter}iB (powers of 1024)"
        )
    if not match or match[2] not in SIZE_UNITS:
        raise _Wrong("a size such as 64MB (1,000,000 bytes), 16MiB (2^20) or 65536")
    value = rational(match[1]) * SIZE_UNITS[match[2]]
    if value.denominator != 1:
        raise _Wrong("a whole number of bytes")
    if value < 1:
        raise _Wrong("at least one byte")
    return int(value)


def byte_count(value: Bytes) -> int:
    """Return the bytes of an argument that `@public` has looked at, which makes numbers of texts."""
    return cast(int, value)


def one_of(value: str, known: Iterable[str], name: str) -> None:
    """Raise InvalidArgument unless the value is one of some known texts."""
    texts = tuple(known)
    if value not in texts:
        listed = ", ".join(map(repr, texts))
        raise InvalidArgument(f"{name} is {_shown(value)}; expected one of {listed}")


def require_integers(what: str, refusal: type[CsdfError], **values: object) -> None:
    """Raise the refusal for a value that is no integer."""
    for name, value in values.items():
        if type(value) is not int:
            raise refusal(f"{what} has {name} {_shown(value)}; expected an integer")


def public(function: Function) -> Function:
    """Make a function, or the constructor of a class, check its arguments before each call."""
    if isinstance(function, type):
        function.__init__ = public(function.__init__)  # type: ignore[misc]
        return cast(Function, function)
    code = function.__code__
    order = code.co_varnames[: code.co_argcount]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @cache
    def checks() -> Mapping[str, tuple[Check, str]]:
        return {
            name: (_check_of(annotation, function.__globals__), annotation)
            for name, annotation in function.__annotations__.items()
            if name in arguments and isinstance(annotation, str)
        }

    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        if len(given) > len(order):
            return function(*given, **named)  # which says how many it takes
        values = [_checked(function, checks(), *pair) for pair in zip(order, given, strict=False)]
        for name, value in named.items():
            named[name] = _checked(function, checks(), name, value)
        return function(*values, **named)

    return cast(Function, checked)


def _checked(
    function: Callable[..., Any], checks: Mapping[str, tuple[Check, str]], name: str, value: Any
) -> Any:
    """Return the value as the function takes it. Raises InvalidArgument, or NotRead for a path."""
    if name not in checks:
        return value
    check, annotation = checks[name]
    try:
        return check(value)
    except _Wrong as wrong:
        kinds = _alternatives(annotation)
        if reader := READERS.get(kinds[0]):
            raise NotRead(value, expected=kinds[0], reader=reader) from None
        expected = str(wrong) or " or ".join(map(_in_words, kinds))
        where = function.__qualname__.removesuffix(".__init__")
        raise InvalidArgument(f"{where}: {name} is {_shown(value)}; expected {expected}") from None


def _shown(value: object) -> str:
    """Return a value as a message quotes it."""
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def _alternatives(annotation: str) -> list[str]:
    """Return the types of a union, which stands in no brackets."""
    return _parts(annotation, " | ")


def _parts(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators outside of all brackets.

    "Mapping[str, int], int" has the parts "Mapping[str, int]" and "int" between commas.
    """
    parts, depth = [""], 0
    for piece in re.split(rf"({re.escape(separator)}|[\[\]])", text):
        depth += {"[": 1, "]": -1}.get(piece, 0)
        if piece == separator and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _check_of(annotation: str, scope: Mapping[str, Any]) -> Check:
    """Return the check of an annotation in a module with these names."""
    checks = [_single_check(alternative, scope) for alternative in _alternatives(annotation)]
    if len(checks) == 1:
        return checks[0]

    def any_of(value: Any) -> Any:
        said = ""
        for check in checks:
            try:
                return check(value)
            except _Wrong as wrong:
                said = said or str(wrong)
        raise _Wrong(said)

    return any_of


def _single_check(kind: str, scope: Mapping[str, Any]) -> Check:
    """Return the check of a type that is no union."""
    if kind in _CHECKS:
        return _CHECKS[kind]
    if isinstance(meant := scope.get(kind), GenericAlias | UnionType):
        return _check_of(repr(meant), scope)
    name, _, inner = kind.partition("[")
    name = name.rpartition(".")[2]
    if not inner:
        return _instance_check(name)
    kinds = _parts(inner[:-1], ", ")
    if name == "Mapping":
        return _mapping_check(*(_check_of(kind, scope) for kind in kinds))
    if name == "tuple" and kinds[-1] != "...":
        return _row_check([_check_of(kind, scope) for kind in kinds])
    if name in {"Sequence", "tuple", "list"}:
        return _sequence_check(_check_of(kinds[0], scope))
    return _GENERIC.get(name) or _instance_check(name)


def _of(fits: Callable[[Any], bool]) -> Check:
    """Return the check that takes values as they are where they fit."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise _Wrong
        return value

    return check


def _instance_check(name: str) -> Check:
    """Return the check of a class, by its name: the module that has it may not be loaded yet."""
    return _of(lambda value: any(base.__name__ == name for base in type(value).__mro__))


def _mapping_check(key: Check, value: Check) -> Check:
    def check(given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise _Wrong
        return {key(name): value(content) for name, content in given.items()}

    return check


def _sequence_check(element: Check) -> Check:
    def check(given: Any) -> Any:
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise _Wrong
        head = tuple(map(element, given[:LOOKED_AT]))
        return head if len(given) <= LOOKED_AT else (*head, *given[LOOKED_AT:])

    return check


def _row_check(elements: Sequence[Check]) -> Check:
    def check(given: Any) -> Any:
        if not isinstance(given, tuple | list) or len(given) != len(elements):
            raise _Wrong
        return tuple(element(part) for element, part in zip(elements, given, strict=True))

    return check


def _integer(value: Any, least: int | None = None) -> int:
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise _Wrong
    number = int(value)
    if least is not None and number < least:
        raise _Wrong(f"an integer of at least {least}")
    return number


def _exact(value: Any) -> Any:
    if hasattr(type(value), "__index__"):
        return _integer(value)
    if isinstance(value, float):
        raise _Wrong("an exact number: write a float as a text, such as '0.1'")
    if not isinstance(value, str | Rational | Decimal):
        raise _Wrong
    return value


def _real(value: Any) -> Any:
    if hasattr(type(value), "__index__"):
        return _integer(value)
    if not isinstance(value, float) or value != value:
        raise _Wrong
    return value


def _budget(value: Any) -> Any:
    if value is None or isinstance(value, Stop):
        return value
    try:
        number = float(seconds_of(value)) if isinstance(value, str) else _real(value)
    except MalformedText:
        raise _Wrong from None
    if number < 0:
        raise _Wrong
    return number


_SET = _of(lambda value: isinstance(value, Set))
_ITERABLE = _of(lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes))
_GENERIC = {
    "frozenset": _SET,
    "set": _SET,
    "Iterable": _ITERABLE,
    "Collection": _ITERABLE,
    "PathLike": _of(lambda value: hasattr(value, "__fspath__")),
    "Callable": _of(callable),
}  # types in whose brackets nothing is checked

_CHECKS: dict[str, Check] = {
    "None": _of(lambda value: value is None),
    "Any": lambda value: value,
    "int": _integer,
    "Natural": lambda value: _integer(value, least=0),
    "Positive": lambda value: _integer(value, least=1),
    "float": _real,
    "bool": _of(lambda value: isinstance(value, bool)),
    "str": _of(lambda value: isinstance(value, str)),
    "Method": _of(lambda value: isinstance(value, str)),
    "Exact": _exact,
    "Budget": _budget,
    "Bytes": lambda value: _bytes_in(value) if isinstance(value, str) else _integer(value, least=0),
    "Frame": _of(lambda value: isinstance(value, Mapping)),
    "States": _of(lambda value: isinstance(value, dict)),
    "Durations": _of(lambda value: isinstance(value, Mapping)),
    "Array": _of(lambda value: hasattr(value, "dtype")),
}

_WORDS = {
    "None": "None",
    "int": "an integer",
    "Natural": "an integer of at least 0",
    "Positive": "an integer of at least 1",
    "float": "a number",
    "bool": "True or False",
    "str": "a text",
    "Method": "a text",
    "Exact": "an exact number (an integer, a Fraction, or a text such as '3/2')",
    "Budget": "seconds, a text such as '60s', a Stop, or None",
    "Bytes": "bytes, at least 0, or a text such as '16kB'",
    "Frame": "a mapping from names of inputs to arrays",
    "States": "a dictionary of what layers keep",
    "Durations": "a mapping from names of layers to their times",
    "Array": "an array",
    "PathLike": "a path",
}


def _in_words(kind: str) -> str:
    """Return what an annotation asks for, as the end of `expected ...`."""
    name, _, inner = kind.partition("[")
    name = name.rpartition(".")[2]
    if name in _WORDS:
        return _WORDS[name]
    if name == "Mapping" and inner:
        key, value = (_plural(part) for part in _parts(inner[:-1], ", "))
        return f"a mapping from {key} to {value}"
    if name in {"Sequence", "tuple", "list", "Iterable", "Collection", "frozenset"}:
        return f"a list of {_plural(_parts(inner[:-1], ', ')[0])}"
    if name == "Callable":
        return "a function"
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def _plural(kind: str) -> str:
    words = {"str": "names", "int": "integers", "Exact": "exact numbers", "Array": "arrays"}
    parts = (
        "texts" if alternative == "str" else f"{alternative} values"
        for alternative in _alternatives(kind)
    )
    return words.get(kind) or " or ".join(parts)
