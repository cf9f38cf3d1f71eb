"""Networks as C libraries beside other runtimes: RAM, flash, instructions, time here.

Run `python -m tests.benchmarks.bench_firmware_kernels [options] NETWORK [NETWORK ...]`: TFLite files,
or networks of the catalogue in real numbers. For each the plans layer by layer, row by row and of the
least memory, with the kernels of this package; and the first two, given --cmsis-nn, with the kernels
of CMSIS-NN as `csdf deploy --kernels cmsis-nn` calls them. Beside them, of what is there: TensorFlow
Lite Micro on the same emulated cores, built from folders, with its reference kernels and with
CMSIS-NN; onnx2c; and here XNNPACK (package ai-edge-litert) and the reference kernels of the package
tflite-micro. What is absent is said. Nothing is fetched.

Outputs are compared before anything is counted: with the golden ones of a file, else with those of
the package tflite-micro. Each library runs here and on an emulated Cortex-M4 and M55.
--results keeps what was measured: a network and way that is there is not measured again.
Needs Debian's make, gcc, gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm.
"""

import argparse
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import UnsupportedOperator
from planners.code.frames import random_frame
from planners.code.library import write_library
from planners.code.parts import CMSIS_NN, OWN
from planners.memory.fit import fit
from tests.benchmarks.comparing import onnx2c, runtimes, tflite_micro
from tests.benchmarks.comparing.firmware import (
    TARGETS,
    TIMED,
    made,
    number,
    said,
    sizes,
)
from tests.benchmarks.comparing.firmware_tables import tables
from tests.cnn2csdf.readers.test_tflite_golden import FOLDER, in_our_order
from tests.planners.code.calibrated import real_model

PLANS = ("layer by layer", "row by row", "least")


class Case(NamedTuple):
    """A network with frames and outputs; of a TFLite file also as they lie in its tensors."""

    name: str
    path: Path | None
    model: Model
    frames: list
    outputs: list
    vectors: list


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("cmsis-nn", "tflite-micro", "flatbuffers", "gemmlowp", "ruy"):
        parser.add_argument(f"--{name}", metavar="FOLDER", type=lambda one: Path(one).resolve())
    parser.add_argument("--onnx2c", metavar="PROGRAM", default=shutil.which("onnx2c"))
    parser.add_argument(
        "--only", metavar="WORDS", default="", help="ways with words in their names"
    )
    parser.add_argument("--kept", metavar="FOLDER", type=Path, help="of what was compiled before")
    parser.add_argument("--results", metavar="FILE", type=Path, help="JSON, read and written")
    parser.add_argument("networks", nargs="*")
    options = parser.parse_args()
    results = {}
    if options.results and options.results.exists():
        results = json.loads(options.results.read_text())
    with TemporaryDirectory() as folder:
        kept = (options.kept or Path(folder)).resolve()
        kept.mkdir(parents=True, exist_ok=True)
        for network in options.networks:
            case = case_of(network)
            found = results.setdefault(case.name, {})
            for way, measure in ways_of(case, options, kept):
                if options.only in way and way not in found:
                    found[way] = measure()
                    print(case.name, way, found[way] or "absent", file=sys.stderr, flush=True)
                if options.results:
                    options.results.write_text(json.dumps(results, indent=1))
    print(tables(results))


def case_of(network):
    if not Path(network).exists():
        model = real_model(from_catalogue(network))
        frame = random_frame(model.network, 1)
        return Case(network, None, model, [frame], [run_layer_by_layer(model, frame)], [])
    path = Path(network)
    model = simplified(read_model(path, with_weights=True))
    ports = (model.network.inputs, model.network.outputs)
    vectors = vectors_of(path, *map(len, ports))
    frames, outputs = (
        [
            {
                layer.name: in_our_order(array, layer.shape.dims)
                for layer, array in zip(ports[side], vector[side], strict=True)
            }
            for vector in vectors
        ]
        for side in (0, 1)
    )
    return Case(path.stem, path, model, frames, outputs, vectors)


def in_integers(model):
    return any(layer.quantization is not None for layer in model.network.layers)


def vectors_of(path, inputs, outputs):
    """A golden frame of a file; where there is none, a random one and what the package gives."""
    golden = FOLDER / "golden" / f"{path.stem}.npz"
    if golden.exists():
        arrays = np.load(golden)
        given = [arrays[f"x{place}_0"] for place in range(inputs)]
        return [(given, [arrays[f"tflm{place}_0"] for place in range(outputs)])]
    runtime, generator = runtimes.tflite_micro(path), np.random.default_rng(0)
    given = [random_array(one, generator) for one in runtime.inputs]
    return [(given, runtime.run(given))]


def random_array(details, generator):
    dims, element = tuple(details["shape"]), np.dtype(details["dtype"])
    if element.kind == "f":
        return generator.standard_normal(dims).astype(element)
    limits = np.iinfo(element)
    return generator.integers(limits.min, limits.max + 1, dims, element)


def ways_of(case, options, kept):
    """The ways to run a network, each with what measures it; a result of None: it cannot."""
    found = fit(case.model.network)
    plans = {way.name: way.plan for way in found.methods} | {"least": found.least.plan}
    seen = []
    for name in PLANS:
        if name not in plans or plans[name] in seen:
            continue
        seen.append(plans[name])
        yield f"csdf, {name}", lambda plan=plans[name]: ours(case, plan, OWN, options, kept)
        if options.cmsis_nn and in_integers(case.model) and name != "least":
            way = f"csdf with CMSIS-NN, {name}"
            yield way, lambda plan=plans[name]: ours(case, plan, CMSIS_NN, options, kept)
    if case.vectors:
        yield "tflite-micro", lambda: time_of(case, runtimes.tflite_micro)
        yield "XNNPACK", lambda: time_of(case, runtimes.xnnpack)
        sources = tuple(
            getattr(options, name) for name in ("tflite_micro", "flatbuffers", "gemmlowp", "ruy")
        )
        if all(sources):
            sources = tflite_micro.Sources(*sources, options.cmsis_nn)
            both = options.cmsis_nn and in_integers(case.model)
            for kernels in tflite_micro.KERNELS[: 2 if both else 1]:
                yield (
                    f"TFLM, {kernels}",
                    lambda kernels=kernels: in_micro(case, kernels, sources, kept),
                )
        else:
            print("TensorFlow Lite Micro: absent, its folders are not given", file=sys.stderr)
    if not in_integers(case.model):
        if options.onnx2c:
            yield "onnx2c", lambda: in_onnx2c(case, options.onnx2c)
        else:
            print("onnx2c: absent, --onnx2c is not given", file=sys.stderr)


def ours(case, plan, kernels, options, kept):
    try:
        with TemporaryDirectory() as folder:
            library = write_library(
                case.model, plan, folder, name="net", frames=case.frames, kernels=kernels
            )
            require_golden(library, case.outputs, 0 if in_integers(case.model) else 1e-5)
            return counted(library, plan, folder, options.cmsis_nn, kept)
    except UnsupportedOperator:
        return None


def require_golden(library, wanted, tolerance=0):
    """Require that the test program compares with the golden outputs, within parts of the largest."""
    text = library.files["test/main.c"]
    for place, outputs in enumerate(wanted or ()):
        for port in library.written.outputs:
            start = text.index(f" {port.parameter}_{place}[")
            inside = text[text.index("{", start) + 1 : text.index("}", start)]
            listed = [float(one.strip().rstrip("f")) for one in inside.split(",") if one.strip()]
            golden = np.float32(to_memory_order(outputs[port.layer]))
            away = np.abs(np.float32(listed) - golden).max()
            if away > tolerance * np.abs(golden).max():
                raise SystemExit(f"{library.name}: {away:g} away from the golden outputs")


def counted(library, plan, folder, source, kept):
    """Bytes, time and instructions of a library, whose outputs are compared here and on each target."""
    written = library.written
    used = written.cmsis_nn
    words = [f"CMSIS_NN={source}"] if used else []
    found = {
        "arena": plan.arena_bytes,
        "parameters": written.weight_bytes,
        "state": [],
        "stack": [],
    }
    if used:
        found["share"] = used.multiply_accumulates / max(plan.multiply_accumulates, 1)
    with archive(folder, kept, "here") if used else nullcontext():
        found["here"] = time_here(library, folder, words)
    for target in TARGETS:
        if used:
            tflite_micro.cmsis_nn_archive(source, target, kept)
        with archive(folder, kept, target) if used else nullcontext():
            text = made(folder, "instructions", f"TARGET={target}", *words)
        found["state"].append(number(text, "state bytes"))
        found["stack"].append(number(text, "stack bytes"))
        found[target] = number(text, "instructions of a frame")
    linked = tflite_micro.linked(f"{folder}/build/m4-counted/target.map", "cmsis-nn-m4.a")
    ((code, *memory),) = sizes(f"{folder}/build/m4-counted/net.o")
    if any(memory):
        raise SystemExit(f"{library.name}: the library has memory of its own")
    return found | {"code": code + linked["code"]}


@contextmanager
def archive(folder, kept, kind):
    """The kernels of CMSIS-NN as they were compiled before, and kept for the next library."""
    there = Path(folder, "build", f"cmsis-nn-{kind}.a" if kind in TARGETS else "cmsis-nn.a")
    here = kept / f"cmsis-nn-{kind}.a"
    there.parent.mkdir(exist_ok=True)
    if here.exists():
        shutil.copy(here, there)
    else:
        there.unlink(missing_ok=True)
    yield
    if not here.exists():
        shutil.copy(there, here)


def time_here(library, folder, words):
    """The least processor time of a frame here at -O2, in milliseconds."""
    written = library.written
    ports = [f"found_{port.parameter}" for port in written.outputs]
    given = [f"{port.parameter}_0" for port in written.inputs]
    verb = "invoke" if written.keeps_state else "run"
    frame = f"net_{verb}({', '.join(['&state', *given, *ports])})"
    text = Path(folder, "test", "main.c").read_text().split("#ifndef NO_MAIN")[0]
    Path(folder, "test", "timed.c").write_text(
        f"#define _POSIX_C_SOURCE 199309L\n{text}\n#define FRAME {frame}\n{TIMED}"
        'int main(void) { if (net_test()) return 1; printf("outputs equal %f\\n", least_time());'
        " return 0; }\n"
    )
    words = ["build/test", "TESTS=test/timed.c", "CFLAGS=-O2", *words]
    subprocess.run(["make", "-s", "-C", folder, *words], check=True, capture_output=True)
    return float(said([f"{folder}/build/test"]).split()[-1])


def time_of(case, runtime):
    """The time of a runtime here, and how far its outputs lie from the golden ones."""
    try:
        other = runtime(case.path)
    except (ImportError, ValueError, RuntimeError) as error:
        print(f"{case.name}: {str(error)[:90]}", file=sys.stderr)
        return None
    away = 0.0
    for given, wanted in case.vectors:
        for one, golden in zip(other.run(given), wanted, strict=True):
            away = max(away, float(np.abs(np.float64(one) - golden).max()))
    return {"here": runtimes.least_time(other, case.vectors[0][0]), "away": away}


def in_micro(case, kernels, sources, kept):
    found = {"state": [], "stack": [], "parameters": case.path.stat().st_size}
    for target in TARGETS:
        one = tflite_micro.counted(case.path, case.vectors, kernels, target, sources, kept)
        found[target] = one["thousand instructions"]
        found["state"].append(one["static"])
        found["stack"].append(one["stack"])
        found.setdefault("arena", one["arena"])
        found.setdefault("code", one["code"])
    return found


def in_onnx2c(case, program):
    with TemporaryDirectory() as folder:
        return onnx2c.measured(program, case.model, case.frames[0], case.outputs[0], Path(folder))


if __name__ == "__main__":
    main()
