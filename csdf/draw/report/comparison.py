"""Two pages in one: the figures of another graph or network beside those of this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.front import step_data
from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.sections import Figure, Section, Surroundings
from csdf.draw.report.tables import Cell, Row, sortable
from csdf.errors import counted
from csdf.outcome import Status
from csdf.words import exact, percent, size


def graph_figures(findings: GraphFindings) -> Iterator[Figure]:
    """Return the figures of a graph that can stand beside those of another."""
    graph, unit = findings.graph, findings.unit
    yield Figure("actors", Fraction(len(graph.actors)), str(len(graph.actors)))
    yield Figure("channels", Fraction(len(graph.channels)), str(len(graph.channels)))
    firings = sum(findings.repetitions.values())
    yield Figure("firings an iteration", Fraction(firings), str(firings))
    result = findings.result
    if result is not None:
        period = result.period
        text = "deadlock" if period is None else f"{exact(period)} {findings.time}"
        yield Figure("period", period, text)
    if findings.smallest is not None and findings.smallest.point is not None:
        found = findings.smallest.point.size
        proof = "" if findings.smallest.status is Status.OPTIMAL else ", not proved the smallest"
        yield Figure("smallest buffers", Fraction(found), size(found, unit) + proof)
    if findings.front is not None and findings.front.is_complete and findings.front.points:
        full = findings.front.points[-1].size
        yield Figure("buffers for full speed", Fraction(full), size(full, unit))


def comparison(
    names: tuple[str, str],
    graph: GraphFindings,
    around: Surroundings,
    other: GraphFindings,
    other_around: Surroundings,
) -> Section:
    """Return figures beside figures, and what differs actor by actor.

    names: of the other and of this, as they were given.
    """
    figures = [*graph_figures(graph), *around.figures]
    others = {one.title: one for one in (*graph_figures(other), *other_around.figures)}
    rows = [_row(one, others.get(one.title)) for one in figures]
    shown = {one.title for one in figures}
    rows += [_row(None, one) for title, one in others.items() if title not in shown]
    parts = [
        _table("compared", ("figure", *names, "change"), rows),
        *_actors(graph, other, names, around.noun),
    ]
    return Section("comparison", "Comparison", joined(parts))


def _row(now: Figure | None, before: Figure | None) -> tuple[str, ...]:
    one = now or before
    title = one.title if one is not None else ""
    texts = tuple("" if figure is None else figure.text for figure in (before, now))
    if now is None or before is None:
        return (title, *texts, "")
    return (title, *texts, change(before.value, now.value))


def change(before: Fraction | None, now: Fraction | None) -> str:
    """Return by how much a figure grew or fell; empty where one of them is no number."""
    if before is None or now is None:
        return ""
    if before == now:
        return "the same"
    if not before:
        return ""
    more = now / before - 1
    return f"{'+' if more > 0 else '-'}{percent(abs(more))}"


def _table(identifier: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", one) for one in row[1:]))
        for row in rows
    ]
    table = element("table", element("thead", head), element("tbody", *body), id=identifier)
    return element(
        "div", table, class_="scroller", tabindex=0, role="region", aria_label="figures compared"
    )


def _actors(
    graph: GraphFindings, other: GraphFindings, names: tuple[str, str], noun: str
) -> Iterator[Html]:
    """Actors of which work, phases or firings differ, or that only one of both has."""
    before, now = _works(other), _works(graph)
    rows = []
    for name in (*now, *(one for one in before if one not in now)):
        if before.get(name) != now.get(name):
            work = [found.get(name) for found in (before, now)]
            rows.append(
                Row(
                    cells=(
                        Cell(text=name),
                        *(_cell(one) for one in work),
                        Cell(text=_change_of(*work)),
                    ),
                    is_marked=name in graph.critical_actors,
                )
            )
    same = len(now.keys() & before.keys()) - sum(_is_in_both(row, before, now) for row in rows)
    yield element("h3", f"What differs, {noun} by {noun}")
    if not rows:
        yield element("p", f"Nothing: all {counted(same, noun)} do the same work.")
        return
    yield element("p", f"{counted(same, noun)} did not change.")
    titles = (noun, *(f"work in {name}" for name in names), "change")
    yield sortable("differences", noun, titles, rows)


def _is_in_both(row: Row, before: dict[str, Any], now: dict[str, Any]) -> bool:
    name = row.cells[0].text
    return name in before and name in now


def _works(findings: GraphFindings) -> dict[str, tuple[Fraction, int]]:
    """Time of an iteration, and firings, of each actor."""
    graph = findings.graph
    found = {}
    for actor in graph.actors:
        count = findings.repetitions[actor.name]
        work = count // actor.phases * sum(actor.durations) * graph.time_unit
        found[actor.name] = (work, count)
    return found


def _cell(work: tuple[Fraction, int] | None) -> Cell:
    if work is None:
        return Cell(text="not there")
    return Cell(text=f"{exact(work[0])} in {counted(work[1], 'firing')}", value=work[0])


def _change_of(before: tuple[Fraction, int] | None, now: tuple[Fraction, int] | None) -> str:
    if before is None:
        return "new"
    return "gone" if now is None else change(before[0], now[0])


def comparison_data(graph: GraphFindings, other: GraphFindings, name: str) -> dict[str, Any]:
    """Return the front of the other for the picture of this one, where both can share an axis."""
    if graph.front is None or other.front is None or graph.unit != other.unit:
        return {}
    return {"before": {"name": name, "points": step_data(other.front)}}
