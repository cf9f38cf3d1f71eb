"""A graph as a picture of its own: actors from left to right, its bottleneck in red."""

from __future__ import annotations

import re
from pathlib import Path

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import Throughput
from csdf.draw.graph_drawing import excerpt, graph_drawing
from csdf.draw.report.findings import GraphFindings
from csdf.model.graph import Graph

STYLE = Path(__file__).with_name("report") / "assets" / "style.css"
COLOUR = re.compile(r"(--[\w-]+): (#\w+);")
OF_DRAWINGS = re.compile(r"(?:svg text|svg \.|\.node|\.edge|\.arrow)(?!.*:hover).*")
VIEW = re.compile(r'data-view="0 0 (\d+) (\d+)"')


def graph_svg(graph: Graph, result: Throughput | None = None) -> str:
    """Return the graph as SVG. result: whose critical cycle, or deadlock, is marked.

    Of a large graph the actors on and around that cycle are drawn. Raises InconsistentGraph.
    """
    findings = GraphFindings(
        graph=graph, repetitions=repetition_vector(graph), result=result, left_out={}
    )
    drawn = graph_drawing(findings, excerpt(graph, findings.critical_actors))
    width, height = VIEW.search(drawn).groups()  # type: ignore[union-attr]
    inside = drawn[drawn.index(">") + 1 :]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{_style()}</style>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{inside}\n'
    )


def _style() -> str:
    """The rules of the report for drawings, in its light colours."""
    text = STYLE.read_text(encoding="utf-8")
    colours = dict(COLOUR.findall(text[: text.index("}")]))
    rules = "".join(line for line in text.splitlines() if OF_DRAWINGS.match(line))
    return re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], rules)
