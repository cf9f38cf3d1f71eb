"""Deadlock by untimed simulation of one iteration, with a cycle of blocked actors as its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import cycle_vector
from csdf.arguments import public
from csdf.errors import GaveUp
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.model.shown import Shown
from csdf.model.untimed import UntimedRun
from csdf.status import Why, because
from csdf.time_limit import Budget, Stop, stop_of

STEPS = 20_000_000  # most steps of the untimed execution before it gives up


class LivenessWhy(Why):
    """Why it is not known whether a graph is live."""

    UNDECIDED = "deadlock is undecided after {steps} steps of untimed execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(Shown):
    """An actor that waits for tokens, or for space if the channel is the space of another."""

    actor: str
    channel: str
    tokens: int  # in the channel
    needed: int  # by the next firing
    producer: str  # the actor it waits for


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock(Shown):
    """A cycle of actors: each waits for the next, the last for the first."""

    cycle: tuple[Blocked, ...]

    def __str__(self) -> str:
        return "; ".join(
            f"{step.actor} waits for {step.producer} on {step.channel}: "
            f"has {step.tokens}, needs {step.needed}"
            for step in self.cycle
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return the cycle as a JSON value."""
        return [step.to_json() for step in self.cycle]


class Executed(Shown):
    """An answer that is a deadlock where its `deadlock` is not None."""

    __slots__ = ()
    deadlock: Deadlock | None

    @property
    def is_deadlocked(self) -> bool:
        """Whether there is a deadlock."""
        return self.deadlock is not None

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        """The actors that wait for one another in the deadlock, if there is one."""
        return () if self.deadlock is None else self.deadlock.cycle


@public
def deadlock(graph: Graph, *, budget: Budget = None) -> Deadlock | None:
    """Return a cycle of actors that block each other, or None if the graph is live.

    One iteration is simulated without times, whole phase cycles in one step if the tokens permit. A
    graph whose actors all complete an iteration can repeat it forever. The order of firings does not
    matter, so the answer is exact. budget: a stop, or seconds. Raises InconsistentGraph; GaveUp if the
    budget ends or the simulation takes too many steps.

    Source: Lee, Messerschmitt, Static scheduling of synchronous data flow programs, IEEE Trans.
    Computers C-36(1), 1987 (class S algorithm).
    """
    cycles = list(cycle_vector(graph).values())
    numbers = indexed(bound_channels(graph))
    run = IterationRun(numbers, cycles, stop_of(budget))
    return None if run.completes() else _waiting_cycle(numbers, run)


class IterationRun(UntimedRun):
    """An untimed simulation of an iteration, whole phase cycles in one step; it stops at a deadlock."""

    def __init__(self, graph: IndexedGraph, cycles: Sequence[int], stop: Stop) -> None:
        super().__init__(graph, [a * b for a, b in zip(cycles, graph.phases, strict=True)])
        self._stop = stop
        self._steps = 0
        channels = range(len(graph.producer))
        self._produced = [graph.produced(channel) for channel in channels]
        self._consumed = [graph.consumed(channel) for channel in channels]

    def completes(self, ready: Sequence[int] | None = None) -> bool:
        """Fire until all actors have completed their cycles; False for a deadlock.

        ready: actors that may be enabled now, if no actor was enabled before; by default all.
        """
        self._steps = 0
        self.exhaust(ready, self._stop.look)
        return self.first_unfinished() is None

    def advance(self, actor: int) -> bool:
        """Fire as many whole cycles as the tokens permit, or one phase; return whether any."""
        count = 0 if self.phase[actor] else self._cycles_allowed(actor)
        if count:
            for channel in self.inputs[actor]:
                self.tokens[channel] -= count * self._consumed[channel]
            for channel in self.outputs[actor]:
                self.tokens[channel] += count * self._produced[channel]
            self.firings[actor] += count * self.graph.phases[actor]
        # An actor of one phase that cannot fire a cycle cannot fire its phase.
        elif self.graph.phases[actor] == 1 or not super().advance(actor):
            return False
        self._steps += 1
        if self._steps > STEPS:
            raise GaveUp(because(LivenessWhy.UNDECIDED, steps=STEPS))
        return True

    def _cycles_allowed(self, actor: int) -> int:
        """Return the number of cycles that the actor can fire without firings of other actors."""
        count = (self.most[actor] - self.firings[actor]) // self.graph.phases[actor]
        for channel in self.inputs[actor]:
            if self.graph.producer[channel] != actor:
                allowed = self.tokens[channel] // self._consumed[channel]
                if allowed < count:
                    if not allowed:
                        return 0
                    count = allowed
            elif not self._loop_allows_a_cycle(channel):
                return 0
        return count

    def _loop_allows_a_cycle(self, channel: int) -> bool:
        tokens = self.tokens[channel]
        rates = zip(self.graph.productions(channel), self.graph.consumptions(channel), strict=True)
        for produced, needed in rates:
            if tokens < needed:
                return False
            tokens += produced - needed
        return True


def _waiting_cycle(graph: IndexedGraph, run: IterationRun) -> Deadlock:
    """Follow blocked actors from an unfinished actor to the awaited actor, until one repeats."""
    actor = run.first_unfinished()
    if actor is None:
        raise AssertionError("a blocked actor has firings left")
    path: list[Blocked] = []
    position: dict[int, int] = {}
    while actor not in position:
        position[actor] = len(path)
        channel = run.lacking(actor)
        if channel is None:
            raise AssertionError("a blocked actor lacks a token")
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
