"""Accesses of FIFOs in a table, for designs of other tools: process, loop, iteration, FIFO, stage.

A file has a line `process,loop,iteration,fifo,read|write,stage` for each access, in the order of the
program. Lines that begin with # state intervals, depths and widths:

    # loop PROCESS LOOP interval=1 depth=12
    # fifo NAME bits=32 depth=16

The stage of an access is counted from the begin of its iteration. Iterations of a loop begin an
interval apart, and a loop begins 2 stages after the last stage before it. Without a line for its loop
the stage is counted from the begin of the process. With `# loop a l interval=2 depth=3` the line
`a,l,4,x,read,1` is a read of x in stage 4 * 2 + 1 = 9, if l is the first loop of process a.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io.files import read_text
from planners.fifo.hls.pipelines import (
    LOOP_GAP,
    Event,
    Item,
    StagedDesign,
    StagedProcess,
    staged_fifos,
)
from planners.fifo.hls.trace import TracedFifo
from planners.kernels.stage_times import READ, WRITE

COLUMNS = ("process", "loop", "iteration", "fifo", "read|write", "stage")
MOST = 10**12  # maximum of a number in the file


@dataclass(slots=True)
class _Process:
    """A process as far as it is read. events: by stage, the FIFO and the kind of each access."""

    line: int
    events: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    base: int = 0  # first stage of the current loop
    loop: str = ""  # the current loop
    last: int = 0  # the last stage so far


def read_accesses(file: Path) -> StagedDesign:
    """Return the design of a table of accesses. Raises UnreadableFile, InvalidGraph."""
    text = read_text(file)
    loops: dict[tuple[str, str], tuple[int, int]] = {}
    widths: dict[str, dict[str, int]] = {}
    processes: dict[str, _Process] = {}
    fifos: dict[str, int] = {}
    lines: dict[str, int] = {}
    ends: dict[tuple[int, int], tuple[str, int]] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        where = f"{file}:{number}"
        if not row or not "".join(row).strip():
            continue
        if row[0].lstrip().startswith("#"):
            _remark(",".join(row), where, loops, widths)
            continue
        cells = [cell.strip() for cell in row]
        if tuple(cells) == COLUMNS:
            continue
        if len(cells) != len(COLUMNS):
            raise UnreadableFile(
                f"{where}: {len(cells)} columns; expected {len(COLUMNS)}: {','.join(COLUMNS)}"
            )
        name, loop, iteration, fifo, what, stage = cells
        if what not in ("read", "write"):
            raise UnreadableFile(f"{where}: access {what!r}; expected read or write")
        kind = WRITE if what == "write" else READ
        process = processes.setdefault(name, _Process(line=number))
        index = fifos.setdefault(fifo, len(fifos))
        lines.setdefault(fifo, number)
        owner, first = ends.setdefault((index, kind), (name, number))
        if owner != name:
            raise InvalidGraph(
                f"{where}: process {name!r} {what}s FIFO {fifo!r}, but {owner!r} does so "
                f"in line {first}; a FIFO has one writer and one reader"
            )
        if loop != process.loop:
            process.loop = loop
            process.base = process.last + LOOP_GAP if process.events else 0
        stage_in_process = _natural(stage, where, "stage")
        if (name, loop) in loops:
            interval, depth = loops[name, loop]
            begin = process.base + _natural(iteration, where, "iteration") * interval
            stage_in_process += begin
            process.last = max(process.last, begin + depth - 1)
        process.last = max(process.last, stage_in_process)
        process.events.setdefault(stage_in_process, []).append((index, kind))
    if not processes:
        raise UnreadableFile(f"{file}: no access in it; expected lines {','.join(COLUMNS)}")
    return _design(file, processes, fifos, lines, widths)


def _remark(
    text: str,
    where: str,
    loops: dict[tuple[str, str], tuple[int, int]],
    widths: dict[str, dict[str, int]],
) -> None:
    words = text.lstrip("# \t").split()
    if len(words) < 2 or words[0] not in ("loop", "fifo"):
        return  # a remark for people
    names = words[1:3] if words[0] == "loop" else words[1:2]
    numbers: dict[str, int] = {}
    for word in words[1 + len(names) :]:
        match = re.fullmatch(r"(interval|depth|bits)=(\d+)", word)
        if match is None or not 0 < int(match[2]) <= MOST:
            raise UnreadableFile(
                f"{where}: {word!r}; expected interval=N, depth=N or bits=N, with N from 1 on"
            )
        numbers[match[1]] = int(match[2])
    if words[0] == "fifo":
        widths[names[0]] = numbers
        return
    if len(names) < 2 or "interval" not in numbers or "depth" not in numbers:
        raise UnreadableFile(f"{where}: expected # loop PROCESS LOOP interval=N depth=N")
    loops[names[0], names[1]] = numbers["interval"], numbers["depth"]


def _natural(text: str, where: str, what: str) -> int:
    if not text.isdigit() or int(text) > MOST:
        raise UnreadableFile(f"{where}: {what} {text!r}; expected a whole number from 0 to {MOST}")
    return int(text)


def _design(
    file: Path,
    processes: dict[str, _Process],
    fifos: dict[str, int],
    lines: dict[str, int],
    widths: dict[str, dict[str, int]],
) -> StagedDesign:
    """Return the design. fifos: numbers by name; lines: of their first access."""
    declared = [
        TracedFifo(
            name=name,
            group=name.split("[")[0],
            bits=widths.get(name, {}).get("bits", 32),
            depth=widths.get(name, {}).get("depth"),
            kind="",
            line=lines[name],
        )
        for name in fifos
    ]
    staged_processes = [_staged(file, name, process) for name, process in processes.items()]
    assumed = tuple(
        f"{name}: 32 bits, as no line # fifo says its width" for name in fifos if name not in widths
    )
    return StagedDesign(
        name=file.stem,
        file=str(file),
        fifos=staged_fifos(declared, staged_processes, file),
        processes=tuple(staged_processes),
        assumptions=assumed,
    )


def _staged(file: Path, name: str, process: _Process) -> StagedProcess:
    """Return a process as a single track: its accesses, and the stages between them."""
    items: list[Item] = []
    previous = 0
    for stage, accesses in sorted(process.events.items()):
        if len(set(accesses)) < len(accesses):
            raise InvalidGraph(
                f"{file}:{process.line}: process {name!r} has two accesses of a FIFO in stage "
                f"{stage}; a FIFO is read and written once in a cycle"
            )
        if stage > previous:
            items.append(stage - previous)
        items.append(Event(tuple(accesses)))
        previous = stage
    return StagedProcess(
        name=name,
        module=name,
        file=str(file),
        line=process.line,
        tracks=(tuple(items),),
        stages=process.last,
    )
