"""Rows of CSV whose names no spreadsheet takes for formulas.

A spreadsheet computes a cell that begins with `=`, `+`, `-` or `@`, and names come out of files. Such a
text gets a `'` in front of it, unless it is a number; numbers stay as they are.
Source: OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

FORMULA = re.compile(r"'*[=+\-@\t\r]")
GUARDED = re.compile(r"'+[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:/[0-9]+)?(?:e[+-]?[0-9]+)?")


class _Lines(list[str]):
    """The lines of a writer of CSV."""

    write = list.append


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as lines of CSV, each ended; what begins like a formula is guarded by a `'`."""
    lines = _Lines()
    # The writer quotes cells with the characters of its line end, and a reader ends lines at "\r", too.
    csv.writer(lines, lineterminator="\r\n").writerows(map(_guarded, row) for row in rows)
    return "".join(f"{line[:-2]}\n" for line in lines)


def unguarded(cell: str) -> str:
    """Return the text that `csv_text` wrote as this cell."""
    return cell[1:] if GUARDED.match(cell) else cell


def _guarded(value: object) -> object:
    if not isinstance(value, str) or not FORMULA.match(value) or NUMBER.fullmatch(value):
        return value
    return f"'{value}"
