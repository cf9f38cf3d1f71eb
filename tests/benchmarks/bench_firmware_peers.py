"""Time and flash of networks as C libraries beside TensorFlow Lite Micro and onnx2c.

Run `python tests/benchmarks/bench_firmware_peers.py [--onnx2c PROGRAM] SOURCE [SOURCE ...]`: quantised
TFLite files, beside TensorFlow Lite Micro's reference kernels in this process (package tflite-micro),
or networks of the catalogue in real numbers, beside what onnx2c writes. All are called in turn, by
the same frame; a time is the least processor time of many calls. Outputs are compared first. Flash
and static RAM are those of objects for a Cortex-M4 at -O2. Needs gcc and gcc-arm-none-eabi.
"""

import argparse
import ctypes
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time_ns

import numpy as np

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.code.library import write_library
from planners.code.vectors import placed, random_frame
from planners.memory.fit import fit
from tests.planners.code.calibrated import real_model

FLAGS = ("-O2", "-O3")
CALLS = 60
CORE = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O2")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onnx2c", default="onnx2c")
    parser.add_argument("sources", nargs="+")
    options = parser.parse_args()
    print("| network | flags | whole layers | least memory | other, ms | flash of other, RAM |")
    for source in options.sources:
        with TemporaryDirectory() as folder:
            is_file = Path(source).exists()
            compare = of_file(source, folder) if is_file else of_catalogue(source, options, folder)
            for line in compare:
                print(line, flush=True)


def of_file(path, folder):
    """Lines for a TFLite file beside TensorFlow Lite Micro."""
    from tflite_micro import runtime

    model = simplified(read_model(path, with_weights=True))
    frame = random_frame(model.network, 1)
    other = runtime.Interpreter.from_file(path)
    given = [
        placed(frame[layer.name]).reshape(other.get_input_details(place)["shape"])
        for place, layer in enumerate(model.network.inputs)
    ]

    def theirs():
        for place, array in enumerate(given):  # which the frame before has overwritten
            other.set_input(array, place)
        other.invoke()

    for flags in FLAGS:
        calls, wanted = ours(model, frame, flags, folder)
        times = least_times([*calls, theirs])
        for place, layer in enumerate(model.network.outputs):
            found = other.get_output(place).reshape(-1)
            assert np.array_equal(found, placed(wanted[layer.name])), "other bytes than TFLM's"
        yield line(Path(path).stem, flags, times, f"{Path(path).stat().st_size} and its code")


def of_catalogue(name, options, folder):
    """Lines for a network in real numbers beside onnx2c."""
    model = real_model(from_catalogue(name))
    frame = random_frame(model.network, 1)
    path = Path(folder, "net.onnx")
    path.write_bytes(onnx_bytes(model))
    text = subprocess.run([options.onnx2c, path], capture_output=True, text=True, check=True).stdout
    Path(folder, "other.c").write_text(text)
    sizes = flash_and_ram(Path(folder, "other.c"))
    for flags in FLAGS:
        calls, wanted = ours(model, frame, flags, folder)
        entry = shared([Path(folder, "other.c")], flags, folder).entry
        (given,) = frame.values()
        (result,) = wanted.values()
        given, found = np.ascontiguousarray(given), np.zeros(result.size, np.float32)
        times = least_times([*calls, caller(entry, [given, found])])
        assert np.abs(found - result.reshape(-1)).max() <= 1e-4 * np.abs(result).max()
        yield line(f"{name}, float", flags, times, f"{sizes[0]}, {sizes[1]}")


def line(name, flags, times, other):
    whole, least, theirs = times
    cells = (name, flags, f"{whole / theirs:.2f}", f"{least / theirs:.2f}", f"{theirs:.2f}", other)
    return f"| {' | '.join(cells)} |"


def ours(model, frame, flags, folder):
    """Calls of libraries with whole layers and with the least memory, and what they are to give."""
    wanted = run_layer_by_layer(model, frame)
    calls = []
    found = fit(model.network)
    for plan in (whole_layers(model.network), found.least.plan):
        place = Path(folder, f"{flags}{len(calls)}")
        written = write_library(model, plan, place, name="net").written
        made = shared(list(place.glob("src/*.c")), flags, place)
        arena = np.zeros(plan.arena_bytes + 8, np.uint8)
        state = np.zeros(written.state_bytes + 64, np.uint8)
        inputs = [np.ascontiguousarray(placed(frame[port.layer])) for port in written.inputs]
        results = [np.zeros_like(placed(wanted[port.layer])) for port in written.outputs]
        made.net_init(pointer(state), pointer(arena))
        calls.append(caller(made.net_run, [state, *inputs, *results], kept=arena))
        calls[-1]()
        for port, result in zip(written.outputs, results, strict=True):
            expected = placed(wanted[port.layer])
            assert np.allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    return calls, wanted


def whole_layers(network):
    """The plan of whole layers, each computed once."""
    return next(way.plan for way in fit(network).methods if way.name == "layer by layer")


def shared(sources, flags, folder):
    """The C sources as a library of this process."""
    made = Path(folder, f"made{flags}.so")
    words = [
        "gcc",
        "-std=c99",
        flags,
        "-fPIC",
        "-shared",
        f"-I{folder}/include",
        *sources,
        "-lm",
        "-o",
        made,
    ]
    subprocess.run(words, check=True)
    return ctypes.CDLL(str(made))


def flash_and_ram(source):
    """Bytes of code and constants, and of static memory, on a Cortex-M4."""
    target = source.with_suffix(".o")
    subprocess.run(["arm-none-eabi-gcc", *CORE, "-c", source, "-o", target], check=True)
    said = subprocess.run(["arm-none-eabi-size", target], capture_output=True, text=True).stdout
    text, data, bss = map(int, said.splitlines()[1].split()[:3])
    return text + data, data + bss


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def caller(function, arrays, kept=None):
    """A call with the addresses of some arrays, which live as long; so does what is kept."""
    pointers = [pointer(array) for array in arrays]
    return lambda: (function(*pointers), kept)


def least_times(calls):
    """The least processor time of each, in milliseconds, called in turn."""
    best = [float("inf")] * len(calls)
    for _ in range(CALLS):
        for place, call in enumerate(calls):
            before = process_time_ns()
            call()
            best[place] = min(best[place], (process_time_ns() - before) / 1e6)
    return best


if __name__ == "__main__":
    main()
