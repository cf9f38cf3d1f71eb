"""Values that a page about a graph shows: results of analyses, and executions to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from csdf.analysis.liveness import Blocked
from csdf.analysis.throughput import Throughput
from csdf.model.graph import Graph
from csdf.search.pareto import ParetoFront, SmallestStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstIterations:
    """The first iterations of a self-timed execution in given capacities.

    graph: with the capacities of this run. repetitions: firings of each actor in an iteration, each
    phase counted. starts: of the firings of each actor, in the graph's time units. iterations:
    executed. transient: iterations before the first state that recurs; steady: iterations of one
    recurrence; cycle: time of one recurrence. All three are None if no state recurred. end: time up to
    which all firings are listed; if no state recurred, the end of the last iteration.
    """

    title: str
    graph: Graph
    repetitions: Mapping[str, int]
    starts: Mapping[str, tuple[int, ...]]
    iterations: int
    transient: int | None
    steady: int | None
    cycle: int | None
    end: int

    @property
    def period(self) -> Fraction | None:
        """Time of an iteration in the steady part, in the units of the user."""
        if self.cycle is None or self.steady is None:
            return None
        return Fraction(self.cycle, self.steady) * self.graph.time_unit

    @property
    def settled(self) -> int | None:
        """Time from which on all starts are steady; None if no steady start is listed.

        It is the latest first start of an actor after the transient iterations.
        """
        if self.transient is None or self.transient >= self.iterations:
            return None
        return max(
            self.starts[name][count * self.transient] for name, count in self.repetitions.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FasterActor:
    """The period if an actor took half its time. actors: limit the graph with that duration."""

    actor: str
    period: Fraction
    actors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFindings:
    """The findings about a graph; None, or an entry of `left_out`, where something is not known.

    period_bounds: lower and upper, where the period was not found in time. unit, time: names of the
    units of storage sizes and of the period. left_out: for a part of the page the reason why it does
    not exist.
    """

    graph: Graph
    repetitions: Mapping[str, int]
    result: Throughput | None
    period_bounds: tuple[Fraction | None, Fraction | None] = (None, None)
    faster: tuple[FasterActor, ...] = ()
    smallest: SmallestStorage | None = None
    front: ParetoFront | None = None
    unit: str = "tokens"
    time: str = "time units"
    runs: tuple[FirstIterations, ...] = ()
    left_out: Mapping[str, str]

    @property
    def work(self) -> dict[str, Fraction]:
        """Time that the firings of each actor take in one iteration, in units of the user."""
        return {
            actor.name: self.repetitions[actor.name]
            // actor.phases
            * sum(actor.durations)
            * self.graph.time_unit
            for actor in self.graph.actors
        }

    @property
    def critical_actors(self) -> tuple[str, ...]:
        """The actors that limit the graph, or that block one another."""
        cycle = None if self.result is None else self.result.critical_cycle
        return tuple(firing.actor for firing in self.blocked) if cycle is None else cycle.actors

    @property
    def critical_channels(self) -> tuple[str, ...]:
        """The channels on the critical cycle, or on the cycle of a deadlock.

        The space of a channel is named after the channel.
        """
        cycle = None if self.result is None else self.result.critical_cycle
        return tuple(firing.channel for firing in self.blocked) if cycle is None else cycle.channels

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        """The cycle of a deadlock; empty where there is none."""
        deadlock = None if self.result is None else self.result.deadlock
        return () if deadlock is None else deadlock.cycle
