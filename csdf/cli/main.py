"""The `csdf` command: finds the subcommand and leaves the rest to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from csdf.cli.frame.commands import Listing
from csdf.cli.frame.running import run

VERSION = "0.1.0"  # the packaging reads it from here

ROOT = Listing(
    about="Exact analysis of cyclo-static dataflow graphs.",
    order=[
        "analyze",
        "buffers",
        "pareto",
        "schedule",
        "convert",
        "generate",
        "cnn",
        "plan",
        "report",
        "completion",
    ],
    foot="""`csdf COMMAND --help` explains a command, `csdf --version` says which csdf this is.
For example:
  csdf analyze models/graphs/csdf_example.xml

exit code: 0 answered, 1 answered "no" (inconsistent or deadlocked),
2 wrong usage or unreadable input, 3 gave up before the answer""",
    version=f"csdf {VERSION}",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    return run(list(sys.argv[1:] if argv is None else argv), ROOT)
