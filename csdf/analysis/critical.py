"""Critical cycles: by the names of a graph, and read backwards from the start times of an execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Protocol

from csdf.analysis.period.periodic import Circuit
from csdf.model.indexed import IndexedGraph, is_ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalCycle:
    """A cycle of firings that no schedule can pass faster: the proof of a period.

    actors: the actors it visits; channels: the channels that lead from one to the next, in order,
    each named once. It holds `time` time units of firings and spans `tokens` iterations, so that
    time / tokens is the period.
    """

    actors: tuple[str, ...]
    channels: tuple[str, ...]
    time: Fraction
    tokens: int

    def to_json(self) -> dict[str, Any]:
        """Return the cycle as a JSON value; its time as text."""
        return {
            "actors": list(self.actors),
            "channels": list(self.channels),
            "time": str(self.time),
            "tokens": self.tokens,
        }


class Component(Protocol):
    """A strongly connected component: actors and channels of the whole graph.

    repeats: iterations of the component alone in one of the graph.
    """

    @property
    def actors(self) -> Sequence[int]: ...  # noqa: D102

    @property
    def channels(self) -> Sequence[int]: ...  # noqa: D102

    @property
    def repeats(self) -> int: ...  # noqa: D102


def named_cycle(
    graph: IndexedGraph, component: Component, circuit: Circuit, time: Fraction
) -> CriticalCycle:
    """Return a circuit of the component by the names of the graph; time: of its firings."""
    # `repeats` iterations of the component alone make one of the graph; go round often enough
    # to span whole iterations.
    tokens = circuit.height / component.repeats
    names = graph.actor_names, graph.channel_names
    actors = dict.fromkeys(names[0][component.actors[actor]] for actor in circuit.actors)
    channels = dict.fromkeys(
        names[1][component.channels[channel]] for channel in circuit.channels if channel >= 0
    )
    return CriticalCycle(
        actors=tuple(actors),
        channels=tuple(channels),
        time=time * tokens.denominator,
        tokens=tokens.numerator,
    )


class SteadyTrace:
    """Start times of whole iterations of the steady part, extended both ways.

    starts: those of actor a from position begins[a] on, firing by firing; firings: of each actor in
    the recorded iterations; time: by which the recorded part is later than the one before it.
    """

    def __init__(
        self, graph: IndexedGraph, firings: Sequence[int], starts: Sequence[int], time: int
    ) -> None:
        self.graph = graph
        self.firings = list(firings)
        self.time = time
        self._starts = starts
        self._begins = [0, *accumulate(firings)][:-1]
        self._made = _cycle_sums(graph, graph.production_start, graph.production, graph.producer)
        self._is_ordered = [is_ordered(graph, actor) for actor in range(len(graph.phases))]
        self._taken = _cycle_sums(graph, graph.consumption_start, graph.consumption, graph.consumer)

    def start(self, actor: int, firing: int) -> int:
        """Start of a firing, counted from the beginning of the recorded part; may be negative."""
        rounds, index = divmod(firing, self.firings[actor])
        return int(self._starts[self._begins[actor] + index]) + rounds * self.time

    def duration(self, actor: int, firing: int) -> int:
        """Duration of a firing."""
        graph = self.graph
        return graph.duration[graph.duration_start[actor] + firing % graph.phases[actor]]

    def cause(self, actor: int, firing: int) -> tuple[int, int, int]:
        """Return what decided the start of a firing: a channel, and the producer's firing.

        The channel is -1 where it is the start of the actor's previous firing.
        """
        graph = self.graph
        now = self.start(actor, firing)
        for port in range(graph.input_start[actor], graph.input_start[actor + 1]):
            channel = graph.input_channel[port]
            if graph.consumption[graph.consumption_start[channel] + firing % graph.phases[actor]]:
                found = self._token_of(channel, firing, now)
                if found is not None:
                    return channel, graph.producer[channel], found
        return -1, actor, firing - 1

    def _token_of(self, channel: int, firing: int, now: int) -> int | None:
        """The firing whose end made the last token available at `now`, if one did."""
        graph = self.graph
        needed = _sum_upto(self._taken[channel], firing) - graph.initial_tokens[channel]
        producer = graph.producer[channel]
        sums = self._made[channel]
        source = _first_reaching(sums, needed)
        earliest = source - self.firings[producer]
        while source > earliest:
            makes = _sum_upto(sums, source) > _sum_upto(sums, source - 1)
            end = self.start(producer, source) + self.duration(producer, source)
            if makes and end == now:
                return source
            source -= 1
            if makes and self._is_ordered[producer]:
                return None
        return None


def critical_circuit(trace: SteadyTrace, iterations: int) -> Circuit:
    """Return a cycle of firings each of which started as soon as the one before it ended.

    iterations: how many the trace holds. Such a cycle exists, since every start has a cause, and its
    time over its iterations is the period. O(firings in the trace) at worst.
    """
    actor, firing = 0, 0
    position: dict[tuple[int, int], int] = {}
    path: list[tuple[int, int, int]] = []
    while True:
        key = (actor, firing % trace.firings[actor])
        if key in position:
            break
        position[key] = len(path)
        channel, producer, source = trace.cause(actor, firing)
        path.append((actor, firing, channel))
        actor, firing = producer, source
    loop = path[position[key] :]
    rounds = (loop[0][1] - firing) // trace.firings[actor]
    # loop[i] was caused through its channel by loop[i + 1], the last one by loop[0] a round before.
    causes = [*loop[1:], loop[0]]
    channels = [channel for _, _, channel in loop]
    steps = list(zip(causes, channels, strict=True))[::-1]
    return Circuit(
        actors=tuple(one for (one, _, _), _ in steps),
        channels=tuple(channels[::-1]),
        time=sum(trace.duration(one, index) for (one, index, _), channel in steps if channel >= 0),
        height=Fraction(rounds * iterations),
    )


def _cycle_sums(
    graph: IndexedGraph, starts: Sequence[int], rates: Sequence[int], owner: Sequence[int]
) -> list[list[int]]:
    """For each channel the sums of its rates up to and with each phase of the cycle."""
    return [
        list(accumulate(rates[start : start + graph.phases[actor]]))
        for start, actor in zip(starts, owner, strict=True)
    ]


def _sum_upto(sums: Sequence[int], firing: int) -> int:
    """Tokens moved by the firings up to and with this one; negative before the first."""
    cycles, phase = divmod(firing, len(sums))
    return cycles * sums[-1] + sums[phase]


def _first_reaching(sums: Sequence[int], tokens: int) -> int:
    """The first firing with which the sum reaches so many tokens."""
    cycles = (tokens - 1) // sums[-1]
    rest = tokens - cycles * sums[-1]
    phase = next(i for i, upto in enumerate(sums) if upto >= rest)
    return cycles * len(sums) + phase
