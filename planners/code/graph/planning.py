"""Plan a graph for one processor: a looped schedule and its buffers.

A single appearance schedule consists of nested loops in which each actor appears once. The nesting
is searched for small buffers. Actors on a cycle with too few initial tokens have no such schedule.
They form one part of the schedule, in which their firings interleave; all other actors appear once.
The interleaved firings are simulated, and written as short loops where such loops are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import cycle_vector, repetition_vector
from csdf.analysis.liveness import Deadlock, deadlock
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph, SpaceName
from csdf.status import Reason
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.code.graph.interleaving import downstream_first, firing_order, short_loops
from planners.code.graph.looped import ORDERS, Interleaved, Node, Ports, effects, in_words, leaves
from planners.code.graph.nesting import Nesting, TokenLink
from planners.code.graph.storage import CircularBuffer, arena_bytes, rings_of

MOST_SHORT = 200_000  # firings up to which min-memory also tries the demand-driven order


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGraph:
    """A graph with a schedule for one processor and the buffers of this schedule.

    order: the kind of schedule: `single-appearance` loops, or `demand-driven`, where an actor fires
    only if none of its consumers can. reason: why the search ended before it tried another order.
    """

    graph: Graph
    schedule: Node
    rings: tuple[CircularBuffer, ...]
    order: str
    reason: Reason | None = None

    @property
    def arena_bytes(self) -> int:
        """Size of the arena that holds all buffers, in bytes."""
        return arena_bytes(self.rings)

    @property
    def is_static(self) -> bool:
        """Whether loops alone fix the firing order, without decisions at run time."""
        return all(
            not isinstance(leaf, Interleaved) or leaf.written is not None
            for leaf in leaves(self.schedule)
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
            "reason": None if self.reason is None else str(self.reason),
            "is_static": self.is_static,
            "schedule": in_words(self.schedule),
            "arena_bytes": self.arena_bytes,
            "buffer_bytes": sum(ring.size for ring in self.rings),
            "buffers": [ring.to_json() for ring in self.rings],
        }


def planned_graph(
    graph: Graph, *, token_bytes: int = 4, order: str = "min-memory", budget: Budget = None
) -> PlannedGraph | Deadlock:
    """Return a schedule of one iteration on one processor with its buffers, or the deadlock.

    The schedule respects the capacities of the graph; a channel without a capacity gets the capacity
    that the schedule needs. token_bytes: size of tokens for which the graph has none. order:
    `single-appearance`, `demand-driven`, or `min-memory`. `min-memory` prefers a static schedule,
    then the smaller arena. budget: a stop, or seconds; if the budget or Ctrl-C ends the search, the
    best schedule so far is returned.

    Raises InconsistentGraph. Raises GaveUp if the analysis would have to simulate too many firings,
    or if the search ends before the first schedule.
    """
    if order not in ORDERS:
        raise CsdfError(f"order {order!r}; expected one of {', '.join(ORDERS)}")
    stop = stop_of(budget)
    blocked = deadlock(graph, budget=stop)
    if blocked is not None:
        return blocked
    planning = _ProgramPlanning(graph, token_bytes, stop)
    plans = []
    firings = sum(repetition_vector(graph).values())
    if order != "demand-driven":
        plans.append(planning.planned("single-appearance"))
    if order == "demand-driven" or (order == "min-memory" and firings <= MOST_SHORT):
        try:
            plans.append(planning.planned("demand-driven"))
        except ENDS as end:
            if not plans:
                raise
            return replace(plans[0], reason=reason_of(end))
    return min(plans, key=lambda plan: (not plan.is_static, plan.arena_bytes))


class _ProgramPlanning:
    """Schedules of a graph, each with its buffers."""

    def __init__(self, graph: Graph, token_bytes: int, stop: Stop) -> None:
        self._graph, self._stop = graph, stop
        self._bound = bound_channels(graph)  # with a reverse channel for each capacity
        self._cycles = cycle_vector(graph)
        self._phases = {actor.name: actor.phases for actor in graph.actors}
        self._ports = Ports(graph)
        self._token_bytes = {
            channel.name: token_bytes if channel.token_size is None else channel.token_size
            for channel in graph.channels
        }
        self._orders: dict[Interleaved, Sequence[str]] = {}  # firings of each interleaved part

    def planned(self, order: str) -> PlannedGraph:
        """Return the schedule of an order. Raises GaveUp where the search finds no valid schedule."""
        if order == "single-appearance":
            nesting = Nesting(self._links(), self._phases, self._turns)
            schedule = nesting.schedule(self._cycles)
        else:
            schedule = self._turns(tuple(self._cycles), self._cycles)
        channel_effects = effects(schedule, self._ports, self._orders)
        # A schedule that violates the graph is an internal error of the search.
        for channel in self._graph.channels:
            effect = channel_effects[channel.name]
            if effect.change or channel.initial_tokens + effect.lowest < 0:
                raise GaveUp(f"the schedule found takes tokens from {channel.name!r} too early")
            limit = None if channel.is_self_loop else channel.capacity
            if limit is not None and channel.initial_tokens + effect.highest > limit:
                raise GaveUp(f"the schedule found puts too many tokens into {channel.name!r}")
        rings = rings_of(self._graph, schedule, channel_effects, self._token_bytes)
        return PlannedGraph(graph=self._graph, schedule=schedule, rings=rings, order=order)

    def _links(self) -> list[TokenLink]:
        """Return the tokens per cycle of all channels and of the reverse channels for capacities.

        Only channels without a capacity have a weight: the buffers of the others are fixed.
        """
        weights = {
            channel.name: self._token_bytes[channel.name]
            for channel in self._graph.channels
            if channel.capacity is None
        }
        return [
            TokenLink(
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
        """The part of a schedule in which the cycles of some actors interleave."""
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
            if not isinstance(channel.name, SpaceName):
                feeds[channel.producer].append(channel.consumer)
        order = downstream_first(feeds)
        counts = tuple(cycles[name] * self._phases[name] for name in order)
        firings = firing_order(part, order, counts, self._stop)
        piece = Interleaved(order, counts, short_loops(firings))
        self._orders[piece] = firings
        return piece
