"""Tables that sort and filter: every row is there without scripts, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Html, element, joined
from csdf.errors import counted
from csdf.words import percent, rounded

MOST_ROWS = 1500  # of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell: its text, and the number by which it is sorted where there is one."""

    text: str
    value: int | Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The cells of a row; marked: whether it belongs to the bottleneck."""

    cells: tuple[Cell, ...]
    is_marked: bool = False


def sortable(identifier: str, what: str, titles: Sequence[str], rows: Sequence[Row]) -> Html:
    """Return a table with buttons that sort it and a field that filters it.

    what: the noun of a row. The first column is text, the others are numbers where they have values.
    """
    numeric = [
        any(row.cells[place].value is not None for row in rows) for place in range(len(titles))
    ]
    head = element(
        "tr",
        *(
            element(
                "th", element("button", title, type="button"),
                scope="col", class_="number" if is_number else None,
            )
            for title, is_number in zip(titles, numeric, strict=True)
        ),
    )  # fmt: skip
    shown = rows[:MOST_ROWS]
    body = element("tbody", *_rows(shown, numeric))
    table = element(
        "table", element("thead", head), body,
        class_="sortable", id=identifier, data_noun=what,
    )  # fmt: skip
    return joined(
        [
            _tools(identifier, has_marked=any(row.is_marked for row in rows)),
            element(
                "p", _count(len(shown), len(rows), what),
                class_="count", role="status", id=f"{identifier}-count",
            ),
            element(
                "div", table,
                class_="scroller", tabindex=0, role="region", aria_label=f"table of every {what}",
            ),
        ]
    )  # fmt: skip


def _count(shown: int, total: int, what: str) -> str:
    if shown == total:
        return counted(total, what)
    return f"The {shown} {what}s with most work; {total - shown} more are left out of the page"


def _tools(identifier: str, *, has_marked: bool) -> Html:
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
        " only the bottleneck",
    )
    return element("div", field, *([only] if has_marked else []), class_="tools")


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
    """A float is exact enough to sort by; where there is none, as much as one can hold."""
    try:
        return repr(float(value))
    except OverflowError:
        return "1e308"


def actor_table(findings: GraphFindings) -> Html:
    """Return the actors of a graph, busiest first."""
    critical = set(findings.critical_actors)
    graph = findings.graph
    period = findings.result.period if findings.result is not None else None
    rows = []
    for actor in graph.actors:
        count = findings.repetitions[actor.name]
        work = count // actor.phases * sum(actor.durations) * graph.time_unit
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
    titles = (
        *("actor", "firings an iteration", "phases", "longest firing"),
        *("work an iteration", "work in a period"),
    )
    return sortable("actors", "actor", titles, rows)


def _time(value: Fraction) -> Cell:
    exact = str(value) if value.denominator == 1 else rounded(value)
    return Cell(text=exact, value=value)
