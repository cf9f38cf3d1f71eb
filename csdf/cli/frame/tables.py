"""Tables of text, as wide as the terminal allows."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from math import inf

from csdf.cli.frame.terminal import columns

BETWEEN = "  "
LEAST_TEXT = 12  # characters of a text in a table that is too wide


def room() -> float:
    """Return how many characters a line may have: without limit in files and pipes.

    COLUMNS limits lines there, too.
    """
    is_limited = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
    return columns() if is_limited else inf


def aligned(
    table: Sequence[Sequence[str]], *, texts: Collection[int] = (0,), indent: str = ""
) -> list[str]:
    """Return rows as lines. texts: the columns of texts, which stand at the left, numbers at the right.

    Where lines would be too long, long texts lose their middles; where that is not enough each row is
    a list of its cells, with the heads before them.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    over = sum(widths) + len(BETWEEN) * (len(widths) - 1) + len(indent) - room()
    while over > 0:
        widest = max(texts, key=lambda place: widths[place])
        if widths[widest] <= LEAST_TEXT:
            return [indent + line for row in table[1:] for line in _listed(table[0], row)]
        widths[widest] -= 1
        over -= 1
    return [
        indent
        + BETWEEN.join(
            shortened(cell, width).ljust(width) if place in texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, without its middle where it is too long."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def _listed(heads: Sequence[str], row: Sequence[str]) -> list[str]:
    """One row, a line for each cell."""
    width = max(map(len, heads[1:]))
    cells = [
        f"  {head.ljust(width)}  {cell}"
        for head, cell in zip(heads[1:], row[1:], strict=True)
        if cell
    ]
    return [row[0], *cells]
