"""Quantised networks as C libraries beside other runtimes: RAM, flash, time here, instructions.

Run `python -m tests.benchmarks.bench_firmware_kernels [--cmsis-nn FOLDER] FILE [FILE ...]`. For each
file the plans layer by layer, row by row, and of the least memory, with the kernels of this package,
and with those of CMSIS-NN from that folder, as `csdf deploy --kernels cmsis-nn` calls them. Each
library runs here under sanitizers and on an emulated Cortex-M4 and M55; outputs are compared first,
golden ones where the file has some. RAM: arena, state and stack; flash: code and tables, with the
kernels of CMSIS-NN that are linked, and parameters. Then the peers that are there: TensorFlow Lite
Micro (package tflite-micro), XNNPACK (ai-edge-litert); others say why they are absent.
Needs Debian's make, gcc, gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm.
"""

import argparse
import re
import shutil
import subprocess
from contextlib import contextmanager, nullcontext
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time_ns

import numpy as np

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.errors import UnsupportedOperator
from planners.code.library import write_library
from planners.code.parts import CMSIS_NN, OWN
from planners.code.vectors import placed, random_frame
from planners.formats.tflite_micro_arena import interpreter_arena
from planners.memory.fit import fit
from tests.benchmarks.bench_firmware import SANITIZERS, made, number, sizes_of
from tests.cnn2csdf.readers.test_tflite_golden import READ, frames_and_outputs, golden_model

TARGETS = ("m4", "m55")
PLANS = ("layer by layer", "row by row", "least")
DIRECT = {  # thousand instructions of the same layers as calls of CMSIS-NN, -O2; on the M4, on the M55
    "kws_int8": (7_696, 1_812),
    "ic_resnet8_int8": (29_860, 4_909),
    "person_detect_int8": (22_921, 6_499),
    "ad01_int8": (580, 283),
}
HEADER = (
    *("network", "plan", "kernels", "MACs of CMSIS-NN", "arena", "state M4, M55", "stack M4, M55"),
    *(
        "code and tables",
        "parameters",
        "M4",
        "beside CMSIS-NN",
        "M55",
        "beside CMSIS-NN",
        "here, ms",
    ),
)
CALLS = 20  # of a frame here, of which the shortest counts
TIMED = """
#include <stdio.h>
#include <time.h>
static double least_time(void)
{
    double least = 1e9;
    int call;
    for (call = 0; call < CALLS; call++) {
        struct timespec from, to;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        FRAME;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        {
            double seconds = (double)(to.tv_sec - from.tv_sec);
            double took = seconds * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
            least = took < least ? took : least;
        }
    }
    return least;
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cmsis-nn", metavar="FOLDER", help="with CMSIS-NN, at the commit pinned")
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=PLANS)
    parser.add_argument("--kernels", nargs="+", choices=(OWN, CMSIS_NN), default=(OWN, CMSIS_NN))
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    print(as_row(HEADER))
    print("|---" * len(HEADER) + "|")
    ratios = {}
    with TemporaryDirectory() as kept:
        for file in options.files:
            for cells in rows_of(file, options, Path(kept)):
                note_ratios(cells, ratios)
                print(as_row(cells), flush=True)
    for (plan, kernels, target), each in ratios.items():
        print(f"\n{plan}, {kernels}, {target}: {prod(each) ** (1 / len(each)):.2f} times CMSIS-NN")
    print()
    for file in options.files:
        for cells in peers_of(file):
            print(as_row((Path(file).stem, *cells)), flush=True)


def as_row(cells):
    return f"| {' | '.join(map(str, cells))} |"


def note_ratios(cells, ratios):
    for target, place in zip(TARGETS, (10, 12), strict=True):
        if cells[place] != "-":
            ratios.setdefault((*cells[1:3], target), []).append(float(cells[place]))


def rows_of(file, options, kept):
    name = Path(file).stem
    model = simplified(golden_model(name) if name in READ else read_model(file, with_weights=True))
    frames, wanted = golden_of(name, model)
    found = fit(model.network)
    plans = {way.name: way.plan for way in found.methods} | {"least": found.least.plan}
    seen = []
    for plan in (one for one in PLANS if one in options.plans and one in plans):
        if plans[plan] in seen:
            continue
        seen.append(plans[plan])
        for kernels in options.kernels:
            if kernels == CMSIS_NN and options.cmsis_nn is None:
                continue
            try:
                with TemporaryDirectory() as folder:
                    library = write_library(
                        model, plans[plan], folder, name="net", frames=frames, kernels=kernels
                    )
                    require_golden(library, wanted)
                    measured = counted(library, plans[plan], folder, options.cmsis_nn, kept)
            except UnsupportedOperator:
                yield (name, plan, kernels, "0%", *["-"] * (len(HEADER) - 4))
                continue
            yield (name, plan, kernels, *with_ratios(name, measured))


def with_ratios(name, cells):
    """The cells with the instructions beside those of direct calls."""
    *before, m4, m55, here = cells
    direct = DIRECT.get(name)
    beside = ["-", "-"]
    if direct is not None:
        beside = [f"{mine / other:.2f}" for mine, other in zip((m4, m55), direct, strict=True)]
    return (*before, f"{m4:,}", beside[0], f"{m55:,}", beside[1], here)


def golden_of(name, model):
    """Golden frames with their outputs; none where the file has none."""
    if name not in READ:
        return None, None
    return frames_and_outputs(name, model.network)


def require_golden(library, wanted):
    """Require that the test program compares with the golden bytes."""
    for place, outputs in enumerate(wanted or ()):
        for port in library.written.outputs:
            text = library.files["test/main.c"]
            start = text.index(f" {port.parameter}_{place}[")
            inside = text[text.index("{", start) + 1 : text.index("}", start)]
            listed = [float(one.strip().rstrip("f")) for one in inside.split(",") if one.strip()]
            if not np.array_equal(np.float32(listed), np.float32(placed(outputs[port.layer]))):
                raise SystemExit(f"{library.name}: not the golden bytes")


def counted(library, plan, folder, source, kept):
    """Cells on a library, whose outputs are compared here and on each target."""
    used = library.written.cmsis_nn
    words = [f"CMSIS_NN={source}"] if used else []
    share = f"{used.multiply_accumulates / max(plan.multiply_accumulates, 1):.0%}" if used else "-"
    blocks = " -DNET_BLOCKS" if used else ""
    plain = "CMSIS_NN_FLAGS=-fno-sanitize=undefined"  # it shifts negative integers
    with archives(folder, kept, "sanitized") if used else nullcontext():
        made(folder, "test", *words, f"CFLAGS=-O1 {SANITIZERS}{blocks}", plain)
    Path(folder, "build", "test").unlink()
    with archives(folder, kept, "timed") if used else nullcontext():
        here = time_here(library, folder, words)
    states, stacks, counts = [], [], []
    for target in TARGETS:
        with archives(folder, kept, target) if used else nullcontext():
            said = made(folder, "instructions", f"TARGET={target}", *words)
        states.append(number(said, "state"))
        stacks.append(number(said, "stack"))
        counts.append(int(re.search(r"instructions of a frame: (\d+)", said)[1]))
    code = sizes_with_cmsis_nn(folder, words) if used else sizes_of(folder)[0][0]
    return (
        *(share, f"{plan.arena_bytes:,}", pair(states), pair(stacks)),
        *(f"{code:,}", f"{library.written.weight_bytes:,}", *counts, f"{here:.2f}"),
    )


def pair(numbers):
    return ", ".join(f"{one:,}" for one in numbers)


@contextmanager
def archives(folder, kept, kind):
    """The kernels of CMSIS-NN as they were made before, and kept for the next library."""
    name = f"cmsis-nn-{kind}.a" if kind in TARGETS else "cmsis-nn.a"
    there, here = Path(folder, "build", name), kept / f"{kind}.a"
    there.parent.mkdir(exist_ok=True)
    if here.exists():
        shutil.copy(here, there)
    else:
        there.unlink(missing_ok=True)
    yield
    if not here.exists():
        shutil.copy(there, here)


def sizes_with_cmsis_nn(folder, words):
    """Code and tables of the library on the Cortex-M4, and of what is linked from CMSIS-NN."""
    subprocess.run(["make", "-s", "-C", folder, "size", *words], capture_output=True, check=True)
    mapped = (
        Path(folder, "build/m4/target.map").read_text().split("Linker script and memory map")[1]
    )
    sizes = re.findall(r"0x[0-9a-f]+\s+(0x[0-9a-f]+)\s+\S*cmsis-nn-m4\.a\(", mapped)
    found = subprocess.run(
        ["arm-none-eabi-size", f"{folder}/build/m4/net.o"], capture_output=True, text=True
    ).stdout
    return int(found.splitlines()[1].split()[0]) + sum(int(one, 16) for one in sizes)


def time_here(library, folder, words):
    """The least processor time of a frame here at -O2, in milliseconds."""
    written = library.written
    ports = [f"found_{port.parameter}" for port in written.outputs]
    given = [f"{port.parameter}_0" for port in written.inputs]
    verb = "invoke" if written.keeps_state else "run"
    frame = f"net_{verb}({', '.join(['&state', *given, *ports])})"
    text = Path(folder, "test", "main.c").read_text().split("#ifndef NO_MAIN")[0]
    text = f"#define _POSIX_C_SOURCE 199309L\n{text}\n#define CALLS {CALLS}\n#define FRAME {frame}"
    Path(folder, "test", "timed.c").write_text(
        f'{text}\n{TIMED}int main(void) {{ if (net_test()) return 1; printf("%f\\n", least_time());'
        " return 0; }\n"
    )
    subprocess.run(
        ["make", "-s", "-C", folder, "build/test", "TESTS=test/timed.c", "CFLAGS=-O2", *words],
        check=True,
        capture_output=True,
    )
    ran = subprocess.run([f"{folder}/build/test"], capture_output=True, text=True, check=True)
    return float(ran.stdout)


def peers_of(file):
    """Cells for each peer: its name, its arena, its time here, its outputs, or why it is absent."""
    model = simplified(read_model(file, with_weights=True))
    frame = random_frame(model.network, 1)
    wanted = [placed(one) for one in run_layer_by_layer(model, frame).values()]
    for name, run in (("TensorFlow Lite Micro", in_micro), ("XNNPACK, one thread", in_xnnpack)):
        try:
            call, outputs, arena = run(file, model, frame)
        except (ImportError, ValueError, RuntimeError) as error:
            yield name, "absent", str(error)[:80]
            continue
        call()
        away = [
            np.abs(one - np.float64(other)).max()
            for one, other in zip(outputs(), wanted, strict=True)
        ]
        yield name, arena, f"{least_time(call):.2f} ms", f"outputs differ by {max(away):g} at most"
    if shutil.which("onnx2c") is None:
        yield "onnx2c", "absent", "no program onnx2c; it reads no TFLite files either"


def given(details, model, frame):
    return [
        placed(frame[layer.name]).reshape(one["shape"])
        for layer, one in zip(model.network.inputs, details, strict=True)
    ]


def in_micro(file, model, frame):
    """Its reference kernels, and the arena that they need on 32-bit Arm."""
    from tflite_micro import runtime

    other = runtime.Interpreter.from_file(file)
    places = range(len(model.network.inputs)), range(len(model.network.outputs))
    arrays = given([other.get_input_details(place) for place in places[0]], model, frame)

    def call():
        for place, array in enumerate(arrays):
            other.set_input(array, place)
        other.invoke()

    def outputs():
        return [other.get_output(place).reshape(-1).copy() for place in places[1]]

    arena = interpreter_arena(Path(file).read_bytes(), file)
    return call, outputs, f"{arena.size(arena.head(arena.placed({}))):,}"


def in_xnnpack(file, model, frame):
    from ai_edge_litert.interpreter import Interpreter

    other = Interpreter(model_path=file, num_threads=1)
    other.allocate_tensors()
    details = other.get_input_details()
    arrays = given(details, model, frame)

    def call():
        for one, array in zip(details, arrays, strict=True):
            other.set_tensor(one["index"], array)
        other.invoke()

    def outputs():
        return [other.get_tensor(one["index"]).reshape(-1) for one in other.get_output_details()]

    return call, outputs, "-"


def least_time(call):
    best = float("inf")
    for _ in range(CALLS):
        before = process_time_ns()
        call()
        best = min(best, (process_time_ns() - before) / 1e6)
    return best


if __name__ == "__main__":
    main()
