"""`csdf generate`: a random consistent live graph from a seed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields

from csdf.cli import answers
from csdf.generation.random_graphs import random_graph
from csdf.generation.shape import GraphShape
from csdf.io.sdf3_writer import format_sdf3


def main(argv: Sequence[str]) -> int:
    """Write the graph of a seed; return the exit code."""
    options = _parser().parse_args(argv)
    shape = GraphShape(**{field.name: getattr(options, field.name) for field in fields(GraphShape)})
    graph = random_graph(options.seed, shape)
    if options.output is None:
        print(format_sdf3(graph), end="")
        return answers.ANSWERED
    answers.write("csdf generate", options.output, graph)
    return answers.ANSWERED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="csdf generate",
        description="A random graph, consistent and live; the same seed and limits give the same "
        "graph everywhere. Without -o it is printed as SDF3 XML.",
        epilog="example: csdf generate 7 --actors 12 --most-phases 3 -o random.xml",
    )
    parser.add_argument("seed", type=int)
    parser.add_argument("-o", "--output", metavar="FILE", help=".xml, .json or .dot")
    for field in fields(GraphShape):
        option = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(
                option, action=argparse.BooleanOptionalAction, default=field.default
            )
        else:
            parser.add_argument(
                option,
                type=int,
                default=field.default,
                metavar="N",
                help=f"default {field.default}",
            )
    return parser
