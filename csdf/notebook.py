"""Tables: what a notebook shows of a result.

Pictures as inline SVG: boxes over time, and fronts; nothing where a number is beyond floats.

Texts of results as parts of HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

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


def facts_and_rows(value: Any) -> str:
    """Return a value as tables: what its fields say, and the rows that it has, or that they are."""
    title = re.sub("(?<=[a-z])(?=[A-Z])", " ", type(value).__name__).lower()
    known: dict[str, object] = {}
    tables = {title: value.rows()} if hasattr(value, "rows") else {}
    for field in fields(value):
        name, content = field.name.removeprefix("is_").replace("_", " "), getattr(value, field.name)
        if isinstance(content, tuple) and content and is_dataclass(content[0]):
            tables.setdefault(title, [shallow(one) for one in content])
        elif is_dataclass(content) and type(content).__str__ is object.__str__:
            nested = {f"{name}: {key}": one for key, one in shallow(content).items()}
            known |= {key: one for key, one in nested.items() if not is_dataclass(one)}
        else:
            known[name] = content
    return facts(title, known) + "".join(table(name, rows) for name, rows in tables.items() if rows)


def shallow(value: Any) -> dict[str, object]:
    """Return the fields of a dataclass by their names in words."""
    return {one.name.replace("_", " "): getattr(value, one.name) for one in fields(value)}


def in_words(value: object) -> str:
    """Return a value as escaped text: a fraction with its decimal, a list with commas."""
    if value is None:
        return "&ndash;"
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value} ({_decimal(value)})"
    if isinstance(value, Mapping):
        return _listed([f"{name} {_told(number)}" for name, number in value.items()])
    if isinstance(value, tuple | list):
        return _listed([_told(one) for one in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escaped(_told(value))


def _told(value: object) -> str:
    """A text: of a value without one its fields, of a list its entries."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_told, value))})"
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return ", ".join(f"{name} {_told(one)}" for name, one in shallow(value).items())
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


WIDTH = 640  # of a picture, in pixels
MARGIN = 110  # at the left, for names
LANE = 22  # height of a lane
FOOT = 22  # for the numbers below
HEIGHT = 260  # of a picture without lanes
LETTER = 6.5  # width of one
MOST_BOXES = 2000
COLOURS = ("#4878a8", "#e49444", "#6aa56e", "#b9769f", "#85b6b2", "#d1605e", "#e7ca60", "#a3785f")
HEAD = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11"'


Number = int | float | Fraction


class Box(NamedTuple):
    """A rectangle: from `start` to `end` across, from `low` to `high` up, in units of the result."""

    name: str
    start: Number
    end: Number
    low: Number
    high: Number
    colour: int = 0


def boxes_picture(boxes: Sequence[Box], *, across: str, up: str) -> str:
    """Return boxes with their names as an SVG element; `low` is at the bottom."""
    corner = _floats([max((box.end for box in boxes), default=0), *(box.high for box in boxes)])
    if corner is None:
        return ""
    right, top = corner[0] or 1.0, max(corner[1:], default=0.0) or 1.0
    room = HEIGHT - FOOT
    drawn = [
        _box(box, (WIDTH - MARGIN) / right, room / top, room - float(box.high) * room / top)
        for box in boxes[:MOST_BOXES]
    ]
    left = [_text(4, 14, up), _text(4, 30, f"0 to {top:g}")]
    return _svg(HEIGHT, [*drawn, *left, *_axis(HEIGHT, across, 0.0, right)])


def lanes_picture(lanes: Sequence[str], boxes: Sequence[Box], *, across: str) -> str:
    """Return a lane for each name and the boxes in it; `low` is the number of the lane."""
    ends = _floats([box.end for box in boxes])
    if ends is None:
        return ""
    right = max(ends, default=0.0) or 1.0
    names = [_text(4, LANE * i + 15, lane[:16]) for i, lane in enumerate(lanes)]
    drawn = [
        _box(box, (WIDTH - MARGIN) / right, LANE - 4, LANE * float(box.low) + 2)
        for box in boxes[:MOST_BOXES]
    ]
    height = LANE * len(lanes) + FOOT
    return _svg(height, [*names, *drawn, *_axis(height, across, 0.0, right)])


def front_picture(points: Sequence[tuple[Number, Number]], *, across: str, up: str) -> str:
    """Return points, joined by steps, as an SVG element; no axis need begin at 0."""
    columns = [_floats([point[axis] for point in points]) for axis in (0, 1)]
    if not points or columns[0] is None or columns[1] is None:
        return ""
    horizontal, vertical = columns[0], columns[1]
    lows = [min(horizontal), min(vertical)]
    spans = [max(horizontal) - lows[0] or 1.0, max(vertical) - lows[1] or 1.0]
    room = HEIGHT - FOOT - 30
    places = [
        (
            MARGIN + (x - lows[0]) / spans[0] * (WIDTH - MARGIN - 20),
            20 + room - (y - lows[1]) / spans[1] * room,
        )
        for x, y in zip(horizontal, vertical, strict=True)
    ]
    corners = [f"{places[0][0]:.1f},{places[0][1]:.1f}"]
    for (_, before), (x, y) in pairwise(places):
        corners += [f"{x:.1f},{before:.1f}", f"{x:.1f},{y:.1f}"]
    line = f'<polyline fill="none" stroke="{COLOURS[0]}" points="{" ".join(corners)}"/>'
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[0]}"/>' for x, y in places]
    highs = [low + span for low, span in zip(lows, spans, strict=True)]
    left = [_text(4, 14, up), _text(4, 30, f"{lows[1]:g} to {highs[1]:g}")]
    return _svg(HEIGHT, [line, *dots, *left, *_axis(HEIGHT, across, lows[0], highs[0])])


def _floats(values: Sequence[Number]) -> list[float] | None:
    """The values for drawing; None where one is too large."""
    try:
        return [float(value) for value in values]
    except OverflowError:
        return None


def _box(box: Box, across: float, up: float, top: float) -> str:
    """A rectangle `top` pixels from the top, its name on it where there is room, and as a tip."""
    start, end = float(box.start), float(box.end)
    left, width = MARGIN + start * across, (end - start) * across
    height = float(box.high - box.low) * up
    colour = COLOURS[box.colour % len(COLOURS)]
    tip = f"<title>{escaped(box.name)}: {start:g} to {end:g}</title>"
    rectangle = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(width, 0.5):.1f}" '
        f'height="{height:.1f}" fill="{colour}" stroke="white" stroke-width="0.5">{tip}</rect>'
    )
    has_room = len(box.name) * LETTER < width and height > 12
    return rectangle + (_text(left + 3, top + height / 2 + 4, box.name) if has_room else "")


def _axis(height: float, across: str, low: float, high: float) -> list[str]:
    return [
        _text(MARGIN, height - 6, f"{low:g}"),
        _text((WIDTH + MARGIN) / 2 - len(across) * LETTER / 2, height - 6, across),
        _text(WIDTH - 8 - len(f"{high:g}") * LETTER, height - 6, f"{high:g}"),
    ]


def _text(x: float, y: float, text: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" fill="currentColor" pointer-events="none"'
    return f"<text {where}>{escaped(text)}</text>"


def _svg(height: float, parts: Sequence[str]) -> str:
    body = "".join(parts)
    return f'<svg {HEAD} width="{WIDTH}" height="{height:g}">{body}</svg>'


def escaped(text: str) -> str:
    """Return the text for an element or an attribute, with what acts instead of being seen quoted."""
    return escape(quoted(text))
