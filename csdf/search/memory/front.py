"""The trade-off between a cost of memories that grows in steps, and the period.

One search goes on from point to point: the cheapest distribution that is faster than all before it.
Several may cost the same; the fastest of them is the point, found last of them. So a point is proved
when a more expensive one is found, or when nothing is faster.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from csdf.analysis.concurrency import why_unlimited
from csdf.errors import counted
from csdf.model.exact import Exact
from csdf.model.graph import Graph
from csdf.outcome import Reason, because
from csdf.search.exploration import Sufficient
from csdf.search.extent import FEW, Extent, FrontWhy, Reached, extent_of
from csdf.search.memory.least import MemoryCost, Priced
from csdf.search.narrowing import Distribution, narrowing
from csdf.search.pareto import ParetoFront, ParetoPoint, StorageWhy
from csdf.search.refusals import refusal
from csdf.search.variables import Choice
from csdf.stopping import ENDS, Budget, Progress, reason_of, stop_of


def memory_front(
    graph: Graph,
    choice: Choice,
    cost: MemoryCost,
    *,
    budget: Budget = None,
    max_size: int | None = None,
    points: int | None = None,
    gap: Exact = 0,
) -> ParetoFront:
    """Return all pairs of memory cost and period that cannot be improved on, as `pareto_front` does.

    choice: in bits, for the widths. cost: what a memory of a depth and a width costs; the size of a
    point is the sum over all channels. Points that are not proved are left out.
    """
    return _Front(graph, choice, cost, budget, extent_of(max_size, points, gap)).front()


class _Front:
    """The points so far, of which the last may be proved or not."""

    def __init__(
        self, graph: Graph, choice: Choice, cost: MemoryCost, budget: Budget, extent: Extent
    ) -> None:
        self._graph, self._extent = graph, extent
        stop = stop_of(budget).part(report=self._look)
        self._priced = Priced(graph, choice, cost, stop, only_live=False)
        self._found: list[tuple[int, Fraction, Distribution]] = []  # cost, period, capacities
        self._best: Fraction | None = None
        self._is_endless = False

    def front(self) -> ParetoFront:
        """Return the points, as far as they are proved when the search ends."""
        is_complete, is_as_asked = False, False
        reason = because(FrontWhy.GAP, gap=self._extent.gap) if self._extent.gap else EVERY
        try:
            self._best = self._priced.best_period()
            if self._best is None:
                reason = refusal(self._graph, self._priced.choice, None, _faster_than(None, ONE))
            else:
                self._is_endless = not self._best
                self._follow(self._best)
            is_complete = True
        except ENDS as end:
            reason = reason_of(end)
            is_as_asked = isinstance(end, Reached) and self._extent.is_limited
        if self._is_endless:
            reason = because(FrontWhy.ENDLESS, end=reason, why=why_unlimited(self._graph))
        return self._answer(reason, is_complete=is_complete, is_as_asked=is_as_asked)

    def _follow(self, best: Fraction) -> None:
        """Find point after point, until one is as fast as the graph without bounds."""
        factor, last = self._extent.factor, None
        while last is None or last > factor * best:
            capacities = self._priced.steps.cheapest(_faster_than(last, factor))
            last = self._priced.evaluator.evaluate(capacities).period
            if last is None:
                raise AssertionError("what is faster than nothing has a period")
            cost = self._priced.total(capacities)
            if self._found and self._found[-1][0] == cost:
                self._found.pop()
            self._found.append((cost, last, capacities))
            self._extent.look(len(self._proved()), self._priced.lower_bound)
        if self._extent.max_size is not None and self._found[-1][0] > self._extent.max_size:
            raise self._extent.too_large()

    def _proved(self) -> list[tuple[int, Fraction, Distribution]]:
        """The points that nothing of the same cost can replace any more."""
        return [one for one in self._found if one[0] < self._priced.lower_bound]

    def _look(self, progress: Progress) -> None:
        proved = len(self._proved()) if self._found else 0
        self._extent.look(proved, (progress.lower_bound or 0) if self._found else 0)
        if self._is_endless and not self._extent.is_limited and proved >= FEW:
            raise Reached(because(FrontWhy.FEW, points=counted(FEW, "point")))

    def _answer(self, reason: Reason, *, is_complete: bool, is_as_asked: bool) -> ParetoFront:
        largest = self._extent.max_size
        found = self._found if is_complete else self._proved()
        best = self._best
        return ParetoFront(
            points=tuple(
                self._point(period, capacities)
                for cost, period, capacities in found
                if largest is None or cost <= largest
            ),
            is_complete=is_complete,
            lower_bound=self._priced.lower_bound,
            best_period=None if best is None else best * self._graph.time_unit,
            reason=reason,
            evaluations=self._priced.evaluator.count,
            gap=self._extent.gap,
            is_as_asked=is_as_asked,
        )

    def _point(self, period: Fraction, capacities: Distribution) -> ParetoPoint:
        """The point, with capacities of which no single one can be less at this period."""
        priced, narrow = self._priced, capacities
        priced.evaluator.hurry()
        with suppress(*ENDS):
            for less in narrowing(priced.evaluator, priced.variables, _as_fast_as(period), narrow):
                narrow = less or narrow
        found = priced.point(narrow)
        return replace(found, period=period * self._graph.time_unit)


ONE = Fraction(1)
EVERY = because(StorageWhy.EVERY_POINT)


def _faster_than(last: Fraction | None, factor: Fraction) -> Sufficient:
    return lambda period: period is not None and (last is None or period * factor < last)


def _as_fast_as(period: Fraction) -> Sufficient:
    return lambda one: one is not None and one <= period
