"""The search for a front: one point after the other, until it ends or is ended."""

from __future__ import annotations

from fractions import Fraction

from csdf.analysis.concurrency import why_unlimited
from csdf.errors import counted
from csdf.model.graph import Graph
from csdf.outcome import Reason, because
from csdf.search.exploration import Sufficient
from csdf.search.extent import FEW, Extent, FrontWhy, Reached
from csdf.search.named_search import NamedSearch
from csdf.search.pareto import ParetoFront, StorageWhy
from csdf.search.variables import Choice
from csdf.stopping import ENDS, Progress, Stop, reason_of


class FrontSearch:
    """The search for the front of one graph, to the extent that is asked for."""

    def __init__(self, graph: Graph, choice: Choice, stop: Stop, extent: Extent) -> None:
        self._graph = graph
        self._extent = extent
        self._is_endless = False
        self._search = NamedSearch(graph, choice, stop.part(report=self._look))

    def front(self) -> ParetoFront:
        """Return the points, as far as they are known when the search ends."""
        search = self._search
        is_complete, is_as_asked = search.best_period is None, False
        reason = self._found_all()
        try:
            if not is_complete:
                search.run_ahead()
                is_complete = self._follow()
            reason = reason if is_complete else search.reason
        except ENDS as end:
            reason = reason_of(end)
            is_as_asked = isinstance(end, Reached) and self._extent.is_limited
        if search.best_period is None:
            reason = search.refusal(_better_than(None, Fraction(1)))
        if self._is_endless:
            reason = because(FrontWhy.ENDLESS, end=reason, why=why_unlimited(self._graph))
        points = search.points if is_complete else search.proved_points
        largest = self._extent.max_size
        start = None if points or is_complete else search.started_point()
        return ParetoFront(
            points=tuple(one for one in points if largest is None or one.size <= largest),
            is_complete=is_complete,
            lower_bound=search.lower_bound,
            best_period=search.in_units(search.best_period),
            reason=reason,
            evaluations=search.evaluations,
            gap=self._extent.gap,
            is_as_asked=is_as_asked,
            start=start,
        )

    def _found_all(self) -> Reason:
        gap = self._extent.gap
        return because(FrontWhy.GAP, gap=gap) if gap else because(StorageWhy.EVERY_POINT)

    def _follow(self) -> bool:
        """Find point after point; whether the last one is as fast as the graph without bounds."""
        search, factor = self._search, self._extent.factor
        best: Fraction | None = None
        while True:
            found = search.next_point(_better_than(best, factor))
            if found is None:
                return search.is_exhausted
            best = search.add(found)
            if best is not None and best <= factor * (search.best_period or 0):
                return self._is_within_extent()
            self._is_endless = not search.best_period

    def _is_within_extent(self) -> bool:
        """Whether the last point is not larger than asked for; if it is, the extent is reached."""
        largest = self._extent.max_size
        if largest is not None and self._search.points[-1].size > largest:
            raise self._extent.too_large()
        return True

    def _look(self, progress: Progress) -> None:
        """End where enough is known, a front without end after a few points."""
        proved = len(self._search.proved_points) if progress.found else 0
        self._extent.look(proved, progress.lower_bound or 0)
        if self._is_endless and not self._extent.is_limited and proved >= FEW:
            raise Reached(because(FrontWhy.FEW, points=counted(FEW, "point")))


def _better_than(best: Fraction | None, factor: Fraction) -> Sufficient:
    return lambda period: period is not None and (best is None or period * factor < best)
