"""Tables: what a notebook shows of a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from csdf.notebook.text import escaped

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


def in_words(value: object) -> str:
    """Return a value as escaped text: a fraction with its decimal, a list with commas."""
    if value is None:
        return "&ndash;"
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value} ({_decimal(value)})"
    if isinstance(value, Mapping):
        return _listed([f"{name} {number}" for name, number in value.items()])
    if isinstance(value, tuple | list):
        return _listed([str(one) for one in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escaped(str(value))


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
