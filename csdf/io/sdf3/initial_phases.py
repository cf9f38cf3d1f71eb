"""Initial phases in an SDF3 file, as Kiter writes them: `INITIAL;CYCLE` in lists of rates and times.

Initial phases are executed once, before the cyclic phases of an actor. A graph with initial phases is
replaced by the graph in the state after them: its tokens and first phases are the state when every
actor has completed its initial phases. Both have the same long-run behaviour, so period and deadlocks
are equal; the time of the initial phases is not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from csdf.errors import GaveUp, InvalidGraph, StuckStart
from csdf.io import sequences
from csdf.io.sdf3.actors import ActorPort, ActorText, port_elements
from csdf.io.sdf3.document import Sdf3Document
from csdf.model.exact import MalformedText
from csdf.model.graph import Actor, Graph, SpaceName, with_space_channels
from csdf.model.indexed import indexed
from csdf.model.untimed import UntimedRun

MOST_FIRINGS = 2_000_000
REMARK = " initial phases (before ';'); the graph is what they leave behind"

End = tuple[ActorText, ActorPort]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialRates:
    """Tokens that the initial phases of both ends of a channel move, one entry for each phase."""

    production: tuple[int, ...] = ()
    consumption: tuple[int, ...] = ()


def without_initial_phases(
    document: Sdf3Document, graph: Graph, ends: Mapping[str, tuple[End, End]]
) -> Graph:
    """Return the graph of a file in the state after the initial phases that its ports state.

    ends: for each channel, its ends at its producer and its consumer. A graph without initial phases
    is returned unchanged; for another graph the caller prints REMARK. Raises UnreadableFile for phases
    that `after_start` refuses, StuckStart, and GaveUp beyond 2,000,000 firings.
    """
    initial = {
        name: InitialRates(
            production=_rates(document, *source), consumption=_rates(document, *destination)
        )
        for name, (source, destination) in ends.items()
        if source[1].initial or destination[1].initial
    }
    if not initial:
        return graph
    try:
        return after_start(graph, initial)
    except StuckStart as error:
        raise StuckStart(error.circle, f"{document.name}: ") from None
    except InvalidGraph as error:
        raise document.refusal(document.structure, str(error)) from None


def _rates(document: Sdf3Document, actor: ActorText, port: ActorPort) -> tuple[int, ...]:
    """The tokens that each initial phase of an actor moves through a port."""
    if not port.initial:
        return ()
    try:
        return sequences.parse_rates(port.initial, sequences.sequence_length(port.initial))
    except MalformedText as error:
        where = f"actor {actor.name!r}, {port.label}"
        element = port_elements(actor.element)[port.name]
        raise document.refusal(element, f"{where}: initial rate {error}") from None


def after_start(graph: Graph, initial: Mapping[str, InitialRates]) -> Graph:
    """Return the graph in the state after the initial phases of all actors.

    initial: by channel; actors of other channels have no initial phases. All entries of an actor have
    equal lengths. Actors fire only on demand; the order of firings does not matter in the long run.
    An initial phase releases the space of the tokens that it consumes.

    Raises InvalidGraph for entries of different lengths, and for a channel whose consumer ends in the
    middle of a window, with space that it has not released yet; StuckStart if a deadlock occurs before
    every actor has completed its initial phases; GaveUp beyond 2,000,000 firings.
    """
    counts = _initial_phases(graph, initial)
    run = _StartingRun(graph, initial, counts)
    run.complete()
    offsets = run.offsets()
    for channel in graph.channels:
        offset = offsets[channel.consumer]
        if sum(channel.release_rates[:offset]) != sum(channel.consumption[:offset]):
            raise InvalidGraph(
                f"channel {channel.name!r}: after the initial phases actor {channel.consumer!r} has "
                "not released the space of all tokens that it consumed; write the space as a "
                "reverse channel"
            )
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
                initial_tokens=run.tokens(channel.name),
            )
            for channel in graph.channels
        ),
        origin=None,
    )


def _initial_phases(graph: Graph, initial: Mapping[str, InitialRates]) -> dict[str, int]:
    """Return the number of initial phases of each actor with a channel."""
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


class _StartingRun:
    """An untimed simulation of the initial phases."""

    def __init__(
        self, graph: Graph, initial: Mapping[str, InitialRates], counts: Mapping[str, int]
    ) -> None:
        numbers = indexed(_with_initial_phases_in_cycle(graph, initial, counts))
        self._names = numbers.actor_names
        self._number = {name: number for number, name in enumerate(numbers.channel_names)}
        # For each actor, its number of initial phases: the index of the first phase of its cycle.
        self._begins = [counts.get(name, 0) for name in self._names]
        self._order = [self._names.index(name) for name in counts]
        self._firings = 0
        self._run = UntimedRun(numbers, maximum=self._begins, returns=self._begins)

    def complete(self) -> None:
        """Fire until every actor has begun its cycles."""
        for actor in self._order:
            while self._run.firings[actor] < self._begins[actor]:
                self._fire_on_demand(actor)

    def offsets(self) -> dict[str, int]:
        """Return the next phase of each actor in its cycle."""
        phases = zip(self._run.phase, self._begins, strict=True)
        offsets = [phase - begin for phase, begin in phases]
        return dict(zip(self._names, offsets, strict=True))

    def tokens(self, channel: str) -> int:
        """Return the tokens of a channel."""
        return self._run.tokens[self._number[channel]]

    def _fire_on_demand(self, target: int) -> None:
        """Fire the actor once, after the necessary firings of the actors that it waits for."""
        run = self._run
        waiting = [target]
        while waiting:
            channel = run.lacking(waiting[-1])
            if channel is None:
                run.fire(waiting.pop())
                self._firings += 1
                if self._firings > MOST_FIRINGS:
                    raise GaveUp(f"the initial phases take more than {MOST_FIRINGS} firings")
            elif run.graph.producer[channel] in waiting:
                circle = waiting[waiting.index(run.graph.producer[channel]) :]
                raise StuckStart("; ".join(map(self._why, circle)))
            else:
                waiting.append(run.graph.producer[channel])

    def _why(self, actor: int) -> str:
        channel = self._run.lacking(actor)
        if channel is None:
            raise AssertionError("an actor that waits lacks a token")
        producer = self._names[self._run.graph.producer[channel]]
        name = self._run.graph.channel_names[channel]
        # Of the space of a bounded channel, the message shows the channel and its tokens.
        shown = name.channel if isinstance(name, SpaceName) else name
        return f"{self._names[actor]} waits for {producer} on {shown}, which holds {self.tokens(shown)}"


def _with_initial_phases_in_cycle(
    graph: Graph, initial: Mapping[str, InitialRates], counts: Mapping[str, int]
) -> Graph:
    """Return the graph whose actors have their initial phases before the phases of the cycle.

    The spaces of bounded channels become channels.
    """
    actors = tuple(
        Actor(name=actor.name, durations=(0,) * counts.get(actor.name, 0) + actor.durations)
        for actor in graph.actors
    )
    channels = []
    for channel in graph.channels:
        rates = initial.get(channel.name, InitialRates())
        extended = replace(
            channel,
            production=rates.production + channel.production,
            consumption=rates.consumption + channel.consumption,
            release=rates.consumption + channel.release_rates,
        )
        channels.append(extended)
    extended_graph = replace(graph, actors=actors, channels=tuple(channels), origin=None)
    bounded = {channel.name for channel in channels if not channel.is_self_loop}
    return with_space_channels(extended_graph, bounded, suffix=" (space)")


def _turned(rates: tuple[int, ...], offset: int) -> tuple[int, ...]:
    return rates[offset:] + rates[:offset]


def _turned_actor(actor: Actor, offset: int) -> Actor:
    processors = tuple(
        replace(processor, durations=_turned(processor.durations, offset))
        for processor in actor.processors
    )
    return replace(actor, durations=_turned(actor.durations, offset), processors=processors)
