"""Base classes of answers: HTML in notebooks, JSON, and rows for data frames.

HTML is a table by default. The module `views` of a package registers other functions for its types with
`html`; that module is imported when the first value is shown, so that analyses do not load it. In JSON
fractions and reasons are strings. Rows have floats for plots, and exact numbers as strings as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from functools import singledispatch
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any, ClassVar


@singledispatch
def html(value: object) -> str:
    """Return a value as a piece of HTML: its text, unless a function is registered for its type."""
    escaped: str = import_module("html").escape(repr(value))  # slow to import, for notebooks alone
    return f"<pre>{escaped}</pre>"


@singledispatch
def drawn(value: object) -> str:
    """Return a value as SVG; a function is registered for each type that can be drawn."""
    raise TypeError(f"a {type(value).__name__} cannot be drawn")


def picture(value: object) -> Picture:
    """Return the picture of a value."""
    _load_views(value)
    return Picture(drawn(value))


def _load_views(value: object) -> None:
    modules = ("csdf", *(base.__module__ for base in type(value).__mro__))  # csdf has the tables
    for name in dict.fromkeys(module.partition(".")[0] for module in modules):
        is_package = hasattr(
            sys.modules.get(name), "__path__"
        )  # unlike a notebook, or a single file
        if is_package and find_spec(f"{name}.views") is not None:
            import_module(f"{name}.views")


def as_json(value: Any) -> Any:
    """Return a value as JSON: by its `to_json` if it has one; fractions and reasons as strings."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple | list):
        return [as_json(part) for part in value]
    if isinstance(value, Mapping):
        return {key: as_json(part) for key, part in value.items()}
    return value.to_json() if hasattr(value, "to_json") else str(value)


class Viewed:
    """A value that notebooks show as its package registers with `html`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        _load_views(self)
        return html(self)


class Shown(Viewed):
    """A value with a view, and with a JSON document.

    JSON: the keys of its JSON document in order, each the name of an attribute, without `is_`; or, as
    `key=attribute`, another name for it. By default all fields.
    """

    __slots__ = ()
    JSON: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> Any:
        """Return the answer as a JSON value; fractions and reasons as texts."""
        row = {}
        keys = self.JSON or [field.name.removeprefix("is_") for field in fields(self)]  # type: ignore[arg-type]
        for name_and_attribute in keys:
            key, _, name = name_and_attribute.partition("=")
            name = name or (key if hasattr(self, key) else f"is_{key}")
            row[key] = as_json(getattr(self, name))
        return row


class Tabular(Shown):
    """A value with rows; FLOATS: the columns of them that hold exact numbers."""

    __slots__ = ()
    FLOATS: ClassVar[tuple[str, ...]] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return exact rows."""
        raise NotImplementedError

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows, as for a data frame: floats, and exact texts next to them."""
        return with_floats(self.rows(), *self.FLOATS)


class Picture(str):
    """SVG that a notebook shows."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


EXACT = "_exact"  # what the name of a column adds to that of its floats

Row = dict[str, Any]  # by the names of its columns


def with_floats(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Return the rows with floats in these columns, each followed by one of exact texts.

    The texts of `period` are in `period_exact`. None stays None, and a sequence keeps its form. A
    number beyond any float is infinite.
    """
    shown_rows = []
    for row in rows:
        new_row = {}
        for name, value in row.items():
            new_row[name] = value
            if name in columns:
                new_row |= {name: _each(value, _float), name + EXACT: _each(value, str)}
        shown_rows.append(new_row)
    return shown_rows


def _each(value: Any, convert: Callable[[Fraction], float | str]) -> Any:
    """Return a number, or a nested tuple of numbers, with each number converted; None stays."""
    if isinstance(value, tuple):
        return tuple(_each(part, convert) for part in value)
    return None if value is None else convert(value)


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
