"""`csdf cnn memory`: layer by layer against row by row."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import options as shared
from csdf.cli import parsers


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn memory",
        "What a network needs layer by layer, and row by row: its buffers, separate (as the literature "
        "counts) and in one arena (as any runtime lays them), its parameters, the time of a frame on "
        "one processor, and the period when each layer has a processor of its own. The reduction is "
        "that of the smallest memory against the smallest layer by layer.",
        "csdf cnn memory samos_example resnet8",
        "csdf cnn memory resnet8 --plot memory.svg",
        "csdf cnn memory resnet8 -o plan.json",
        work="planners.commands.cnn.work.memory",
    )
    shared.add_model_options(parser)
    shared.add_model_argument(
        parser, "more", nargs="*", default=[], help="more networks, a row each"
    )
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)
    parser.add_argument(
        "--whole-durations",
        metavar="FILE",
        help="such a table for layer by layer; by default the sums over the rows of --durations",
    )
    shared.add_time_limit(parser)
    form = parser.add_mutually_exclusive_group()
    parsers.add_json_option(form)
    form.add_argument(
        "--csv", action="store_true", help="print one line a network; bytes, frames/s"
    )
    parsers.add_plot_option(parser, "memory as bars")
    parsers.add_output_option(parser, "the smaller of the two arenas as a plan, in JSON", "json")
    return parser
