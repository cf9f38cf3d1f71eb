"""`csdf convert`: SDF3 XML, JSON and Graphviz, and transformations on the way."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import PurePath

from csdf.analysis.bounded import with_capacities
from csdf.analysis.expansion import hsdf, merge_parallel_channels, unfold
from csdf.analysis.throughput import throughput
from csdf.cli import answers, parsers
from csdf.cli.frame.long_work import limited
from csdf.cli.options import abstraction, concurrency
from csdf.io.files import is_same_file
from csdf.io.graph_files import require_format
from csdf.model.graph import Graph
from csdf.stopping import Stop


def main(argv: Sequence[str]) -> int:
    """Read, transform, write; return the exit code."""
    parser = command_parser()
    options = parser.parse_args(argv)
    if (options.target is None) == (options.output is None):
        parser.error("give one file to write: as the second argument or with -o")
    options.output = options.output or options.target
    if is_same_file(options.input, options.output) and not options.overwrite:
        parser.error(f"{options.output} is the input; name another file, or add --overwrite")
    require_format(options.output)
    with limited(options.budget) as stop:
        return _convert(options, stop)


def _convert(options: argparse.Namespace, stop: Stop) -> int:
    graph = answers.read(options.input, options)
    with answers.working(f"transforming {graph.name}"):
        graph, code = _transformed(graph, options, stop)
        form = _format_options(graph, options)
    answers.write("csdf convert", options.output, graph, **form)
    return code


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf convert",
        "Convert a graph; the suffixes .xml (SDF3), .json and .dot (Graphviz, output "
        "only) say the formats. What the model does not understand of an SDF3 file is kept.",
        "csdf convert models/graphs/csdf_example.xml bounded.json --capacity alpha=8",
        "csdf convert models/graphs/csdf_example.xml -o highlighted.dot --highlight",
        "csdf convert models/graphs/csdf_example.xml sdf.xml --abstract 1",
    )
    parser.add_argument("input", metavar="FILE", help=parsers.GRAPH_HELP)
    parser.add_argument("target", nargs="?", type=parsers.output_file, metavar="FILE", help="as -o")
    parsers.add_output_option(parser, "the new file: .xml, .json or .dot", required=False)
    parser.add_argument(
        "--overwrite", action="store_true", help="the new file may take the place of the input"
    )
    parser.add_argument(
        "--kind", choices=("sdf", "csdf"), help="type of an SDF3 file; default: as it was"
    )
    parser.add_argument(
        "--capacities",
        choices=("property", "reverse"),
        default="property",
        help="in SDF3, as bufferSize properties (default) or as reverse channels, which limit other "
        "programs as well; csdf reads both as capacities",
    )
    change = parser.add_argument_group("transformations, in this order")
    change.add_argument(
        "--capacity",
        action="append",
        type=answers.named_integers,
        metavar="CHANNEL=N",
        default=[],
        help="most tokens that the channel may hold",
    )
    concurrency.add_concurrency(change)
    change.add_argument(
        "--merge-parallel", action="store_true", help="drop channels that never delay a firing"
    )
    change.add_argument("--unfold", type=answers.positive, metavar="N", help="N cycles as one")
    abstraction.add_abstraction(change)
    change.add_argument("--hsdf", action="store_true", help="one actor for each firing")
    parser.add_argument(
        "--highlight", action="store_true", help="mark the critical cycle in a .dot file"
    )
    parsers.add_budget_option(parser, "give up after that", None)
    answers.add_reading_options(parser)
    return parser


def _transformed(graph: Graph, options: argparse.Namespace, stop: Stop) -> tuple[Graph, int]:
    """The graph that the options ask for, and the exit code."""
    if options.capacity:
        graph = with_capacities(graph, dict(options.capacity))
    graph = concurrency.limited(graph, options)
    if options.merge_parallel:
        graph = merge_parallel_channels(graph)
    if options.unfold:
        graph = unfold(graph, options.unfold)
    graph, code = abstraction.abstracted(graph, options, stop)
    return (hsdf(graph) if options.hsdf else graph), code


def _format_options(graph: Graph, options: argparse.Namespace) -> dict[str, object]:
    suffix = PurePath(options.output).suffix.lower()
    if suffix == ".xml":
        return {"kind": options.kind, "capacities": options.capacities}
    if suffix != ".dot" or not options.highlight:
        return {}
    cycle = throughput(graph).critical_cycle
    if cycle is None:
        return {}
    known = {channel.name for channel in graph.channels}
    return {
        "highlighted_actors": cycle.actors,
        "highlighted_channels": [name for name in cycle.channels if name in known],
    }
