"""Evaluations by several workers, wherever these are: who gets which part, and who hears what.

Each worker has a part that it works on and one that waits there, so that it never waits for a message.
What one worker has learnt is told to the others with their next parts.

The parts of one generation: waiting, with a worker, or answered.

Messages between a search and its workers, as bytes.

A task is a part of a generation, and what other workers have learnt since the last task. An answer is
the scores of that part, and what this worker has learnt on the way. What a worker has learnt passes
through the search unread: its bytes go on to the others as they came.
"""

from __future__ import annotations

import gc
import pickle
from collections import deque
from collections.abc import Generator, Hashable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil
from typing import Any, NamedTuple, Protocol

from csdf.collecting import uncollected
from csdf.time_limit import Stop
from planners.reuse.front.places.evaluation import evaluated
from planners.reuse.front.problem import (
    Chromosome,
    Evaluate,
    EvaluationFailed,
    Learning,
    LostWorkers,
    Score,
)

QUEUED = 2  # parts that a worker has at a time
LOSSES = 3  # of workers, one after the other without a result between


class Worker(Hashable, Protocol):
    """A process somewhere that evaluates."""

    def send(self, task: bytes) -> None:
        """Send a task; where the worker is lost, nothing comes of it."""


class Crew(Protocol):
    """The workers that there are, now these and now those."""

    def ready(self) -> Sequence[Worker]:
        """Return who can be sent a task. Raises LostWorkers if nobody can, and nobody will come."""

    def heard(self) -> Iterator[tuple[Worker, bytes | None]]:
        """Yield the answers that come within a tick, and None for each worker that was lost."""

    def ended(self, losses: int) -> LostWorkers:
        """Return what to say if so many workers ended without a result."""


class CrewPlace:
    """A crew as a place of evaluations; what a lost worker was doing is done by others."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._generation = 0
        self._given: dict[Worker, set[Key]] = {}
        self._untold: dict[Worker, list[bytes]] = {}

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome.

        Raises EvaluationFailed, and LostWorkers if nobody is left or workers end again and again.
        """
        self._generation += 1
        share = FIRST_SHARE if self._generation == 1 else SHARE
        parts = Parts(chromosomes, max(1, len(self._crew.ready())), share)
        losses = 0
        while not parts.is_done:
            stop.look()
            self._give(parts)
            for worker, answer in self._crew.heard():
                losses = losses + 1 if answer is None else 0
                self._hear(worker, answer, parts)
            if losses >= LOSSES:
                raise self._crew.ended(losses)
            yield from parts.in_order()

    def _give(self, parts: Parts) -> None:
        """Give parts to workers, the least busy first."""
        ready = self._crew.ready()
        self._untold = {worker: self._untold.get(worker, []) for worker in ready}
        for busy in range(QUEUED):
            for worker in ready:
                given = self._given.setdefault(worker, set())
                if len(given) == busy and parts.are_waiting:
                    number, part = parts.begin()
                    key = self._generation, number
                    given.add(key)
                    worker.send(task_text(key, part, self._told(worker)))

    def _hear(self, worker: Worker, content: bytes | None, parts: Parts) -> None:
        """Note what a worker answers, or that it is lost; answers of a generation left are dropped."""
        if content is None:
            for generation, number in self._given.pop(worker, ()):
                if generation == self._generation:
                    parts.lose(number)
            return
        answer = read_answer(content)
        self._given.get(worker, set()).discard(answer.key)
        if answer.learnt:
            for other, untold in self._untold.items():
                if other is not worker:
                    untold.append(answer.learnt)
        generation, number = answer.key
        if generation == self._generation:
            if isinstance(answer.scores, EvaluationFailed):
                raise answer.scores
            parts.answer(number, answer.scores)

    def _told(self, worker: Worker) -> list[bytes]:
        """The news that this worker has not heard yet; from now on it has."""
        told, self._untold[worker] = self._untold[worker], []
        return told


SHARE = Fraction(2, 3)  # of the chromosomes that are left, in one part for each worker
FIRST_SHARE = Fraction(1, 16)  # the same in the first generation, where workers learn most
MANY = 8  # chromosomes for each worker; fewer are one part each, as a part costs a message


def part_sizes(count: int, workers: int, share: Fraction = SHARE) -> list[int]:
    """Return how many chromosomes each part has: in each round a share of what is left.

    Each worker gets a part of each round. Whoever is done early goes on with smaller and smaller
    parts, so that all workers end at about the same time; the number of parts, which are messages,
    grows with the logarithm of the count only.
    Source: Hummel, Schonberg and Flynn, Factoring: a method for scheduling parallel loops,
    Communications of the ACM 35(8), 1992.
    """
    sizes: list[int] = []
    while count:
        here = share if sizes or count >= MANY * workers else 1
        size = ceil(count * here / workers)
        for _ in range(workers):
            sizes.append(min(size, count))
            count -= sizes[-1]
    return [size for size in sizes if size]


def parts_of(
    chromosomes: Sequence[Chromosome], workers: int, share: Fraction = SHARE
) -> list[list[Chromosome]]:
    """Return the chromosomes in parts, in order, the largest first."""
    borders = accumulate(part_sizes(len(chromosomes), workers, share), initial=0)
    return [list(chromosomes[begin:end]) for begin, end in pairwise(borders)]


class Parts:
    """The parts of one generation, and the scores that came so far."""

    def __init__(self, chromosomes: Sequence[Chromosome], workers: int, share: Fraction) -> None:
        self._parts = parts_of(chromosomes, workers, share)
        self._waiting = deque(range(len(self._parts)))
        self._answers: dict[int, list[Score]] = {}
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether every score was returned."""
        return self._next == len(self._parts)

    @property
    def are_waiting(self) -> bool:
        """Whether a part has no worker."""
        return bool(self._waiting)

    def begin(self) -> tuple[int, list[Chromosome]]:
        """Return the number of the next part, and its chromosomes."""
        number = self._waiting.popleft()
        return number, self._parts[number]

    def lose(self, number: int) -> None:
        """Let a part wait again, as the first one."""
        self._waiting.appendleft(number)

    def answer(self, number: int, scores: list[Score]) -> None:
        """Note the scores of a part."""
        self._answers[number] = scores

    def in_order(self) -> Iterator[Score]:
        """Yield the scores whose turn it is."""
        while self._next in self._answers:
            yield from self._answers.pop(self._next)
            self._next += 1


Key = tuple[int, int]  # of a part: the number of the generation, and of the part in it
NOTHING = b""


class Answer(NamedTuple):
    """The answer to a task: scores, or the failure of one evaluation."""

    key: Key
    scores: list[Score] | EvaluationFailed
    learnt: bytes


def task_text(key: Key, part: Sequence[Chromosome], learnt: Sequence[bytes]) -> bytes:
    """Return a task as bytes."""
    return pickle.dumps((key, part, learnt), pickle.HIGHEST_PROTOCOL)


def read_answer(content: bytes) -> Answer:
    """Return what a worker made of a task."""
    key, found, learnt = pickle.loads(content)
    scores = found if isinstance(found, EvaluationFailed) else [_unpacked(one) for one in found]
    return Answer(key, scores, learnt)


class Evaluations:
    """The evaluation in a worker: tasks come in, answers go out.

    An evaluation that learns tells the search what it worked out, and hears what others did.
    """

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._learning = evaluate if isinstance(evaluate, Learning) else None
        if self._learning:
            self._learning.learnt()  # from now on

    def answer(self, content: bytes) -> bytes:
        """Return the answer to a task."""
        steps = self.steps(content)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: bytes = end.value
                return answer

    def steps(self, content: bytes) -> Generator[None, None, bytes]:
        """Work on a task, one evaluation from step to step; return the answer."""
        key, part, learnt = pickle.loads(content)
        if self._learning:
            for news in learnt:
                self._learning.learn(pickle.loads(news))
        found: list[object] = []
        try:
            # What evaluations remember has no cycles; looks at it take a seventh of their time, and a
            # fifth where Dask listens to each.
            with uncollected():
                for chromosome in part:
                    found.append(_packed(evaluated(self._evaluate, chromosome)))
                    yield
        except EvaluationFailed as error:
            return pickle.dumps((key, error, self._news()), pickle.HIGHEST_PROTOCOL)
        return pickle.dumps((key, found, self._news()), pickle.HIGHEST_PROTOCOL)

    def _news(self) -> bytes:
        news = self._learning.learnt() if self._learning else None
        return pickle.dumps(news, pickle.HIGHEST_PROTOCOL) if news else NOTHING


def settle() -> None:
    """Leave all that is there now out of later looks for reference cycles, in a worker.

    A look at everything takes as long as 20 evaluations, mostly for modules and networks, and while
    one worker looks the others wait for it at the end of the generation.
    """
    gc.collect()
    gc.freeze()


def _packed(score: Score) -> tuple[Any, ...]:
    """The numbers of a score, fractions as pairs, which travel in a fifth of the time."""
    return tuple(
        (one.numerator, one.denominator) if isinstance(one, Fraction) else one
        for one in (score.violation, *score.objectives)
    )


def _unpacked(numbers: tuple[Any, ...]) -> Score:
    violation, *objectives = [Fraction(*one) if isinstance(one, tuple) else one for one in numbers]
    return Score(objectives=tuple(objectives), violation=violation)
