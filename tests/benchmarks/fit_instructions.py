"""Instructions of the kernels of generated C, fitted to what QEMU counts of random networks.

Run `python -m tests.benchmarks.fit_instructions COUNTS [--table FILE]`. Random networks over a range
of shapes, layer by layer, row by row and in strips, are written as C and counted on each emulated
core, stage by stage; COUNTS keeps each count by a digest of the C, so that a second run counts only
what changed. The instructions of an iteration of each loop are fitted to these counts, and written as
`--table cnn2csdf/instruction_table.json`. With `--samples PATTERN --kernels PATTERN` only samples of
matching names are counted, and only matching kernels are fitted; all others keep their instructions.
tests.benchmarks.predicted_instructions has model files beside the result. Needs what
tests.benchmarks.instruction_counts needs.
"""

import argparse
import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from cnn2csdf.platforms import INSTRUCTIONS
from planners.code.library import library
from planners.memory.stages import StageTable
from planners.memory.times import frame_loops, group_loops, stage_loops
from tests.benchmarks.instruction_counts import CORES, Counts, counted
from tests.benchmarks.instruction_samples import model_of, samples
from tests.benchmarks.predicted_instructions import plans_of

LEAST = 200  # instructions below which errors count less
FRAME_WEIGHT = 3  # of the relative error of a frame, beside that of a stage
FEW_ZEROS, MANY_ZEROS = "products, few of zero", "products, many of zero"  # few if not sampled
AROUND = ("frame", "firing")  # kernels that are named where they take nothing, too
UNUSED = {  # loops that a core's kernels do not have
    "m4": r"vectors|weight sum.*|partial.*|.*fours|.* (8|16)",
    "m55": r"words|tails|.* 4",
    "m0plus": r"words|tails|vectors|weight sum.*|partial.*|.*fours|.* (8|16)",
    "riscv32": r"words|tails|vectors|weight sum.*|partial.*|.*fours|.* (8|16)",
}

# Kernels that combine whole rows: a pixel by itself takes nothing, and constants are not "read".
BY_ROWS = r"Elementwise\.(add|subtract|multiply|squared difference)(\.short)?"


def rows_of_sample(sample, cores, counts):
    """Yield loops and instructions of the stages and frames of each plan of a sample."""
    name, plan_names, specs = sample
    model = model_of(specs)
    table = StageTable(model.network)
    for plan_name, plan in plans_of(model.network, plan_names).items():
        loops = stage_and_frame_loops(table, plan)
        made = library(model, plan, name="net", frames=[])
        for core in cores:
            try:
                frame, stages = counted(made, model.network, plan, core, counts)
            except RuntimeError as error:
                print(name, plan_name, core, error, flush=True)
                continue
            numbers = dict(stages) | {None: frame}
            for stage, loops_of_stage in loops.items():
                if stage in numbers:
                    yield (name, plan_name), core, stage, numbers[stage], loops_of_stage


def stage_and_frame_loops(table, plan):
    """Loops of each stage of a plan by its result, and of all together (None)."""
    stages, around = {}, Counter(frame_loops(table))
    for group in plan.groups:
        for one in group.stages:
            for counts in stage_loops(table, one).values():
                stages.setdefault(one.result, Counter()).update(counts)
        around.update(group_loops(table, group.stages))
    return stages | {None: sum(stages.values(), around)}


def fitted(rows, core, kernels=None):
    """Return the instructions of an iteration of each loop on a core, none below zero.

    They minimise the sum of the squares of the relative errors. kernels: a pattern of the kernels that
    are fitted, where all others keep the instructions of the present table.
    """
    rows = [(used(loops, core), count, stage) for _, of, stage, count, loops in rows if of == core]
    fixed = {}
    if kernels is not None:
        fixed = {
            kernel: instructions
            for kernel, instructions in INSTRUCTIONS[core].items()
            if not re.fullmatch(kernels, kernel)
        }
        rows = [row for row in rows if any(re.fullmatch(kernels, kernel) for kernel, _ in row[0])]
    names = sorted({name for loops, *_ in rows for name in loops if name[0] not in fixed})
    counts = np.array([count for _, count, _ in rows])
    weights = np.where([stage is None for *_, stage in rows], FRAME_WEIGHT, 1)
    weights = weights / np.maximum(counts, LEAST)
    matrix = np.array([[loops.get(name, 0) for name in names] for loops, *_ in rows], float)
    matrix *= weights[:, None]
    scales = np.maximum(np.abs(matrix).max(axis=0), 1e-30)
    remaining = counts - np.array([float(turns(loops, fixed)) for loops, *_ in rows])
    solution, _ = nnls(matrix / scales, remaining * weights, maxiter=10**5)
    table = {kernel: {} for kernel, _ in names}
    for (kernel, loop), number in zip(names, solution / scales, strict=True):
        if number > 0.005 or kernel in AROUND:
            table[kernel][loop] = Fraction(round(100 * float(number)), 100)
    for kernel in table.keys() - {kernel for kernel, loop in names if loop == MANY_ZEROS}:
        if FEW_ZEROS in table[kernel]:
            table[kernel][MANY_ZEROS] = table[kernel][FEW_ZEROS]
    if kernels is not None:
        return dict(sorted((fixed | table).items()))
    table["other"] = other(table)
    return table


def turns(loops, table):
    """Return the instructions of loops."""
    return sum(
        table.get(kernel, {}).get(loop, 0) * number for (kernel, loop), number in loops.items()
    )


def other(table):
    """A plain loop, for kernels that were not counted: products, and elements read."""
    plain = sum(table["Convolution"].get(one, 0) for one in ("products", "single products"))
    return {"operations": plain, "read": Fraction(1), "places": Fraction(20)}


def used(loops, core):
    """The loops of a core, of which real numbers have all."""
    return {
        (kernel, loop): number
        for (kernel, loop), number in loops.items()
        if ".real" in kernel
        or not (
            re.fullmatch(UNUSED[core], loop)
            or (loop in ("places", "read") and re.fullmatch(BY_ROWS, kernel))
        )
    }


def written(tables):
    """The text of the table: a line for each kernel."""
    cores = []
    for core, table in tables.items():
        lines = (
            f"    {json.dumps(kernel)}: "
            + json.dumps({loop: round(100 * each) for loop, each in loops.items()})
            for kernel, loops in table.items()
        )
        cores.append(f"  {json.dumps(core)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(cores) + "\n}\n"


def sample_errors(rows, tables):
    """Relative errors of the frames of samples, by core and sample."""
    for key, core, stage, count, loops in rows:
        if stage is None:
            yield core, key, float(turns(loops, tables[core])) / count - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts")
    parser.add_argument("--table", help="the file to write")
    parser.add_argument("--cores", default=",".join(CORES))
    parser.add_argument("--kernels", metavar="PATTERN", help="fit kernels of these names alone")
    parser.add_argument("--samples", metavar="PATTERN", default=".*", help="names of samples")
    options = parser.parse_args()
    cores, counts = options.cores.split(","), Counts(options.counts)
    chosen = [sample for sample in samples() if re.fullmatch(options.samples, sample[0])]
    rows = [row for sample in chosen for row in rows_of_sample(sample, cores, counts)]
    tables = {core: fitted(rows, core, options.kernels) for core in cores}
    if options.table:
        Path(options.table).write_text(written(INSTRUCTIONS | tables))
    for core, key, error in sample_errors(rows, tables):
        print(core, *key, f"{error:+.1%}")


if __name__ == "__main__":
    main()
