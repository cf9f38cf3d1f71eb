"""The table of docs/which_models.md: models that libraries, boards and applications ship.

`python -m tests.docs.which_models FOLDER [OPTIONS.json]` prints a row for each .tflite and .onnx file
of a folder, which the reader has downloaded. OPTIONS.json has options of `cnn2csdf.read_model` by file
name, for dims that a file leaves open. The search takes a fixed number of steps, so that rows do not
depend on the machine.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.stored_tensors import stores_integers
from cnn2csdf.weights import Model
from csdf.errors import CsdfError
from csdf.time_limit import Stop
from planners.code.supported import require_c
from planners.formats.tflite_micro_arena import interpreter_arena
from planners.memory.fit import fit

STEPS = 2_000  # of the search for each plan; more find smaller plans
REAL_BYTES = 4
KILOBYTE = 1000
HEADS = ("file", "layer by layer", "least RAM", "flash", "TFLM arena", "C")


def row(path: Path, options: Mapping[str, Any]) -> list[str]:
    """Return the cells of a file: sizes in kB, or why it is not read."""
    try:
        model = simplified(read_model(path, with_weights=True, **options))
        size = None if stores_integers(model.network) else REAL_BYTES
        found = fit(model.network, element_bytes=size, budget=Stop(steps=STEPS))
    except CsdfError as error:
        return [f"`{path.name}`", "not read", "", "", "", _reason(error, path)]
    whole = next(way for way in found.methods if way.name.startswith("layer by layer"))
    arena = ""
    if path.suffix == ".tflite":
        interpreted = interpreter_arena(path.read_bytes(), path.stem)
        known = not interpreted.not_known
        arena = (
            _kilobytes(interpreted.size(interpreted.head(interpreted.placed({})))) if known else ""
        )
    sizes = (whole.ram_bytes, found.least.ram_bytes, flash_bytes(model.network, size))
    return [f"`{path.name}`", *map(_kilobytes, sizes), arena, _in_c(model)]


def _in_c(model: Model) -> str:
    try:
        require_c(model)
    except CsdfError:
        return "no"
    return "yes"


def _reason(error: CsdfError, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ").partition(";")[0]


def _kilobytes(size: int) -> str:
    return f"{ceil(size / KILOBYTE):,}"


def main(words: Sequence[str]) -> int:
    """Print the table; return the exit code."""
    if not 1 <= len(words) <= 2:
        print("python -m tests.docs.which_models FOLDER [OPTIONS.json]", file=sys.stderr)
        return 2
    options = json.loads(Path(words[1]).read_text()) if len(words) > 1 else {}
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for path in sorted(Path(words[0]).iterdir()):
        if path.suffix in (".tflite", ".onnx"):
            print(f"| {' | '.join(row(path, options.get(path.name, {})))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
