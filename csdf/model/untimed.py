"""Execution without times: an actor fires where its inputs hold the tokens of its next phase.

It may execute enabled firings in any order: the set of possible firings is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from csdf.model.indexed import IndexedGraph

Value = TypeVar("Value")
STEPS = 5_000  # firings, and ports of these, between two looks: about a hundredth of a second


class UntimedRun:
    """The tokens of a graph while its actors fire in some order.

    maximum: firings of each actor after which it fires no more. returns: the phase that follows the
    last one of each actor; 0 unless it has phases that it passes once. fired: actors that have fired
    since this was last cleared, the latest at the end.
    """

    def __init__(
        self, graph: IndexedGraph, maximum: Sequence[int], returns: Sequence[int] | None = None
    ) -> None:
        self.graph = graph
        self.most = list(maximum)
        self.tokens = list(graph.initial_tokens)
        self.phase = [0] * len(graph.phases)
        self.firings = [0] * len(graph.phases)
        self.fired: list[int] = []
        self.inputs = [
            tuple(graph.input_channel[begin:end]) for begin, end in pairwise(graph.input_start)
        ]
        self.outputs = [
            tuple(graph.output_channel[begin:end]) for begin, end in pairwise(graph.output_start)
        ]
        self._returns = [0] * len(graph.phases) if returns is None else returns
        self._followers = [
            [graph.consumer[channel] for channel in outputs if graph.consumer[channel] != actor]
            for actor, outputs in enumerate(self.outputs)
        ]
        self._is_waiting = [False] * len(graph.phases)
        self._finished = 0  # actors at the front that have fired most often

    def exhaust(
        self, ready: Iterable[int] | None = None, look: Callable[[], object] | None = None
    ) -> None:
        """Fire until no actor can or may.

        ready: actors that may be enabled now, after none was; by default any.
        look: is called now and then, and may end this by raising.
        """
        steps = 0
        waiting = list(range(len(self.most)) if ready is None else ready)
        is_waiting = self._is_waiting
        for actor in waiting:
            is_waiting[actor] = True
        while waiting:
            actor = waiting.pop()
            is_waiting[actor] = False
            has_fired = False
            while self.firings[actor] < self.most[actor] and self.advance(actor):
                has_fired = True
                steps += 1 + len(self.inputs[actor]) + len(self.outputs[actor])
                if look is not None and steps > STEPS:
                    steps = 0
                    look()
                for follower in self._followers[actor]:
                    if not is_waiting[follower]:
                        is_waiting[follower] = True
                        waiting.append(follower)
            if has_fired:
                self.fired.append(actor)

    def advance(self, actor: int) -> bool:
        """Fire the next phase of the actor if its inputs allow it; return whether they do."""
        if self.lacking(actor) is not None:
            return False
        self.fire(actor)
        return True

    def fire(self, actor: int) -> None:
        """Move the tokens of the actor's next phase."""
        graph, phase, tokens = self.graph, self.phase[actor], self.tokens
        for channel in self.inputs[actor]:
            tokens[channel] -= graph.consumption[graph.consumption_start[channel] + phase]
        for channel in self.outputs[actor]:
            tokens[channel] += graph.production[graph.production_start[channel] + phase]
        following = phase + 1
        self.phase[actor] = following if following < graph.phases[actor] else self._returns[actor]
        self.firings[actor] += 1

    def first_unfinished(self) -> int | None:
        """Return the first actor that has firings left, if there is any."""
        count = len(self.most)
        while self._finished < count and self.firings[self._finished] >= self.most[self._finished]:
            self._finished += 1
        return self._finished if self._finished < count else None

    def needed(self, actor: int, channel: int) -> int:
        """Return how many tokens the next firing of the actor takes from the channel."""
        graph = self.graph
        return graph.consumption[graph.consumption_start[channel] + self.phase[actor]]

    def lacking(self, actor: int) -> int | None:
        """Return an input without the tokens of the next phase, or None if the actor can fire."""
        graph, tokens, phase = self.graph, self.tokens, self.phase[actor]
        consumption, start = graph.consumption, graph.consumption_start
        for channel in self.inputs[actor]:
            if tokens[channel] < consumption[start[channel] + phase]:
                return channel
        return None


class ValuedRun(UntimedRun, Generic[Value]):
    """A run in which each token carries the value of the firing that made it.

    queues: the tokens in each channel, the oldest first, as pairs of a value and how many successive
    tokens have it; the argument gives the initial ones. value_of: what the tokens of a firing carry, by
    its actor, its phase and the values that it takes, each once for tokens of one firing.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        maximum: Sequence[int],
        queues: Iterable[Iterable[tuple[Value, int]]],
        value_of: Callable[[int, int, list[Value]], Value],
    ) -> None:
        super().__init__(graph, maximum)
        self.queues = [deque(pair for pair in queue if pair[1]) for queue in queues]
        self.tokens = [sum(count for _, count in queue) for queue in self.queues]
        self._value_of = value_of

    def fire(self, actor: int) -> None:
        """Take the values of the actor's next phase, and pass on the value that follows from them."""
        graph, phase = self.graph, self.phase[actor]
        taken: list[Value] = []
        for channel in self.inputs[actor]:
            needed = graph.consumption[graph.consumption_start[channel] + phase]
            queue = self.queues[channel]
            while needed:
                value, count = queue.popleft()
                taken.append(value)
                if count > needed:
                    queue.appendleft((value, count - needed))
                needed -= min(count, needed)
        made = self._value_of(actor, phase, taken)
        for channel in self.outputs[actor]:
            count = graph.production[graph.production_start[channel] + phase]
            if count:
                self.queues[channel].append((made, count))
        super().fire(actor)
