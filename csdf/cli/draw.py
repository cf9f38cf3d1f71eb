"""`csdf draw`: a picture of a graph, its critical cycle marked."""

from __future__ import annotations

import argparse
from html import escape
from pathlib import PurePath

from csdf.analysis.throughput import throughput
from csdf.cli import answers, parsers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.loading import suffix_of
from csdf.cli.options import concurrency
from csdf.draw.graph_drawing import graph_svg
from csdf.errors import GaveUp

SECONDS = 10.0  # time limit


def work(options: argparse.Namespace) -> int:
    """Write the picture; return the exit code."""
    path = options.output or f"{PurePath(options.file).stem}.svg"
    with limited(options.time_limit) as stop:
        graph = concurrency.read(options.file, options)
        try:
            limit = throughput(graph, budget=telling(stop, f"analysing {graph.name}"))
        except GaveUp:
            limit = None
            output.remark("csdf draw", "the critical cycle was not found in time: nothing is red")
        picture = graph_svg(graph, limit)
    if suffix_of(path) == "html":
        title = f"<title>{escape(graph.name)}</title>"
        picture = f'<!DOCTYPE html>\n<meta charset="utf-8">{title}\n{picture}'
    output.write("csdf draw", path, picture)
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf draw",
        "Draw a graph from left to right: actors with their firings and times, channels with "
        "rates and initial tokens. The critical cycle, or the deadlock, is red. No optional "
        "package is needed.",
        "csdf draw models/graphs/csdf_example.xml",
        "csdf draw models/graphs/deadlocked.xml -o stuck.html",
        work=work,
    )
    what = ".svg or .html; default: the name of the graph's file with .svg"
    parsers.add_output_option(parser, what, "svg", "html")
    parsers.add_time_limit(
        parser,
        "limit of the search for the critical cycle; if it is reached, no cycle is red",
        SECONDS,
    )
    concurrency.add_graph(parser)
    return parser
