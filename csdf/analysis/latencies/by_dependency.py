"""Latency by dependency: from an iteration of a source to the first output that needs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from csdf.analysis.bounded import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.liveness import deadlock
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import CsdfError, Deadlocked
from csdf.model.graph import Graph, require_graph
from csdf.model.indexed import indexed
from csdf.model.schedule import Firing
from csdf.model.shown import Shown
from csdf.model.untimed import ValuedRun
from csdf.stopping import Budget, Stop, stop_of

TOKENS = 50_000  # that firings take between two looks at the stop: about a hundredth of a second


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyLatency(Shown):
    """Time from the first firing of the source in an iteration to the sink's output that needs it.

    distance: iterations of the sink that can end without any firing of the source. minimal: where
    everything that does not need the iteration has happened before. self_timed: the longest under
    self-timed execution; None if iterations overtake one another for ever.
    """

    source: str
    sink: str
    distance: int
    minimal: Fraction
    self_timed: Fraction | None

    def to_json(self) -> dict[str, Any]:
        """Return the latencies as a JSON value; fractions as texts."""
        return {
            "source": self.source,
            "sink": self.sink,
            "distance": self.distance,
            "minimal": str(self.minimal),
            "self_timed": None if self.self_timed is None else str(self.self_timed),
        }


def dependency_latency(
    graph: Graph, source: str, sink: str, *, budget: Budget = None
) -> DependencyLatency:
    """Return the latency between two actors, paired by what depends on what.

    Iteration n of the source is paired with iteration n + distance of the sink, the first that needs
    it; `latency` pairs iterations of the same number. Raises Deadlocked; CsdfError
    where the sink never needs the source; InvalidGraph for an unknown actor; GaveUp where the
    budget, a stop or seconds, ends.
    Source: Ghamarian et al., Latency minimization for synchronous data flow graphs, DSD 2007,
    section 3.
    """
    stop = stop_of(budget)
    run, most = _without_source(graph, source, sink, stop)
    repetitions = repetition_vector(graph)
    before = run.firings
    distance = before[sink] // repetitions[sink]
    place = (distance + 1) * repetitions[sink]
    run.exhaust(
        {name: count + most[name] for name, count in before.items()} | {source: repetitions[source]}
    )
    if run.firings[sink] < place:
        blocked = deadlock(graph, budget=stop)
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {blocked}")
    minimal = max(end for end in run.ends[:place] if end is not None)
    return DependencyLatency(
        source=source,
        sink=sink,
        distance=distance,
        minimal=minimal * graph.time_unit,
        self_timed=_self_timed(graph, (source, sink), distance, repetitions, stop),
    )


def dependency_distance(graph: Graph, source: str, sink: str, *, budget: Budget = None) -> int:
    """Return how many iterations of the sink can end without any firing of the source.

    Raises as `dependency_latency` does.
    """
    run, _ = _without_source(graph, source, sink, stop_of(budget))
    return run.firings[sink] // repetition_vector(graph)[sink]


def _without_source(
    graph: Graph, source: str, sink: str, stop: Stop
) -> tuple[_ReleasedRun, dict[str, int]]:
    """Return what happens where the source never fires, and more firings than can."""
    require_graph(graph)
    for name in (source, sink):
        graph.actor(name)
    repetitions = repetition_vector(graph)
    iterations = _most_iterations(graph, repetitions)
    most = {name: count * iterations for name, count in repetitions.items()}
    run = _ReleasedRun(bound_channels(graph), source, sink, stop)
    run.exhaust({**most, source: 0})
    if run.firings[sink] == most[sink]:
        raise CsdfError(f"actor {sink!r} never needs a firing of {source!r}")
    return run, most


def _most_iterations(graph: Graph, repetitions: dict[str, int]) -> int:
    """Return more iterations than the tokens of the graph allow an actor to run ahead of another."""
    ahead = 0
    for channel in bound_channels(graph).channels:
        phases = len(channel.production)
        moved = repetitions[channel.producer] // phases * sum(channel.production)
        ahead += -(-channel.initial_tokens // moved)
    return ahead + 2


def _self_timed(
    graph: Graph, ends: tuple[str, str], distance: int, repetitions: dict[str, int], stop: Stop
) -> Fraction | None:
    execution = self_timed_execution(graph, budget=stop)
    if execution.deadlock is not None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {execution.deadlock}")
    if execution.steady is None or execution.transient is None:
        return None
    count = execution.transient + execution.steady
    execution = self_timed_execution(graph, iterations=count + distance, budget=stop)
    return longest_answer(execution.firings, repetitions, ends, distance, count)


def longest_answer(
    firings: Iterable[Firing],
    repetitions: dict[str, int],
    ends: tuple[str, str],
    distance: int,
    count: int,
) -> Fraction:
    """Return the longest time from the first start of the source to the last end of the sink.

    In iteration n of the source, and n + distance of the sink, for the first `count` iterations.
    ends: source and sink. firings: of that many iterations and more.
    """
    source, sink = ends
    starts: dict[int, Fraction] = {}
    last: dict[int, Fraction] = {}
    for firing in firings:
        if firing.actor not in ends:
            continue
        iteration = firing.index // repetitions[firing.actor]
        if firing.actor == source:
            starts[iteration] = min(starts.get(iteration, firing.start), firing.start)
        if firing.actor == sink:
            last[iteration] = max(last.get(iteration, firing.end), firing.end)
    return max(last[iteration + distance] - starts[iteration] for iteration in range(count))


class _ReleasedRun:
    """Firings with the times that follow from the released source; None for what never needs it.

    ends: when each firing of the sink ends. Until the source fires, nothing has a time.
    """

    def __init__(self, graph: Graph, source: str, sink: str, stop: Stop) -> None:
        self._stop, self._taken = stop, 0
        self.graph = indexed(graph)
        self.source = self.graph.actor_names.index(source)
        self.sink = self.graph.actor_names.index(sink)
        self.ends: list[int | None] = []
        self._starts: list[int | None] = [None] * len(graph.actors)
        self._run = ValuedRun(
            self.graph,
            [0] * len(graph.actors),
            [[(None, channel.initial_tokens)] for channel in graph.channels],
            self._end,
        )

    @property
    def firings(self) -> dict[str, int]:
        """Return how often each actor has fired."""
        return dict(zip(self.graph.actor_names, self._run.firings, strict=True))

    def exhaust(self, most: dict[str, int]) -> None:
        """Fire until nothing can, each actor at most so often in all."""
        self._run.most = [most[name] for name in self.graph.actor_names]
        self._run.exhaust(look=self._stop.look)

    def _end(self, actor: int, phase: int, needed: list[int | None]) -> int | None:
        """Return when the firing ends that needs tokens of these times."""
        self._taken += 1 + len(needed)
        if self._taken > TOKENS:
            self._taken = 0
            self._stop.look()
        released = 0 if actor == self.source else None
        times = [time for time in (self._starts[actor], released, *needed) if time is not None]
        start = max(times, default=None)
        self._starts[actor] = start
        duration = self.graph.duration[self.graph.duration_start[actor] + phase]
        end = None if start is None else start + duration
        if actor == self.sink:
            self.ends.append(end)
        return end
