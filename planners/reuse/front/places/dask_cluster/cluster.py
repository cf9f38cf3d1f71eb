"""Evaluations on a Dask cluster.

Start one with `dask scheduler` and, on each machine, `dask worker tcp://HOST:8786 --nworkers N
--nthreads 1`, with the same version of this project installed everywhere. Whoever reaches the
scheduler can run programs on the workers: use a network of your own, or TLS as Dask describes it.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for_any
from types import TracebackType
from typing import Any

import distributed

from csdf.stopping import Stop
from planners.reuse.front.places.dask_cluster.worker import Worker
from planners.reuse.front.places.evaluation import TICK, parts_of
from planners.reuse.front.problem import (
    Chromosome,
    Evaluate,
    EvaluationFailed,
    InvalidSearch,
    LostWorkers,
    Score,
)

CONNECT = 10.0  # seconds for the scheduler to answer, and for the first worker to be there
NEWS = 16  # answers, or ticks without any, from one look at who works for the scheduler to the next
QUEUED = 2  # parts that a worker has at a time, so that it never waits for a message
LOSSES = 3  # of workers, one after the other without a result between

Part = list[Chromosome]
UNTYPED: Any = distributed  # most of its functions carry no types


class DaskCluster:
    """The workers of a scheduler at an address such as `tcp://127.0.0.1:8786`.

    What a lost worker was doing is done elsewhere, and workers that join later get their share. To be
    used in a `with`.
    """

    def __init__(self, evaluate: Evaluate, address: str, *, connect: float = CONNECT) -> None:
        self._content = carried(evaluate)
        self._address = address
        self._connect = connect
        self._workers: dict[str, Worker] = {}
        self._unseen = 0  # answers and ticks since the last look
        self._client = connected(address, connect)
        try:
            self._begin(round(connect / TICK))
        except LostWorkers:
            self._client.close()
            raise

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers.clear()
        self._client.close()

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome.

        Raises LostWorkers if the scheduler is gone, or if workers end again and again.
        """
        parts = _Parts(parts_of(chromosomes, max(1, len(self._workers))))
        losses = 0
        try:
            while not parts.is_done:
                stop.look()
                parts.give(list(self._ready()))
                lost, answered = parts.take()
                losses = 0 if answered else losses + lost
                if losses >= LOSSES:
                    raise self._ended()
                self._look(is_urgent=bool(lost))
                yield from parts.in_order()
        finally:
            parts.drop()

    def _ready(self) -> Iterator[Worker]:
        """Workers that can be given a part."""
        for address, worker in list(self._workers.items()):
            if worker.is_lost:
                del self._workers[address]
            elif worker.is_ready and worker.parts < QUEUED:
                yield worker

    def _look(self, *, is_urgent: bool = True) -> None:
        """Note who works for the scheduler, now and then; wait a while if nobody does."""
        self._unseen += 1
        if self._workers and not is_urgent and self._unseen < NEWS:
            return
        self._unseen = 0
        if self._client.status != "running":
            raise self._is_gone()
        try:
            there = self._client.nthreads()
            if not there:
                self._client.wait_for_workers(1, timeout=self._connect)
                there = self._client.nthreads()
        except TimeoutError:
            raise self._ended() from None
        except (OSError, CancelledError):
            raise self._is_gone() from None
        for address in set(self._workers).difference(there):
            self._workers.pop(address).leave()
        for address in set(there).difference(self._workers):
            self._workers[address] = Worker(self._client, address, self._content)

    def _begin(self, ticks: int) -> None:
        """Wait for a worker that is ready; one that has other work is waited for later."""
        self._look()
        for _ in range(ticks):
            if any(worker.is_ready for worker in self._workers.values()):
                return
            time.sleep(TICK)
            self._look(is_urgent=False)

    def _is_gone(self) -> LostWorkers:
        return LostWorkers(f"{self._address}: the Dask scheduler is gone")

    def _ended(self) -> LostWorkers:
        return LostWorkers(
            f"{self._address}: workers ended {LOSSES} times in a row without a result, or did not "
            "come back: killed for want of memory?"
        )


class _Parts:
    """The parts of one call: waiting, given to a worker, or answered."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._waiting = list(reversed(range(len(parts))))  # the next one is the last
        self._given: dict[Future[Any], tuple[int, Worker]] = {}
        self._answers: dict[int, list[Score]] = {}
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether every score was returned."""
        return self._next == len(self._parts)

    def give(self, workers: Sequence[Worker]) -> None:
        """Give each worker a part, the least busy first."""
        for worker in sorted(workers, key=lambda one: one.parts):
            if self._waiting:
                number = self._waiting.pop()
                self._given[worker.begin(self._parts[number])] = number, worker

    def take(self) -> tuple[int, int]:
        """Wait a tick for an answer; return how many parts were lost, and how many answered.

        Raises EvaluationFailed, and what an evaluation raised.
        """
        if not self._given:
            time.sleep(TICK)
            return 0, 0
        wait_for_any(self._given, timeout=TICK, return_when="FIRST_COMPLETED")
        lost = answered = 0
        for future, (number, worker) in list(self._given.items()):
            if not future.done() and not worker.is_lost:
                continue
            del self._given[future]
            worker.parts -= 1
            answer = _answer(future)
            if answer is None:
                lost += 1
                worker.leave()
                self._waiting.append(number)
            else:
                answered += 1
                self._answers[number] = answer
        return lost, answered

    def in_order(self) -> Iterator[Score]:
        """Yield the scores whose turn it is."""
        while self._next in self._answers:
            yield from self._answers.pop(self._next)
            self._next += 1

    def drop(self) -> None:
        """Wait for no answer any more; the workers end what they have begun."""
        for future, (_, worker) in self._given.items():
            worker.parts -= 1
            future.cancel()


def _answer(future: Future[Any]) -> list[Score] | None:
    """Scores of a part; None where its worker was lost."""
    if not future.done():
        future.cancel()
        return None
    try:
        found: list[Score] | EvaluationFailed = future.result()
    except (OSError, RuntimeError, CancelledError):
        return None
    if isinstance(found, EvaluationFailed):
        raise found
    return found


def carried(evaluate: Evaluate) -> bytes:
    """Return the evaluation as bytes; classes of a main program travel with it."""
    try:
        content: bytes = UNTYPED.protocol.pickle.dumps(evaluate)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidSearch(f"the evaluation cannot be sent to a worker: {error}") from None
    return content


def connected(address: str, seconds: float) -> Any:
    """Return a client of a cluster with at least one worker. Raises LostWorkers."""
    try:
        client = UNTYPED.Client(address, timeout=seconds, set_as_default=False)
    except (OSError, ValueError) as error:
        raise LostWorkers(
            f"{address}: no Dask scheduler answers: {error}; start one with `dask scheduler`"
        ) from None
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        client.close()
        raise LostWorkers(
            f"{address}: the Dask scheduler has no worker; "
            f"start one with `dask worker {address} --nthreads 1`"
        ) from None
    return client
