"""NSGA-II with exact scores, and an archive of all points that no evaluated point dominates.

Source: Deb, Pratap, Agarwal, Meyarivan, A fast and elitist multiobjective genetic algorithm: NSGA-II,
IEEE Trans. Evolutionary Computation 6(2), 2002. Beyond it: the archive, and no chromosome is evaluated
twice. It is the search of Algorithm 9 in chapter 6 of Minakova's thesis (planners.reuse.problem).

Our own implementation rather than pymoo's, because scores decide exactly here: domination compares
integers and fractions, and pymoo keeps objectives as arrays of floats. It would replace sorting and
variation only, some 160 lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import inf
from random import Random
from typing import cast

import numpy as np
from numpy.typing import NDArray

from csdf.errors import plural
from csdf.status import Reason, because
from csdf.time_limit import ENDS, Budget, Progress, Report, Stop, reason_of, stop_of
from planners.reuse.application import Chromosome
from planners.reuse.executors import Executor, append_points
from planners.reuse.problem import (
    Archive,
    Front,
    InvalidSearch,
    LostWorkers,
    Number,
    Point,
    ReuseProblem,
    Score,
    SearchEnd,
    Truths,
    at_most,
    ranks_of,
    rounded,
)

ATTEMPTS = 8  # to fill a generation with chromosomes never seen; each mutates twice as much
LARGEST_RATE = Fraction(1, 2)  # of mutation; at this rate every chromosome can be reached


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """When a search ends by itself; None is no limit.

    generations: the first population included.
    """

    generations: int | None = None
    evaluations: int | None = None

    def __post_init__(self) -> None:
        for name in ("generations", "evaluations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidSearch(f"{name}: found {value}; expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the next generation is bred. Rates are probabilities.

    mutated_genes: the mean number of genes that change in a child.
    """

    population: int = 100
    crossover_rate: Fraction = Fraction(9, 10)  # of the pairs; remaining pairs are copied
    one_point_rate: Fraction = Fraction(1, 2)  # of the crossovers; remaining crossovers are uniform
    mutated_genes: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.population < 2:
            raise InvalidSearch(f"a population of {self.population}; expected at least 2")
        for name in ("crossover_rate", "one_point_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidSearch(f"{name}: found {getattr(self, name)}; expected 0 to 1")
        if self.mutated_genes < 0:
            raise InvalidSearch(f"mutated_genes: found {self.mutated_genes}; expected at least 0")


def evolve(
    problem: ReuseProblem,
    executor: Executor,
    *,
    random: Random,
    limits: SearchLimits,
    settings: Settings | None = None,
    seeds: Sequence[Chromosome] = (),
    budget: Budget = None,
    tell: Report = lambda _: None,
) -> Front:
    """Return the best front found within the limits.

    The same `random` gives the same front, wherever the evaluations run. seeds: members of the first
    population. budget: a stop, or seconds; when it or Ctrl-C ends the search, or all workers are lost,
    the front so far is returned. tell: is called after each generation. random: its state advances.

    Raises InvalidSearch for an invalid seed or score; EvaluationFailed.
    """
    search = _Generations(problem, random, settings or Settings(), seeds)
    return search.run(executor, limits, stop_of(budget), tell)


class _Generations:
    """The state of one search."""

    def __init__(
        self, problem: ReuseProblem, random: Random, settings: Settings, seeds: Sequence[Chromosome]
    ) -> None:
        self._problem = problem
        self._genome = Genome(problem)
        self._random = random
        self._settings = settings
        self._seeds = self._genome.rows(seeds)
        self._population: list[Point] = []  # best first
        self._rows = self._genome.rows([])  # of the population
        self._archive = Archive()
        self._seen: set[bytes] = set()
        self._generation = 0
        self._evaluations = 0

    def run(self, executor: Executor, limits: SearchLimits, stop: Stop, tell: Report) -> Front:
        try:
            while (end := self._end(limits)) is None:
                if self._step(executor, limits, stop):
                    points = self._archive.points
                    best = min((point.memory for point in points), default=0)
                    tell(Progress(done=self._generation, found=len(points), best=best))
        except (*ENDS, LostWorkers) as early:
            return self._front(reason_of(early), is_finished=False)
        return self._front(end, is_finished=True)

    def _end(self, limits: SearchLimits) -> Reason | None:
        """Return why the search ends; None if it continues."""
        if self._evaluations == self._problem.size:
            return because(SearchEnd.EVERY_ONE)
        for why, maximum, count in (
            (SearchEnd.GENERATIONS, limits.generations, self._generation),
            (SearchEnd.EVALUATIONS, limits.evaluations, self._evaluations),
        ):
            if maximum is not None and count >= maximum:
                return because(why, count=count, s=plural(count))
        return None

    def _step(self, executor: Executor, limits: SearchLimits, stop: Stop) -> bool:
        """Evaluate one generation; return False if too few evaluations are left for all of it."""
        rows = self._children() if self._generation else self._first()
        room = len(rows)
        if limits.evaluations is not None:
            room = min(room, limits.evaluations - self._evaluations)
        points: list[Point] = []
        try:
            chromosomes = self._genome.chromosomes(rows[:room])
            append_points(points, self._problem, executor, chromosomes, stop)
        finally:
            self._archive.add(points)
            self._evaluations += len(points)
        if room < len(rows):
            return False
        members = [*self._population, *points]
        order = survivors([point.score for point in members], self._settings.population)
        self._population = [members[index] for index in order]
        self._rows = np.concatenate([self._rows, rows])[order]
        self._generation += 1
        return True

    def _first(self) -> Rows:
        """Return the seeds, and random chromosomes up to the size of the population."""
        count = max(self._settings.population, len(self._seeds))
        rows = self._unseen(self._seeds, count)
        for _ in range(ATTEMPTS):
            if len(rows) == count:
                break
            drawn = random_rows(self._random, self._genome.sizes, self._settings.population)
            rows = np.concatenate([rows, self._unseen(drawn, count - len(rows))])
        return rows

    def _children(self) -> Rows:
        """Return new chromosomes; fewer than a population if ATTEMPTS do not give enough."""
        count = self._settings.population
        rate = self._settings.mutated_genes / len(self._genome.sizes)
        rows = self._rows[:0]
        for _ in range(ATTEMPTS):
            rate = min(rate, LARGEST_RATE)
            missing = count - len(rows)
            pairs = (missing + 1) // 2
            winners = tournament(self._random, len(self._rows), 2 * pairs)
            mothers, fathers = self._rows[winners[:pairs]], self._rows[winners[pairs:]]
            both = crossed(self._random, mothers, fathers, self._settings)
            children = mutated(self._random, both, self._genome.sizes, rate)
            rows = np.concatenate([rows, self._unseen(children, missing)])
            if len(rows) == count:
                break
            rate = 2 * rate
        return rows

    def _unseen(self, rows: Rows, count: int) -> Rows:
        """Return the first `count` rows that no earlier call returned."""
        chosen: list[int] = []
        for number, row in enumerate(rows):
            content = row.tobytes()
            if len(chosen) < count and content not in self._seen:
                self._seen.add(content)
                chosen.append(number)
        return rows[chosen]

    def _front(self, reason: Reason, *, is_finished: bool) -> Front:
        return Front(
            points=self._archive.by_objectives(),
            is_finished=is_finished,
            is_proved=self._evaluations == self._problem.size,
            reason=reason,
            generations=self._generation,
            evaluations=self._evaluations,
        )


Rows = NDArray[np.uint16]  # (chromosomes, genes), allele numbers
MOST_ALLELES = 2**16


class Genome:
    """Chromosomes as rows of allele numbers, for arithmetic over a whole population."""

    def __init__(self, problem: ReuseProblem) -> None:
        sizes = [len(values) for values in problem.alleles]
        if max(sizes) > MOST_ALLELES:
            gene = sizes.index(max(sizes))
            raise InvalidSearch(
                f"gene {gene}: {sizes[gene]} alleles; at most {MOST_ALLELES} are possible"
            )
        self._problem = problem
        self.sizes = np.array(sizes, dtype=np.uint64)
        self._starts = np.array([0, *accumulate(sizes[:-1])])
        self._alleles = np.array([value for values in problem.alleles for value in values], object)
        self._numbers = [
            {value: number for number, value in enumerate(values)} for values in problem.alleles
        ]

    def rows(self, chromosomes: Sequence[Chromosome]) -> Rows:
        """Return the allele numbers. Raises InvalidSearch for a chromosome of another problem."""
        for chromosome in chromosomes:
            self._problem.require_chromosome(chromosome)
        rows = [
            [numbers[value] for numbers, value in zip(self._numbers, chromosome, strict=True)]
            for chromosome in chromosomes
        ]
        return np.array(rows, dtype=np.uint16).reshape(len(rows), len(self.sizes))

    def chromosomes(self, rows: Rows) -> list[Chromosome]:
        """Return the chromosomes of these rows."""
        return [tuple(values) for values in self._alleles[self._starts + rows].tolist()]


WORD = 2**32
Words = NDArray[np.uint64]


def words(random: Random, *shape: int) -> Words:
    """Return random numbers below 2**32."""
    count = int(np.prod(shape))
    drawn = np.frombuffer(random.randbytes(4 * count), dtype="<u4")
    return drawn.astype(np.uint64).reshape(shape)


def numbers_below(random: Random, limits: Words, *shape: int) -> Words:
    """Return random numbers from 0 to limit - 1; the limits are below 2**32 and broadcast."""
    return cast(Words, words(random, *shape) * limits >> np.uint64(32))


def chances(random: Random, rate: Fraction, *shape: int) -> Truths:
    """Return random truth values, each true with this probability."""
    return words(random, *shape) < np.uint64(int(rate * WORD))


def coins(random: Random, *shape: int) -> Truths:
    """Return random truth values, each true with probability 1/2."""
    count = int(np.prod(shape))
    drawn = np.frombuffer(random.randbytes(-(-count // 8)), dtype=np.uint8)
    return np.unpackbits(drawn, count=count).astype(bool).reshape(shape)


def random_rows(random: Random, sizes: Words, count: int) -> Rows:
    """Return chromosomes with each gene uniformly distributed over its alleles."""
    return numbers_below(random, sizes, count, len(sizes)).astype(np.uint16)


def tournament(random: Random, entrants: int, count: int) -> NDArray[np.uint64]:
    """Return the winners of `count` binary tournaments; entrants are numbered from the best on."""
    duels = numbers_below(random, np.array(entrants, dtype=np.uint64), count, 2)
    return cast(NDArray[np.uint64], duels.min(axis=1))


def crossed(random: Random, mothers: Rows, fathers: Rows, settings: Settings) -> Rows:
    """Return two children a pair, with complementary genes: all first children, then all second ones.

    Example of a one-point crossover: mother AAAA, father BBBB, children AABB and BBAA.
    """
    pairs, genes = mothers.shape
    swaps = coins(random, pairs, genes)
    cuts = numbers_below(random, np.array(genes, dtype=np.uint64), pairs)
    is_one_point = chances(random, settings.one_point_rate, pairs)
    swaps[is_one_point] = np.arange(genes) > cuts[is_one_point, None]
    swaps &= chances(random, settings.crossover_rate, pairs)[:, None]
    return np.concatenate([np.where(swaps, fathers, mothers), np.where(swaps, mothers, fathers)])


def mutated(random: Random, rows: Rows, sizes: Words, rate: Fraction) -> Rows:
    """Return the rows with each gene changed at this rate, to a different allele."""
    indices, genes = np.nonzero(chances(random, rate, *rows.shape) & (sizes > 1))
    steps = 1 + numbers_below(random, sizes[genes] - 1, len(genes))
    result = rows.copy()
    result[indices, genes] = (rows[indices, genes] + steps) % sizes[genes]
    return result


def domination(scores: Sequence[Score]) -> Truths:
    """Return a matrix (scores, scores): whether score i dominates score j."""
    ranks = ranks_of(scores)
    below = at_most(ranks, ranks)
    return below & ~below.T


def sorted_fronts(dominates: Truths, number: int) -> list[list[int]]:
    """Return the first nondominated fronts that together have at least `number` scores.

    Source: Deb et al. 2002, section III.A: fast-non-dominated-sort.
    """
    dominators = dominates.sum(axis=0)
    fronts: list[list[int]] = []
    count = 0
    while count < number:
        front = np.flatnonzero(dominators == 0)
        dominators -= dominates[front].sum(axis=0)
        dominators[front] = -1
        fronts.append(front.tolist())
        count += len(front)
    return fronts


def crowding_distances(objectives: Sequence[Sequence[Number]]) -> list[float]:
    """Return the distance between the neighbours of each value, infinite at both ends of an objective.

    Rounded: it only ranks scores that do not dominate each other.
    Source: Deb et al. 2002, section III.B: crowding-distance-assignment.
    """
    distances = [0.0] * len(objectives)
    for column in zip(*objectives, strict=True):
        exact = sorted(column, key=lambda value: (rounded(value), value))
        minimum, extent = exact[0], exact[-1] - exact[0]
        positions = [float((value - minimum) / extent) if extent else 0.0 for value in column]
        order = sorted(range(len(column)), key=positions.__getitem__)
        distances[order[0]] = distances[order[-1]] = inf
        for before, middle, after in zip(order, order[1:], order[2:], strict=False):
            distances[middle] += positions[after] - positions[before]
    return distances


def survivors(scores: Sequence[Score], count: int) -> list[int]:
    """Return the best scores by front and crowding, best first; ties by number.

    Source: Deb et al. 2002, section III.C: the crowded-comparison operator and the main loop.
    """
    order: list[int] = []
    for front in sorted_fronts(domination(scores), min(count, len(scores))):
        distances = crowding_distances([scores[member] for member in front])
        indices = sorted(range(len(front)), key=lambda index: -distances[index])
        order += [front[index] for index in indices]
    return order[:count]
