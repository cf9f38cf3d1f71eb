"""Capacities and limits on auto-concurrency, written as channels of the graph.

A capacity becomes a reverse channel whose tokens are the free space. A limit on auto-concurrency, the
overlapping firings of an actor, becomes a self-loop with as many tokens as firings may overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from csdf.arguments import public
from csdf.errors import InvalidGraph, counted
from csdf.model.graph import Channel, Graph, self_loop, with_space_channels
from csdf.names import free_name

SPACE = " (space)"  # what the name of a reverse channel adds to the name of its channel


def bound_channels(graph: Graph, *, with_self_loops: bool = False) -> Graph:
    """Return the graph with each capacity as a reverse channel, and no capacities.

    The reverse channel of `c` is named "c (space)". Self-loops stay unbounded unless
    `with_self_loops`: a self-loop with a single token would need a capacity of two, because space and
    token overlap.
    """
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


@public
def with_capacities(graph: Graph, capacities: Mapping[str, int]) -> Graph:
    """Return the graph with these capacities; other channels retain theirs.

    Raises InvalidGraph for an unknown channel, or a capacity below the initial tokens.
    """
    for name in capacities:
        graph.channel(name)
    channels = tuple(
        replace(channel, capacity=capacities.get(channel.name, channel.capacity))
        for channel in graph.channels
    )
    return replace(graph, channels=channels)


@public
def limit_concurrency(graph: Graph, limits: Mapping[str, int]) -> Graph:
    """Return the graph in which each named actor has at most this many firings at once.

    A limit is a self-loop with that many tokens; each firing holds a token. Its name is
    "<actor> (limit)", numbered if that name exists. Raises InvalidGraph for an unknown actor or a
    limit below 1.
    """
    used_names = {channel.name for channel in graph.channels}
    loops = []
    for name, limit in limits.items():
        actor = graph.actor(name)
        if limit < 1:
            raise InvalidGraph(f"actor {name!r}: a limit of {limit} firings at once; at least 1")
        loops.append(self_loop(actor, limit, free_name(f"{name} (limit)", used_names, between="_")))
    return replace(graph, channels=graph.channels + tuple(loops))


SHOWN = 6  # most actors that are named in one sentence


@public
def without_auto_concurrency(graph: Graph, limits: Mapping[str, int] | None = None) -> Graph:
    """Return the graph in which firings of the same actor do not overlap.

    Each actor without such a limit gets a self-loop with one token, named "<actor> (limit)".
    limits: actors with another limit of overlapping firings. Raises InvalidGraph for an
    unknown actor or a limit below one.
    """
    limits = limits or {}
    single = {channel.producer for channel in graph.channels if is_single_firing_loop(channel)}
    ones = {actor.name: 1 for actor in graph.actors if actor.name not in single | limits.keys()}
    return limit_concurrency(graph, {**limits, **ones})


def is_single_firing_loop(channel: Channel) -> bool:
    """Whether the channel is a self-loop of one token that every firing consumes and produces."""
    rates = {*channel.production, *channel.consumption}
    return channel.is_self_loop and channel.initial_tokens == 1 and rates == {1}


def unlimited_actors(graph: Graph) -> tuple[str, ...]:
    """Return the actors that take time and have no self-loop: their firings overlap freely."""
    looped = {channel.producer for channel in graph.channels if channel.is_self_loop}
    return tuple(
        actor.name for actor in graph.actors if any(actor.durations) and actor.name not in looped
    )


def why_unlimited(graph: Graph) -> str:
    """Return in words why nothing limits a graph of period 0."""
    free = unlimited_actors(graph)
    if not free:
        return "no actor takes time on a cycle"
    named = ", ".join(free[:SHOWN])
    more = f" and {len(free) - SHOWN} more" if len(free) > SHOWN else ""
    return (
        f"any number of firings of one actor may overlap: "
        f"{counted(len(free), 'actor')} without a self-loop ({named}{more})"
    )


def overlapping_actor(graph: Graph, repetitions: Mapping[str, int], period: Fraction) -> str | None:
    """Return the actor whose firings overlap most: in sequence they take longer than the period.

    Only actors without a self-loop count. None if the period allows firings of each in sequence.
    """
    work = {
        name: Fraction(repetitions[name], len(durations)) * sum(durations) * graph.time_unit
        for name, durations in (
            (actor, graph.actor(actor).durations) for actor in unlimited_actors(graph)
        )
    }
    longest = max(work, key=lambda name: work[name], default=None)
    return longest if longest is not None and work[longest] > period else None
