"""`csdf generate`: random consistent live graphs from a seed, by limits or by means and variances."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields

from csdf.cli import answers, parsers
from csdf.cli.options import samples
from csdf.errors import CsdfError
from csdf.generation.random_graphs import random_graph
from csdf.generation.sampled_graphs import sampled_graph
from csdf.generation.shape import GraphShape
from csdf.io.graph_files import require_format
from csdf.model.graph import Graph

LIMITS = {  # fields of GraphShape, for those who ask for help
    "actors": "how many actors",
    "extra_channels": "channels beyond those that connect the actors",
    "most_phases": "phases of an actor, at most",
    "most_repetitions": "firings of an actor in one iteration, at most",
    "most_rate": "tokens of one firing on one channel, at most",
    "least_duration": "of a phase, in time units",
    "most_duration": "of a phase, in time units",
    "most_early_tokens": "for each channel, before those that it takes to be live, at most",
    "most_concurrency": "firings of an actor at once, at most",
    "is_strongly_connected": "every actor is reached from every other",
    "is_bounded": "every channel between two actors has a capacity",
    "has_windows": "bounded channels give space back later than they consume",
    "has_self_loops": "self-loops limit how many firings of an actor may overlap",
    "has_parallel_channels": "extra channels may join actors that share one already",
}


def main(argv: Sequence[str]) -> int:
    """Write the graph of a seed; return the exit code."""
    options = command_parser().parse_args(argv)
    if options.output is not None:
        require_format(options.output)
    graph = _drawn(options)
    if options.output is None:
        from csdf.io.sdf3.writer import format_sdf3  # slow to import, and help does without

        print(format_sdf3(graph), end="")
        return answers.ANSWERED
    answers.write("csdf generate", options.output, graph)
    return answers.ANSWERED


def _drawn(options: argparse.Namespace) -> Graph:
    """Draw by limits, or by means and variances where one is given."""
    if not samples.is_asked(options):
        limits = {field.name: getattr(options, field.name) for field in fields(GraphShape)}
        shape = GraphShape(**limits)
        with answers.working("drawing the graph"):
            return random_graph(options.seed, shape)
    for field in fields(GraphShape):
        if field.name not in samples.SHARED and getattr(options, field.name) != field.default:
            option = "--" + field.name.replace("_", "-")
            raise CsdfError(f"{option} is a limit; leave it out beside means and variances")
    sampled = samples.shape_of(options)
    with answers.working("drawing the graph"):
        return sampled_graph(options.seed, sampled)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf generate",
        "A random graph, consistent and live; the same seed and limits give the same "
        "graph everywhere. Without -o it is printed as SDF3 XML.",
        "csdf generate 7 --actors 12 --most-phases 3 -o random.xml",
        "csdf generate 7 --actors 12 --degree 3,1 --rate 4,2 --duration 20,30,5,60 -o random.xml",
    )
    parser.add_argument("seed", type=answers.integer, metavar="SEED", help="a whole number")
    parsers.add_output_option(
        parser, ".xml, .json or .dot; by default SDF3 XML is printed", required=False
    )
    for field in fields(GraphShape):
        option = "--" + field.name.replace("_", "-")
        purpose = LIMITS[field.name]
        if isinstance(field.default, bool):
            end = "yes" if field.default else "no"
            parser.add_argument(
                option,
                action=argparse.BooleanOptionalAction,
                default=field.default,
                help=f"{purpose}; default: {end}",
            )
        else:
            parser.add_argument(
                option,
                type=answers.integer,
                default=field.default,
                metavar="N",
                help=f"{purpose}; default: {field.default}",
            )
    samples.add_samples(parser)
    return parser
