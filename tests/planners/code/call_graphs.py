"""Stack of a compiled library: frames and calls by gcc, and by the disassembly where gcc prints none.

gcc prints the frame of each C function and its calls (-fcallgraph-info=su). Frames of functions in
assembly, and of the C library, are read from the disassembly. The line of a call by pointer tells
whether it calls a kernel of the tables, a function that is fused after a kernel, or a function
without another caller.
"""

import itertools
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple


class Core(NamedTuple):
    """A compiler for a core. prefix: of the names of its tools. options: of gcc."""

    prefix: str
    options: tuple[str, ...]


ARM, RISCV = "arm-none-eabi-", "riscv64-unknown-elf-"
THUMB = "-mthumb"
CORES = {
    "cortex-m0plus": Core(ARM, ("-mcpu=cortex-m0plus", THUMB, "-mfloat-abi=soft")),
    "cortex-m4": Core(ARM, ("-mcpu=cortex-m4", THUMB, "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")),
    "cortex-m55": Core(ARM, ("-mcpu=cortex-m55", THUMB, "-mfloat-abi=hard")),
    "rv32": Core(RISCV, ("-march=rv32imac", "-mabi=ilp32", "-specs=picolibc.specs")),
}
INDIRECT = "__indirect_call"
NEVER = -(2**20)
_NODE = re.compile(r'node: \{ title: "([^"]*)" label: "([^"]*)"')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"(?: label: "([^"]*)")?')
_CALL = re.compile(r"^(?:bl|blx|b|b\.w|b\.n|jal|j|call|tail)\s.*<([\w.$]+)>")
_SUBTRACTED = re.compile(r"sub(?:w|\.w)? sp, (?:sp, )?#(\d+)|addi sp, ?sp, ?-(\d+)")
_ADDED = re.compile(r"add(?:w|\.w)? sp, (?:sp, )?#(\d+)|addi sp, ?sp, ?(\d+)")


def has_compiler(core):
    return shutil.which(f"{CORES[core].prefix}gcc") is not None


class CallGraph:
    """Functions of a library, their frames and calls. The library is compiled in its folder."""

    def __init__(self, folder, name, core, level="-O2"):
        self.folder, self.name, self.core, self.level = Path(folder), name, CORES[core], level
        self.frames, self.calls = {}, defaultdict(list)
        self._depths, self._aboves = {}, {}
        (self.folder / "stack").mkdir(exist_ok=True)
        self._compile()
        self._lines = {
            f"src/{path.name}": path.read_text().splitlines()
            for path in self.folder.glob("src/*.[ch]")
            if "weights" not in path.name
        }
        self.text = "\n".join(itertools.chain.from_iterable(self._lines.values()))
        for line in (self.folder / f"stack/{name}.ci").read_text().splitlines():
            if node := _NODE.match(line):
                if size := re.search(r"(\d+) bytes \((static|dynamic,bounded)", node[2]):
                    self.frames[node[1]] = int(size[1])
                assert "(dynamic)" not in node[2], line
            elif edge := _EDGE.match(line):
                self.calls[edge[1]].append((edge[2], edge[3] or ""))
        self._titles = defaultdict(list)  # of each function and its copies for constant arguments
        for title in self.frames:
            self._titles[title.rpartition(":")[2].split(".")[0]].append(title)
        self._add_assembly()
        self.outside = self._outside()
        self.kernels = self._in_tables("compute") | set(
            re.findall(r"^\s*\{&tensors\[\d+\], (\w+),", self.text, re.MULTILINE)
        )
        self._fused = self._in_tables("apply")
        called = {target for calls in self.calls.values() for target, _ in calls}
        self._pointed = [
            title
            for title in self.frames
            if ":" in title
            and title not in called
            and title not in self.titles(self.kernels | self._fused)
        ]

    def titles(self, names):
        return [title for name in sorted(names) for title in self._titles[name]]

    def bytes(self):
        """Stack of the deepest chain of calls, and the names of its functions."""
        return max(self.depth(title) for title in self.frames if ":" not in title)

    def kernel_bytes(self, kernel):
        return max((self.depth(title)[0] for title in self._titles[kernel]), default=0)

    def scheduler_bytes(self):
        """Stack of the functions above a kernel."""
        return max(self._above(title) for title in self.frames if ":" not in title)

    def depth(self, title):
        """Stack of a function and what it calls, and the names of the deepest chain."""
        if title not in self.frames:
            return self.outside.get(title, 0), (title,)
        if title not in self._depths:
            self._depths[title] = 0, ()  # in a loop of possible calls; the tables have none
            deepest = max((self.depth(target) for target in self._targets(title)), default=(0, ()))
            name = title.rpartition(":")[2]
            self._depths[title] = self.frames[title] + deepest[0], (name, *deepest[1])
        return self._depths[title]

    def _above(self, title):
        """Stack of a function and those between it and a kernel; negative if it calls no kernel."""
        if title not in self.frames:
            return NEVER
        if title not in self._aboves:
            self._aboves[title] = NEVER
            kernels = set(self.titles(self.kernels))
            below = (
                0 if target in kernels else self._above(target) for target in self._targets(title)
            )
            self._aboves[title] = self.frames[title] + max(below, default=NEVER)
        return self._aboves[title]

    def _targets(self, title):
        for target, position in self.calls[title]:
            yield from self._behind_pointer(title, position) if target == INDIRECT else (target,)

    def _behind_pointer(self, title, position):
        file, _, rest = position.partition(":")
        lines = self._lines.get(file)
        line = lines[int(rest.split(":")[0]) - 1] if lines else ""
        if ".apply(" in line:
            return self.titles(self._fused)
        if "compute(" in line or title.endswith(":store_blocks"):
            return self.titles(
                self.kernels - {"store_blocks"} if "store" in title else self.kernels
            )
        return self._pointed

    def _in_tables(self, member):
        return set(re.findall(rf"\.{member} = (\w+)", self.text)) - {"NULL"}

    def _run(self, tool, *words):
        done = subprocess.run(
            [self.core.prefix + tool, *words], cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _compile(self):
        self._run(
            "gcc", *self.core.options, *("-std=c99", self.level, "-w", "-Iinclude"),
            *("-ffunction-sections", "-fcallgraph-info=su", "-c"),
            *(f"src/{self.name}.c", "-o", f"stack/{self.name}.o"),
        )  # fmt: skip

    def _add_assembly(self):
        names = set(re.findall(r"^NAKED static \w+ (\w+)\(", self.text, re.MULTILINE))
        bodies = _functions(
            self._run("objdump", "-d", "--no-show-raw-insn", f"stack/{self.name}.o")
        )
        for title in self.titles(names):
            self.frames[title] = _frame(bodies[title.rpartition(":")[2]])

    def _outside(self):
        """Stack of each function of the C library, by all its names."""
        self._run(
            "gcc", *self.core.options, *("-nostartfiles", f"stack/{self.name}.o"),
            "-Wl,--unresolved-symbols=ignore-all,--no-gc-sections,-e,0",
            "-Wl,--defsym=__flash_size=0x1000000",  # of the script of picolibc
            *("-lm", "-lc", "-lgcc", "-o", "stack/linked.elf"),
        )  # fmt: skip
        bodies = _functions(self._run("objdump", "-d", "--no-show-raw-insn", "stack/linked.elf"))
        calls = {
            name: {match[1] for line in body if (match := _CALL.match(line))}
            for name, body in bodies.items()
        }
        frames = {name: _all_pushed(body) for name, body in bodies.items()}

        def depth(name, path):
            if name in path or name not in frames:
                return 0
            return frames[name] + max(
                (depth(callee, (*path, name)) for callee in calls[name]), default=0
            )

        by_address = defaultdict(list)
        for line in self._run("nm", "stack/linked.elf").splitlines():
            address, *kind, name = line.split()
            if kind and kind[0] in "tTwW":
                by_address[int(address, 16) & ~1].append(name)
        return {
            name: max((depth(alias, ()) for alias in names), default=0)
            for names in by_address.values()
            for name in names
        }


def _functions(disassembly):
    """The instructions of each function."""
    bodies, body = {}, []
    for line in disassembly.splitlines():
        if head := re.match(r"[0-9a-f]+ <([\w.$]+)>:", line):
            body = bodies.setdefault(head[1], [])
        elif "\t" in line:
            text = line.split("\t", 1)[1].split(";")[0].split("@")[0]
            body.append(re.sub(r"\s+", " ", text).strip())
    return bodies


def _change(text):
    """The bytes that an instruction pushes; negative if it pops."""
    if re.match(r"(push|stmdb sp!|vpush)", text):
        return _register_bytes(text)
    if re.match(r"(pop|ldmia(\.w)? sp!|vpop)", text):
        return 0 if "pc" in text else -_register_bytes(text)
    for pattern, sign in ((_SUBTRACTED, 1), (_ADDED, -1)):
        if match := pattern.match(text):
            return sign * int(next(filter(None, match.groups())))
    if match := re.search(r"\[sp, #-(\d+)\]!", text):
        return int(match[1])
    match = re.search(r"\[sp\], #(\d+)", text)
    return -int(match[1]) if match else 0


def _register_bytes(text):
    inside = re.search(r"\{([^}]*)\}", text)[1]
    for name, number in (("sl", "r10"), ("fp", "r11"), ("ip", "r12"), ("lr", "r14"), ("pc", "r15")):
        inside = inside.replace(name, number)
    count = 0
    for part in inside.split(","):
        first, _, last = part.strip().partition("-")
        count += int(last[1:]) - int(first[1:]) + 1 if last else 1
    return count * (8 if inside.startswith("d") else 4)


def _frame(body):
    """Stack of a function of assembly whose instructions follow one another."""
    depth = most = 0
    for text in body:
        depth += _change(text)
        most = max(most, depth)
    return most


def _all_pushed(body):
    """Stack of a compiled function at most: all that its instructions push."""
    return sum(max(0, _change(text)) for text in body)
