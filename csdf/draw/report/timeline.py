"""Runs as data for the time line of the page: firings, what is steady, how full channels are.

They contain the tokens of a channel over time as steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, cycle, pairwise
from typing import Any, NamedTuple

from csdf.draw.report.findings import FirstIterations
from csdf.model.graph import Actor, Channel
from csdf.units import exact

LARGEST_TIME = 2**53  # integers of a browser are exact below
MOST_STEPS = 250_000  # of all channels of a run together


def run_data(run: FirstIterations) -> dict[str, Any]:
    """Return a run for the scripts; times in the graph's time units, each as the step from the last.

    Actors stand in the order in which they begin.
    """
    unit = run.graph.time_unit
    order = sorted(run.graph.actors, key=lambda actor: run.starts[actor.name][:1])
    channels, left = _channels(run)
    return {
        "title": run.title,
        "unit": [unit.numerator, unit.denominator],
        "period": None if run.period is None else exact(run.period),
        "cycle": run.cycle,
        "iterations": run.iterations,
        "transient": run.transient,
        "steady": run.steady,
        "settled": run.settled,
        "end": run.end,
        "actors": [_actor(run, actor) for actor in order],
        "channels": channels,
        "left": left,
    }


def _actor(run: FirstIterations, actor: Actor) -> dict[str, Any]:
    starts = run.starts[actor.name]
    count = run.repetitions[actor.name]
    steady = len(starts) if run.transient is None else count * run.transient
    return {
        "n": actor.name,
        "d": actor.durations[0] if len(set(actor.durations)) == 1 else list(actor.durations),
        "p": actor.phases,
        "q": count,
        "s": _differences(starts),
        "t": min(steady, len(starts)) if run.transient is not None else 0,
    }


def _channels(run: FirstIterations) -> tuple[list[dict[str, Any]], int]:
    """The channels that are no self-loops, as long as there is room, and how many are left."""
    channels: list[dict[str, Any]] = []
    room = MOST_STEPS
    between = [channel for channel in run.graph.channels if not channel.is_self_loop]
    for channel in between:
        consumer = run.graph.actor(channel.consumer)
        steps = occupancy_steps(
            channel, run.starts[channel.producer], consumer, run.starts[channel.consumer]
        )
        count = bisect_right(steps.times, run.end)
        room -= count
        if room < 0:
            break
        channels.append(_channel(channel, steps.times[:count], steps.tokens[:count]))
    return channels, len(between) - len(channels)


def _channel(channel: Channel, times: Sequence[int], tokens: Sequence[int]) -> dict[str, Any]:
    return {
        "n": channel.name,
        "a": channel.producer,
        "b": channel.consumer,
        "c": channel.capacity,
        "z": channel.token_size,
        "m": max(tokens),
        "t": _differences(times),
        "v": list(tokens),
    }


def _differences(values: Sequence[int]) -> list[int]:
    return [*values[:1], *(after - before for before, after in pairwise(values))]


class SpaceOverTime(NamedTuple):
    """Times at which the space in use changes, from 0 on, and what it is from then on."""

    times: tuple[int, ...]  # time units
    tokens: tuple[int, ...]


def occupancy_steps(
    channel: Channel,
    producer_starts: Sequence[int],
    consumer: Actor,
    consumer_starts: Sequence[int],
) -> SpaceOverTime:
    """Return the space in use: tokens, what running firings have claimed, and what windows keep.

    The starts are those of successive firings from the first on, in time units. What happens at one
    instant counts as one step. It never passes the capacity (csdf.analysis.self_timed.peak_occupancy).
    """
    changes: dict[int, int] = {0: 0}
    for time, tokens in (
        *zip(producer_starts, cycle(channel.production), strict=False),
        *_releases(channel, consumer, consumer_starts),
    ):
        changes[time] = changes.get(time, 0) + tokens
    times = [time for time in sorted(changes) if changes[time] or not time]
    used = accumulate((changes[time] for time in times), initial=channel.initial_tokens)
    return SpaceOverTime(tuple(times), tuple(used)[1:])


def _releases(
    channel: Channel, consumer: Actor, starts: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Space comes back in the order of the firings."""
    ends: Iterable[int] = accumulate(
        (
            start + duration
            for start, duration in zip(starts, cycle(consumer.durations), strict=False)
        ),
        max,
    )
    for end, space in zip(ends, cycle(channel.release_rates), strict=False):
        yield end, -space
