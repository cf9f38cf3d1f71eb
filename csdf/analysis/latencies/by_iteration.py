"""Latency: how long one iteration takes from its first start to its last end."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import Deadlocked
from csdf.model.graph import Graph
from csdf.model.schedule import Firing
from csdf.stopping import Budget


def latency(
    graph: Graph, *, source: str | None = None, sink: str | None = None, budget: Budget = None
) -> Fraction | None:
    """Return the longest time from an iteration's start to its end, under self-timed execution.

    An iteration starts with the first of its firings of `source` (of any actor, if not given) and
    ends with the last of its firings of `sink` to end. The longest over the transient and one
    steady part. None if iterations overtake one another for ever, so that no latency is the longest.
    Raises Deadlocked, InvalidGraph for an unknown actor, GaveUp where the budget, a stop or seconds,
    ends.
    Source: Ghamarian et al., Latency minimization for synchronous data flow graphs, DSD 2007, for
    one iteration of source and sink.
    """
    for name in (source, sink):
        if name is not None:
            graph.actor(name)
    execution = self_timed_execution(graph, budget=budget)
    if execution.deadlock is not None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {execution.deadlock}")
    if execution.steady is None:
        return None
    return max(iteration_times(graph, execution.firings, source=source, sink=sink))


def iteration_times(
    graph: Graph,
    firings: Iterable[Firing],
    *,
    source: str | None = None,
    sink: str | None = None,
) -> list[Fraction]:
    """Return for each iteration the time from its start to its end.

    firings: of whole iterations; those of actors that the graph lacks, such as transfers, do not count.
    """
    repetitions = repetition_vector(graph)
    starts: dict[int, Fraction] = {}
    ends: dict[int, Fraction] = {}
    for firing in firings:
        if firing.actor not in repetitions:
            continue
        iteration = firing.index // repetitions[firing.actor]
        if source in (None, firing.actor):
            starts[iteration] = min(starts.get(iteration, firing.start), firing.start)
        if sink in (None, firing.actor):
            ends[iteration] = max(ends.get(iteration, firing.end), firing.end)
    return [ends[iteration] - starts[iteration] for iteration in sorted(starts)]
