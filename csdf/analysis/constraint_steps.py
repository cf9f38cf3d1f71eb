"""How far apart the constraints of a periodic schedule are, kept from one schedule to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from csdf.model.indexed import IndexedGraph


class ConstraintSteps:
    """How far apart the constraints of each channel are, for the latest copies.

    tokens: of each channel, the greatest common divisor of what the copies of both ends move;
    height: the same in iterations, times `scale`.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        produced: Sequence[int],
        consumed: Sequence[int],
        scale: int,
        cycles: Sequence[int],
    ) -> None:
        self._graph = graph
        self._moved = list(zip(graph.producer, produced, graph.consumer, consumed, strict=True))
        # One iteration moves cycles * produced tokens and is `scale` units high.
        self._unit = [cycles[one] * count for one, count, _, _ in self._moved]
        self._scale = scale
        self._copies = [0] * len(cycles)
        self.tokens = [0] * len(self._moved)
        self.height = [0] * len(self._moved)

    def adapt(self, copies: Sequence[int]) -> None:
        """Count again where an end has other copies than before."""
        pairs = enumerate(zip(copies, self._copies, strict=True))
        changed = [actor for actor, (count, before) in pairs if count != before]
        self._copies = list(copies)
        for channel in self._channels_at(changed):
            producer, produced, consumer, consumed = self._moved[channel]
            step = gcd(copies[producer] * produced, copies[consumer] * consumed)
            self.tokens[channel] = step
            self.height[channel] = self._scale * step // self._unit[channel]

    def _channels_at(self, actors: Sequence[int]) -> Iterable[int]:
        """The channels that begin or end at one of the actors."""
        graph = self._graph
        if 2 * len(actors) > len(self._copies):
            return range(len(self._moved))
        sides = (
            (graph.input_start, graph.input_channel),
            (graph.output_start, graph.output_channel),
        )
        return {
            channel
            for actor in actors
            for start, listed in sides
            for channel in listed[start[actor] : start[actor + 1]]
        }
