"""Self-timed execution as its users see it: firings, transient and steady part, occupancy."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, cycle, groupby, islice
from operator import itemgetter
from typing import Any, ClassVar

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.execution import SteadyState, first_starts, recurrence, repeated
from csdf.analysis.liveness import Deadlock, Executed, deadlock
from csdf.arguments import Positive, public
from csdf.errors import CsdfError
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.indexed import indexed
from csdf.model.schedule import Firing
from csdf.model.shown import Tabular
from csdf.time_limit import Budget, Stop, stop_of

RECURRENCE_LIMIT = 1_000  # iterations to wait for a state of the whole graph to recur
FIRINGS_LIMIT = 5_000_000  # most firings that are kept as objects
STRIDE = 1_000  # firings of an actor between two looks at the stop


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTimedExecution(Executed, Tabular):
    """The first iterations of a graph in which every actor fires as soon as it can.

    firings: of the first `iterations` iterations, by start time. transient, steady: iterations before
    the first state of the whole graph that recurs, and until it does; both None if none did, as where
    one part runs ahead of another for ever. period: of the steady part, per iteration.
    max_occupancy: most tokens that each channel held, space that a producer had claimed and space that
    a sliding window still kept counted in: with these as capacities the execution stays as it is, for
    ever if it has a steady part, the period is not 0 and no number of iterations was asked for.
    deadlock: why it came to an end; then everything else describes no firing at all.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "deadlock=is_deadlocked", "blocked", "iterations", "transient_iterations=transient",
        "steady_iterations=steady", "period", "max_occupancy", "firings",
    )  # fmt: skip
    FLOATS: ClassVar[tuple[str, ...]] = ("start", "end")

    firings: tuple[Firing, ...]
    iterations: int
    transient: int | None
    steady: int | None
    period: Fraction | None
    max_occupancy: dict[str, int]
    deadlock: Deadlock | None

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each firing."""
        names = ("actor", "index", "phase", "start", "end")
        return [{name: getattr(firing, name) for name in names} for firing in self.firings]


@public
def self_timed_execution(
    graph: Graph, *, iterations: Positive | None = None, budget: Budget = None
) -> SelfTimedExecution:
    """Execute the graph and return its firings; capacities count.

    iterations: how many to list; by default the transient and one steady part, or ten where no
    state of the whole graph recurs. budget: a stop, or seconds.
    Raises InconsistentGraph, GaveUp where the budget ends the execution, and CsdfError where the
    firings to list are more than five million.
    """
    stop = stop_of(budget)
    blocked = deadlock(graph, budget=stop)
    if blocked is not None:
        return SelfTimedExecution(
            firings=(), iterations=0, transient=None, steady=None, period=None,
            max_occupancy={channel.name: channel.initial_tokens for channel in graph.channels},
            deadlock=blocked,
        )  # fmt: skip
    repetitions = repetition_vector(graph)
    numbers = indexed(bound_channels(graph))
    require_few(sum(repetitions.values()))
    steady = recurrence(numbers, list(repetitions.values()), limit=RECURRENCE_LIMIT, budget=stop)
    shown = iterations or (10 if steady is None else steady.transient + steady.iterations)
    require_few(sum(repetitions.values()) * shown)
    starts = first_starts(numbers, repetitions, shown, budget=stop)
    observed: Mapping[str, Sequence[int]] = starts
    if iterations is None and steady is not None and steady.time:
        observed = _continued(graph, starts, repetitions, steady)
    return SelfTimedExecution(
        firings=list_firings(graph, starts, stop),
        iterations=shown,
        transient=None if steady is None else steady.transient,
        steady=None if steady is None else steady.iterations,
        period=None if steady is None else steady.period * graph.time_unit,
        max_occupancy=_peaks(graph, observed, stop),
        deadlock=None,
    )


def require_few(firings: int) -> None:
    """Raise CsdfError for more firings than can be listed."""
    if firings > FIRINGS_LIMIT:
        raise CsdfError(
            f"{firings} firings to list; at most {FIRINGS_LIMIT}. Ask for fewer iterations, "
            "or for the throughput alone"
        )


def list_firings(
    graph: Graph, starts: Mapping[str, Sequence[int]], stop: Stop
) -> tuple[Firing, ...]:
    """List the firings by start time; a merge looks at the stop, which one sort of millions cannot."""
    unit = graph.time_unit

    def timed(actor: Actor) -> Iterator[tuple[int, int, str, int, int]]:
        """Yield start, end, name, number and phase of the firings of one actor, sorted."""
        durations, phases = actor.durations, actor.phases
        for _, together in groupby(enumerate(starts[actor.name]), key=itemgetter(1)):
            yield from sorted(
                (start, start + durations[index % phases], actor.name, index, index % phases)
                for index, start in together
            )

    firings: list[Firing] = []
    for start, end, name, index, phase in heapq.merge(*map(timed, graph.actors)):
        if index % STRIDE == 0:
            stop.look()
        firings.append(
            Firing(start=start * unit, end=end * unit, actor=name, index=index, phase=phase)
        )
    return tuple(firings)


def _continued(
    graph: Graph,
    starts: Mapping[str, Sequence[int]],
    repetitions: Mapping[str, int],
    steady: SteadyState,
) -> dict[str, list[int]]:
    """Repeat the steady part until no producer meets firings of the transient part any more."""
    before = {name: firings * steady.transient for name, firings in repetitions.items()}
    rounds = 0
    for channel in graph.channels if steady.transient else ():
        consumer = channel.consumer
        last_end = max(_ends(graph, consumer, starts[consumer][: before[consumer]]))
        first = starts[channel.producer][before[channel.producer]]
        rounds = max(rounds, -((first - last_end) // steady.time))
    iterations = steady.transient + steady.iterations * (rounds + 1)
    require_few(sum(repetitions.values()) * iterations)
    return {
        name: list(
            islice(
                repeated(listed, transient=before[name], period=steady.time),
                repetitions[name] * iterations,
            )
        )
        for name, listed in starts.items()
    }


def _ends(graph: Graph, name: str, starts: Sequence[int]) -> list[int]:
    return [start + time for start, time in zip(starts, cycle(graph.actor(name).durations))]


def _peaks(graph: Graph, starts: Mapping[str, Sequence[int]], stop: Stop) -> dict[str, int]:
    peaks = {}
    for channel in graph.channels:
        stop.look()
        consumer_starts = starts[channel.consumer]
        ends = _ends(graph, channel.consumer, consumer_starts)
        peak = peak_occupancy(channel, starts[channel.producer], consumer_starts, ends)
        if channel.capacity is not None and not channel.is_self_loop:
            peak = min(peak, channel.capacity)  # a bound only, with firings that last no time
        peaks[channel.name] = peak
    return peaks


def peak_occupancy(
    channel: Channel,
    producer_starts: Sequence[int],
    consumer_starts: Sequence[int],
    consumer_ends: Sequence[int],
) -> int:
    """Return the most space in use: what firings have claimed, less what the consumer gave back.

    The times are those of successive firings from the first on. Space comes back in the order of the
    firings, and at one instant before it is claimed; but not from a firing that also starts then,
    since that one may wait for the claim.
    """
    times = [(end, start == end) for start, end in zip(consumer_starts, consumer_ends, strict=True)]
    in_order = list(accumulate(times, max))
    release_rates = islice(cycle(channel.release_rates), len(times))
    released = list(accumulate(release_rates, initial=0))
    claimed = peak = channel.initial_tokens
    for start, produced in zip(producer_starts, cycle(channel.production)):
        claimed += produced
        if produced:
            peak = max(peak, claimed - released[bisect_right(in_order, (start, False))])
    return peak
