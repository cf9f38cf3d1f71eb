"""NSGA-II: a population that moves to the front, and an archive of all it met there.

Source: Deb, Pratap, Agarwal, Meyarivan, A fast and elitist multiobjective genetic algorithm: NSGA-II,
IEEE Trans. Evolutionary Computation 6(2), 2002. Beyond it: the archive, and no chromosome is evaluated
twice.

Chromosomes as rows of allele numbers, for arithmetic over a whole population.

New chromosomes from old ones: tournament, crossover, mutation; all chance from one generator.

A search between two generations: all it needs to go on, and what it is a search of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from fractions import Fraction
from hashlib import blake2b
from itertools import accumulate
from random import Random
from typing import cast

import numpy as np
from numpy.typing import NDArray

from csdf.errors import plural
from csdf.outcome import Reason, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.reuse.front.archive import Archive, survivors
from planners.reuse.front.places.evaluation import Place, scored
from planners.reuse.front.problem import (
    Chromosome,
    Front,
    FrontWhy,
    InvalidSearch,
    LostWorkers,
    Number,
    Point,
    Problem,
    fingerprint_of,
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


def evolve(
    problem: Problem,
    place: Place,
    *,
    random: Random,
    limits: SearchLimits,
    settings: Settings | None = None,
    seeds: Sequence[Chromosome] = (),
    budget: Budget = None,
    keep: Callable[[SearchState], None] = lambda _: None,
    state: SearchState | None = None,
) -> Front:
    """Return the best front found within the limits.

    The same `random` gives the same front, wherever the evaluations run. seeds: members of the first
    population. budget: a stop, or seconds; the front so far is returned when it ends the search, or
    Ctrl-C does, and when all workers are lost. keep: gets the state after each generation.
    state: one that was kept by a search with the same arguments; from there it goes on to the front it
    would have found. `random` is used and left changed.

    Raises InvalidSearch for a wrong seed, score or state; EvaluationFailed.
    """
    search = _Generations(problem, random, settings or Settings(), seeds)
    if state is not None:
        search.resume(state)
    return search.run(place, limits, stop_of(budget), keep)


class _Generations:
    """The moving parts of one search."""

    def __init__(
        self, problem: Problem, random: Random, settings: Settings, seeds: Sequence[Chromosome]
    ) -> None:
        self._problem = problem
        self._genome = Genome(problem)
        self._random = random
        self._settings = settings
        self._origin = origin_of(problem, random=random, settings=settings, seeds=seeds)
        self._seeds = self._genome.rows(seeds)
        self._population: list[Point] = []  # best first
        self._rows = self._genome.rows([])  # of the population
        self._archive = Archive()
        self._seen: dict[int, None] = {}
        self._generation = 0
        self._evaluations = 0

    def resume(self, state: SearchState) -> None:
        """Take over what another search kept. Raises InvalidSearch if it searched something else."""
        self._origin.require_same(state.origin)
        self._random.setstate(state.random)
        self._population = list(state.population)
        self._rows = self._genome.rows([point.chromosome for point in state.population])
        self._archive = Archive(state.archive, state.least_violation)
        self._seen = dict.fromkeys(state.seen)
        self._generation = state.generation
        self._evaluations = len(state.seen)

    def run(
        self, place: Place, limits: SearchLimits, stop: Stop, keep: Callable[[SearchState], None]
    ) -> Front:
        try:
            while (end := self._end(limits)) is None:
                if self._step(place, limits, stop):
                    keep(self._state())
        except (*ENDS, LostWorkers) as early:
            return self._front(reason_of(early), is_finished=False)
        return self._front(end, is_finished=True)

    def _end(self, limits: SearchLimits) -> Reason | None:
        """Return why the search is at its end; None if it is not."""
        if self._evaluations == self._problem.size:
            return because(FrontWhy.EVERY_ONE)
        if limits.generations is not None and self._generation >= limits.generations:
            return because(FrontWhy.GENERATIONS, count=self._generation, s=plural(self._generation))
        if limits.evaluations is not None and self._evaluations >= limits.evaluations:
            return because(
                FrontWhy.EVALUATIONS, count=self._evaluations, s=plural(self._evaluations)
            )
        return None

    def _step(self, place: Place, limits: SearchLimits, stop: Stop) -> bool:
        """Make one generation; return whether the evaluations left were enough for the whole of it."""
        rows = self._children() if self._generation else self._first()
        room = len(rows)
        if limits.evaluations is not None:
            room = min(room, limits.evaluations - self._evaluations)
        points = self._evaluated(place, self._genome.chromosomes(rows[:room]), stop)
        if room < len(rows):
            return False
        members = [*self._population, *points]
        order = survivors([point.score for point in members], self._settings.population)
        self._population = [members[place] for place in order]
        self._rows = np.concatenate([self._rows, rows])[order]
        self._generation += 1
        return True

    def _evaluated(self, place: Place, chromosomes: list[Chromosome], stop: Stop) -> list[Point]:
        """Return the points; points found before an error go to the archive as well."""
        points: list[Point] = []
        try:
            with closing(scored(place, chromosomes, stop)) as found:
                for point in found:
                    self._problem.require_score(point.chromosome, point.score)
                    points.append(point)
        finally:
            self._archive.add(points)
            self._evaluations += len(points)
        return points

    def _first(self) -> Rows:
        """Return the seeds, and random chromosomes up to the size of the population."""
        wanted = max(self._settings.population, len(self._seeds))
        rows = self._unseen(self._seeds, wanted)
        for _ in range(ATTEMPTS):
            if len(rows) == wanted:
                break
            drawn = random_rows(self._random, self._genome.sizes, self._settings.population)
            rows = np.concatenate([rows, self._unseen(drawn, wanted - len(rows))])
        return rows

    def _children(self) -> Rows:
        """Return the next chromosomes: never seen, and fewer than wanted if they are hard to find."""
        wanted = self._settings.population
        rate = self._settings.mutated_genes / len(self._genome.sizes)
        rows = self._rows[:0]
        for _ in range(ATTEMPTS):
            rate = min(rate, LARGEST_RATE)
            missing = wanted - len(rows)
            children = mutated(self._random, self._crossed(missing), self._genome.sizes, rate)
            rows = np.concatenate([rows, self._unseen(children, missing)])
            if len(rows) == wanted:
                break
            rate = 2 * rate
        return rows

    def _crossed(self, wanted: int) -> Rows:
        pairs = (wanted + 1) // 2
        winners = tournament(self._random, len(self._rows), 2 * pairs)
        mothers, fathers = self._rows[winners[:pairs]], self._rows[winners[pairs:]]
        return crossed(self._random, mothers, fathers, self._settings)

    def _unseen(self, rows: Rows, wanted: int) -> Rows:
        """Return the first rows never returned before."""
        taken: list[int] = []
        for number, digest in enumerate(digests(rows)):
            if len(taken) < wanted and digest not in self._seen:
                self._seen[digest] = None
                taken.append(number)
        return rows[taken]

    def _state(self) -> SearchState:
        version, words, gauss = self._random.getstate()
        return SearchState(
            origin=self._origin,
            generation=self._generation,
            random=(version, words, gauss),
            population=tuple(self._population),
            archive=self._archive.points,
            least_violation=self._archive.least_violation,
            seen=tuple(self._seen),
        )

    def _front(self, reason: Reason, *, is_finished: bool) -> Front:
        return Front(
            points=self._archive.by_objectives(),
            is_finished=is_finished,
            is_proved=self._evaluations == self._problem.size,
            reason=reason,
            generations=self._generation,
            evaluations=self._evaluations,
            least_violation=self._archive.least_violation,
        )


Rows = NDArray[np.uint16]  # (chromosomes, genes), allele numbers
MOST_ALLELES = 2**16
DIGEST_BYTES = 8


class Genome:
    """The code of one problem: the allele number of gene g counts its alleles in their order."""

    def __init__(self, problem: Problem) -> None:
        sizes = [len(values) for values in problem.alleles]
        if max(sizes) > MOST_ALLELES:
            gene = sizes.index(max(sizes))
            raise InvalidSearch(
                f"gene {gene}: {sizes[gene]} alleles; at most {MOST_ALLELES} are possible"
            )
        self.problem = problem
        self.sizes = np.array(sizes, dtype=np.uint64)
        self._code = ">u1" if max(sizes) <= 2**8 else ">u2"
        self._starts = np.array([0, *accumulate(sizes[:-1])])
        self._alleles = np.array([value for values in problem.alleles for value in values], object)
        self._numbers = [
            {value: number for number, value in enumerate(values)} for values in problem.alleles
        ]

    def rows(self, chromosomes: Sequence[Chromosome]) -> Rows:
        """Return the code of chromosomes. Raises InvalidSearch for one of another problem."""
        rows = [self._numbers_in(chromosome) for chromosome in chromosomes]
        return np.array(rows, dtype=np.uint16).reshape(len(rows), len(self.sizes))

    def chromosomes(self, rows: Rows) -> list[Chromosome]:
        """Return what the rows stand for."""
        return [tuple(values) for values in self._alleles[self._starts + rows].tolist()]

    def text(self, chromosome: Chromosome) -> str:
        """Return the allele numbers, two or four hexadecimal digits each."""
        content: bytes = self.rows([chromosome])[0].astype(self._code).tobytes()
        return content.hex()

    def chromosome(self, text: str) -> Chromosome:
        """Return what `text` was made of. Raises ValueError."""
        row = np.frombuffer(bytes.fromhex(text), dtype=self._code)
        if row.shape != self.sizes.shape or (row >= self.sizes).any():
            raise ValueError("not a chromosome of this problem")
        return self.chromosomes(row[None].astype(np.uint16))[0]

    def _numbers_in(self, chromosome: Chromosome) -> list[int]:
        try:
            pairs = zip(self._numbers, chromosome, strict=True)
            return [numbers[value] for numbers, value in pairs]
        except (KeyError, ValueError):
            self.problem.require_chromosome(chromosome)
            raise


def digests(rows: Rows) -> list[int]:
    """Return a number of 64 bits for each row; different rows have different ones, but for luck.

    Two rows that share one cost a chromosome that is never tried: about once in 10^9 searches of
    10^5 evaluations.
    """
    little = rows.astype("<u2", copy=False)
    return [
        int.from_bytes(blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest(), "little")
        for row in little
    ]


WORD = 2**32
Words = NDArray[np.uint64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the next generation is made. The rates are parts of one, but for `mutated_genes`.

    mutated_genes: how many genes of a child change on average.
    """

    population: int = 100
    crossover_rate: Fraction = Fraction(9, 10)  # of the pairs; the others are copied
    one_point_rate: Fraction = Fraction(1, 2)  # of the crossovers; the others are uniform
    mutated_genes: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.population < 2:
            raise InvalidSearch(f"a population of {self.population}; expected at least 2")
        for name in ("crossover_rate", "one_point_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidSearch(f"{name}: found {getattr(self, name)}; expected 0 to 1")
        if self.mutated_genes < 0:
            raise InvalidSearch(f"mutated_genes: found {self.mutated_genes}; expected at least 0")


def words(random: Random, *shape: int) -> Words:
    """Return numbers below 2**32, drawn in one go."""
    count = int(np.prod(shape))
    drawn = np.frombuffer(random.randbytes(4 * count), dtype="<u4")
    return drawn.astype(np.uint64).reshape(shape)


def numbers_below(random: Random, limits: Words, *shape: int) -> Words:
    """Return numbers from 0 to below each limit; the limits are below 2**32 and broadcast."""
    return cast(Words, words(random, *shape) * limits >> np.uint64(32))


def chances(random: Random, rate: Fraction, *shape: int) -> Truths:
    """Return truths of which that part is true on average."""
    return words(random, *shape) < np.uint64(int(rate * WORD))


def coins(random: Random, *shape: int) -> Truths:
    """Return truths of which half are true on average."""
    count = int(np.prod(shape))
    drawn = np.frombuffer(random.randbytes(-(-count // 8)), dtype=np.uint8)
    return np.unpackbits(drawn, count=count).astype(bool).reshape(shape)


def random_rows(random: Random, sizes: Words, count: int) -> Rows:
    """Return chromosomes in which each allele of a gene is as likely as the others."""
    return numbers_below(random, sizes, count, len(sizes)).astype(np.uint16)


def tournament(random: Random, entrants: int, count: int) -> NDArray[np.uint64]:
    """Return the winners of `count` duels; entrants are numbered from the best on."""
    duels = numbers_below(random, np.array(entrants, dtype=np.uint64), count, 2)
    return cast(NDArray[np.uint64], duels.min(axis=1))


def crossed(random: Random, mothers: Rows, fathers: Rows, settings: Settings) -> Rows:
    """Return two children a pair: what one has of its mother, the other has of its father."""
    pairs, genes = mothers.shape
    swaps = coins(random, pairs, genes)
    cuts = numbers_below(random, np.array(genes, dtype=np.uint64), pairs)
    is_one_point = chances(random, settings.one_point_rate, pairs)
    swaps[is_one_point] = np.arange(genes) > cuts[is_one_point, None]
    swaps &= chances(random, settings.crossover_rate, pairs)[:, None]
    return np.concatenate([np.where(swaps, fathers, mothers), np.where(swaps, mothers, fathers)])


def mutated(random: Random, rows: Rows, sizes: Words, rate: Fraction) -> Rows:
    """Return the rows with genes changed at that rate, each to another of its alleles."""
    places, genes = np.nonzero(chances(random, rate, *rows.shape) & (sizes > 1))
    steps = 1 + numbers_below(random, sizes[genes] - 1, len(genes))
    result = rows.copy()
    result[places, genes] = (rows[places, genes] + steps) % sizes[genes]
    return result


RandomState = tuple[int, tuple[int, ...], float | None]  # as `Random.getstate` returns it


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Fingerprints of all that decides how a search goes, however long it is."""

    problem: str
    settings: str
    seeds: str
    random: str

    def require_same(self, other: Origin) -> None:
        """Raise InvalidSearch if `other` is of another search than this."""
        for field in fields(self):
            if getattr(self, field.name) != getattr(other, field.name):
                what = {"random": "random seed", "seeds": "chromosomes to start from"}
                raise InvalidSearch(
                    f"the state of a search with another {what.get(field.name, field.name)}; "
                    f"resume it with the one it was begun with, or begin anew"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """The state of a search after a generation.

    population: best first. archive: in the order the points were met. seen: a digest of every
    chromosome evaluated, so that none is evaluated twice.
    """

    origin: Origin
    generation: int
    random: RandomState
    population: tuple[Point, ...]
    archive: tuple[Point, ...]
    least_violation: Number | None
    seen: tuple[int, ...]


def origin_of(
    problem: Problem, *, random: Random, settings: Settings, seeds: Sequence[Chromosome]
) -> Origin:
    """Return the fingerprints of a search that is about to begin."""
    return Origin(
        problem=problem.fingerprint,
        settings=fingerprint_of(settings),
        seeds=fingerprint_of([tuple(seed) for seed in seeds]),
        random=fingerprint_of(random.getstate()),
    )
