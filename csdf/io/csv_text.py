"""Rows of CSV whose names no spreadsheet takes for formulas, and tables with named columns.

A spreadsheet computes a cell that begins with `=`, `+`, `-` or `@`, and names come out of files. Such a
text gets a `'` in front of it, unless it is a number; numbers stay as they are.
Source: OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence

from csdf.errors import UnreadableFile

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


def table_rows(
    lines: Iterable[str],
    name: str,
    needed: Sequence[str],
    together: Sequence[str] = (),
    *,
    lines_before: int = 0,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of the line, and the cells by column, of each row after the line of columns.

    name: of the file, for messages. needed: columns that the table must have, in any order. together:
    columns that it must have all, or none of. lines_before: lines of the file before the line of
    columns. Raises UnreadableFile with the line.
    """
    reader = csv.reader(lines, strict=True)
    try:
        columns = next(reader, [])
        location = f"{name}, line {lines_before + 1}"
        for column in needed:
            if column not in columns:
                listed = ", ".join(columns)[:80]
                raise UnreadableFile(f"{location}: no column {column!r}, only {listed!r}")
        for column in columns:
            if columns.count(column) > 1:
                raise UnreadableFile(f"{location}: two columns {column!r}")
        if 0 < len(set(together).intersection(columns)) < len(together):
            listed = " and ".join(map(repr, together))
            raise UnreadableFile(f"{location}: columns {listed} belong together")
        for cells in reader:
            line = lines_before + reader.line_num
            if cells and len(cells) != len(columns):
                raise UnreadableFile(
                    f"{name}, line {line}: {len(cells)} cells; expected {len(columns)}, one for each "
                    "column"
                )
            if cells:
                yield line, dict(zip(columns, map(unguarded, cells), strict=True))
    except csv.Error as error:
        raise UnreadableFile(f"{name}, line {lines_before + reader.line_num}: {error}") from None


def _guarded(value: object) -> object:
    if not isinstance(value, str) or not FORMULA.match(value) or NUMBER.fullmatch(value):
        return value
    return f"'{value}"
