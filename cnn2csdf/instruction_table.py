"""Instructions of emitted C for a turn of each loop of its kernels, by core.

instruction_table.json has them in hundredths: least squares of the relative errors over random layers,
whole, row by row and in strips, as QEMU counts them, by `python -m tests.benchmarks.fit_instructions`.
"""

import json
from fractions import Fraction
from importlib.resources import files

INSTRUCTIONS: dict[str, dict[str, dict[str, Fraction]]] = {
    core: {
        kernel: {loop: Fraction(hundredths, 100) for loop, hundredths in loops.items()}
        for kernel, loops in kernels.items()
    }
    for core, kernels in json.loads(
        files("cnn2csdf").joinpath("instruction_table.json").read_text(encoding="utf-8")
    ).items()
}
