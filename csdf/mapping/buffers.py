"""Smallest buffers of a mapping for a required period, by the search over storage distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from csdf.analysis.consistency import repetition_vector
from csdf.arguments import public
from csdf.mapping.binding import bound_graph, buffer_sides, buffered_channel, require_valid
from csdf.mapping.model import Buffer, Mapping, Platform
from csdf.mapping.throughput import MappedThroughput, busy_times, ordered_throughput
from csdf.model.exact import Exact, exact_above_zero
from csdf.model.graph import Graph, SpaceName
from csdf.model.shown import Shown
from csdf.search.evaluator import PeriodEvaluation
from csdf.search.learned_bounds import fast_enough
from csdf.search.least import least_distribution
from csdf.search.variables import (
    SearchSpace,
    Variable,
    capacity_step,
    firings_each,
    least_capacity,
    token_weight,
)
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import Budget, stop_of


class BufferWhy(Why):
    """Why the search for the smallest buffers of a mapping ended by itself."""

    TOO_SLOW = "with unlimited buffers the period is {period}"
    STUCK = "with unlimited buffers the orders deadlock: {deadlock}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastBuffers(Shown):
    """The smallest buffers of a mapping for a required period, or bounds on their size.

    mapping: the input mapping with these buffers; found: its throughput; both None if no sufficient
    buffers are known. size: the sum of all buffers, in `unit`. status: `optimal` if no smaller size
    suffices for this binding and these orders; the size is at least `lower_bound`.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "goal", "size", "unit", "lower_bound", "status", "reason", "evaluations",
    )  # fmt: skip
    goal: ClassVar[str] = "buffers"

    mapping: Mapping | None
    found: MappedThroughput | None
    size: int | None
    lower_bound: int
    unit: str
    status: Status
    reason: Reason
    evaluations: int


@public
def min_buffers(
    graph: Graph,
    platform: Platform,
    mapping: Mapping,
    *,
    period: Exact | None = None,
    unit: str = "tokens",
    budget: Budget = None,
) -> LeastBuffers:
    """Return the smallest buffers with which a mapping has at most the given period.

    A channel within a processor has one buffer, a channel over a connection one on each side. The
    buffers of the mapping, and the capacities of the graph, are ignored; self-loops have no
    buffer. Slices count with response times. period: None for no deadlock. unit: of the size, tokens,
    bytes or bits. budget: a stop, or seconds; if it ends the search, the smallest buffers so far are
    returned, with the bound. Raises InvalidMapping, InconsistentGraph, CsdfError.
    Source: Stuijk et al., DAC 2007 (binding-aware graph); the search is the one of `smallest_storage`.
    """
    required = None if period is None else exact_above_zero(period, "period")
    require_valid(graph, platform, mapping)
    buffered = _BufferedMapping(graph, platform, mapping, unit)

    def refusal() -> Reason:
        free = buffered.throughput((None,) * len(buffered.variables))
        if free.period is None:
            return because(BufferWhy.STUCK, deadlock=free.deadlock)
        return because(BufferWhy.TOO_SLOW, period=free.period)

    stop = stop_of(budget)
    minimum = least_distribution(
        buffered, buffered.variables, fast_enough(required), stop, refusal=refusal
    )
    capacities = minimum.capacities
    return LeastBuffers(
        mapping=None if capacities is None else buffered.mapping_with(capacities),
        found=None if capacities is None else buffered.throughput(capacities),
        size=minimum.size,
        lower_bound=minimum.lower_bound,
        unit=unit,
        status=minimum.status,
        reason=minimum.reason,
        evaluations=buffered.count,
    )


class _BufferedMapping:
    """The mapped graph with chosen buffers; capacities in the order of the variables."""

    def __init__(self, graph: Graph, platform: Platform, mapping: Mapping, unit: str) -> None:
        self._mapping, self._repetitions = mapping, repetition_vector(graph)
        self._busy = busy_times(graph, platform, mapping)
        sides = buffer_sides(graph, platform, mapping)
        self._buffers = [(channel, side) for channel, listed in sides.items() for side in listed]
        choice, firings = SearchSpace(unit=unit), firings_each(len(self._buffers))
        channels = [buffered_channel(graph.channel(name), side) for name, side in self._buffers]
        self.variables = [
            Variable(
                channels=(channel,),
                least=least_capacity(channel, firings),
                step=capacity_step(channel),
                weight=token_weight(channel, choice),
            )
            for channel in channels
        ]
        self._occupied = [channel.initial_tokens for channel in channels]
        full = self.mapping_with(self._occupied)  # a space channel for each buffer, without space
        self._bound = bound_graph(graph, platform, full, is_conservative=True)
        # Channels of the bound graph whose tokens are the free space of a buffer, in the same order.
        # A graph of `bound_channels` has such names itself.
        names_of_graph = {channel.name for channel in graph.channels}
        names = (channel.name for channel in self._bound.channels)
        new_names = (name for name in names if name not in names_of_graph)
        spaces = [name for name in new_names if isinstance(name, SpaceName)]
        indices = range(len(self._buffers))
        self._index_of: dict[str, int] = dict(zip(spaces, indices, strict=True))
        self.firings = sum(repetition_vector(self._bound).values())
        self.count = 0
        self._known: dict[tuple[int | None, ...], PeriodEvaluation] = {}

    def mapping_with(self, capacities: Sequence[int]) -> Mapping:
        """Return the mapping with these buffers."""
        sizes: dict[str, dict[str, int]] = {}
        for (channel, side), capacity in zip(self._buffers, capacities, strict=True):
            sizes.setdefault(channel, {})[side] = capacity
        buffers = {channel: Buffer(**sides) for channel, sides in sizes.items()}
        return replace(self._mapping, buffers=buffers)

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the period with these buffers and its critical cycle; None: an unlimited buffer."""
        if capacities not in self._known:
            self.count += 1
            throughput = self.throughput(capacities)
            if throughput.period is None and not throughput.blocked:
                # The deadlock names no cycle, so any limited buffer may cause it.
                holding = {
                    index for index, capacity in enumerate(capacities) if capacity is not None
                }
            else:
                cycle = throughput.critical_cycle
                channels = throughput.blocked if cycle is None else cycle.channels
                holding = {self._index_of[name] for name in channels if name in self._index_of}
            self._known[capacities] = PeriodEvaluation(throughput.period, tuple(sorted(holding)))
        return self._known[capacities]

    def throughput(self, capacities: Sequence[int | None]) -> MappedThroughput:
        """Return the throughput with these buffers; None for an unlimited buffer."""
        channels = []
        for channel in self._bound.channels:
            index = self._index_of.get(channel.name)
            if index is None:
                channels.append(channel)
            elif (capacity := capacities[index]) is not None:
                free = capacity - self._occupied[index]
                channels.append(replace(channel, initial_tokens=free))
        bound = replace(self._bound, channels=tuple(channels), origin=None)
        return ordered_throughput(bound, self._mapping, self._repetitions, self._busy)
