"""Options of a plan that `csdf fit` and `csdf deploy` share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from csdf.cli.options.limits import add_limit_options
from planners.streaming.fit import OUTSIDE, RESIDENT, ROWS

WHERE_INPUTS_ARE = {
    RESIDENT: "resident: whole in the arena before the first layer",
    ROWS: "rows: row by row, as a camera sends it",
    OUTSIDE: "outside: whole in other memory, which layers may read as they like",
}


def add_plan_options(
    parser: argparse.ArgumentParser, inputs: Sequence[str] = (RESIDENT, ROWS)
) -> None:
    """Add --ram, --flash and --input, which is one of some."""
    add_limit_options(parser)
    parser.add_argument(
        "--input",
        choices=inputs,
        default=RESIDENT,
        help="; ".join(WHERE_INPUTS_ARE[one] for one in inputs) + "; default: resident",
    )
