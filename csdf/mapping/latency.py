"""Latency, jitter and release delay after a strictly periodic source, and of a mapped graph.

The graph is executed until a state recurs, either self-timed, or with static orders and transfers. The
results are exact over all iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latency import dependency_distance, iteration_times
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.throughput import Throughput, throughput
from csdf.arguments import public
from csdf.errors import CsdfError, Deadlocked, NoRecurrence
from csdf.mapping.execution import mapped_execution
from csdf.mapping.model import Mapping, Platform
from csdf.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.model.exact import Exact, exact_above_zero
from csdf.model.graph import Actor, Channel, Graph, in_finer_time, self_loop
from csdf.model.schedule import Firing
from csdf.model.shown import Shown
from csdf.names import free_name
from csdf.time_limit import Budget, Stop, stop_of

CLOCK = "clock of "
LATENCIES = ("latency", "dependency_latency", "max_release_delay", "jitter", "steady_jitter")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLatency(Shown):
    """Latencies after a source whose firings are released at equal distances.

    period: of an iteration of the source; min_period: the minimum that the graph sustains. If
    min_period exceeds period, inputs accumulate without bound, and all other results are None.
    latency: maximum time from the release of iteration n of the source to the last end of the sink in
    iteration n. dependency_latency: to its last end in iteration n + distance, the first that depends
    on iteration n. max_release_delay: maximum time from a release of the source to the start of that
    firing. jitter: maximum less minimum deviation of the sink's ends from a strictly periodic
    sequence; steady_jitter: without the transient.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "source", "sink", "distance", "period", "min_period", *LATENCIES,
    )  # fmt: skip

    source: str
    sink: str
    period: Fraction
    min_period: Fraction
    distance: int
    latency: Fraction | None
    dependency_latency: Fraction | None
    max_release_delay: Fraction | None
    jitter: Fraction | None
    steady_jitter: Fraction | None


@public
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
    """Return latency and jitter after a strictly periodic source.

    Firing i of the source starts at i * period / (its firings per iteration), or later if tokens or
    space are missing; all other actors are self-timed. platform, mapping: with static orders,
    including their prefixes, and with wheels that start together. Computed by execution until a state
    recurs, so exact over all iterations. Raises Deadlocked; CsdfError if the sink never depends on the
    source; InvalidGraph, InvalidMapping, GaveUp; NoRecurrence if no state recurs in time. Source:
    latency by dependency: Ghamarian et al., Latency minimization for synchronous data flow graphs, DSD
    2007; jitter as in the event model "periodic with jitter": Richter, Jersak, Ernst, A formal
    approach to MpSoC performance verification, IEEE Computer 36(4), 2003.
    """
    exact_period = exact_above_zero(period, "period")
    if (platform is None) != (mapping is None):
        raise CsdfError("a platform and a mapping belong together")
    stop = stop_of(budget)
    distance = dependency_distance(graph, source, sink, budget=stop)
    unbounded: Throughput | MappedThroughput
    if platform is None or mapping is None:
        unbounded = throughput(graph, budget=stop)
        minimum = unbounded.period
    else:
        unbounded = mapped_throughput(graph, platform, mapping, budget=stop)
        minimum = unbounded.period
        if minimum and any(platform.core(core).wheel for core in mapping.orders):
            minimum = mapped_execution(graph, platform, mapping, budget=stop).period
    if minimum is None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks and has no latency: {unbounded.deadlock}")
    numbers: tuple[Fraction | None, ...] = (None,) * len(LATENCIES)
    if minimum <= exact_period:
        clocked = with_clock(graph, source, exact_period)
        if platform is None or mapping is None:
            run = _self_timed_run(clocked, distance, stop)
        else:
            run = _mapped_run(clocked, platform, mapping, distance, stop)
        numbers = _measured(repetition_vector(graph), run, source, sink, exact_period, distance)
    return SourceLatency(
        source=source, sink=sink, period=exact_period, min_period=minimum, distance=distance,
        **dict(zip(LATENCIES, numbers, strict=True)),
    )  # fmt: skip


def with_clock(graph: Graph, source: str, period: Fraction) -> Graph:
    """Return the graph with an actor that releases the firings of a source at equal distances.

    The first release is at time 0. period: of an iteration, in units of the user.
    """
    distance = period / graph.time_unit / repetition_vector(graph)[source]
    finer = in_finer_time(graph, distance.denominator)
    name = free_name(f"{CLOCK}{source}", {actor.name for actor in graph.actors}, between="_")
    used_names = {channel.name for channel in graph.channels}
    ticks, release = (
        free_name(f"{name}: {suffix}", used_names, between="_") for suffix in ("turn", "tick")
    )
    clock = Actor(name=name, durations=(distance.numerator,))
    tick = Channel(
        name=release, producer=name, consumer=source, production=(1,),
        consumption=(1,) * graph.actor(source).phases, initial_tokens=1,
    )  # fmt: skip
    channels = (*graph.channels, self_loop(clock, 1, ticks), tick)
    return replace(finer, actors=(*finer.actors, clock), channels=channels)


class _FiringPrefix(NamedTuple):
    """Firings of the transient, the steady part and the further iterations requested."""

    firings: Sequence[Firing]
    transient: int
    steady: int


def _self_timed_run(graph: Graph, more: int, stop: Stop) -> _FiringPrefix:
    first = self_timed_execution(graph, budget=stop)
    if first.transient is None or first.steady is None:
        raise NoRecurrence(f"graph {graph.name!r}: no state recurred behind the source")
    again = self_timed_execution(graph, iterations=first.iterations + more, budget=stop)
    return _FiringPrefix(again.firings, first.transient, first.steady)


def _mapped_run(
    graph: Graph, platform: Platform, mapping: Mapping, more: int, stop: Stop
) -> _FiringPrefix:
    first = mapped_execution(graph, platform, mapping, budget=stop)
    if first.transient is None or first.steady is None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks under these orders and has no latency")
    count = first.transient + first.steady + more
    again = mapped_execution(graph, platform, mapping, iterations=count, budget=stop)
    return _FiringPrefix(again.firings, first.transient, first.steady)


def _measured(
    repetitions: dict[str, int],
    run: _FiringPrefix,
    source: str,
    sink: str,
    period: Fraction,
    distance: int,
) -> tuple[Fraction, ...]:
    """Return the numbers of LATENCIES over the transient and one steady part."""
    sink_firings, source_firings = repetitions[sink], repetitions[source]
    count = run.transient + run.steady
    ends = [Fraction(0)] * (count + distance)
    waits: list[Fraction] = []
    deviations: list[list[Fraction]] = [[], []]  # of ends in the transient, in the steady part
    for firing in run.firings:
        if firing.actor == sink and firing.index // sink_firings < len(ends):
            n = firing.index // sink_firings
            ends[n] = max(ends[n], firing.end)
            if n < count:
                due = firing.index * period / sink_firings
                deviations[n >= run.transient].append(firing.end - due)
        if firing.actor == source and firing.index < count * source_firings:
            waits.append(firing.start - firing.index * period / source_firings)
    latency, paired = (
        max(ends[n + apart] - n * period for n in range(count)) for apart in (0, distance)
    )
    jitter, steady = (
        max(values) - min(values) for values in (deviations[0] + deviations[1], deviations[1])
    )
    return latency, paired, max(waits), jitter, steady


class OrderedLatency(NamedTuple):
    """Maximum times from the first start of the source in an iteration to the last end of the sink.

    by_iteration: in the same iteration. by_dependency: in the first iteration that depends on it,
    `distance` iterations later.
    """

    by_iteration: Fraction
    by_dependency: Fraction
    distance: int


@public
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

    Wheels start together. Raises Deadlocked; CsdfError if the sink never depends on the source;
    InvalidGraph, InvalidMapping; NoRecurrence if no state recurs in time; GaveUp if the budget ends.
    """
    stop = stop_of(budget)
    distance = dependency_distance(graph, source, sink, budget=stop)
    stop.look()
    try:
        run = _mapped_run(graph, platform, mapping, distance, stop)
    except NoRecurrence as error:
        raise NoRecurrence(
            f"{error}: one part may run ahead of another for ever. Bound its buffers, or give the "
            "source a period"
        ) from None
    count = run.transient + run.steady
    same, paired = (
        max(iteration_times(graph, run.firings, source=source, sink=sink, distance=apart)[:count])
        for apart in (0, distance)
    )
    return OrderedLatency(same, paired, distance)
