"""Instructions of the kernels of emitted C, fitted to what QEMU counts; then those of model files.

Run `python -m tests.benchmarks.fit_instructions COUNTS [FILE ...] [--table FILE]`. Random networks
over a range of shapes, layer by layer, row by row and in strips, are written as C and counted on each
emulated core, stage by stage; COUNTS keeps what was counted by a digest of the C, so that a second run
counts only what changed. To that the instructions of a turn of each loop are fitted, and written as
`--table cnn2csdf/instruction_table.json`. Nothing is fitted to the files, of which the instructions
of a frame are predicted beside those counted, for each plan and core, as in docs/firmware.md.
Needs what tests.benchmarks.instruction_counts needs. `--fitted` takes the table as it is.
"""

import argparse
import json
import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from cnn2csdf.platforms import INSTRUCTIONS, NANOSECONDS, Core, core_platform
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.code.library import library
from planners.memory.fit import fit
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes, frame_loops, group_loops, stage_loops
from tests.benchmarks.instruction_counts import CORES, counted
from tests.benchmarks.instruction_samples import drawn, model_of, samples

WAYS = ("layer by layer", "row by row", "least")
LEAST = 200  # instructions below which errors count less
FRAME_WEIGHT = 3  # of the relative error of a frame, beside that of a stage
HERTZ = 10**9
FEW_ZEROS, MANY_ZEROS = "products, few of zero", "products, many of zero"  # few if not sampled
AROUND = ("frame", "firing")  # kernels that are named where they take nothing, too
UNUSED = {  # loops that a core's kernels do not have
    "m4": r"vectors|bare.*|cut.*|.*fours|.* (8|16)",
    "m55": r"words|tails|.* 4",
    "m0plus": r"words|tails|vectors|bare.*|cut.*|.*fours|.* (8|16)",
    "riscv32": r"words|tails|vectors|bare.*|cut.*|.*fours|.* (8|16)",
}


def plans_of(network, ways=WAYS):
    """The plans in which a network is counted, each once."""
    found = fit(network) if "least" in ways else fit(network, searched=())
    plans = {one.name: one.plan for one in found.methods if one.name in ways}
    if found.least.name not in WAYS and "least" in ways:
        plans["least"] = found.least.plan
    return plans


def of_sample(sample, cores, known):
    """Rows of loops and instructions of each plan of a sample, and what was newly counted."""
    name, ways, specs = sample
    model, counts, rows = model_of(specs), dict(known), []
    table = StageTable(model.network)
    for way, plan in plans_of(model.network, ways).items():
        loops = stage_and_frame_loops(table, plan)
        made = library(model, plan, name="net", frames=[])
        for core in cores:
            try:
                frame, stages = counted(made, model.network, plan, core, counts)
            except RuntimeError as error:
                print(name, way, core, error, flush=True)
                continue
            numbers = dict(stages) | {None: frame}
            rows += [
                ((name, way), core, stage, numbers[stage], one)
                for stage, one in loops.items()
                if stage in numbers
            ]
    return rows, {digest: one for digest, one in counts.items() if digest not in known}


def stage_and_frame_loops(table, plan):
    """Loops of each stage of a plan by its result, and of all together (None)."""
    stages, around = {}, Counter(frame_loops(table))
    for group in plan.groups:
        for one in group.stages:
            for counts in stage_loops(table, one.stage).values():
                stages.setdefault(one.stage.result, Counter()).update(counts)
        around.update(group_loops(table, [one.stage for one in group.stages]))
    return stages | {None: sum(stages.values(), around)}


def fitted(rows, core):
    """Instructions of a turn of each loop: least squares of the relative errors, none below zero."""
    rows = [(used(loops, core), count, stage) for _, of, stage, count, loops in rows if of == core]
    names = sorted({name for loops, *_ in rows for name in loops})
    counts = np.array([count for _, count, _ in rows])
    weights = np.where([stage is None for *_, stage in rows], FRAME_WEIGHT, 1)
    weights = weights / np.maximum(counts, LEAST)
    matrix = np.array([[loops.get(name, 0) for name in names] for loops, *_ in rows], float)
    matrix *= weights[:, None]
    scales = np.maximum(np.abs(matrix).max(axis=0), 1e-30)
    found, _ = nnls(matrix / scales, counts * weights, maxiter=10**5)
    table = {kernel: {} for kernel, _ in names}
    for (kernel, loop), each in zip(names, found / scales, strict=True):
        if each > 0.005 or kernel in AROUND:
            table[kernel][loop] = Fraction(round(100 * float(each)), 100)
    for kernel in table.keys() - {kernel for kernel, loop in names if loop == MANY_ZEROS}:
        if FEW_ZEROS in table[kernel]:
            table[kernel][MANY_ZEROS] = table[kernel][FEW_ZEROS]
    table["other"] = other(table)
    return table


def other(table):
    """A plain loop, for kernels that were not counted: products, and elements read."""
    plain = sum(table["Convolution"].get(one, 0) for one in ("products", "single products"))
    return {"operations": plain, "read": Fraction(1), "places": Fraction(20)}


def used(loops, core):
    """The loops of a core, of which real numbers have all."""
    return {
        (kernel, loop): number
        for (kernel, loop), number in loops.items()
        if ".real" in kernel or not re.fullmatch(UNUSED[core], loop)
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
            table = tables[core]
            turns = sum(
                table.get(kernel, {}).get(loop, 0) * number
                for (kernel, loop), number in loops.items()
            )
            yield core, key, float(turns) / count - 1


def of_file(file, cores, known):
    """Relative errors of a file, by plan and core, and what was newly counted."""
    model, counts, errors = model_of_file(file), dict(known), {}
    for way, plan in plans_of(model.network).items():
        made = library(model, plan, name="net", frames=[])
        for core in cores:
            try:
                frame, _ = counted(made, model.network, plan, core, counts)
            except RuntimeError as error:
                print(file, way, core, str(error)[-300:], flush=True)
                continue
            platform = core_platform(
                Core(kernels=core, hertz=HERTZ, least=Fraction(1), most=Fraction(1))
            )
            times = PlanTimes(StageTable(model.network), platform)
            errors[core, way] = times.of(plan) * HERTZ / NANOSECONDS / frame - 1, frame
    return errors, {digest: one for digest, one in counts.items() if digest not in known}


def model_of_file(file):
    """A model file, or a random network that nothing was fitted to: NAME:SEED:FORM."""
    if Path(file).exists():
        return simplified(read_model(file, with_weights=True))
    return drawn(file)


def kept(path):
    """Counts, by digest."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return dict(map(json.loads, lines))


def each(pool, function, items, path, cores):
    """Answers of a function for each item; what it counted is kept."""
    for item, (found, new) in zip(
        items, pool.map(partial(function, cores=cores, known=kept(path)), items), strict=True
    ):
        with open(path, "a") as out:
            out.writelines(json.dumps([digest, one]) + "\n" for digest, one in new.items())
        yield item, found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--table", help="the file to write")
    parser.add_argument("--fitted", action="store_true", help="fit nothing: the table as it is")
    parser.add_argument("--cores", default=",".join(CORES))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_intermixed_args()
    cores = options.cores.split(",")
    with ProcessPoolExecutor(options.jobs) as pool:
        if not options.fitted:
            given = each(pool, of_sample, samples(), options.counts, cores)
            rows = [row for _, found in given for row in found]
            tables = {core: fitted(rows, core) for core in cores}
            INSTRUCTIONS.update(tables)
            if options.table:
                Path(options.table).write_text(written(tables))
            for core, key, error in sample_errors(rows, tables):
                print(core, *key, f"{error:+.1%}")
    with ProcessPoolExecutor(options.jobs) as pool:  # which knows what was fitted
        for file, errors in each(pool, of_file, options.files, options.counts, cores):
            print(as_row(file, errors, cores), flush=True)


def as_row(file, errors, cores):
    """A row of the table of the page: thousand instructions counted, and how far predicted are."""
    cells = [
        ", ".join(
            f"{thousands(count)} {100 * error:+.1f}%"
            for error, count in (errors[core, way] for way in WAYS if (core, way) in errors)
        )
        for core in cores
    ]
    return f"| {' | '.join((Path(file).stem, *cells))} |"


def thousands(count):
    """Thousand instructions, of small networks with a decimal."""
    return f"{count / 1000:,.0f}" if count >= 10**5 else f"{count / 1000:.1f}"


if __name__ == "__main__":
    main()
