"""Capacities as channels: the free space of a channel flows back from consumer to producer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from csdf.model.graph import Channel, Graph
from csdf.names import free_name


def space_channel(channel: Channel, capacity: int, name: str) -> Channel:
    """Return the reverse channel whose tokens are the free space of a channel of that capacity.

    The producer takes space at its start, the consumer puts it back at its end, at the release rates.
    Source: Stuijk, Geilen, Basten, IEEE Trans. Computers 57(10), 2008, section 3.
    """
    return Channel(
        name=name,
        producer=channel.consumer,
        consumer=channel.producer,
        production=channel.release_rates,
        consumption=channel.production,
        initial_tokens=capacity - channel.initial_tokens,
    )


def with_space_channels(graph: Graph, names: Collection[str], *, suffix: str) -> Graph:
    """Return the graph with each named, bounded channel as a channel and its reverse channel.

    The reverse channel is called after its channel with the suffix, and a number where that is taken.
    Release rates of other channels are dropped: without a capacity they have no effect.
    """
    taken = {channel.name for channel in graph.channels}
    channels: list[Channel] = []
    for channel in graph.channels:
        if channel.name not in names or channel.capacity is None:
            channels.append(replace(channel, release=None))
            continue
        name = free_name(channel.name + suffix, taken, between="_")
        taken.add(name)
        channels.append(replace(channel, capacity=None, release=None))
        channels.append(space_channel(channel, channel.capacity, name))
    return replace(graph, channels=tuple(channels))
