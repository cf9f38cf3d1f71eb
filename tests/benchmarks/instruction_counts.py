"""Instructions of emitted C as QEMU counts them: of a frame, and of each stage of its plan.

Needs Debian's make, gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm; for riscv32
gcc-riscv64-unknown-elf, picolibc-riscv64-unknown-elf, qemu-system-misc.
"""

import json
import re
import shutil
import subprocess
from collections import Counter
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from planners.code.library import write_folder
from planners.code.parts import source
from planners.code.programs import arrays_of
from planners.memory.stages import StageTable
from planners.rewrites.rematerialisation import executed_layers

HERE = Path(__file__).parent / "counting"
CORES = {
    "m4": ("TARGET=m4",),
    "m55": ("TARGET=m55",),
    "m0plus": (  # the same instructions on a larger core
        "TARGET=m4",
        "CORE_m4=-mcpu=cortex-m0plus -mthumb -mfloat-abi=soft",
    ),
    "riscv32": (
        "TARGET=riscv32",
        "ARM=riscv64-unknown-elf-",
        "CORE_riscv32=-march=rv32imac -mabi=ilp32 -specs=picolibc.specs",
        "QUARTERS=4",
        "QEMU=qemu-system-riscv32 -M virt -m 64M -bios none -icount shift=0",
    ),
}
WORK = 2 * 10**5  # multiply-accumulates that are counted at least, in frames of a smaller network
SECONDS = 300  # after which a program is stopped
MOST_FRAMES, TURNS = 40, 1000  # TURNS: of what counts, alone
TIMED_OUT = 124  # exit status of `timeout`
OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")  # of the linker
FILLED = """
    {{
        {kind} *values = {name};
        for (i = 0; i < {elements}; i++) {{
            values[i] = {value};
        }}
    }}"""
VALUES = {"float": "(float)draw() / 32768.0f - 1.0f"}  # other elements: the integers drawn


class Counts(dict):
    """Counts by a digest of the C in a file of JSON lines; a text is the reason why there is none."""

    def __init__(self, path):
        """Read the file, if there is one."""
        self.path = Path(path)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        super().__init__(map(json.loads, lines))

    def __setitem__(self, digest, numbers):
        """Append a count to the file."""
        super().__setitem__(digest, numbers)
        with self.path.open("a") as file:
            file.write(json.dumps([digest, numbers]) + "\n")


def counted(made, network, plan, core, known):
    """Return instructions of a frame of a library, and of the firings of each stage, by its result.

    Random numbers come in. What counts the stages takes instructions of its own, which are taken off.
    known: counts by a digest of the C, to which new counts are added. Raises RuntimeError with the
    reason where nothing was counted.
    """
    frames = max(1, min(MOST_FRAMES, WORK // max(plan.multiply_accumulates, 1)))
    program = _program(made.written, frames)
    texts = (core, program, made.written.whole_source, made.written.weights, made.written.header)
    digest = sha256("".join(texts).encode()).hexdigest()[:16]
    if digest not in known:
        known[digest] = _numbers(made, program, core)
    numbers = known[digest]
    if isinstance(numbers, str):
        raise RuntimeError(numbers)  # noqa: TRY004 - the reason why nothing was counted
    around, within, total, *spent = numbers
    firings = _firings(network, plan)
    stages = Counter()
    for name, number in zip(made.written.stages, spent, strict=True):
        stages[name] += number / frames
    for name in stages:
        stages[name] -= within / TURNS * firings[name]
    return total / frames - around / TURNS * sum(firings.values()), stages


def _firings(network, plan):
    """How often each stage fires in a frame, by its result."""
    table, found = StageTable(executed_layers(network, plan.rematerialised)[0]), Counter()
    for group in plan.groups:
        for one in group.stages:
            found[one.result] += table.geometry(one).firings.count
    return found


def _numbers(made, program, core):
    """The numbers that the program prints, or the reason why there are none."""
    with TemporaryDirectory() as folder:
        write_folder(folder, made.files)
        Path(folder, "test/count.c").write_text(program)
        if core == "riscv32":
            shutil.copy(HERE / "riscv32_target.c", Path(folder, "target/target.c"))
            shutil.copy(HERE / "riscv32.ld", Path(folder, "target/target_riscv32.ld"))
        words = ("BUILD=build/counted", "TESTS=test/count.c", "COUNTED=-DCOUNTED")
        flags = "WARNINGS=-std=c99 -w -DNET_PROFILE"
        given = ("ICOUNT=-icount shift=0", *words, flags, *CORES[core])
        words = ["timeout", str(SECONDS), "make", "-s", "-C", folder, *given, "qemu"]
        ran = subprocess.run(words, capture_output=True, text=True)
    printed = ran.stdout + ran.stderr
    numbers = [int(line) for line in printed.split() if line.isdigit()]
    if not ran.returncode and len(numbers) == 3 + len(made.written.stages):
        return numbers
    if ran.returncode == TIMED_OUT:
        return f"not compiled and executed within {SECONDS} s"
    overflow = OVERFLOW.search(printed)
    return f"{overflow[2]} bytes beyond {overflow[1]}" if overflow else printed[-300:]


def _program(written, frames):
    filled = "".join(
        FILLED.format(
            kind=one.kind,
            name=one.parameter,
            elements=one.elements,
            value=VALUES.get(one.kind, f"({one.kind})draw()"),
        )
        for one in written.inputs
    )
    ports = (*written.inputs, *written.outputs)
    arrays = [f"static {one.kind} {one.parameter}[{one.elements}];" for one in ports]
    verb = "invoke" if written.keeps_state else "run"
    names = ", ".join(["&state", *(one.parameter for one in ports)])
    macros = {
        "NET": "net",
        "STAGES": len(written.stages),
        "FRAMES": frames,
        "INIT": written.init_call(),
        "CALL": f"net_{verb}({names})",
    }
    text = (HERE / "count.c").read_text().replace("NET_", "net_").replace("    FILL;", filled)
    defined = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return (
        f'#include "net.h"\n{defined}{arrays_of(written)}\nstatic net_state state;\n'
        + "\n".join([*arrays, source("say.c"), text])
    )
