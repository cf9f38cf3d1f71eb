"""`csdf fifo`: the smallest FIFO depths of FINN, hls4ml and Vitis HLS designs, proved."""

from __future__ import annotations

import argparse
from fractions import Fraction

from csdf.cli import option_values, parsers
from csdf.search.memory_cost import OBJECTIVES

GOALS = ("bits", "elements", *OBJECTIVES)
ABOUT = "FIFO depths of streaming accelerators, from the design, without simulation."
EXAMPLE = "csdf fifo finn models/fifo/residual.onnx"
FILES = {".onnx": "finn", ".cpp": "hls", ".yml": "hls4ml", "": "hls4ml"}


def _megahertz(text: str) -> Fraction:
    """Parse a clock in MHz, which has no unit; for argparse."""
    for unit, factor in (("mhz", 1), ("ghz", 1000), ("khz", Fraction(1, 1000))):
        number = text.lower().removesuffix(unit).rstrip()
        if number and number != text.lower().rstrip():
            megahertz = f"{float(option_values.above_zero(number) * factor):g}"
            raise option_values.unfit(text, f"a number of MHz without a unit: write {megahertz}")
    return option_values.above_zero(text)


def add_sizing(
    parser: argparse.ArgumentParser,
    *,
    latency_name: str,
    latency_owner: str,
    block_free: str,
    effort: float,
    output: str,
) -> None:
    """Add the options of a design whose frames arrive in sequence: goal, objective, timing, answer.

    latency_name, latency_owner: of the help of --latency, `latency_name=N: latency of latency_owner`.
    block_free: largest FIFO without block RAM. effort: default of a search, in seconds. output: of -o.
    """
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument(
        "--fps",
        type=option_values.above_zero,
        metavar="N",
        help="minimum number of frames per second",
    )
    goal.add_argument(
        "--period",
        type=option_values.above_zero,
        metavar="CYCLES",
        help="maximum number of cycles/frame",
    )
    goal.add_argument(
        "--deadlock-free", action="store_true", help="the smallest memory without deadlock"
    )
    goal.add_argument(
        "--front",
        action="store_true",
        help="the Pareto front from the smallest memory to the maximum rate",
    )
    parser.add_argument(
        "--objective",
        choices=GOALS,
        default="bits",
        help="cost to minimise: bits, elements, block RAMs of 18 kbit (none up to "
        f"{block_free}), or LUTs of shift registers; default: bits",
    )
    parser.add_argument(
        "--clock",
        type=_megahertz,
        metavar="MHZ",
        default=Fraction(200),
        help="clock of the design; default: 200",
    )
    parser.add_argument(
        "--latency",
        action="append",
        type=option_values.named_integers,
        metavar=f"{latency_name}=N",
        default=[],
        help=f"pipeline latency (HLS report), cycles from a read to its write, of {latency_owner}",
    )
    parser.add_argument(
        "--restart-gap",
        type=option_values.from_zero,
        metavar="N",
        default=0,
        help="cycles between two frames of an HLS layer; default: 0",
    )
    parser.add_argument(
        "--sensitivity",
        type=option_values.positive,
        metavar="N",
        help="list the depths that change if assumed latencies are N cycles longer",
    )
    parser.add_argument("--layers", action="store_true", help="list all layers, not the slowest")
    add_page(parser)
    parsers.add_plot_option(parser, "the Pareto front of the objective and the rate")
    parsers.add_effort(
        parser, "effort of each search, which ends with the best result so far", effort
    )
    parsers.add_json_option(parser)
    parsers.add_output_option(parser, output, "json")


def add_page(parser: argparse.ArgumentParser) -> None:
    """Add the option of a page about the answer."""
    parser.add_argument(
        "--page",
        type=parsers.output_file("html", "htm"),
        metavar="FILE",
        help="write an HTML page: depths, fill of each FIFO over time, why shallower FIFOs "
        "deadlock",
    )
