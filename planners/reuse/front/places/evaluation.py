"""Sources of scores: the protocol of all places, this process, and a cache in front of any.

A place with a limited number of evaluations, and points that are not lost when it is spent.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Protocol

from csdf.errors import CsdfError, GaveUp, plural
from csdf.outcome import because
from csdf.time_limit import Stop
from planners.reuse.front.archive import Archive
from planners.reuse.front.problem import (
    Chromosome,
    Evaluate,
    EvaluationFailed,
    FrontWhy,
    InvalidSearch,
    Point,
    Score,
    shown,
)

TICK = 0.1  # seconds between two looks at the stop while others work


class Place(Protocol):
    """A place where chromosomes are evaluated.

    `scores` yields in the order of the chromosomes. It looks at the stop again and again; what that
    raises ends the evaluation.
    """

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome."""


class Serial:
    """Evaluations in this process."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome."""
        for chromosome in chromosomes:
            stop.look()
            yield evaluated(self._evaluate, chromosome)


class Cached:
    """A place in front of another, which sees each chromosome once.

    For several searches of one problem.

    evaluations: how many chromosomes that place has answered.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[Chromosome, Score] = {}

    @property
    def evaluations(self) -> int:
        """How many different chromosomes were evaluated."""
        return len(self._known)

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome; what is known costs nothing."""
        unknown = list(dict.fromkeys(one for one in chromosomes if one not in self._known))
        with closing(self._place.scores(unknown, stop)) as scores:
            for chromosome in chromosomes:
                if chromosome not in self._known:
                    self._known[chromosome] = next(scores)
                yield self._known[chromosome]


def scored(
    place: Place, chromosomes: Sequence[Chromosome], stop: Stop
) -> Generator[Point, None, None]:
    """Yield the chromosomes with their scores."""
    with closing(place.scores(chromosomes, stop)) as scores:
        for chromosome, score in zip(chromosomes, scores, strict=True):
            yield Point(chromosome=chromosome, score=score)


def evaluated(evaluate: Evaluate, chromosome: Chromosome) -> Score:
    """Return the score. Raises EvaluationFailed, which travels between processes, for a CsdfError."""
    try:
        return evaluate(chromosome)
    except CsdfError as error:
        raise EvaluationFailed(f"chromosome {shown(chromosome)}: {error}") from error


BATCH = 64  # chromosomes that are evaluated together


class Spent(GaveUp):
    """No evaluation is left."""


class Rationed:
    """A place in front of another, which evaluates no more than `most` different chromosomes there."""

    def __init__(self, place: Place, most: int | None) -> None:
        if most is not None and most < 1:
            raise InvalidSearch(f"evaluations: found {most}; expected at least 1")
        self._cached = Cached(place)
        self._most = most
        self._beside = 0

    @property
    def evaluations(self) -> int:
        """How many different chromosomes were evaluated, and what was charged."""
        return self.seen + self._beside

    @property
    def seen(self) -> int:
        """How many different chromosomes the place has answered."""
        return self._cached.evaluations

    def share(self, parts: int) -> int | None:
        """Return the evaluations of one of so many equal parts of all; None where there is no limit."""
        return None if self._most is None else self._most // parts

    def charge(self) -> None:
        """Count an evaluation that was made beside this place. Raises Spent when none is left."""
        self._room()
        self._beside += 1

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome. Raises Spent when the last evaluation is used."""
        place = 0
        while place < len(chromosomes):
            some = chromosomes[place : place + self._room()]
            yield from self._cached.scores(some, stop)
            place += len(some)

    def _room(self) -> int:
        if self._most is None:
            return BATCH
        if self.evaluations >= self._most:
            raise Spent(
                because(FrontWhy.EVALUATIONS, count=self.evaluations, s=plural(self.evaluations))
            )
        return min(BATCH, self._most - self.evaluations)


def evaluated_points(
    place: Place, chromosomes: Sequence[Chromosome], archive: Archive, stop: Stop
) -> list[Point]:
    """Return the points, in order; points found before an error go to the archive as well."""
    points: list[Point] = []
    try:
        points.extend(scored(place, chromosomes, stop))
    finally:
        archive.add(points)
    return points
