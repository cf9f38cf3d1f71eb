"""Latency of a mapped graph as it runs by itself: static orders, transfers and prefixes count."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latencies.by_dependency import dependency_distance, longest_answer
from csdf.analysis.mapping.execution import mapped_execution
from csdf.errors import Deadlocked, NoRecurrence
from csdf.model.graph import Graph
from csdf.model.mapping import Mapping, Platform
from csdf.stopping import Budget, stop_of


class OrderedLatency(NamedTuple):
    """Longest times from the first start of the source in an iteration to the last end of the sink.

    by_iteration: in the same iteration. by_dependency: in the one that first needs it, which is
    `distance` later.
    """

    by_iteration: Fraction
    by_dependency: Fraction
    distance: int


def ordered_latency(
    graph: Graph,
    platform: Platform,
    mapping: Mapping,
    source: str,
    sink: str,
    *,
    budget: Budget = None,
) -> OrderedLatency:
    """Return the latency of a mapping, over its transient and one steady part.

    Wheels start together. Raises Deadlocked; CsdfError where the sink never needs the
    source; InvalidGraph, InvalidMapping; NoRecurrence where no state recurs in time; GaveUp where the
    budget, a stop or seconds, ends.
    """
    stop = stop_of(budget)
    distance = dependency_distance(graph, source, sink, budget=stop)
    stop.look()
    try:
        found = mapped_execution(graph, platform, mapping)
    except NoRecurrence as error:
        raise NoRecurrence(
            f"{error}: one part may run ahead of another for ever. Bound its buffers, or give the "
            "source a period"
        ) from None
    if found.transient is None or found.steady is None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks under these orders and has no latency")
    count = found.transient + found.steady
    longer = mapped_execution(graph, platform, mapping, iterations=count + distance)
    repetitions = repetition_vector(graph)
    same, paired = (
        longest_answer(longer.firings, repetitions, (source, sink), apart, count)
        for apart in (0, distance)
    )
    return OrderedLatency(same, paired, distance)
