"""Accesses of FIFOs in a table, for designs of other tools: process, loop, iteration, FIFO, stage.

A file has a line `process,loop,iteration,fifo,read|write,stage` for each access, in the order of the
program. Lines that begin with # and have settings state intervals, depths and widths; the line of a
loop precedes its accesses. Other lines that begin with # are remarks.

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
NATURAL = r"\d{1,13}"


@dataclass(slots=True)
class _Process:
    """A process so far. accesses: by stage, the FIFO and the kind of each access."""

    line: int
    accesses: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    loop: str = ""  # the current loop
    loop_begin: int = 0  # first stage of the current loop
    last: int = 0  # the last stage so far

    def staged(self, file: Path, name: str) -> StagedProcess:
        """Return the process as a single track: its accesses, and the stages between them."""
        items: list[Item] = []
        previous = 0
        for stage, accesses in sorted(self.accesses.items()):
            if len(set(accesses)) < len(accesses):
                raise InvalidGraph(
                    f"{file}:{self.line}: process {name!r} has two accesses of a FIFO in stage "
                    f"{stage}; a FIFO is read and written once in a cycle"
                )
            if stage > previous:
                items.append(stage - previous)
            items.append(Event(tuple(accesses)))
            previous = stage
        return StagedProcess(
            name=name, module=name, file=str(file), line=self.line, tracks=(tuple(items),),
            stages=self.last,
        )  # fmt: skip


@dataclass(slots=True)
class _Fifo:
    """A FIFO with the line of its first access; owners: by kind, its process and that line."""

    number: int
    line: int
    owners: dict[int, tuple[str, int]] = field(default_factory=dict)


def read_accesses(file: Path) -> StagedDesign:
    """Return the design of a table of accesses. Raises UnreadableFile, InvalidGraph."""
    table = _Table(file)
    rows = csv.reader(read_text(file).splitlines())
    try:
        for row in rows:
            table.add(f"{file}:{rows.line_num}", rows.line_num, row)
    except csv.Error as error:
        raise UnreadableFile(f"{file}:{rows.line_num}: {error}") from None
    if not table.processes:
        raise UnreadableFile(f"{file}: no access in it; expected lines {','.join(COLUMNS)}")
    return table.design()


class _Table:
    """The lines read so far: processes, FIFOs, and the settings of loops and FIFOs by name."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.processes: dict[str, _Process] = {}
        self._fifos: dict[str, _Fifo] = {}
        self._loop_settings: dict[tuple[str, str], dict[str, int]] = {}
        self._accessed: set[tuple[str, str]] = set()  # loops with accesses, by process and name
        self._fifo_settings: dict[str, dict[str, int]] = {}

    def add(self, where: str, number: int, row: list[str]) -> None:
        """Add a line: an access, or the settings of a loop or a FIFO. where: the file and the line."""
        cells = [cell.strip() for cell in row]
        if not any(cells) or tuple(cells) == COLUMNS:
            return
        if cells[0].startswith("#"):
            line = ",".join(row).lstrip("# \t")
            self._add_settings(
                where, re.sub(r"\b(interval|depth|bits)\s*=\s*", r"\1=", line).split()
            )
            return
        if len(cells) != len(COLUMNS):
            raise UnreadableFile(
                f"{where}: {len(cells)} columns; expected {len(COLUMNS)}: {','.join(COLUMNS)}"
            )
        name, loop, iteration, fifo_name, verb, stage = cells
        if verb not in ("read", "write"):
            raise UnreadableFile(f"{where}: access {verb!r}; expected read or write")
        kind = WRITE if verb == "write" else READ
        process = self.processes.setdefault(name, _Process(line=number))
        fifo = self._fifos.setdefault(fifo_name, _Fifo(number=len(self._fifos), line=number))
        owner, first = fifo.owners.setdefault(kind, (name, number))
        if owner != name:
            raise InvalidGraph(
                f"{where}: process {name!r} {verb}s FIFO {fifo_name!r}, but {owner!r} does so "
                f"in line {first}; a FIFO has one writer and one reader"
            )
        if loop != process.loop:
            process.loop = loop
            process.loop_begin = process.last + LOOP_GAP if process.accesses else 0
        self._accessed.add((name, loop))
        stage_in_process = _natural(stage, where, "stage")
        if settings := self._loop_settings.get((name, loop)):
            begin = process.loop_begin
            begin += _natural(iteration, where, "iteration") * settings["interval"]
            stage_in_process += begin
            process.last = max(process.last, begin + settings["depth"] - 1)
        process.last = max(process.last, stage_in_process)
        process.accesses.setdefault(stage_in_process, []).append((fifo.number, kind))

    def _add_settings(self, where: str, words: list[str]) -> None:
        """Add the words `loop PROCESS LOOP interval=N depth=N` or `fifo NAME bits=N depth=N`."""
        if words[:1] not in (["loop"], ["fifo"]) or not any(
            re.match(r"\w+=", word) for word in words[2:]
        ):
            return  # a remark for people
        names = words[1:3] if words[0] == "loop" else words[1:2]
        settings: dict[str, int] = {}
        for word in words[1 + len(names) :]:
            match = re.fullmatch(rf"(interval|depth|bits)=({NATURAL})", word)
            if match is None or not 0 < int(match[2]) <= MOST:
                raise UnreadableFile(
                    f"{where}: {word!r}; expected interval=N, depth=N or bits=N, with N from 1 on"
                )
            settings[match[1]] = int(match[2])
        if words[0] == "fifo":
            self._fifo_settings[names[0]] = settings
        elif len(names) < 2 or not {"interval", "depth"} <= settings.keys():
            raise UnreadableFile(f"{where}: expected # loop PROCESS LOOP interval=N depth=N")
        else:
            key = names[0], names[1]
            if key in self._accessed and self._loop_settings.get(key) != settings:
                raise UnreadableFile(
                    f"{where}: loop {key[1]!r} of process {key[0]!r} has accesses before this line; "
                    "write the line before them"
                )
            self._loop_settings[key] = settings

    def design(self) -> StagedDesign:
        """Return the design; a FIFO without settings has words of 32 bits."""
        declared = []
        for name, fifo in self._fifos.items():
            settings = self._fifo_settings.get(name, {})
            declared.append(
                TracedFifo(
                    name=name, group=name.split("[")[0], bits=settings.get("bits", 32),
                    depth=settings.get("depth"), kind="", line=fifo.line,
                )
            )  # fmt: skip
        processes = [process.staged(self.file, name) for name, process in self.processes.items()]
        return StagedDesign(
            name=self.file.stem,
            file=str(self.file),
            fifos=staged_fifos(declared, processes, self.file),
            processes=tuple(processes),
            assumptions=tuple(
                f"{name}: 32 bits, as no line # fifo says its width"
                for name in self._fifos
                if name not in self._fifo_settings
            ),
        )


def _natural(text: str, where: str, what: str) -> int:
    if not re.fullmatch(NATURAL, text) or int(text) > MOST:
        raise UnreadableFile(f"{where}: {what} {text!r}; expected a whole number from 0 to {MOST}")
    return int(text)
