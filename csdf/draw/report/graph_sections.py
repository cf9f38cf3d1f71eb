"""The parts of the page about a graph: summary, drawing, schedule, channels, front, actors."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from csdf.draw.report import advice
from csdf.draw.report.drawing.excerpt import excerpt
from csdf.draw.report.drawing.graph_drawing import graph_drawing, legend
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.front import front_table, status_in_words
from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.sections import Section, left_out
from csdf.draw.report.tables import actor_table
from csdf.errors import counted
from csdf.outcome import Status
from csdf.words import rounded, size


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
        yield _Card("limit", "Limited by", ", ".join(actors[:3]), more)


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
        f"{len(shown.actors)} on and around the bottleneck."
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
