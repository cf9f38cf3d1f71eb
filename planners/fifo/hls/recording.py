"""Recorder of traces of Vitis HLS dataflow designs: instruments, compiles and runs the sources.

Takes C++ sources and a test bench; gives the trace of one call of the top function. The sources are
instrumented (planners.fifo.hls.instrument), compiled against headers of this package and run in a
temporary folder, with limits of time and memory.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

if sys.platform != "win32":
    import resource

from csdf.errors import UnreadableFile, counted
from planners.fifo.hls.confinement import PREFIX, confine, copy_inputs, end_group
from planners.fifo.hls.cpp_tokens import declared
from planners.fifo.hls.instrument import FIRST_SITE, TOP_SITE, instrument
from planners.fifo.hls.sources import Function, SourceDesign
from planners.fifo.hls.trace import Trace, TraceReader

INCLUDE = Path(__file__).parent / "include"
FLAGS = (
    "-O1", "-w", "-std=gnu++17", "-Wno-narrowing", "-Wno-register", "-fwrapv", "-fno-strict-aliasing",
)  # fmt: skip
COMPILING_SECONDS, COMPILING_BYTES = 300, 2 << 30
# Address space for the stacks of 256 waiting processes, 32 MB each; pages are allocated on use.
STACKS_BYTES = 8 << 30
FILE_BYTES = 1 << 28  # limit of each file that the program writes, including its trace
SHIPPED = frozenset(path.name for path in INCLUDE.glob("*.h"))
PROCESS = re.compile(r"process (?P<site>\d+)")  # in the reason of the recorder to stop
MESSAGE = re.compile(  # of a compiler
    r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?:(?P<error> (?:fatal )?error: )?(?P<text>.*)"
)
OPENS = re.compile(r"\bfopen\b|\bfreopen\b|fstream\b|\bopen\s*\(")  # opens a file


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
        top_file = str(run.shown_path(run.top.file))
        reader = TraceReader(run.instrumented, top_file, has_bench=bool(benches))
        return reader.trace(text, run.sources[0])


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
        self._started, self._stderr_of = 0, dict[int, Path]()
        self.compiler = compiler or next(filter(shutil.which, ("g++", "clang++", "c++")), "")
        if not self.compiler or not shutil.which(self.compiler):
            raise UnreadableFile(
                f"{sources[0]}: running the design needs a C++ compiler; found neither g++ nor clang++"
            )
        self.shown = {path.resolve(): path for path in (*sources, *benches)}
        self.design = SourceDesign(
            folders=[folder.resolve() for folder in include], shipped=SHIPPED, defines=defines
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
            self.instrumented = instrument(self.design, self.top)
        except RecursionError:
            raise UnreadableFile(
                f"{sources[0]}: brackets or statements are nested too deep"
            ) from None

    def _find_top(self, name: str | None) -> Function:
        """Return the top function: by its name, or the only region that no function calls."""
        for function in self.design.functions.get(name or "", ()):
            return function
        for source, line, bracket in self.design.unbalanced:
            raise UnreadableFile(
                f"{self.shown_path(source)}:{line}: {bracket!r} has no counterpart"
            )
        regions = self.design.tops()
        file = self.sources[0]
        names = ", ".join(region.name for region in regions) or "none"
        if name is not None:
            raise UnreadableFile(
                f"{file}: no definition of the top function {name!r}; "
                f"functions with #pragma HLS DATAFLOW: {names}"
            )
        if not regions:
            raise UnreadableFile(
                f"{file}: no function has #pragma HLS DATAFLOW, hls::task or tapa::task"
            )
        if len(regions) > 1:
            raise UnreadableFile(
                f"{file}: several functions could be the top function: {names}; name it by --top"
            )
        return regions[0]

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
            copied = copies / resolved.relative_to(resolved.anchor)
            options += ["-I", str(copied), "-I", str(resolved)]
        for folder in dict.fromkeys(path.resolve().parent for path in self.shown):
            options += ["-iquote", str(folder)]
        options += [f"-D{define}" for define in self.defines]
        options += ["-include", "hls_stream.h"]
        objects = [str(self.folder / f"unit{number}.o") for number in range(len(units))]
        commands = [
            [self.compiler, *options, "-c", str(unit), "-o", target]
            for unit, target in zip(units, objects, strict=True)
        ]
        at_once = os.cpu_count() or 1
        for first in range(0, len(units), at_once):
            messages = self._compiled(commands[first : first + at_once], memory)
            for unit, errors in zip(units[first:], messages, strict=False):
                if errors is not None:
                    error, note = self._first_error(errors), self._blame(unit, options, memory)
                    raise UnreadableFile(error + note)
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
        """Return a note if the source compiles without instrumentation, else an empty text."""
        for path, source in self.design.sources.items():
            copy = self.folder / "sources" / path.relative_to(path.anchor)
            copy.write_text(source.text, encoding="utf-8", errors="surrogateescape")
        command = [self.compiler, *options, "-fsyntax-only", str(unit)]
        if self._compiled([command], memory)[0] is None:
            return " (the source is right, but csdf cannot trace this statement)"
        return ""

    def _first_error(self, errors: str) -> str:
        """Return the first error of the compiler or linker, at the user's file and line."""
        prefix = str(self.folder / "sources")
        location, message = "", ""
        for match in filter(None, map(MESSAGE.match, errors.splitlines())):
            file, number, text = match["file"], match["line"], match["text"]
            if match["error"] and not message:
                message = text
                location = f"{file}:{number}"
            if file.startswith(prefix) and (message or "required from" in match.string):
                path = Path("/" + file.removeprefix(prefix).lstrip("/"))
                location = f"{self.shown.get(path, path)}:{number}"
                if message:
                    break
            elif message and match["error"] and text != message:
                break
        if message:
            return f"{location}: the compiler says: {message}"
        for line in errors.splitlines():
            for symbol in re.findall(r"undefined reference to [`'](.*)'", line):
                return (
                    f"{self.sources[0]}: {symbol} is declared but not defined in these files; "
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
                _, hard = resource.getrlimit(kind)
                if hard != resource.RLIM_INFINITY:
                    value = min(value, hard)
                with suppress(ValueError, OSError):  # limits that a system does not have
                    resource.setrlimit(kind, (value, value))
            if folder and sys.platform == "linux":
                confine(self.folder)

        self._started += 1
        # To a file: a child that outlives the program would keep a pipe open.
        with (self.folder / f"stderr{self._started}.txt").open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                cwd=folder or self.folder,
                env=os.environ | {"LC_ALL": "C", "TMPDIR": str(self.folder)} | (environment or {}),
                start_new_session=True,
                preexec_fn=limit,
            )
        self._stderr_of[process.pid] = Path(output.name)
        return process

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> str:
        """Wait for a command, end all its processes, and return its standard error."""
        try:
            process.wait(timeout=seconds)
        finally:
            end_group(process, str(self.folder))
        with self._stderr_of[process.pid].open("rb") as output:
            return output.read(1 << 20).decode(errors="replace")

    def _call_of_top(self) -> str:
        """Return a main function that calls the top function with zeros; empty with a test bench."""
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
        source = self.design.source(top.file)
        for number, parameter in enumerate(top.parameters):
            names_here = list(declared(parameter))
            if not names_here:
                if [token.text for token in parameter] == ["void"]:
                    continue
                raise UnreadableFile(
                    f"{file}:{top.line}: no zeros for parameter {number + 1} of {top.name}; "
                    "give a test bench"
                )
            name, suffix = names_here[0]
            kind = source.text[parameter[0].start : name.start].strip()
            kind = re.sub(r"\bconst\b|\b__restrict__\b|&", " ", kind).strip()
            is_array = suffix and suffix[0].text == "["
            dimensions = source.text[suffix[0].start : suffix[-1].end] if is_array else ""
            if dimensions.startswith("[]"):
                dimensions = f"[65536]{dimensions[2:]}"
            if kind.endswith("*"):
                kind, dimensions = kind[:-1].strip(), "[65536]"
            text += f"static {kind} csdf_p{number}{dimensions};"
            text += f"::csdf_trace::endless(csdf_p{number});"
            names.append(f"csdf_p{number}")
        return text + f"{top.name}({','.join(names)});return 0;}}\n"

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
            reason = f"it was ended by a signal: {signal.strsignal(-process.returncode)}"
        else:
            reason = f"it ended with exit code {process.returncode}"
        last_words = f"; its last words: {last[:200]}" if last else ""
        raise UnreadableFile(
            f"{file}: the run of the program did not reach the end of {self.top.name}: "
            f"{reason}{last_words}"
        )

    def _reason(self, fields: list[str], call: int) -> str:
        """Return the reason why the recorder stopped, in words. fields: of the line that it wrote."""
        named = [PROCESS.sub(self._process_named, field) for field in fields[1:]]
        what, subject, more = [*named, "", "", ""][:3]
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

    def _process_named(self, match: re.Match[str]) -> str:
        """Return the name and line of a process; match: PROCESS."""
        number = int(match["site"])
        if number == TOP_SITE:
            return self.top.name
        site = self.instrumented.sites[number - FIRST_SITE]
        return f"process {site.name} (line {site.line})"

    def shown_path(self, number: int) -> Path:
        """Return the path of a source as the user called it."""
        path = self.design.source(number).path
        return self.shown.get(path, path)
