"""Evaluations in processes of this machine."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import TracebackType

from csdf.stopping import Stop
from planners.reuse.front.places.evaluation import awaited, evaluated, parts_of
from planners.reuse.front.problem import (
    Chromosome,
    Evaluate,
    InvalidSearch,
    LostWorkers,
    Score,
)

LOSSES = 3  # of processes, one after the other without a result between
SAFE_PATH = "PYTHONSAFEPATH"  # what Python reads of it when it starts
START = "spawn"  # safe beside threads; the main module must guard what it runs

Part = list[Chromosome]


class ProcessPool:
    """A number of processes; each builds the evaluation once, from its pickle.

    A process that dies is replaced, and what it was doing is done again. To be used in a `with`.
    """

    def __init__(self, evaluate: Evaluate, *, workers: int) -> None:
        if workers < 1:
            raise InvalidSearch(f"{workers} workers; expected at least 1")
        self._workers = workers
        self._pickle = pickled(evaluate)
        self._safe_path = _SafePath()
        self._executor = self._started()

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._safe_path.restore()

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome. Raises LostWorkers if processes die again and again."""
        parts = parts_of(chromosomes, self._workers)
        futures: dict[int, Future[list[Score]]] = {}
        try:
            for number in range(len(parts)):
                yield from self._result(parts, number, futures, stop)
                del futures[number]
        finally:
            for future in futures.values():
                future.cancel()

    def _result(
        self, parts: list[Part], number: int, futures: dict[int, Future[list[Score]]], stop: Stop
    ) -> list[Score]:
        """Return the scores of one part; keep all later parts in work."""
        for _ in range(LOSSES):
            try:
                for later in range(number, len(parts)):
                    if later not in futures or is_lost(futures[later]):
                        futures[later] = self._executor.submit(run_part, parts[later])
                return awaited(futures[number], stop)
            except BrokenProcessPool:
                self._executor.shutdown()
                self._executor = self._started()
        raise LostWorkers(
            f"worker processes ended {LOSSES} times in a row without a result: killed for want of "
            f"memory, or unable to build the evaluation? Try less than {self._workers} workers"
        )

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers,
            mp_context=get_context(START),
            initializer=begin_work,
            initargs=(self._pickle,),
        )


def pickled(evaluate: Evaluate) -> bytes:
    """Return the evaluation as bytes. Raises InvalidSearch if it cannot travel."""
    try:
        return pickle.dumps(evaluate)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidSearch(
            f"the evaluation cannot be sent to another process: {error}; "
            f"give an object of a class at the top of a module"
        ) from None


def is_lost(future: Future[list[Score]]) -> bool:
    """Whether the process ended before the result was there."""
    return future.done() and isinstance(future.exception(), BrokenProcessPool)


class _SafePath:
    """Keeps processes that are started from now on from running modules of the current folder.

    They start as `python -c`, which looks there first: before it has got the path of this process, a
    file called `pickle.py` would be run. Only the environment reaches such a start.
    """

    def __init__(self) -> None:
        self._before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"

    def restore(self) -> None:
        """Leave the environment as it was."""
        if self._before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = self._before


class _Worker:
    """The object with which this process evaluates, set before its first task."""

    evaluate: Evaluate


def begin_work(content: bytes) -> None:
    """Build the evaluation; leave an interrupt from the keyboard to the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker.evaluate = pickle.loads(content)


def run_part(part: Part) -> list[Score]:
    """Return the score of each chromosome."""
    return [evaluated(_Worker.evaluate, chromosome) for chromosome in part]
