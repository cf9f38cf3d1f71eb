"""Tables of the pages in this folder, read back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
Row = list[str]


def table(page: str, *head: str) -> list[Row]:
    """Return the rows of the first table of a page whose header begins with these cells.

    Raises ValueError if there is none.
    """
    lines = iter((HERE / f"{page}.md").read_text().splitlines())
    for line in lines:
        if line.startswith("|") and _cells(line)[: len(head)] == list(head):
            next(lines)  # the rule below the header
            return _rows(lines)
    raise ValueError(f"figures/{page}.md has no table that begins with {' | '.join(head)}")


def row(page: str, head: tuple[str, ...], *first: str) -> Row:
    """Return the row of a table that begins with these cells. Raises ValueError if there is none."""
    for cells in table(page, *head):
        if cells[: len(first)] == list(first):
            return cells
    raise ValueError(f"figures/{page}.md has no row that begins with {' | '.join(first)}")


def number(cell: str) -> float:
    """Return the number that a cell begins with: 12.3%, 1,900,544, 4.5 us, 1.04 from .."""
    return float(cell.split()[0].rstrip("%").replace(",", ""))


def _rows(lines: Iterator[str]) -> list[Row]:
    found: list[Row] = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append(_cells(line))
    return found


def _cells(line: str) -> Row:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
