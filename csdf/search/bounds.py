"""Capacities that matter: the least one that can run, and the distance between useful ones."""

from __future__ import annotations

from math import gcd

from csdf.model.graph import Channel

FIRINGS = 1_000_000  # of one channel's two actors, before a weaker bound has to do;
ALL_FIRINGS = 3_000_000  # for all channels of a graph together, a few seconds


def capacity_step(channel: Channel) -> int:
    """Return the distance between useful capacities: one between them behaves like the lower one.

    All tokens and all space of a channel move in multiples of it, so that capacities count from the
    initial tokens on in such steps.
    """
    return gcd(*channel.production, *channel.consumption, *channel.release_rates)


def firings_each(channels: int) -> int:
    """Return how many firings may be looked at for each of so many channels."""
    return min(FIRINGS, ALL_FIRINGS // max(1, channels))


def least_capacity(channel: Channel, firings: int = FIRINGS) -> int:
    """Return the least capacity with which the two actors of the channel alone could run for ever.

    No storage distribution that runs has less on this channel. The consumer fires as soon as it can,
    the producer only when it must: then the space in use is never more than in any other order.
    Beyond so many firings a weaker bound is returned: what the fullest single firing needs.
    For SDF it equals p + c - gcd(p, c) + d mod gcd(p, c), or d if that is more.
    """
    if channel.is_self_loop:
        return _least_self_loop(channel)
    made = sum(channel.production)
    taken = sum(channel.consumption)
    shared = gcd(made, taken)
    producer_firings = taken // shared * len(channel.production)
    consumer_firings = made // shared * len(channel.consumption)
    if len(channel.production) == len(channel.consumption) == 1 and channel.release is None:
        least = made + taken - shared + channel.initial_tokens % shared
        return max(least, channel.initial_tokens)
    if producer_firings + consumer_firings > firings:
        fullest = max(*channel.production, *channel.consumption, channel.initial_tokens)
        return fullest + (channel.initial_tokens - fullest) % capacity_step(channel)
    return _lazy_peak(channel, consumer_firings)


def _least_self_loop(channel: Channel) -> int:
    """Tokens and the space of a firing's output overlap in a self-loop."""
    used = peak = channel.initial_tokens
    for made, given in zip(channel.production, channel.release_rates, strict=True):
        peak = max(peak, used + made)
        used += made - given
    return peak


def _lazy_peak(channel: Channel, consumer_firings: int) -> int:
    """The most space in use when the producer fires only for the consumer's next firing."""
    tokens = used = peak = channel.initial_tokens
    producer = 0
    for consumer in range(consumer_firings):
        phase = consumer % len(channel.consumption)
        while tokens < channel.consumption[phase]:
            made = channel.production[producer % len(channel.production)]
            tokens += made
            used += made
            peak = max(peak, used)
            producer += 1
        tokens -= channel.consumption[phase]
        used -= channel.release_rates[phase]
    return peak
