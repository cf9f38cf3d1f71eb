"""HTML from values: every text and every attribute is escaped here, and nowhere else.

It also builds tables that sort and filter; without scripts they show every row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from csdf.draw.report.findings import GraphFindings
from csdf.errors import counted
from csdf.names import quoted_lines
from csdf.units import percent, rounded

VOID = ("input", "link", "meta")
FORBIDDEN = re.compile("[^\t\n -~\u00a0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


class Html(str):
    """Text that is HTML already; any other text is escaped when it becomes part of an element."""

    __slots__ = ()


# Content of an element: text, a number, nothing, or parts in sequence.
Part = str | int | None | Iterable[Any]


def element(tag: str, *content: Part, **attributes: object) -> Html:
    """Return an element with its content.

    An underscore in the name of an attribute becomes a hyphen; a last underscore is dropped (`class_`).
    An attribute that is True has no value; an attribute that is None is left out.
    """
    written = "".join(
        f" {name.removesuffix('_').replace('_', '-')}"
        + ("" if value is True else f'="{_clean(str(value))}"')
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(content)}</{tag}>")


def joined(parts: Iterable[Part]) -> Html:
    """Return the parts in sequence, escaped where they are not HTML."""
    return Html("".join(_written(part) for part in parts if part is not None))


def _written(part: Part) -> str:
    if isinstance(part, Html):
        return part
    return _clean(str(part)) if isinstance(part, str | int) else joined(part or ())


def tools(identifier: str) -> Html:
    """Return the room for the buttons of a chart."""
    return element("div", class_="tools", id=identifier)


def json_element(identifier: str, value: Any) -> Html:
    """Return data for scripts; no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{identifier}">{text}</script>')


def quoted_data(value: Any) -> Any:
    """Return data for scripts with every text as elements show it; keys of objects stay."""
    if isinstance(value, str):
        return quoted_lines(value)
    if isinstance(value, dict):
        return {key: quoted_data(value_of_key) for key, value_of_key in value.items()}
    if isinstance(value, list | tuple):
        return [quoted_data(part) for part in value]
    return value


def _clean(text: str) -> str:
    """Escape a text; characters that HTML may not contain are shown as a box."""
    return escape(FORBIDDEN.sub("\ufffd", quoted_lines(text)))


MOST_ROWS = 1500  # of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell: its text, and the number by which it is sorted where there is one."""

    text: str
    value: int | Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The cells of a row; is_marked: whether it belongs to the critical cycle."""

    cells: tuple[Cell, ...]
    is_marked: bool = False


def sortable(
    identifier: str, what: str, titles: Sequence[str], rows: Sequence[Row], *, is_live: bool = True
) -> Html:
    """Return a table with buttons that sort it and a field that filters it.

    what: the noun of a row. A column is sorted by numbers if one of its cells has a value; the first
    column is text. is_live: whether the page has the scripts of the buttons; otherwise the table has
    none. Rows after the first MOST_ROWS are left out, with a note.
    """
    numeric = [
        any(row.cells[index].value is not None for row in rows) for index in range(len(titles))
    ]
    head = element(
        "tr",
        *(
            element(
                "th", element("button", title, type="button") if is_live else title,
                scope="col", class_="number" if is_number else None,
            )
            for title, is_number in zip(titles, numeric, strict=True)
        ),
    )  # fmt: skip
    shown = rows[:MOST_ROWS]
    body = element("tbody", _rows(shown, numeric))
    table = element(
        "table", element("thead", head), body,
        class_="sortable" if is_live else None, id=identifier, data_noun=what,
    )  # fmt: skip
    label = f"table of every {what}"
    scroller = element("div", table, class_="scroller", tabindex=0, role="region", aria_label=label)
    count, more = counted(len(rows), what), len(rows) - len(shown)
    if more:
        count = f"The first {len(shown)} of {count}; {more} more are left out of the page"
    if not is_live:
        return joined([element("p", count, class_="count") if more else None, scroller])
    field = element(
        "label", "Filter: ",
        element(
            "input", type="search", data_filter=identifier, placeholder="part of a name",
            aria_controls=identifier,
        ),
    )  # fmt: skip
    only = element(
        "label",
        element("input", type="checkbox", data_marked=identifier, aria_controls=identifier),
        " only the critical cycle",
    )
    has_marked = any(row.is_marked for row in rows)
    return joined(
        [
            element("div", field, only if has_marked else None, class_="tools"),
            element("p", count, class_="count", role="status", id=f"{identifier}-count"),
            scroller,
        ]
    )


def _rows(rows: Sequence[Row], numeric: Sequence[bool]) -> Iterator[Html]:
    for row in rows:
        cells = [
            element(
                "td", cell.text,
                class_="number" if is_number else None,
                data_value=None if cell.value is None else _sort_key(cell.value),
            )
            for cell, is_number in zip(row.cells[1:], numeric[1:], strict=True)
        ]  # fmt: skip
        first = element("th", row.cells[0].text, scope="row")
        yield element("tr", first, *cells, class_="marked" if row.is_marked else None)


def _sort_key(value: int | Fraction) -> str:
    """Return a float to sort by; of a larger number, about the largest float."""
    try:
        return repr(float(value))
    except OverflowError:
        return "1e308"


def actor_table(findings: GraphFindings) -> Html:
    """Return the actors of a graph, busiest first."""
    critical, works = set(findings.critical_actors), findings.work
    graph = findings.graph
    period = findings.result.period if findings.result is not None else None
    rows = []
    for actor in graph.actors:
        count, work = findings.repetitions[actor.name], works[actor.name]
        busy = work / period if period else None
        rows.append(
            Row(
                cells=(
                    Cell(text=actor.name),
                    Cell(text=str(count), value=count),
                    Cell(text=str(actor.phases), value=actor.phases),
                    _time(max(actor.durations) * graph.time_unit),
                    _time(work),
                    Cell(text="" if busy is None else percent(busy), value=busy),
                ),
                is_marked=actor.name in critical,
            )
        )
    rows.sort(key=lambda row: -(row.cells[4].value or 0))
    unit = findings.time
    titles = (
        *("actor", "firings per iteration", "phases", f"longest firing ({unit})"),
        *(f"work per iteration ({unit})", "work in a period"),
    )
    return sortable("actors", "actor", titles, rows)


def _time(value: Fraction) -> Cell:
    text = str(value) if value.denominator == 1 else rounded(value)
    return Cell(text=text, value=value)
