"""The memory of a device as options: RAM for buffers, flash for parameters."""

from __future__ import annotations

import argparse

from csdf.cli import answers


def add_limit_options(parser: argparse._ActionsContainer, memory: str | None = None) -> None:
    """Add --ram and --flash; and --memory, where that counts something in this command."""
    parser.add_argument(
        "--ram",
        type=answers.size,
        metavar="SIZE",
        help="at most, of all buffers; parameters lie elsewhere; e.g. 64kB, 1MiB",
    )
    parser.add_argument(
        "--flash",
        type=answers.size,
        metavar="SIZE",
        help="at most, of all parameters as C stores them; e.g. 256kB",
    )
    if memory is not None:
        parser.add_argument("--memory", type=answers.size, metavar="SIZE", help=memory)
