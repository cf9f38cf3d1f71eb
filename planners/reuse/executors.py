"""Where chromosomes are evaluated: this process, processes (concurrent.futures), a Dask cluster.

Executors stand in front of one another: `Limited` counts different chromosomes and evaluates none
twice, `Checkpoint` keeps scores in a file.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from importlib import import_module
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Protocol

from csdf.collecting import uncollected
from csdf.errors import CsdfError, GaveUp, UnreadableFile, plural
from csdf.io.files import append_text, read_text, write_text
from csdf.io.json_value import JsonValue
from csdf.model.exact import MalformedText, signed_rational
from csdf.outcome import because
from csdf.time_limit import Stop
from planners.reuse.problem import (
    Archive,
    Chromosome,
    Evaluate,
    EvaluationFailed,
    FrontWhy,
    InvalidSearch,
    LostWorkers,
    Number,
    Point,
    Problem,
    Score,
    shown,
)

TICK = 0.1  # seconds between two looks at the stop while others work
BATCH = 64  # chromosomes that are evaluated together
LOSSES = 3  # of workers, one after the other without a result between
MANY = 8  # chromosomes for each worker; fewer are one part each, as a part costs a message

Scores = Generator[Score, None, None]


class Executor(Protocol):
    """Something that evaluates chromosomes.

    `scores` yields in the order of the chromosomes. It looks at the stop again and again; what that
    raises ends the evaluation.
    """

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome."""


def evaluated_points(
    executor: Executor, chromosomes: Sequence[Chromosome], points: list[Point], stop: Stop
) -> None:
    """Append the chromosomes with their scores, in order; an error leaves those found before it."""
    with closing(executor.scores(chromosomes, stop)) as scores:
        for chromosome, score in zip(chromosomes, scores, strict=True):
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
        """How many different chromosomes were evaluated, and what was charged."""
        return self.seen + self._charged

    @property
    def seen(self) -> int:
        """How many different chromosomes were evaluated."""
        return len(self._known)

    def share(self, parts: int) -> int | None:
        """Return the evaluations of one of so many equal parts of all; None where there is no limit."""
        return None if self._most is None else self._most // parts

    def charge(self) -> None:
        """Count an evaluation that was made elsewhere. Raises LimitReached when none is left."""
        self._left()
        self._charged += 1

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome. Raises LimitReached when the last evaluation is used."""
        done = 0
        while done < len(chromosomes):
            some = chromosomes[done : done + self._left()]
            done += len(some)
            unknown = list(dict.fromkeys(one for one in some if one not in self._known))
            with closing(self._executor.scores(unknown, stop)) as scores:
                for chromosome in some:
                    if chromosome not in self._known:
                        self._known[chromosome] = next(scores)
                    yield self._known[chromosome]

    def _left(self) -> int:
        if self._most is None:
            return BATCH
        count = self.evaluations
        if count >= self._most:
            raise LimitReached(because(FrontWhy.EVALUATIONS, count=count, s=plural(count)))
        return min(BATCH, self._most - count)


FORMAT = "csdf scores 1"
CHANGED = "the file was changed, or its search had other costs; begin anew without it"


class Checkpoint:
    """An executor in front of another that keeps the scores in a file, one chromosome a line.

    A search with the same seed that was ended evaluates nothing again that is in the file: it goes the
    same way, and from there on to the front that it would have found.
    """

    def __init__(self, executor: Executor, path: str | os.PathLike[str], problem: Problem) -> None:
        self._executor = executor
        self._path = path
        self._problem = problem
        self._known: dict[Chromosome, Score] = {}

    def open(self, stop: Stop) -> None:
        """Read the file if it is there, or begin it. What was found best there is evaluated again.

        Raises UnreadableFile if it is no checkpoint, or one of another problem, or if a chromosome of
        its front, or of all where it has all, has another score; UnwritableFile.
        """
        header = json.dumps({"format": FORMAT, "problem": self._problem.fingerprint})
        if not os.path.exists(self._path):
            write_text(self._path, header + "\n")
            return
        text = read_text(self._path)
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may have been cut off
        document = JsonValue.parse(f"[{','.join(lines)}]", str(self._path))
        first, *entries = [*document.items()] or [document]
        if type(first.value) is not dict or first.value.get("format") != FORMAT:
            raise UnreadableFile(f"{self._path}: not a checkpoint; expected the format {FORMAT!r}")
        if first["problem"].text() != self._problem.fingerprint:
            raise UnreadableFile(
                f"{self._path}: the scores of another problem; begin anew without it"
            )
        points = [self._point(entry) for entry in entries]
        entry_of = {point.chromosome: entry for point, entry in zip(points, entries, strict=True)}
        archive = Archive()
        archive.add(points)
        checked = points if len(entry_of) >= self._problem.size else archive.points
        again: list[Point] = []
        evaluated_points(self._executor, [one.chromosome for one in checked], again, stop)
        for told, found in zip(checked, again, strict=True):
            if told != found:
                entry = entry_of[told.chromosome]
                raise entry.refusal(f"its score is {_line(found)}; {CHANGED}")
        self._known = {point.chromosome: point.score for point in points}
        if len(text) > text.rfind("\n") + 1:
            write_text(self._path, "\n".join([*lines, ""]))

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome; those that are new go into the file."""
        unknown = [one for one in chromosomes if one not in self._known]
        new: list[str] = []
        try:
            with closing(self._executor.scores(unknown, stop)) as scores:
                for chromosome in chromosomes:
                    if chromosome not in self._known:
                        score = self._known[chromosome] = next(scores)
                        new.append(_line(Point(chromosome=chromosome, score=score)))
                    yield self._known[chromosome]
        finally:
            if new:
                append_text(self._path, "\n".join([*new, ""]))

    def _point(self, entry: JsonValue) -> Point:
        entry.require_keys(("genes", "objectives", "violation"))
        objectives = tuple(_number(one) for one in entry["objectives"].items())
        violation = _number(entry["violation"])
        point = entry["genes"].naturals()
        try:
            score = Score(objectives=objectives, violation=violation)
            self._problem.require_chromosome(point)
            self._problem.require_score(point, score)
        except InvalidSearch as error:
            raise entry.refusal(f"expected a chromosome and its score: {error}") from None
        return Point(chromosome=point, score=score)


def _line(point: Point) -> str:
    return json.dumps(
        {
            "genes": point.chromosome,
            "objectives": [str(value) for value in point.score.objectives],
            "violation": str(point.score.violation),
        }
    )


def _number(value: JsonValue) -> Number:
    try:
        exact = signed_rational(value.text())
    except MalformedText:
        raise value.refusal("expected a number such as 7 or 7/2, as text") from None
    return exact.numerator if exact.denominator == 1 else exact


def local_executor(evaluate: Evaluate, *, workers: int) -> AbstractContextManager[Executor]:
    """Return this process if one worker is enough, else a pool of processes; for a `with`."""
    if workers == 1:
        return nullcontext(Serial(evaluate))
    return process_pool(evaluate, workers=workers)


def cluster_executor(evaluate: Evaluate, address: str) -> AbstractContextManager[Executor]:
    """Return the workers of a Dask scheduler; for a `with`.

    Dask is an extra: what knows it is imported when a cluster is asked for. Raises CsdfError if it is
    not installed, LostWorkers if there is nobody at the address.
    """
    try:
        module = import_module("planners.reuse.dask_cluster")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("dask", "distributed"):
            raise
        raise CsdfError(
            f"{address}: a cluster needs dask and distributed: pip install 'csdf[cluster]'"
        ) from None
    executor: AbstractContextManager[Executor] = module.dask_cluster(evaluate, address)
    return executor


def parts_of(chromosomes: Sequence[Chromosome], workers: int) -> list[Sequence[Chromosome]]:
    """Return the chromosomes in parts, in order: in each round two thirds of those left, by worker.

    Whoever is done early goes on with smaller and smaller parts, so that all workers end at about the
    same time; the number of parts, which are messages, grows with the logarithm of the count only.
    Source: Hummel, Schonberg and Flynn, Factoring: a method for scheduling parallel loops,
    Communications of the ACM 35(8), 1992.
    """
    parts: list[Sequence[Chromosome]] = []
    is_few = len(chromosomes) < MANY * workers
    while left := len(chromosomes) - (done := sum(map(len, parts))):
        size = ceil(left / workers if is_few else 2 * left / (3 * workers))
        begins = range(done, min(done + size * workers, len(chromosomes)), size)
        parts += [chromosomes[begin : begin + size] for begin in begins]
    return parts


def scores_of(evaluate: Evaluate, part: Sequence[Chromosome]) -> list[Score]:
    """Return the scores of a part, in a worker.

    What evaluations remember has few cycles; looks at it take a seventh of their time.
    """
    with uncollected():
        return [evaluated(evaluate, chromosome) for chromosome in part]


SAFE_PATH = "PYTHONSAFEPATH"  # what Python reads of it when it starts


@contextmanager
def process_pool(evaluate: Evaluate, *, workers: int) -> Iterator[Executor]:
    """Yield processes that evaluate; each builds the evaluation once, from its pickle.

    If one dies all are replaced, and what was not answered is done again. They start as `python -c`,
    which looks for modules in the current folder first: before it has got the path of this process, a
    file called `pickle.py` there would be run. Only the environment reaches such a start.
    """
    if workers < 1:
        raise InvalidSearch(f"{workers} workers; expected at least 1")
    try:
        content = pickle.dumps(evaluate)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidSearch(
            f"the evaluation cannot be sent to another process: {error}; "
            f"give an object of a class at the top of a module"
        ) from None
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    pool = _ProcessPool(content, workers)
    try:
        yield pool
    finally:
        pool.end()
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


class _ProcessPool:
    """A ProcessPoolExecutor that is begun again where a process died."""

    def __init__(self, content: bytes, workers: int) -> None:
        self._content = content
        self._workers = workers
        self._begin()

    def _begin(self) -> None:
        context = get_context(
            "spawn"
        )  # safe beside threads; the main module must guard what it runs
        end, self._alive = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(
            self._workers, context, initializer=_begin_worker, initargs=(self._content, end)
        )

    def end(self) -> None:
        """End the processes, whatever they are doing: each hears that the connection is closed."""
        self._alive.close()
        self._executor.shutdown(cancel_futures=True)

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome. Raises LostWorkers if processes die again and again."""
        parts = parts_of(chromosomes, self._workers)
        futures: list[Future[list[Score]]] = []
        losses = done = 0
        try:
            while done < len(parts):
                try:
                    if not futures:
                        futures = [self._executor.submit(_answer, one) for one in parts[done:]]
                    stop.look()
                    if wait(futures[:1], timeout=TICK).done:
                        found = futures[0].result()
                        del futures[0]
                        losses, done = 0, done + 1
                        yield from found
                except BrokenProcessPool:
                    futures = []
                    losses += 1
                    if losses == LOSSES:
                        raise LostWorkers(
                            f"worker processes ended {losses} times in a row without a result: "
                            "killed for want of memory, or unable to build the evaluation? Try less "
                            f"than {self._workers} workers"
                        ) from None
                    self.end()
                    self._begin()
        finally:
            for future in futures:
                future.cancel()


_EVALUATE: list[Evaluate] = []  # of a worker process, which is begun for one evaluation


def _begin_worker(content: bytes, end: Connection) -> None:
    """Build the evaluation in a process of its own; leave an interrupt to the main one.

    Where the search closes the connection, or is gone, this process ends, whatever it is doing. What
    is there now is left out of later looks for reference cycles: each takes as long as 20 evaluations.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(end,), daemon=True).start()
    _EVALUATE.append(pickle.loads(content))
    gc.collect()
    gc.freeze()


def _end_with(end: Connection) -> None:
    try:
        end.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)


def _answer(part: Sequence[Chromosome]) -> list[Score]:
    return scores_of(_EVALUATE[0], part)
