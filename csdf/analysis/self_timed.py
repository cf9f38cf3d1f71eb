"""Self-timed execution as its users see it: firings, transient and steady part, occupancy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

from csdf.analysis.bounded import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.execution import Execution, steady_state
from csdf.analysis.liveness import Deadlock, deadlock
from csdf.errors import CsdfError, NoRecurrence
from csdf.model.graph import Channel, Graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.model.schedule import Firing
from csdf.model.shown import Shown
from csdf.stopping import Budget, Stop, stop_of

RECURRENCE_LIMIT = 1_000  # iterations to wait for a state of the whole graph to recur
FIRINGS_LIMIT = 5_000_000  # most firings that are kept as objects


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTimedExecution(Shown):
    """The first iterations of a graph in which every actor fires as soon as it can.

    firings: of the first `iterations` iterations, by start time. transient, steady: iterations before
    the first state of the whole graph that recurs, and until it does; both None if none did, as where
    one part runs ahead of another for ever. period: of the steady part, per iteration.
    peaks: most tokens that each channel held, space that a producer had claimed and space that a
    sliding window still kept counted in: with these as capacities the execution stays as it is,
    for ever if it has a steady part, the period is not 0 and no number of iterations was asked for.
    deadlock: why it came to an end; then everything else describes no firing at all.
    """

    firings: tuple[Firing, ...]
    iterations: int
    transient: int | None
    steady: int | None
    period: Fraction | None
    peaks: dict[str, int]
    deadlock: Deadlock | None

    def to_json(self) -> dict[str, Any]:
        """Return the execution as a JSON value, all firings included; times as texts."""
        return {
            "deadlock": self.deadlock is not None,
            "blocked": [] if self.deadlock is None else self.deadlock.to_json(),
            "iterations": self.iterations,
            "transient_iterations": self.transient,
            "steady_iterations": self.steady,
            "period": None if self.period is None else str(self.period),
            "peaks": dict(self.peaks),
            "firings": [one.to_json() for one in self.firings],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each firing, as for a data frame."""
        names = ("actor", "index", "phase", "start", "end")
        return [{name: getattr(one, name) for name in names} for one in self.firings]


def self_timed_execution(
    graph: Graph, *, iterations: int | None = None, budget: Budget = None
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
            peaks={channel.name: channel.initial_tokens for channel in graph.channels},
            deadlock=blocked,
        )  # fmt: skip
    repetitions = list(repetition_vector(graph).values())
    numbers = indexed(bound_channels(graph))
    require_few(sum(repetitions))
    recurrence = _recurrence(numbers, repetitions, stop)
    shown = iterations or (10 if recurrence is None else recurrence[0] + recurrence[1])
    require_few(sum(repetitions) * shown)
    starts = Execution(numbers, repetitions, budget=stop).recorded(shown)
    counts = [count * shown for count in repetitions]
    begins = [0, *accumulate(counts)]
    per_actor = {
        actor.name: [int(start) for start in starts[begins[i] : begins[i + 1]]]
        for i, actor in enumerate(graph.actors)
    }
    transient, steady, time = recurrence or (None, None, 0)
    observed = per_actor
    if iterations is None and recurrence is not None and time:
        observed = _continued(
            graph, per_actor, dict(zip(per_actor, repetitions, strict=True)), recurrence
        )
    return SelfTimedExecution(
        firings=_firings(graph, per_actor),
        iterations=shown,
        transient=transient,
        steady=steady,
        period=Fraction(time, steady) * graph.time_unit if steady else None,
        peaks={channel.name: _peak(graph, channel, observed) for channel in graph.channels},
        deadlock=None,
    )


def _recurrence(
    graph: IndexedGraph, firings: Sequence[int], stop: Stop
) -> tuple[int, int, int] | None:
    """Iterations before a state of the whole graph that recurs, iterations and time until it does."""
    try:
        state = steady_state(graph, firings, limit=RECURRENCE_LIMIT, budget=stop)
    except NoRecurrence:
        return None
    return None if state is None else (state.transient, state.iterations, state.time)


def require_few(firings: int) -> None:
    """Raise CsdfError for more firings than can be listed."""
    if firings > FIRINGS_LIMIT:
        raise CsdfError(
            f"{firings} firings to list; at most {FIRINGS_LIMIT}. Ask for fewer iterations, "
            "or for the throughput alone"
        )


def _firings(graph: Graph, starts: dict[str, list[int]]) -> tuple[Firing, ...]:
    unit = graph.time_unit
    listed = [
        Firing(
            start=start * unit,
            end=(start + actor.durations[index % actor.phases]) * unit,
            actor=actor.name,
            index=index,
            phase=index % actor.phases,
        )
        for actor in graph.actors
        for index, start in enumerate(starts[actor.name])
    ]
    return tuple(sorted(listed))


def _continued(
    graph: Graph,
    starts: dict[str, list[int]],
    repetitions: dict[str, int],
    recurrence: tuple[int, int, int],
) -> dict[str, list[int]]:
    """Repeat the steady part until no producer meets firings of the transient part any more."""
    transient, steady, time = recurrence
    rounds = 0
    for channel in graph.channels if transient else ():
        before = repetitions[channel.consumer] * transient
        last_end = max(_ends(graph, channel.consumer, starts[channel.consumer][:before]))
        first = starts[channel.producer][repetitions[channel.producer] * transient]
        rounds = max(rounds, -((first - last_end) // time))
    require_few(sum(repetitions.values()) * (transient + steady * (rounds + 1)))
    return {
        name: [
            *listed,
            *(
                start + round_ * time
                for round_ in range(1, rounds + 1)
                for start in listed[repetitions[name] * transient :]
            ),
        ]
        for name, listed in starts.items()
    }


def _ends(graph: Graph, name: str, starts: Sequence[int]) -> list[int]:
    durations = graph.actor(name).durations
    return [start + _rate(durations, i) for i, start in enumerate(starts)]


def _peak(graph: Graph, channel: Channel, starts: dict[str, list[int]]) -> int:
    consumer_starts = starts[channel.consumer]
    ends = _ends(graph, channel.consumer, consumer_starts)
    peak = peak_occupancy(channel, starts[channel.producer], consumer_starts, ends)
    if channel.capacity is None or channel.is_self_loop:
        return peak
    return min(peak, channel.capacity)  # with firings that last no time the peak is a bound only


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
    released = [0, *accumulate(_rate(channel.release_rates, i) for i in range(len(times)))]
    claimed = peak = channel.initial_tokens
    for index, start in enumerate(producer_starts):
        made = _rate(channel.production, index)
        claimed += made
        if made:
            peak = max(peak, claimed - released[bisect_right(in_order, (start, False))])
    return peak


def _rate(rates: Sequence[int], firing: int) -> int:
    return rates[firing % len(rates)]
