"""The part of a large graph that is drawn: its bottleneck and what surrounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from csdf.model.graph import Channel, Graph

MOST_ACTORS = 320  # that are drawn all
EXCERPT = 120  # actors of a larger graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Actors to draw, in the order of the graph, with the channels among them."""

    actors: tuple[str, ...]
    channels: tuple[Channel, ...]
    is_all: bool


def excerpt(graph: Graph, critical: Sequence[str]) -> Excerpt:
    """Return a small graph as it is; of a large graph, the critical actors and their neighbours."""
    names = [actor.name for actor in graph.actors]
    if len(names) <= MOST_ACTORS and len(graph.channels) <= 4 * MOST_ACTORS:
        return Excerpt(actors=tuple(names), channels=graph.channels, is_all=True)
    chosen = _nearest(graph, critical or names[:1])
    return Excerpt(
        actors=tuple(name for name in names if name in chosen),
        channels=tuple(
            channel for channel in graph.channels if {channel.producer, channel.consumer} <= chosen
        )[: 4 * MOST_ACTORS],
        is_all=False,
    )


def _nearest(graph: Graph, first: Sequence[str]) -> set[str]:
    """Go on from the first actors to their neighbours until there are enough."""
    neighbours: dict[str, list[str]] = {}
    for channel in graph.channels:
        neighbours.setdefault(channel.producer, []).append(channel.consumer)
        neighbours.setdefault(channel.consumer, []).append(channel.producer)
    reached = list(dict.fromkeys(first))[:EXCERPT]
    known = set(reached)
    for name in reached:
        for other in neighbours.get(name, ()):
            if len(reached) >= EXCERPT:
                return known
            if other not in known:
                known.add(other)
                reached.append(other)
    return known
