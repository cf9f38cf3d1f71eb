"""RAM, flash and instructions of networks as C libraries, here and on emulated microcontrollers.

Run `python tests/benchmarks/bench_firmware.py MODEL [MODEL ...]`: model files or networks of the
catalogue, random numbers where they bring none. For each the least memory with the input by row and
resident: the test program built with gcc and clang, run here, on a Cortex-M4 and on a Cortex-M55.
Needs Debian's gcc, clang, make, gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.code.library import write_library
from planners.streaming.fit import fit
from planners.streaming.ways import INPUTS

BUDGET = 60.0  # seconds for each plan
RUNS = (
    ("test", "CC=gcc", "CFLAGS=-O2 -Werror"),
    ("clean", "test", "CC=clang", "CFLAGS=-O2 -Werror"),
    ("qemu",),
    ("qemu-m55",),
    ("instructions",),
)


def main(sources):
    print("| network | input | arena | state | stack M4, M55 | code | trained | instructions |")
    for source in sources:
        model = simplified(read_model(source, with_weights=True))
        if model.weights is None:
            weights = random_weights(model.network, 0)
            model = Model(network=model.network, weights=weights)
        for input_ in INPUTS:
            plan = fit(model.network, input=input_, budget=BUDGET).least.plan
            with TemporaryDirectory() as folder:
                print(row(Path(source).stem, input_, model, plan, folder), flush=True)


def row(name, input_, model, plan, folder):
    library = write_library(model, plan, folder, name="net")
    said = [made(folder, *words) for words in RUNS]
    objects = [f"{folder}/build/m4/net{kind}.o" for kind in ("", "_weights")]
    sizes = subprocess.run(["arm-none-eabi-size", *objects], capture_output=True, text=True).stdout
    parts = [[int(word) for word in line.split()[:3]] for line in sizes.splitlines()[1:]]
    assert [one[1:] for one in parts] == [[0, 0], [0, 0]], "the library has memory of its own"
    assert number(said[2], "arena") == plan.arena_bytes
    assert number(said[2], "state") <= library.written.state_bytes
    stacks = ", ".join(str(number(text, "stack")) for text in said[2:4])
    million = int(re.search(r"instructions of a frame: (\d+)", said[4])[1]) / 1000
    cells = (name, input_, plan.arena_bytes, number(said[2], "state"), stacks)
    return f"| {' | '.join(map(str, cells))} | {parts[0][0]} | {parts[1][0]} | {million:.1f} M |"


def made(folder, *words):
    ran = subprocess.run(["make", "-s", "-C", folder, *words], capture_output=True, text=True)
    said = ran.stdout + ran.stderr
    if ran.returncode or "outputs equal" not in said:
        raise SystemExit(f"make {' '.join(words)}: {said}")
    return said


def number(said, what):
    return int(re.search(rf"{what} bytes: (\d+)", said)[1])


if __name__ == "__main__":
    main(sys.argv[1:])
