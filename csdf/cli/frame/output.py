"""Remarks that every command prints in addition to its answer, and the exit codes of commands."""

from __future__ import annotations

import sys

from csdf.cli.frame.streams import Remarks
from csdf.io.files import write_text
from csdf.names import quoted


def remark(program: str, text: str) -> None:
    """Say on standard error, in one line, what is not part of the answer; the same thing once.

    With --quiet nothing is said.
    """
    if not (isinstance(sys.stderr, Remarks) and sys.stderr.is_quiet):
        refusal(program, text)


def refusal(program: str, text: str) -> None:
    """Say on standard error, in one line, why there is no answer."""
    line = f"{program}: {quoted(text)}"
    if isinstance(sys.stderr, Remarks):
        sys.stderr.say_once(line)
    else:
        print(line, file=sys.stderr)


def write(program: str, path: str, content: str | bytes) -> None:
    """Write a file of an answer, and say so. Raises UnwritableFile."""
    write_text(path, content)
    remark(program, f"wrote {path}")


ANSWERED = 0
NO = 1
UNUSABLE = 2
UNKNOWN = 3
FAULT = 70  # of the program; EX_SOFTWARE of BSD's sysexits
