"""Initial tokens that make a graph live: one blocking cycle after the other gets the tokens it lacks.

One untimed execution continues after each repair: tokens only enable firings, so the execution of the
repaired graph extends the execution of the blocked graph. The search for a blocking cycle continues
from the part of the previous search that no firing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence

from csdf.analysis.consistency import cycle_vector
from csdf.analysis.liveness import IterationRun
from csdf.kernels import compile as compiler
from csdf.kernels import waiting
from csdf.model.graph import Graph
from csdf.model.indexed import indexed
from csdf.time_limit import Budget, stop_of


def added_tokens(
    graph: Graph, choose: Callable[[int], int], *, budget: Budget = None
) -> dict[str, int]:
    """Return how many initial tokens each channel needs in addition, for a live graph.

    graph: without capacities. choose: the position, below the length of a blocking cycle, of the
    actor whose awaited channel gets the missing tokens. Raises InconsistentGraph, GaveUp.
    """
    numbers = indexed(graph)
    added = [0] * len(numbers.channel_names)
    run = IterationRun(numbers, list(cycle_vector(graph).values()), stop_of(budget))
    blocking = BlockingCycles(run)
    ready: list[int] | None = None
    while not run.completes(ready):
        blocking.update()
        cycle = blocking.cycle()
        actor = cycle[choose(len(cycle))]
        channel = blocking.channel(actor)
        missing = run.needed(actor, channel) - run.tokens[channel]
        run.tokens[channel] += missing
        added[channel] += missing
        run.fired.clear()
        blocking.forget(actor)
        ready = [actor]
    return dict(zip(numbers.channel_names, added, strict=True))


class BlockingCycles:
    """A blocking cycle of each state of a run, from its first unfinished actor on.

    The path to the cycle is kept between searches, up to its first actor whose tokens have changed. The
    channel that an actor waits for is kept until then, also while the actor is not on the path.
    """

    def __init__(self, run: IterationRun) -> None:
        self._run = run
        # Every number is an index of an actor or of a channel.
        backend = compiler.backend(fits=True)
        absent = [waiting.ABSENT] * len(run.most)
        self._extend = backend.kernel(waiting.extend)
        self._shorten = backend.kernel(waiting.shorten)
        self._actors: MutableSequence[int] = backend.blank(len(run.most))
        self._position, self._awaited = backend.array(absent), backend.array(absent)
        self._path = backend.kernel(waiting.WaitingPath)(
            self._actors, self._position, self._awaited, backend.array(run.graph.producer)
        )

    def update(self) -> None:
        """Remove what the latest firings may have changed: their actors and all consumers."""
        graph = self._run.graph
        for actor in self._run.fired:
            self.forget(actor)
            for channel in self._run.outputs[actor]:
                self.forget(graph.consumer[channel])

    def forget(self, actor: int) -> None:
        """Remove the actor from the path, with all actors after it."""
        self._awaited[actor] = waiting.ABSENT
        if self._position[actor] != waiting.ABSENT:
            self._shorten(self._path, self._position[actor])

    def cycle(self) -> Sequence[int]:
        """Return the actors of a blocking cycle, each waiting for the next."""
        path, awaited, producer = self._path, self._awaited, self._run.graph.producer
        if path.length == 0:
            first = self._run.first_unfinished()
            if first is None:
                raise AssertionError("a blocked execution has an unfinished actor")
            self._extend(path, first)
        while True:
            last = self._actors[path.length - 1]
            if awaited[last] == waiting.ABSENT:
                awaited[last] = self._lacking(last)
            following = producer[awaited[last]]
            if self._position[following] != waiting.ABSENT:
                return self._actors[self._position[following] : path.length]
            self._extend(path, following)

    def _lacking(self, actor: int) -> int:
        channel = self._run.lacking(actor)
        if channel is None:
            raise AssertionError("a blocked actor lacks a token")
        return channel

    def channel(self, actor: int) -> int:
        """Return the channel for whose tokens an actor of the latest cycle waits."""
        return int(self._awaited[actor])
