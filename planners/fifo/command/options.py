"""Options that both commands on FIFOs have."""

from __future__ import annotations

import argparse
from fractions import Fraction

from csdf.cli import answers


def add_goals(goal: argparse._MutuallyExclusiveGroup) -> None:
    """Add what the depths are to reach: a period, or no deadlock."""
    goal.add_argument(
        "--period", type=answers.above_zero, metavar="CYCLES", help="at most so many cycles/frame"
    )
    goal.add_argument("--least", action="store_true", help="the least memory without deadlock")


def add_clock(parser: argparse.ArgumentParser) -> None:
    """Add the clock, which makes frames per second of cycles."""
    parser.add_argument(
        "--clock",
        type=answers.above_zero,
        metavar="MHZ",
        default=Fraction(200),
        help="clock of the design; default: 200",
    )
