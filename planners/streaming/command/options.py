"""What `csdf fit` and `csdf deploy` both ask of a plan."""

from __future__ import annotations

import argparse

from csdf.cli.options.limits import add_limit_options
from planners.streaming.fit import INPUTS, RESIDENT


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add --ram, --flash and --input."""
    add_limit_options(parser)
    parser.add_argument(
        "--input",
        choices=INPUTS,
        default=RESIDENT,
        help="resident: whole in the arena before the first layer; rows: row by row, as a camera "
        "sends it; default: resident",
    )
