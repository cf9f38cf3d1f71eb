"""Evaluations on a Dask cluster, by tasks of its Client.

Start one with `dask scheduler` and, on each machine, `dask worker tcp://HOST:8786 --nworkers N
--nthreads 1`, with the same version of this project installed everywhere. Everyone who reaches the
scheduler can run programs on the workers: use a network of your own, or TLS as Dask describes it. Dask
reassigns the tasks of a lost worker, and workers that join later get a share.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import count
from typing import Any

import distributed

from csdf.time_limit import Stop
from planners.reuse.application import Chromosome
from planners.reuse.executors import LOSSES, TICK, Executor, Scores, parts_of, scores_of
from planners.reuse.problem import Evaluate, InvalidSearch, LostWorkers

# Seconds for the scheduler to answer, for the first worker, and for lost ones to return.
CONNECT = 10.0
NEWS = 64  # ticks without an answer, after which Dask is asked whether there are workers
UNTYPED: Any = distributed  # most of its functions carry no types


@contextmanager
def dask_cluster(
    evaluate: Evaluate, address: str, *, connect: float = CONNECT
) -> Iterator[Executor]:
    """Yield the workers of a scheduler at an address such as `tcp://127.0.0.1:8786`.

    Raises LostWorkers where no worker answers or exists, or none can build the evaluation.
    """
    try:  # classes of a main program travel with it
        content: bytes = UNTYPED.protocol.pickle.dumps(evaluate)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidSearch(f"the evaluation cannot be sent to a worker: {error}") from None
    try:
        client = UNTYPED.Client(address, timeout=connect, set_as_default=False)
    except (OSError, ValueError) as error:
        raise LostWorkers(
            f"{address}: no Dask scheduler answers: {error}; start one with `dask scheduler`"
        ) from None
    with client:
        yield _Cluster(client, address, content, connect)


class _Cluster:
    """A client, and the evaluation as a value that Dask keeps on the workers, and builds again."""

    def __init__(self, client: Any, address: str, content: bytes, connect: float) -> None:
        self._client = client
        self._address = address
        self._connect = connect
        self._require_workers(f"has no worker; start one with `dask worker {address} --nthreads 1`")
        self._evaluate = client.submit(pickle.loads, content, pure=False)
        try:
            error = self._evaluate.exception(timeout=connect)
        except TimeoutError:
            return  # workers that have other work are waited for later
        if error is not None:
            raise LostWorkers(
                f"{address}: a worker cannot build the evaluation: {error}; "
                "install the same version of this project on every worker"
            )
        # Else tasks would wait for it where the only worker that has it dies.
        client.replicate([self._evaluate])

    def _require_workers(self, otherwise: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=self._connect)
        except TimeoutError:
            raise LostWorkers(f"{self._address}: the Dask scheduler {otherwise}") from None

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Scores:
        """Yield the score of each chromosome.

        Raises LostWorkers if the scheduler is gone, or if workers end again and again.
        """
        futures: list[Any] = []
        try:
            self._require_scheduler()
            parts = parts_of(chromosomes, max(1, len(self._client.nthreads())))
            futures = [
                self._client.submit(scores_of, self._evaluate, part, pure=False, retries=0)
                for part in parts
            ]
            for future in list(futures):
                for tick in count(1):
                    stop.look()
                    self._require_scheduler()
                    try:
                        scores = future.result(timeout=TICK)
                        break
                    except TimeoutError:
                        if tick % NEWS == 0 and not self._client.nthreads():
                            self._require_workers("lost its workers: killed for want of memory?")
                futures.remove(future)
                yield from scores
        except UNTYPED.scheduler.KilledWorker:
            raise LostWorkers(
                f"{self._address}: workers ended {LOSSES} times in a row without a result: "
                "killed for want of memory?"
            ) from None
        except (OSError, CancelledError):
            raise self._is_gone() from None
        finally:
            if futures and self._client.status == "running":
                self._client.cancel(futures)

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise self._is_gone()

    def _is_gone(self) -> LostWorkers:
        return LostWorkers(f"{self._address}: the Dask scheduler is gone")
