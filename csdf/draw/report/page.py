"""A page about a graph, and about what it was made of; the page needs no other file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from csdf.draw.report.comparison import comparison, comparison_data
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.front import front_data
from csdf.draw.report.graph_sections import graph_sections, graph_summary
from csdf.draw.report.markup import Html, element, joined, json_element, quoted_data
from csdf.draw.report.neighbourhood import neighbourhood_data
from csdf.draw.report.origin import Origin, origin_section
from csdf.draw.report.sections import Section, Surroundings
from csdf.draw.report.timeline import run_data
from csdf.draw.report.verdict import banner, verdict
from csdf.errors import counted

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
    return f"{around.kind}{size}, {counted(sum(graph.repetitions.values()), 'firing')} an iteration"


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
