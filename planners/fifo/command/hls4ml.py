"""`csdf fifo hls4ml`: the smallest depths of the streams in a project of hls4ml."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from csdf.cli import answers, parsers
from csdf.cli.loading import worked
from csdf.errors import UnwritableFile
from planners.fifo.command.options import add_clock, add_goals

PROGRAM = "csdf fifo hls4ml"
SECONDS = 3.0  # time limit


def main(argv: Sequence[str]) -> int:
    """Print the answer; return the exit code: 0 found, 1 there are none, 3 unknown."""
    options = command_parser().parse_args(argv)
    if options.output and not options.output.endswith(".json"):
        raise UnwritableFile(f"{options.output}: depths are JSON; expected the suffix .json")
    return worked("planners.fifo.command.work.hls4ml", options)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        PROGRAM,
        "The smallest depths of the streams in a project that hls4ml has written with io_stream: its "
        "C++ says which functions work on which streams, and in which order words pass.",
        "csdf fifo hls4ml models/fifo/small_hls4ml -o depths.json",
        "csdf fifo hls4ml models/fifo/small_hls4ml/hls4ml_config.yml --least",
        notes="A word is a pixel with all its channels. Cycles are those of the loops in nnet_utils "
        "with assumed latencies: true ones are in the synthesis report, and --latency gives them. A "
        "project with strategy Resource has no interval in its source; then the reuse factor is taken.",
    )
    parser.add_argument(
        "project",
        metavar="FILE",
        help="the folder of a project, or its hls4ml_config.yml; where the project is not written yet, "
        "hls4ml has to be installed",
    )
    goal = parser.add_mutually_exclusive_group()
    add_goals(goal)
    add_clock(parser)
    parser.add_argument(
        "--latency",
        action="append",
        type=answers.named_integers,
        metavar="NAME=N",
        default=[],
        help="cycles from a read to its write, of a function such as conv_2d_cl or of one layer",
    )
    parser.add_argument(
        "--idle", type=answers.from_zero, metavar="N", default=0, help="cycles between frames"
    )
    parser.add_argument(
        "--in-place", action="store_true", help="write the depths into the C++ of the project"
    )
    parsers.add_time_limit(parser, "for each search; then the best by then", SECONDS)
    parsers.add_json_option(parser)
    parsers.add_output_option(parser, "the depth of each stream, in JSON", required=False)
    return parser
