"""Period as an exact function of the capacity of one channel: a decreasing step function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from typing import Any, ClassVar

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.critical import CriticalCycle
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.analysis.varying import VaryingGraph
from csdf.arguments import Positive, public
from csdf.bisection import first_above_zero
from csdf.errors import CsdfError, Deadlocked
from csdf.model.graph import Channel, Graph
from csdf.model.shown import Shown, Tabular
from csdf.status import Reason, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of

MOST_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStep(Shown):
    """From this capacity on the graph has this period, until the next step; cycle: what sets it."""

    capacity: int
    period: Fraction
    cycle: CriticalCycle | None


class StepsWhy(Why):
    """Why the period is known for some capacities only."""

    MOST = "{steps} steps are computed, as many as were allowed, and more capacity still helps"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySteps(Tabular):
    """The period as a function of one capacity; with less than the first step the graph deadlocks.

    is_complete: whether no larger capacity has a smaller period than the last step. reason: why the
    function ended before that.
    """

    FLOATS: ClassVar[tuple[str, ...]] = ("period",)

    channel: str
    steps: tuple[CapacityStep, ...]
    is_complete: bool
    reason: Reason | None = None

    def period(self, capacity: int) -> Fraction | None:
        """Return the exact period with this capacity, None for a deadlock.

        Raises CsdfError beyond the last step of an incomplete function.
        """
        reached = [step for step in self.steps if step.capacity <= capacity]
        if not self.is_complete and len(reached) == len(self.steps):
            raise CsdfError(f"channel {self.channel!r}: {capacity} is beyond what was computed")
        return reached[-1].period if reached else None

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each step."""
        return [{"capacity": step.capacity, "period": step.period} for step in self.steps]


@public
def capacity_steps(
    graph: Graph,
    channel: str,
    *,
    most: Positive = MOST_STEPS,
    budget: Budget = None,
) -> CapacitySteps:
    """Return the period for every capacity of the channel, all others being as they are.

    most: steps after which the function ends incomplete; where nothing else limits the graph there is
    no last one. Raises InconsistentGraph; InvalidGraph for an unknown channel; CsdfError for a
    self-loop; Deadlocked whatever the capacity is; GaveUp where the budget, a stop or
    seconds, ends the function before its first step;
    later it returns the steps until then, as after Ctrl-C.
    """
    stop = stop_of(budget)
    bounded = graph.channel(channel)
    if bounded.is_self_loop:
        raise CsdfError(f"channel {channel!r} is a self-loop; these have no capacity here")
    channels = tuple(
        replace(candidate, capacity=None, release=None) if candidate.name == channel else candidate
        for candidate in graph.channels
    )
    free = replace(graph, channels=channels, origin=None)
    best = throughput(free, budget=stop).period
    if best is None:
        raise Deadlocked("the graph deadlocks, whatever the capacity of this channel is")
    step = gcd(*bounded.production, *bounded.consumption, *bounded.release_rates)
    capacity = _least_live(graph, bounded, step, stop)
    varying = VaryingGraph(with_capacities(graph, {channel: capacity}), stop)
    space = varying.numbers.channel_names.index(channel) + 1  # its reverse channel comes next
    tokens = list(varying.numbers.initial_tokens)
    steps: list[CapacityStep] = []
    reason = None
    try:
        while not steps or (steps[-1].period > best and len(steps) < most):
            critical = varying.critical({}, tokens)
            period = critical.period or Fraction(0)
            if not steps or period < steps[-1].period:
                cycle = varying.named(critical)
                steps.append(CapacityStep(capacity=capacity, period=period, cycle=cycle))
            capacity += step
            tokens[space] += step
    except ENDS as end:
        if not steps:
            raise
        reason = reason_of(end)
    is_complete = steps[-1].period <= best
    return CapacitySteps(
        channel=channel,
        steps=tuple(steps),
        is_complete=is_complete,
        reason=None if is_complete else reason or because(StepsWhy.MOST, steps=most),
    )


def _least_live(graph: Graph, channel: Channel, step: int, stop: Stop) -> int:
    """The least capacity with which the graph runs: it does with one that is large enough."""

    def runs(steps: int) -> bool:
        bounded = with_capacities(graph, {channel.name: channel.initial_tokens + steps * step})
        return deadlock(bounded, budget=stop) is None

    if runs(0):
        return channel.initial_tokens
    return channel.initial_tokens + first_above_zero(runs) * step
