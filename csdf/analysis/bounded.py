"""Capacities and limits on auto-concurrency, written as channels of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from csdf.errors import InvalidGraph
from csdf.model.graph import Channel, Graph, require_graph
from csdf.model.space import with_space_channels
from csdf.names import free_name

SPACE = " (space)"  # what the name of a reverse channel adds to the name of its channel


def bound_channels(graph: Graph, *, with_self_loops: bool = False) -> Graph:
    """Return the graph with each capacity as a reverse channel, and no capacities.

    The reverse channel of `c` is named "c (space)". Self-loops stay unbounded unless
    `with_self_loops`: one that holds a single token would need a capacity of two, because space and
    token overlap.
    """
    require_graph(graph)
    if all(channel.capacity is None and channel.release is None for channel in graph.channels):
        return graph
    bounded = {
        channel.name
        for channel in graph.channels
        if channel.capacity is not None and (with_self_loops or not channel.is_self_loop)
    }
    free = replace(
        graph,
        channels=tuple(
            channel if channel.name in bounded else replace(channel, capacity=None)
            for channel in graph.channels
        ),
    )
    return with_space_channels(free, bounded, suffix=SPACE)


def with_capacities(graph: Graph, capacities: Mapping[str, int]) -> Graph:
    """Return the graph with the given channels bounded; the others keep what they had.

    Raises InvalidGraph for an unknown channel, or a capacity below the initial tokens.
    """
    require_graph(graph)
    for name in capacities:
        graph.channel(name)
    channels = tuple(
        replace(channel, capacity=capacities.get(channel.name, channel.capacity))
        for channel in graph.channels
    )
    return replace(graph, channels=channels)


def limit_concurrency(graph: Graph, limits: Mapping[str, int]) -> Graph:
    """Return the graph in which each named actor has at most so many firings at once.

    A limit is a self-loop with that many tokens, of which each firing holds one; it is named
    "<actor> (limit)", numbered where that is taken. Raises InvalidGraph for an unknown actor or a
    limit below one.
    """
    require_graph(graph)
    taken = {channel.name for channel in graph.channels}
    loops = []
    for name, limit in limits.items():
        phases = len(graph.actor(name).durations)
        if limit < 1:
            raise InvalidGraph(f"actor {name!r}: a limit of {limit} firings at once; at least 1")
        ones = (1,) * phases
        loops.append(
            Channel(
                name=free_name(f"{name} (limit)", taken, between="_"),
                producer=name,
                consumer=name,
                production=ones,
                consumption=ones,
                initial_tokens=limit,
            )
        )
    return replace(graph, channels=graph.channels + tuple(loops))
