"""Latency of an iteration under self-timed execution, to the same or to the dependent iteration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.components import strong_components
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.execution import (
    Execution,
    ExecutionWhy,
    SteadyState,
    Times,
    first_starts,
    growth_bounds,
    steady_state,
)
from csdf.analysis.liveness import deadlock
from csdf.analysis.self_timed import FIRINGS_LIMIT, RECURRENCE_LIMIT, list_firings
from csdf.analysis.throughput import component_periods
from csdf.arguments import public
from csdf.errors import CsdfError, Deadlocked, NoRecurrence
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.model.schedule import Firing
from csdf.model.shown import Shown
from csdf.model.untimed import ValuedRun
from csdf.status import Reason, because
from csdf.time_limit import Budget, Stop, stop_of


@public
def latency(
    graph: Graph, source: str | None = None, sink: str | None = None, *, budget: Budget = None
) -> Fraction | None:
    """Return the longest time from an iteration's start to its end, under self-timed execution.

    An iteration starts with the first of its firings of `source` (of any actor, if not given) and
    ends with the last of its firings of `sink` to end. The longest over the transient and one
    steady part. None if source and sink differ in pace, so that latencies grow, or shrink, for ever.
    Raises Deadlocked, InvalidGraph for an unknown actor, GaveUp where the budget, a stop or seconds,
    ends; NoRecurrence where no state recurs within its limits although source and sink keep pace.
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
    """The longest latency over the transient and one steady part; None if the paces differ.

    Actors that neither source nor sink wait for are left out: they may be slower for ever.
    """
    blocked = deadlock(graph, budget=stop)
    if blocked is not None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {blocked}")
    whole = repetition_vector(graph)
    part = graph if source is None or sink is None else _needed(graph, (source, sink))
    repetitions = {actor.name: whole[actor.name] for actor in part.actors}
    numbers, firings = indexed(bound_channels(part)), list(repetitions.values())
    most = FIRINGS_LIMIT // (distance + 1)
    if sum(firings) > most:
        raise NoRecurrence(because(ExecutionWhy.TOO_LONG, firings=sum(firings), most=most))
    longest = FIRINGS_LIMIT // sum(firings) - distance  # iterations whose firings can be listed
    limit = min(RECURRENCE_LIMIT, longest)
    try:
        shown = _iterations(steady_state(numbers, firings, limit=limit, budget=stop))
    except NoRecurrence:
        paces = _paces(numbers, repetitions, stop)
        start = min(paces.values()) if source is None else paces[source]
        if start != (max(paces.values()) if sink is None else paces[sink]):
            return None
        size = sum(firings) + sum(numbers.initial_tokens)
        slow = frozenset(number for number, name in enumerate(paces) if paces[name] == start)
        if len(slow) == len(paces):  # a state is certain to recur
            longest = min(longest, COMPARED_NUMBERS // size)
            if longest <= limit:
                raise
            shown = _iterations(steady_state(numbers, firings, limit=longest, budget=stop))
        elif sink is None:  # the actors ahead end iterations, too
            raise
        else:
            longest = min(longest, REMEMBERED_NUMBERS // size)
            recurring = _iterations_of(slow, numbers, firings, longest, stop)
            if recurring is None:
                raise
            shown = recurring
    starts = first_starts(numbers, repetitions, shown + distance, budget=stop)
    listed = list_firings(part, starts, stop)
    return max(iteration_times(graph, listed, source=source, sink=sink, distance=distance))


def _iterations(steady: SteadyState | None) -> int:
    """Return the iterations of the transient and of one steady part."""
    if steady is None:
        raise AssertionError("a graph without deadlock got stuck")
    return steady.transient + steady.iterations


def _iterations_of(
    slow: frozenset[int], graph: IndexedGraph, firings: Sequence[int], limit: int, stop: Stop
) -> int | None:
    """Return the iterations of the transient and of one steady part of the slow actors.

    slow: the actors of the largest pace; no other actor waits for them. Let a state of the slow actors
    recur, d time units later. Then all later states recur too if, in the iterations in between,
    - each token from another actor arrived before the previous start of its consumer, and
    - no time of the other actors grew by more than d; by `csdf.analysis.execution` none ever will.
    None if that does not happen within the limit.
    """
    execution = Execution(graph, firings, budget=stop)
    actors, channels = len(firings), range(len(graph.producer))
    inner = [channel for channel in channels if graph.producer[channel] in slow]
    outer = [channel for channel in channels if graph.consumer[channel] not in slow]
    entering = sorted(set(channels).difference(inner, outer))
    # Places in `Execution.times()`: of starts, of the newest tokens, of all tokens.
    newest, tokens = actors, actors + len(channels)
    held = [
        *slow,
        *(newest + channel for channel in inner),
        *(tokens + channel for channel in inner),
    ]
    ahead = [actor for actor in range(actors) if actor not in slow]
    ahead += [newest + channel for channel in (*outer, *entering)]
    ahead += [tokens + channel for channel in outer]
    seen: dict[tuple[tuple[int, int], ...], tuple[int, int, Times]] = {}
    waited, before = 0, execution.times()
    while execution.iterations < limit and execution.recorded(1) is not None:
        now, times = execution.iterations, execution.times()
        if any(
            times[newest + channel][0][1] > before[graph.consumer[channel]][0][1]
            for channel in entering
        ):
            waited = now
        before, origin = times, times[min(slow)][0][1]
        state = tuple((count, time - origin) for place in held for count, time in times[place])
        ahead_times = [times[place] for place in ahead]
        begin, begin_origin, earlier = seen.setdefault(state, (now, origin, ahead_times))
        if begin < waited:
            seen[state] = now, origin, ahead_times
        elif begin < now and growth_bounds(earlier, ahead_times, 1)[1] <= origin - begin_origin:
            return now
    return None


def _needed(graph: Graph, names: Iterable[str]) -> Graph:
    """Return the part of a graph that decides when these actors fire: all they wait for."""
    producers = defaultdict(list)
    for channel in bound_channels(graph).channels:
        producers[channel.consumer].append(channel.producer)
    waiting = list(names)
    needed = set(waiting)
    while waiting:
        for producer in producers[waiting.pop()]:
            if producer not in needed:
                needed.add(producer)
                waiting.append(producer)
    return replace(
        graph,
        actors=tuple(actor for actor in graph.actors if actor.name in needed),
        channels=tuple(channel for channel in graph.channels if channel.consumer in needed),
        origin=None,
    )


def _paces(graph: IndexedGraph, repetitions: Mapping[str, int], stop: Stop) -> dict[str, Fraction]:
    """Return the long-run time of an iteration of each actor: of the slowest part that it waits for.

    repetitions: firings of each actor in an iteration. If all are equal, a state of the graph recurs.
    """
    firings = (repetitions[name] for name in graph.actor_names)
    cycles = [count // phases for count, phases in zip(firings, graph.phases, strict=True)]
    successors: list[list[int]] = [[] for _ in cycles]
    for producer, consumer in zip(graph.producer, graph.consumer, strict=True):
        successors[producer].append(consumer)
    component = strong_components(len(successors), successors)
    pace = [Fraction(0)] * len(successors)
    for actor, period in component_periods(graph, cycles, stop).items():
        pace[component[actor]] = period
    for actor in sorted(range(len(successors)), key=component.__getitem__, reverse=True):
        for following in successors[actor]:
            pace[component[following]] = max(pace[component[following]], pace[component[actor]])
    return {name: pace[component[actor]] for actor, name in enumerate(graph.actor_names)}


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


COMPARED_NUMBERS = 10**9  # of states, to wait for one that is certain to recur
REMEMBERED_NUMBERS = 10**6  # of states, about a hundred megabytes

# Tokens that firings consume between two checks of the stop: about a hundredth of a second.
TOKENS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyLatency(Shown):
    """Time from the first firing of the source in an iteration to the sink's output that needs it.

    distance: iterations of the sink that can end without any firing of the source. minimal: where
    everything that does not need the iteration has happened before. self_timed: the longest under
    self-timed execution; None if source and sink differ in pace, or if no state recurs in time.
    reason: why self_timed is unknown, or None.
    """

    source: str
    sink: str
    distance: int
    minimal: Fraction
    self_timed: Fraction | None
    reason: Reason | None = None


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
    self_timed = reason = None
    try:
        self_timed = _longest_self_timed(graph, source, sink, distance, stop)
    except NoRecurrence as error:
        reason = error.reason
    return DependencyLatency(
        source=source,
        sink=sink,
        distance=distance,
        minimal=minimal * graph.time_unit,
        self_timed=self_timed,
        reason=reason,
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
