"""Building a graph actor by actor and channel by channel."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm

from csdf.errors import InvalidGraph, Suspicious
from csdf.model.exact import Exact, exact
from csdf.model.graph import Actor, Channel, Graph, short_sequences

Rates = int | Sequence[int]


class GraphBuilder:
    """Collects actors and channels; `graph()` returns the frozen graph.

    Times may be integers, fractions or text such as "3/2" or "1.5", never floats. A single time or
    rate stands for all phases of the actor, and a shorter sequence repeats, as in SDF3: the number
    of phases is the least common multiple of the lengths.
    """

    def __init__(self, name: str = "graph") -> None:
        self._name = name
        self._times: dict[str, tuple[Fraction, ...]] = {}
        self._channels: list[Channel] = []
        self._lengths: dict[str, dict[str, int]] = {}  # of an actor's lists, by what they are
        self._names: set[str] = set()  # of the channels
        self._numbers: dict[str, int] = {}  # the last one behind a name that was taken

    def actor(
        self, name: str, times: Exact | Sequence[Exact], *, overlap: bool = True
    ) -> GraphBuilder:
        """Add an actor with the duration of each of its phases.

        overlap: False adds a self-loop with one token, so that firings do not overlap.
        """
        if name in self._times:
            raise InvalidGraph(f"two actors are named {name!r}")
        listed = (
            list(times) if isinstance(times, Sequence) and not isinstance(times, str) else [times]
        )
        if not listed:
            raise InvalidGraph(f"actor {name!r} has no phase; give at least one duration")
        self._lengths.setdefault(name, {})["its durations"] = len(listed)
        self._times[name] = tuple(
            exact(time, f"actor {name!r}: duration", InvalidGraph) for time in listed
        )
        if not overlap:
            self.channel(name, 1, name, 1, initial_tokens=1, name=f"{name} self-loop")
        return self

    def channel(
        self,
        producer: str,
        production: Rates,
        consumer: str,
        consumption: Rates,
        *,
        initial_tokens: int = 0,
        capacity: int | None = None,
        release: Rates | None = None,
        token_size: int | None = None,
        name: str | None = None,
    ) -> GraphBuilder:
        """Add a channel; without a name it is called after its actors."""
        consumption_rates = _listed(consumption)
        given_back = consumption_rates if release is None else _listed(release)
        length = lcm(len(consumption_rates) or 1, len(given_back) or 1)
        name = name or self._free_name(f"{producer} to {consumer}")
        self._names.add(name)
        lists = [
            (producer, "production", _listed(production)),
            (consumer, "consumption", consumption_rates),
        ]
        if release is not None:
            lists.append((consumer, "release", given_back))
        for end, what, rates in lists:
            self._lengths.setdefault(end, {})[f"{what} on {name!r}"] = len(rates) or 1
        self._channels.append(
            Channel(
                name=name,
                producer=producer,
                consumer=consumer,
                production=_listed(production),
                consumption=_repeated(consumption_rates, length),
                initial_tokens=initial_tokens,
                capacity=capacity,
                release=None if release is None else _repeated(given_back, length),
                token_size=token_size,
            )
        )
        return self

    def graph(self) -> Graph:
        """Return the graph. Raises InvalidGraph, which names the error.

        Issues the warning Suspicious if a list of phases is shorter than other lists of its actor.
        """
        for name, lengths in self._lengths.items():
            remark = short_sequences(name, lengths)
            if remark is not None:
                warnings.warn(remark, Suspicious, stacklevel=2)
        phases = {name: len(times) for name, times in self._times.items()}
        for channel in self._channels:
            for end, rates in (
                (channel.producer, channel.production),
                (channel.consumer, channel.consumption),
            ):
                phases[end] = lcm(phases.get(end, 1), len(rates))
        scale = lcm(*(time.denominator for times in self._times.values() for time in times))
        actors = tuple(
            Actor(
                name=name,
                durations=_repeated([int(time * scale) for time in times], phases[name]),
            )
            for name, times in self._times.items()
        )
        channels = tuple(
            replace(
                channel,
                production=_repeated(channel.production, phases[channel.producer]),
                consumption=_repeated(channel.consumption, phases[channel.consumer]),
                release=channel.release and _repeated(channel.release, phases[channel.consumer]),
            )
            for channel in self._channels
        )
        return Graph(
            name=self._name, actors=actors, channels=channels, time_unit=Fraction(1, scale)
        )

    def _free_name(self, preferred_name: str) -> str:
        if preferred_name not in self._names:
            return preferred_name
        number = self._numbers.get(preferred_name, 1) + 1
        while f"{preferred_name} {number}" in self._names:
            number += 1
        self._numbers[preferred_name] = number
        return f"{preferred_name} {number}"


def _listed(rates: Rates) -> tuple[int, ...]:
    return tuple(rates) if isinstance(rates, Sequence) else (rates,)


def _repeated(values: Sequence[int], length: int) -> tuple[int, ...]:
    return tuple(values) * (length // (len(values) or 1))
