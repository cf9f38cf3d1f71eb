"""Instructions of the kernels of emitted C, fitted to what QEMU counts.

Run `python -m tests.benchmarks.fit_instructions measure SAMPLES [FILE ...]`: random networks over a
range of shapes, whole, row by row and in the least memory, and model files, each written as C and
counted on the emulated cores, stage by stage; once with files only in samples of their own. Then
`fit SAMPLES HELD_OUT --table cnn2csdf/instruction_table.py` fits SAMPLES, writes the table and prints
the relative error of the instructions of a frame of each plan of both.
Needs Debian's make, gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm; takes some minutes.
"""

import argparse
import json
import random
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.optimize import nnls

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element
from cnn2csdf.network import Network
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.code.library import write_library
from planners.memory.fit import fit
from planners.memory.stages import StageTable
from planners.memory.times import group_loops, stage_loops
from tests.planners.code.calibrated import integer_model, real_model

CORES = {
    "m4": ("TARGET=m4",),
    "m55": ("TARGET=m55",),
    "m0plus": (  # the same instructions on a larger core
        "TARGET=m4",
        "BUILD=build/m0plus",
        "CORE_m4=-mcpu=cortex-m0plus -mthumb -mfloat-abi=soft",
    ),
}
WAYS = ("layer by layer", "row by row", "least")
LEAST = 800  # instructions below which errors count less
CHAINS, DENSE = 10, 5


def dense(seed):
    """A network of some fully connected layers, or of convolutions with many channels."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"dense{seed}")
    sizes = (8, 13, 24, 40, 64, 65, 100, 128, 256, 400, 640)
    size = (1, 1) if seed % 2 else (draw.choice((3, 5)), draw.choice((3, 4)))
    last = builder.input((draw.choice(sizes), *size))
    for _ in range(4):
        if seed % 2:
            last = builder.add(op.FullyConnected(units=draw.choice(sizes)), last)
        else:
            side = draw.choice((1, 3))
            window = op.Window(kernel=(side, side), padding=(side // 2,) * 4)
            last = builder.add(op.Convolution(filters=draw.choice(sizes[:7]), window=window), last)
    builder.output(last)
    return builder.network()


def moves(seed):
    """A network of poolings over large windows, and of layers that move elements."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"moves{seed}")
    channels, side = draw.choice((4, 8, 16, 24)), draw.choice((6, 8, 11))
    last = builder.input((draw.choice((4, 8, 16)), side, side))
    for index, kind in enumerate(("max", "average")):
        kernel = draw.choice(((3, 3), (3, 2), (5, 5)))
        window = op.Window(kernel=kernel, padding=(1, 1, 1, 1) if index else (0, 0, 0, 0))
        last = builder.add(op.Pooling(function=kind, window=window), last)
        if index == 0:
            last = builder.add(
                op.Convolution(filters=channels, window=op.Window(kernel=(1, 1))), last
            )
    one = builder.add(op.Convolution(filters=8, window=op.Window(kernel=(1, 1))), last)
    two = builder.add(op.Convolution(filters=12, window=op.Window(kernel=(1, 1))), last)
    last = builder.add(op.Concatenation(), one, two)
    last = builder.add(op.Pad(padding=(1, 1, 1, 1)), last)
    last = builder.add(op.Convolution(filters=channels, window=op.Window(kernel=(3, 3))), last)
    shape = builder.shape(last)
    if seed % 2:
        whole = op.Window(kernel=(shape.height, shape.width))
        last = builder.add(op.Pooling(function="average", window=whole), last)
    else:
        last = builder.add(op.Reshape(dims=(shape.elements,)), last)
    builder.output(builder.add(op.FullyConnected(units=4), last))
    return builder.network()


def reshaped(seed):
    """A network whose input is a vector that becomes a map, and a vector again."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"reshaped{seed}")
    channels, height, width = draw.choice((1, 2, 4)), draw.choice((8, 12)), draw.choice((6, 10))
    last = builder.input((channels * height * width,))
    last = builder.add(op.Reshape(dims=(channels, height, width)), last)
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    last = builder.add(op.Convolution(filters=8, window=window), last)
    last = builder.add(op.Transpose(permutation=(2, 1, 0)), last)
    last = builder.add(op.Reshape(dims=(8 * height * width,)), last)
    builder.output(builder.add(op.FullyConnected(units=4), last))
    return builder.network()


def converted(seed):
    """A network in integers whose input and output are real numbers."""
    model = integer_model(first(seed) if seed % 2 else reshaped(seed))
    given, *layers, last = model.network.layers
    inside = replace(given, name="converted", operator=op.Conversion(), inputs=(given.name,))
    outer = replace(given, element=Element.FLOAT32, quantization=None)
    layers = [
        replace(one, inputs=tuple(inside.name if of == given.name else of for of in one.inputs))
        for one in layers
    ]
    real = replace(
        layers[-1],
        name="real",
        operator=op.Conversion(),
        inputs=(layers[-1].name,),
        stored=(),
        epilogue=(),
        element=Element.FLOAT32,
        quantization=None,
    )
    last = replace(last, inputs=(real.name,), element=Element.FLOAT32, quantization=None)
    network = Network(name=f"converted{seed}", layers=(outer, inside, *layers, real, last))
    return Model(network=network, weights=model.weights)


def first(seed):
    """A network that begins with large windows over few channels, as those of spectra and images."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"first{seed}")
    last = builder.input((draw.choice((1, 1, 3)), draw.choice((20, 32)), draw.choice((20, 32))))
    kernel = draw.choice(((10, 8), (10, 4), (7, 7), (5, 5), (3, 3), (8, 3)))
    padding = [draw.choice((0, one // 2)) for one in kernel]
    window = op.Window(
        kernel=kernel, stride=draw.choice(((1, 1), (2, 2))), padding=(*padding, *padding)
    )
    last = builder.add(op.Convolution(filters=draw.choice((4, 8, 16, 10)), window=window), last)
    last = builder.add(op.FullyConnected(units=4), last)
    builder.output(builder.add(op.Softmax(axis=0), last))
    return builder.network()


def chain(seed):
    """A network of some layers of random shapes, one behind the other."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"chain{seed}")
    size = draw.choice((6, 9, 12, 16))
    last = builder.input((draw.choice((1, 1, 2, 3, 4, 8)), size, draw.choice((size, size + 3))))
    for _ in range(draw.randint(4, 7)):
        shape = builder.shape(last)
        height, width = shape.height, shape.width
        filters = draw.choice((4, 6, 8, 10, 12, 16, 24, 32, 48))
        kind = draw.choice(
            (
                "conv",
                "conv",
                "pointwise",
                "pointwise",
                "depthwise",
                "depthwise",
                "max",
                "average",
                "add",
            )
        )
        kernel = draw.choice(((3, 3), (3, 3), (5, 5), (1, 3), (3, 1), (2, 2), (4, 3)))
        stride = (2, 2) if height > 6 and draw.random() < 0.3 else (1, 1)
        before = [one // 2 for one in kernel]
        padding = (*before, kernel[0] - 1 - before[0], kernel[1] - 1 - before[1])
        if draw.random() < 0.3 and height > 6 < width:
            padding = (0, 0, 0, 0)
        window = op.Window(kernel=kernel, stride=stride, padding=padding)
        if kind == "conv":
            last = builder.add(op.Convolution(filters=filters, window=window), last)
        elif kind == "pointwise":
            last = builder.add(
                op.Convolution(filters=filters, window=op.Window(kernel=(1, 1))), last
            )
        elif kind == "depthwise" and shape.channels > 1:
            made = op.Convolution(filters=shape.channels, window=window, groups=shape.channels)
            last = builder.add(made, last)
        elif kind == "add":
            other = builder.add(
                op.Convolution(filters=shape.channels, window=op.Window(kernel=(1, 1))), last
            )
            last = builder.add(op.Elementwise(function="add"), last, other)
        elif kind in ("max", "average") and min(height, width) >= 4:
            pooled = op.Window(kernel=(2, 2), stride=draw.choice(((1, 1), (2, 2))))
            last = builder.add(op.Pooling(function=kind, window=pooled), last)
    if draw.random() < 0.5:
        last = builder.add(op.GlobalPooling(function="average"), last)
    if draw.random() < 0.7:
        last = builder.add(op.FullyConnected(units=draw.choice((2, 4, 10, 12, 17))), last)
        last = builder.add(op.Softmax(axis=0), last)
    builder.output(last)
    return builder.network()


def measured(model, way, core):
    """Return for each stage its loops and the instructions that were counted."""
    found = fit(model.network)
    plans = {one.name: one.plan for one in found.methods} | {"least": found.least.plan}
    if way == "least" and found.least.name in WAYS:
        return []
    plan = plans[way]
    with TemporaryDirectory() as folder:
        write_library(model, plan, folder, name="net")
        words = ("make", "-s", "-C", folder, *CORES[core])
        said = subprocess.run([*words, "HERTZ=1000000000", "bench"], capture_output=True, text=True)
        whole = subprocess.run([*words, "instructions"], capture_output=True, text=True)
    counted = re.search(r"instructions of a frame: (\d+)", whole.stdout + whole.stderr)
    if said.returncode or counted is None:
        print(model.network.name, way, core, (said.stdout + said.stderr + whole.stderr)[-300:])
        return []
    times = dict(line.rsplit(",", 2)[::2] for line in said.stdout.splitlines()[1:])
    table, stages = StageTable(model.network), {}
    for group in plan.groups:
        for one in group.stages:
            for counts in stage_loops(table, one.stage).values():
                stages.setdefault(one.stage.result, Counter()).update(counts)
    around = Counter()
    for group in plan.groups:
        around.update(group_loops(table, [one.stage for one in group.stages]))
    rows = [
        {
            "network": model.network.name,
            "way": way,
            "core": core,
            "stage": name,
            "count": int(times.get(name.replace(",", " "), times.get(name, 0))),
            "loops": {"|".join(key): number for key, number in counts.items()},
        }
        for name, counts in stages.items()
    ]
    return [
        *rows,
        {
            "network": model.network.name,
            "way": way,
            "core": core,
            "stage": None,
            "count": 1000 * int(counted[1]),
            "loops": {"|".join(key): number for key, number in around.items()},
        },
    ]


def models(files):
    for seed in range(DENSE):
        yield integer_model(dense(seed)), "fitted"
        yield integer_model(first(seed)), "fitted"
        yield integer_model(moves(seed)), "fitted"
        if seed < 3:
            yield integer_model(reshaped(seed)), "fitted"
            yield converted(seed), "fitted"
        if seed < 6:
            yield real_model(dense(seed)), "fitted real"
        if seed < 2:
            yield real_model(first(seed)), "fitted real"
            yield real_model(moves(seed)), "fitted real"
    for seed in range(CHAINS):
        yield integer_model(chain(seed)), "fitted"
        if seed % 3 == 0:
            yield real_model(chain(seed)), "fitted real"
    for file in files:
        yield simplified(read_model(file, with_weights=True)), Path(file).stem


def measure(path, files, cores):
    done = set()
    if Path(path).exists():
        for line in Path(path).read_text().splitlines():
            one = json.loads(line)
            done.add((one["from"], one["network"], one["way"], one["core"]))
    with open(path, "a") as out:
        for model, source in models(files):
            for way in WAYS:
                for core in cores:
                    if (source, model.network.name, way, core) in done:
                        continue
                    for row in measured(model, way, core):
                        out.write(json.dumps({"from": source, **row}) + "\n")
                    out.flush()


HEAD = '''"""Instructions of emitted C for a turn of each loop of its kernels, by core, in hundredths.

Least squares of the relative errors over random layers, whole, row by row and in strips, as QEMU counts
them; written by `python -m tests.benchmarks.fit_instructions fit`.
"""

from fractions import Fraction

# fmt: off
# ruff: noqa: E501
_HUNDREDTHS = {
'''
TAIL = """
}
# fmt: on

INSTRUCTIONS = {
    core: {
        kernel: {loop: Fraction(number, 100) for loop, number in loops.items()}
        for kernel, loops in kernels.items()
    }
    for core, kernels in _HUNDREDTHS.items()
}
"""
OTHER = ("read", "written", "places")
UNUSED = {  # loops that a core's kernels do not have
    "m4": r"vectors|bare.*|.* 8",
    "m55": r"words|tails|.* 4",
    "m0plus": r"words|tails|vectors|bare.*|.* 8",
}


def samples(path, core):
    for line in Path(path).read_text().splitlines():
        one = json.loads(line)
        if one["core"] == core:
            one["loops"] = {
                tuple(key.split("|")): number
                for key, number in one["loops"].items()
                if not re.fullmatch(UNUSED[core], key.split("|")[1]) or ".real" in key
            }
            yield one


def fitted(path, core):
    """Instructions of a turn of each loop: least squares of the relative errors, none below zero."""
    plans, rows = {}, []
    for one in samples(path, core):
        of_plan = plans.setdefault((one["from"], one["network"], one["way"]), Counter())
        if one["stage"] is None:
            loops = of_plan + Counter(one["loops"])
            rows.append((loops, one["count"], 3))
        else:
            of_plan.update(one["loops"])
            rows.append((one["loops"], one["count"], 1))
    names = sorted({name for loops, _, _ in rows for name in loops})
    weights = np.array([weight / max(count, LEAST) for _, count, weight in rows])
    matrix = (
        np.array([[loops.get(name, 0) for name in names] for loops, _, _ in rows])
        * weights[:, None]
    )
    scales = np.maximum(np.abs(matrix).max(axis=0), 1e-30)
    found, _ = nnls(
        matrix / scales, np.array([count for _, count, _ in rows]) * weights, maxiter=10**5
    )
    table = {}
    for (kernel, loop), each in zip(names, found / scales, strict=True):
        if each > 0.005:
            table.setdefault(kernel, {})[loop] = round(float(each), 2)
    table["other"] = other(path, core)
    plain = (table["Convolution"].get(loop, 0) for loop in ("products", "single products"))
    table["other"]["operations"] = round(sum(plain), 2)  # those of a plain loop
    return table


def other(path, core):
    """Instructions of elements read and written, and of places, for kernels that were not counted."""
    rows = []
    for one in samples(path, core):
        kernels = {kernel for kernel, _ in one["loops"]} - {"firing"}
        if len(kernels) == 1 and one["stage"] is not None and one["way"] == WAYS[0]:
            loops = {loop: number for (_, loop), number in one["loops"].items() if loop in OTHER}
            if "read" in loops and loops["read"] > 16:
                rows.append(([loops.get(name, 0) for name in OTHER], one["count"]))
    if not rows:
        return {}
    matrix, counts = (np.array(each, float) for each in zip(*rows, strict=True))
    found, _ = nnls(matrix / counts[:, None], np.ones(len(counts)))
    return {name: round(float(each), 2) for name, each in zip(OTHER, found, strict=True)}


def written(tables):
    """The module with the table."""
    lines = [
        f'    "{core}": {{'
        + "".join(
            f'\n        "{kernel}": {{'
            + ", ".join(f'"{loop}": {round(100 * each)}' for loop, each in loops.items())
            + "},"
            for kernel, loops in table.items()
        )
        + "\n    },"
        for core, table in tables.items()
    ]
    return HEAD + "\n".join(lines) + TAIL


def predicted(table, loops):  # kernels that were not counted without their operations
    return sum(
        table.get(kernel, table["other"]).get(loop, 0) * number
        for (kernel, loop), number in loops.items()
    )


def errors(path, core, table):
    """Relative errors of the instructions of a frame, by plan."""
    plans, found = {}, {}
    for one in samples(path, core):
        key = one["from"], one["network"], one["way"]
        if one["stage"] is None:
            loops = plans.get(key, Counter()) + Counter(one["loops"])
            found[key] = predicted(table, loops) / one["count"] - 1
        else:
            plans.setdefault(key, Counter()).update(one["loops"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=("measure", "fit"))
    parser.add_argument("samples")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--table", help="the module to write")
    parser.add_argument("--cores", default="m4,m55,m0plus")
    options = parser.parse_args()
    if options.do == "measure":
        measure(options.samples, options.files, options.cores.split(","))
        return
    tables = {core: fitted(options.samples, core) for core in options.cores.split(",")}
    if options.table:
        Path(options.table).write_text(written(tables))
    for core, table in tables.items():
        for path in (options.samples, *options.files):
            for key, error in errors(path, core, table).items():
                print(core, *key, f"{error:+.1%}")


if __name__ == "__main__":
    main()
