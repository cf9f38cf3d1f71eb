"""The `csdf` command: finds the subcommand and leaves the rest to it."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from csdf.cli import frame

VERSION = "0.1.0"  # the packaging reads it from here
MOST_DIGITS = 100_000  # of a number in an answer; Python's own limit is too low for huge rates

ROOT = frame.Listing(
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
    """Run one command, with room for long numbers and odd names in what it prints.

    Returns its exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MOST_DIGITS)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return frame.run(words, ROOT)
    finally:
        sys.set_int_max_str_digits(limit)
