"""Cheapest memories of all FIFOs of a design, where costs rise in steps (block RAMs, LUTs).

The search is csdf.search.memory_cost, which `csdf buffers --objective` uses as well. If it proves the
minimum cost at once, the remaining effort searches for the fewest bits, which break ties. Otherwise the
depths with the fewest bits and with the fewest elements are upper bounds on the cost; steps down from
these depths lower the bounds, and the search continues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from csdf.errors import GaveUp
from csdf.search.least import reduced
from csdf.search.memory_cost import StepSearch
from csdf.status import Reason, Status, because
from csdf.time_limit import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.evaluator import DesignEvaluator, TimedDesign
from planners.fifo.sizing import (
    Depths,
    Sizing,
    SizingWhy,
    least_depths,
    smallest_depths,
    unavoidable_cycle,
    variables_of,
)

MemoryCost = Callable[[int, int], int]  # of a depth and a width in bits

# Shares of the effort of a search, in this order; each is a share of the remaining effort.
AT_ONCE = 0.15  # proof by cycles of events, before any search
BEGINNING = 0.3  # fewest bits
ELEMENTS = 0.65  # fewest elements, whose proof also bounds the bits
FINISH = 0.9  # fewest bits again, after the proof


def cheapest_depths(
    graph: TimedDesign, period: Fraction | None, cost: MemoryCost, *, stop: Stop | None = None
) -> Sizing:
    """Return depths of the least cost with at most this period, or without deadlock if it is None.

    Among depths of the same cost the depths with the fewest bits are returned.
    """
    return _Cheapest(graph, period, cost, stop or Stop()).answer()


class _Cheapest:
    """Search for the minimum cost, and its intermediate results."""

    def __init__(
        self, graph: TimedDesign, period: Fraction | None, cost: MemoryCost, stop: Stop
    ) -> None:
        self._graph, self._period = graph, period
        self._fifos = graph.design.fifos
        self._stop = self._part = stop
        self._found: list[Depths] = []
        self._minimal: set[Depths] = set()  # no single depth of these can be reduced
        self._evaluator = DesignEvaluator(
            graph, required=period, only_live=period is None, spend=self._spend
        )
        self._cost = cost
        floor = [LEAST_DEPTH] * len(self._fifos)
        variables = variables_of(floor, [1] * len(floor))
        self._search = StepSearch(self._evaluator, variables, self._price, self._look)

    def _look(self) -> None:
        self._part.look()

    def _spend(self, microseconds: int) -> None:
        self._part.charge(microseconds)

    def _price(self, index: int, depth: int) -> int:
        return self._cost(depth, self._fifos[index].bits)

    def answer(self) -> Sizing:
        """Return the cheapest depths, or the best found with a bound if the stop ends the work."""
        is_proved = self._is_proved(self._stop.part(share=AT_ONCE))
        # After a proof of the cost only ties are left to break, by bits.
        share = FINISH if is_proved else BEGINNING
        begin = smallest_depths(self._graph, self._period, stop=self._stop.part(share=share))
        if not begin.depths:
            return begin
        self._found.append(begin.depths)
        if begin.is_minimal:
            self._minimal.add(begin.depths)
        reason, bits = None if is_proved else self._compared(), self._graph.design.bits
        best = min(
            self._found, key=lambda candidate: (self._search.total(candidate), bits(candidate))
        )
        cost, bound = self._search.total(best), self._search.lower_bound
        is_proved = reason is None or cost == bound
        return replace(
            begin,
            status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
            depths=best,
            cost=cost,
            lower_bound=cost if is_proved else bound,
            is_minimal=best in self._minimal,
            evaluations=begin.evaluations + self._evaluator.count,
            least_bits=begin.lower_bound,
            reason=because(SizingWhy.CHEAPEST) if reason is None or is_proved else reason,
        )

    def _is_proved(self, stop: Stop) -> bool:
        """Whether the minimum cost is proved before the stop."""
        self._part = stop
        try:
            if unavoidable_cycle(self._evaluator, self._period) is not None:
                return False
            self._take(self._search.cheapest(self._evaluator.reaches))
        except GaveUp:
            return False
        finally:
            self._part = self._stop
        return True

    def _compared(self) -> Reason | None:
        """Search for the fewest elements, then for a proof; return the reason if there is no proof."""
        elements = smallest_depths(
            self._graph, self._period, stop=self._stop.part(share=ELEMENTS),
            weights=[1] * len(self._fifos),
        )  # fmt: skip
        if elements.depths:
            self._take(elements.depths)
        try:
            self._descend()
            if min(map(self._search.total, self._found)) > self._search.lower_bound:
                self._take(self._search.cheapest(self._evaluator.reaches))
        except ENDS as end:
            return reason_of(end)
        return None

    def _descend(self) -> None:
        """Take steps down from all depths found, each at first as large as it can be at its cost."""
        # Depths of the fewest bits or elements are upper bounds that best-first search has not met.
        for start in sorted(self._found, key=self._search.total):
            depths = tuple(map(self._search.end, range(len(start)), start))
            while (less := self._stepped(depths)) is not None:
                depths = less
            if self._search.total(depths) < self._search.total(start):
                self._take(depths)

    def _stepped(self, depths: Depths) -> Depths | None:
        """Cheaper depths that suffice: one FIFO a step down, and if need be another a step up."""
        for position in sorted(
            range(len(depths)), key=lambda index: -self._price(index, depths[index])
        ):
            below = self._search.below(position, depths[position])
            if below is None:
                continue
            trial = (*depths[:position], below, *depths[position + 1 :])
            cycle = self._evaluator.critical_cycle(trial)
            if cycle is None:
                return trial
            for fifo in cycle.fifos:
                more = self._search.end(fifo, trial[fifo] + 1)
                enlarged = (*trial[:fifo], more, *trial[fifo + 1 :])
                if self._search.total(enlarged) >= self._search.total(depths):
                    continue
                if self._evaluator.suffices(enlarged):
                    return enlarged
        return None

    def _take(self, depths: Depths) -> None:
        """Note depths that suffice, reduced while time allows."""
        self._found.append(depths)
        suffices = self._evaluator.suffices
        try:
            minimum = least_depths(self._evaluator)
            variables = variables_of(minimum, [fifo.bits for fifo in self._fifos])
            # Within one cost step depths can still shrink; users read them as the minimum.
            for smaller in reduced(variables, depths, suffices, is_close=True):
                self._found[-1] = smaller
        except ENDS:
            return
        self._minimal.add(self._found[-1])
