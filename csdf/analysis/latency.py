"""Latency of an iteration under self-timed execution, to the same or to the dependent iteration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.liveness import deadlock
from csdf.analysis.self_timed import self_timed_execution
from csdf.arguments import public
from csdf.errors import CsdfError, Deadlocked
from csdf.model.graph import Graph
from csdf.model.indexed import indexed
from csdf.model.schedule import Firing
from csdf.model.shown import Shown
from csdf.model.untimed import ValuedRun
from csdf.time_limit import Budget, Stop, stop_of


@public
def latency(
    graph: Graph, source: str | None = None, sink: str | None = None, *, budget: Budget = None
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
    return _longest_self_timed(graph, source, sink, 0, stop_of(budget))


def _longest_self_timed(
    graph: Graph, source: str | None, sink: str | None, distance: int, stop: Stop
) -> Fraction | None:
    """The longest latency over the transient and one steady part; None where no state recurs."""
    execution = self_timed_execution(graph, budget=stop)
    if execution.deadlock is not None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {execution.deadlock}")
    if execution.steady is None:
        return None
    if distance:
        count = execution.iterations + distance
        execution = self_timed_execution(graph, iterations=count, budget=stop)
    firings = execution.firings
    return max(iteration_times(graph, firings, source=source, sink=sink, distance=distance))


def iteration_times(
    graph: Graph,
    firings: Iterable[Firing],
    *,
    source: str | None = None,
    sink: str | None = None,
    distance: int = 0,
) -> list[Fraction]:
    """Return for each iteration the time from its start to the end of iteration n + distance.

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
    return [ends[n + distance] - starts[n] for n in sorted(starts) if n + distance in ends]


# Tokens that firings consume between two checks of the stop: about a hundredth of a second.
TOKENS = 50_000


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


@public
def dependency_latency(
    graph: Graph, source: str, sink: str, *, budget: Budget = None
) -> DependencyLatency:
    """Return the latency between two actors whose iterations are paired by dependency.

    Iteration n of the source is paired with iteration n + distance of the sink, the first that needs
    it; `latency` pairs iterations of the same number. Raises Deadlocked; CsdfError
    where the sink never needs the source; InvalidGraph for an unknown actor; GaveUp where the
    budget, a stop or seconds, ends.
    Source: Ghamarian et al., Latency minimization for synchronous data flow graphs, DSD 2007,
    section 3.
    """
    stop = stop_of(budget)
    run, maximum = _without_source(graph, source, sink, stop)
    repetitions = repetition_vector(graph)
    before = run.firings
    distance = before[sink] // repetitions[sink]
    needed_firings = (distance + 1) * repetitions[sink]
    run.exhaust(
        {name: count + maximum[name] for name, count in before.items()}
        | {source: repetitions[source]}
    )
    if run.firings[sink] < needed_firings:
        blocked = deadlock(graph, budget=stop)
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {blocked}")
    minimal = max(end for end in run.ends[:needed_firings] if end is not None)
    return DependencyLatency(
        source=source,
        sink=sink,
        distance=distance,
        minimal=minimal * graph.time_unit,
        self_timed=_longest_self_timed(graph, source, sink, distance, stop),
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
    """Return the run in which the source never fires, and per actor a count that it cannot reach."""
    for name in (source, sink):
        graph.actor(name)
    repetitions = repetition_vector(graph)
    bounded = bound_channels(graph)
    # Two iterations, and those by which the initial tokens let an actor run ahead of another actor.
    iterations = 2
    for channel in bounded.channels:
        phases = len(channel.production)
        moved = repetitions[channel.producer] // phases * sum(channel.production)
        iterations += -(-channel.initial_tokens // moved)
    maximum = {name: count * iterations for name, count in repetitions.items()}
    run = _ReleasedRun(bounded, source, sink, stop)
    run.exhaust({**maximum, source: 0})
    if run.firings[sink] == maximum[sink]:
        raise CsdfError(f"actor {sink!r} never needs a firing of {source!r}")
    return run, maximum


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

    def exhaust(self, maximum: dict[str, int]) -> None:
        """Fire until no actor can fire; maximum: the total firings allowed to each actor."""
        self._run.most = [maximum[name] for name in self.graph.actor_names]
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
