"""`csdf draw`: a picture of a graph, its critical cycle marked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import PurePath

from csdf.analysis.throughput import Throughput, throughput
from csdf.cli import answers, parsers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.loading import suffix_of
from csdf.cli.options import concurrency
from csdf.draw.graph_drawing import graph_svg
from csdf.errors import GaveUp, UnwritableFile
from csdf.model.graph import Graph
from csdf.time_limit import Stop

SECONDS = 10.0  # time limit
FORMATS = ("svg", "html")


def main(argv: Sequence[str]) -> int:
    """Write the picture; return the exit code."""
    options = command_parser().parse_args(argv)
    graph = concurrency.read(options.file, options)
    path = options.output or f"{PurePath(options.file).stem}.svg"
    if suffix_of(path) not in FORMATS:
        raise UnwritableFile(f"{path}: cannot draw {suffix_of(path)!r}; expected svg or html")
    with limited(options.time_limit) as stop:
        picture = graph_svg(graph, _bottleneck(graph, stop))
    if suffix_of(path) == "html":
        title = f"<title>{escape(graph.name)}</title>"
        picture = f'<!DOCTYPE html>\n<meta charset="utf-8">{title}\n{picture}'
    output.write("csdf draw", path, picture)
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf draw",
        "Draw a graph from left to right: actors with their firings and times, channels with rates and "
        "initial tokens. What limits the graph, or blocks it, is red. No extra is needed.",
        "csdf draw models/graphs/csdf_example.xml",
        "csdf draw models/graphs/deadlocked.xml -o stuck.html",
    )
    parser.add_argument("file", metavar="FILE", help=parsers.GRAPH_HELP)
    parsers.add_output_option(
        parser, ".svg or .html; default: the name of the graph's file with .svg", required=False
    )
    parsers.add_time_limit(parser, "for the critical cycle; without it nothing is red", SECONDS)
    concurrency.add_concurrency(parser)
    answers.add_reading_options(parser)
    return parser


def _bottleneck(graph: Graph, stop: Stop) -> Throughput | None:
    """Return the limit of the graph; None where it was not found in time."""
    try:
        return throughput(graph, budget=telling(stop, f"analysing {graph.name}"))
    except GaveUp:
        output.remark("csdf draw", "what limits the graph was not found in time, so nothing is red")
        return None
