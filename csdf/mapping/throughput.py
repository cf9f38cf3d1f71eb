"""Exact throughput of a mapping: maximum cycle ratio of a graph with static orders as channels.

The firings of a processor pass a token along its cyclic list, so they exclude each other. The critical
cycle names these channels and the channels of the application.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import ClassVar

from csdf.analysis.components import strong_components
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.critical import CriticalCycle
from csdf.analysis.throughput import throughput
from csdf.arguments import public
from csdf.errors import CsdfError
from csdf.mapping.binding import bound_graph, durations_on, require_valid
from csdf.mapping.model import Mapping, Platform, StaticOrder
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.indexed import indexed
from csdf.model.shown import Shown
from csdf.model.untimed import UntimedRun
from csdf.time_limit import Budget, Stop, stop_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedThroughput(Shown):
    """The throughput of a mapped graph.

    period: long-run time of one iteration of the application, in units of the user; None for a
    deadlock, 0 if it is unlimited. critical_cycle: its proof; channels `p: a before b` are orders,
    actors `c (transfer)` are transfers. deadlock: a description; blocked: the channels of a cycle of
    blocked actors, or (). utilization: the share of the time in which each processor executes firings;
    on a processor with a slice at most slice / wheel.
    """

    JSON: ClassVar[tuple[str, ...]] = ("period", "critical_cycle", "deadlock", "utilization")

    period: Fraction | None
    critical_cycle: CriticalCycle | None
    deadlock: str | None
    utilization: dict[str, Fraction]
    blocked: tuple[str, ...] = ()


@public
def mapped_throughput(
    graph: Graph, platform: Platform, mapping: Mapping, *, budget: Budget = None
) -> MappedThroughput:
    """Return the exact throughput of a mapping with static orders.

    On a processor with a slice the durations are worst-case response times for any position of the
    wheel, so the period is an upper bound. `mapped_execution` computes the exact period for wheels that
    start together. budget: a stop, or seconds. Raises InvalidMapping, InconsistentGraph, GaveUp.
    Source: Stuijk et al., DAC 2007, sections 7 and 8 (binding-aware graph).
    """
    require_valid(graph, platform, mapping)
    bound = bound_graph(graph, platform, mapping, is_conservative=True)
    busy = busy_times(graph, platform, mapping)
    return ordered_throughput(bound, mapping, repetition_vector(graph), busy, budget=budget)


def busy_times(graph: Graph, platform: Platform, mapping: Mapping) -> dict[str, Fraction]:
    """Return the time of the firings of an iteration on each processor, in units of the user.

    On a processor with a slice the time outside the slice is not counted.
    """
    busy = dict.fromkeys(mapping.orders, Fraction(0))
    repetitions = repetition_vector(graph)
    for actor, core in mapping.binding.items():
        durations = durations_on(graph.actor(actor), platform.core(core))
        busy[core] += sum(durations) * repetitions[actor] // len(durations) * graph.time_unit
    return busy


def ordered_throughput(
    bound: Graph,
    mapping: Mapping,
    repetitions: Map[str, int],
    busy: Map[str, Fraction],
    *,
    budget: Budget = None,
) -> MappedThroughput:
    """Return the throughput of a bound graph (`bound_graph`) with the static orders of a mapping.

    repetitions: of the actors of the application. busy: the time of an iteration on each processor.
    """
    stop = stop_of(budget)
    try:
        ordered = ordered_graph(bound, mapping.orders, stop)
    except OrderDeadlock as error:
        return _stuck(str(error), error.blocked)
    slowest = None
    for part in _parts(ordered):
        unmapped = throughput(part, budget=stop)
        if unmapped.deadlock is not None:
            channels = tuple(firing.channel for firing in unmapped.deadlock.cycle)
            return _stuck(str(unmapped.deadlock), channels)
        iterations = next(  # iterations of the application in an iteration of the component
            Fraction(count, repetitions[actor])
            for actor, count in repetition_vector(part).items()
            if actor in repetitions
        )
        period = (unmapped.period or Fraction(0)) / iterations
        if slowest is None or period > slowest[0]:
            slowest = (period, unmapped.critical_cycle)
    if slowest is None:
        raise AssertionError("a graph has a part")
    return MappedThroughput(
        period=slowest[0],
        critical_cycle=slowest[1],
        deadlock=None,
        utilization={core: time / slowest[0] for core, time in busy.items() if slowest[0]},
    )


def _stuck(deadlock: str, blocked: tuple[str, ...]) -> MappedThroughput:
    return MappedThroughput(
        period=None, critical_cycle=None, deadlock=deadlock, utilization={}, blocked=blocked
    )


def _parts(graph: Graph) -> list[Graph]:
    """Return the weakly connected components of a graph, in the order of their first actors."""
    numbers = indexed(graph)
    neighbours: list[list[int]] = [[] for _ in graph.actors]
    for producer, consumer in zip(numbers.producer, numbers.consumer, strict=True):
        neighbours[producer].append(consumer)
        neighbours[consumer].append(producer)
    part = strong_components(len(neighbours), neighbours)
    part_of = dict(zip(numbers.actor_names, part, strict=True))
    if not any(part):
        return [graph]
    return [
        replace(
            graph,
            actors=tuple(actor for actor in graph.actors if part_of[actor.name] == number),
            channels=tuple(c for c in graph.channels if part_of[c.producer] == number),
        )
        for number in sorted(set(part))
    ]


class OrderDeadlock(CsdfError):
    """Static orders that deadlock.

    waiting: by blocked processor, its next actor and the channel with too few tokens. blocked: the
    channels of a cycle of blocked actors, or ().
    """

    def __init__(self, waiting: dict[str, tuple[str, str]], blocked: tuple[str, ...] = ()) -> None:
        self.waiting = waiting
        self.blocked = blocked
        text = "; ".join(
            f"{core!r} waits for tokens on {channel!r} to fire {actor!r}"
            for core, (actor, channel) in waiting.items()
        )
        super().__init__(f"the static orders deadlock: {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marking:
    """A state after some firings: firings of each actor, tokens, and positions in the orders."""

    firings: dict[str, int]
    tokens: dict[str, int]
    places: dict[str, int]


def ordered_graph(graph: Graph, orders: Map[str, StaticOrder], stop: Stop) -> Graph:
    """Return the graph whose self-timed execution obeys the static orders.

    The graph begins with the tokens and phases after the prefixes. So its transient differs from the
    transient of the mapping, but its period is equal. The phases of an actor become the least common
    multiple of its phases and its firings in the list. The channel `p: a before b` carries a token
    from each firing of a to the next firing on p, if that is a firing of b. So the actors of a
    processor fire one at a time. Raises OrderDeadlock if the prefixes deadlock, and as the stop does.
    Source: Damavandpeyma et al., Schedule-extended synchronous dataflow graphs, IEEE TCAD 2013, for SDF
    graphs.
    """
    run = _OrderedRun(graph, orders)  # until every prefix is done
    while not run.is_done():
        stop.look()
        if not run.step():
            raise OrderDeadlock(run.waiting(), run.blocked())
    marking = run.marking()
    rings = {}  # the periodic lists, rotated to the positions after the prefixes
    for core, order in orders.items():
        start = (marking.places.get(core, 0) - len(order.prefix)) % len(order.periodic)
        rings[core] = order.periodic[start:] + order.periodic[:start]
    phases = {actor.name: actor.phases for actor in graph.actors}
    for ring in rings.values():
        for actor, count in Counter(ring).items():
            phases[actor] = lcm(phases[actor], count)
    actors = tuple(
        Actor(
            name=actor.name,
            durations=_turned(actor.durations, marking.firings[actor.name], phases[actor.name]),
        )
        for actor in graph.actors
    )
    channels = [
        replace(
            channel,
            initial_tokens=marking.tokens[channel.name],
            production=_turned(
                channel.production, marking.firings[channel.producer], phases[channel.producer]
            ),
            consumption=_turned(
                channel.consumption, marking.firings[channel.consumer], phases[channel.consumer]
            ),
        )
        for channel in graph.channels
    ]
    for core, ring in rings.items():
        channels += _order_channels(core, ring, phases)
    return replace(graph, actors=actors, channels=tuple(channels), origin=None)


def _turned(cycle: tuple[int, ...], done: int, length: int) -> tuple[int, ...]:
    """Return the cycle, rotated by `done` firings and repeated to `length` phases."""
    return tuple(cycle[(done + index) % len(cycle)] for index in range(length))


def _order_channels(core: str, ring: Sequence[str], phases: dict[str, int]) -> list[Channel]:
    """Return a channel for each pair of actors with consecutive firings in the cyclic list."""
    seen: dict[str, int] = defaultdict(int)
    numbers = []  # index of each firing among the firings of its actor in the list
    for actor in ring:
        numbers.append(seen[actor])
        seen[actor] += 1
    pairs: dict[tuple[str, str], tuple[list[int], list[int], int]] = {}
    for index, actor in enumerate(ring):
        follower = (index + 1) % len(ring)
        key = (actor, ring[follower])
        production, consumption, tokens = pairs.setdefault(key, ([], [], 0))
        production.append(numbers[index])
        consumption.append(numbers[follower])
        pairs[key] = (production, consumption, tokens + (follower == 0))
    return [
        Channel(
            name=f"{core}: {first} before {second}",
            producer=first,
            consumer=second,
            production=_marks(production, seen[first], phases[first]),
            consumption=_marks(consumption, seen[second], phases[second]),
            initial_tokens=tokens,
        )
        for (first, second), (production, consumption, tokens) in pairs.items()
    ]


def _marks(indices: list[int], count: int, phases: int) -> tuple[int, ...]:
    """Return 1 at these positions of `count` firings and 0 at the others, over this many phases."""
    marked = set(indices)
    return tuple(int(phase % count in marked) for phase in range(phases))


class _OrderedRun:
    """An untimed simulation under static orders, until all prefixes are completed."""

    def __init__(self, graph: Graph, orders: Map[str, StaticOrder]) -> None:
        self.orders = orders
        self.places = dict.fromkeys(orders, 0)
        numbers = indexed(graph)
        self._names = numbers.actor_names
        self._number = {name: number for number, name in enumerate(self._names)}
        maximum = _most_firings(graph, orders)
        self._run = UntimedRun(numbers, [maximum[name] for name in self._names])
        bound = {actor for order in orders.values() for actor in order.periodic}
        self._free = [number for name, number in self._number.items() if name not in bound]

    def is_done(self) -> bool:
        return all(self.places[core] >= len(order.prefix) for core, order in self.orders.items())

    def step(self) -> bool:
        """Advance the unfinished prefixes, or else all other actors; return whether any fired."""
        unfinished = [c for c, order in self.orders.items() if self.places[c] < len(order.prefix)]
        ready = [core for core in self.orders if core not in unfinished]
        if sum(self._advance(core) for core in unfinished):
            return True
        return sum(self._advance(core) for core in ready) + sum(map(self._fire, self._free)) > 0

    def _advance(self, core: str) -> bool:
        if not self._fire(self._number[self.orders[core].actor(self.places[core])]):
            return False
        self.places[core] += 1
        return True

    def _fire(self, actor: int) -> bool:
        return self._run.firings[actor] < self._run.most[actor] and self._run.advance(actor)

    def waiting(self) -> dict[str, tuple[str, str]]:
        """Return the next actor of each blocked processor, and the channel that it waits for."""
        waiting = {}
        for core, order in self.orders.items():
            actor = order.actor(self.places[core])
            channel = self._run.lacking(self._number[actor])
            if channel is not None:
                waiting[core] = (actor, self._run.graph.channel_names[channel])
        return waiting

    def marking(self) -> Marking:
        channels = self._run.graph.channel_names
        return Marking(
            firings=dict(zip(self._names, self._run.firings, strict=True)),
            tokens=dict(zip(channels, self._run.tokens, strict=True)),
            places=self.places,
        )

    def blocked(self) -> tuple[str, ...]:
        """Return the channels of a cycle of actors in which each waits for the next."""
        home = {actor: core for core, order in self.orders.items() for actor in order.periodic}
        graph, names = self._run.graph, self._names
        seen: dict[str, int] = {}
        channels: list[str] = []
        name = next(
            order.actor(self.places[core])
            for core, order in self.orders.items()
            if self.places[core] < len(order.prefix)
        )
        while name not in seen:
            seen[name] = len(channels)
            lacking = self._run.lacking(self._number[name])
            if lacking is None:
                return ()
            channels.append(graph.channel_names[lacking])
            producer = names[graph.producer[lacking]]
            core = home.get(producer)
            name = producer if core is None else self.orders[core].actor(self.places[core])
        return tuple(channels[seen[name] :])


def _most_firings(graph: Graph, orders: Map[str, StaticOrder]) -> dict[str, int]:
    """Return an upper bound on the firings of each actor until the prefixes are completed.

    A firing needs firings of its own and earlier iterations. If an order places it after firings of
    later iterations, it also needs these, at most `ahead` iterations more for each processor.
    """
    repetitions = repetition_vector(graph)
    ahead = max(
        (
            -(-len(order.prefix + order.periodic) // min(repetitions[a] for a in order.periodic))
            for order in orders.values()
        ),
        default=0,
    )
    iterations = (ahead + 1) * (len(orders) + 1)
    return {actor: count * iterations for actor, count in repetitions.items()}
