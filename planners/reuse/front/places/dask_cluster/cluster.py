"""Evaluations on a Dask cluster.

Start one with `dask scheduler` and, on each machine, `dask worker tcp://HOST:8786 --nworkers N
--nthreads 1`, with the same version of this project installed everywhere. Whoever reaches the
scheduler can run programs on the workers: use a network of your own, or TLS as Dask describes it.

The evaluation on one worker of a Dask cluster, by messages to the worker itself.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import time
from asyncio import run_coroutine_threadsafe
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for_any
from types import TracebackType
from typing import Any
from uuid import uuid4

import distributed

from csdf.time_limit import Stop
from planners.reuse.front.places.crew import CrewPlace, Evaluations, settle
from planners.reuse.front.places.evaluation import TICK
from planners.reuse.front.problem import Chromosome, Evaluate, InvalidSearch, LostWorkers, Score

CONNECT = 10.0  # seconds for the scheduler to answer, and for the first worker to be there
NEWS = 64  # looks for a worker that can be given a part, from one question who is there to the next
UNTYPED: Any = distributed  # most of its functions carry no types


class DaskCluster:
    """The workers of a scheduler at an address such as `tcp://127.0.0.1:8786`.

    What a lost worker was doing is done elsewhere, and workers that join later get their share. To be
    used in a `with`.
    """

    def __init__(self, evaluate: Evaluate, address: str, *, connect: float = CONNECT) -> None:
        self._crew = _DaskWorkers(carried(evaluate), address, connect)
        self._place = CrewPlace(self._crew)

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._crew.end()

    def scores(self, chromosomes: Sequence[Chromosome], stop: Stop) -> Generator[Score, None, None]:
        """Yield the score of each chromosome.

        Raises LostWorkers if the scheduler is gone, or if workers end again and again.
        """
        return self._place.scores(chromosomes, stop)


class _DaskWorkers:
    """Who works for the scheduler; asked now and then, and whenever somebody is lost."""

    def __init__(self, content: bytes, address: str, connect: float) -> None:
        self._content = content
        self._address = address
        self._connect = connect
        self._workers: dict[str, Worker] = {}
        self._unseen = 0  # looks since the scheduler was asked
        self._client = connected(address, connect)
        try:
            self._begin(round(connect / TICK))
        except LostWorkers:
            self._client.close()
            raise

    def end(self) -> None:
        """Leave the cluster as it was."""
        self._workers.clear()
        self._client.close()

    def ready(self) -> Sequence[Worker]:
        """Return the workers at which the evaluation is built. Raises LostWorkers."""
        self._look()
        return [worker for worker in self._workers.values() if worker.is_ready]

    def heard(self) -> Iterator[tuple[Worker, bytes | None]]:
        """Yield the answers that come within a tick, and None for each worker that was lost."""
        calls = [call for worker in self._workers.values() for call in worker.calls]
        if calls:
            wait_for_any(calls, timeout=TICK, return_when="FIRST_COMPLETED")
        else:
            time.sleep(TICK)
        for address, worker in list(self._workers.items()):
            for answer in worker.answers():
                yield worker, answer
            if worker.is_lost:
                del self._workers[address]
                self._unseen = NEWS
                yield worker, None

    def _look(self) -> None:
        """Note who works for the scheduler; wait a while if nobody does."""
        self._unseen += 1
        if self._workers and self._unseen < NEWS:
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
            raise self.ended(0) from None
        except (OSError, CancelledError):
            raise self._is_gone() from None
        for address in set(self._workers).difference(there):
            self._workers[address].leave()
        for address in set(there).difference(self._workers):
            self._workers[address] = Worker(self._client, address, self._content)

    def _begin(self, ticks: int) -> None:
        """Wait for a worker that is ready; one that has other work is waited for later."""
        for _ in range(ticks):
            if self.ready():
                return
            time.sleep(TICK)

    def _is_gone(self) -> LostWorkers:
        return LostWorkers(f"{self._address}: the Dask scheduler is gone")

    def ended(self, losses: int) -> LostWorkers:
        """Return what to say if so many workers ended without a result, or did not come back."""
        what = f"ended {losses} times in a row without a result" if losses else "did not come back"
        return LostWorkers(f"{self._address}: workers {what}: killed for want of memory?")


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
