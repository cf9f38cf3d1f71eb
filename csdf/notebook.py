"""Results as HTML: what a notebook shows of them, as tables and as pictures among these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from html import escape
from typing import Any

from csdf.names import quoted

MOST_ROWS = 30  # of a table; the rest is counted
MOST_ENTRIES = 12  # of a list in a cell
LEFT = "text-align:left"
RIGHT = "text-align:right"


def table(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of the same keys as an HTML table under a title; every text is escaped."""
    shown = rows[:MOST_ROWS]
    heads = rows[0] if rows else {}
    lines = [_heads(heads), *(_line(row.values()) for row in shown)]
    more = len(rows) - len(shown)
    if more:
        lines.append(f'<tr><td colspan="{len(heads)}" style="{LEFT}">and {more} more</td></tr>')
    return _whole(title, lines)


def facts(title: str, values: Mapping[str, object]) -> str:
    """Return names and values as an HTML table of two columns."""
    lines = [
        f'<tr><th style="{LEFT}">{escaped(name)}</th><td style="{LEFT}">{in_words(value)}</td></tr>'
        for name, value in values.items()
    ]
    return _whole(title, lines)


def facts_and_rows(value: Any, units: Mapping[str, str] | None = None) -> str:
    """Return a value as tables: what its fields say, and the rows that it has, or that they are.

    units: of fields and columns by their names, which show them.
    """
    title = re.sub("(?<=[a-z])(?=[A-Z])", " ", type(value).__name__).lower()
    facts_shown: dict[str, object] = {}
    tables = {title: value.rows()} if hasattr(value, "rows") else {}
    for field in fields(value):
        name, content = field.name.removeprefix("is_").replace("_", " "), getattr(value, field.name)
        if isinstance(content, tuple) and content and is_dataclass(content[0]):
            tables.setdefault(title, [shallow(part) for part in content])
        elif is_dataclass(content) and type(content).__str__ is object.__str__:
            nested = {f"{name}: {key}": part for key, part in shallow(content).items()}
            facts_shown |= {key: part for key, part in nested.items() if not is_dataclass(part)}
        else:
            facts_shown[name] = content
    of_names = units or {}
    return facts(title, _named_with(of_names, facts_shown)) + "".join(
        table(name, [_named_with(of_names, row) for row in rows])
        for name, rows in tables.items()
        if rows
    )


def _named_with(units: Mapping[str, str], values: Mapping[str, object]) -> dict[str, object]:
    """Return the values with the unit of each field in its name, such as `point: size (tokens)`."""
    shown = {}
    for name, value in values.items():
        unit = units.get(name.rpartition(": ")[2])
        shown[f"{name} ({unit})" if unit else name] = value
    return shown


def shallow(value: Any) -> dict[str, object]:
    """Return the fields of a dataclass by their names in words."""
    return {field.name.replace("_", " "): getattr(value, field.name) for field in fields(value)}


def in_words(value: object) -> str:
    """Return a value as escaped text: a fraction with its decimal, a list with commas."""
    if value is None:
        return "&ndash;"
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value} ({_decimal(value)})"
    if isinstance(value, Mapping):
        return _listed([f"{name} {_told(number)}" for name, number in value.items()])
    if isinstance(value, tuple | list):
        return _listed([_told(part) for part in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escaped(_told(value))


def _told(value: object) -> str:
    """A text: of a value without one its fields, of a list its entries."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_told, value))})"
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return ", ".join(f"{name} {_told(part)}" for name, part in shallow(value).items())
    return str(value)


def _decimal(value: Fraction) -> str:
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return "beyond any float"


def _listed(entries: Sequence[str]) -> str:
    shown = ", ".join(entries[:MOST_ENTRIES])
    more = len(entries) - MOST_ENTRIES
    return escaped(shown if more <= 0 else f"{shown} and {more} more")


def _heads(first: Mapping[str, object]) -> str:
    """The names of the columns, aligned as the first row is."""
    cells = [f'<th style="{_side(value)}">{escaped(name)}</th>' for name, value in first.items()]
    return f"<tr>{''.join(cells)}</tr>"


def _line(values: Iterable[object]) -> str:
    cells = [f'<td style="{_side(value)}">{in_words(value)}</td>' for value in values]
    return f"<tr>{''.join(cells)}</tr>"


def _side(value: object) -> str:
    """Numbers stand at the right."""
    is_number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    return RIGHT if is_number else LEFT


def _whole(title: str, lines: Sequence[str]) -> str:
    return f"<div>{escaped(title)}</div><table>{''.join(lines)}</table>"


def svg(picture: Callable[..., str | bytes], *about: Any, **more: Any) -> str:
    """Return a picture as an element of HTML; nothing where a number is beyond any float."""
    try:
        text = str(picture(*about, **more, suffix="svg"))
    except OverflowError:
        return ""
    return text[text.index("<svg") :]


def escaped(text: str) -> str:
    """Return the text for an element or an attribute, with what acts instead of being seen quoted."""
    return escape(quoted(text))
