"""Latency and jitter behind a source of a given rate, under self-timed execution or static orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latencies.by_dependency import dependency_distance
from csdf.analysis.mapping.execution import mapped_execution
from csdf.analysis.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.throughput import Throughput, throughput
from csdf.errors import CsdfError, Deadlocked, NoRecurrence
from csdf.model.exact import Exact, exact
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.mapping import Mapping, Platform
from csdf.model.schedule import Firing
from csdf.model.shown import Shown
from csdf.names import free_name
from csdf.stopping import Budget, stop_of

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
