"""The answer of `csdf fifo` for one design: bottleneck, smallest depths, and depths to compare.

Three sets of depths are compared with the smallest: those of the file, depth 2 everywhere, and those of
FINN's rule `largefifo_rtlsim`, the maximum occupancy of unbounded FIFOs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from csdf.errors import GaveUp
from csdf.status import Status
from csdf.time_limit import Stop
from planners.fifo.cheapest_memories import MemoryCost, cheapest_depths
from planners.fifo.cores import (
    CoreCost,
    FifoCore,
    chain_cost,
    cheapest_chain,
    split_cores,
    total_cost,
    whole_core,
    with_cores,
)
from planners.fifo.design import LEAST_DEPTH, Design
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import EventCycle, EventGraph, Spend, spend_nothing
from planners.fifo.sizing import Sizing, smallest_depths

Stops = Callable[[], Stop]  # one for each search
POINTS = 8  # points of a front, from the minimum memory to the max. rate
# FINN simulates two frames, and raises every FIFO deeper than 2 to at least 32 (its optimize_depth).
FRAMES = 2
SHALLOW = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedDepths:
    """Depths of all FIFOs and their critical cycle; None if the simulation takes too long."""

    depths: tuple[int, ...]
    bits: int
    cycle: EventCycle | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The answer for one design.

    least_period: period of the bottleneck, the slowest layer. periods: of each layer alone. as_given,
    at_depth_2, automatic: the depths of the file, depth 2 everywhere, and the depths of FINN's rule.
    sizing: the smallest depths. cores: the FIFO cores that implement them; written: the depths of these
    cores, which are rounded up, and their period. cost: LUTs and memory blocks of the cores. fix: the
    smallest increase of the depths of the file that removes their deadlock.
    """

    design: Design
    least_period: Fraction
    bottleneck: int
    periods: tuple[Fraction, ...]
    as_given: TimedDepths | None
    at_depth_2: TimedDepths
    automatic: TimedDepths | None
    sizing: Sizing
    cores: tuple[tuple[FifoCore, ...], ...]
    written: TimedDepths | None
    cost: CoreCost
    fix: Sizing | None

    @property
    def estimate(self) -> tuple[int, int] | None:
        """The period that FINN estimates: the most cycles stated for a layer, and that layer."""
        estimates = [
            (layer.estimate, number)
            for number, layer in enumerate(self.design.layers)
            if layer.estimate is not None
        ]
        return max(estimates, key=lambda estimate: estimate[0], default=None)


def study(
    design: Design,
    *,
    period: Fraction | None = None,
    only_live: bool = False,
    is_split: bool = False,
    weights: Sequence[int] | None = None,
    cost: MemoryCost | None = None,
    stops: Stops = Stop,
) -> Study:
    """Return the smallest depths for a period, by default of the bottleneck, and comparisons.

    only_live: minimise memory without deadlock, for any period. weights: cost of an element of each
    FIFO. cost: cost of a memory as a function of its depth and width, instead of weights. is_split:
    whether a FIFO may be a chain of memories, at the sum of their costs. stops: of each search.
    """
    graph = EventGraph(design)
    least_period, bottleneck = max_rate(graph, stops().finishing().charge)
    evaluator = DesignEvaluator(graph)
    target_period = None if only_live else period or least_period
    at_depth_2 = _timed(graph, [LEAST_DEPTH] * len(design.fifos), stops())
    as_given: TimedDepths | None = None
    depths = [max(LEAST_DEPTH, fifo.given or 0) for fifo in design.fifos]
    if any(fifo.nodes for fifo in design.fifos) or max(depths, default=LEAST_DEPTH) > LEAST_DEPTH:
        # A model whose FIFO depths were never set states depth 2 at every layer.
        as_given = _timed(graph, depths, stops())
    price = chain_cost(cost) if is_split and cost is not None else cost
    sizing = _smallest(graph, target_period, stops(), weights, price)
    cores: tuple[tuple[FifoCore, ...], ...] = ()
    written = None
    if sizing.depths:
        whole = tuple(map(whole_core, sizing.depths))
        cores = _split(design, sizing.depths, cost) if is_split else whole
        written = _written(graph, cores, sizing, least_period, stops())
    try:
        depths = [*automatic_depths(graph, least_period, stops().finishing().charge)]
        automatic = TimedDepths(depths=tuple(depths), bits=design.bits(depths))
    except GaveUp:
        automatic = None
    return Study(
        design=design,
        least_period=least_period,
        bottleneck=bottleneck,
        periods=tuple(evaluator.alone(number) for number in range(len(design.layers))),
        as_given=as_given,
        at_depth_2=at_depth_2,
        automatic=automatic,
        sizing=sizing,
        cores=cores,
        written=written,
        cost=total_cost(design, cores) if cores else CoreCost(0, 0),
        fix=_fix(graph, as_given or at_depth_2, target_period, stops, sizing),
    )


def max_rate(graph: EventGraph, spend: Spend = spend_nothing) -> tuple[Fraction, int]:
    """Return the period of the slowest layer alone, a lower bound for all depths, and its number."""
    evaluator = DesignEvaluator(graph, spend=spend)
    layer = evaluator.slowest()
    return evaluator.alone(layer), layer


def period_of(graph: EventGraph, depths: Sequence[int], spend: Spend = spend_nothing) -> EventCycle:
    """Return the critical cycle of a design with these depths; a period of None is a deadlock."""
    cycle = DesignEvaluator(graph, spend=spend).critical_cycle(depths)
    if cycle is None:
        raise AssertionError("without a required period there is always a critical cycle")
    return cycle


def _smallest(
    graph: EventGraph,
    period: Fraction | None,
    stop: Stop,
    weights: Sequence[int] | None,
    cost: MemoryCost | None,
) -> Sizing:
    if cost is None:
        return smallest_depths(graph, period, stop=stop, weights=weights)
    return cheapest_depths(graph, period, cost, stop=stop)


def _timed(graph: EventGraph, depths: Sequence[int], stop: Stop) -> TimedDepths:
    try:
        cycle = period_of(graph, depths, stop.charge)
    except GaveUp:
        cycle = None
    return TimedDepths(depths=tuple(depths), bits=graph.design.bits(depths), cycle=cycle)


def _split(
    design: Design, depths: Sequence[int], cost: MemoryCost | None
) -> tuple[tuple[FifoCore, ...], ...]:
    """Return a chain of cores for each FIFO: the cheapest with a cost, else FINN's splits."""
    if cost is None:
        return tuple(map(split_cores, depths))
    pairs = zip(depths, design.fifos, strict=True)
    return tuple(cheapest_chain(depth, fifo.bits, cost) for depth, fifo in pairs)


def _written(
    graph: EventGraph,
    cores: Sequence[Sequence[FifoCore]],
    sizing: Sizing,
    least_period: Fraction,
    stop: Stop,
) -> TimedDepths:
    """Return the depths and the critical cycle of cores. A chain of cores delays its elements."""
    design, depths = graph.design, tuple(sum(core.depth for core in row) for row in cores)
    if any(len(row) > 1 for row in cores):
        design, depths = with_cores(design, cores)
        graph = EventGraph(design)
    # No simulation: deeper cores are no slower, and no period is below the bottleneck's.
    elif sizing.period == least_period:
        cycle = EventCycle(period=least_period, fifos=(), layers=())
        return TimedDepths(depths=depths, bits=design.bits(depths), cycle=cycle)
    return _timed(graph, depths, stop)


def _fix(
    graph: EventGraph,
    start: TimedDepths,
    target_period: Fraction | None,
    stops: Stops,
    sizing: Sizing,
) -> Sizing | None:
    """Return the smallest depths without deadlock that are no less than `start`, if it deadlocks."""
    # A fix is asked for only where the present depths deadlock.
    is_dead = start.cycle is not None and start.cycle.period is None
    if not is_dead or not sizing.depths:
        return None
    if target_period is None and max(start.depths, default=LEAST_DEPTH) == LEAST_DEPTH:
        return sizing
    # The floor keeps every depth of the file, so that the answer is an addition to it.
    return smallest_depths(graph, None, stop=stops(), floor=start.depths)


def front(
    design: Design,
    *,
    is_split: bool = False,
    weights: Sequence[int] | None = None,
    cost: MemoryCost | None = None,
    stops: Stops = Stop,
) -> list[Sizing]:
    """Return the trade-off: the smallest depths without deadlock, at the max. rate, and between.

    is_split, weights, cost: as in `study`. stops: returns the stop of the search of each point. The
    period of a point is the period of its depths or chains. Points that another point dominates, no
    slower and no more expensive, are removed.
    """
    graph = EventGraph(design)
    price = chain_cost(cost) if is_split and cost is not None else cost
    least_period, _ = max_rate(graph, stops().finishing().charge)

    def period(point: Sizing) -> Fraction | None:
        """The period of the depths; the target period if the simulation takes too long."""
        cycle = _timed(graph, point.depths, stops()).cycle
        return point.period if cycle is None else cycle.period

    minimum = _smallest(graph, None, stops(), weights, price)
    if not minimum.depths:
        return []
    slow = period(minimum) or least_period
    points = [minimum]
    for number in range(1, POINTS):
        target_period = slow + (least_period - slow) * Fraction(number, POINTS - 1)
        points.append(_smallest(graph, target_period, stops(), weights, price))
    timed = [(point, period(point)) for point in points if point.depths]
    if is_split:
        timed = [
            _as_chains(
                point,
                _written(graph, _split(design, point.depths, cost), point, least_period, stops()),
                minimum,
            )
            for point, _ in timed
        ]
    in_order = sorted(
        ((point, reached) for point, reached in timed if reached is not None),
        key=lambda pair: (pair[0].cost, pair[1], design.bits(pair[0].depths)),
    )
    front_points: list[Sizing] = []
    for point, reached in in_order:
        if not front_points or reached < (front_points[-1].period or 0):
            front_points.append(replace(point, period=reached, cycle=None, least_bits=None))
    return front_points


def _as_chains(
    sizing: Sizing, written: TimedDepths, minimum: Sizing
) -> tuple[Sizing, Fraction | None]:
    """Return a point with the period of its chains of cores, None if it is unknown.

    If the chains are slower than the target period, only the lower bound without a period is valid.
    """
    period = None if written.cycle is None else written.cycle.period
    if period is None or sizing.period is None or period <= sizing.period:
        return sizing, period
    bound = min(minimum.lower_bound, sizing.cost)
    status = Status.OPTIMAL if bound == sizing.cost else Status.FEASIBLE
    return replace(sizing, lower_bound=bound, status=status), period


def automatic_depths(
    graph: EventGraph, period: Fraction, spend: Spend = spend_nothing
) -> tuple[int, ...]:
    """Return the depths of FINN's rule `largefifo_rtlsim`, in our model of its simulation.

    Two frames enter unbounded FIFOs at the distance of the period. The depth is the maximum occupancy;
    if that is above 2, at least 32.
    """
    depths = []
    whole = graph.restricted(range(len(graph.design.layers)), [None] * len(graph.design.fifos))
    for writes, reads in whole.word_times(period, FRAMES, spend):
        held = np.arange(1, len(writes) + 1) - np.searchsorted(reads, writes, side="right")
        maximum = int(held.max(initial=0))
        depths.append(LEAST_DEPTH if maximum <= LEAST_DEPTH else max(maximum, SHALLOW))
    return tuple(depths)
