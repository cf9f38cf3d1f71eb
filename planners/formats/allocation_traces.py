"""Allocation files: CSV of MiniMalloc (`id,lower,upper,size`), and traces of the Glow compiler.

Lifetimes are half-open: from `lower` to before `upper`. The columns `alignment`, `offset` (fixed)
and `hint` may be added, and be empty; the order of columns is free.

A trace has the format of the Glow compiler's allocator test. Time is the number of ALLOC and FREE
instructions before. Text from `#` to the end of a line is a comment.

    MODEL <name>          a new problem
    ALIGN <bytes>         alignment of all its buffers
    ALLOC <id> <bytes>    the buffer lives from this instruction
    FREE <id>             to this one
    MEM <bytes>           expected memory, ignored
    EFF <ratio>           expected efficiency, ignored
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

from csdf.errors import InvalidPlan, UnreadableFile, counted
from csdf.io.csv_text import csv_text, unguarded
from csdf.model.exact import MalformedText, natural, shown
from planners.arena.problem import Buffer, MemoryPlan, Problem

NEEDED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "offset", "hint")


def parse_buffers(text: str, name: str, problem_name: str) -> Problem:
    """Return the problem of a CSV file. Raises UnreadableFile with the line."""
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    columns: list[str] = []
    buffers: dict[str, Buffer] = {}
    try:
        for row in rows:
            line = TraceLine("", rows.line_num, name)
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if not columns:
                columns = _columns(cells, line)
                continue
            if len(cells) != len(columns):
                raise line.refusal(f"found {counted(len(cells), 'value')}; expected {len(columns)}")
            buffer = _buffer(dict(zip(columns, cells, strict=True)), line)
            if buffer.name in buffers:
                raise line.refusal(f"two buffers have the id {buffer.name!r}")
            buffers[buffer.name] = buffer
    except csv.Error as error:
        raise TraceLine("", rows.line_num, name).refusal(f"not CSV: {error}") from None
    if not columns:
        raise TraceLine("", 1, name).refusal(f"is empty; expected the header {','.join(NEEDED)}")
    return Problem(name=problem_name, buffers=tuple(buffers.values()))


def _columns(cells: list[str], line: TraceLine) -> list[str]:
    for column in NEEDED:
        if column not in cells:
            raise line.refusal(
                f"the header has no column {column!r}; found {','.join(cells)[:80]!r}"
            )
    for column in cells:
        if column not in NEEDED + OPTIONAL or cells.count(column) > 1:
            raise line.refusal(f"the header has the column {column!r}, unknown or twice")
    return cells


def _buffer(cells: dict[str, str], line: TraceLine) -> Buffer:
    buffer_name = unguarded(cells["id"])
    numbers = {
        column: line.natural(word, f"buffer {buffer_name!r}, {column}")
        for column, word in cells.items()
        if column != "id" and (column in NEEDED or word)
    }
    try:
        return Buffer(
            name=buffer_name,
            size=numbers["size"],
            start=numbers["lower"],
            end=numbers["upper"],
            alignment=numbers.get("alignment", 1),
            offset=numbers.get("offset"),
            hint=numbers.get("hint"),
        )
    except InvalidPlan as error:
        raise line.refusal(str(error)) from None


def format_offsets(plan: MemoryPlan) -> str:
    """Return the plan as MiniMalloc writes it: the columns of the problem, and offsets."""
    rows = (
        (buffer.name, buffer.start, buffer.end, buffer.size, plan.offsets[buffer.name])
        for buffer in plan.problem.buffers
    )
    return csv_text([(*NEEDED, "offset"), *rows])


COMMENT = "#"
OPERANDS = {"MODEL": 1, "ALIGN": 1, "ALLOC": 2, "FREE": 1, "MEM": 1, "EFF": 1}  # number of each


def parse_traces(text: str, name: str) -> list[Problem]:
    """Return a problem for each model. Raises UnreadableFile with the line.

    A buffer that is never freed, or freed twice, is refused.
    """
    traces: list[_Trace] = []
    for line in lines_of(text, name):
        instruction, *operands = line.text.split()
        if instruction not in OPERANDS:
            raise line.refusal(f"found {instruction!r}; expected one of {', '.join(OPERANDS)}")
        if instruction == "MODEL":
            traces.append(_Trace(line.text.removeprefix(instruction).strip(), line))
            continue
        if len(operands) != OPERANDS[instruction]:
            raise line.refusal(f"found {counted(len(operands), 'value')} after {instruction}")
        if not traces:
            raise line.refusal(f"{instruction} comes before the first MODEL")
        traces[-1].take(instruction, operands, line)
    return [trace.problem() for trace in traces]


class _Trace:
    """A model while it is read."""

    def __init__(self, name: str, line: TraceLine) -> None:
        if not name:
            raise line.refusal("MODEL without a name")
        self._name = name
        self._line = line
        self._alignment = 1
        self._sizes: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._ends: dict[str, int] = {}

    def take(self, instruction: str, operands: list[str], line: TraceLine) -> None:
        """Execute an instruction other than MODEL."""
        time = len(self._starts) + len(self._ends)
        match instruction, *operands:
            case "ALIGN", alignment:
                self._alignment = line.natural(alignment, "ALIGN", least=1)
            case "ALLOC", name, size:
                if name in self._starts:
                    raise line.refusal(f"buffer {name!r} is allocated twice")
                self._sizes[name] = line.natural(size, f"buffer {name!r}")
                self._starts[name] = time
            case "FREE", name:
                if name not in self._starts:
                    raise line.refusal(f"buffer {name!r} is freed, but was not allocated")
                if name in self._ends:
                    raise line.refusal(f"buffer {name!r} is freed twice")
                self._ends[name] = time

    def problem(self) -> Problem:
        for name in self._starts:
            if name not in self._ends:
                raise self._line.refusal(f"MODEL {self._name!r}: buffer {name!r} is never freed")
        buffers = (
            Buffer(
                name=name,
                size=self._sizes[name],
                start=start,
                end=self._ends[name],
                alignment=self._alignment,
            )
            for name, start in self._starts.items()
        )
        return Problem(name=self._name, buffers=tuple(buffers))


class TraceLine(NamedTuple):
    """A line without its comment, and its position; the text is empty for a row of CSV."""

    text: str
    number: int
    file: str

    def refusal(self, complaint: str) -> UnreadableFile:
        """Return the error that blames this line."""
        return UnreadableFile(f"{self.file}:{self.number}: {complaint}")

    def natural(self, word: str, what: str, least: int = 0) -> int:
        """Return the whole number that the word is; `what` says of what."""
        try:
            number = natural(word)
        except MalformedText:
            number = -1
        if number < least:
            raise self.refusal(f"{what}: found {shown(word)}; expected a whole number >= {least}")
        return number


def lines_of(text: str, file: str) -> Iterator[TraceLine]:
    """Yield the lines that hold more than a comment."""
    for number, whole in enumerate(text.splitlines(), start=1):
        line = whole.partition(COMMENT)[0].strip()
        if line:
            yield TraceLine(line, number, file)
