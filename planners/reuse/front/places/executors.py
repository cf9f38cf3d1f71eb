"""The choice of a place to evaluate: here, in processes of this machine, or on a cluster.

Evaluations in processes of this machine.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Final

from csdf.errors import CsdfError
from csdf.time_limit import Stop
from planners.reuse.front.places.crew import CrewPlace, Evaluations, settle
from planners.reuse.front.places.evaluation import TICK, Place, Serial
from planners.reuse.front.problem import (
    Chromosome,
    Evaluate,
    InvalidSearch,
    LostWorkers,
    Score,
)


def local_place(evaluate: Evaluate, *, workers: int) -> AbstractContextManager[Place]:
    """Return this process if one worker is enough, else a pool of processes; for a `with`."""
    if workers == 1:
        return nullcontext(Serial(evaluate))
    return ProcessPool(evaluate, workers=workers)


def cluster_place(evaluate: Evaluate, address: str) -> AbstractContextManager[Place]:
    """Return the workers of a Dask scheduler; for a `with`.

    Dask is an extra: what knows it is imported when a cluster is asked for. Raises CsdfError if it is
    not installed, LostWorkers if there is nobody at the address.
    """
    try:
        module = import_module("planners.reuse.front.places.dask_cluster.cluster")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("dask", "distributed"):
            raise
        raise CsdfError(
            f"{address}: a cluster needs dask and distributed: pip install 'csdf[cluster]'"
        ) from None
    place: AbstractContextManager[Place] = module.DaskCluster(evaluate, address)
    return place


SAFE_PATH = "PYTHONSAFEPATH"  # what Python reads of it when it starts
START: Final = "spawn"  # safe beside threads; the main module must guard what it runs


class ProcessPool:
    """A number of processes; each builds the evaluation once, from its pickle.

    A process that dies is replaced, and what it was doing is done again. To be used in a `with`.
    """

    def __init__(self, evaluate: Evaluate, *, workers: int) -> None:
        if workers < 1:
            raise InvalidSearch(f"{workers} workers; expected at least 1")
        content = pickled(evaluate)
        self._safe_path = _SafePath()
        self._crew = _Processes(content, workers)
        self._place = CrewPlace(self._crew)

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._crew.end()
        self._safe_path.restore()

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome. Raises LostWorkers if processes die again and again."""
        return self._place.scores(chromosomes, stop)


class _Processes:
    """The processes of a pool; always as many as were asked for."""

    def __init__(self, content: bytes, workers: int) -> None:
        self._content = content
        self._workers = [_Process(content) for _ in range(workers)]

    def ready(self) -> Sequence[_Process]:
        """Return all processes; one that is lost is replaced when it is noted."""
        return self._workers

    def heard(self) -> Iterator[tuple[_Process, bytes | None]]:
        """Yield the answers that come within a tick, and None for each process that ended."""
        spoke = wait([worker.connection for worker in self._workers], timeout=TICK)
        for place, worker in enumerate(self._workers):
            if worker.connection in spoke:
                answer = worker.answer()
                if answer is None:
                    worker.end()
                    self._workers[place] = _Process(self._content)
                yield worker, answer

    def ended(self, losses: int) -> LostWorkers:
        """Return what to say if so many processes ended without a result."""
        return LostWorkers(
            f"worker processes ended {losses} times in a row without a result: killed for want of "
            f"memory, or unable to build the evaluation? Try less than {len(self._workers)} workers"
        )

    def end(self) -> None:
        """End all processes, whatever they are doing."""
        for worker in self._workers:
            worker.end()


class _Process:
    """A process, and the connection to it."""

    def __init__(self, content: bytes) -> None:
        context = get_context(START)
        self.connection, other = context.Pipe()
        self._process = context.Process(target=work, args=(other, content), daemon=True)
        self._process.start()
        other.close()

    def send(self, task: bytes) -> None:
        """Send a task; that the process has ended is heard later."""
        with suppress(OSError):
            self.connection.send_bytes(task)

    def answer(self) -> bytes | None:
        """Return the next answer, which is there or under way; None if the process has ended."""
        try:
            return self.connection.recv_bytes()
        except (EOFError, OSError):
            return None

    def end(self) -> None:
        """End the process: nothing in it is worth a wait."""
        self._process.terminate()
        self._process.join()
        self.connection.close()


def pickled(evaluate: Evaluate) -> bytes:
    """Return the evaluation as bytes. Raises InvalidSearch if it cannot travel."""
    try:
        return pickle.dumps(evaluate)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidSearch(
            f"the evaluation cannot be sent to another process: {error}; "
            f"give an object of a class at the top of a module"
        ) from None


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


def work(connection: Connection, content: bytes) -> None:
    """Answer tasks, in a process of its own; leave an interrupt from the keyboard to the main one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    evaluations = Evaluations(pickle.loads(content))
    settle()
    tasks: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(connection, tasks), daemon=True).start()
    while True:
        connection.send_bytes(evaluations.answer(tasks.get()))


def _listen(connection: Connection, tasks: SimpleQueue[bytes]) -> None:
    """Take tasks as they come: a search whose task waits to be read could not read an answer.

    Where the search is gone, this process ends with it.
    """
    try:
        while True:
            tasks.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)
