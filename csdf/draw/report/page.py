"""HTML page about a graph, or about a network and its graph; the page needs no other file.

It has a banner with the answer, a summary, drawing, schedule, channels over time, the Pareto front of
storage and throughput, and a table of actors. It may have a comparison with another graph or network,
and the origin: command, version and input files. A `PageFrame` adds the sections about a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from csdf.draw.graph_drawing import actor_in_words, cut_apart, excerpt, graph_drawing, legend, rates
from csdf.draw.report import advice
from csdf.draw.report.advice import front_data, front_table, status_in_words, step_data
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import (
    Cell,
    Html,
    Part,
    Row,
    actor_table,
    element,
    joined,
    json_element,
    quoted_data,
    sortable,
    tools,
)
from csdf.draw.report.sections import Figure, PageFrame, PageVerdict, Section, left_out
from csdf.draw.report.timeline import run_data
from csdf.errors import counted
from csdf.status import Status
from csdf.units import duration, exact, percent, rounded, size

ASSETS = Path(__file__).with_name("assets")
SCRIPTS = (
    *("basis", "exports", "selection", "drawing", "window", "gantt", "occupancy", "front"),
    *("arena", "tables"),
)
MOST_CHANNELS = 20_000  # whose facts the scripts show around a chosen actor
FOOTER = (
    "Made by csdf. Numbers are exact unless they say “about”; those with a unit such as kB or "
    "ms are rounded."
)
WITHOUT_SCRIPTS = "Without scripts the charts stay empty; the drawing and the tables are complete."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Compared(NamedTuple):
    """The page to compare with. names: of that page and of this page, as the user wrote them."""

    names: tuple[str, str]
    findings: GraphFindings
    frame: PageFrame


def report_page(
    findings: GraphFindings,
    frame: PageFrame | None = None,
    origin: Origin | None = None,
    other: Compared | None = None,
) -> str:
    """Return the page; the same findings give the same text.

    frame: the page around the graph; by default the page has only the graph. origin: for the section
    on command and files, if it is shown. other: the page to compare with.
    """
    frame = frame or PageFrame(name=findings.graph.name)
    compared = [] if other is None else [_comparison(findings, frame, other)]
    of_graph = list(_sections(findings, with_table=frame.has_actors))
    if frame.lead:  # first a single processor, then a pipeline with a processor for each actor
        lead = Section("summary", "Summary", joined(frame.lead))
        parts = joined([_pipeline_note(frame), *_summary(findings)])
        pipeline = Section("pipeline", "As a pipeline", parts)
        sections = [lead, *compared, *frame.before, *frame.after, pipeline, *of_graph]
    else:
        summary = Section("summary", "Summary", joined(_summary(findings)))
        sections = [summary, *compared, *frame.before, *of_graph, *frame.after]
    sections += [] if origin is None else [origin_section(origin)]
    scripts = [
        element("noscript", element("p", WITHOUT_SCRIPTS)),
        element("div", class_="tooltip", id="tooltip", role="tooltip", hidden=True),
        json_element("data", quoted_data(_data(findings, frame, other))),
        _script(),
    ]
    answer = frame.verdict or verdict(findings)
    return document(frame.name, _subtitle(findings, frame), answer, sections, scripts)


def document(
    name: str,
    subtitle: str,
    answer: PageVerdict,
    sections: Sequence[Section],
    scripts: Sequence[Html] = (),
) -> str:
    """Return a page of sections below a banner with the answer.

    scripts: elements at its end, with the data that they read.
    """
    banner = [
        element("strong", answer.answer),
        answer.headroom and element("span", answer.headroom),
    ]
    body = element(
        "body",
        element("a", "Skip to the summary", href="#summary", class_="skip"),
        _header(name, subtitle, sections),
        element("div", banner, class_=f"banner {answer.kind}", id="verdict", role="status"),
        element("main", map(_section, sections)),
        element("footer", element("p", FOOTER)),
        *scripts,
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


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _script() -> Html:
    text = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return Html(f'<script>\n"use strict";\n(() => {{\n{text}\n}})();\n</script>')


def _header(name: str, subtitle: str, sections: Sequence[Section]) -> Html:
    links = [element("a", section.title, href=f"#{section.identifier}") for section in sections]
    titles = [element("h1", name), element("p", subtitle, class_="subtitle")]
    return element(
        "header",
        element("div", titles, class_="titles"),
        element("button", "Dark", type="button", id="theme", aria_pressed="false", hidden=True),
        element("nav", links, aria_label="parts of this page"),
        element("div", id="finder", class_="tools", role="search"),
    )


def _subtitle(findings: GraphFindings, frame: PageFrame) -> str:
    graph = findings.graph
    actors, channels = counted(len(graph.actors), "actor"), counted(len(graph.channels), "channel")
    firings = counted(sum(findings.repetitions.values()), "firing")
    return f"{frame.kind}{graph.kind} graph, {actors}, {channels}, {firings} per iteration"


def _section(section: Section) -> Html:
    title = f"{section.identifier}-title"
    link = element("a", section.title, href=f"#{section.identifier}")
    return element(
        "section",
        element("h2", link, id=title),
        section.content,
        id=section.identifier,
        aria_labelledby=title,
    )


def _data(findings: GraphFindings, frame: PageFrame, other: Compared | None) -> dict[str, Any]:
    """Return the data for the scripts: actors, the first MOST_CHANNELS channels, runs, fronts."""
    graph, front = findings.graph, findings.front
    compared = {}
    if other is not None and front is not None and other.findings.front is not None:
        # Fronts in the same units share the axes of the chart.
        if (other.findings.unit, other.findings.time) == (findings.unit, findings.time):
            points = step_data(other.findings.front)
            compared["before"] = {"name": other.names[0], "points": points}
    return {
        **compared,
        "time": findings.time,
        "noun": frame.noun,
        "names": [actor.name for actor in graph.actors],
        "short": list(cut_apart([actor.name for actor in graph.actors]).values()),
        "facts": [
            actor_in_words(graph, actor, findings.repetitions[actor.name], findings.time)
            for actor in graph.actors
        ],
        "channels": [
            [
                *(channel.name, channel.producer, channel.consumer, rates(channel.production)),
                *(rates(channel.consumption), channel.initial_tokens, channel.capacity),
            ]
            for channel in graph.channels[:MOST_CHANNELS]
        ],
        "critical": list(findings.critical_actors),
        "runs": [run_data(run) for run in findings.runs],
        "front": None if front is None else front_data(front, findings.unit),
        "arenas": [],
        **frame.data,
    }


def verdict(findings: GraphFindings) -> PageVerdict:
    """Return whether a graph runs, how fast, and its busiest actor outside the critical cycle."""
    result = findings.result
    if result is None:
        return PageVerdict(
            "The period is not known", "the time limit came before it was found", "unknown"
        )
    if result.deadlock is not None:
        return PageVerdict("Deadlock", "some actors wait for one another for ever", "no")
    if not result.period:
        return PageVerdict("Runs without a limit", "no cycle of the graph takes time", "yes")
    period = f"Runs: period {duration(result.period, findings.time)}"
    return PageVerdict(period, _headroom(findings, result.period), "yes")


def _headroom(findings: GraphFindings, period: Fraction) -> str:
    """Return how busy the busiest actor outside the critical cycle is.

    It limits the graph next if the critical cycle becomes faster.
    """
    critical = set(findings.critical_actors)
    busy = [(work, name) for name, work in findings.work.items() if name not in critical]
    if not busy:
        return "every actor belongs to the critical cycle"
    work, name = max(busy, key=lambda row: row[0])
    if work >= period:
        return f"no headroom: “{name}” is as busy as the critical cycle"
    return f"headroom: the busiest other actor is “{name}”, {percent(work / period)} of the period"


def _pipeline_note(frame: PageFrame) -> Html:
    """Return the sentence on the machine whose results the following sections show."""
    machine = (
        f"From here on each {frame.noun} has its own processor and buffers, as in an accelerator: "
        "these times and sizes are not those of the plan above."
    )
    return element("p", machine)


def _summary(findings: GraphFindings) -> list[Html]:
    """Return the headline, cards, limits and advice of the section on the graph."""
    parts = [element("p", advice.headline(findings), class_="lead"), _cards(findings)]
    blocked = findings.result.deadlock if findings.result is not None else None
    if blocked is not None:
        waiting = [element("li", text) for text in advice.waiting(blocked)]
        parts += [element("h3", "The cycle that blocks itself"), element("ol", waiting)]
    lists = [
        element("div", element("h3", title), element("ul", [element("li", text) for text in texts]))
        for title, texts in (
            ("What limits it", advice.limits(findings)),
            ("What to change", advice.changes(findings)),
        )
        if texts
    ]
    parts.append(element("div", lists, class_="two"))
    if "smallest" in findings.left_out:
        parts.append(left_out(findings.left_out["smallest"]))
    return parts


class _Card(NamedTuple):
    """A number of the summary, with a note below."""

    identifier: str
    title: str
    text: str
    note: str = ""


def _cards(findings: GraphFindings) -> Html:
    cards = [
        element(
            "div",
            element("dt", card.title),
            element("dd", card.text, card.note and element("small", card.note)),
            class_="card",
            id=f"card-{card.identifier}",
        )
        for card in (*_speed_cards(findings), *_storage_cards(findings))
    ]
    return element("dl", cards, class_="cards")


def _speed_cards(findings: GraphFindings) -> Iterator[_Card]:
    result = findings.result
    if result is None:
        return
    if result.deadlock is not None:
        yield _Card("throughput", "Throughput", "0", "the graph deadlocks")
        return
    period, speed = result.period or Fraction(0), result.throughput
    about = "" if period.denominator == 1 else f"about {rounded(period)}"
    if findings.time == "ns":
        yield _Card("period", "Period", duration(period, "ns"), f"{exact(period)} ns")
    else:
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
            else f"found; lower bound {size(smallest.lower_bound, unit)}"
        )  # fmt: skip
        note = f"{count} bytes, {bound}" if unit == "bytes" else bound
        yield _Card("smallest", "Smallest buffers", size(count, unit), note)
    if front is not None and front.is_complete and front.points:
        count = front.points[-1].size
        note = f"{count} bytes, proved" if unit == "bytes" else "proved"
        yield _Card("full", "Buffers for full speed", size(count, unit), note)


def _sections(findings: GraphFindings, *, with_table: bool) -> Iterator[Section]:
    """The sections after the summary; with_table: also the section of the actors."""
    yield Section("graph", "Graph", _drawing(findings))
    if not findings.blocked:
        yield Section("schedule", "Schedule", _schedule(findings))
        if findings.runs:
            yield Section("channels", "Channels over time", _occupancy(findings))
        yield Section("front", "Storage against throughput", _front(findings))
    if with_table:
        yield Section("table", "Actors", actor_table(findings))


def _drawing(findings: GraphFindings) -> Html:
    shown = excerpt(findings.graph, findings.critical_actors)
    drawn, critical = len(shown.actors), len(set(findings.critical_actors))
    where = f"the {drawn} on and around the critical cycle"
    if critical > drawn:
        where = f"{drawn} of the {critical} on the critical cycle"
    note = None if shown.is_all else element("p",
        f"The graph has {counted(len(findings.graph.actors), 'actor')}; drawn are {where}.",
        class_="left-out",
    )  # fmt: skip
    return joined(
        [
            note,
            element("p", legend(findings), class_="keys"),
            tools("graph-tools"),
            element("div", graph_drawing(findings, shown), class_="chart", id="graph-chart"),
            element("div", id="focus", class_="focus", role="status", hidden=True),
        ]
    )


def _schedule(findings: GraphFindings) -> Html:
    reason = findings.left_out.get("schedule")
    if not findings.runs:
        return left_out(reason or "no execution was made")
    note = (
        "Every actor fires as soon as tokens and room allow. Pale firings are transient, "
        "full ones belong to the part that repeats for ever."
    )
    return joined(
        [
            element("p", note),
            None if reason is None else left_out(reason),
            tools("gantt-tools"),
            element("p", class_="detail", id="gantt-facts"),
            element("div", class_="chart", id="gantt-chart"),
            element("p", class_="detail", id="gantt-window", role="status"),
        ]
    )


def _occupancy(findings: GraphFindings) -> Html:
    loops = sum(channel.is_self_loop for channel in findings.graph.channels)
    note = (
        "What each channel holds in the schedule above, with the space that running firings have "
        "claimed, against its capacity; the time shown is that of the schedule."
    )
    if loops:
        left = counted(loops, "self-loop")
        note += f" {left} left out: they hold the state of an actor."
    name = element("input", type="search", id="occupancy-filter", placeholder="part of a name")
    sparks = {"class_": "sparks", "id": "occupancy-list", "role": "listbox"}
    return joined(
        [
            element("p", note),
            tools("occupancy-tools"),
            element("div", class_="chart", id="occupancy-chart"),
            element("p", class_="detail", id="occupancy-detail", role="status"),
            element("label", "Filter: ", name),
            element("div", **sparks, aria_label="channels"),
        ]
    )


def _front(findings: GraphFindings) -> Html:
    front = findings.front
    if front is None:
        return left_out(findings.left_out.get("front", "it was not searched"))
    state = "complete" if front.is_complete else "incomplete"
    text = status_in_words(front, findings.unit)
    status = element("p", text, id="front-status", class_=state)
    if not front.points:
        return status
    note = (
        "No execution reaches a point above the steps. Left and right arrow keys go from point "
        "to point."
    )
    chart = element("div", class_="chart", id="front-chart")
    detail = element("div", id="front-detail", class_="panel", role="status")
    points = front_table(front, findings.unit, findings.time)
    return joined(
        [
            status,
            element("p", note),
            tools("front-tools"),
            element("div", chart, detail, class_="beside"),
            element("details", element("summary", "All points as a table"), points),
        ]
    )


def _figures(findings: GraphFindings) -> Iterator[Figure]:
    """Yield the figures by which two graphs are compared."""
    graph, unit, result = findings.graph, findings.unit, findings.result
    for title, count in (
        ("actors", len(graph.actors)),
        ("channels", len(graph.channels)),
        ("firings per iteration", sum(findings.repetitions.values())),
    ):
        yield Figure(title, Fraction(count), str(count))
    if result is not None:
        period = result.period
        text = "deadlock" if period is None else f"{duration(period, findings.time)}"
        yield Figure("period", period, text, findings.time)
    if findings.smallest is not None and findings.smallest.point is not None:
        least = findings.smallest.point.size
        proof = "" if findings.smallest.status is Status.OPTIMAL else ", not proved the smallest"
        yield Figure("smallest buffers", Fraction(least), size(least, unit) + proof, unit)
    if findings.front is not None and findings.front.is_complete and findings.front.points:
        full = findings.front.points[-1].size
        yield Figure("buffers for full speed", Fraction(full), size(full, unit), unit)


def _comparison(findings: GraphFindings, frame: PageFrame, other: Compared) -> Section:
    """Return a table of the figures of both pages, and a table of the actors that differ."""
    before, now = (
        {figure.title: figure for figure in (*_figures(graph), *figures)}
        for graph, figures in (
            (other.findings, other.frame.figures), (findings, frame.figures),
        )
    )  # fmt: skip
    none = Figure("", None, "")
    rows = []
    for title in dict.fromkeys([*now, *before]):
        old, new = before.get(title, none), now.get(title, none)
        difference = change(old.value, new.value) if old.unit == new.unit else ""
        cells = [element("td", text) for text in (old.text, new.text, difference)]
        rows.append(element("tr", element("th", title, scope="row"), cells))
    titles = ("figure", *other.names, "change")
    head = element("tr", [element("th", title, scope="col") for title in titles])
    table = element("table", element("thead", head), element("tbody", rows), id="compared")
    label = "figures compared"
    shown = element("div", table, class_="scroller", tabindex=0, role="region", aria_label=label)
    differing = _differing_actors(findings, other, frame.noun)
    return Section("comparison", "Comparison", joined([shown, differing]))


def change(before: Fraction | None, now: Fraction | None) -> str:
    """Return by what share a number grew or fell; empty without one of both, or from zero."""
    if before == now and now is not None:
        return "the same"
    if not before or now is None:
        return ""
    more = now / before - 1
    return f"{'+' if more > 0 else '-'}{percent(abs(more))}"


def _differing_actors(findings: GraphFindings, other: Compared, noun: str) -> Iterator[Html]:
    """Yield the actors whose work or firings differ, or that only one of both graphs has."""
    before, now = (  # of each actor: time and firings in an iteration, and the unit of the time
        {name: (work, graph.repetitions[name], graph.time) for name, work in graph.work.items()}
        for graph in (other.findings, findings)
    )
    rows, same = [], 0
    for name in dict.fromkeys([*now, *before]):
        old, new = before.get(name), now.get(name)
        if old == new:
            same += 1
            continue
        if old is None or new is None:
            difference = "new" if old is None else "gone"
        else:
            difference = change(old[0], new[0]) if old[2] == new[2] else ""
        cells = (Cell(text=name), _work_cell(old), _work_cell(new), Cell(text=difference))
        rows.append(Row(cells=cells, is_marked=name in findings.critical_actors))
    yield element("h3", f"What differs, {noun} by {noun}")
    if not rows:
        yield element("p", f"Nothing: all {counted(same, noun)} do the same work.")
        return
    yield element("p", f"{counted(same, noun)} did not change.")
    titles = (noun, *(f"work in {name}" for name in other.names), "change")
    yield sortable("differences", noun, titles, rows)


def _work_cell(work: tuple[Fraction, int, str] | None) -> Cell:
    if work is None:
        return Cell(text="not there")
    time, firings, unit = work
    shown = duration(time, unit) if unit == "ns" else exact(time)
    return Cell(text=f"{shown} in {counted(firings, 'firing')}", value=time)


class ReadFile(NamedTuple):
    """A file that was read, with the SHA-256 of its bytes."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a page. terms: names and values of assumptions, such as the size of an element."""

    command: str
    version: str
    sources: tuple[ReadFile, ...]
    terms: tuple[tuple[str, str], ...] = ()


def origin_section(origin: Origin) -> Section:
    """Return command, version, files and terms, from which the page can be made again."""
    rows: list[tuple[str, Part]] = [
        ("command", element("code", origin.command)),
        ("version", f"csdf {origin.version}"),
    ]
    for source in origin.sources:
        file = f"{source.name}, {counted(source.size, 'byte')}, SHA-256 "
        rows.append(("input file", [file, element("code", source.digest)]))
    cells = [(element("dt", name), element("dd", text)) for name, text in (*rows, *origin.terms)]
    return Section("origin", "Made from", element("dl", cells, class_="origin"))
