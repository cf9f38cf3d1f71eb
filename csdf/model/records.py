"""Rows for data frames: floats that can be plotted, the exact numbers beside them as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import inf
from typing import Any

EXACT = "_exact"  # what the name of a column adds to that of its floats

Row = dict[str, Any]  # by the names of its columns


def with_floats(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Return the rows with floats in these columns, each followed by one of exact texts.

    The texts of `period` are in `period_exact`. None stays None, and a sequence keeps its form. A
    number beyond any float is infinite.
    """
    return [_with_floats(row, columns) for row in rows]


def _with_floats(row: Row, columns: tuple[str, ...]) -> Row:
    found = {}
    for name, value in row.items():
        found[name] = value
        if name in columns:
            found[name] = _each(value, _float)
            found[name + EXACT] = _each(value, str)
    return found


def _each(value: Any, told: Callable[[Fraction], float | str]) -> Any:
    """Return the value with each of its numbers as it is to be told."""
    if isinstance(value, tuple):
        return tuple(_each(one, told) for one in value)
    return None if value is None else told(value)


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
