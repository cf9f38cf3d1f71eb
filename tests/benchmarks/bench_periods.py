"""How the time and memory of `csdf analyze` grow with cyclic graphs of many families, beside Kiter.

    python -m tests.benchmarks.bench_periods [--kiter PROGRAM] [--actors N ...] [--family NAME ...]
        [--limit SECONDS] [--graphs FOLDER]

The graphs are written as SDF3 files; those that are in the folder --graphs are taken from there. A cell
has the processor seconds and the largest memory of a whole process, which starts, reads the file and
prints the period; `-` where the limit ended it, and nothing for larger graphs of that family then. The
last column is the exponent of the growth in time between the last two sizes. Periods of two tools that
differ are printed on standard error.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from tests.benchmarks.comparing import peers
from tests.benchmarks.comparing.measuring import ROOT, resources

FAMILIES = [sys.executable, "-m", "tests.benchmarks.growth_families"]  # keeps this process small
FILE_LIMIT = "1GB"
PATIENCE = 20  # times the limit: seconds of the clock, on a machine with other work
SAME = 1e-4  # part of a period in which two tools may differ: Kiter prints some digits
THROUGHPUT = re.compile(r"KPeriodic Throughput is\s+(\S+)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiter", metavar="PROGRAM")
    parser.add_argument("--actors", type=int, nargs="*", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--family", nargs="*", help="default: all")
    parser.add_argument("--limit", type=int, default=200, help="processor seconds of one process")
    parser.add_argument("--graphs", type=Path, metavar="FOLDER", help="where the graphs stay")
    options = parser.parse_args()
    options.sdf3 = options.minimalloc = options.mms_ga = None
    known = peers.found_peers(options)
    sizes = [f"{actors:,}" for actors in options.actors]
    print(f"| family | tool | {sizes[0]} actors | {' | '.join([*sizes[1:], 'exponent'])} |")
    print("|---" * (len(sizes) + 3) + "|")
    with tempfile.TemporaryDirectory() as folder:
        graphs = options.graphs or Path(folder)
        for family in options.family or names_of_families():
            cells = figures(known, family, options.actors, graphs, options.limit)
            for tool, resources_of in cells.items():
                print(row(family, tool, resources_of, options.actors), flush=True)


def names_of_families():
    return subprocess.run(
        FAMILIES, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.splitlines()


def written(family, actors, folder):
    """The file of a graph of the family, written where it is not there yet."""
    path = folder / f"{re.sub('[^a-z0-9]+', '_', family)}_{actors}.xml"
    if not path.exists():
        subprocess.run([*FAMILIES, family, str(actors), path.resolve()], check=True, cwd=ROOT)
    return path.resolve()


def measured(command, period_of, limit):
    """Resources of a process that finds a period, and the period; None where the limit ends it."""
    used = resources(command, PATIENCE * limit, processor_limit=limit)
    return None if used is None else (used, period_of(used.output))


def periods(known, path):
    """How each tool that is there is asked for a period, and how its period is read."""
    command = [sys.executable, "-m", "csdf", "analyze", "--json", "--file-limit", FILE_LIMIT, path]
    questions = {"csdf": (command, lambda text: float(Fraction(json.loads(text)["period"])))}
    if known["kiter"].place is not None:
        program, _ = peers.of_throughput(known, path)["Kiter"]
        questions["Kiter"] = (program, lambda text: 1 / float(THROUGHPUT.search(text)[1]))
    return questions


def figures(known, family, sizes, folder, limit):
    """Resources of each tool for graphs of the family, until the limit ends it."""
    cells = {}
    for actors in sizes:
        path = written(family, actors, folder)
        answers = {}
        for tool, (command, period_of) in periods(known, path).items():
            resources_of = cells.setdefault(tool, [])
            if None in resources_of:
                continue
            answer = measured(command, period_of, limit)
            resources_of.append(None if answer is None else answer[0])
            if answer is not None:
                answers[tool] = answer[1]
        if len(answers) == 2 and not math.isclose(*answers.values(), rel_tol=SAME):
            print(f"{path.name}: periods differ: {answers}", file=sys.stderr)
    return cells


def row(family, tool, cells, sizes):
    shown = [
        "-" if cell is None else f"{cell.seconds:.3g} s, {cell.megabytes:.0f} MB" for cell in cells
    ]
    shown += [""] * (len(sizes) - len(cells))
    times = [
        (math.log(size), math.log(cell.seconds))
        for size, cell in zip(sizes, cells, strict=False)
        if cell
    ]
    growth = ""
    if len(times) > 1:
        (small, fast), (large, slow) = times[-2:]
        growth = f"{(slow - fast) / (large - small):.2f}"
    return f"| {family} | {tool} | {' | '.join(shown)} | {growth} |"


if __name__ == "__main__":
    main()
