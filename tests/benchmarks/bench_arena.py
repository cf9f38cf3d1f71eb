"""Offsets of buffers: the traces of Glow, and the problems of MiniMalloc beside MiniMalloc.

    MINIMALLOC_BIN=PROGRAM python tests/benchmarks/bench_arena.py [--alloc FOLDER]

Times of MiniMalloc's problems are those of whole runs, ours with the start of Python and of the
compiler, and the ratio is the peer's to ours: above 1 we are quicker. The compiler keeps its
translations after the first run. The second column is our search alone in this process.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path
from random import Random
from time import perf_counter, process_time

from planners.arena.allocation import plan_arena
from planners.arena.blocks import blocks_of
from planners.arena.orders import Greedy
from planners.arena.problem import Buffer, Problem
from planners.formats.allocation_traces import parse_buffers, parse_traces

ALLOC = Path(__file__).parents[2].parent / "shared" / "alloc"
CAPACITY = 1_048_576
COMMAND = "import sys; from csdf.cli.main import main; sys.exit(main())"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alloc", type=Path, default=ALLOC)
    parser.add_argument("--limit", type=float, default=100, help="seconds for one run")
    parser.add_argument("--least", type=float, default=30, help="seconds for each least peak")
    parser.add_argument("--large", type=Path, help="only the problems in this folder")
    options = parser.parse_args()
    if options.large:
        for path in sorted(options.large.glob("*.csv")):
            large(path, options.limit)
        return
    glow(options.alloc / "glow" / "traces.txt")
    paths = sorted((options.alloc / "minimalloc").glob("*.csv"))
    capacities(paths, os.environ.get("MINIMALLOC_BIN"), options.limit)
    least_peaks(paths, options.least)
    many(100_000, 10)


def glow(path):
    begin = perf_counter()
    plans = [plan_arena(problem) for problem in parse_traces(path.read_text(), path.name)]
    seconds = perf_counter() - begin
    optimal = sum(plan.status == "optimal" for plan in plans)
    whole = run_time([sys.executable, "-c", COMMAND, "plan", "arena", str(path)], 60)
    print(f"Glow: {optimal} of {len(plans)} optimal, {seconds:.2f} s; whole run {whole:.2f} s")


def large(path, limit):
    problem = problem_of(path)
    blocks = blocks_of(problem)
    greedy = Greedy(blocks)
    size, starts = blocks.size, blocks.starts
    order = sorted(range(len(size)), key=lambda one: (-size[one], starts[one]))
    by_size = blocks.peak(greedy.offsets(order))
    begin = process_time()
    plan = plan_arena(problem, budget=limit)
    seconds = process_time() - begin
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000  # of all problems so far
    bound = plan.lower_bound
    print(
        f"{path.stem:16} {len(size):>6} {plan.peak:>14} {float(plan.gap):8.3%} {plan.status:9} "
        f"greedy {by_size:>14} {by_size / bound - 1:8.3%} {seconds:6.2f} s {most:>5} MB"
    )


def capacities(paths, peer, limit):
    print(f"{'fits ' + str(CAPACITY):16} {'ours s':>8} {'search s':>8} {'peer s':>8} {'ratio':>8}")
    ours, theirs = [], []
    for path in paths:
        words = ["plan", "arena", str(path), "--capacity", str(CAPACITY), "--json"]
        mine = run_time([sys.executable, "-c", COMMAND, *words], limit)
        begin = perf_counter()
        plan_arena(problem_of(path), capacity=CAPACITY, budget=limit)
        search = perf_counter() - begin
        other = peer_time(peer, path, limit) if peer else None
        cells = "" if other is None else f"{other:8.2f} {other / mine:8.2f}"
        print(f"{path.stem:16} {mine:8.2f} {search:8.2f} {cells}", flush=True)
        ours.append(mine)
        theirs += [other] if other is not None else []
    for name, times in (("ours", ours), ("peer", theirs)):
        if times:
            print(f"geometric mean, {name}: {exp(sum(map(log, times)) / len(times)):.2f} s")


def least_peaks(paths, limit):
    print(f"{'least peak':16} {'peak':>8} {'at least':>8} {'gap':>7} {'s':>8}")
    for path in paths:
        begin = perf_counter()
        plan = plan_arena(problem_of(path), budget=limit)
        seconds = perf_counter() - begin
        gap = f"{float(plan.gap):.2%}"
        print(
            f"{path.stem:16} {plan.peak:8} {plan.lower_bound:8} {gap:>7} {seconds:8.2f}", flush=True
        )


def many(count, limit):
    random = Random(1)
    starts = [random.randrange(10 * count) for _ in range(count)]
    buffers = tuple(
        Buffer(
            name=str(number),
            size=random.randrange(1, 100_000),
            start=start,
            end=start + 1 + random.randrange(1000),
            alignment=16,
        )
        for number, start in enumerate(starts)
    )
    begin = perf_counter()
    plan = plan_arena(Problem(name="many", buffers=buffers), budget=limit - 1)
    print(f"{count} buffers: gap {float(plan.gap):.2%} after {perf_counter() - begin:.1f} s")


def problem_of(path):
    return parse_buffers(path.read_text(), path.name, path.stem)


def peer_time(program, path, limit):
    with tempfile.TemporaryDirectory() as folder:
        return run_time(
            [
                program,
                f"--capacity={CAPACITY}",
                f"--input={path}",
                f"--output={folder}/out.csv",
                "--validate",
                f"--timeout={limit:g}s",
            ],
            limit + 5,
        )


def run_time(command, limit):
    begin = perf_counter()
    subprocess.run(command, capture_output=True, timeout=limit, check=True)
    return perf_counter() - begin


if __name__ == "__main__":
    main()
