"""Evaluations by several workers, wherever these are: who gets which part, and who hears what.

Each worker has a part that it works on and one that waits there, so that it never waits for a message.
What one worker has learnt is told to the others with their next parts.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from typing import Protocol

from csdf.stopping import Stop
from planners.reuse.front.places.messages import Key, read_answer, task_text
from planners.reuse.front.places.parts import FIRST_SHARE, SHARE, Parts
from planners.reuse.front.problem import Chromosome, EvaluationFailed, LostWorkers, Score

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
