"""The evaluation on one worker of a Dask cluster, by messages to the worker itself."""

from __future__ import annotations

import gc
import pickle
from asyncio import run_coroutine_threadsafe
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any
from uuid import uuid4

import distributed

from planners.reuse.front.places.evaluation import evaluated
from planners.reuse.front.problem import (
    Chromosome,
    Evaluate,
    EvaluationFailed,
    LostWorkers,
    Score,
)

UNTYPED: Any = distributed  # most of its functions carry no types
HERE = ("finished", "pending")  # of what Dask says of an actor: it is built, or will be


class Evaluations:
    """The evaluation, built once in a worker: what Dask calls an actor.

    A call is a message to the worker and one back. A task, which the scheduler places and whose
    result it keeps, would take several times the work.
    """

    def __init__(self, content: bytes) -> None:
        self._evaluate: Evaluate = pickle.loads(content)

    def scores(self, content: bytes) -> list[Score] | EvaluationFailed:
        """Return the score of each chromosome; one call at a time."""
        part: list[Chromosome] = pickle.loads(content)
        was_enabled = gc.isenabled()
        gc.disable()  # Dask listens to each collection, which costs a fifth of the time
        try:
            return [evaluated(self._evaluate, chromosome) for chromosome in part]
        except EvaluationFailed as error:
            return error
        finally:
            if was_enabled:
                gc.enable()


class Worker:
    """The evaluation on one worker, and how many parts it has.

    client: one of distributed. content: the evaluation as bytes.
    """

    def __init__(self, client: Any, address: str, content: bytes) -> None:
        self.parts = 0
        self._client = client
        self._address = address
        self._key = f"csdf-evaluations-{uuid4().hex}"
        self._built = client.submit(
            Evaluations, content, key=self._key, actor=True, workers=[address], pure=False
        )
        self._actor: Any = None
        self._has_left = False

    @property
    def is_lost(self) -> bool:
        """Whether the evaluation is there no more. Raises LostWorkers if it cannot be built."""
        if self._built.status == "error" and self._actor is None:
            error = self._built.exception()
            if isinstance(error, ImportError | AttributeError):
                raise LostWorkers(
                    f"{self._client.scheduler.address}: a worker cannot build the evaluation: "
                    f"{error}; install the same version of this project on every worker"
                )
        return self._has_left or self._built.status not in HERE

    @property
    def is_ready(self) -> bool:
        """Whether the evaluation is built."""
        if self._actor is None and not self.is_lost and self._built.status == "finished":
            with self._client.as_current():  # the actor keeps to the client that it finds
                self._actor = UNTYPED.Actor(Evaluations, self._address, self._key)
        return self._actor is not None and not self.is_lost

    def leave(self) -> None:
        """Note that the worker is lost."""
        self._has_left = True

    def begin(self, part: Sequence[Chromosome]) -> Future[Any]:
        """Send a part; return what will hold its scores, or the failure of one evaluation.

        Where the worker is lost it holds an OSError or RuntimeError, or never holds anything.
        """
        self.parts += 1
        call = self._call(pickle.dumps(part))
        return run_coroutine_threadsafe(call, self._client.loop.asyncio_loop)

    async def _call(self, content: bytes) -> Any:
        with self._client.as_current():
            return await self._actor.scores(content)
