"""The least room for tokens with which a mapping still reaches a required period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.mapping.binding import (
    SPACE,
    bound_graph,
    buffer_sides,
    buffered_channel,
    require_valid,
)
from csdf.analysis.mapping.throughput import MappedThroughput, ordered_throughput
from csdf.errors import CsdfError
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.model.mapping import Buffer, Mapping, Platform
from csdf.model.shown import Shown
from csdf.outcome import Reason, Status, Why, because
from csdf.search.evaluator import Evaluation
from csdf.search.least import least_distribution
from csdf.search.variables import (
    Choice,
    Variable,
    capacity_step,
    firings_each,
    least_capacity,
    token_weight,
)
from csdf.time_limit import Budget, Stop, stop_of

Room = tuple[str, str]  # a channel, and the side of it


class BufferWhy(Why):
    """Why the search for the least buffers of a mapping ended by itself."""

    TOO_SLOW = "with unlimited buffers the period is {period}"
    STUCK = "with unlimited buffers the orders deadlock: {deadlock}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastBuffers(Shown):
    """The least buffers of a mapping for a required period, or what is known about them.

    mapping: the given one with these buffers; found: its throughput; both None where no buffers are
    known, or none suffice. size: of all buffers together, in `unit`. status: `optimal` where no
    smaller size suffices for this binding and these orders; the size is at least `lower_bound`.
    """

    mapping: Mapping | None
    found: MappedThroughput | None
    size: int | None
    lower_bound: int
    unit: str
    status: Status
    reason: Reason
    evaluations: int

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        return {
            "goal": "buffers",
            "size": self.size,
            "unit": self.unit,
            "lower_bound": self.lower_bound,
            "status": self.status.value,
            "reason": str(self.reason),
            "evaluations": self.evaluations,
        }


def least_buffers(
    graph: Graph,
    platform: Platform,
    mapping: Mapping,
    *,
    period: Exact | None = None,
    unit: str = "tokens",
    budget: Budget = None,
) -> LeastBuffers:
    """Return the least buffers with which a mapping has at most the given period.

    A channel within a processor has one buffer, a channel over a connection one on each side. The
    buffers of the mapping, and the capacities of the graph, count for nothing; self-loops have no
    buffer. Slices count with response times. period: None for no deadlock. unit: of the size, tokens,
    bytes or bits. budget: a stop, or seconds; where it ends the search the least found by then is
    returned, with the bound. Raises InvalidMapping, InconsistentGraph, CsdfError.
    Source: Stuijk et al., DAC 2007 (binding-aware graph); the search is that of `smallest_storage`.
    """
    required = None if period is None else exact(period, "period")
    if required is not None and required <= 0:
        raise CsdfError(f"period {period}; expected more than 0")
    require_valid(graph, platform, mapping)
    return _Search(graph, platform, mapping, required, unit, stop_of(budget)).answer()


class _Evaluator:
    """The mapped graph under many choices of its buffers; capacities in the order of the variables.

    bound: the mapped graph, with a space channel for each of these rooms.
    """

    def __init__(
        self,
        bound: Graph,
        mapping: Mapping,
        repetitions: dict[str, int],
        rooms: Sequence[Room],
        variables: Sequence[Variable],
    ) -> None:
        self.count = 0
        self.firings = sum(repetition_vector(bound).values())
        self._bound = bound
        self._mapping = mapping
        self._repetitions = repetitions
        self._occupied = [one.channels[0].initial_tokens for one in variables]
        self._spaces = [f"{channel}{SPACE[side]}" for channel, side in rooms]
        self._place = {name: place for place, name in enumerate(self._spaces)}
        self._known: dict[tuple[int | None, ...], Evaluation] = {}

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        """Return the exact period with these buffers, None for one without limit, and what holds it."""
        if capacities not in self._known:
            self.count += 1
            found = self.throughput(capacities)
            cycle = found.critical_cycle.channels if found.critical_cycle else ()
            named = found.blocked if found.period is None else cycle
            holding = {self._place[name] for name in named if name in self._place}
            if found.period is None and not found.blocked:
                holding = {place for place, one in enumerate(capacities) if one is not None}
            self._known[capacities] = Evaluation(found.period, tuple(sorted(holding)))
        return self._known[capacities]

    def throughput(self, capacities: Sequence[int | None]) -> MappedThroughput:
        """Return the throughput with these buffers; None for one without limit."""
        channels = []
        for channel in self._bound.channels:
            place = self._place.get(channel.name)
            if place is None:
                channels.append(channel)
            elif (room := capacities[place]) is not None:
                free = room - self._occupied[place]
                channels.append(replace(channel, initial_tokens=free))
        bound = replace(self._bound, channels=tuple(channels), origin=None)
        return ordered_throughput(bound, self._mapping, self._repetitions)


class _Search:
    """A search for the buffers of a mapping."""

    def __init__(
        self,
        graph: Graph,
        platform: Platform,
        mapping: Mapping,
        required: Fraction | None,
        unit: str,
        stop: Stop,
    ) -> None:
        sides = buffer_sides(graph, platform, mapping)
        self.rooms = [(channel, side) for channel, listed in sides.items() for side in listed]
        self.variables = _variables(graph, self.rooms, unit)
        self.mapping, self.required, self.unit, self.stop = mapping, required, unit, stop
        full = [one.channels[0].initial_tokens for one in self.variables]
        bound = bound_graph(graph, platform, self._with_buffers(full), is_conservative=True)
        self.evaluator = _Evaluator(
            bound, mapping, repetition_vector(graph), self.rooms, self.variables
        )

    def _suffices(self, period: Fraction | None) -> bool:
        return period is not None and (self.required is None or period <= self.required)

    def answer(self) -> LeastBuffers:
        found = least_distribution(
            self.evaluator, self.variables, self._suffices, self.stop, refusal=self._refusal
        )
        capacities = found.capacities
        return LeastBuffers(
            mapping=None if capacities is None else self._with_buffers(capacities),
            found=None if capacities is None else self.evaluator.throughput(capacities),
            size=found.size,
            lower_bound=found.lower_bound,
            unit=self.unit,
            status=found.status,
            reason=found.reason,
            evaluations=self.evaluator.count,
        )

    def _refusal(self) -> Reason:
        free = self.evaluator.throughput((None,) * len(self.rooms))
        if free.period is None:
            return because(BufferWhy.STUCK, deadlock=free.deadlock)
        return because(BufferWhy.TOO_SLOW, period=free.period)

    def _with_buffers(self, capacities: Sequence[int]) -> Mapping:
        sizes: dict[str, dict[str, int]] = {}
        for (channel, side), capacity in zip(self.rooms, capacities, strict=True):
            sizes.setdefault(channel, {})[side] = capacity
        buffers = {channel: Buffer(**sides) for channel, sides in sizes.items()}
        return replace(self.mapping, buffers=buffers)


def _variables(graph: Graph, rooms: Sequence[Room], unit: str) -> list[Variable]:
    choice, firings = Choice(unit=unit), firings_each(len(rooms))
    found = []
    for name, side in rooms:
        channel = buffered_channel(graph.channel(name), side)
        found.append(
            Variable(
                channels=(channel,),
                least=least_capacity(channel, firings),
                step=capacity_step(channel),
                weight=token_weight(channel, choice),
            )
        )
    return found
