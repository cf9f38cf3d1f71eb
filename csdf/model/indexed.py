"""A graph as flat sequences of numbers: names and numbers meet here only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from csdf.model.graph import Graph


class IndexedGraph(NamedTuple):
    """A graph for kernels. A actors, C channels, in the order of the graph.

    The inputs of actor a are input_channel[input_start[a] : input_start[a + 1]], its outputs
    output_channel[output_start[a] : output_start[a + 1]]. The rates of channel c are
    production[production_start[c] + phase of its producer] and
    consumption[consumption_start[c] + phase of its consumer].
    """

    actor_names: tuple[str, ...]
    channel_names: tuple[str, ...]
    phases: list[int]  # (A,)
    duration_start: list[int]  # (A,)
    duration: list[int]  # time units, one per actor and phase
    producer: list[int]  # (C,)
    consumer: list[int]  # (C,)
    initial_tokens: list[int]  # (C,)
    production_start: list[int]  # (C,)
    production: list[int]
    consumption_start: list[int]  # (C,)
    consumption: list[int]
    input_start: list[int]  # (A + 1,)
    input_channel: list[int]
    output_start: list[int]  # (A + 1,)
    output_channel: list[int]

    def durations(self, actor: int) -> list[int]:
        """Time units of each phase of the actor."""
        start = self.duration_start[actor]
        return self.duration[start : start + self.phases[actor]]

    def productions(self, channel: int) -> list[int]:
        """Tokens of each phase of the producer."""
        start = self.production_start[channel]
        return self.production[start : start + self.phases[self.producer[channel]]]

    def consumptions(self, channel: int) -> list[int]:
        """Tokens of each phase of the consumer."""
        start = self.consumption_start[channel]
        return self.consumption[start : start + self.phases[self.consumer[channel]]]

    def produced(self, channel: int) -> int:
        """Tokens of one cycle of the producer."""
        return sum(self.productions(channel))

    def consumed(self, channel: int) -> int:
        """Tokens of one cycle of the consumer."""
        return sum(self.consumptions(channel))


def indexed(graph: Graph) -> IndexedGraph:
    """Return the graph as numbers. Capacities and releases are left out: see `bound_channels`."""
    number = {actor.name: i for i, actor in enumerate(graph.actors)}
    return _assembled(
        actor_names=[actor.name for actor in graph.actors],
        channel_names=[channel.name for channel in graph.channels],
        durations=[actor.durations for actor in graph.actors],
        producer=[number[channel.producer] for channel in graph.channels],
        consumer=[number[channel.consumer] for channel in graph.channels],
        initial_tokens=[channel.initial_tokens for channel in graph.channels],
        productions=[channel.production for channel in graph.channels],
        consumptions=[channel.consumption for channel in graph.channels],
    )


def part_of(graph: IndexedGraph, actors: Sequence[int], channels: Sequence[int]) -> IndexedGraph:
    """Return the graph of the given actors and of the given channels between them."""
    number = {actor: i for i, actor in enumerate(actors)}
    return _assembled(
        actor_names=[graph.actor_names[a] for a in actors],
        channel_names=[graph.channel_names[c] for c in channels],
        durations=[graph.durations(a) for a in actors],
        producer=[number[graph.producer[c]] for c in channels],
        consumer=[number[graph.consumer[c]] for c in channels],
        initial_tokens=[graph.initial_tokens[c] for c in channels],
        productions=[graph.productions(c) for c in channels],
        consumptions=[graph.consumptions(c) for c in channels],
    )


def is_ordered(graph: IndexedGraph, actor: int, *, has_one_timing: bool = True) -> bool:
    """Whether later firings of the actor never end before earlier ones.

    has_one_timing: False asks whether that holds whatever the durations of its phases are.
    """
    durations = graph.durations(actor)
    if len(durations) == 1 or (has_one_timing and len(set(durations)) == 1):
        return True
    loops = graph.input_channel[graph.input_start[actor] : graph.input_start[actor + 1]]
    return any(is_one_at_a_time(graph, channel) for channel in loops)


def is_one_at_a_time(graph: IndexedGraph, channel: int) -> bool:
    """Whether the channel is a self-loop of one token that every firing takes and returns."""
    actor = graph.producer[channel]
    if actor != graph.consumer[channel] or graph.initial_tokens[channel] != 1:
        return False
    ones = [1] * graph.phases[actor]
    return graph.productions(channel) == graph.consumptions(channel) == ones


def _assembled(
    *,
    actor_names: Sequence[str],
    channel_names: Sequence[str],
    durations: Sequence[Sequence[int]],
    producer: list[int],
    consumer: list[int],
    initial_tokens: list[int],
    productions: Sequence[Sequence[int]],
    consumptions: Sequence[Sequence[int]],
) -> IndexedGraph:
    duration_start, duration = _flat(durations)
    production_start, production = _flat(productions)
    consumption_start, consumption = _flat(consumptions)
    input_start, input_channel = _grouped(consumer, len(actor_names))
    output_start, output_channel = _grouped(producer, len(actor_names))
    return IndexedGraph(
        actor_names=tuple(actor_names),
        channel_names=tuple(channel_names),
        phases=[len(row) for row in durations],
        duration_start=duration_start,
        duration=duration,
        producer=producer,
        consumer=consumer,
        initial_tokens=initial_tokens,
        production_start=production_start,
        production=production,
        consumption_start=consumption_start,
        consumption=consumption,
        input_start=input_start,
        input_channel=input_channel,
        output_start=output_start,
        output_channel=output_channel,
    )


def _flat(rows: Iterable[Sequence[int]]) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    values: list[int] = []
    for row in rows:
        starts.append(len(values))
        values.extend(row)
    return starts, values


def _grouped(owner: Sequence[int], owners: int) -> tuple[list[int], list[int]]:
    """Return the indices of `owner` sorted by owner, and where each owner's begin."""
    members: list[list[int]] = [[] for _ in range(owners)]
    for index, position in enumerate(owner):
        members[position].append(index)
    starts = [0, *accumulate(len(group) for group in members)]
    return starts, [index for group in members for index in group]
