"""`csdf report`: one page to look at: bottleneck, schedule, storage, memory."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.report import words as network_words
from csdf.cli import answers, parsers
from csdf.cli.pictures import suffix_of
from csdf.cli.reporting.budget import Budget
from csdf.cli.reporting.graph_answers import graph_findings
from csdf.draw.report import advice
from csdf.draw.report.findings import GraphFindings, NetworkFindings
from csdf.draw.report.page import report_page
from csdf.errors import CsdfError, UnwritableFile
from csdf.io.files import read_bytes, write_text

GRAPH_FORMAT = b'"csdf-graph"'  # what every graph in JSON says of itself
BUDGET = 20.0  # seconds
SUFFIXES = ("html", "htm", "")
PLAIN_QUOTES = str.maketrans("“”", "''")  # as in what other commands print, in every encoding
INPUT_HELP = (
    "a graph (SDF3 .xml, JSON, layer table .csv) or a network: .onnx, Darknet .cfg, JSON, or a name "
    "of the catalogue such as mobilenet_v2"
)


def main(argv: Sequence[str]) -> int:
    """Write the page and print its first sentence; return the exit code."""
    options = command_parser().parse_args(argv)
    if suffix_of(options.output) not in SUFFIXES:
        raise UnwritableFile(f"{options.output}: the page is HTML; expected .html or .htm")
    budget = Budget(options.budget)
    network = None
    if _is_network(options.model):
        graph, network = _network(options, budget)
    elif options.memory is not None:
        raise CsdfError("--memory is for networks; the buffers of a graph are on its page")
    else:
        graph = graph_findings(answers.read(options.model, options), budget)
    write_text(options.output, report_page(graph, network))
    print(_in_words(graph, network).translate(PLAIN_QUOTES))
    print(f"csdf report: wrote {options.output}", file=sys.stderr)
    return _exit_code(graph, network)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf report",
        "One HTML page about a graph or a network, with nothing to load from anywhere: what limits "
        "it and what to change, a drawing, the schedule, how full channels are, storage against "
        "throughput, and for networks the memory and its arena over time.",
        "csdf report models/graphs/h263decoder.xml -o report.html",
        "csdf report person_detection --fuse --element-bytes 1 --memory 256kB -o report.html",
    )
    shared.add_model_options(parser, model_help=INPUT_HELP)
    parsers.add_output_option(parser, "the page; default: report.html", required=False)
    parser.set_defaults(output="report.html")
    parsers.add_budget_option(
        parser, "for all analyses; what is not finished by then is marked", BUDGET
    )
    parser.add_argument(
        "--memory", type=answers.size, metavar="SIZE", help="does the network fit? e.g. 256kB, 1MiB"
    )
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)
    answers.add_reading_options(parser)
    return parser


def _is_network(name: str) -> bool:
    """Whether the name is that of a network; JSON says itself what it is."""
    suffix = PurePath(name).suffix.lower()
    if suffix in (".xml", ".csv"):
        return False
    if suffix in (".onnx", ".cfg"):
        return True
    if suffix == ".json":
        return GRAPH_FORMAT not in read_bytes(name)
    return not os.path.exists(name)


def _network(options: argparse.Namespace, budget: Budget) -> tuple[GraphFindings, NetworkFindings]:
    """What is known about a network; its planners are loaded for networks only."""
    from cnn2csdf.report.answers import network_findings

    network = shared.read(options).network
    found = network_findings(network, options, budget)
    shared.remark_on_fusing("csdf report", network, options)
    return found.graph, found.network


def _in_words(graph: GraphFindings, network: NetworkFindings | None) -> str:
    if network is None:
        return f"{graph.graph.name}: {advice.headline(graph)}"
    return "\n".join([network_words.headline(network), *network_words.fitting(network)])


def _exit_code(graph: GraphFindings, network: NetworkFindings | None) -> int:
    """1 for a deadlock and for a network that does not fit, 3 where even the period is unknown."""
    if graph.result is None:
        return answers.GAVE_UP
    is_no = graph.result.deadlock is not None
    if network is not None and network_words.fits(network) is False:
        is_no = True
    return answers.NO if is_no else answers.ANSWERED
