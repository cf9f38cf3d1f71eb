"""Walks from the front: threshold accepting, each walk with its own weights of the objectives.

A walk begins at the point of the front that is best by its weights, or at any other, and goes on to
any neighbour that is not worse by more than a threshold, which falls to nothing. Walks go in step, so
that what they look at next can be evaluated together; where that happens changes nothing.
Source: Dueck and Scheuer, Threshold accepting, Journal of Computational Physics 90(1), 1990.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from csdf.stopping import Stop
from planners.reuse.front.archive import Archive
from planners.reuse.front.guided.moves import Moves
from planners.reuse.front.places.evaluation import Place
from planners.reuse.front.problem import Chromosome, Point, Problem, Score

HEAVIEST = 16  # weight of an objective
MEMORY_ALONE = 256  # against 1 for each other objective: of equal points the faster is better


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkSettings:
    """How long walks are, and how high a threshold they begin with.

    threshold: a part of what the front extends over. memory_walks: of the walks of a round, those
    with the least memory as their aim; the others have random weights.
    """

    walks: int = 8
    memory_walks: int = 3
    steps: int = 500
    threshold: Fraction = Fraction(1, 100)


class _Scale:
    """Objectives as parts of what a front extends over, weighed and added up."""

    def __init__(self, front: Sequence[Point], weights: Sequence[int]) -> None:
        columns = list(zip(*(point.score.objectives for point in front), strict=True))
        self._factors = [
            Fraction(weight, sum(weights)) / ((max(column) - min(column)) or 1)
            for weight, column in zip(weights, columns, strict=True)
        ]

    def cost(self, score: Score) -> Fraction:
        terms = zip(self._factors, score.objectives, strict=True)
        return sum((factor * value for factor, value in terms), Fraction(0))

    def best(self, front: Sequence[Point]) -> Point:
        return min(front, key=lambda point: self.cost(point.score))


class _Walk:
    """The position of a walk."""

    def __init__(self, scale: _Scale, begin: Point) -> None:
        self._scale = scale
        self.chromosome = begin.chromosome
        self._cost = scale.cost(begin.score)

    def offer(self, chromosome: Chromosome, score: Score, threshold: Fraction) -> None:
        """Go there, if it is not too much worse."""
        cost = self._scale.cost(score)
        if cost <= self._cost + threshold:
            self.chromosome, self._cost = chromosome, cost


def walk_round(
    problem: Problem,
    place: Place,
    archive: Archive,
    *,
    random: Random,
    settings: WalkSettings,
    stop: Stop,
) -> None:
    """Walk once from an archive that has a point; what is met goes into the archive.

    So does what was met before `stop` or Ctrl-C ended it.
    """
    moves = Moves(problem)
    walks = list(_begun(archive.by_objectives(), random, settings))
    met: list[Point] = []
    try:
        for step in range(settings.steps):
            threshold = settings.threshold * Fraction(settings.steps - step - 1, settings.steps)
            offers = [moves.drawn(random, walk.chromosome) for walk in walks]
            with closing(place.scores(offers, stop)) as scores:
                for walk, chromosome, score in zip(walks, offers, scores, strict=True):
                    met.append(Point(chromosome=chromosome, score=score))
                    walk.offer(chromosome, score, threshold)
    finally:
        archive.add(met)


def _begun(front: Sequence[Point], random: Random, settings: WalkSettings) -> Iterator[_Walk]:
    """Yield the walks of a round, each with a place to begin."""
    others = len(front[0].score.objectives) - 1
    for number in range(settings.walks):
        if number < settings.memory_walks:
            weights = [MEMORY_ALONE, *(1 for _ in range(others))]
        else:
            weights = [random.randint(1, HEAVIEST) for _ in range(others + 1)]
        scale = _Scale(front, weights)
        yield _Walk(scale, random.choice(front) if number % 2 else scale.best(front))
