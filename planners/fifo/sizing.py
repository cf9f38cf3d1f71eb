"""The smallest depths of all FIFOs of a design: for its full rate, a given one, or no deadlock.

Each FIFO with all others unbounded gives depths that no answer goes below. Where these do not suffice
together, the cheapest FIFOs grow, and are made narrow: no single one can be less. Then two ways take
turns, as far as time allows: words of one FIFO are exchanged for fewer bits in another, and
planners.fifo.proving finds and proves the smallest, part by part. Turns are counted in events, not in
seconds, so more time only ever continues what less time did: no answer becomes worse by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from csdf.outcome import Reason, Status, Why, because
from csdf.time_limit import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import Circuit, EventSystem
from planners.fifo.growing import exchanged, grown, least_depths, narrowed
from planners.fifo.proving import Parts

Depths = tuple[int, ...]
Look = Callable[[], None]

LARGE = 500_000  # events a frame, above which depths are grown in a hurry


class SizingWhy(Why):
    """Why a search for depths ended by itself."""

    PROVED = "no fewer {of} suffice"
    CHEAPEST = "no cheaper memories suffice"
    NO_DEPTHS = "no depths reach it"


def _never() -> None:
    """Look at nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Depths in the order of the FIFOs, and what is known about them.

    period: the one asked for, None for no deadlock. status: optimal if no depths of fewer bits do, of
    all whole numbers from 2 on, in the model of the design; feasible with a proved bound of the bits;
    infeasible if no depths do, with the circuit; unknown if none were found in time.
    is_narrow: whether it was found out that no single depth can be less. least_bits: where something
    else than bits was to be small, the bits that any depths for the period have at least.
    """

    period: Fraction | None
    status: Status
    depths: tuple[int, ...]
    bits: int
    lower_bound: int
    is_narrow: bool
    circuit: Circuit | None
    evaluations: int
    reason: Reason
    least_bits: int | None = None

    @property
    def gap(self) -> Fraction:
        """How far the bits may be above the smallest, relative to the bound."""
        return Fraction(self.bits - self.lower_bound, max(1, self.lower_bound))


class _Proved(Exception):
    """The bound has reached what was found."""


class Sizer:
    """A question about a design: what was found so far, and what is proved."""

    def __init__(
        self,
        system: EventSystem,
        period: Fraction | None,
        stop: Stop,
        weights: Sequence[int] | None = None,
        floor: Sequence[int] | None = None,
    ) -> None:
        fifos = system.design.fifos
        self._of = (
            "bits" if weights is None else "words" if set(weights) <= {1} else "weighted words"
        )
        self._period = period
        self._stop = stop
        self._weights = [one.bits for one in fifos] if weights is None else list(weights)
        self._evaluator = DesignEvaluator(
            system, required=period, only_live=period is None, look=stop.look
        )
        self._best: Depths = ()
        self._floor = list(floor or [LEAST_DEPTH] * len(fifos))
        self._start: Sequence[int] = self._floor
        self._least = tuple(self._floor)
        self._bound = self._size(self._floor)
        self._is_narrow = False
        self._parts: Parts | None = None

    def _size(self, depths: Sequence[int]) -> int:
        return sum(map(int.__mul__, depths, self._weights))

    def answer(self) -> Sizing:
        """Return the smallest depths, or the best by the time the stop ends the work."""
        try:
            if (circuit := held_back(self._evaluator, self._period)) is not None:
                return self._sizing(Status.INFEASIBLE, because(SizingWhy.NO_DEPTHS), circuit)
            self._prove(self._find())
        except _Proved:
            return self._sizing(Status.OPTIMAL, self._proof())
        except ENDS as end:
            self._note_bound()
            reason = reason_of(end)
            if not self._best:
                self._hurry()
            if self._best and self._size(self._best) == self._bound:
                return self._sizing(Status.OPTIMAL, self._proof())
            return self._sizing(Status.FEASIBLE if self._best else Status.UNKNOWN, reason)
        return self._sizing(Status.OPTIMAL, self._proof())

    def _proof(self) -> Reason:
        return because(SizingWhy.PROVED, of=self._of)

    def _find(self) -> Parts:
        """Find depths of which no single one can be less; return what proves the smallest.

        A large design has some at once, grown from the floor: words then wait in few FIFOs.
        """
        if is_large := self._evaluator.system.design.events > LARGE:
            self._grow(is_hurried=True)
        self._least = tuple(map(max, least_depths(self._evaluator), self._floor))
        self._start, self._bound = self._least, self._size(self._least)
        parts = Parts(self._evaluator, self._least, self._weights, self._floor, self._look)
        self._parts = parts
        self._narrow(self._best if is_large else self._grow())
        return parts

    def _grow(self, *, is_hurried: bool = False) -> Depths:
        most = [None] * len(self._start) if self._parts is None else self._parts.most
        for found, is_enough in grown(self._evaluator, self._start, most, is_hurried=is_hurried):
            self._start = found
            if is_enough:
                self._take(found)
        return tuple(self._start)

    def _narrow(self, depths: Depths) -> None:
        for found in narrowed(self._evaluator, depths, self._least, self._weights):
            self._take(found)
            depths = found
        if depths == self._best:
            self._is_narrow = True

    def _take(self, depths: Depths) -> None:
        if self._best and self._size(depths) >= self._size(self._best):
            return
        self._best, self._is_narrow = depths, False
        if self._parts is not None:
            self._parts.take(depths)
        if self._size(depths) <= self._bound:
            self._is_narrow = True
            raise _Proved

    def _prove(self, parts: Parts) -> None:
        """Look by turns for smaller depths and for a proof that there are none."""
        spent = self._evaluator.work
        exchanges = self._exchanges(parts)
        for known in parts.proved(self._best):
            self._note_bound()
            if self._improve(known):
                exchanges = self._exchanges(parts)
            end = 2 * self._evaluator.work - spent
            while self._evaluator.work < end and next(exchanges, None):
                pass
            spent = self._evaluator.work
        raise _Proved

    def _exchanges(self, parts: Parts) -> Iterator[bool]:
        """Take ever cheaper depths, words of one FIFO being exchanged for those of another."""
        for found in exchanged(self._evaluator, self._best, self._least, parts.most, self._weights):
            self._take(found)
            yield True
        if not self._is_narrow:
            self._narrow(self._best)

    def _improve(self, known: Mapping[int, int]) -> bool:
        """Take the depths of some FIFOs, if they suffice with those of the best for all others.

        Returns whether they do, and cost less.
        """
        depths = tuple(known.get(place, depth) for place, depth in enumerate(self._best))
        if self._size(depths) >= self._size(self._best):
            return False
        if self._evaluator.circuit(depths) is not None:
            return False
        self._take(depths)
        return True

    def _look(self) -> None:
        """Look at the stop, and whether the bound has reached what was found."""
        self._stop.look()
        self._note_bound()
        if self._best and self._bound >= self._size(self._best):
            raise _Proved

    def _note_bound(self) -> None:
        if self._parts is not None:
            self._bound = max(self._bound, self._parts.lower_bound)

    def _hurry(self) -> None:
        """Find anything that suffices, after the stop has ended the work."""
        self._evaluator.look = _never
        with suppress(_Proved):
            self._grow(is_hurried=True)

    def _sizing(self, status: Status, reason: Reason, circuit: Circuit | None = None) -> Sizing:
        size = self._size(self._best)
        bound = min(self._bound, size) if size else self._bound
        return Sizing(
            period=self._period, status=status, depths=self._best, bits=size,
            lower_bound=size if status is Status.OPTIMAL else bound,
            is_narrow=self._is_narrow, circuit=circuit, evaluations=self._evaluator.count,
            reason=reason,
        )  # fmt: skip


def held_back(evaluator: DesignEvaluator, period: Fraction | None) -> Circuit | None:
    """Return what holds a design back even with FIFOs without end; None if some depths suffice."""
    design = evaluator.system.design
    slow = [one for one in range(len(design.layers)) if evaluator.alone(one) > (period or 0)]
    if period is not None and slow:
        worst = max(slow, key=evaluator.alone)
        return Circuit(period=evaluator.alone(worst), fifos=(), layers=(worst,))
    return evaluator.circuit([None] * len(design.fifos))


def smallest_depths(
    system: EventSystem,
    period: Fraction | None,
    *,
    stop: Stop | None = None,
    weights: Sequence[int] | None = None,
    floor: Sequence[int] | None = None,
) -> Sizing:
    """Return the smallest depths with at most this period, or without deadlock if it is None.

    weights: what a word of each FIFO costs; by default its bits. floor: depths that none goes below.
    """
    return Sizer(system, period, stop or Stop(), weights, floor).answer()


def period_of(system: EventSystem, depths: Sequence[int]) -> Circuit:
    """Return the circuit that sets the period of a design in these depths; None is a deadlock."""
    found = DesignEvaluator(system).circuit(depths)
    if found is None:
        raise AssertionError("without a required period there is always a circuit")
    return found


def full_rate(system: EventSystem) -> tuple[Fraction, int]:
    """Return the period of the slowest layer by itself, and its number: no depths do better."""
    evaluator = DesignEvaluator(system)
    layer = max(range(len(system.design.layers)), key=evaluator.alone)
    return evaluator.alone(layer), layer
