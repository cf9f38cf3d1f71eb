"""Evaluations on a Dask cluster: the one place that knows Dask.

Start one with `dask scheduler` and, on each machine, `dask worker tcp://HOST:8786 --nworkers N
--nthreads 1`, with the same version of this project installed everywhere. Whoever reaches the
scheduler can run programs on the workers: use a network of your own, or TLS as Dask describes it.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from threading import Lock
from types import TracebackType
from typing import Any
from uuid import uuid4

import distributed

from csdf.stopping import Stop
from planners.reuse.front.places.evaluation import TICK, evaluated, parts_of
from planners.reuse.front.problem import Chromosome, Evaluate, InvalidSearch, LostWorkers, Score

CONNECT = 10.0  # seconds for the scheduler to answer, and for the first worker to be there

Part = list[Chromosome]
UNTYPED: Any = distributed  # most of its functions carry no types


class EvaluationPlugin(distributed.WorkerPlugin):
    """The evaluation, built once in every worker, also in those that join later."""

    def __init__(self, content: bytes) -> None:
        self._pickle = content

    def setup(self, worker: distributed.Worker) -> None:  # noqa: ARG002 - Dask gives it by name
        """Build the evaluation."""
        self._evaluate: Evaluate = pickle.loads(self._pickle)
        self._lock = Lock()

    def scores(self, part: Part) -> list[Score]:
        """Return the score of each chromosome; one thread of the worker at a time."""
        with self._lock:
            return [evaluated(self._evaluate, chromosome) for chromosome in part]


class DaskCluster:
    """The workers of a scheduler at an address such as `tcp://127.0.0.1:8786`.

    The tasks of a lost worker run elsewhere. To be used in a `with`.
    """

    def __init__(self, evaluate: Evaluate, address: str, *, connect: float = CONNECT) -> None:
        content = carried(evaluate)
        self._address = address
        self._name = f"csdf-evaluation-{uuid4().hex}"
        self._client = connected(address, connect)
        try:
            self._client.register_plugin(EvaluationPlugin(content), name=self._name)
        except (ImportError, AttributeError) as error:
            self._client.close()
            raise LostWorkers(
                f"{address}: a worker cannot build the evaluation: {error}; "
                f"install the same version of this project on every worker"
            ) from None

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._client.status == "running":
                self._client.unregister_worker_plugin(self._name)
        finally:
            self._client.close()

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome.

        Raises LostWorkers if the scheduler is gone, or if one part ended several workers.
        """
        futures = self._sent(chromosomes)
        try:
            for future in futures:
                yield from self._result(future, stop)
        finally:
            if self._client.status == "running":
                self._client.cancel(futures)

    def _sent(self, chromosomes: Sequence[Chromosome]) -> list[Any]:
        """Return the futures of all parts, in order."""
        if self._client.status == "closed":
            raise self._is_gone()
        try:
            threads = sum(self._client.nthreads().values())
            parts = parts_of(chromosomes, max(1, threads))
            futures: list[Any] = self._client.map(run_part, parts, name=self._name, pure=False)
        except OSError:
            raise self._is_gone() from None
        return futures

    def _is_gone(self) -> LostWorkers:
        return LostWorkers(f"{self._address}: the Dask scheduler is gone")

    def _result(self, future: Any, stop: Stop) -> list[Score]:
        stop.look()
        try:
            while (result := fetched(future)) is None:
                stop.look()
        except distributed.KilledWorker as error:
            raise LostWorkers(f"{self._address}: {error}") from None
        except CancelledError:
            raise self._is_gone() from None
        return result


def fetched(future: Any) -> list[Score] | None:
    """Return the result if it is here within a tick; raise what the task raised.

    A result that was there may be lost with its worker before it is fetched: it is made again.
    """
    limit = None if future.status == "error" else TICK
    try:
        result: list[Score] = future.result(timeout=limit)
    except TimeoutError:
        if limit is None:  # the error of the task itself
            raise
        return None
    return result


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


def run_part(part: Part, name: str) -> list[Score]:
    """Return the score of each chromosome, by the evaluation of that name."""
    plugin = distributed.get_worker().plugins[name]
    if not isinstance(plugin, EvaluationPlugin):
        raise LostWorkers(f"the worker knows {name} as something else")
    return plugin.scores(part)
