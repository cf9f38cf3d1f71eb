"""From a graph to a program: a schedule of one processor as loops, and its buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from csdf.analysis.bounded import SPACE, bound_channels
from csdf.analysis.consistency import cycle_vector, repetition_vector
from csdf.analysis.liveness import Deadlock, deadlock
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph
from csdf.stopping import Budget, Stop, stop_of
from planners.code.graph.looped import (
    ORDERS,
    Effects,
    Interleaved,
    Node,
    Ports,
    effects,
    in_words,
    leaves,
)
from planners.code.graph.nesting import Link, Nesting
from planners.code.graph.storage import Ring, arena_bytes, rings_of
from planners.code.graph.turns import downstream_first, firing_order, short_loops

MOST_SHORT = 200_000  # firings up to which the order by demand is tried beside nested loops


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGraph:
    """A graph with a schedule for one processor and the buffers that this takes.

    order: how the schedule was found: `nested` loops, or by `demand`, where an actor fires when the
    ones that it feeds cannot.
    """

    graph: Graph
    schedule: Node
    rings: tuple[Ring, ...]
    order: str

    @property
    def arena_bytes(self) -> int:
        """Bytes of all buffers together."""
        return arena_bytes(self.rings)

    @property
    def is_static(self) -> bool:
        """Whether the order is fixed by loops alone, and nothing is decided at run time."""
        return all(
            not isinstance(one, Interleaved) or one.written is not None
            for one in leaves(self.schedule)
        )

    @property
    def firings(self) -> int:
        """Firings of one iteration."""
        return sum(repetition_vector(self.graph).values())

    def to_json(self) -> dict[str, Any]:
        """Return the schedule and its buffers as a JSON value."""
        return {
            "graph": self.graph.name,
            "firings": self.firings,
            "order": self.order,
            "is_static": self.is_static,
            "schedule": in_words(self.schedule),
            "arena_bytes": self.arena_bytes,
            "buffer_bytes": sum(ring.size for ring in self.rings),
            "buffers": [
                {
                    "channel": ring.channel,
                    "capacity": ring.capacity,
                    "token_bytes": ring.token_bytes,
                    "offset": ring.offset,
                }
                for ring in self.rings
            ],
        }


def planned_graph(
    graph: Graph, *, token_bytes: int = 4, order: str = "least", budget: Budget = None
) -> PlannedGraph | Deadlock:
    """Return a schedule of one iteration on one processor, with its buffers; or why there is none.

    Capacities of the graph are kept; a channel without one gets what the schedule needs.
    token_bytes: of tokens whose size the graph does not say. order: `nested`, `demand`, or `least`
    for the one with fewer bytes, a fixed order before one that is decided at run time. budget: a
    stop, or seconds, after which GaveUp is raised.

    Raises InconsistentGraph, and GaveUp where too many firings would have to be looked at.
    """
    if order not in ORDERS:
        raise CsdfError(f"order {order!r}; expected one of {', '.join(ORDERS)}")
    stop = stop_of(budget)
    blocked = deadlock(graph, budget=stop)
    if blocked is not None:
        return blocked
    planning = _Planning(graph, token_bytes, stop)
    ways = []
    firings = sum(repetition_vector(graph).values())
    if order != "demand":
        ways.append(planning.way("nested"))
    if order == "demand" or (order == "least" and firings <= MOST_SHORT):
        ways.append(planning.way("demand"))
    return min(ways, key=lambda way: (not way.is_static, way.arena_bytes))


class _Planning:
    def __init__(self, graph: Graph, token_bytes: int, stop: Stop) -> None:
        self._graph, self._stop = graph, stop
        self._bound = bound_channels(graph)
        self._cycles = cycle_vector(graph)
        self._phases = {actor.name: actor.phases for actor in graph.actors}
        self._ports = Ports(graph)
        self._token_bytes = {
            channel.name: token_bytes if channel.token_size is None else channel.token_size
            for channel in graph.channels
        }
        self._orders: dict[Interleaved, Sequence[str]] = {}

    def way(self, order: str) -> PlannedGraph:
        if order == "nested":
            nesting = Nesting(self._links(), self._phases, self._turns)
            schedule = nesting.schedule(self._cycles)
        else:
            schedule = self._turns(tuple(self._cycles), self._cycles)
        found = effects(schedule, self._ports, self._orders)
        self._require(found)
        rings = rings_of(self._graph, schedule, found, self._token_bytes)
        return PlannedGraph(graph=self._graph, schedule=schedule, rings=rings, order=order)

    def _links(self) -> list[Link]:
        """Return what passes between actors, space included; tokens weigh where they take room."""
        weights = {
            channel.name: self._token_bytes[channel.name]
            for channel in self._graph.channels
            if channel.capacity is None
        }
        return [
            Link(
                channel.producer,
                channel.consumer,
                sum(channel.production),
                sum(channel.consumption),
                channel.initial_tokens,
                weights.get(channel.name, 0),
            )
            for channel in self._bound.channels
        ]

    def _turns(self, names: Sequence[str], cycles: Mapping[str, int]) -> Node:
        """A piece in which some actors take turns."""
        members = set(names)
        channels = tuple(
            replace(channel, release=None)
            for channel in self._bound.channels
            if {channel.producer, channel.consumer} <= members
        )
        part = replace(
            self._graph,
            actors=tuple(actor for actor in self._graph.actors if actor.name in members),
            channels=channels,
            origin=None,
        )
        feeds: dict[str, list[str]] = {name: [] for name in names}
        for channel in channels:
            if not channel.name.endswith(SPACE):
                feeds[channel.producer].append(channel.consumer)
        order = downstream_first(feeds)
        counts = tuple(cycles[name] * self._phases[name] for name in order)
        firings = firing_order(part, order, counts, self._stop)
        piece = Interleaved(order, counts, short_loops(firings))
        self._orders[piece] = firings
        return piece

    def _require(self, found: Effects) -> None:
        """Raise GaveUp where a schedule breaks a rule of the graph, which is a fault of the search."""
        for channel in self._graph.channels:
            effect = found[channel.name]
            if effect.change or channel.initial_tokens + effect.lowest < 0:
                raise GaveUp(f"the schedule found takes tokens from {channel.name!r} too early")
            limit = None if channel.is_self_loop else channel.capacity
            if limit is not None and channel.initial_tokens + effect.highest > limit:
                raise GaveUp(f"the schedule found puts too many tokens into {channel.name!r}")
