"""NSGA-II: a population that moves to the front, and an archive of all it met there.

Source: Deb, Pratap, Agarwal, Meyarivan, A fast and elitist multiobjective genetic algorithm: NSGA-II,
IEEE Trans. Evolutionary Computation 6(2), 2002. Beyond it: the archive, and no chromosome is evaluated
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np

from csdf.errors import plural
from csdf.outcome import Reason, because
from csdf.stopping import ENDS, Budget, Stop, reason_of, stop_of
from planners.reuse.front.archive import Archive
from planners.reuse.front.nsga2.domination import survivors
from planners.reuse.front.nsga2.genome import Genome, Rows, digests
from planners.reuse.front.nsga2.state import SearchState, origin_of
from planners.reuse.front.nsga2.variation import (
    Settings,
    crossed,
    mutated,
    random_rows,
    tournament,
)
from planners.reuse.front.places.evaluation import Place, scored
from planners.reuse.front.problem import (
    Chromosome,
    Front,
    FrontWhy,
    InvalidSearch,
    LostWorkers,
    Point,
    Problem,
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
