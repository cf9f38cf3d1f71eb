"""Executors of evaluations: the protocol, this process, an evaluation limit, a checkpoint file.

Executors are chained: `Limited` counts different chromosomes and evaluates none twice, `Checkpoint`
keeps scores in a file. Those with workers are in `process_pool` and `dask_cluster`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import islice
from math import ceil
from typing import Protocol

from csdf.errors import CsdfError, GaveUp, UnreadableFile, plural
from csdf.gc_pause import gc_paused
from csdf.io.files import append_text, read_text, write_text
from csdf.io.json_value import JsonValue
from csdf.model.exact import MalformedText, signed_rational
from csdf.status import because
from csdf.time_limit import Stop
from planners.reuse.application import Chromosome
from planners.reuse.problem import (
    Archive,
    Evaluate,
    EvaluationFailed,
    InvalidSearch,
    Number,
    Point,
    ReuseProblem,
    Score,
    SearchEnd,
    shown,
)

TICK = 0.1  # seconds between two looks at the stop while workers evaluate
BATCH = 64  # chromosomes that are evaluated together
LOSSES = 3  # losses of workers in sequence, without a result between, after which the search fails
MANY = 8  # chromosomes per worker; fewer are split once, as each part costs a message

Scores = Generator[Score, None, None]


class Executor(Protocol):
    """Something that evaluates chromosomes.

    `scores` yields in the order of the chromosomes. It checks the stop repeatedly; an exception of the
    stop ends the evaluation.
    """

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome."""


def append_points(
    points: list[Point],
    problem: ReuseProblem,
    executor: Executor,
    chromosomes: Sequence[Chromosome],
    stop: Stop,
) -> None:
    """Append the chromosomes with their scores, in order.

    An error or an interruption leaves the points that were evaluated before it. Raises InvalidSearch
    for a score that is not one of the problem.
    """
    with closing(executor.scores(chromosomes, stop)) as scores:
        for chromosome, score in zip(chromosomes, scores, strict=True):
            problem.require_score(chromosome, score)
            points.append(Point(chromosome=chromosome, score=score))


class Serial:
    """Evaluations in this process."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome."""
        for chromosome in chromosomes:
            stop.look()
            yield evaluated(self._evaluate, chromosome)


def evaluated(evaluate: Evaluate, chromosome: Chromosome) -> Score:
    """Return the score. Raises EvaluationFailed, which travels between processes, for a CsdfError."""
    try:
        return evaluate(chromosome)
    except CsdfError as error:
        raise EvaluationFailed(f"chromosome {shown(chromosome)}: {error}") from error


def parts_of(chromosomes: Sequence[Chromosome], workers: int) -> list[Sequence[Chromosome]]:
    """Return the chromosomes in parts, in order: in each round a part for each worker.

    A round has two thirds of the remaining chromosomes. Parts become smaller, so that all workers end
    at about the same time; the number of parts, which are messages, grows with the logarithm of the
    count. Source: Hummel, Schonberg and Flynn, Factoring: a method for scheduling parallel loops,
    Communications of the ACM 35(8), 1992.
    """
    parts: list[Sequence[Chromosome]] = []
    is_few = len(chromosomes) < MANY * workers
    while remaining := len(chromosomes) - (done := sum(map(len, parts))):
        size = ceil(remaining / workers if is_few else 2 * remaining / (3 * workers))
        begins = range(done, min(done + size * workers, len(chromosomes)), size)
        parts += [chromosomes[begin : begin + size] for begin in begins]
    return parts


def scores_of(evaluate: Evaluate, part: Sequence[Chromosome]) -> list[Score]:
    """Return the scores of a part, in a worker.

    Garbage collection would take a seventh of the time; caches of evaluations have few cycles.
    """
    with gc_paused():
        return [evaluated(evaluate, chromosome) for chromosome in part]


def _completed(
    known: dict[Chromosome, Score],
    executor: Executor,
    chromosomes: Sequence[Chromosome],
    stop: Stop,
) -> Scores:
    """Yield the score of each chromosome, once it is known; the others are evaluated once."""
    unknown = list(
        dict.fromkeys(chromosome for chromosome in chromosomes if chromosome not in known)
    )
    with closing(executor.scores(unknown, stop)) as scores:
        for chromosome in chromosomes:
            if chromosome not in known:
                known[chromosome] = next(scores)
            yield known[chromosome]


class LimitReached(GaveUp):
    """No evaluation is left."""


class Limited:
    """An executor that evaluates each chromosome once, and no more than `most` different ones."""

    def __init__(self, executor: Executor, most: int | None = None) -> None:
        if most is not None and most < 1:
            raise InvalidSearch(f"evaluations: found {most}; expected at least 1")
        self._executor = executor
        self._most = most
        self._known: dict[Chromosome, Score] = {}
        self._charged = 0

    @property
    def evaluations(self) -> int:
        """The number of different chromosomes that were evaluated, and of charged evaluations."""
        return self.seen + self._charged

    @property
    def seen(self) -> int:
        """The number of different chromosomes that were evaluated."""
        return len(self._known)

    @property
    def is_at_last(self) -> bool:
        """Whether at most one evaluation is left."""
        return self._most is not None and self.evaluations >= self._most - 1

    def share(self, parts: int) -> int | None:
        """Return the evaluations of one of this many equal parts; None without a limit."""
        return None if self._most is None else self._most // parts

    def charge(self) -> None:
        """Count an evaluation outside of this executor. Raises LimitReached when none is left."""
        self._left()
        self._charged += 1

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome. Raises LimitReached when the last evaluation is used."""
        done = 0
        while done < len(chromosomes):
            batch = chromosomes[done : done + self._left()]
            done += len(batch)
            yield from _completed(self._known, self._executor, batch, stop)

    def _left(self) -> int:
        """The size of the next batch; raises LimitReached if no evaluation is left."""
        if self._most is None:
            return BATCH
        count = self.evaluations
        if count >= self._most:
            raise LimitReached(because(SearchEnd.EVALUATIONS, count=count, s=plural(count)))
        return min(BATCH, self._most - count)


FORMAT = "csdf scores 1"
CHANGED = "the file was changed, or its search had other costs; begin anew without it"


class Checkpoint:
    """An executor that stores the scores of another executor in a file, one chromosome a line.

    If an interrupted search is repeated with the same seed, it takes the same steps with the scores of
    the file, and continues to the front of an uninterrupted search.
    """

    def __init__(
        self, executor: Executor, path: str | os.PathLike[str], problem: ReuseProblem
    ) -> None:
        self._executor = executor
        self._path = path
        self._problem = problem
        self._known: dict[Chromosome, Score] = {}
        self._entries: dict[Chromosome, JsonValue] = {}  # of the file, for messages
        self._unchecked: list[Point] = []  # of the file, not evaluated again

    def open(self, stop: Stop) -> None:
        """Read the file if it exists, or begin it. The points of its front are evaluated again.

        Raises UnreadableFile if the file is no checkpoint of this problem, or if an evaluated
        chromosome has another score; UnwritableFile.
        """
        header = json.dumps({"format": FORMAT, "problem": self._problem.fingerprint})
        if not os.path.exists(self._path):
            write_text(self._path, header + "\n")
            return
        text = read_text(self._path)
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may have been cut off
        document = JsonValue.parse("[" + ",\n".join(lines) + "]", str(self._path))
        first, *entries = [*document.items()] or [document]
        if type(first.value) is not dict or first.value.get("format") != FORMAT:
            raise UnreadableFile(f"{self._path}: not a checkpoint; expected the format {FORMAT!r}")
        if first["problem"].text() != self._problem.fingerprint:
            raise UnreadableFile(
                f"{self._path}: the scores of another problem; begin anew without it"
            )
        points = [self._point(entry) for entry in entries]
        self._entries = {
            point.chromosome: entry for point, entry in zip(points, entries, strict=True)
        }
        archive = Archive()
        archive.add(points)
        self._require_scores(archive.points, stop)
        front = set(archive.points)
        self._unchecked = [point for point in points if point not in front]
        self._known = {point.chromosome: point.score for point in points}
        self._require_all_scores((), stop)
        if len(text) > text.rfind("\n") + 1:
            write_text(self._path, "\n".join([*lines, ""]))

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome; new chromosomes are added to the file.

        Raises UnreadableFile if a chromosome of the file turns out to have another score.
        """
        self._require_all_scores(chromosomes, stop)
        scored = len(self._known)
        try:
            yield from _completed(self._known, self._executor, chromosomes, stop)
        finally:
            new = islice(self._known.items(), scored, None)
            lines = [_line(Point(chromosome=chromosome, score=score)) for chromosome, score in new]
            if lines:
                append_text(self._path, "\n".join([*lines, ""]))

    def _require_all_scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> None:
        """Evaluate the rest of the file again if these chromosomes complete the problem.

        The front of all chromosomes counts as proved, so no score may be taken on trust.
        """
        new = sum(chromosome not in self._known for chromosome in set(chromosomes))
        if len(self._known) + new >= self._problem.size:
            self._require_scores(self._unchecked, stop)
            self._unchecked = []

    def _require_scores(self, points: Sequence[Point], stop: Stop) -> None:
        """Raise UnreadableFile if the chromosome of a point of the file has another score."""
        again: list[Point] = []
        chromosomes = [point.chromosome for point in points]
        append_points(again, self._problem, self._executor, chromosomes, stop)
        for point, rescored in zip(points, again, strict=True):
            if point != rescored:
                entry = self._entries[point.chromosome]
                raise entry.refusal(f"its score is {_line(rescored)}; {CHANGED}")

    def _point(self, entry: JsonValue) -> Point:
        entry.require_keys(("genes", "objectives"))
        point = Point(
            chromosome=entry["genes"].naturals(),
            score=tuple(_number(number) for number in entry["objectives"].items()),
        )
        try:
            self._problem.require_chromosome(point.chromosome)
            self._problem.require_score(point.chromosome, point.score)
        except InvalidSearch as error:
            raise entry.refusal(f"expected a chromosome and its score: {error}") from None
        return point


def _line(point: Point) -> str:
    return json.dumps(
        {"genes": point.chromosome, "objectives": [str(value) for value in point.score]}
    )


def _number(value: JsonValue) -> Number:
    try:
        exact = signed_rational(value.text())
    except MalformedText:
        raise value.refusal("expected a number such as 7 or 7/2, as text") from None
    return exact.numerator if exact.denominator == 1 else exact
