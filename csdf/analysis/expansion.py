"""Graphs made from graphs: HSDF expansion, unfolding, merging of parallel channels."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import gcd

from csdf.analysis.bound_channels import bound_channels, is_single_firing_loop
from csdf.analysis.consistency import repetition_vector
from csdf.arguments import Positive, public
from csdf.errors import CsdfError
from csdf.model.graph import Actor, Channel, Graph

EXPANSION_LIMIT = 2_000_000  # most firings that are written out as actors


@public
def hsdf(graph: Graph) -> Graph:
    """Return the graph with one actor for each firing of an iteration, and all rates one.

    Actor `a` becomes `a#0`, `a#1`, ...; capacities become channels first. The expansion preserves
    the period. Where the phases of an actor may overlap, each firing is preceded by `a#i.start`, an
    actor without duration that keeps the starts in order. An actor that fires one at a time has a
    self-loop with one token, which orders its firings already.
    Raises InconsistentGraph; CsdfError beyond two million firings.
    Source: Lee, Messerschmitt, IEEE Trans. Computers C-36(1), 1987; for CSDF Bilsen et al. 1996.
    """
    repetitions = repetition_vector(graph)
    if sum(repetitions.values()) > EXPANSION_LIMIT:
        raise CsdfError(
            f"{sum(repetitions.values())} firings per iteration; at most {EXPANSION_LIMIT}"
        )
    bounded = bound_channels(graph)
    builder = _Expansion(bounded, repetitions)
    for actor in bounded.actors:
        builder.add_firings(actor)
    for channel in bounded.channels:
        builder.add_dependencies(channel)
    return Graph(
        name=f"{graph.name} (HSDF)",
        actors=tuple(builder.actors),
        channels=tuple(builder.channels),
        time_unit=graph.time_unit,
        throughput_constraint=graph.throughput_constraint,
    )


class _Expansion:
    """The HSDF graph while it is being built."""

    def __init__(self, graph: Graph, repetitions: dict[str, int]) -> None:
        self.repetitions = repetitions
        self.actors: list[Actor] = []
        self.channels: list[Channel] = []
        self._one_at_a_time = {
            channel.producer for channel in graph.channels if is_single_firing_loop(channel)
        }
        self._graph = graph

    def _is_split(self, actor: Actor) -> bool:
        """Whether a firing of the actor is preceded by a start actor."""
        return actor.phases > 1 and actor.name not in self._one_at_a_time

    def _entry(self, actor: Actor, firing: int) -> str:
        """The actor that waits for the inputs of a firing."""
        return f"{actor.name}#{firing}" + (".start" if self._is_split(actor) else "")

    def add_firings(self, actor: Actor) -> None:
        count = self.repetitions[actor.name]
        for firing in range(count):
            duration = actor.durations[firing % actor.phases]
            self.actors.append(Actor(name=f"{actor.name}#{firing}", durations=(duration,)))
            if self._is_split(actor):
                entry = self._entry(actor, firing)
                self.actors.append(Actor(name=entry, durations=(0,)))
                self._add(entry, f"{actor.name}#{firing}", 0)
                follower = (firing + 1) % count
                self._add(entry, self._entry(actor, follower), int(follower == 0))

    def add_dependencies(self, channel: Channel) -> None:
        """Add a channel for each firing that consumes, from the last firing whose token it needs."""
        count = self.repetitions[channel.producer]
        is_single = channel.producer in self._one_at_a_time
        sources = awaited_firings(
            self._graph.actor(channel.producer),
            channel,
            self.repetitions[channel.consumer],
            is_single=is_single,
        )
        for firing, source in sources:
            # A source in an earlier iteration is negative: -1 is the last firing of the iteration
            # before. Each iteration back is a token on the channel.
            distance, index = divmod(source, count)
            entry = self._entry(self._graph.actor(channel.consumer), firing)
            self._add(f"{channel.producer}#{index}", entry, -distance)

    def _add(self, producer: str, consumer: str, tokens: int) -> None:
        self.channels.append(
            Channel(
                name=f"d{len(self.channels)}",
                producer=producer,
                consumer=consumer,
                production=(1,),
                consumption=(1,),
                initial_tokens=tokens,
            )
        )


def needed_firings(channel: Channel, firings: int) -> Iterator[tuple[int, int]]:
    """Yield (firing, last firing of the producer that it needs) for firings that consume tokens.

    firings: the consumer's firings 0 to `firings` - 1. Firings of both actors are counted from the
    begin of the iteration; firings of earlier iterations are negative.
    """
    produced = list(accumulate(channel.production))
    consumed = list(accumulate(channel.consumption))
    for firing in range(firings):
        cycles, phase = divmod(firing, len(consumed))
        if channel.consumption[phase]:
            needed = cycles * consumed[-1] + consumed[phase] - channel.initial_tokens
            whole, remainder = divmod(needed - 1, produced[-1])
            yield firing, whole * len(produced) + bisect_right(produced, remainder)


def awaited_firings(
    producer: Actor, channel: Channel, firings: int, *, is_single: bool
) -> Iterator[tuple[int, int]]:
    """Yield (firing, firing of the producer that must have ended) for firings that consume tokens.

    Tokens are consumed in the order of the firings that produced them, so a consumer also waits for
    all firings before the last that `needed_firings` yields. Where these may overlap and differ in
    time, an earlier firing may end later, and is yielded too. One cycle back suffices: starts are in
    order, so the same phase of an earlier cycle, with the same duration, ends no later.
    is_single: whether the producer fires one at a time.
    """
    phases = producer.phases
    reach = 1 if is_single or len(set(producer.durations)) == 1 else phases
    for firing, last in needed_firings(channel, firings):
        for source in range(last, last - reach, -1):
            if channel.production[source % phases]:
                yield firing, source


@public
def unfold(graph: Graph, factor: Positive) -> Graph:
    """Return the graph whose every cycle is `factor` cycles of the given one.

    One of its iterations is `factor` of the given graph's; tokens and capacities stay.
    """
    actors = tuple(
        replace(
            actor,
            durations=actor.durations * factor,
            processors=tuple(
                replace(processor, durations=processor.durations * factor)
                for processor in actor.processors
            ),
        )
        for actor in graph.actors
    )
    channels = tuple(
        replace(
            channel,
            production=channel.production * factor,
            consumption=channel.consumption * factor,
            release=None if channel.release is None else channel.release * factor,
        )
        for channel in graph.channels
    )
    return replace(graph, actors=actors, channels=channels, origin=None)


@public
def merge_parallel_channels(graph: Graph) -> Graph:
    """Return the graph without channels that never delay a firing because of a parallel channel.

    Of unbounded channels with the same ends and proportional rates, only the channel with the fewest
    tokens per unit of its rates can delay a firing. The start times of all actors are preserved. The
    graph keeps its document (`origin`), in which a writer only removes the channels.
    """
    tightest: dict[tuple[object, ...], tuple[int, str]] = {}
    for channel in graph.channels:
        key, tokens = _proportions(channel)
        if key not in tightest or tokens < tightest[key][0]:
            tightest[key] = (tokens, channel.name)
    kept_names = {name for _, name in tightest.values()}
    channels = tuple(channel for channel in graph.channels if channel.name in kept_names)
    return replace(graph, channels=channels)


def _proportions(channel: Channel) -> tuple[tuple[object, ...], int]:
    """Return what two interchangeable channels share, and the tokens in units of their common rate."""
    if channel.capacity is not None:
        return (channel.name,), 0
    unit = gcd(*channel.production, *channel.consumption)
    production = tuple(rate // unit for rate in channel.production)
    consumption = tuple(rate // unit for rate in channel.consumption)
    key = (channel.producer, channel.consumer, production, consumption)
    return key, channel.initial_tokens // unit
