"""Trace of a Vitis HLS dataflow design: the FIFO accesses of every loop iteration of one call.

The trace holds the FIFOs, processes and shared arrays of one call of the top function, for one run.
planners.fifo.hls.recording makes it; `TraceReader` reads the lines that the recorder writes. Equal
iterations are stored once. With `read 0` short for Access(fifo=0, is_write=False), a process

    for (int i = 0; i < 3; i++) out.write(in.read());

with `in` as FIFO 0 and `out` as FIFO 1, for example, has the body

    (LoopExecution(trips=3, iterations=(RepeatedIterations(3, ((read 0, write 1),)),)),)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from csdf.errors import UnreadableFile
from planners.fifo.hls.instrument import FIRST_SITE, TOP_SITE, Instrumented, Site

# An item of an iteration in the trace: 3 bits, and above them the number of its FIFO or loop.
ITEM_BITS = 3
ITEM_KIND = 3  # mask of the kind: 0 read, 1 write, 2 loop
WRITE_ITEM = 1
LOOP_ITEM = 2
POLL_ITEM = 4  # bit of a non-blocking access


class Access(NamedTuple):
    """A word that is read or written.

    fifo: index in Trace.fifos.
    is_write: a write, else a read.
    is_blocking: false if a non-blocking method such as read_nb or write_nb moved the word.
    """

    fifo: int
    is_write: bool
    is_blocking: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedIterations:
    """Consecutive iterations that repeat: the pattern, `count` times."""

    count: int
    pattern: tuple[Iteration | RepeatedIterations, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopExecution:
    """An execution of a loop statement; equal executions and iterations are one object.

    label: of the loop; empty if it has none.
    line: of the loop.
    function: the function that contains the loop.
    number: among the unlabelled loops of the function, from 1, as in Vitis'
    VITIS_LOOP_line_number.
    trips: number of iterations.
    iterations: the iterations, with repetitions folded.
    """

    label: str
    line: int
    function: str
    number: int
    trips: int
    iterations: tuple[Iteration | RepeatedIterations, ...]


Iteration: TypeAlias = tuple[Access | LoopExecution, ...]  # in program order


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedFifo:
    """A stream between processes.

    name, group: of the stream; of the array of streams that it is an element of.
    bits: width of a word.
    depth: in words, from the source; None if the source gives none.
    kind: memory from BIND_STORAGE.
    line: of the declaration.
    """

    name: str
    group: str
    bits: int
    depth: int | None
    kind: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedProcess:
    """A process of a region.

    name: the function that is called, or the label of a loop.
    line: of the call or loop in the region.
    body: its accesses and loops, in program order.
    parent: index of the process whose function is the region of this one; None in the top region.
    """

    name: str
    line: int
    body: Iteration
    parent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedArray:
    """A variable of a region that some processes write and others read, by their indices."""

    name: str
    line: int
    writers: tuple[int, ...]
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The trace of one call of the top function; accesses of its arguments are not recorded."""

    top: str
    file: Path
    fifos: tuple[TracedFifo, ...]
    processes: tuple[TracedProcess, ...]  # in order of their start
    arrays: tuple[TracedArray, ...]
    ports: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class _Streams(NamedTuple):
    """The streams of a recorded run.

    fifos, ports: FIFOs between processes; names of streams that are arguments of the top function.
    fifo_of: for the recorder's number of a stream, its index in `fifos`.
    remarks: notes on accesses that depend on the order of the run.
    """

    fifos: list[TracedFifo]
    ports: list[str]
    fifo_of: dict[int, int]
    remarks: list[str]


class TraceReader:
    """Reads the lines of the recorder, whose numbers are those of instrumented sites and loops.

    file: of the top function, as the user called it.
    """

    def __init__(self, instrumented: Instrumented, file: str, *, has_bench: bool) -> None:
        self._instrumented, self._top_file, self._has_bench = instrumented, file, has_bench
        self._top = instrumented.top

    def trace(self, text: str, file: Path) -> Trace:
        """Return the trace of a file; text: lines of the recorder, of fields separated by tabs."""
        rows = [line.split("\t") for line in text.splitlines()]
        remarks = [row[1] for row in rows if row[0] == "remark"]
        if not self._has_bench and "main" not in self._instrumented.design.functions:
            remarks.append("no test bench: the arguments of the top function are zeros")
        streams = self._streams(row for row in rows if row[0] == "fifo")
        executions = self._executions(rows, streams.fifo_of)
        process_rows = [row for row in rows if row[0] == "process"]
        processes, processes_of_site = self._processes(process_rows, executions)
        arrays = self._arrays(processes_of_site)
        if all(row[1] == str(TOP_SITE) for row in process_rows):
            raise UnreadableFile(
                f"{self._top_file}:{self._top.line}: {self._top.name} starts no process: no "
                "#pragma HLS DATAFLOW with calls or loops in it, no hls::task, no tapa::task"
            )
        return Trace(
            top=self._top.name,
            file=file,
            fifos=tuple(streams.fifos),
            processes=tuple(processes),
            arrays=tuple(arrays),
            ports=tuple(streams.ports),
            remarks=tuple(dict.fromkeys([*remarks, *streams.remarks])),
        )

    def _streams(self, rows: Iterable[list[str]]) -> _Streams:
        """The streams of the rows `fifo`: FIFOs between processes, and ports of the top function."""
        streams = _Streams([], [], {}, [])
        for number, row in enumerate(rows):
            _, name, group, bits, depth, kind, line, is_port, is_asked = row
            name = name or f"stream {number}"
            if int(is_asked):
                streams.remarks.append(
                    f"{name}: empty(), full(), size() or a non-blocking access; "
                    "the trace holds for the order of this run"
                )
            if int(is_port):
                streams.ports.append(name)
                continue
            streams.fifo_of[number] = len(streams.fifos)
            streams.fifos.append(
                TracedFifo(
                    name=name,
                    group=group or name,
                    bits=int(bits),
                    depth=int(depth) if int(depth) >= 0 else None,
                    kind=kind.removeprefix("fifo_"),
                    line=int(line),
                )
            )
        return streams

    def _processes(
        self, rows: Sequence[list[str]], executions: dict[int, LoopExecution]
    ) -> tuple[list[TracedProcess], dict[int, list[int]]]:
        """The processes of the rows `process`, and their numbers by the site that starts them.

        A region, or the top function itself, is a process only if it moves words.
        """
        processes: list[TracedProcess] = []
        processes_of_site: dict[int, list[int]] = {}
        process_of_row: dict[int, int] = {}
        parents = {int(row[3]) for row in rows}
        for number, (_, site_number, node, parent, _turn, name) in enumerate(rows):
            execution = executions[int(node)]
            body: Iteration = (execution,)
            if execution.trips == 1:
                body = execution.iterations[0]  # type: ignore[assignment]
            is_region = number in parents or int(site_number) == TOP_SITE
            if is_region and not moves_words(body):
                continue
            site = self._site(int(site_number))
            processes_of_site.setdefault(int(site_number), []).append(len(processes))
            process_of_row[number] = len(processes)
            processes.append(
                TracedProcess(
                    name=site.name + name,
                    line=site.line,
                    body=body,
                    parent=process_of_row.get(int(parent)),
                )
            )
        return processes, processes_of_site

    def _arrays(self, processes_of_site: dict[int, list[int]]) -> list[TracedArray]:
        """The variables of regions that one process writes and another reads, or several write."""
        arrays = []
        for variable in self._instrumented.variables:
            writers, readers = (
                tuple(
                    sorted(process for site in sites for process in processes_of_site.get(site, ()))
                )
                for sites in self._instrumented.users(variable)
            )
            # A process that reads what it has written itself waits for nobody.
            readers = tuple(
                reader for reader in readers if any(writer < reader for writer in writers)
            )
            if readers or len(set(writers)) > 1:
                arrays.append(
                    TracedArray(
                        name=variable.name, line=variable.line, writers=writers, readers=readers
                    )
                )
        return arrays

    def _site(self, number: int) -> Site:
        """Return a site by its number; without a statement, at the line of the top function."""
        if number >= FIRST_SITE:
            return self._instrumented.sites[number - FIRST_SITE]
        name = self._top.name if number == TOP_SITE else ""
        return Site(number=number, name=name, line=self._top.line, file=self._top.file)

    def _executions(
        self, rows: Iterable[list[str]], number_of: dict[int, int]
    ) -> dict[int, LoopExecution]:
        """Loop executions by node number, from the rows `node`; equal parts are one object.

        A node is an iteration (0: words of items, each the number of a FIFO or loop node above
        ITEM_BITS), a pattern of repetitions (1), or an execution of a loop (2).
        """
        loops: dict[int, LoopExecution] = {}
        iterations: dict[int, Iteration] = {}
        patterns: dict[int, tuple[Iteration | RepeatedIterations, ...]] = {}
        repeats: dict[tuple[int, int], Iteration | RepeatedIterations] = {}

        def repeated(count: int, node: int) -> Iteration | RepeatedIterations:
            if (count, node) not in repeats:
                pattern = patterns[node] if node in patterns else (iterations[node],)
                repeats[count, node] = (
                    iterations[node]
                    if count == 1 and node in iterations
                    else RepeatedIterations(count, pattern)
                )
            return repeats[count, node]

        for row in rows:
            if row[0] != "node":
                continue
            node, kind, *words = map(int, row[1:])
            if kind == 0:
                items: list[Access | LoopExecution] = []
                for word in words:
                    number = word >> ITEM_BITS
                    if word & ITEM_KIND == LOOP_ITEM:
                        items.append(loops[number])
                    elif number in number_of:
                        is_write, is_blocking = bool(word & WRITE_ITEM), not word & POLL_ITEM
                        items.append(Access(number_of[number], is_write, is_blocking))
                iterations[node] = tuple(items)
            elif kind == 1:
                patterns[node] = tuple(
                    repeated(c, n) for c, n in zip(words[::2], words[1::2], strict=True)
                )
            else:
                where = self._instrumented.loops[words[0]]
                loops[node] = LoopExecution(
                    label=where.label,
                    line=where.line,
                    function=where.function,
                    number=where.number,
                    trips=words[1] + (words[2] << 32),
                    iterations=tuple(
                        repeated(c, n) for c, n in zip(words[3::2], words[4::2], strict=True)
                    ),
                )
        return loops


def moves_words(iteration: Iteration) -> bool:
    """Whether an iteration, or any loop inside it, reads or writes a FIFO."""
    open_parts: list[Iteration | RepeatedIterations] = [iteration]
    seen = set()
    while open_parts:
        part = open_parts.pop()
        for step in part.pattern if isinstance(part, RepeatedIterations) else part:
            if isinstance(step, Access):
                return True
            for inner in step.iterations if isinstance(step, LoopExecution) else (step,):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    open_parts.append(inner)
    return False
