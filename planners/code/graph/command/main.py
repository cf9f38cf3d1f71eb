"""`csdf codegen`: any graph as a C program for one processor, or for those of a mapping."""

from __future__ import annotations

import argparse

from csdf.cli import graph_input, option_values, parsers
from planners.code.graph.looped import ORDERS


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf codegen",
        "Write a graph as a C99 program for one processor: a schedule of one iteration as loops, "
        "circular buffers in one arena, a function for each actor to be filled in, and a main "
        "program that checks the tokens.",
        "csdf codegen models/graphs/satellite.xml -o receiver",
        "csdf codegen models/graphs/csdf_example.xml --smallest --order demand-driven -o example",
        work="planners.code.graph.command.work",
        notes="`csdf map FILE --processors 2 -o mapping.json` writes a mapping for --map. The "
        "size of the code does not depend on the repetition vector. Buffers of channels that "
        "never hold tokens at the same time share their bytes.",
    )
    parser.add_argument("file", metavar="FILE", help=parsers.GRAPH_HELP)
    parser.add_argument(
        "--order",
        choices=ORDERS,
        help="single-appearance: loops in which each actor appears once, where no cycle forbids "
        "it; demand-driven: an actor fires when its consumers cannot; min-memory (default): the "
        "order of these two with fewer bytes",
    )
    parser.add_argument(
        "--capacity",
        action="append",
        type=option_values.named_integers,
        metavar="CHANNEL=N",
        default=[],
        help="tokens that the buffer of a channel holds",
    )
    parser.add_argument(
        "--smallest",
        action="store_true",
        help="minimise the total buffer size in tokens over all orders of firings",
    )
    parser.add_argument(
        "--token-size",
        type=option_values.size,
        default=4,
        metavar="SIZE",
        help="bytes of a token, where the graph does not say; default: 4",
    )
    parser.add_argument(
        "--map",
        metavar="MAPPING",
        help="a mapping of csdf map -o: a function for each processor, which keeps its order",
    )
    parser.add_argument(
        "--name", help="prefix of functions and files; default: the name of the graph"
    )
    parsers.add_time_limit(
        parser, "stop after this time; with --smallest use the best order so far"
    )
    parsers.add_json_option(parser)
    graph_input.add_reading_options(parser)
    parsers.add_folder_option(parser)
    return parser
