"""Options of a plan that `csdf fit` and `csdf deploy` share."""

from __future__ import annotations

import argparse

from csdf.cli.parsers import add_limit_options
from planners.memory.answer import INPUTS, OUTSIDE, RESIDENT, RESULTS, ROWS

WHERE_INPUTS_ARE = {
    RESIDENT: "resident: whole in the arena before the first layer",
    ROWS: "rows: row by row, as a camera sends it",
    OUTSIDE: "outside: whole in other memory, which layers may read as they like",
}


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add --ram, --flash, --input and --result."""
    add_limit_options(parser)
    parser.add_argument(
        "--input",
        choices=INPUTS,
        default=RESIDENT,
        help="; ".join(WHERE_INPUTS_ARE[one] for one in INPUTS) + "; default: resident",
    )
    parser.add_argument(
        "--result",
        choices=RESULTS,
        default=RESIDENT,
        help="resident: whole in the arena; outside: written to other memory; default: resident",
    )
