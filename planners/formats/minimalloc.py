"""The CSV files of MiniMalloc: a header `id,lower,upper,size` and a line for each buffer.

Lifetimes are half-open: from `lower` to before `upper`. The columns `alignment`, `offset` (fixed)
and `hint` may be added, and be empty; columns may stand in any order.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from csdf.errors import InvalidPlan, counted
from csdf.io.csv_text import csv_text, unguarded
from planners.formats.text import Line
from planners.plan import Buffer, MemoryPlan, Problem

NEEDED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "offset", "hint")


def parse_buffers(text: str, name: str, problem_name: str) -> Problem:
    """Return the problem of a CSV file. Raises UnreadableFile with the line."""
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    columns: list[str] = []
    buffers: dict[str, Buffer] = {}
    try:
        for row in rows:
            line = Line("", rows.line_num, name)
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if not columns:
                columns = _columns(cells, line)
                continue
            buffer = _buffer(_by_column(cells, columns, line), line)
            if buffer.name in buffers:
                raise line.refusal(f"two buffers have the id {buffer.name!r}")
            buffers[buffer.name] = buffer
    except csv.Error as error:
        raise Line("", rows.line_num, name).refusal(f"not CSV: {error}") from None
    if not columns:
        raise Line("", 1, name).refusal(f"is empty; expected the header {','.join(NEEDED)}")
    return Problem(name=problem_name, buffers=tuple(buffers.values()))


def _columns(cells: list[str], line: Line) -> list[str]:
    for column in NEEDED:
        if column not in cells:
            raise line.refusal(
                f"the header has no column {column!r}; found {','.join(cells)[:80]!r}"
            )
    for column in cells:
        if column not in NEEDED + OPTIONAL or cells.count(column) > 1:
            raise line.refusal(f"the header has the column {column!r}, unknown or twice")
    return cells


def _by_column(cells: list[str], columns: list[str], line: Line) -> dict[str, str]:
    if len(cells) != len(columns):
        raise line.refusal(f"found {counted(len(cells), 'value')}; expected {len(columns)}")
    return dict(zip(columns, cells, strict=True))


def _buffer(cells: dict[str, str], line: Line) -> Buffer:
    own = unguarded(cells["id"])
    numbers = {
        column: line.natural(word, f"buffer {own!r}, {column}")
        for column, word in cells.items()
        if column != "id" and (column in NEEDED or word)
    }
    try:
        return Buffer(
            name=own,
            size=numbers["size"],
            start=numbers["lower"],
            end=numbers["upper"],
            alignment=numbers.get("alignment", 1),
            offset=numbers.get("offset"),
            hint=numbers.get("hint"),
        )
    except InvalidPlan as error:
        raise line.refusal(str(error)) from None


def format_buffers(problem: Problem) -> str:
    """Return the problem as CSV, with the optional columns that some buffer needs."""
    columns = [*NEEDED]
    columns += ["alignment"] if any(b.alignment > 1 for b in problem.buffers) else []
    columns += ["offset"] if any(b.offset is not None for b in problem.buffers) else []
    columns += ["hint"] if any(b.hint is not None for b in problem.buffers) else []
    rows = ([_cell(buffer, column) for column in columns] for buffer in problem.buffers)
    return _as_csv(columns, rows)


def format_offsets(plan: MemoryPlan) -> str:
    """Return the plan as MiniMalloc writes it: the columns of the problem, and offsets."""
    rows = (
        (buffer.name, buffer.start, buffer.end, buffer.size, plan.offsets[buffer.name])
        for buffer in plan.problem.buffers
    )
    return _as_csv([*NEEDED, "offset"], rows)


def _cell(buffer: Buffer, column: str) -> str | int:
    values: dict[str, str | int | None] = {
        "id": buffer.name,
        "lower": buffer.start,
        "upper": buffer.end,
        "size": buffer.size,
        "alignment": buffer.alignment,
        "offset": buffer.offset,
        "hint": buffer.hint,
    }
    found = values[column]
    return "" if found is None else found


def _as_csv(columns: list[str], rows: Iterable[Sequence[str | int]]) -> str:
    return csv_text([columns, *rows])
