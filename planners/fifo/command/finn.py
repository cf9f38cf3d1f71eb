"""`csdf fifo finn`: the smallest FIFO depths of a design that FINN has made."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from csdf.cli import answers, loading, parsers
from csdf.cli.loading import worked
from csdf.errors import UnwritableFile
from csdf.search.memory_cost import OBJECTIVES
from planners.fifo.command.options import add_clock, add_goals

PROGRAM = "csdf fifo finn"
SECONDS = 3.8  # time limit
GOALS = ("bits", "words", *OBJECTIVES)


def main(argv: Sequence[str]) -> int:
    """Print the answer; return the exit code: 0 found, 1 there are none, 3 unknown."""
    parser = command_parser()
    options = parser.parse_args(argv)
    loading.require_drawing(options.plot)
    if options.output and loading.suffix_of(options.output) != "json":
        raise UnwritableFile(f"{options.output}: a folding file is JSON; expected the suffix .json")
    return worked("planners.fifo.command.work.finn", options)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        PROGRAM,
        "The smallest FIFO depths of a design of FINN, from its ONNX model: layers are timed from "
        "their attributes, cycle by cycle, and the depths are searched. By default for the full rate, "
        "which the slowest layer sets. A folding file alone is read and counted.",
        "csdf fifo finn models/fifo/residual.onnx",
        "csdf fifo finn models/fifo/residual.onnx --fps 50000 --clock 200 -o folding_out.json",
        "csdf fifo finn models/fifo/residual.onnx --least --latency DuplicateStreams=5",
        notes="RTL layers of FINN are timed exactly. The latencies of HLS layers are decided by the "
        "HLS scheduler: the answer lists what was assumed, --latency says it, --sensitivity tells how "
        "much it matters. Sizes are proved for this model of the design.",
    )
    _add_question(parser)
    _add_timing(parser)
    parser.add_argument("--layers", action="store_true", help="list all layers, not the slowest")
    parsers.add_time_limit(parser, "for each search; then the best by then", SECONDS)
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the trade-off of the objective and the rate")
    parsers.add_output_option(parser, "a folding file with these depths, in JSON", required=False)
    return parser


def _add_question(parser: argparse.ArgumentParser) -> None:
    """Add the design, the rate that it has to reach, and what is to be small."""
    parser.add_argument("model", metavar="MODEL", help="the hardware layers: .onnx or .onnx.gz")
    parser.add_argument(
        "--folding", metavar="FILE", help="PE, SIMD and depths to look at, by node, in JSON"
    )
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument(
        "--fps", type=answers.above_zero, metavar="N", help="at least so many frames per second"
    )
    add_goals(goal)
    goal.add_argument(
        "--front", action="store_true", help="the trade-off from the least memory to the full rate"
    )
    parser.add_argument(
        "--objective",
        choices=GOALS,
        default="bits",
        help="what is to be small: bits, words, block RAMs of 18 kbit (none up to 256 words), or LUTs "
        "of shift registers, as csdf buffers counts them; default: bits",
    )


def _add_timing(parser: argparse.ArgumentParser) -> None:
    """Add what the model does not say of the hardware: its clock, latencies of HLS, its parts."""
    add_clock(parser)
    parser.add_argument(
        "--latency",
        action="append",
        type=answers.named_integers,
        metavar="OP=N",
        default=[],
        help="cycles from a read to its write, of an HLS operator or of one node",
    )
    parser.add_argument(
        "--idle",
        type=answers.from_zero,
        metavar="N",
        default=0,
        help="of HLS layers between frames",
    )
    parser.add_argument(
        "--dsp",
        type=answers.positive,
        choices=(48, 58),
        default=48,
        help="DSP of the part; default: 48",
    )
    parser.add_argument(
        "--sensitivity",
        type=answers.positive,
        metavar="N",
        help="say which depths change if assumed latencies are N longer",
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="rows of cores as by SplitLargeFIFOs, not one rounded up",
    )
