"""Deadlock: which actors wait for one another, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from csdf.analysis.bounded import bound_channels
from csdf.analysis.consistency import cycle_vector
from csdf.errors import GaveUp
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.model.shown import Shown
from csdf.outcome import Why, because
from csdf.stopping import Budget, Stop, stop_of

STEPS = 20_000_000  # most steps of the untimed execution before it gives up
STRIDE = 10_000  # steps between two looks at the stop


class LivenessWhy(Why):
    """Why it is not known whether a graph is live."""

    UNDECIDED = "deadlock is undecided after {steps} steps of untimed execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """An actor that waits for tokens, or for space if the channel is the space of another."""

    actor: str
    channel: str
    tokens: int  # in the channel
    needed: int  # by the next firing
    producer: str  # the actor it waits for

    def to_json(self) -> dict[str, Any]:
        """Return who waits for what as a JSON value."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock(Shown):
    """A cycle of actors each of which waits for the next; the last one for the first."""

    cycle: tuple[Blocked, ...]

    def __str__(self) -> str:
        return "; ".join(
            f"{one.actor} waits for {one.producer} on {one.channel}: "
            f"has {one.tokens}, needs {one.needed}"
            for one in self.cycle
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return the cycle as a JSON value."""
        return [one.to_json() for one in self.cycle]


def deadlock(graph: Graph, *, budget: Budget = None) -> Deadlock | None:
    """Return the cycle of actors that block one another, or None if the graph is live.

    budget: ends the analysis by GaveUp.

    Executes one iteration without times, whole cycles at once where the tokens allow it: a graph
    whose actors can all complete an iteration can do so for ever. Which firing comes first does not
    matter, so the answer is exact at any size; where it would take too many steps, raises GaveUp.
    Raises InconsistentGraph. Source: Lee, Messerschmitt, Static scheduling of synchronous data flow
    programs, IEEE Trans. Computers C-36(1), 1987 (class S algorithm).
    """
    cycles = list(cycle_vector(graph).values())
    numbers = indexed(bound_channels(graph))
    run = UntimedRun(numbers, cycles, stop_of(budget))
    return None if run.completes() else _waiting_cycle(numbers, run)


class UntimedRun:
    """One iteration by counting tokens; stops where nobody can fire."""

    def __init__(self, graph: IndexedGraph, cycles: Sequence[int], stop: Stop) -> None:
        self.graph = graph
        self._stop = stop
        self.tokens = list(graph.initial_tokens)
        self.phase = [0] * len(cycles)
        self.cycles_left = list(cycles)
        self.fired: list[int] = []  # those that have fired, the latest at the end
        self._finished = 0  # actors at the front that have no cycle left
        self._is_waiting = [False] * len(self.cycles_left)
        channels = range(len(graph.producer))
        self._inputs = [
            tuple(graph.input_channel[begin:end]) for begin, end in pairwise(graph.input_start)
        ]
        self._produced = [graph.produced(channel) for channel in channels]
        self._consumed = [graph.consumed(channel) for channel in channels]

    def completes(self, ready: Sequence[int] | None = None) -> bool:
        """Fire until all actors have completed their cycles, or nobody can fire: then False.

        ready: actors that may be able to fire by now, after nobody could; by default any.
        """
        waiting = list(range(len(self.cycles_left)) if ready is None else ready)
        is_waiting = self._is_waiting
        for actor in waiting:
            is_waiting[actor] = True
        steps = looked = 0
        while waiting:
            actor = waiting.pop()
            is_waiting[actor] = False
            before = steps
            while self.cycles_left[actor] and self._step(actor):
                steps += 1
                if steps - looked >= STRIDE:
                    looked = steps
                    self._stop.look()
                for follower in self._followers(actor):
                    if not is_waiting[follower]:
                        is_waiting[follower] = True
                        waiting.append(follower)
            if steps > before:
                self.fired.append(actor)
            if steps > STEPS:
                raise GaveUp(because(LivenessWhy.UNDECIDED, steps=STEPS))
        return self.first_unfinished() is None

    def first_unfinished(self) -> int | None:
        """Return the first actor that has cycles left, if there is any."""
        while self._finished < len(self.cycles_left) and not self.cycles_left[self._finished]:
            self._finished += 1
        return self._finished if self._finished < len(self.cycles_left) else None

    def _followers(self, actor: int) -> list[int]:
        graph = self.graph
        outputs = graph.output_channel[graph.output_start[actor] : graph.output_start[actor + 1]]
        return [graph.consumer[channel] for channel in outputs if graph.consumer[channel] != actor]

    def _step(self, actor: int) -> bool:
        """Fire as many whole cycles as the tokens allow, or else one phase; False if neither."""
        if self.phase[actor] == 0:
            count = self.cycles_left[actor]
            for channel in self._inputs[actor]:
                if self.graph.producer[channel] != actor:
                    count = min(count, self.tokens[channel] // self._consumed[channel])
                elif not self._loop_allows_a_cycle(channel):
                    count = 0
            if count:
                self._fire_cycles(actor, count)
                return True
        if self.lacking(actor) is not None:
            return False
        self._fire_phase(actor)
        return True

    def _loop_allows_a_cycle(self, channel: int) -> bool:
        graph = self.graph
        actor = graph.producer[channel]
        tokens = self.tokens[channel]
        for phase in range(graph.phases[actor]):
            needed = graph.consumption[graph.consumption_start[channel] + phase]
            if tokens < needed:
                return False
            tokens += graph.production[graph.production_start[channel] + phase] - needed
        return True

    def _fire_cycles(self, actor: int, count: int) -> None:
        graph = self.graph
        for channel in self._inputs[actor]:
            self.tokens[channel] -= count * self._consumed[channel]
        for port in range(graph.output_start[actor], graph.output_start[actor + 1]):
            channel = graph.output_channel[port]
            self.tokens[channel] += count * self._produced[channel]
        self.cycles_left[actor] -= count

    def _fire_phase(self, actor: int) -> None:
        graph, phase = self.graph, self.phase[actor]
        for channel in self._inputs[actor]:
            self.tokens[channel] -= graph.consumption[graph.consumption_start[channel] + phase]
        for port in range(graph.output_start[actor], graph.output_start[actor + 1]):
            channel = graph.output_channel[port]
            self.tokens[channel] += graph.production[graph.production_start[channel] + phase]
        self.phase[actor] = (phase + 1) % graph.phases[actor]
        if self.phase[actor] == 0:
            self.cycles_left[actor] -= 1

    def needed(self, actor: int, channel: int) -> int:
        """Return how many tokens the next firing of the actor takes from the channel."""
        graph = self.graph
        return graph.consumption[graph.consumption_start[channel] + self.phase[actor]]

    def lacking(self, actor: int) -> int | None:
        """Return an input without the tokens of the next phase, or None if the actor can fire."""
        graph, tokens, phase = self.graph, self.tokens, self.phase[actor]
        consumption, start = graph.consumption, graph.consumption_start
        for channel in self._inputs[actor]:
            if tokens[channel] < consumption[start[channel] + phase]:
                return channel
        return None


def _waiting_cycle(graph: IndexedGraph, run: UntimedRun) -> Deadlock:
    """Follow from a stuck actor whom it waits for, until an actor comes up again."""
    actor = run.first_unfinished()
    if actor is None:
        raise AssertionError("who is stuck has cycles left")
    path: list[Blocked] = []
    position: dict[int, int] = {}
    while actor not in position:
        position[actor] = len(path)
        channel = run.lacking(actor)
        if channel is None:
            raise AssertionError("a stuck actor lacks a token")
        path.append(
            Blocked(
                actor=graph.actor_names[actor],
                channel=graph.channel_names[channel],
                tokens=run.tokens[channel],
                needed=run.needed(actor, channel),
                producer=graph.actor_names[graph.producer[channel]],
            )
        )
        actor = graph.producer[channel]
    return Deadlock(cycle=tuple(path[position[actor] :]))
