"""The trace of a Vitis HLS dataflow design: what each iteration of each loop reads and writes.

The C++ is instrumented, compiled against headers of ours, and run, in a temporary folder, with limits
of time and memory. The answer is valid for one run: of one call of the top function by its test bench.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import struct
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
from planners.fifo.hls.cpp_tokens import declared
from planners.fifo.hls.instrument import instrument
from planners.fifo.hls.sources import Function, Site, SourceDesign

INCLUDE = Path(__file__).parent / "include"
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
STACKS_BYTES = 8 << 30  # for 256 processes that wait at a time
FILE_BYTES = 1 << 28  # of one file that the program writes, its trace included
COPIED_FILES, COPIED_BYTES = 2000, 1 << 26  # of the folder of the test bench, for what it reads
SHIPPED = frozenset(path.name for path in INCLUDE.glob("*.h"))
OPENS = re.compile(r"\bfopen\b|\bfreopen\b|fstream\b|\bopen\s*\(")  # a file
PREFIX = "csdf-hls-"  # of the temporary folder
TOP_SITE = 1


class Access(NamedTuple):
    """A word that is read or written; fifo is a number in Trace.fifos.

    is_blocking is False where read_nb, write_nb or their like moved it.
    """

    fifo: int
    is_write: bool
    is_blocking: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedIterations:
    """Iterations that follow one another, as often as `count` says."""

    count: int
    pattern: tuple[Iteration | RepeatedIterations, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopExecution:
    """An execution of a loop statement; equal executions, iterations and repeats are one object.

    label: empty where the loop has none; function: that it stands in; number: among the loops of the
    function without a label, from 1, as in Vitis' VITIS_LOOP_line_number.
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
    """A stream. bits: of a word; depth: None where the source gives none; kind: of BIND_STORAGE."""

    name: str
    group: str
    bits: int
    depth: int | None
    kind: str
    line: int
    pragma_line: int | None
    words: int  # written in the run
    left: int  # not read by the end of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedProcess:
    """A process: the function that is called, or the label of a loop; line: in the region."""

    name: str
    line: int
    body: Iteration
    parent: int | None = None  # the process whose function is a region with this one in it


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedArray:
    """A variable of a region that one process writes and another reads; numbers of processes."""

    name: str
    line: int
    writers: tuple[int, ...]
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A call of the top function. Streams that are arguments of it are ports, and not recorded."""

    top: str
    file: Path
    fifos: tuple[TracedFifo, ...]
    processes: tuple[TracedProcess, ...]  # in order of their start
    arrays: tuple[TracedArray, ...]
    ports: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


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

    seconds, bytes: limits of the run. Without a test bench the arguments are zeros, and streams that
    are arguments never end. A program with a loop through FIFOs is run twice.

    Raises UnreadableFile, naming file and line, where the source cannot be compiled, has no region, or
    does not come to the end of the call within the limits.
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
        """Run compilers side by side; return what each says if it fails."""
        running = [
            self._start(command, memory=memory, seconds=COMPILING_SECONDS) for command in commands
        ]
        try:
            said = [self._wait(process, COMPILING_SECONDS) for process in running]
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
            for process, text in zip(running, said, strict=True)
        ]

    def _blame(self, unit: Path, options: Sequence[str], memory: int) -> str:
        """Say so if a source that is not compiled would be without the insertions."""
        for path, source in self.design.sources.items():
            copy = self.folder / "sources" / path.relative_to(path.anchor)
            copy.write_text(source.text, encoding="utf-8", errors="surrogateescape")
        command = [self.compiler, *options, "-fsyntax-only", str(unit)]
        if self._compiled([command], memory)[0] is None:
            return " (the source is right, but csdf cannot trace this statement)"
        return ""

    def _first_error(self, errors: str) -> str:
        prefix = str(self.folder / "sources")
        place, message = "", ""
        for line in errors.splitlines():
            if match := re.match(r"(.+?):(\d+)(?::\d+)?:( (?:fatal )?error: )?(.*)", line):
                if match[3] and not message:
                    message = match[4]
                    place = f"{match[1]}:{match[2]}"
                if match[1].startswith(prefix) and (message or "required from" in line):
                    path = Path("/" + match[1].removeprefix(prefix).lstrip("/"))
                    place = f"{self.shown.get(path, path)}:{match[2]}"
                    if message:
                        break
                elif message and match[3] and match[4] != message:
                    break
        if message:
            return f"{place}: the compiler says: {message}"
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
        """Start a command in a group of its own, with limits; with a folder, confined to it."""

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
        with (self.folder / f"said{self._started}.txt").open("wb") as said:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
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
        self._said[process.pid] = Path(said.name)
        return process

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> str:
        """Wait for a command, end all that it started, and return what it wrote to standard error."""
        try:
            process.wait(timeout=seconds)
        finally:
            end_group(process, str(self.folder))
        with self._said[process.pid].open("rb") as said:
            return said.read(1 << 20).decode(errors="replace")

    # -- the call without a test bench ----------------------------------------------------------

    def _call_of_top(self) -> str:
        """A main function that calls the top function with zeros, or nothing where there is one."""
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
            name, rest = names_here[0]
            kind = source.text[parameter[0].start : name.start].strip()
            kind = re.sub(r"\bconst\b|\b__restrict__\b|&", " ", kind).strip()
            dimensions = (
                source.text[rest[0].start : rest[-1].end] if rest and rest[0].text == "[" else ""
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
        said = f"; its last words: {last[:200]}" if last else ""
        raise UnreadableFile(
            f"{file}: the run of the program did not reach the end of {self.top.name}: {reason}{said}"
        )

    def _reason(self, fields: list[str], call: int) -> str:
        """Say why the recorder stopped."""
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
        site = self.design.sites[number - 2]
        return f"process {site.name} (line {site.line})"

    # -- the answer -----------------------------------------------------------------------------

    def trace(self, text: str) -> Trace:
        """Make the trace of what the recorder wrote."""
        rows = [line.split("\t") for line in text.splitlines()]
        fifos: list[TracedFifo] = []
        ports: list[str] = []
        number_of: dict[int, int] = {}
        remarks = [row[1] for row in rows if row[0] == "remark"]
        if not self.benches and "main" not in self.design.functions:
            remarks.append("no test bench: the arguments of the top function are zeros")
        for number, row in enumerate(row for row in rows if row[0] == "fifo"):
            _, name, group, bits, depth, kind, _, line, pragma, is_port, is_asked, written, read = (
                row
            )
            name = name or f"stream {number}"
            if int(is_asked):
                remarks.append(
                    f"{name}: empty(), full(), size() or a non-blocking access; "
                    "the trace holds for the order of this run"
                )
            if int(is_port):
                ports.append(name)
                continue
            number_of[number] = len(fifos)
            fifos.append(
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
        executions = self._executions(rows, number_of)
        processes: list[TracedProcess] = []
        place: dict[int, list[int]] = {}  # by site, and by -1 - row
        process_rows = [row for row in rows if row[0] == "process"]
        parents = {int(row[3]) for row in process_rows}
        for number, (_, site, node, parent, _turn, name) in enumerate(process_rows):
            body = executions[int(node)]
            iterations = body.iterations
            flat: Iteration = (body,)
            if body.trips == 1:
                flat = iterations[0]  # type: ignore[assignment]
            if (number in parents or int(site) == TOP_SITE) and not moves_words(flat):
                continue
            site_of = self._site(int(site))
            place.setdefault(int(site), []).append(len(processes))
            places = place.setdefault(-1 - number, [])
            places.append(len(processes))
            processes.append(
                TracedProcess(
                    name=site_of.name + name,
                    line=site_of.line,
                    body=flat,
                    parent=next(iter(place.get(-1 - int(parent), [])), None)
                    if int(parent) >= 0
                    else None,
                )
            )
        arrays = []
        for variable in self.design.variables:
            writers, readers = (
                tuple(sorted(p for site in sites for p in place.get(site, ())))
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
        if all(row[1] == str(TOP_SITE) for row in process_rows):
            raise UnreadableFile(
                f"{self._shown(self.top.file)}:{self.top.line}: {self.top.name} starts no process: no "
                "#pragma HLS DATAFLOW with calls or loops in it, no hls::task, no tapa::task"
            )
        return Trace(
            top=self.top.name,
            file=self.sources[0],
            fifos=tuple(fifos),
            processes=tuple(processes),
            arrays=tuple(arrays),
            ports=tuple(ports),
            remarks=tuple(dict.fromkeys(remarks)),
        )

    def _shown(self, number: int) -> Path:
        """A source as the user called it."""
        path = list(self.design.sources)[number]
        return self.shown.get(path, path)

    def _site(self, number: int) -> Site:
        if number == TOP_SITE:
            return Site(
                name=self.top.name, kind="top", line=self.top.line, file=self.top.file, region=-1
            )
        if number == 0:
            return Site(name="", kind="task", line=self.top.line, file=self.top.file, region=-1)
        return self.design.sites[number - 2]

    def _executions(
        self, rows: Iterable[list[str]], number_of: dict[int, int]
    ) -> dict[int, LoopExecution]:
        """The executions of loops by their nodes; equal parts are one object."""
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
                    if word & 3 == 2:
                        items.append(loops[word >> 3])
                    elif word >> 3 in number_of:
                        items.append(Access(number_of[word >> 3], bool(word & 1), not word & 4))
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
    """Whether anything in an iteration reads or writes a FIFO."""
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


# Landlock (Linux 5.13 and later): what is not allowed below is refused.
WRITES = (1 << 1, *(1 << bit for bit in range(4, 13)))  # to files; to remove and to make anything
TRUNCATES, REFERS = 1 << 14, 1 << 13  # of versions 3 and 2
CONNECTIONS = 3  # of version 4: to bind and to connect


def confine(folder: Path) -> None:
    """Refuse this process to write outside a folder, and to use the network, where the system can."""
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    rights = sum(WRITES) | (REFERS if version >= 2 else 0) | (TRUNCATES if version >= 3 else 0)
    rules = struct.pack("=QQ", rights, CONNECTIONS)[: 16 if version >= 4 else 8]
    ruleset = library.syscall(444, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0))
    if ruleset < 0:
        return
    for path, allowed in ((folder, rights), (Path("/dev/null"), WRITES[0])):
        opened = os.open(path, os.O_PATH)
        rule = struct.pack("=Qi", allowed, opened)
        library.syscall(445, ruleset, 1, rule, ctypes.c_uint32(0))
        os.close(opened)
    library.prctl(38, 1, 0, 0, 0)  # no new privileges
    library.syscall(446, ruleset, ctypes.c_uint32(0))


def end_group(process: subprocess.Popen[bytes], folder: str) -> None:
    """End a process and all that it started, in its group or, as /proc shows, outside it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    mark = f"HOME={folder}/run\0".encode()  # of the program, not of compilers beside it
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def copy_inputs(folders: Iterable[Path], target: Path) -> None:
    """Copy the files beside a test bench, which opens some, up to a limit of number and size."""
    files = total = 0
    for folder in folders:
        for root, names, here in os.walk(folder):
            names[:] = sorted(name for name in names if not name.startswith((".", PREFIX)))
            for name in sorted(here):
                path = Path(root, name)
                if path.is_symlink() or not path.is_file():
                    continue
                files += 1
                total += path.stat().st_size
                if files > COPIED_FILES or total > COPIED_BYTES:
                    return
                copy = target / path.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
