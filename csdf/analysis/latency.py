"""Latency: how long one iteration takes from its first start to its last end.

Latency by dependency: from an iteration of a source to the first output that needs it.

Latency and jitter behind a source of a given rate, under self-timed execution or static orders.

Latency of a mapped graph as it runs by itself: static orders, transfers and prefixes count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.liveness import deadlock
from csdf.analysis.mapping.execution import mapped_execution
from csdf.analysis.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.throughput import Throughput, throughput
from csdf.errors import CsdfError, Deadlocked, NoRecurrence
from csdf.model.exact import Exact, exact
from csdf.model.graph import Actor, Channel, Graph, require_graph
from csdf.model.indexed import indexed
from csdf.model.mapping import Mapping, Platform
from csdf.model.schedule import Firing
from csdf.model.shown import Shown
from csdf.model.untimed import ValuedRun
from csdf.names import free_name
from csdf.time_limit import Budget, Stop, stop_of


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


CLOCK = "clock of "


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLatency(Shown):
    """Latencies behind a source whose firings are released at even distances.

    period: of the source, for one iteration; least_period: the shortest that the graph sustains. Where
    that is longer, inputs pile up and there is no latency: all that follows is None.
    latency: the longest time from the release of iteration n of the source to the last end of the
    sink in iteration n. dependency_latency: to its last end in iteration n + distance, the
    first that needs iteration n. wait: by how much a firing of the source starts at most after
    its release, for lack of tokens or space; 0 for a source that never has to wait.
    jitter: by how much the ends of the sink's firings stray from even distances, as the latest less
    the earliest; steady_jitter: without the transient.
    """

    source: str
    sink: str
    period: Fraction
    least_period: Fraction
    distance: int
    latency: Fraction | None
    dependency_latency: Fraction | None
    wait: Fraction | None
    jitter: Fraction | None
    steady_jitter: Fraction | None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        times = ("period", "least_period", *LATENCIES)
        found = {name: getattr(self, name) for name in times}
        return {
            "source": self.source,
            "sink": self.sink,
            "distance": self.distance,
            **{name: None if value is None else str(value) for name, value in found.items()},
        }


LATENCIES = ("latency", "dependency_latency", "wait", "jitter", "steady_jitter")


class _Run(NamedTuple):
    """Firings of the transient and the steady part, and of as many iterations more as are asked for."""

    firings: Sequence[Firing]
    transient: int
    steady: int


def source_latency(
    graph: Graph,
    source: str,
    sink: str,
    period: Exact,
    *,
    platform: Platform | None = None,
    mapping: Mapping | None = None,
    budget: Budget = None,
) -> SourceLatency:
    """Return latency and jitter behind a source that is released evenly, once an iteration in `period`.

    Firing i of the source starts at i * period / (its firings an iteration), or later where tokens or
    space are missing; all else starts as soon as it can. platform, mapping: with static orders,
    whose prefixes count, and with wheels that start together.
    By execution until a state recurs, so exact over all iterations. Raises Deadlocked; CsdfError
    where the sink never needs the source; InvalidGraph, InvalidMapping, GaveUp; NoRecurrence
    where no state recurs in time.
    Source: latency by dependency: Ghamarian et al., Latency minimization for synchronous data flow
    graphs, DSD 2007; jitter as in the event model "periodic with jitter": Richter, Jersak, Ernst, A
    formal approach to MpSoC performance verification, IEEE Computer 36(4), 2003.
    """
    wanted = exact(period, "period")
    if wanted <= 0:
        raise CsdfError(f"period {period}; expected more than 0")
    if (platform is None) != (mapping is None):
        raise CsdfError("a platform and a mapping belong together")
    budget = stop_of(budget)
    distance = dependency_distance(graph, source, sink, budget=budget)
    least = _least_period(graph, platform, mapping, budget)
    run = None
    if least <= wanted:
        clocked = with_clock(graph, source, wanted)
        run = _run(clocked, platform, mapping, distance, budget)
    numbers = (None,) * len(LATENCIES) if run is None else _measured(
        graph, run, _Question(source, sink, wanted, distance)
    )  # fmt: skip
    return SourceLatency(
        source=source,
        sink=sink,
        period=wanted,
        least_period=least,
        distance=distance,
        **dict(zip(LATENCIES, numbers, strict=True)),
    )


def _least_period(
    graph: Graph, platform: Platform | None, mapping: Mapping | None, budget: Budget
) -> Fraction:
    found: Throughput | MappedThroughput
    if platform is None or mapping is None:
        found = throughput(graph, budget=stop_of(budget))
        period = found.period
    else:
        found = mapped_throughput(graph, platform, mapping, budget=stop_of(budget))
        period = found.period
        if period and any(platform.core(core).wheel for core in mapping.orders):
            period = mapped_execution(graph, platform, mapping).period
    if period is None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {found.deadlock}")
    return period


def with_clock(graph: Graph, source: str, period: Fraction) -> Graph:
    """Return the graph with an actor that releases the firings of a source at even distances.

    The first one at time 0. period: of an iteration, in units of the user.
    """
    apart = period / graph.time_unit / repetition_vector(graph)[source]
    scale = apart.denominator
    actors = tuple(
        replace(
            actor,
            durations=tuple(time * scale for time in actor.durations),
            processors=tuple(
                replace(one, durations=tuple(time * scale for time in one.durations))
                for one in actor.processors
            ),
        )
        for actor in graph.actors
    )
    name = free_name(f"{CLOCK}{source}", {one.name for one in graph.actors}, between="_")
    taken = {one.name for one in graph.channels}
    ticks, release = (free_name(f"{name}: {one}", taken, between="_") for one in ("turn", "tick"))
    ones = (1,) * graph.actor(source).phases
    turn = Channel(
        name=ticks,
        producer=name,
        consumer=name,
        production=(1,),
        consumption=(1,),
        initial_tokens=1,
    )
    tick = Channel(
        name=release,
        producer=name,
        consumer=source,
        production=(1,),
        consumption=ones,
        initial_tokens=1,
    )
    return replace(
        graph,
        actors=(*actors, Actor(name=name, durations=(apart.numerator,))),
        channels=(*graph.channels, turn, tick),
        time_unit=graph.time_unit / scale,
        origin=None,
    )


def _run(
    clocked: Graph,
    platform: Platform | None,
    mapping: Mapping | None,
    distance: int,
    budget: Budget,
) -> _Run:
    """Execute the graph with its clock until a state recurs, and some iterations more."""
    if platform is None or mapping is None:
        first = self_timed_execution(clocked, budget=budget)
        if first.transient is None or first.steady is None:
            raise NoRecurrence(f"graph {clocked.name!r}: no state recurred behind the source")
        count = first.transient + first.steady + distance
        again = self_timed_execution(clocked, iterations=count, budget=budget)
        return _Run(again.firings, first.transient, first.steady)
    mapped = mapped_execution(clocked, platform, mapping)
    if mapped.transient is None or mapped.steady is None:
        raise Deadlocked(f"graph {clocked.name!r} deadlocks under these orders and has no latency")
    count = mapped.transient + mapped.steady + distance
    listed = mapped_execution(clocked, platform, mapping, iterations=count)
    return _Run(listed.firings, mapped.transient, mapped.steady)


class _Question(NamedTuple):
    source: str
    sink: str
    period: Fraction
    distance: int


def _measured(graph: Graph, run: _Run, asked: _Question) -> tuple[Fraction, ...]:
    """Return the numbers of LATENCIES over the transient and one steady part."""
    repetitions = repetition_vector(graph)
    made, taken = repetitions[asked.sink], repetitions[asked.source]
    count = run.transient + run.steady
    ends = [Fraction(0)] * (count + asked.distance)
    for one in run.firings:
        if one.actor == asked.sink and one.index // made < len(ends):
            ends[one.index // made] = max(ends[one.index // made], one.end)
    latency = max(ends[n] - n * asked.period for n in range(count))
    paired = max(ends[n + asked.distance] - n * asked.period for n in range(count))
    waits = [
        one.start - one.index * asked.period / taken
        for one in run.firings
        if one.actor == asked.source and one.index < count * taken
    ]
    strays = [
        (one.index // made, one.end - one.index * asked.period / made)
        for one in run.firings
        if one.actor == asked.sink and one.index < count * made
    ]
    jitter = _spread(stray for _, stray in strays)
    steady = _spread(stray for n, stray in strays if n >= run.transient)
    return latency, paired, max(waits), jitter, steady


def _spread(times: Iterable[Fraction]) -> Fraction:
    listed = list(times)
    return max(listed) - min(listed)


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
