"""How the time and memory of a period grow with cyclic graphs of many families.

    python -m tests.benchmarks.bench_periods [--actors N ...] [--family NAME ...] [--limit SECONDS]

Each period is computed in a process of its own. A cell has the seconds of the processor for the period
alone, and the largest memory of the process, graph included; or the bounds, where the limit ended it.
The last column is the exponent of the growth in time between the last two sizes.
"""

import argparse
import math
import subprocess
import sys

from tests.benchmarks.comparing.measuring import ROOT
from tests.benchmarks.growth_families import FAMILIES

TIMED = """
import resource, sys, time
from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from tests.benchmarks.growth_families import FAMILIES
graph = FAMILIES[sys.argv[1]](int(sys.argv[2]))
begin = time.process_time()
try:
    throughput(graph, budget=float(sys.argv[3]))
    bounds = ""
except GaveUp as end:
    bounds = f"between {end.low} and {end.high}"
seconds = time.process_time() - begin
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, bounds, sep=";")
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actors", type=int, nargs="*", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--family", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--limit", type=float, default=200, help="seconds for one period")
    options = parser.parse_args()
    sizes = [f"{actors:,} actors" for actors in options.actors]
    print(f"| family | {' | '.join(sizes)} | exponent |")
    print("|---" * (len(sizes) + 2) + "|")
    for family in options.family:
        print(row(family, options.actors, options.limit), flush=True)


def row(family, sizes, limit):
    cells, times = [], []
    for actors in sizes:
        command = [sys.executable, "-c", TIMED, family, str(actors), str(limit)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        seconds, megabytes, bounds = ran.stdout.strip().split(";")
        times.append(float(seconds))
        cells.append(bounds or f"{times[-1]:.3g} s, {megabytes} MB")
    growth = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
    return f"| {family} | {' | '.join(cells)} | {growth:.2f} |"


if __name__ == "__main__":
    main()
