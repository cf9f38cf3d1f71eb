"""Evaluator of a design for the searches: depths in; period and FIFOs without space out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Protocol

from csdf.search.evaluator import PeriodEvaluation
from planners.fifo.design import LEAST_DEPTH, Design
from planners.fifo.event_graph import EventCycle, Spend, spend_nothing

Depths = Sequence[int | None]


class TimedPart(Protocol):
    """A subgraph of a design at fixed depths, with its critical cycles; see Subgraph."""

    simulated: int

    def deadlock(self, spend: Spend = ...) -> EventCycle | None: ...  # noqa: D102

    def cycle_above(self, period: Fraction, spend: Spend = ...) -> EventCycle | None: ...  # noqa: D102

    def max_occupancy(self, number: int, period: Fraction, spend: Spend = ...) -> int: ...  # noqa: D102


class TimedDesign(Protocol):
    """A design whose period depends on FIFO depths: an EventGraph, or one call of a design in HLS.

    alone: periods of single layers.
    """

    @property
    def design(self) -> Design: ...  # noqa: D102

    @property
    def alone(self) -> dict[int, Fraction]: ...  # noqa: D102

    def components(self, depths: Depths) -> list[list[int]]: ...  # noqa: D102

    def restricted(self, layers: Iterable[int], depths: Depths) -> TimedPart: ...  # noqa: D102


QUESTION_EFFORT = 150  # microseconds of a typical machine for an answer without its simulation
# Latest answers of each kind that may answer a new question by monotonicity, in linear time each.
LATEST = 64


class DesignEvaluator:
    """Evaluator of csdf.search for a design, by the times of its events.

    Depths are tuples in the order of the FIFOs, None for one without a bound. required: a period in
    cycles; then an evaluation returns this period, or the period of a slower cycle. Infinite periods
    are None. only_live: only deadlocks are detected. Each strongly connected group of layers is
    simulated once, or not at all if an earlier answer implies its answer: more depth is never slower.
    """

    firings = 0  # for csdf.search, which then never counts an evaluation as long work

    def __init__(
        self,
        graph: TimedDesign,
        *,
        required: Fraction | None = None,
        only_live: bool = False,
        spend: Spend = spend_nothing,
    ) -> None:
        self.graph = graph
        self.count = 0
        self.simulations = 0  # without answers that follow from earlier ones
        self.work = 0  # the events of all simulations
        self.spend = spend
        self._required = required
        self._only_live = only_live
        self._known: dict[tuple[tuple[int, ...], Depths], EventCycle | None] = {}
        self._sufficient: dict[tuple[int, ...], deque[Depths]] = {}  # by groups of layers
        self._latest: dict[tuple[tuple[int, ...], Depths], TimedPart] = {}  # that sufficed
        self._cycles: deque[EventCycle] = deque(maxlen=LATEST)

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the period at these depths, and the FIFOs on its critical cycle."""
        cycle = self.critical_cycle(capacities)
        if cycle is not None:
            return PeriodEvaluation(cycle.period, cycle.fifos)
        return PeriodEvaluation(Fraction(1) if self._only_live else self._required, ())

    def reaches(self, period: Fraction | None) -> bool:
        """Whether the period of an evaluation is as low as required."""
        return period is not None and (self._required is None or period <= self._required)

    def suffices(self, depths: Depths) -> bool:
        """Whether these depths reach the required period, or have no deadlock."""
        return self.critical_cycle(depths) is None

    def critical_cycle(self, depths: Depths) -> EventCycle | None:
        """Return a cycle above the required period, or the slowest cycle if none is required."""
        self.count += 1
        worst: EventCycle | None = None
        # Small groups first: a deadlock or a slow cycle in one saves the simulation of large groups.
        for group in sorted(self.graph.components(depths), key=len):
            evaluation = self._group_cycle(group, depths)
            if evaluation is not None and (evaluation.period is None or self._required is not None):
                return evaluation
            if evaluation is not None and (worst is None or _period(evaluation) > _period(worst)):
                worst = evaluation
        if self._required is not None or self._only_live:
            return worst
        layer = self.slowest()
        if worst is not None and _period(worst) > self.alone(layer):
            return worst
        return EventCycle(period=self.alone(layer), fifos=(), layers=(layer,))

    def _group_cycle(self, layers: list[int], depths: Depths) -> EventCycle | None:
        """Return the critical cycle of a group of layers; answers are kept by the depths inside it."""
        inside = set(layers)
        own_depths = tuple(
            depth
            for fifo, depth in zip(self.graph.design.fifos, depths, strict=True)
            if fifo.producer in inside and fifo.consumer in inside
        )
        key = (tuple(layers), own_depths)
        if key not in self._known:
            self.spend(QUESTION_EFFORT)
            if self._only_live or self._required is not None:
                self._known[key] = self._cycle_above_required(layers, own_depths, depths)
            else:
                part = self.graph.restricted(layers, depths)
                self._known[key] = _slowest_cycle(part, max(map(self.alone, layers)), self.spend)
        return self._known[key]

    def _cycle_above_required(
        self, layers: Sequence[int], own: Depths, depths: Depths
    ) -> EventCycle | None:
        """A cycle above the required period, from earlier answers or by simulation."""
        sufficient = self._sufficient.setdefault(tuple(layers), deque(maxlen=LATEST))
        # Monotonicity: at least as much depth everywhere as depths that suffice is enough.
        if any(_is_within(depths_known, own) for depths_known in sufficient):
            return None
        # A known cycle answers for all depths in its infeasible region, without a simulation.
        for cycle in self._cycles:
            if cycle.infeasible.holds(depths) and set(cycle.layers) <= set(layers):
                return cycle
        self.simulations += 1
        part = self.graph.restricted(layers, depths)
        if self._required is None:
            slow_cycle = part.deadlock(self.spend)
        else:
            slow_cycle = part.cycle_above(self._required, self.spend)
        self.work += part.simulated
        if slow_cycle is None:
            sufficient.append(own)
            self._latest = {(tuple(layers), own): part}
        else:
            self._cycles.append(slow_cycle)
        return slow_cycle

    def max_occupancy(self, depths: Depths, index: int) -> int | None:
        """Return a depth of one FIFO that is as good as an unbounded one; None if unknown.

        depths: of the other FIFOs. The result is the maximum occupancy in self-timed execution.
        """
        if self._required is None:
            return None
        bounded = list(depths)
        # Any bound joins the two ends of the FIFO in one group, which has to be simulated together.
        bounded[index] = 1
        end = self.graph.design.fifos[index].producer
        group = next(component for component in self.graph.components(bounded) if end in component)
        part = self.graph.restricted(group, depths)
        if part.cycle_above(self._required, self.spend) is not None:
            return None
        return part.max_occupancy(index, self._required, self.spend)

    def occupied(self, depths: tuple[int, ...]) -> tuple[int, ...]:
        """Return depths without unused space; the given depths reach the required period.

        All events keep their times, so one simulation gives the occupancies of all FIFOs.
        """
        if self._required is None:
            return depths
        maximum = list(depths)
        for group in self.graph.components(depths):
            inside = set(group)
            indices = [
                index
                for index, fifo in enumerate(self.graph.design.fifos)
                if fifo.producer in inside and fifo.consumer in inside
            ]
            key = (tuple(group), tuple(depths[index] for index in indices))
            part = self._latest.get(key)
            if part is None:
                part = self.graph.restricted(group, depths)
                if part.cycle_above(self._required, self.spend) is not None:
                    return depths
                self.work += part.simulated
            for index in indices:
                held = part.max_occupancy(index, self._required, self.spend)
                maximum[index] = min(depths[index], max(LEAST_DEPTH, held))
        return tuple(maximum)

    def slowest(self) -> int:
        """Return the layer with the longest period alone, a lower bound at any depths."""
        return max(range(len(self.graph.design.layers)), key=self.alone)

    def alone(self, layer: int) -> Fraction:
        """Return the period of a layer whose FIFOs never delay it."""
        periods = self.graph.alone
        if layer not in periods:
            # No layer is faster than its longest sequence, one event after the other.
            minimum = Fraction(
                max(
                    sequence.events * sequence.gap
                    if sequence.gaps is None
                    else sum(sequence.gaps.tolist())
                    for sequence in self.graph.design.layers[layer].cluster.sequences
                )
            )
            part = self.graph.restricted([layer], [None] * len(self.graph.design.fifos))
            slowest = _slowest_cycle(part, minimum, self.spend)
            # Periods of layers alone do not depend on depths: each is computed once for a design.
            periods[layer] = (None if slowest is None else slowest.period) or minimum
        return periods[layer]


def _is_within(less: Depths, more: Depths) -> bool:
    return all(
        high is None or (low is not None and low <= high)
        for low, high in zip(less, more, strict=True)
    )


def _slowest_cycle(part: TimedPart, period: Fraction, spend: Spend) -> EventCycle | None:
    """Return the slowest cycle with a period above a given one; None if there is none."""
    slowest = None
    while (slower := part.cycle_above(period, spend)) is not None:
        slowest = slower
        if slower.period is None:
            break
        # Howard-like iteration: each cycle is slower than the last, until the slowest.
        period = slower.period
    return slowest


def _period(cycle: EventCycle) -> Fraction:
    return cycle.period or Fraction(0)
