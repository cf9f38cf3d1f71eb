"""How full a channel is over time, as steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, cycle
from typing import NamedTuple

from csdf.model.graph import Actor, Channel


class Steps(NamedTuple):
    """Times at which the space in use changes, from 0 on, and what it is from then on."""

    times: tuple[int, ...]  # time units
    tokens: tuple[int, ...]


def occupancy_steps(
    channel: Channel,
    producer_starts: Sequence[int],
    consumer: Actor,
    consumer_starts: Sequence[int],
) -> Steps:
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
    return Steps(tuple(times), tuple(used)[1:])


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
