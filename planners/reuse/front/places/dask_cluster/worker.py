"""The evaluation on one worker of a Dask cluster, by messages to the worker itself."""

from __future__ import annotations

import asyncio
import gc
import pickle
from asyncio import run_coroutine_threadsafe
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import Any
from uuid import uuid4

import distributed

from planners.reuse.front.places.messages import Evaluations, settle
from planners.reuse.front.problem import LostWorkers

UNTYPED: Any = distributed  # most of its functions carry no types
HERE = ("finished", "pending")  # of what Dask says of an actor: it is built, or will be
REACH = 3.0  # seconds for a worker to answer this process itself, without the scheduler between


class Remote:
    """The evaluation, built once in a worker: what Dask calls an actor.

    A call is a message to the worker and one back. A task, which the scheduler places and whose
    result it keeps, would take several times the work.
    """

    def __init__(self, content: bytes) -> None:
        self._evaluations = Evaluations(pickle.loads(content))
        self._turn = asyncio.Lock()
        settle()

    def __del__(self) -> None:
        gc.unfreeze()  # the worker goes on with other work

    async def answer(self, task: bytes) -> bytes:
        """Return the answer to a task, one task at a time.

        In the thread in which Dask listens, which has its turn between two evaluations: beside it,
        another thread would give way two hundred times a second to find that there is nothing to
        do, and be watched by Dask's profiler. A single evaluation must not take minutes: the
        scheduler gives up a worker that does not speak for five.
        """
        async with self._turn:
            steps = self._evaluations.steps(task)
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    answer: bytes = end.value
                    return answer
                await asyncio.sleep(0)


class Worker:
    """The evaluation on one worker, and the calls that it has not answered.

    client: one of distributed. content: the evaluation as bytes.
    """

    def __init__(self, client: Any, address: str, content: bytes) -> None:
        self.calls: list[Future[bytes]] = []
        self._client = client
        self._address = address
        self._key = f"csdf-evaluations-{uuid4().hex}"
        self._built = client.submit(
            Remote, content, key=self._key, actor=True, workers=[address], pure=False
        )
        self._reached = self._begun(self._reach())
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
        """Whether the evaluation is built, and can be called."""
        if self.is_lost:
            return False
        if self._actor is None and self._reached.done() and self._built.status == "finished":
            with self._client.as_current():  # the actor keeps to the client that it finds
                self._actor = UNTYPED.Actor(Remote, self._address, self._key)
        return self._actor is not None

    def leave(self) -> None:
        """Note that the worker is lost."""
        self._has_left = True

    def send(self, task: bytes) -> None:
        """Send a task, to be answered some time."""
        self.calls.append(self._begun(self._call(task)))

    def answers(self) -> Iterator[bytes]:
        """Yield the answers that came, in the order of the tasks."""
        for call in [one for one in self.calls if one.done()]:
            self.calls.remove(call)
            try:
                answer: bytes = call.result()
            except (OSError, RuntimeError, LookupError, CancelledError):
                self.leave()
                return
            yield answer

    async def _call(self, task: bytes) -> Any:
        if not self._reached.result():
            with self._client.as_current():
                return await self._actor.answer(task)
        worker = self._client.rpc(self._address)
        answer = await worker.actor_execute(
            function="answer", actor=self._key, args=[task], kwargs={}
        )
        if answer["status"] != "OK":
            raise answer["exception"]
        return answer["result"]

    async def _reach(self) -> bool:
        """Whether the worker answers this process itself; if not, calls go by the scheduler."""
        try:
            await asyncio.wait_for(self._client.rpc(self._address).identity(), REACH)
        except (OSError, TimeoutError):
            return False
        return True

    def _begun(self, work: Any) -> Future[Any]:
        """The future of a coroutine that the client carries out."""
        return run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)
