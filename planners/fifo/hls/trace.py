"""Execution trace of a Vitis HLS dataflow design: the FIFO accesses of every loop iteration.

Takes C++ sources and a test bench; gives the FIFOs, processes and shared arrays of one call of
the top function. The sources are instrumented (planners.fifo.hls.instrument), compiled against
headers of this package and run in a temporary folder, with limits of time and memory. Equal
iterations are stored once. A process

    for (int i = 0; i < 3; i++) out.write(in.read());

with `in` as FIFO 0 and `out` as FIFO 1, for example, has the body

    (LoopExecution(trips=3, iterations=(RepeatedIterations(3, ((read 0, write 1),)),)),)

in which `read 0` is short for Access(fifo=0, is_write=False). The trace is valid for this run
only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

if sys.platform != "win32":
    import resource

from csdf.errors import UnreadableFile, counted
from planners.fifo.hls.confinement import PREFIX, confine, copy_inputs, end_group
from planners.fifo.hls.cpp_tokens import declared
from planners.fifo.hls.instrument import instrument
from planners.fifo.hls.sources import FIRST_SITE, TOP_SITE, Function, Site, SourceDesign

INCLUDE = Path(__file__).parent / "include"
# An item of an iteration in the trace: 3 bits, and above them the number of its FIFO or loop.
ITEM_BITS = 3
ITEM_KIND = 3  # mask of the kind: 0 read, 1 write, 2 loop
WRITE_ITEM = 1
LOOP_ITEM = 2
POLL_ITEM = 4  # bit of a non-blocking access
FLAGS = (
    "-O1",
    "-w",
    "-std=gnu++17",
    "-Wno-narrowing",
    "-Wno-register",
    "-fwrapv",
    "-fno-strict-aliasing",
)
COMPILING_SECONDS, COMPILING_BYTES = 300, 2 << 30
# Address space for the stacks of 256 waiting processes, 32 MB each; pages are allocated on use.
STACKS_BYTES = 8 << 30
FILE_BYTES = 1 << 28  # limit of each file that the program writes, including its trace
SHIPPED = frozenset(path.name for path in INCLUDE.glob("*.h"))
OPENS = re.compile(r"\bfopen\b|\bfreopen\b|fstream\b|\bopen\s*\(")  # opens a file


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
    line, pragma_line: of the declaration; of its STREAM pragma, if any.
    words: words written in the run.
    left: words that were not read by the end of the run.
    """

    name: str
    group: str
    bits: int
    depth: int | None
    kind: str
    line: int
    pragma_line: int | None
    words: int
    left: int


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


def record(
    source: Path | Sequence[Path],
    *,
    testbench: Path | Sequence[Path] | None = None,
    top: str | None = None,
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    seconds: float = 60,
    bytes: int = 4 << 30,  # noqa: A002 -- the unit
    call: int = 1,
    compiler: str | None = None,
) -> Trace:
    """Compile and run a design, and return what its processes did in one call of the top function.

    seconds, bytes: limits of the run. Without a test bench the arguments are zeros, and streams
    that are arguments never end. A program with a loop through FIFOs is run twice.

    Raises UnreadableFile, naming file and line, where the source cannot be compiled, has no region,
    or does not come to the end of the call within the limits.
    """
    if sys.platform == "win32":
        raise UnreadableFile(f"{source}: designs are run on Linux or macOS; on Windows use WSL")
    sources = [source] if isinstance(source, Path | str) else list(source)
    benches = [testbench] if isinstance(testbench, Path | str) else list(testbench or ())
    with TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        run = Recording(
            sources=[Path(path) for path in sources],
            benches=[Path(path) for path in benches],
            top=top,
            include=[Path(path) for path in include],
            defines=defines,
            folder=Path(folder).resolve(),
            compiler=compiler,
        )
        program = run.compile(memory=max(bytes, COMPILING_BYTES))
        text = run.execute(program, seconds=seconds, memory=bytes, call=call)
        return run.trace(text)


class Recording:
    """The sources of one design, their instrumented copies in a folder, and the run."""

    def __init__(
        self,
        *,
        sources: Sequence[Path],
        benches: Sequence[Path],
        top: str | None,
        include: Sequence[Path],
        defines: Sequence[str],
        folder: Path,
        compiler: str | None,
    ) -> None:
        self.sources, self.benches, self.include, self.defines = sources, benches, include, defines
        self.folder = folder
        self._started, self._said = 0, dict[int, Path]()
        self.compiler = compiler or next(filter(shutil.which, ("g++", "clang++", "c++")), "")
        if not self.compiler or not shutil.which(self.compiler):
            raise UnreadableFile(
                f"{sources[0]}: running the design needs a C++ compiler; found neither g++ nor clang++"
            )
        self.shown = {path.resolve(): path for path in (*sources, *benches)}
        self.design = SourceDesign(
            folders=[p.resolve() for p in include], shipped=SHIPPED, defines=defines
        )
        for path in (*sources, *benches):
            try:
                text = path.read_text(encoding="utf-8", errors="surrogateescape")
            except OSError as error:
                raise UnreadableFile(f"{path}: {error.strerror}") from error
            self.design.read(path.resolve(), text, is_bench=path in benches and path not in sources)
        try:
            self.design.find_functions()
            self.top = self._find_top(top)
            instrument(self.design, self.top)
        except RecursionError:
            raise UnreadableFile(
                f"{sources[0]}: brackets or statements are nested too deep"
            ) from None

    def _find_top(self, name: str | None) -> Function:
        """The definition of the top function: by its name, or the one region that no function calls."""
        for function in self.design.functions.get(name or "", ()):
            return function
        for source, line, bracket in self.design.unbalanced:
            raise UnreadableFile(f"{self._shown(source)}:{line}: {bracket!r} has no counterpart")
        regions = self.design.tops()
        file = self.sources[0]
        if name is None:
            if not regions:
                raise UnreadableFile(
                    f"{file}: no function has #pragma HLS DATAFLOW, hls::task or tapa::task"
                )
            if len(regions) != 1:
                names_of_regions = ", ".join(region.name for region in regions)
                raise UnreadableFile(
                    f"{file}: several functions could be the top function: "
                    f"{names_of_regions}; name it by --top"
                )
            return regions[0]
        names_of_regions = ", ".join(region.name for region in regions) or "none"
        raise UnreadableFile(
            f"{file}: no definition of the top function {name!r}; "
            f"functions with #pragma HLS DATAFLOW: {names_of_regions}"
        )

    def compile(self, *, memory: int) -> Path:
        """Return the program. Raises UnreadableFile with the first error of the compiler."""
        copies = self.folder / "sources"
        design, units = self.design, []
        for path, source in design.sources.items():
            copy = copies / path.relative_to(path.anchor)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = source.instrumented()
            if source.number == self.top.file:
                text += self._call_of_top()
            copy.write_text(text, encoding="utf-8", errors="surrogateescape")
            if path in self.shown and path not in design.included:
                units.append(copy)
        options = [*FLAGS, "-I", str(INCLUDE)]
        for folder in self.include:
            resolved = folder.resolve()
            options += [
                "-I",
                str(copies / resolved.relative_to(resolved.anchor)),
                "-I",
                str(resolved),
            ]
        for folder in dict.fromkeys(path.resolve().parent for path in self.shown):
            options += ["-iquote", str(folder)]
        options += [f"-D{define}" for define in self.defines]
        options += ["-include", "hls_stream.h"]
        objects = [str(self.folder / f"unit{number}.o") for number in range(len(units))]
        for first in range(0, len(units), os.cpu_count() or 1):
            pairs = list(zip(units, objects, strict=True))[first : first + (os.cpu_count() or 1)]
            commands = [
                [self.compiler, *options, "-c", str(unit), "-o", target] for unit, target in pairs
            ]
            for (unit, _), errors in zip(pairs, self._compiled(commands, memory), strict=True):
                if errors is not None:
                    raise UnreadableFile(
                        self._first_error(errors) + self._blame(unit, options, memory)
                    )
        program = self.folder / "design"
        link = [self.compiler, *objects, "-o", str(program), "-lm", "-lpthread"]
        for errors in self._compiled([link], memory):
            if errors is not None:
                raise UnreadableFile(self._first_error(errors))
        return program

    def _compiled(self, commands: Sequence[Sequence[str]], memory: int) -> list[str | None]:
        """Run compilers in parallel; return for each its messages if it fails, else None."""
        running = [
            self._start(command, memory=memory, seconds=COMPILING_SECONDS) for command in commands
        ]
        try:
            outputs = [self._wait(process, COMPILING_SECONDS) for process in running]
        except subprocess.TimeoutExpired:
            raise UnreadableFile(
                f"{self.sources[0]}: the compiler did not end within {COMPILING_SECONDS} seconds"
            ) from None
        finally:
            for process in running:
                if process.returncode is None:
                    end_group(process, str(self.folder))
        return [
            text if process.returncode else None
            for process, text in zip(running, outputs, strict=True)
        ]

    def _blame(self, unit: Path, options: Sequence[str], memory: int) -> str:
        """A note if the source compiles as it was before instrumentation; empty if not."""
        for path, source in self.design.sources.items():
            copy = self.folder / "sources" / path.relative_to(path.anchor)
            copy.write_text(source.text, encoding="utf-8", errors="surrogateescape")
        command = [self.compiler, *options, "-fsyntax-only", str(unit)]
        if self._compiled([command], memory)[0] is None:
            return " (the source is right, but csdf cannot trace this statement)"
        return ""

    def _first_error(self, errors: str) -> str:
        """The first error of the compiler or linker, at the user's file and line."""
        prefix = str(self.folder / "sources")
        location, message = "", ""
        for line in errors.splitlines():
            if match := re.match(r"(.+?):(\d+)(?::\d+)?:( (?:fatal )?error: )?(.*)", line):
                if match[3] and not message:
                    message = match[4]
                    location = f"{match[1]}:{match[2]}"
                if match[1].startswith(prefix) and (message or "required from" in line):
                    path = Path("/" + match[1].removeprefix(prefix).lstrip("/"))
                    location = f"{self.shown.get(path, path)}:{match[2]}"
                    if message:
                        break
                elif message and match[3] and match[4] != message:
                    break
        if message:
            return f"{location}: the compiler says: {message}"
        for line in errors.splitlines():
            if match := re.search(r"undefined reference to [`'](.*)'", line):
                return (
                    f"{self.sources[0]}: {match[1]} is declared but not defined in these files; "
                    "give all sources of the design"
                )
            if "multiple definition" in line:
                return f"{self.sources[0]}: the linker says: {line.rpartition(prefix)[2]}"
        last = errors.strip().splitlines()[-1:] or ["it ended without a message"]
        return f"{self.sources[0]}: the compiler says: {last[0]}"

    def _start(
        self,
        command: Sequence[str],
        *,
        memory: int,
        seconds: float,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command in its own process group, with limits; folder: confine its writes."""

        def limit() -> None:
            for kind, value in (
                (resource.RLIMIT_AS, memory),
                (resource.RLIMIT_CPU, int(seconds) + 2),
                (resource.RLIMIT_FSIZE, FILE_BYTES),
                (resource.RLIMIT_CORE, 0),
                (resource.RLIMIT_STACK, min(memory // 2, 1 << 30)),
            ):
                hard = resource.getrlimit(kind)[1]
                if hard != resource.RLIM_INFINITY:
                    value = min(value, hard)
                with suppress(ValueError, OSError):  # limits that a system does not have
                    resource.setrlimit(kind, (value, value))
            if folder and sys.platform == "linux":
                confine(self.folder)

        self._started += 1
        # To a file: a child that outlives the program would keep a pipe open.
        with (self.folder / f"said{self._started}.txt").open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                cwd=folder or self.folder,
                env={
                    **os.environ,
                    "LC_ALL": "C",
                    "TMPDIR": str(self.folder),
                    **(environment or {}),
                },
                start_new_session=True,
                preexec_fn=limit,
            )
        self._said[process.pid] = Path(output.name)
        return process

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> str:
        """Wait for a command, end all its processes, and return its standard error."""
        try:
            process.wait(timeout=seconds)
        finally:
            end_group(process, str(self.folder))
        with self._said[process.pid].open("rb") as output:
            return output.read(1 << 20).decode(errors="replace")

    # -- the call without a test bench ----------------------------------------------------------

    def _call_of_top(self) -> str:
        """A main function that calls the top function with zeros; empty with a test bench."""
        if self.benches or "main" in self.design.functions:
            return ""
        top = self.top
        file = self.sources[0]
        if top.is_template or top.scope:
            raise UnreadableFile(
                f"{file}:{top.line}: {top.name} is a template, or in a namespace or class; "
                "give a test bench that calls it"
            )
        text, names = "\nint main(){", []
        source = list(self.design.sources.values())[top.file]
        for number, parameter in enumerate(top.parameters):
            names_here = list(declared(parameter))
            if not names_here:
                if [t.text for t in parameter] == ["void"]:
                    continue
                raise UnreadableFile(
                    f"{file}:{top.line}: no zeros for parameter {number + 1} of {top.name}; "
                    "give a test bench"
                )
            name, suffix = names_here[0]
            kind = source.text[parameter[0].start : name.start].strip()
            kind = re.sub(r"\bconst\b|\b__restrict__\b|&", " ", kind).strip()
            dimensions = (
                source.text[suffix[0].start : suffix[-1].end]
                if suffix and suffix[0].text == "["
                else ""
            )
            if dimensions.startswith("[]"):
                dimensions = f"[65536]{dimensions[2:]}"
            if kind.endswith("*"):
                kind, dimensions = kind[:-1].strip(), "[65536]"
            text += f"static {kind} csdf_p{number}{dimensions};"
            text += f"::csdf_trace::endless(csdf_p{number});"
            names.append(f"csdf_p{number}")
        return text + f"{top.name}({','.join(names)});return 0;}}\n"

    # -- the run --------------------------------------------------------------------------------

    def execute(self, program: Path, *, seconds: float, memory: int, call: int) -> str:
        """Return what the recorder wrote. Raises UnreadableFile if the call does not end."""
        answer = self._run(program, seconds=seconds, memory=memory, call=call, has_fibers=False)
        if answer.startswith(("stop\tempty\t", "stop\tfibers\t")):
            answer = self._run(
                program, seconds=seconds, memory=memory + STACKS_BYTES, call=call, has_fibers=True
            )
        if answer.startswith("stop\t"):
            raise UnreadableFile(
                f"{self.sources[0]}: {self._reason(answer.rstrip().split(chr(9)), call)}"
            )
        return answer

    def _run(
        self, program: Path, *, seconds: float, memory: int, call: int, has_fibers: bool
    ) -> str:
        """Run the program in an empty folder; return its trace, or the recorder's reason to stop."""
        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if any(OPENS.search(source.text) for source in self.design.sources.values()):
            copy_inputs({path.resolve().parent for path in self.benches or self.sources}, folder)
        result = self.folder / "trace.txt"
        result.unlink(missing_ok=True)
        environment = {"CSDF_TRACE": str(result), "CSDF_TRACE_CALL": str(call), "HOME": str(folder)}
        # Test benches of Stream-HLS end at once where this is missing.
        environment["PRJ_PATH"] = os.environ.get("PRJ_PATH", str(folder))
        if has_fibers:
            environment["CSDF_TRACE_FIBERS"] = "1"
        process = self._start(
            [str(program)], memory=memory, seconds=seconds, environment=environment, folder=folder
        )
        file = self.sources[0]
        try:
            errors = self._wait(process, seconds)
        except subprocess.TimeoutExpired:
            raise UnreadableFile(
                f"{file}: the run of the program did not end within {seconds:g} seconds: a loop "
                "without end, one that waits for the test bench, or a run that needs more time"
            ) from None
        try:
            answer = result.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            answer = ""
        if answer.startswith("stop\t") or answer.endswith("end\n"):
            return answer
        last = (errors.strip().splitlines() or [""])[-1]
        if "bad_alloc" in errors or "length_error" in errors or answer:
            reason = f"it needs more than the {memory >> 20} MiB it may have"
        elif process.returncode == -signal.SIGSEGV:
            reason = (
                "it reads or writes outside its memory, or its stack or arrays do not fit into "
                f"{memory >> 20} MiB"
            )
        elif process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            reason = f"it did not end within {seconds:g} seconds"
        elif process.returncode == -signal.SIGXFSZ:
            reason = f"it writes a file of more than {FILE_BYTES >> 20} MiB"
        elif process.returncode < 0:
            reason = f"it was ended by {signal.Signals(-process.returncode).name}"
        else:
            reason = f"it ended with exit code {process.returncode}"
        last_words = f"; its last words: {last[:200]}" if last else ""
        raise UnreadableFile(
            f"{file}: the run of the program did not reach the end of {self.top.name}: "
            f"{reason}{last_words}"
        )

    def _reason(self, fields: list[str], call: int) -> str:
        """The reason why the recorder stopped, in words."""
        what, subject, more = [*fields[1:], "", "", ""][:3]
        subject = re.sub(r"process (\d+)", lambda m: self._process_named(int(m[1])), subject)
        more = re.sub(r"process (\d+)", lambda m: self._process_named(int(m[1])), more)
        if what == "empty":
            return f"{more} reads {subject or 'a stream'}, which is empty, and nothing fills it"
        if what == "stuck":
            return f"no process can go on, however deep the FIFOs are: {subject}"
        if what == "empty outside":
            subject = subject or "a stream"
            return (
                f"the test bench reads {subject}, which is empty, before it calls {self.top.name}"
            )
        if what == "not called":
            if call == 1:
                return f"the program never calls {self.top.name}"
            return f"the program calls {self.top.name} {counted(int(subject), 'time')}, not {call}"
        return {
            "memory": "no memory for the stacks of its processes",
            "later call": "tasks that never end can be traced in the first call only",
            "task outside": "a task starts outside the top function",
        }.get(what, what)

    def _process_named(self, number: int) -> str:
        if number == TOP_SITE:
            return self.top.name
        site = self.design.sites[number - FIRST_SITE]
        return f"process {site.name} (line {site.line})"

    # -- the answer -----------------------------------------------------------------------------

    def trace(self, text: str) -> Trace:
        """Return the trace that the recorder wrote, as lines of fields separated by tabs."""
        rows = [line.split("\t") for line in text.splitlines()]
        remarks = [row[1] for row in rows if row[0] == "remark"]
        if not self.benches and "main" not in self.design.functions:
            remarks.append("no test bench: the arguments of the top function are zeros")
        streams = self._streams(row for row in rows if row[0] == "fifo")
        executions = self._executions(rows, streams.fifo_of)
        process_rows = [row for row in rows if row[0] == "process"]
        processes, processes_of_site = self._processes(process_rows, executions)
        arrays = self._arrays(processes_of_site)
        if all(row[1] == str(TOP_SITE) for row in process_rows):
            raise UnreadableFile(
                f"{self._shown(self.top.file)}:{self.top.line}: {self.top.name} starts no process: no "
                "#pragma HLS DATAFLOW with calls or loops in it, no hls::task, no tapa::task"
            )
        return Trace(
            top=self.top.name,
            file=self.sources[0],
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
            _, name, group, bits, depth, kind, _, line, pragma, is_port, is_asked, written, read = (
                row
            )
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
                    pragma_line=int(pragma) or None,
                    words=int(written),
                    left=int(written) - int(read),
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
        for variable in self.design.variables:
            writers, readers = (
                tuple(
                    sorted(process for site in sites for process in processes_of_site.get(site, ()))
                )
                for sites in self.design.users(variable)
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

    def _shown(self, number: int) -> Path:
        """A source as the user called it."""
        path = list(self.design.sources)[number]
        return self.shown.get(path, path)

    def _own_site(self, number: int, name: str, kind: str) -> Site:
        """A site at the line of the top function."""
        line, file = self.top.line, self.top.file
        return Site(number=number, name=name, kind=kind, line=line, file=file, region=-1)

    def _site(self, number: int) -> Site:
        if number == TOP_SITE:
            return self._own_site(number, self.top.name, "top")
        if number == 0:
            return self._own_site(number, "", "task")
        return self.design.sites[number - FIRST_SITE]

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
                where = self.design.loops[words[0]]
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
