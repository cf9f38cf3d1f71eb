"""One page about a graph, or about a network and its graph; it needs nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cnn2csdf.report import sections as network_sections
from cnn2csdf.report import words as network_words
from csdf.draw.report.findings import GraphFindings, NetworkFindings
from csdf.draw.report.front import front_data
from csdf.draw.report.graph_sections import Section, graph_sections, graph_summary, left_out
from csdf.draw.report.markup import Html, element, joined, json_element
from csdf.draw.report.tables import layer_table
from csdf.draw.report.timeline import run_data

ASSETS = Path(__file__).with_name("assets")
SCRIPTS = ("basis", "drawing", "window", "gantt", "occupancy", "front", "arena", "tables")
FOOTER = "Made by csdf report. Numbers are exact unless they say “about”."
WITHOUT_SCRIPTS = "Without scripts the charts stay empty; the drawing and the tables are complete."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def report_page(graph: GraphFindings, network: NetworkFindings | None = None) -> str:
    """Return the page. Same findings, same text."""
    sections = [_summary(graph, network), *_sections(graph, network)]
    name = graph.graph.name if network is None else network.name
    body = element(
        "body",
        element("a", "Skip to the summary", href="#summary", class_="skip"),
        _header(name, _subtitle(graph, network), sections),
        element("main", *(_section(one) for one in sections)),
        element(
            "footer",
            element("p", FOOTER),
        ),
        element("noscript", element("p", WITHOUT_SCRIPTS)),
        element("div", class_="tooltip", id="tooltip", role="tooltip", hidden=True),
        json_element("data", _data(graph, network)),
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
    )


def _subtitle(graph: GraphFindings, network: NetworkFindings | None) -> str:
    one = graph.graph
    size = f"{one.kind} graph, {len(one.actors)} actors, {len(one.channels)} channels"
    firings = f"{sum(graph.repetitions.values())} firings an iteration"
    if network is None:
        return f"{size}, {firings}"
    return f"network of {len(network.layers)} layers; as a {size}, {firings}"


def _section(one: Section) -> Html:
    return element(
        "section",
        element("h2", one.title, id=f"{one.identifier}-title"),
        one.content,
        id=one.identifier,
        aria_labelledby=f"{one.identifier}-title",
    )


def _summary(graph: GraphFindings, network: NetworkFindings | None) -> Section:
    own = graph_summary(graph)
    if network is None:
        return own
    content = joined(
        [
            element("p", network_words.headline(network), class_="lead"),
            *(element("p", text, class_="verdict-line") for text in network_words.fitting(network)),
            element("ul", *(element("li", text) for text in network_words.facts(network))),
            element("h3", "As a pipeline, a processor for each layer"),
            own.content,
        ]
    )
    return Section("summary", own.title, content)


def _sections(graph: GraphFindings, network: NetworkFindings | None) -> Iterator[Section]:
    if network is not None:
        yield from _network_sections(network)
    yield from graph_sections(graph, with_table=network is None)
    if network is not None:
        content = layer_table(network.layers, graph.critical_actors)
        yield Section("table", "Layers", content)


def _network_sections(network: NetworkFindings) -> Iterator[Section]:
    if network.whole is not None or network.by_parts is not None:
        content = joined(
            [
                network_sections.memory_bars(network),
                network_sections.ways_table(network),
                element("h3", "Layers that read the largest buffers"),
                network_sections.largest_layers(network),
            ]
        )
        yield Section("memory", "Memory", content)
    if network.arenas or "arena" in network.left_out:
        yield Section("arena", "Arena over time", _arena(network))


def _arena(network: NetworkFindings) -> Html:
    said = [
        element("li", f"{arena.title.capitalize()}: {network_words.arena_in_words(arena)}")
        for arena in network.arenas
    ]
    if not network.arenas:
        return left_out(network.left_out["arena"])
    return joined(
        [
            element(
                "p",
                "Every buffer in its place: steps of the schedule on one processor across, bytes up. "
                "Arrow keys go from buffer to buffer.",
            ),
            element("ul", *said),
            *([left_out(network.left_out["arena"])] if "arena" in network.left_out else []),
            element("div", class_="tools", id="arena-tools"),
            element("div", class_="chart", id="arena-chart"),
            element("p", class_="detail", id="arena-detail", role="status"),
        ]
    )


def _data(graph: GraphFindings, network: NetworkFindings | None) -> dict[str, Any]:
    return {
        "time": graph.time,
        "critical": list(graph.critical_actors),
        "runs": [run_data(run) for run in graph.runs],
        "front": None if graph.front is None else front_data(graph.front, graph.unit),
        "arenas": []
        if network is None
        else [network_sections.arena_data(arena) for arena in network.arenas],
    }
