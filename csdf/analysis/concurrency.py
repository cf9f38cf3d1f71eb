"""Auto-concurrency: actors of which several firings may go on at once, and how to forbid it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from csdf.analysis.bounded import limit_concurrency
from csdf.errors import counted
from csdf.model.graph import Channel, Graph, require_graph

SHOWN = 6  # most actors that are named in one sentence


def without_auto_concurrency(graph: Graph, limits: Mapping[str, int] | None = None) -> Graph:
    """Return the graph in which one firing of an actor at a time goes on.

    Each actor without such a self-loop gets one with one token, called "<actor> (limit)".
    limits: actors of which so many firings may go on at once instead. Raises InvalidGraph for an
    unknown actor or a limit below one.
    """
    require_graph(graph)
    limits = limits or {}
    single = {one.producer for one in graph.channels if is_single_firing_loop(one)}
    ones = {actor.name: 1 for actor in graph.actors if actor.name not in single | limits.keys()}
    return limit_concurrency(graph, {**limits, **ones})


def is_single_firing_loop(channel: Channel) -> bool:
    """Whether the channel is a self-loop of one token that every firing takes and returns."""
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
    """Return the actor whose firings overlap most: one at a time they take longer than the period.

    Only actors without a self-loop are looked at. None where one firing of each at a time might do.
    """
    work = {
        name: Fraction(repetitions[name], len(durations)) * sum(durations) * graph.time_unit
        for name, durations in (
            (one, graph.actor(one).durations) for one in unlimited_actors(graph)
        )
    }
    longest = max(work, key=lambda name: work[name], default=None)
    return longest if longest is not None and work[longest] > period else None
