"""The cheapest storage where a channel costs what its memory does: by steps, not by the token.

A channel may be as deep as it can be at the same cost, so only the ends of the steps are looked at.
Best first: the cheapest distribution is evaluated, and where it does not suffice, one of the channels
on the critical cycle has to be on a higher step. So what is found first is the cheapest. Its capacities
are narrowed in the end, which no longer changes the cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from csdf.errors import GaveUp
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.outcome import Reason, Status, because
from csdf.search.cuts import Cut
from csdf.search.evaluator import Evaluator
from csdf.search.exploration import QUEUE_NUMBERS
from csdf.search.named_search import NamedSearch, StorageWhy
from csdf.search.narrowing import Distribution, narrowing
from csdf.search.pareto import SmallestStorage
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
    return _Search(graph, choice, cost, required, stop_of(budget)).answer()


class _Search:
    """A search for the least memory: the queue of distributions, by cost, and the best found."""

    def __init__(
        self,
        graph: Graph,
        choice: Choice,
        cost: MemoryCost,
        required: Fraction | None,
        stop: Stop,
    ) -> None:
        self._graph, self._choice, self._cost, self._required = graph, choice, cost, required
        self._stop = stop
        bare, self._variables, _ = prepared(graph, choice)
        self._fixed = dict(choice.fixed or {})
        self._evaluator = Evaluator(
            bare, self._variables, with_self_loops=choice.with_self_loops,
            only_live=required is None, copies=choice.copies, look=self._look,
        )  # fmt: skip
        self._bits = [
            [max(1, token_weight(one, choice)) for one in variable.channels]
            for variable in self._variables
        ]
        self._fixed_cost = sum(
            cost(depth, token_weight(graph.channel(name), choice))
            for name, depth in self._fixed.items()
        )
        self._bound = self._fixed_cost
        self._best: Distribution | None = None

    def _look(self) -> None:
        self._stop.look(Progress(done=self._evaluator.count, lower_bound=self._bound))

    def answer(self) -> SmallestStorage:
        """Return the cheapest storage, or the best by the time the stop ends the work."""
        try:
            nothing: tuple[None, ...] = (None,) * len(self._variables)
            best_period = self._evaluator.evaluate(nothing).period
            if not self._suffices(best_period):
                why = refusal(self._graph, self._choice, best_period, self._suffices)
                return self._answer(Status.INFEASIBLE, why)
            for found in narrowing(self._evaluator, self._variables, self._suffices):
                self._best = found
                if found is not None:
                    break
            self._best = self._cheapest()
            for found in narrowing(self._evaluator, self._variables, self._suffices, self._best):
                self._best = found or self._best
        except ENDS as end:
            is_cheapest = self._best is not None and self._total(self._best) == self._bound
            status = Status.FEASIBLE if self._best else Status.GAVE_UP
            return self._answer(Status.OPTIMAL if is_cheapest else status, reason_of(end))
        return self._answer(Status.OPTIMAL, because(StorageWhy.NO_SMALLER))

    def _suffices(self, period: Fraction | None) -> bool:
        return period is not None and (self._required is None or period <= self._required)

    def _cheapest(self) -> Distribution:
        """The cheapest sufficient distribution, every capacity at the end of a step or beyond use."""
        start = tuple(self._end(place, one.least) for place, one in enumerate(self._variables))
        queue, seen, cuts = [(self._total(start), start)], {start}, list[Cut]()
        while queue:
            self._look()
            self._bound, capacities = heapq.heappop(queue)
            cut = next((one for one in cuts if one.holds(capacities)), None)
            if cut is None:
                found = self._evaluator.evaluate(capacities)
                if self._suffices(found.period):
                    return capacities
                cut = Cut({place: capacities[place] for place in found.holding})
                cuts.append(cut)
            for place, limit in cut.limits.items():
                more = self._end(place, limit + self._variables[place].step)
                larger = (*capacities[:place], more, *capacities[place + 1 :])
                if larger not in seen:
                    seen.add(larger)
                    if len(seen) * len(start) > QUEUE_NUMBERS:
                        raise GaveUp("the queue of candidates is full")
                    heapq.heappush(queue, (self._total(larger), larger))
        raise AssertionError("unbounded channels suffice, so some capacities do")

    def _end(self, place: int, capacity: int) -> int:
        """The largest useful capacity that costs no more than this one."""
        variable = self._variables[place]
        known = self._price(place, capacity)
        low, high = 0, 1
        while self._price(place, capacity + high * variable.step) == known:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            is_same = self._price(place, capacity + middle * variable.step) == known
            low, high = (middle, high) if is_same else (low, middle)
        return capacity + low * variable.step

    def _price(self, place: int, capacity: int) -> int:
        return sum(self._cost(capacity, bits) for bits in self._bits[place])

    def _total(self, capacities: Sequence[int]) -> int:
        own = sum(self._price(place, one) for place, one in enumerate(capacities))
        return own + self._fixed_cost

    def _answer(self, status: Status, reason: Reason) -> SmallestStorage:
        point = None
        if self._best is not None and status in (Status.OPTIMAL, Status.FEASIBLE):
            search = NamedSearch(self._graph, self._choice, Stop())
            found = search.named_point(self._named(self._best), is_ended=True)
            point = replace(found, size=self._total(self._best))
        return SmallestStorage(
            status=status, point=point, lower_bound=self._bound, reason=reason,
            evaluations=self._evaluator.count,
        )  # fmt: skip

    def _named(self, capacities: Distribution) -> dict[str, int]:
        return {
            channel.name: capacity
            for variable, capacity in zip(self._variables, capacities, strict=True)
            for channel in variable.channels
        }
