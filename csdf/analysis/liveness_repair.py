"""Initial tokens that make a graph live: one blocking cycle after the other gets the tokens it lacks.

One untimed execution continues after each repair: tokens only enable firings, so the execution of the
repaired graph extends the execution of the blocked graph. The search for a blocking cycle continues
from the part of the previous search that no firing has changed.
"""

from __future__ import annotations

from collections.abc import Callable

from csdf.analysis.consistency import cycle_vector
from csdf.analysis.liveness import IterationRun
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
    waiting = WaitingPath(run)
    ready: list[int] | None = None
    while not run.completes(ready):
        waiting.update()
        cycle = waiting.cycle()
        actor, channel = cycle[choose(len(cycle))]
        missing = run.needed(actor, channel) - run.tokens[channel]
        run.tokens[channel] += missing
        added[channel] += missing
        run.fired.clear()
        waiting.forget(actor)
        ready = [actor]
    return dict(zip(numbers.channel_names, added, strict=True))


class WaitingPath:
    """The path from the first unfinished actor to the actors that it waits for, up to a repetition.

    The path is kept between searches, up to its first actor that no longer waits for the same actor.
    """

    def __init__(self, run: IterationRun) -> None:
        self._run = run
        self._path: list[tuple[int, int]] = []  # actor, and the channel that lacks tokens
        self._position: dict[int, int] = {}

    def update(self) -> None:
        """Remove what the latest firings may have changed: their actors and all consumers."""
        graph = self._run.graph
        for actor in self._run.fired:
            self.forget(actor)
            for channel in self._run.outputs[actor]:
                self.forget(graph.consumer[channel])

    def forget(self, actor: int) -> None:
        """Remove the actor from the path, with all actors after it."""
        position = self._position.get(actor)
        if position is not None:
            for removed, _ in self._path[position:]:
                del self._position[removed]
            del self._path[position:]

    def cycle(self) -> list[tuple[int, int]]:
        """Return the actors of a blocking cycle, each with the channel for whose tokens it waits."""
        run, path, position = self._run, self._path, self._position
        first = run.first_unfinished()
        if first is None:
            raise AssertionError("a blocked execution has an unfinished actor")
        if path and path[0][0] != first:
            self.forget(path[0][0])
        actor = run.graph.producer[path[-1][1]] if path else first
        while actor not in position:
            channel = run.lacking(actor)
            if channel is None:
                raise AssertionError("a blocked actor lacks a token")
            position[actor] = len(path)
            path.append((actor, channel))
            actor = run.graph.producer[channel]
        return path[position[actor] :]
