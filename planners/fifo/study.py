"""The answer of `csdf fifo` about the FIFOs of one design.

The words in FIFOs that are never full: the base of FINN's own rule for depths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.fifo.cores import Core, Cost, cores_of, total_cost, with_cores
from planners.fifo.design import LEAST_DEPTH, Design
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import Circuit, EventSystem
from planners.fifo.sizing import (
    Sizing,
    full_rate,
    period_of,
    smallest_depths,
)
from planners.fifo.stepping import MemoryCost, cheapest_depths
from planners.fifo.timing.cluster import Numbers, Port

Stops = Callable[[], Stop]  # one for each search
POINTS = 8  # of a front between the full rate and the least memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Depths:
    """Depths of all FIFOs, and the circuit that sets the period in them; None if it takes too long."""

    depths: tuple[int, ...]
    bits: int
    circuit: Circuit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The answer for one design.

    full: the period of the slowest layer. periods: of each layer by itself. given, shallow, automatic:
    the depths of the file, depth 2 everywhere, and FINN's rule. sizing: the smallest depths; written:
    what the cores hold, and their period. repair: the least more that the depths of the file need.
    """

    design: Design
    full: Fraction
    slowest: int
    periods: tuple[Fraction, ...]
    given: Depths | None
    shallow: Depths
    automatic: Depths | None
    sizing: Sizing
    cores: tuple[tuple[Core, ...], ...]
    written: Depths | None
    cost: Cost
    repair: Sizing | None

    @property
    def estimate(self) -> tuple[int, str] | None:
        """The slowest layer by the notes of its builder, which takes it for the period."""
        noted = [
            (layer.estimate, layer.name)
            for layer in self.design.layers
            if layer.estimate is not None
        ]
        return max(noted, key=lambda one: one[0], default=None)


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
    """Return the smallest depths for a period, by default that of the full rate, and all around them.

    only_live: the least memory without deadlock instead. weights: what a word of each FIFO costs; cost:
    in place of it what a memory of a depth and a width costs. stops: called for each search, returns
    its stop.
    """
    system = EventSystem(design)
    full, slowest = full_rate(system)
    evaluator = DesignEvaluator(system)
    periods = tuple(evaluator.alone(one) for one in range(len(design.layers)))
    asked = None if only_live else period or full
    shallow = _depths(system, [LEAST_DEPTH] * len(design.fifos))
    given = _given(system)
    sizing = _smallest(system, asked, stops(), weights, cost)
    cores: tuple[tuple[Core, ...], ...] = ()
    written = None
    if sizing.depths:
        cores = cores_of(design, sizing.depths, is_split=is_split)
        written = _written(system, cores, sizing, full)
    return Study(
        design=design, full=full, slowest=slowest, periods=periods, given=given, shallow=shallow,
        automatic=_automatic(system, full), sizing=sizing, cores=cores, written=written,
        cost=total_cost(design, cores) if cores else Cost(),
        repair=_repair(system, given or shallow, asked, stops(), sizing),
    )  # fmt: skip


def _smallest(
    system: EventSystem,
    period: Fraction | None,
    stop: Stop,
    weights: Sequence[int] | None,
    cost: MemoryCost | None,
) -> Sizing:
    if cost is None:
        return smallest_depths(system, period, stop=stop, weights=weights)
    return cheapest_depths(system, period, cost, stop=stop)


def _depths(system: EventSystem, depths: Sequence[int]) -> Depths:
    try:
        circuit = period_of(system, depths)
    except GaveUp:
        circuit = None
    return Depths(depths=tuple(depths), bits=system.design.bits(depths), circuit=circuit)


def _written(
    system: EventSystem, cores: Sequence[Sequence[Core]], sizing: Sizing, full: Fraction
) -> Depths:
    """Return what the cores do: larger depths are never slower, but rows of cores delay words."""
    design, depths = system.design, tuple(sum(core.depth for core in row) for row in cores)
    if any(len(row) > 1 for row in cores):
        design, depths = with_cores(design, cores)
        system = EventSystem(design)
    elif sizing.period == full:  # which nothing beats
        circuit = Circuit(period=full, fifos=(), layers=())
        return Depths(depths=depths, bits=design.bits(depths), circuit=circuit)
    return _depths(system, depths)


def _given(system: EventSystem) -> Depths | None:
    """The depths of the file, if it gives any: of its FIFO nodes, or others than shallow ones."""
    fifos = system.design.fifos
    depths = [max(LEAST_DEPTH, fifo.given or 0) for fifo in fifos]
    has_nodes = any(fifo.nodes for fifo in fifos)
    if not has_nodes and all(depth == LEAST_DEPTH for depth in depths):
        return None  # FINN's models note depth 2 at every layer before depths are chosen
    return _depths(system, depths)


def _automatic(system: EventSystem, period: Fraction) -> Depths | None:
    try:
        depths = automatic_depths(system, period)
    except GaveUp:
        return None
    return Depths(depths=depths, bits=system.design.bits(depths), circuit=None)


def _repair(
    system: EventSystem, start: Depths, asked: Fraction | None, stop: Stop, sizing: Sizing
) -> Sizing | None:
    """The least that has to be added to some depths so that they do not deadlock."""
    is_dead = start.circuit is not None and start.circuit.period is None
    if not is_dead or not sizing.depths:
        return None
    if asked is None and max(start.depths, default=LEAST_DEPTH) == LEAST_DEPTH:
        return sizing
    return smallest_depths(system, None, stop=stop, floor=start.depths)


def front(
    design: Design,
    *,
    weights: Sequence[int] | None = None,
    cost: MemoryCost | None = None,
    stops: Stops = Stop,
) -> list[Sizing]:
    """Return the trade-off: the smallest depths without deadlock, at full rate, and between.

    weights, cost: as of `study`. stops: called for each point, returns the stop of its search. The
    period of the first point is that of its depths. Points that are no faster than one that costs no
    more are left out.
    """
    system = EventSystem(design)
    full, _ = full_rate(system)
    least = _smallest(system, None, stops(), weights, cost)
    if not least.depths:
        return []
    slow = period_of(system, least.depths).period or full
    found = [least]
    for number in range(1, POINTS):
        asked = slow + (full - slow) * Fraction(number, POINTS - 1)
        found.append(_smallest(system, asked, stops(), weights, cost))
    return _improving(system, found)


def _improving(system: EventSystem, points: list[Sizing]) -> list[Sizing]:
    """Each point with the period that its depths really have, if it is faster than those before."""
    timed = [(one, period_of(system, one.depths).period) for one in points if one.depths]
    in_order = sorted(
        ((one, period) for one, period in timed if period is not None),
        key=lambda pair: (pair[0].bits, pair[1], system.design.bits(pair[0].depths)),
    )
    found: list[Sizing] = []
    for point, period in in_order:
        if not found or period < (found[-1].period or 0):
            found.append(_at(point, period))
    return found


def _at(point: Sizing, period: Fraction) -> Sizing:
    return Sizing(
        period=period, status=point.status, depths=point.depths, bits=point.bits,
        lower_bound=point.lower_bound, is_narrow=point.is_narrow, circuit=None,
        evaluations=point.evaluations, reason=point.reason,
    )  # fmt: skip


FRAMES = 2  # that FINN simulates
SHALLOW = 32  # its optimize_depth: what is more than 2 becomes 32 at least


def automatic_depths(system: EventSystem, period: Fraction) -> tuple[int, ...]:
    """Return the depths of FINN's rule `largefifo_rtlsim`, in our model of its simulation.

    Two frames come at the distance of the period into FIFOs without end; the depth is the most words
    that one held, and from 3 on 32 at least.
    """
    times = system.restricted(
        range(len(system.design.layers)), [None] * len(system.design.fifos)
    ).times(period, FRAMES)
    found = []
    for fifo in system.design.fifos:
        written, read = system.design.ports(fifo)
        put = _words(times[system.series_of(fifo.producer, written)], written)
        taken = _words(times[system.series_of(fifo.consumer, read)], read)
        held = np.arange(1, len(put) + 1) - np.searchsorted(taken, put, side="right")
        most = int(held.max(initial=0))
        found.append(LEAST_DEPTH if most <= LEAST_DEPTH else max(most, SHALLOW))
    return tuple(found)


def _words(frames: Numbers, port: Port) -> Numbers:
    """The times of a port's words, from those of its series: one row a frame."""
    return np.ravel(frames if port.events is None else frames[:, port.events])
