"""Random graphs that are consistent by construction and live by repair."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from random import Random
from typing import NamedTuple

from csdf.analysis.bounded import SPACE, limit_concurrency
from csdf.analysis.liveness import Blocked, deadlock
from csdf.generation.shape import GraphShape
from csdf.model.graph import Actor, Channel, Graph

DEFAULT_SHAPE = GraphShape()


class _DrawnActor(NamedTuple):
    actor: Actor
    cycles: int  # phase cycles in one iteration


def random_graph(seed: int, shape: GraphShape = DEFAULT_SHAPE) -> Graph:
    """Return a random graph of that shape: connected, consistent and live.

    The same seed and shape give the same graph everywhere. The repetitions are drawn first, and
    rates that balance them next; then tokens and space are added, one blocking cycle after the
    other, until the graph is live, so a graph without early tokens has few to spare.
    """
    random = Random(seed)
    actors = [_drawn_actor(random, shape, number) for number in range(shape.actors)]
    channels = [
        _drawn_channel(random, shape, f"c{number}", actors[producer], actors[consumer])
        for number, (producer, consumer) in enumerate(_drawn_ends(random, shape))
    ]
    graph = Graph(
        name=f"random_{seed}",
        actors=tuple(drawn.actor for drawn in actors),
        channels=tuple(channels),
    )
    if shape.has_self_loops:
        limits = {a.name: _drawn(random, 1, shape.most_concurrency) for a in graph.actors}
        graph = limit_concurrency(graph, limits)
    return made_live(random, graph)


def _drawn(random: Random, least: int, most: int) -> int:
    """An integer from `least` to `most`, both included."""
    return random.randrange(least, most + 1)


def _drawn_actor(random: Random, shape: GraphShape, number: int) -> _DrawnActor:
    phases = _drawn(random, 1, shape.most_phases)
    durations = tuple(
        _drawn(random, shape.least_duration, shape.most_duration) for _ in range(phases)
    )
    cycles = _drawn(random, 1, shape.most_repetitions // phases)
    return _DrawnActor(Actor(name=f"a{number}", durations=durations), cycles)


def _drawn_ends(random: Random, shape: GraphShape) -> list[tuple[int, int]]:
    """Producer and consumer of each channel: what connects the actors, then the extra ones."""
    order = list(range(shape.actors))
    random.shuffle(order)
    if shape.is_strongly_connected:
        following = order[1:] + order[:1]
        ends = [pair for pair in zip(order, following, strict=True) if pair[0] != pair[1]]
    else:
        ends = []
        for place in range(1, shape.actors):
            pair = (order[_drawn(random, 0, place - 1)], order[place])
            ends.append(pair if random.randrange(2) else pair[::-1])
    for _ in range(shape.extra_channels if shape.actors > 1 else 0):
        producer = random.randrange(shape.actors)
        consumer = (producer + _drawn(random, 1, shape.actors - 1)) % shape.actors
        is_first = (producer, consumer) not in ends and (consumer, producer) not in ends
        if is_first or shape.has_parallel_channels:
            ends.append((producer, consumer))
    return ends


def _drawn_channel(
    random: Random, shape: GraphShape, name: str, producer: _DrawnActor, consumer: _DrawnActor
) -> Channel:
    """A channel whose rates balance the cycles of its actors."""
    shared = gcd(producer.cycles, consumer.cycles)
    made, taken = consumer.cycles // shared, producer.cycles // shared
    room = min(
        shape.most_rate * producer.actor.phases // made,
        shape.most_rate * consumer.actor.phases // taken,
    )
    multiple = _drawn(random, 1, room)
    production = _split(random, multiple * made, producer.actor.phases, shape.most_rate)
    consumption = _split(random, multiple * taken, consumer.actor.phases, shape.most_rate)
    channel = Channel(
        name=name,
        producer=producer.actor.name,
        consumer=consumer.actor.name,
        production=production,
        consumption=consumption,
        initial_tokens=_drawn(random, 0, shape.most_early_tokens),
    )
    return _bounded(random, shape, channel) if shape.is_bounded else channel


def _split(random: Random, total: int, phases: int, most: int) -> tuple[int, ...]:
    """Rates of that many phases, none above `most`, with that sum."""
    rates = []
    for phase in range(phases):
        later = phases - phase - 1
        rates.append(_drawn(random, max(0, total - later * most), min(most, total)))
        total -= rates[-1]
    random.shuffle(rates)
    return tuple(rates)


def _bounded(random: Random, shape: GraphShape, channel: Channel) -> Channel:
    """The channel with a capacity that holds the tokens of any single firing."""
    least = max(channel.initial_tokens, *channel.production, *channel.consumption)
    capacity = least + _drawn(random, 0, shape.most_early_tokens)
    release = _late(random, channel.consumption) if shape.has_windows else None
    return replace(channel, capacity=capacity, release=release)


def _late(random: Random, consumption: tuple[int, ...]) -> tuple[int, ...]:
    """Release rates that are never ahead of the consumption."""
    release = []
    kept = 0
    for taken in consumption[:-1]:
        kept += taken
        release.append(_drawn(random, 0, kept))
        kept -= release[-1]
    return (*release, kept + consumption[-1])


def made_live(random: Random, graph: Graph) -> Graph:
    """Add to one channel of a blocking cycle what its consumer lacks, until nothing blocks.

    It ends, because a channel with the tokens or the space of a whole iteration never blocks.
    """
    while (found := deadlock(graph)) is not None:
        channels = {channel.name: channel for channel in graph.channels}
        blocked = found.cycle[random.randrange(len(found.cycle))]
        name = blocked.channel.removesuffix(SPACE)
        channels[name] = _relieved(channels[name], blocked)
        graph = replace(graph, channels=tuple(channels.values()))
    return graph


def _relieved(channel: Channel, blocked: Blocked) -> Channel:
    missing = blocked.needed - blocked.tokens
    capacity = None if channel.capacity is None else channel.capacity + missing
    if blocked.channel != channel.name:
        return replace(channel, capacity=capacity)
    return replace(channel, capacity=capacity, initial_tokens=channel.initial_tokens + missing)
