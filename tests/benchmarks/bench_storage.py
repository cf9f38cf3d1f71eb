"""Times of complete storage/throughput fronts, beside those of other tools.

    python tests/benchmarks/bench_storage.py [--kiter PROGRAM] [--sdf3 FOLDER] [--graphs FOLDER]

Our time is that of the search alone, in one process, after a search of a small graph; Kiter's is what
it reports for its search; SDF3's is that of its whole run, of which a small graph takes 4 ms. All are
medians of three runs, fewer where one takes seconds, and end at the limit: "none" is no
complete answer by then. The ratio is that of the faster peer to ours: above 1 we are quicker. The
mean is over graphs for which the faster peer takes long enough to matter.
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

from bench_throughput import BESIDE_CHECKOUT, reported_time

from csdf.io.graph_files import read_graph
from csdf.model.builder import GraphBuilder
from csdf.search.trade_off import pareto_front

LONG = 100  # ms of the faster peer, for the mean
# size;throughput;"distribution";ms of this one;ms so far - the last such line
KITER_TIME = re.compile(r'(?s:.*)^\d+;[^;\n]+;"[\d,]*";[^;\n]+;([\d.e+-]+)$', re.MULTILINE)


def main():
    options = parsed_options()
    small = GraphBuilder().actor("a", 1, overlap=False).actor("b", 1, overlap=False)
    pareto_front(small.channel("a", 1, "b", 1).graph())
    print(
        f"{'graph':44} {'points':>6} {'complete':>8} {'ours ms':>10} {'Kiter ms':>10} "
        f"{'SDF3 ms':>10} {'ratio':>8}"
    )
    ratios = []
    for name in names(options):
        path = options.graphs / name
        front, ours = our_front(path, options.limit)
        peers = [
            kiter_time(options.kiter, path, options.limit) if options.kiter else None,
            sdf3_time(options.sdf3, path, options.limit) if options.sdf3 else None,
        ]
        faster = min((time for time in peers if time is not None), default=None)
        cells = [f"{'none':>10}" if time is None else f"{time:10.1f}" for time in peers]
        cells.append(f"{'-':>8}" if faster is None else f"{faster / ours:8.2f}")
        complete = "yes" if front.is_complete else "no"
        print(
            f"{name:44} {len(front.points):6} {complete:>8} {ours:10.1f} {' '.join(cells)}",
            flush=True,
        )
        ratios += [faster / ours] if faster is not None and faster > LONG else []
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(f"geometric mean of {len(ratios)} ratios to a peer of over {LONG} ms: {mean:.2f}")


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiter", help="its program")
    parser.add_argument("--sdf3", type=Path, help="folder of sdf3analysis-sdf and -csdf")
    parser.add_argument("--graphs", type=Path, default=BESIDE_CHECKOUT)
    parser.add_argument("--only", default="", help="graphs with this in their name")
    parser.add_argument("--skip", action="append", default=[], help="not those with this in it")
    parser.add_argument("--limit", type=float, default=30, help="seconds for one run")
    return parser.parse_args()


def names(options):
    """The graphs of the fronts and of the networks that the oracles know of."""
    found = []
    for oracle in ("pareto.json", "cnn.json"):
        known = json.loads((options.graphs.parent / "oracles" / oracle).read_text())
        found += [name for name in known if not name.startswith("_")]
    return [
        name
        for name in found
        if options.only in name and not any(part in name for part in options.skip)
    ]


def our_front(path, limit):
    """The front, as far as it is found in time, and milliseconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = read_graph(path)
    times = []
    while len(times) < 3 and sum(times) < 3000:  # the first one may load the compiler
        begin = perf_counter()
        front = pareto_front(graph, budget=limit)
        times.append(1000 * (perf_counter() - begin))
    return front, median(times)


def kiter_time(program, path, limit):
    return reported_time([program, "-f", path, "-a", "ThroughputBufferingDSE"], KITER_TIME, limit)


def sdf3_time(folder, path, limit):
    kind = "sdf" if re.search(r'<sdf3[^>]*\stype="sdf"', path.read_text()) else "csdf"
    program = (folder / f"sdf3analysis-{kind}").resolve()
    return wall_time([program, "--graph", path, "--algo", "buffersize"], limit)


def wall_time(command, limit):
    """Milliseconds of a whole run; None if there is no answer in time."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        while len(times) < 3 and (not times or times[0] < 1000):
            begin = perf_counter()
            try:
                subprocess.run(command, capture_output=True, timeout=limit, cwd=folder, check=True)
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
                return None
            times.append(1000 * (perf_counter() - begin))
    return median(times)


if __name__ == "__main__":
    main()
