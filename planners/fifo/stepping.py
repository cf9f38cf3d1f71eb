"""The depths whose memories cost the least, where the cost grows in steps: block RAMs, or LUTs.

The search is that of csdf.search.memory.steps, which `csdf buffers --objective` uses as well; here a
design answers it by its events. It begins with the fewest bits: often these cost the least too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from csdf.outcome import Status, because
from csdf.search.memory.steps import StepSearch
from csdf.search.variables import Variable
from csdf.stopping import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_system import EventSystem
from planners.fifo.growing import least_depths, narrowed
from planners.fifo.sizing import Sizing, SizingWhy, smallest_depths

BEGINNING = 0.5  # of the time, for the fewest bits
MemoryCost = Callable[[int, int], int]  # of a depth and the bits of a word


def cheapest_depths(
    system: EventSystem, period: Fraction | None, cost: MemoryCost, *, stop: Stop | None = None
) -> Sizing:
    """Return depths of the least cost with at most this period, or without deadlock if it is None.

    Bits and bound of the answer are costs. Of the depths that cost the same, those with the fewest bits
    are taken if they were found; else no single depth of the answer can be less.
    """
    stop = stop or Stop()
    begin = smallest_depths(system, period, stop=stop.part(share=BEGINNING))
    if not begin.depths:
        return begin
    return _Stepping(system, cost, begin, stop).answer()


class _Stepping:
    """Depths that were found first, and the search for cheaper ones."""

    def __init__(self, system: EventSystem, cost: MemoryCost, begin: Sizing, stop: Stop) -> None:
        self._fifos, self._begin, self._stop = system.design.fifos, begin, stop
        self._cost = cost
        self._evaluator = DesignEvaluator(
            system, required=begin.period, only_live=begin.period is None, look=stop.look
        )

    def answer(self) -> Sizing:
        """Return the cheapest depths, or the first ones with a bound if the stop ends the work."""
        first = self._begin.depths
        variable = Variable(channels=(), least=LEAST_DEPTH, step=1, weight=1)
        search = StepSearch(self._evaluator, [variable] * len(first), self._price, self._stop.look)
        try:
            found = search.cheapest(self._evaluator.reaches)
            if search.total(first) > search.lower_bound:
                first = self._narrowed(found)
        except ENDS as end:
            total = search.total(first)
            status = Status.OPTIMAL if total == search.lower_bound else Status.FEASIBLE
            reason = because(SizingWhy.PROVED) if total == search.lower_bound else reason_of(end)
            return replace(
                self._begin, status=status, bits=total, lower_bound=search.lower_bound,
                reason=reason,
            )  # fmt: skip
        total = search.total(first)
        return replace(
            self._begin, status=Status.OPTIMAL, depths=first, bits=total, lower_bound=total,
            is_narrow=True, reason=because(SizingWhy.PROVED),
            evaluations=self._begin.evaluations + self._evaluator.count,
        )  # fmt: skip

    def _price(self, place: int, depth: int) -> int:
        return self._cost(depth, self._fifos[place].bits)

    def _narrowed(self, depths: Sequence[int]) -> tuple[int, ...]:
        """The same, with no depth that can be less by itself, as far as the time allows."""
        found = tuple(depths)
        weights = [one.bits for one in self._fifos]
        try:
            least = least_depths(self._evaluator)
            for less in narrowed(self._evaluator, found, least, weights):
                found = less
        except ENDS:
            pass
        return found
