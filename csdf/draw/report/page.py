"""A page about a graph, and about what it was made of; the page needs no other file.

The banner of a page: the answer, and how much is left until it changes.

Surroundings of each actor, as data for the page: its channels, and its work.

The parts of the page about a graph: summary, drawing, schedule, channels, front, actors.

Two pages in one: the figures of another graph or network beside those of this one.

The origin of a page: all that somebody needs to make it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from csdf.draw.graph_drawing import actor_in_words, excerpt, graph_drawing, legend, rates
from csdf.draw.report import advice
from csdf.draw.report.advice import front_data, front_table, status_in_words, step_data
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import (
    Cell,
    Html,
    Row,
    actor_table,
    element,
    joined,
    json_element,
    quoted_data,
    sortable,
)
from csdf.draw.report.sections import Figure, Section, Surroundings, Verdict, left_out
from csdf.draw.report.timeline import run_data
from csdf.errors import counted
from csdf.outcome import Status
from csdf.words import exact, percent, rounded, size

ASSETS = Path(__file__).with_name("assets")
SCRIPTS = (
    *("basis", "exports", "selection", "drawing", "window", "gantt", "occupancy", "front"),
    *("arena", "tables"),
)
MOST_CHANNELS = 20_000  # around actors that are chosen
FOOTER = "Made by csdf report. Numbers are exact unless they say “about”."
WITHOUT_SCRIPTS = "Without scripts the charts stay empty; the drawing and the tables are complete."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Compared(NamedTuple):
    """The page to compare with. names: of that page and of this page, as given."""

    names: tuple[str, str]
    graph: GraphFindings
    around: Surroundings


def report_page(
    graph: GraphFindings,
    around: Surroundings | None = None,
    origin: Origin | None = None,
    other: Compared | None = None,
) -> str:
    """Return the page. Same findings, same text.

    origin: where it comes from, if the page says so. other: what it is compared with.
    """
    around = around or Surroundings(name=graph.graph.name)
    name = around.name
    sections = [
        _summary(graph, around),
        *([] if other is None else [_compared(graph, around, other)]),
        *around.before,
        *graph_sections(graph, with_table=around.has_actors),
        *around.after,
        *([] if origin is None else [origin_section(origin)]),
    ]
    body = element(
        "body",
        element("a", "Skip to the summary", href="#summary", class_="skip"),
        _header(name, _subtitle(graph, around), sections),
        banner(around.verdict or verdict(graph)),
        element("main", *(_section(one) for one in sections)),
        element(
            "footer",
            element("p", FOOTER),
        ),
        element("noscript", element("p", WITHOUT_SCRIPTS)),
        element("div", class_="tooltip", id="tooltip", role="tooltip", hidden=True),
        json_element("data", quoted_data(_data(graph, around, other))),
        _script(),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{name}: report"),
        element("link", rel="icon", href="data:,"),
        Html(f"<style>{_asset('style.css')}</style>"),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _compared(graph: GraphFindings, around: Surroundings, other: Compared) -> Section:
    return comparison(other.names, graph, around, other.graph, other.around)


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _script() -> Html:
    text = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return Html(f'<script>\n"use strict";\n(() => {{\n{text}\n}})();\n</script>')


def _header(name: str, subtitle: str, sections: list[Section]) -> Html:
    links = [element("a", one.title, href=f"#{one.identifier}") for one in sections]
    return element(
        "header",
        element(
            "div",
            element("h1", name),
            element("p", subtitle, class_="subtitle"),
            class_="titles",
        ),
        element("button", "Dark", type="button", id="theme", aria_pressed="false", hidden=True),
        element("nav", *links, aria_label="parts of this page"),
        element("div", id="finder", class_="tools", role="search"),
    )


def _subtitle(graph: GraphFindings, around: Surroundings) -> str:
    one = graph.graph
    actors, channels = counted(len(one.actors), "actor"), counted(len(one.channels), "channel")
    size = f"{one.kind} graph, {actors}, {channels}"
    return (
        f"{around.kind}{size}, {counted(sum(graph.repetitions.values()), 'firing')} per iteration"
    )


def _section(one: Section) -> Html:
    return element(
        "section",
        element(
            "h2",
            element("a", one.title, href=f"#{one.identifier}"),
            id=f"{one.identifier}-title",
        ),
        one.content,
        id=one.identifier,
        aria_labelledby=f"{one.identifier}-title",
    )


def _summary(graph: GraphFindings, around: Surroundings) -> Section:
    own = graph_summary(graph)
    return own._replace(content=joined([*around.lead, own.content]))


def _data(graph: GraphFindings, around: Surroundings, other: Compared | None) -> dict[str, Any]:
    beside = {} if other is None else comparison_data(graph, other.graph, other.names[0])
    return {
        **beside,
        "time": graph.time,
        **neighbourhood_data(graph, around.noun, MOST_CHANNELS),
        "critical": list(graph.critical_actors),
        "runs": [run_data(run) for run in graph.runs],
        "front": None if graph.front is None else front_data(graph.front, graph.unit),
        "arenas": [],
        **around.data,
    }


def banner(found: Verdict) -> Html:
    """Return the element at the top of the page."""
    parts = [element("strong", found.answer)]
    if found.headroom:
        parts.append(element("span", found.headroom))
    return element("div", *parts, class_=f"banner {found.kind}", id="verdict", role="status")


def verdict(findings: GraphFindings) -> Verdict:
    """Return whether a graph runs, how fast, and what limits it behind its critical cycle."""
    result = findings.result
    if result is None:
        return Verdict(
            "The period is not known", "the time limit came before it was found", "unknown"
        )
    if result.deadlock is not None:
        return Verdict("Deadlock", "some actors wait for one another for ever", "no")
    if not result.period:
        return Verdict("Runs without a limit", "no cycle of the graph takes time", "yes")
    period = f"Runs: period {exact(result.period)} {findings.time}"
    return Verdict(period, _headroom(findings, result.period), "yes")


def _headroom(findings: GraphFindings, period: Fraction) -> str:
    """The busiest actor outside the critical cycle: a faster bottleneck soon meets it."""
    graph, critical = findings.graph, set(findings.critical_actors)
    busy = [
        (
            findings.repetitions[one.name]
            // one.phases
            * sum(one.durations)
            * graph.time_unit
            / period,
            one.name,
        )
        for one in graph.actors
        if one.name not in critical
    ]
    if not busy:
        return "every actor belongs to the critical cycle"
    share, name = max(busy, key=lambda one: one[0])
    return f"headroom: the busiest other actor is “{name}”, {percent(share)} of the period"


def neighbourhood_data(findings: GraphFindings, noun: str, most: int) -> dict[str, Any]:
    """Return names and facts of all actors, and at most so many channels, for the scripts."""
    graph = findings.graph
    return {
        "noun": noun,
        "names": [actor.name for actor in graph.actors],
        "facts": [
            actor_in_words(graph, actor, findings.repetitions[actor.name]) for actor in graph.actors
        ],
        "channels": [
            [
                *(one.name, one.producer, one.consumer, rates(one.production)),
                *(rates(one.consumption), one.initial_tokens, one.capacity),
            ]
            for one in graph.channels[:most]
        ],
    }


def graph_summary(findings: GraphFindings) -> Section:
    """Return what limits the graph and what to change."""
    parts = [element("p", advice.headline(findings), class_="lead"), _cards(findings)]
    blocked = findings.result.deadlock if findings.result is not None else None
    if blocked is not None:
        parts += [
            element("h3", "The cycle that blocks itself"),
            element("ol", *(element("li", text) for text in advice.waiting(blocked))),
        ]
    lists = [
        element("div", element("h3", title), element("ul", *(element("li", one) for one in texts)))
        for title, texts in (
            ("What limits it", advice.limits(findings)),
            ("What to change", advice.changes(findings)),
        )
        if texts
    ]
    parts.append(element("div", *lists, class_="two"))
    parts += [left_out(findings.left_out[key]) for key in ("smallest",) if key in findings.left_out]
    return Section("summary", "Summary", joined(parts))


class _Card(NamedTuple):
    """A figure of the summary, with a remark below."""

    identifier: str
    title: str
    text: str
    remark: str = ""


def _cards(findings: GraphFindings) -> Html:
    cards = [
        element(
            "div",
            element("dt", one.title),
            element("dd", one.text, *([element("small", one.remark)] if one.remark else [])),
            class_="card",
            id=f"card-{one.identifier}",
        )
        for one in (*_speed_cards(findings), *_storage_cards(findings))
    ]
    return element("dl", *cards, class_="cards")


def _speed_cards(findings: GraphFindings) -> Iterator[_Card]:
    result = findings.result
    if result is None:
        return
    if result.deadlock is not None:
        yield _Card("throughput", "Throughput", "0", "the graph deadlocks")
        return
    period, speed = result.period or Fraction(0), result.throughput
    about = "" if period.denominator == 1 else f"about {rounded(period)}"
    yield _Card("period", f"Period ({findings.time})", str(period), about)
    if speed is not None and findings.time == "ns":
        yield _Card("throughput", "Frames a second", rounded(speed * 10**9), "about")
    elif speed is not None:
        about = "" if speed.denominator == 1 else f"about {rounded(speed)}"
        yield _Card("throughput", "Iterations per time unit", str(speed), about)
    if result.critical_cycle is not None:
        actors = result.critical_cycle.actors
        more = f"and {len(actors) - 3} more" if len(actors) > 3 else ""
        yield _Card("limit", "Critical cycle", ", ".join(actors[:3]), more)


def _storage_cards(findings: GraphFindings) -> Iterator[_Card]:
    unit, smallest, front = findings.unit, findings.smallest, findings.front
    if smallest is not None and smallest.point is not None:
        count = smallest.point.size
        bound = (
            "proved" if smallest.status is Status.OPTIMAL
            else f"found; at least {size(smallest.lower_bound, unit)}"
        )  # fmt: skip
        yield _Card("smallest", "Smallest buffers", size(count, unit), _remark(count, unit, bound))
    if front is not None and front.is_complete and front.points:
        count = front.points[-1].size
        remark = _remark(count, unit, "proved")
        yield _Card("full", "Buffers for full speed", size(count, unit), remark)


def _remark(count: int, unit: str, proof: str) -> str:
    return f"{count} bytes, {proof}" if unit == "bytes" else proof


def graph_sections(findings: GraphFindings, *, with_table: bool) -> Iterator[Section]:
    """Return the other parts; with_table: also that of the actors."""
    yield Section("graph", "Graph", _drawing(findings))
    if findings.result is not None and findings.result.deadlock is not None:
        if with_table:
            yield Section("table", "Actors", actor_table(findings))
        return
    yield Section("schedule", "Schedule", _schedule(findings))
    if findings.runs:
        yield Section("channels", "Channels over time", _occupancy(findings))
    yield Section("front", "Storage against throughput", _front(findings))
    if with_table:
        yield Section("table", "Actors", actor_table(findings))


def _drawing(findings: GraphFindings) -> Html:
    shown = excerpt(findings.graph, findings.critical_actors)
    said = "" if shown.is_all else (
        f"The graph has {counted(len(findings.graph.actors), 'actor')}; drawn are the "
        f"{len(shown.actors)} on and around the critical cycle."
    )  # fmt: skip
    return joined(
        [
            *([element("p", said, class_="left-out")] if said else []),
            element("p", legend(findings), class_="keys"),
            element("div", class_="tools", id="graph-tools"),
            element("div", graph_drawing(findings, shown), class_="chart", id="graph-chart"),
            element("div", id="focus", class_="focus", role="status", hidden=True),
        ]
    )


def _schedule(findings: GraphFindings) -> Html:
    if not findings.runs:
        return left_out(findings.left_out.get("schedule", "no execution was made"))
    return joined(
        [
            element(
                "p",
                "Every actor fires as soon as tokens and room allow. Pale firings are transient, "
                "full ones belong to the part that repeats for ever.",
            ),
            *([left_out(findings.left_out["schedule"])] if "schedule" in findings.left_out else []),
            element("div", class_="tools", id="gantt-tools"),
            element("p", class_="detail", id="gantt-facts"),
            element("div", class_="chart", id="gantt-chart"),
            element("p", class_="detail", id="gantt-window", role="status"),
        ]
    )


def _occupancy(findings: GraphFindings) -> Html:
    loops = sum(channel.is_self_loop for channel in findings.graph.channels)
    said = (
        "What each channel holds in the schedule above, with the space that running firings have "
        "claimed, against its capacity; the time shown is that of the schedule."
    )
    if loops:
        left = counted(loops, "self-loop")
        said += f" {left} left out: they hold the state of an actor."
    return joined(
        [
            element("p", said),
            element("div", class_="tools", id="occupancy-tools"),
            element("div", class_="chart", id="occupancy-chart"),
            element("p", class_="detail", id="occupancy-detail", role="status"),
            element(
                "label", "Filter: ",
                element("input", type="search", id="occupancy-filter", placeholder="part of a name"),
            ),
            element(
                "div",
                class_="sparks", id="occupancy-list", role="listbox", aria_label="channels",
            ),
        ]
    )  # fmt: skip


def _front(findings: GraphFindings) -> Html:
    front = findings.front
    if front is None:
        return left_out(findings.left_out.get("front", "it was not searched"))
    parts = [element("p", status_in_words(front, findings.unit), id="front-status", class_=(
        "complete" if front.is_complete else "incomplete"
    ))]  # fmt: skip
    if front.points:
        parts += [
            element(
                "p",
                "No execution reaches a point above the steps. Left and right arrow keys go from point "
                "to point.",
            ),
            element("div", class_="tools", id="front-tools"),
            element(
                "div",
                element("div", class_="chart", id="front-chart"),
                element("div", id="front-detail", class_="panel", role="status"),
                class_="beside",
            ),
            element(
                "details", element("summary", "All points as a table"),
                front_table(front, findings.unit),
            ),
        ]  # fmt: skip
    return joined(parts)


def graph_figures(findings: GraphFindings) -> Iterator[Figure]:
    """Return the figures of a graph that can stand beside those of another."""
    graph, unit = findings.graph, findings.unit
    yield Figure("actors", Fraction(len(graph.actors)), str(len(graph.actors)))
    yield Figure("channels", Fraction(len(graph.channels)), str(len(graph.channels)))
    firings = sum(findings.repetitions.values())
    yield Figure("firings per iteration", Fraction(firings), str(firings))
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


class Source(NamedTuple):
    """A file that was read, with the SHA-256 of its bytes."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a page. terms: further names and values, such as the size of an element."""

    command: str
    version: str
    sources: tuple[Source, ...]
    terms: tuple[tuple[str, str], ...] = ()


def origin_section(origin: Origin) -> Section:
    """Command, version, files and terms: what it takes to make the page again."""
    rows = [
        ("command", element("code", origin.command)),
        ("version", f"csdf {origin.version}"),
        *(
            (
                "input file",
                joined(
                    [
                        f"{one.name}, {counted(one.size, 'byte')}, SHA-256 ",
                        element("code", one.digest),
                    ]
                ),
            )
            for one in origin.sources
        ),
        *origin.terms,
    ]
    cells = [part for name, text in rows for part in (element("dt", name), element("dd", text))]
    return Section("origin", "Made from", element("dl", *cells, class_="origin"))
