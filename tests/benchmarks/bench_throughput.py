"""Times of throughput analysis, beside those of other tools.

    python tests/benchmarks/bench_throughput.py [--kiter PROGRAM] [--sdf3 FOLDER] [--graphs FOLDER]

Our time is that of the analysis alone: median of several runs in one process, after a first one.
A peer's time is what the program itself reports for its analysis, measured in the same run if it is
given, else taken from the oracle file beside the graphs. Where that file knows no right answer of a
peer, it is left out. Ratios are peer / ours: above 1 we are quicker.
"""

import argparse
import json
import re
import subprocess
import tempfile
import warnings
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.execution import Execution
from csdf.analysis.throughput import throughput
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from csdf.model.indexed import indexed

BESIDE_CHECKOUT = Path(__file__).parents[2].parent / "shared" / "graphs"
RUN_SECONDS = 1.0  # enough repetitions for this time, at most 21
FIRINGS = 1_000_000
KITER_TIME = re.compile(r"KPeriodic Execution Time is\s+([\d.e+-]+)")
SDF3_TIME = re.compile(r"analysis time:\s*([\d.e+-]+)\s*ms")


def main():
    options = parsed_options()
    oracle_path = options.graphs.parent / "oracles" / "throughput.json"
    oracle = json.loads(oracle_path.read_text())
    names = [
        name
        for name, known in oracle.items()
        if not name.startswith("_") and known["period"] and options.only in name
    ]
    print(
        f"{'graph':44} {'ours ms':>10} {'Kiter ms':>11} {'ratio':>8} {'SDF3 ms':>11} {'ratio':>8}"
    )
    ratios = {"Kiter": [], "SDF3": []}
    for name in names:
        path = options.graphs / name
        ours = our_time(path, oracle[name]["period"])
        kiter, sdf3 = oracle[name]["kiter_ms"], oracle[name]["sdf3_ms"]
        if options.kiter and kiter:
            kiter = kiter_time(options.kiter, path, options.limit)
        if options.sdf3 and sdf3:
            sdf3 = sdf3_time(options.sdf3, path, options.limit)
        cells = []
        for peer, theirs in (("Kiter", kiter), ("SDF3", sdf3)):
            cells.append(
                f"{theirs:11.3f} {theirs / ours:8.2f}" if theirs else f"{'-':>11} {'-':>8}"
            )
            ratios[peer] += [theirs / ours] if theirs else []
        print(f"{name:44} {ours:10.3f} {' '.join(cells)}", flush=True)
    for peer, values in ratios.items():
        if values:
            mean = exp(sum(map(log, values)) / len(values))
            print(f"{peer}: geometric mean of {len(values)} ratios {mean:.2f}")
    bench_firings()


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiter", help="its program, to measure it in the same run")
    parser.add_argument("--sdf3", type=Path, help="folder of sdf3analysis-sdf and -csdf")
    parser.add_argument("--graphs", type=Path, default=BESIDE_CHECKOUT)
    parser.add_argument("--only", default="", help="graphs with this in their name")
    parser.add_argument("--limit", type=float, default=30, help="seconds for one run of a peer")
    return parser.parse_args()


def our_time(path, period):
    """Milliseconds; the answer is checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = read_graph(path)
    times = []
    found = throughput(graph)
    if str(found.period) != period:
        raise SystemExit(f"{path}: period {found.period}; expected {period}")
    while len(times) < 3 or (sum(times) < RUN_SECONDS and len(times) < 21):
        begin = perf_counter()
        throughput(graph)
        times.append(perf_counter() - begin)
    return 1000 * median(times)


def kiter_time(program, path, limit):
    return reported_time([program, "-f", path, "-a", "KPeriodicThroughput"], KITER_TIME, limit)


def sdf3_time(folder, path, limit):
    kind = "sdf" if re.search(r'<sdf3[^>]*\stype="sdf"', path.read_text()) else "csdf"
    program = (folder / f"sdf3analysis-{kind}").resolve()
    return reported_time([program, "--graph", path, "--algo", "throughput"], SDF3_TIME, limit)


def reported_time(command, pattern, limit):
    """Milliseconds, the median of the program's own reports; None if there is none in time."""
    times = []
    with tempfile.TemporaryDirectory() as folder:  # peers leave files where they are started
        while len(times) < 3:
            try:
                ended = subprocess.run(
                    command, capture_output=True, text=True, timeout=limit, cwd=folder, check=False
                )
            except subprocess.TimeoutExpired:
                return None
            found = pattern.search(ended.stdout + ended.stderr)
            if found is None:
                return None
            times.append(float(found[1]))
            if times[0] > 1000:
                break
    return median(times)


def bench_firings():
    """Self-timed execution of a random graph of 60 actors."""
    shape = GraphShape(
        actors=60, extra_channels=60, max_repetitions=50, max_rate=50, max_extra_initial_tokens=50
    )
    graph = random_graph(1, shape)
    firings = list(repetition_vector(graph).values())
    iterations = -(-FIRINGS // sum(firings))
    numbers = indexed(bound_channels(graph))
    Execution(numbers, firings).recorded(1)
    execution = Execution(numbers, firings)
    begin = perf_counter()
    execution.recorded(iterations)
    seconds = perf_counter() - begin
    done = iterations * sum(firings)
    print(
        f"{done} firings of 60 actors, {len(graph.channels)} channels, in {seconds:.3f} s: "
        f"{done / seconds / 1e6:.2f} million a second"
    )


if __name__ == "__main__":
    main()
