"""`csdf fifo finn`: the smallest FIFO depths of a design that FINN has made."""

from __future__ import annotations

import argparse

from csdf.cli import answers, parsers
from csdf.search.memory_cost import OBJECTIVES
from planners.fifo.command.group import add_ends, add_goals, add_timing

PROGRAM = "csdf fifo finn"
SECONDS = 3.8  # time limit
GOALS = ("bits", "elements", *OBJECTIVES)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        PROGRAM,
        "The smallest FIFO depths of a design of FINN, from its ONNX model: layers are timed from "
        "their attributes, cycle by cycle, and the depths are searched. By default for the max. rate, "
        "which the slowest layer sets. A folding file alone is read and counted.",
        "csdf fifo finn models/fifo/residual.onnx",
        "csdf fifo finn models/fifo/residual.onnx --fps 50000 --clock 200 -o folding_out.json",
        "csdf fifo finn models/fifo/residual.onnx --deadlock-free --latency DuplicateStreams=5",
        work="planners.fifo.command.work",
        notes="RTL layers of FINN are timed exactly. The latencies of HLS layers are decided by the "
        "HLS scheduler: the answer lists what was assumed, --latency says it, --sensitivity tells how "
        "much it matters. Sizes are proved for this model of the design.",
    )
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
        "--front",
        action="store_true",
        help="the trade-off from the smallest memory to the max. rate",
    )
    parser.add_argument(
        "--objective",
        choices=GOALS,
        default="bits",
        help="what is to be small: bits, elements, block RAMs of 18 kbit (none up to 256 elements), or "
        "LUTs of shift registers, as csdf buffers counts them; default: bits",
    )
    add_timing(parser, "OP", "an HLS operator or of one node")
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
        help="chains of cores as by SplitLargeFIFOs, not one rounded up",
    )
    parser.add_argument("--layers", action="store_true", help="list all layers, not the slowest")
    parsers.add_plot_option(parser, "the trade-off of the objective and the rate")
    add_ends(parser, SECONDS, "a folding file with these depths, in JSON")
    return parser
