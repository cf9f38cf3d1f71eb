"""RAM, flash and instructions of networks as C libraries, here and on emulated microcontrollers.

Run `python tests/benchmarks/bench_firmware.py MODEL [MODEL ...]`: model files or networks of the
catalogue, random numbers where they bring none. For each the least memory with the input by row and
resident: the test program built with gcc and clang, run here, on a Cortex-M4 and on a Cortex-M55.
Needs Debian's gcc, clang, make, gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm.
"""

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.errors import ExecutionError
from planners.code.library import write_library
from planners.memory.answer import RESIDENT, ROWS
from planners.memory.fit import fit
from tests.planners.code.calibrated import integer_model, real_model

BUDGET = 10.0  # seconds for each plan
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
HERE = (
    ("test", "CC=gcc", "CFLAGS=-O2 -Werror"),
    ("clean", "test", "CC=clang", "CFLAGS=-O2 -Werror"),
    ("clean", "test", "CC=gcc", f"CFLAGS=-O1 {SANITIZERS}"),
)
THERE = (("qemu",), ("qemu-m55",), ("instructions",))
PLACES = (ROWS, RESIDENT)


def main(sources):
    print("| network | input | arena | state | stack M4, M55 | code | trained | instructions |")
    for source in sources:
        for name, model in models(source):
            for input_ in PLACES:
                plan = fit(model.network, input=input_, budget=BUDGET).least.plan
                with TemporaryDirectory() as folder:
                    print(row(name, input_, model, plan, folder), flush=True)


def models(source):
    """The model of a file; of the catalogue the one in real numbers, and in integers if it can be."""
    if Path(source).exists():
        yield Path(source).stem, simplified(read_model(source, with_weights=True))
        return
    yield f"{source}, float", real_model(from_catalogue(source))
    with suppress(ExecutionError):  # an operator without an integer form
        yield f"{source}, int8", integer_model(from_catalogue(source))


def row(name, input_, model, plan, folder):
    library = write_library(model, plan, folder, name="net")
    here = [made(folder, *words) for words in HERE]
    there = [made(folder, *words) for words in THERE]  # None where the memory does not suffice
    sizes = sizes_of(folder)
    assert [one[1:] for one in sizes] == [[0, 0], [0, 0]], "the library has memory of its own"
    for said in (here[0], *filter(None, there[:2])):
        assert number(said, "arena") == plan.arena_bytes
        assert number(said, "state") <= library.written.state_bytes
    state = number(next(filter(None, there), here[0]), "state")
    stacks = ", ".join("-" if said is None else str(number(said, "stack")) for said in there[:2])
    count = "-"
    if there[2] is not None:
        thousands = int(re.search(r"instructions of a frame: (\d+)", there[2])[1])
        count = f"{thousands / 1000:.1f} M"
    cells = (name, input_, plan.arena_bytes, state, stacks, sizes[0][0], sizes[1][0], count)
    return f"| {' | '.join(map(str, cells))} |"


def sizes_of(folder):
    """.text, .data and .bss of the library and of its parameters."""
    objects = [f"{folder}/build/m4/net{kind}.o" for kind in ("", "_weights")]
    subprocess.run(["make", "-s", "-C", folder, *objects_of()], capture_output=True, check=True)
    said = subprocess.run(["arm-none-eabi-size", *objects], capture_output=True, text=True).stdout
    return [[int(word) for word in line.split()[:3]] for line in said.splitlines()[1:]]


def objects_of():
    return [f"build/m4/net{kind}.o" for kind in ("", "_weights")]


def made(folder, *words):
    ran = subprocess.run(["make", "-s", "-C", folder, *words], capture_output=True, text=True)
    said = ran.stdout + ran.stderr
    if "region `CODE' overflowed" in said:
        return None
    if ran.returncode or "outputs equal" not in said:
        raise SystemExit(f"make {' '.join(words)}: {said}")
    return said


def number(said, what):
    return int(re.search(rf"{what} bytes: (\d+)", said)[1])


if __name__ == "__main__":
    main(sys.argv[1:])
