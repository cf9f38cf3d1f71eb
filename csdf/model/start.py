"""Initial phases: what actors do once, before their cycles begin.

A graph whose actors have initial phases becomes a graph without: the one that is left when every actor
has done with them. Its first phases and tokens are those that the start leaves behind. What happens in
the long run is the same, so its period is that of the given graph, and so is whether it stops for ever;
what the start itself takes is not in it any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from csdf.errors import GaveUp, InvalidGraph, StuckStart
from csdf.model.graph import Actor, Channel, Graph

MOST_FIRINGS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialRates:
    """Tokens that the initial phases of both ends of a channel move, one entry for each phase."""

    production: tuple[int, ...] = ()
    consumption: tuple[int, ...] = ()


def after_start(graph: Graph, initial: Mapping[str, InitialRates]) -> Graph:
    """Return the graph that is left when all actors have done with their initial phases.

    initial: of channels, by name; the actors of the others have no initial phases. All entries of
    one actor are equally long. Firings go on as others need them, never further; which comes first
    makes no difference to what is left in the long run.
    Raises InvalidGraph for entries of different lengths, StuckStart where actors wait for one another
    so that some never come to their cycles.
    """
    counts = _initial_phases(graph, initial)
    run = _Start(graph, initial, counts)
    for name, count in counts.items():
        while run.fired[name] < count:
            run.fire_on_demand(name)
    offsets = {
        actor.name: (run.fired[actor.name] - counts.get(actor.name, 0)) % actor.phases
        for actor in graph.actors
    }
    return replace(
        graph,
        actors=tuple(_turned_actor(actor, offsets[actor.name]) for actor in graph.actors),
        channels=tuple(
            replace(
                channel,
                production=_turned(channel.production, offsets[channel.producer]),
                consumption=_turned(channel.consumption, offsets[channel.consumer]),
                release=None
                if channel.release is None
                else _turned(channel.release, offsets[channel.consumer]),
                initial_tokens=run.tokens[channel.name],
            )
            for channel in graph.channels
        ),
        origin=None,
    )


def _initial_phases(graph: Graph, initial: Mapping[str, InitialRates]) -> dict[str, int]:
    """How many initial phases each actor with a channel has."""
    counts: dict[str, int] = {}
    for channel in graph.channels:
        rates = initial.get(channel.name, InitialRates())
        for actor, listed in (
            (channel.producer, rates.production),
            (channel.consumer, rates.consumption),
        ):
            if counts.setdefault(actor, len(listed)) != len(listed):
                raise InvalidGraph(
                    f"actor {actor!r} has {counts[actor]} initial phases on one channel, "
                    f"but {len(listed)} on channel {channel.name!r}"
                )
    return counts


class _Start:
    """The firings of the start, counted in tokens only."""

    def __init__(
        self, graph: Graph, initial: Mapping[str, InitialRates], counts: Mapping[str, int]
    ) -> None:
        self.fired = {actor.name: 0 for actor in graph.actors}
        self.tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
        self._firings = 0
        self._initial = initial
        self._counts = counts
        self._inputs: dict[str, list[Channel]] = {name: [] for name in self.fired}
        self._outputs: dict[str, list[Channel]] = {name: [] for name in self.fired}
        for channel in graph.channels:
            self._outputs[channel.producer].append(channel)
            self._inputs[channel.consumer].append(channel)

    def fire_on_demand(self, name: str) -> None:
        """Fire the actor once, and before it those that it waits for, as often as it takes."""
        waiting = [name]
        while waiting:
            actor = waiting[-1]
            blocked = self._lacking(actor)
            if blocked is None:
                self._fire(actor)
                waiting.pop()
            elif blocked[0] in waiting:
                circle = waiting[waiting.index(blocked[0]) :]
                raise StuckStart("; ".join(self._why(one) for one in circle))
            else:
                waiting.append(blocked[0])

    def _lacking(self, actor: str) -> tuple[str, str] | None:
        """Whom the actor waits for, and where; None if it can fire."""
        for channel in self._inputs[actor]:
            if self.tokens[channel.name] < self._consumed(channel):
                return channel.producer, channel.name
        for channel in self._outputs[actor]:
            if channel.capacity is None or channel.is_self_loop:
                continue
            if channel.capacity - self.tokens[channel.name] < self._produced(channel):
                return channel.consumer, channel.name
        return None

    def _why(self, actor: str) -> str:
        other, channel = self._lacking(actor) or ("", "")
        return f"{actor} waits for {other} on {channel}, which holds {self.tokens[channel]}"

    def _fire(self, actor: str) -> None:
        moved = [(one.name, -self._consumed(one)) for one in self._inputs[actor]]
        moved += [(one.name, self._produced(one)) for one in self._outputs[actor]]
        for channel, change in moved:
            self.tokens[channel] += change
        self.fired[actor] += 1
        self._firings += 1
        if self._firings > MOST_FIRINGS:
            raise GaveUp(f"the initial phases take more than {MOST_FIRINGS} firings")

    def _consumed(self, channel: Channel) -> int:
        start = self._initial.get(channel.name, InitialRates()).consumption
        return _rate(start, channel.consumption, self.fired[channel.consumer])

    def _produced(self, channel: Channel) -> int:
        start = self._initial.get(channel.name, InitialRates()).production
        return _rate(start, channel.production, self.fired[channel.producer])


def _rate(initial: Sequence[int], cycle: Sequence[int], firing: int) -> int:
    if firing < len(initial):
        return initial[firing]
    return cycle[(firing - len(initial)) % len(cycle)]


def _turned(rates: tuple[int, ...], offset: int) -> tuple[int, ...]:
    return rates[offset:] + rates[:offset]


def _turned_actor(actor: Actor, offset: int) -> Actor:
    processors = tuple(
        replace(one, durations=_turned(one.durations, offset)) for one in actor.processors
    )
    return replace(actor, durations=_turned(actor.durations, offset), processors=processors)
