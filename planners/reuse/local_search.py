"""Local search for the Pareto front of memory and periods of networks that share one memory.

A chromosome has one gene for each layer; the allele of a gene is 0 if the layer is executed whole, else
the rows of each of its parts. The first allele of a gene is the whole layer. The evaluator computes the
memory and the periods of a chromosome. The result is an archive of nondominated points. Problems of at
most ENUMERATED chromosomes are enumerated. For others four steps follow:

1. Seeds: the exact front of live bytes (planners.reuse.load_front), and the smallest chromosome of each
   network on its own.
2. Hill climbing for memory alone (planners.reuse.hill_climbing).
3. Descent from all layers whole. Each step changes the run of layers that saves the most memory per
   time lost.
4. Threshold accepting until the evaluations, or the time, are spent. Each walk has its own weights of
   the objectives and begins at a point of the front. It accepts any neighbour that is worse by at most
   a threshold, which falls to zero. Source: Dueck and Scheuer, Threshold accepting, Journal of
   Computational Physics 90(1), 1990, the algorithm of section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import chain, islice, pairwise, product
from random import Random

from csdf.status import Reason, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.reuse.application import WHOLE, Chromosome
from planners.reuse.evaluation import Evaluator
from planners.reuse.executors import (
    BATCH,
    Executor,
    Limited,
    LimitReached,
    Serial,
    append_points,
)
from planners.reuse.hill_climbing import (
    CLIMBS,
    EVALUATIONS_PER_GENE,
    Enough,
    Gains,
    change,
    change_run,
    climbed,
    possible_gains,
    smallest_of_each,
)
from planners.reuse.load_front import load_front
from planners.reuse.problem import (
    PUBLISHED_ALLELES,
    Archive,
    Front,
    LostWorkers,
    Number,
    Point,
    ReuseProblem,
    Score,
    SearchEnd,
    search_problem,
)

ENUMERATED = 1024  # chromosomes up to which a problem is enumerated
# Step 3, descent.
RUN_LENGTHS = (1, 2, 4, 8)
# Step 4, threshold accepting.
WALKS = 8  # walks in a round
MEMORY_WALKS = 3  # those that minimise memory; the others have random weights
MEMORY_WEIGHT = 256  # in these, against 1 for each period: of equal memory the faster is better
HIGHEST_WEIGHT = 16  # of an objective in the other walks
STEPS = 500  # of a walk
THRESHOLD = Fraction(1, 100)  # initial threshold, as a fraction of the range of the front
IDLE_ROUNDS = 25  # rounds without a new chromosome after which the search ends
MOVES = ("gene", "gene", "gene", "border", "border", "two genes", "run", "run")  # equally probable


def local_search(
    evaluator: Evaluator,
    *,
    random: Random,
    evaluations: int | None = None,
    alleles: Sequence[int] = PUBLISHED_ALLELES,
    executor: Executor | None = None,
    budget: Budget = None,
) -> Front:
    """Return the best front of memory and periods that the search finds.

    evaluations: maximum number of chromosomes; None: only `budget` (a stop, or seconds) limits the
    search, which then ends with the front so far, as it does at Ctrl-C. The same `random` and number of
    evaluations give the same front, whichever executor runs them. Raises InvalidSearch,
    EvaluationFailed.
    """
    stop = stop_of(budget)
    problem = search_problem(evaluator, alleles)

    def exact_seeds() -> Iterator[Chromosome]:
        for allele in dict.fromkeys(allele for values in problem.alleles for allele in values):
            if allele != WHOLE:
                for _, chromosome in load_front(evaluator, (allele,), budget=stop):
                    yield problem.fitted(chromosome)

    limited = Limited(executor or Serial(evaluator.evaluate), evaluations)
    search = LocalSearch(
        problem,
        limited,
        random=random,
        gains=lambda chromosome: possible_gains(evaluator, *evaluator.buffers(chromosome)),
    )
    smallest = smallest_of_each(evaluator, problem, limited, random=random, stop=stop)
    return search.run(chain(exact_seeds(), smallest), stop)


class LocalSearch:
    """Local search with an archive of all evaluated points; the first objective is memory."""

    def __init__(
        self,
        problem: ReuseProblem,
        executor: Limited,
        *,
        random: Random,
        gains: Gains = lambda _: {},
    ) -> None:
        self.archive = Archive()
        self._problem = problem
        self._executor = executor
        self._random = random
        self._gains = gains
        self._rounds = 0  # of threshold accepting

    def run(self, seeds: Iterable[Chromosome], stop: Stop) -> Front:
        """Return the front; `stop` or Ctrl-C may end the search."""
        is_finished = True
        try:
            reason = self._searched(seeds, stop)
        except LimitReached as limit:
            reason = limit.reason
        except (*ENDS, LostWorkers) as end:
            reason, is_finished = reason_of(end), False
        return Front(
            points=self.archive.by_objectives(),
            is_finished=is_finished,
            is_proved=self._executor.seen == self._problem.size,
            reason=reason,
            generations=self._rounds,
            evaluations=self._executor.evaluations,
        )

    def _searched(self, seeds: Iterable[Chromosome], stop: Stop) -> Reason:
        """Search, and return why the search ended."""
        alleles = self._problem.alleles
        # Exhaustive search proves the front of a small problem.
        if self._problem.size <= ENUMERATED:
            self._look_at(product(*alleles), stop)
            return because(SearchEnd.EVERY_ONE)
        # Both extremes bound the front: all layers whole or in their largest parts, and all in their
        # smallest parts.
        whole = self._problem.fitted([WHOLE] * len(alleles))
        smallest = self._problem.all_in_parts
        self._look_at([whole, smallest], stop)
        self._look_at(seeds, stop)
        # Memory first: random walks rarely reach the smallest memory, where all large buffers have
        # to shrink together.
        self.climb_smallest(stop)
        self.descend(whole, min(smallest[gene] for gene in self._problem.free_genes), stop)
        idle = 0
        while idle < IDLE_ROUNDS:
            before = self._executor.evaluations
            self.walk(stop)
            self._rounds += 1
            # A round without a new chromosome is evidence that the neighbourhood is exhausted.
            idle = 0 if self._executor.evaluations > before else idle + 1
        return because(SearchEnd.NOTHING_NEW, rounds=IDLE_ROUNDS)

    def _look_at(self, chromosomes: Iterable[Chromosome], stop: Stop) -> list[Point]:
        """Evaluate in order; after an interruption, evaluated points are in the archive."""
        remaining = iter(chromosomes)
        evaluated: list[Point] = []
        while batch := list(islice(remaining, BATCH)):
            points: list[Point] = []
            try:
                append_points(points, self._problem, self._executor, batch, stop)
            # Workers may be interrupted in a batch: the points that are evaluated already count.
            finally:
                self.archive.add(points)
            evaluated += points
        return evaluated

    def climb_smallest(self, stop: Stop) -> None:
        """Climb from the smallest point of the archive.

        With limited evaluations it gets one of CLIMBS equal parts of them.
        """
        genes = self._problem.free_genes
        end = self._executor.evaluations
        # Without a limit the effort grows with the problem, not with the clock.
        end += self._executor.share(CLIMBS) or EVALUATIONS_PER_GENE * len(genes)

        def memory(chromosome: Chromosome) -> Number:
            if self._executor.evaluations >= end:
                raise Enough
            (point,) = self._look_at([chromosome], stop)
            return point.score[0]

        start = min(self.archive.points, key=lambda point: point.score[0]).chromosome
        with suppress(Enough):
            for _ in climbed(start, genes, self._problem, memory, self._random, self._gains):
                pass

    def descend(self, start: Chromosome, allele: int, stop: Stop) -> None:
        """Descend until no run of genes saves memory. allele: the new allele of the genes of a run.

        Ties go to the first run. O(genes) evaluations per step.
        """
        free = self._problem.free_genes
        (current,) = self._look_at([start], stop)

        def price(candidate: Point) -> Fraction:
            """Time lost, summed over the networks, per byte saved."""
            memory, *times = current.score
            less_memory, *longer_times = candidate.score
            return Fraction(sum(longer_times) - sum(times)) / Fraction(memory - less_memory)

        while True:
            nearby: dict[Chromosome, None] = {}
            for length in RUN_LENGTHS:
                # Runs overlap by half: a good run that straddles two runs is still tried.
                for begin in range(0, len(free) - length + 1, max(1, length // 2)):
                    genes = list(current.chromosome)
                    for gene in free[begin : begin + length]:
                        genes[gene] = self._problem.allele_or_last(gene, allele)
                    nearby[tuple(genes)] = None
            memory_now = current.score[0]
            evaluated = self._look_at(nearby, stop)
            smaller = [point for point in evaluated if point.score[0] < memory_now]
            if not smaller:
                return
            # Steepest descent by the ratio of lost time to saved memory.
            current = min(smaller, key=price)

    def walk(self, stop: Stop) -> None:
        """Run one round of walks; they begin at points of the archive, which must have a point."""
        front = self.archive.by_objectives()
        periods = len(front[0].score) - 1
        walks = []
        for number in range(WALKS):
            # Some walks aim at memory alone; the rest spread over the front by random weights.
            if number < MEMORY_WALKS:
                weights = [MEMORY_WEIGHT] + [1] * periods
            else:
                weights = [self._random.randint(1, HIGHEST_WEIGHT) for _ in range(periods + 1)]
            walks.append(
                # Every second walk begins at a random point: diversity along the front.
                _WalkPosition(front, weights, self._random.choice(front) if number % 2 else None)
            )
        free = self._problem.free_genes
        evaluated: list[Point] = []
        try:
            for step in range(STEPS):
                # Dueck and Scheuer: the threshold falls linearly to zero, a fraction so that no
                # rounding decides.
                threshold = THRESHOLD * Fraction(STEPS - step - 1, STEPS)
                neighbours = [
                    neighbour(self._problem, free, walk.chromosome, self._random) for walk in walks
                ]
                append_points(evaluated, self._problem, self._executor, neighbours, stop)
                for walk, point in zip(walks, evaluated[-len(walks) :], strict=True):
                    walk.offer(point, threshold)
        finally:
            self.archive.add(evaluated)


class _WalkPosition:
    """The current chromosome of a walk, and its cost: the weighted sum of normalised objectives."""

    def __init__(self, front: Sequence[Point], weights: Sequence[int], begin: Point | None) -> None:
        """Begin at a point; None for the point of the front with the lowest cost."""
        columns = list(zip(*(point.score for point in front), strict=True))
        self._factors = [
            # Objectives have different units: each is normalised by its range over the front.
            Fraction(weight, sum(weights)) / ((max(column) - min(column)) or 1)
            for weight, column in zip(weights, columns, strict=True)
        ]
        begin = begin or min(front, key=lambda point: self._cost_of(point.score))
        self.chromosome = begin.chromosome
        self._cost = self._cost_of(begin.score)

    def _cost_of(self, values: Score) -> Fraction:
        terms = zip(self._factors, values, strict=True)
        return sum((factor * value for factor, value in terms), Fraction(0))

    def offer(self, point: Point, threshold: Fraction) -> None:
        """Move to a neighbour if it is worse by at most the threshold."""
        cost = self._cost_of(point.score)
        # Threshold accepting: unlike simulated annealing the decision needs no random number.
        if cost <= self._cost + threshold:
            self.chromosome, self._cost = point.chromosome, cost


def neighbour(
    problem: ReuseProblem, free: Sequence[int], chromosome: Chromosome, random: Random
) -> Chromosome:
    """Return a random neighbour; the same chromosome if no gene is free.

    One gene changes, or a gene at a border between alleles, two genes, or a run of adjacent genes.
    """
    if not free:
        return chromosome
    genes = list(chromosome)
    move = random.choice(MOVES)
    if move == "gene":
        change(problem, genes, random.choice(free), random)
    # Borders between alleles: memory changes most where parts meet whole layers.
    elif move == "border":
        borders = [
            gene
            for left, right in pairwise(free)
            if genes[left] != genes[right]
            for gene in (left, right)
        ]
        change(problem, genes, random.choice(borders or free), random)
    elif move == "two genes":
        change(problem, genes, random.choice(free), random)
        change(problem, genes, random.choice(free), random)
    else:
        change_run(problem, genes, free, random)
    return tuple(genes)
