"""The cheapest storage where a channel costs what its memory does: by steps, not by the token.

csdf.search.memory.steps finds the cheapest. Its capacities are narrowed in the end, which no longer
changes the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.outcome import Reason, Status, because
from csdf.search.evaluator import Evaluator
from csdf.search.memory.steps import StepSearch
from csdf.search.named_search import NamedSearch
from csdf.search.narrowing import Distribution, narrowing
from csdf.search.pareto import ParetoPoint, SmallestStorage, StorageWhy
from csdf.search.refusals import refusal
from csdf.search.variables import Choice, prepared, token_weight
from csdf.stopping import ENDS, Budget, Progress, Stop, reason_of, stop_of

MemoryCost = Callable[
    [int, int], int
]  # of a depth and the bits of a word, never less for more depth


def least_memory(
    graph: Graph,
    choice: Choice,
    cost: MemoryCost,
    *,
    period: Exact | None = None,
    budget: Budget = None,
) -> SmallestStorage:
    """Return the cheapest storage without deadlock, or with at most the given period.

    choice: in bits, for the widths. cost: what a memory of a depth and a width costs; the size of the
    answer is the sum over all channels. No single capacity of the answer can be less. budget: as in
    `smallest_storage`. Raises InconsistentGraph, InvalidGraph, CsdfError as the arguments deserve.
    """
    required = None if period is None else exact(period, "period") / graph.time_unit
    priced = Priced(graph, choice, cost, stop_of(budget), only_live=required is None)
    return _Search(priced, required).answer()


class Priced:
    """A graph, and what its capacities cost as memories: what the searches for the cheapest need."""

    def __init__(
        self, graph: Graph, choice: Choice, cost: MemoryCost, stop: Stop, *, only_live: bool
    ) -> None:
        self.graph, self.choice = graph, choice
        self._cost, self._stop = cost, stop
        bare, self.variables, _ = prepared(graph, choice)
        self._fixed = dict(choice.fixed or {})
        self.evaluator = Evaluator(
            bare, self.variables, with_self_loops=choice.with_self_loops,
            only_live=only_live, copies=choice.copies, look=self.look,
        )  # fmt: skip
        self._bits = [
            [max(1, token_weight(one, choice)) for one in variable.channels]
            for variable in self.variables
        ]
        self._fixed_cost = sum(
            cost(depth, token_weight(graph.channel(name), choice))
            for name, depth in self._fixed.items()
        )
        self.found = 0  # points of a front
        self.steps = StepSearch(self.evaluator, self.variables, self._price, self.look)

    @property
    def lower_bound(self) -> int:
        """Return what any distribution costs at least that is still searched for."""
        return self._fixed_cost + self.steps.lower_bound

    def look(self) -> None:
        """Look at the stop."""
        self._stop.look(
            Progress(done=self.evaluator.count, lower_bound=self.lower_bound, found=self.found)
        )

    def best_period(self) -> Fraction | None:
        """Return the period without bounds, in the units of the engine."""
        return self.evaluator.evaluate((None,) * len(self.variables)).period

    def _price(self, place: int, capacity: int) -> int:
        return sum(self._cost(capacity, bits) for bits in self._bits[place])

    def total(self, capacities: Sequence[int]) -> int:
        """Return what all channels cost."""
        return self._fixed_cost + self.steps.total(capacities)

    def point(self, capacities: Distribution) -> ParetoPoint:
        """Return the point of these capacities."""
        search = NamedSearch(self.graph, self.choice, Stop())
        named = {
            channel.name: capacity
            for variable, capacity in zip(self.variables, capacities, strict=True)
            for channel in variable.channels
        }
        found = search.named_point(named, is_ended=True)
        return replace(found, size=self.total(capacities))


class _Search:
    """A search for the least memory, and the best found."""

    def __init__(self, priced: Priced, required: Fraction | None) -> None:
        self._priced, self._required = priced, required
        self._best: Distribution | None = None

    def answer(self) -> SmallestStorage:
        """Return the cheapest storage, or the best by the time the stop ends the work."""
        priced = self._priced
        try:
            best_period = priced.best_period()
            if not self._suffices(best_period):
                why = refusal(priced.graph, priced.choice, best_period, self._suffices)
                return self._answer(Status.INFEASIBLE, why)
            for found in narrowing(priced.evaluator, priced.variables, self._suffices):
                self._best = found
                if found is not None:
                    break
            self._best = priced.steps.cheapest(self._suffices)
            for found in narrowing(priced.evaluator, priced.variables, self._suffices, self._best):
                self._best = found or self._best
        except ENDS as end:
            is_cheapest = self._best is not None and priced.total(self._best) == priced.lower_bound
            status = Status.FEASIBLE if self._best else Status.GAVE_UP
            return self._answer(Status.OPTIMAL if is_cheapest else status, reason_of(end))
        return self._answer(Status.OPTIMAL, because(StorageWhy.NO_SMALLER))

    def _suffices(self, period: Fraction | None) -> bool:
        return period is not None and (self._required is None or period <= self._required)

    def _answer(self, status: Status, reason: Reason) -> SmallestStorage:
        point = None
        if self._best is not None and status in (Status.OPTIMAL, Status.FEASIBLE):
            point = self._priced.point(self._best)
        return SmallestStorage(
            status=status, point=point, lower_bound=self._priced.lower_bound, reason=reason,
            evaluations=self._priced.evaluator.count,
        )  # fmt: skip
