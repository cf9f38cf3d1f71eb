"""The throughput of a mapping: exact, with the cycle of firings, transfers and orders behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.critical import CriticalCycle
from csdf.analysis.mapping.binding import bound_graph
from csdf.analysis.mapping.orders import OrderDeadlock, ordered_graph
from csdf.analysis.mapping.validity import require_valid
from csdf.analysis.throughput import throughput
from csdf.model.graph import Graph
from csdf.model.mapping import Mapping, Platform
from csdf.model.shown import Shown
from csdf.stopping import Budget, stop_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedThroughput(Shown):
    """How fast a mapped graph runs for ever.

    period: time of one iteration of the application, in units of the user; None for a deadlock, 0 if
    nothing limits it. critical_cycle: why it is not less; channels `p: a before b` are orders, actors
    `c (transfer)` are transfers. deadlock: what waits for what; blocked: the channels of a cycle of
    such waits, where one is known. utilization: the part of the time in which each processor works.
    """

    period: Fraction | None
    critical_cycle: CriticalCycle | None
    deadlock: str | None
    utilization: dict[str, Fraction]
    blocked: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        cycle = self.critical_cycle
        return {
            "period": None if self.period is None else str(self.period),
            "bottleneck": None if cycle is None else cycle.to_json(),
            "deadlock": self.deadlock,
            "utilization": {core: str(part) for core, part in self.utilization.items()},
        }


def mapped_throughput(
    graph: Graph, platform: Platform, mapping: Mapping, *, budget: Budget = None
) -> MappedThroughput:
    """Return the exact throughput of a mapping with static orders.

    On a processor with a slice the durations are response times, the longest for any position of
    the wheels, so that the period is an upper bound; `mapped_execution` has the exact one for wheels
    that start together. budget: a stop, or seconds. Raises InvalidMapping, InconsistentGraph, GaveUp.
    Source: Stuijk et al., DAC 2007, sections 7 and 8 (binding-aware graph).
    """
    require_valid(graph, platform, mapping)
    bound = bound_graph(graph, platform, mapping, is_conservative=True)
    return ordered_throughput(bound, mapping, repetition_vector(graph), budget=budget)


def ordered_throughput(
    bound: Graph, mapping: Mapping, repetitions: dict[str, int], *, budget: Budget = None
) -> MappedThroughput:
    """Return the throughput of a graph that has its durations and transfers, under the orders.

    repetitions: of the actors of the application.
    """
    try:
        ordered = ordered_graph(bound, mapping.orders)
    except OrderDeadlock as error:
        return _stuck(str(error), error.blocked)
    slowest = None
    stop = stop_of(budget)
    for part in _parts(ordered):
        found = throughput(part, budget=stop)
        if found.deadlock is not None:
            channels = tuple(one.channel for one in found.deadlock.cycle)
            return _stuck(str(found.deadlock), channels)
        iterations = _iterations(part, repetitions)
        period = (found.period or Fraction(0)) / iterations
        if slowest is None or period > slowest[0]:
            slowest = (period, found.critical_cycle)
    if slowest is None:
        raise AssertionError("a graph has a part")
    return MappedThroughput(
        period=slowest[0],
        critical_cycle=slowest[1],
        deadlock=None,
        utilization=_utilization(bound, mapping, repetitions, slowest[0]),
    )


def _stuck(deadlock: str, blocked: tuple[str, ...]) -> MappedThroughput:
    return MappedThroughput(
        period=None, critical_cycle=None, deadlock=deadlock, utilization={}, blocked=blocked
    )


def _iterations(part: Graph, repetitions: dict[str, int]) -> Fraction:
    """Return how many iterations of the application one iteration of a part is."""
    own = repetition_vector(part)
    return next(
        Fraction(count, repetitions[actor]) for actor, count in own.items() if actor in repetitions
    )


def _parts(graph: Graph) -> list[Graph]:
    """Return the weakly connected parts of a graph, as graphs."""
    home = {actor.name: actor.name for actor in graph.actors}

    def root(name: str) -> str:
        while home[name] != name:
            home[name] = home[home[name]]
            name = home[name]
        return name

    for channel in graph.channels:
        home[root(channel.producer)] = root(channel.consumer)
    roots = dict.fromkeys(root(name) for name in home)
    if len(roots) == 1:
        return [graph]
    return [
        replace(
            graph,
            actors=tuple(actor for actor in graph.actors if root(actor.name) == one),
            channels=tuple(c for c in graph.channels if root(c.producer) == one),
        )
        for one in roots
    ]


def _utilization(
    bound: Graph, mapping: Mapping, repetitions: dict[str, int], period: Fraction
) -> dict[str, Fraction]:
    if not period:
        return {}
    busy = dict.fromkeys(mapping.orders, Fraction(0))
    for actor, core in mapping.binding.items():
        durations = bound.actor(actor).durations
        work = sum(durations) * repetitions[actor] // len(durations)
        busy[core] += work * bound.time_unit
    return {core: time / period for core, time in busy.items()}
