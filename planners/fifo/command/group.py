"""`csdf fifo`: depths of the FIFOs of streaming designs; options that its commands share."""

from __future__ import annotations

import argparse
from fractions import Fraction

from csdf.cli import answers, parsers

ABOUT = "FIFO depths of streaming accelerators, from the design itself and without simulation."
EXAMPLE = "csdf fifo finn models/fifo/residual.onnx"


def add_goals(goal: argparse._MutuallyExclusiveGroup) -> None:
    """Add what the depths are to reach: a period, or no deadlock."""
    goal.add_argument(
        "--period", type=answers.above_zero, metavar="CYCLES", help="at most so many cycles/frame"
    )
    goal.add_argument(
        "--deadlock-free", action="store_true", help="the smallest memory without deadlock"
    )


def add_timing(parser: argparse.ArgumentParser, name: str, of: str) -> None:
    """Add the clock, and the latencies that nothing but the HLS scheduler knows.

    name: of what has a latency, in the help; of: in words.
    """
    parser.add_argument(
        "--clock",
        type=answers.above_zero,
        metavar="MHZ",
        default=Fraction(200),
        help="clock of the design; default: 200",
    )
    parser.add_argument(
        "--latency",
        action="append",
        type=answers.named_integers,
        metavar=f"{name}=N",
        default=[],
        help=f"pipeline latency (HLS report), cycles from a read to its write, of {of}",
    )
    parser.add_argument(
        "--restart-gap",
        type=answers.from_zero,
        metavar="N",
        default=0,
        help="cycles between two frames of an HLS layer; default: 0",
    )


def add_ends(parser: argparse.ArgumentParser, seconds: float, output: str) -> None:
    """Add how long each search may take, and where the answer goes."""
    parsers.add_time_limit(parser, "for each search; then the best by then", seconds)
    parsers.add_json_option(parser)
    parsers.add_output_option(parser, output, "json")
