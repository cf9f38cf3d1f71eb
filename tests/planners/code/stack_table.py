"""Measures `planners/plan/stack_table.json`: the stack of kernels by core, kind of numbers, operator.

`python -m tests.planners.code.stack_table` compiles networks with all operators, and the files of
`../shared/networks` where these are at hand, for each core that has a compiler here, and writes the
maxima. Entries of other cores, and operators that no network has here, stay.
"""

import itertools
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.errors import CsdfError
from planners.code.library import library, write_folder
from planners.code.parts import comment
from planners.memory.fit import fit
from planners.plan.stack import (
    SCHEDULER,
    UNKNOWN,
    array_bytes,
    kernel_name,
    numbers_of,
    stage_stack_bytes,
    window_constants,
)
from planners.rewrites.rematerialisation import executed_network
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.call_graphs import CORES, CallGraph, has_compiler
from tests.planners.code.mixed_networks import Mixing
from tests.planners.code.networks_with_options import KINDS
from tests.planners.code.test_library_operators import (
    CONVOLUTIONS,
    FLAT,
    OTHERS,
    activations,
    side_by_side,
)
from tests.planners.code.test_quantised_libraries import everything, quantised, wide
from tests.shared_data import SHARED

TABLE = Path(__file__).parents[3] / "planners/plan/stack_table.json"
CATALOGUE = ("keyword_spotting", "resnet8")
MARGIN, STEP = 16, 8  # bytes: for what the compiler makes of other networks; of the table
LARGEST = 320_000  # bytes of a file


def call_graph(model, plan, core):
    """The call graph of the library of a plan."""
    with TemporaryDirectory() as folder:
        write_folder(folder, library(model, plan, name="net", target=core).files)
        return CallGraph(folder, "net", core)


def sizes_of(model, plan, core):
    """Yield (kind of numbers, operator, bytes) of each layer, and of the scheduler, without arrays."""
    graph = call_graph(model, plan, core)
    network = executed_network(model.network, plan.rematerialised)
    taps, gathered = window_constants(network)
    for layer, kernel in kernels_of(graph.text, network):
        name = kernel_name(layer, gathered)
        size = graph.kernel_bytes(kernel)
        yield numbers_of(layer), name, size - array_bytes(layer, name, taps, gathered)
    yield SCHEDULER, UNKNOWN, graph.scheduler_bytes() - stage_stack_bytes(plan, model.network)


def kernels_of(text, network):
    """Yield each layer of the table in C, with the name of its kernel."""
    table = text.split("static const layer layers[")[1].split("\n};")[0]
    table = re.sub(r"\s+", " ", table)
    names = {comment(f"{layer.name}: "): layer for layer in network.layers}
    for text_of_layer, kernel in re.findall(r"/\* (.*?) \*/ \{\.compute = (\w+)", table):
        name = max(
            (name for name in names if text_of_layer.startswith(name)), key=len, default=None
        )
        if name is not None:
            yield names[name], kernel


def models(paths):
    """Yield models whose libraries are measured."""
    yield side_by_side(CONVOLUTIONS)
    yield side_by_side(OTHERS)
    yield side_by_side(FLAT, (5, 12))
    yield activations()
    yield quantised(everything(), 0)
    yield quantised(wide(), 0)
    for name in ("single precision", "int16"):
        for number, network in enumerate((everything(), wide())):
            yield Mixing(number, *KINDS[name], real=()).mixed(network)
    for name in CATALOGUE:
        yield real_model(from_catalogue(name))
        yield integer_model(from_catalogue(name))
    for path in paths:
        try:
            yield simplified(read_model(str(path), with_weights=True))
        except CsdfError as error:
            print(f"{path.name}: {error}", file=sys.stderr)


def plans(model):
    """The plans of a model layer by layer, and in the least memory."""
    found = fit(model, labels=(12,))
    return {id(method.plan): method.plan for method in (found.methods[0], found.least)}.values()


def main():
    """Measure all networks, and write the table."""
    old = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    cores = [core for core in CORES if has_compiler(core)]
    most = {core: defaultdict(lambda: defaultdict(int)) for core in cores}
    paths = sorted(
        path
        for folder in ("tflite", "stateful", "attention", "onnx-small", "shipped")
        for path in (SHARED / "networks" / folder).glob("*.*")
        if path.suffix in (".tflite", ".onnx") and path.stat().st_size <= LARGEST
    )
    for model in models(paths):
        print(model.network.name, flush=True)
        try:
            for plan, core in itertools.product(plans(model), cores):
                for kind, name, size in sizes_of(model, plan, core):
                    most[core][kind][name] = max(most[core][kind][name], size)
        except CsdfError as error:
            print(f"{model.network.name}: {error}", file=sys.stderr)
        TABLE.write_text(json.dumps(as_table(old, most), indent=1) + "\n")


def as_table(old, most):
    """The table with what is measured; other entries as they were."""
    table = {core: dict(kinds) for core, kinds in old.items()}
    for core, kinds in most.items():
        own = table.setdefault(core, {})
        for kind, sizes in kinds.items():
            every = {**sizes, UNKNOWN: max(sizes.values())}
            new = {name: -(-(size + MARGIN) // STEP) * STEP for name, size in every.items()}
            own[kind] = dict(sorted((own.get(kind, {}) | new).items()))
        table[core] = dict(sorted(own.items()))
    return table


if __name__ == "__main__":
    main()
