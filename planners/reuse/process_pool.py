"""Evaluations in processes of this machine, by the executor of concurrent.futures.

It restarts all workers where workers die; a time limit and Ctrl-C end the evaluation within a tick.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread

from csdf.errors import CsdfError
from csdf.time_limit import Stop
from planners.reuse.application import Chromosome
from planners.reuse.executors import LOSSES, TICK, Executor, Scores, Serial, parts_of, scores_of
from planners.reuse.problem import Evaluate, InvalidSearch, LostWorkers, Score


def local_executor(evaluate: Evaluate, *, workers: int) -> AbstractContextManager[Executor]:
    """Return this process if one worker is enough, else a pool of processes; for a `with`."""
    if workers == 1:
        return nullcontext(Serial(evaluate))
    return process_pool(evaluate, workers=workers)


def cluster_executor(evaluate: Evaluate, address: str) -> AbstractContextManager[Executor]:
    """Return the workers of a Dask scheduler; for a `with`.

    Dask is an extra: its module is imported only for a cluster. Raises CsdfError if it is not
    installed, LostWorkers if no scheduler answers at the address.
    """
    try:
        module = import_module("planners.reuse.dask_cluster")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("dask", "distributed"):
            raise
        raise CsdfError(
            f"{address}: a cluster needs dask and distributed: pip install dask distributed"
        ) from None
    executor: AbstractContextManager[Executor] = module.dask_cluster(evaluate, address)
    return executor


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
        # Safe beside threads; the main module must guard what it runs.
        context = get_context("spawn")
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
                        futures = [self._executor.submit(_answer, part) for part in parts[done:]]
                    stop.look()
                    if wait(futures[:1], timeout=TICK).done:
                        scores = futures[0].result()
                        del futures[0]
                        losses, done = 0, done + 1
                        yield from scores
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

    If the search closes the connection, or ends, this process ends at once. Garbage collection leaves
    out all objects that exist now: each collection would take as long as 20 evaluations.
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
