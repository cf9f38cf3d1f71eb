"""Sources of scores: the protocol of all places, this process, and a cache in front of any."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Protocol

from csdf.errors import CsdfError
from csdf.time_limit import Stop
from planners.reuse.front.problem import (
    Chromosome,
    Evaluate,
    EvaluationFailed,
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
