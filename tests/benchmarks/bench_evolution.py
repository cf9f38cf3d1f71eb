"""Times of the evolutionary search alone, and of evaluations in processes and on a cluster.

    python tests/benchmarks/bench_evolution.py [--workers 2] [--scheduler tcp://127.0.0.1:8786]

The first table is the search without its evaluations, in time of the processor: sorting, selection,
variation, archive, and a checkpoint after each generation where it says so. The second is a generation
of 100 evaluations that sleep 5 ms each, by the clock: the first one, with the start of the processes,
and the median of the next five; what is above the sleep is the way there and back.
The third is a search of a real network: by the clock, which says something on an idle machine only, and
in time of the processor: what this process takes, and what its worker processes take, their start
apart. Those of a cluster are other processes, whose time is not known here.
"""

import argparse
import functools
import resource
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, process_time

from cnn2csdf.catalogue.networks import from_catalogue
from csdf.time_limit import Stop
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.reuse.application import Application, single_partition
from planners.reuse.edge_buffers import best_shared
from planners.reuse.evaluation import Evaluator
from planners.reuse.executors import Checkpoint, Serial
from planners.reuse.problem import ReuseProblem, search_problem
from planners.reuse.process_pool import cluster_executor, local_executor

GENERATIONS = 200
GENES = 300
PAUSE = 0.005  # seconds of one evaluation
ROUNDS = 6
NETWORK = "densenet121"
NETWORK_GENERATIONS = 100
NETWORK_POPULATION = 60


@dataclass(frozen=True)
class Weighted:
    """Two or three weighted counts that cannot all be small."""

    objectives: int = 2
    divisor: int = 1  # of the second objective
    pause: float = 0.0  # seconds

    def __call__(self, chromosome):
        time.sleep(self.pause)
        first = sum((7 * gene + 3) % 101 for gene, value in enumerate(chromosome) if value)
        second = sum((5 * gene + 1) % 97 for gene, value in enumerate(chromosome) if not value)
        third = sum(one != other for one, other in pairwise(chromosome))
        values = (first, Fraction(second, self.divisor), third)
        exact = tuple(v.numerator if v.denominator == 1 else v for v in values)
        return exact[: self.objectives]


class Timed:
    """This process, and how long it was busy evaluating."""

    def __init__(self, evaluate):
        self._place = Serial(evaluate)
        self.seconds = 0.0

    def scores(self, chromosomes, stop):
        begin = process_time()
        found = list(self._place.scores(chromosomes, stop))
        self.seconds += process_time() - begin
        yield from found


def main():
    options = parsed_options()
    print(f"{GENERATIONS} generations of 100 x {GENES} genes: {'':19} {'ms each':>8} {'front':>6}")
    for name, evaluate in {
        "two objectives, integers": Weighted(),
        "two objectives, fractions": Weighted(divisor=7),
        "three objectives, integers": Weighted(objectives=3),
    }.items():
        for how in ("", ", with checkpoints"):
            each, size = search_time(evaluate, is_kept=bool(how))
            print(f"{name + how:54} {each:8.2f} {size:6}", flush=True)
    print(f"\n100 evaluations of {1000 * PAUSE:g} ms: {'':24} {'first ms':>9} {'then ms':>9}")
    evaluate = Weighted(pause=PAUSE)
    places = {
        "this process": lambda: local_executor(evaluate, workers=1),
        f"{options.workers} processes": lambda: local_executor(evaluate, workers=options.workers),
    }
    if options.scheduler:
        places[options.scheduler] = lambda: cluster_executor(evaluate, options.scheduler)
    for name, opened in places.items():
        first, then = evaluation_times(opened)
        print(f"{name:50} {first:9.1f} {then:9.1f}", flush=True)
    title = f"{NETWORK}, {NETWORK_GENERATIONS} generations of {NETWORK_POPULATION}"
    print(f"\n{title:50} {'clock, s':>9} {'here, s':>9} {'there, s':>9}")
    for name, workers in (("this process", 1), (f"{options.workers} processes", options.workers)):
        opened = functools.partial(local_executor, workers=workers)
        clock, here, there = network_times(opened, NETWORK_GENERATIONS)
        there -= network_times(opened, 1)[2]
        print(f"{name:50} {clock:9.2f} {here:9.2f} {there:9.2f}", flush=True)
    if options.scheduler:
        opened = functools.partial(cluster_executor, address=options.scheduler)
        clock, here, _ = network_times(opened, NETWORK_GENERATIONS)
        print(f"{options.scheduler:50} {clock:9.2f} {here:9.2f}", flush=True)


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scheduler", help="address of a Dask scheduler")
    return parser.parse_args()


def problem(objectives):
    names = tuple(f"objective {number}" for number in range(objectives))
    return ReuseProblem(identity="benchmark", alleles=((0, 1),) * GENES, objectives=names)


def search_time(evaluate, *, is_kept):
    """Milliseconds of a generation without its evaluations, and the size of the front."""
    searched = problem(evaluate.objectives)
    place = Timed(evaluate)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.json"
        executor = place
        if is_kept:
            executor = Checkpoint(place, file, searched)
            executor.open(Stop())
        begin = process_time()
        front = evolve(
            searched,
            executor,
            random=Random(1),
            limits=SearchLimits(generations=GENERATIONS),
        )
        seconds = process_time() - begin - place.seconds
    return 1000 * seconds / GENERATIONS, len(front.points)


def evaluation_times(opened):
    """Milliseconds of the first generation with the start, and the median of the next."""
    random = Random(1)
    chromosomes = [tuple(random.choices((0, 1), k=GENES)) for _ in range(100)]
    times = []
    begin = perf_counter()
    with opened() as place:
        for _ in range(ROUNDS):
            assert len(list(place.scores(chromosomes, Stop()))) == 100
            now = perf_counter()
            times.append(1000 * (now - begin))
            begin = now
    return times[0], median(times[1:])


def network_evaluator():
    member = single_partition(from_catalogue(NETWORK))
    return Evaluator(Application(name=NETWORK, members=(member,)), share=best_shared)


def network_search(evaluator, place, generations):
    evolve(
        search_problem(evaluator),
        place,
        random=Random(1),
        limits=SearchLimits(generations=generations),
        settings=Settings(population=NETWORK_POPULATION),
    )


def network_times(opened, generations):
    """Seconds of a search, and its processor seconds: here, and in processes started and ended."""
    evaluator = network_evaluator()
    before = _children()
    with opened(evaluator.evaluate) as place:
        start, begin = perf_counter(), process_time()
        network_search(evaluator, place, generations)
        clock, here = perf_counter() - start, process_time() - begin
    return clock, here, _children() - before


def _children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
