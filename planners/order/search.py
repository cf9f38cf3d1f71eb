"""Order of least peak memory of a graph of tensors, with a lower bound on every order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from csdf.arguments import public
from csdf.errors import InternalError
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of
from planners.order.bounded import FOUND, NONE, BoundedSearch, GraphArrays, run_bounded
from planners.order.bounds import cut_bound, ends_bound
from planners.order.heuristics import breadth_first, file_order, reverse_post_order
from planners.order.problem import OrderProblem, peak_of
from planners.order.windows import ROUNDS, improve_by_windows

EFFORT = 20.0  # seconds, where no budget is given; graphs of up to 250 steps took 4 at most
FIRST_STATES = 2**10  # 75 of 98 graphs of 9 to 257 steps need no more
MORE_STATES = (2**14, 2**17)
MOST_STATES = 2**19  # 200 MB for 500 steps
PROBES = 4  # bounds tried below that of a search that needs too many states


class OrderWhy(Why):
    """The reasons for the status of an order."""

    CUT = "each order has a step of {bound} bytes: the least over all sets of steps before it"
    EXHAUSTED = "the search for an order of fewer bytes came to its end"
    NO_STEP = "there is no step"
    STATES = "no more states are stored; no order takes fewer than {bound} bytes"
    ENDED = "{end}; no order takes fewer than {bound} bytes"


@dataclass(frozen=True, kw_only=True)
class OrderPlan:
    """An order of all steps, its peak, and bytes that no order is below.

    file_peak: of the order of the file, its steps moved after their predecessors.
    """

    problem: OrderProblem
    order: tuple[str, ...]
    peak: int
    lower_bound: int
    file_peak: int
    status: Status
    reason: Reason

    @property
    def gap(self) -> int:
        """Bytes between the peak and the lower bound."""
        return self.peak - self.lower_bound

    def to_json(self) -> dict[str, Any]:
        """Return the order as a JSON value."""
        return {
            "steps": len(self.order),
            "file_peak": self.file_peak,
            "peak": self.peak,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "status": str(self.status),
            "reason": str(self.reason),
            "order": list(self.order),
        }


@public
def plan_order(problem: OrderProblem, *, budget: Budget = None) -> OrderPlan:
    """Return an order of least peak of all topological orders, or the best one found.

    The lower bound is a minimum cut over down-sets for each step (planners.order.bounds). Searches for
    an order within a bound (planners.kernels.order_search) then bring bound and peak together. Where
    they need too many states, windows of the best order are searched.
    budget: a stop, seconds, or a text such as "60s"; by default 20 seconds of effort, which is counted
    in steps of the search. It or Ctrl-C ends the search with the best order so far.

    Sources: Ahn et al., Ordering chaos: memory-aware scheduling of irregularly wired neural networks
    for edge devices, MLSys 2020 (dynamic programming over down-sets); Liu, SIAM J. Algebraic Discrete
    Methods 8 (1987), and Kayaaslan et al., Theoretical Computer Science 707 (2018) (orders through
    valleys).
    """
    stop = Stop(effort=EFFORT) if budget is None else stop_of(budget)
    search = _OrderSearch(problem)
    end: Reason | None = None
    try:
        search.run(stop)
    except ENDS as error:
        end = reason_of(error)
    return search.plan(end)


def simple_orders(problem: OrderProblem) -> list[tuple[int, ...]]:
    """Return topological orders by simple rules, as numbers of steps; the order of the file first."""
    graph = problem.numbered
    orders = [
        file_order(graph),
        reverse_post_order(graph, largest_first=False),
        reverse_post_order(graph, largest_first=True),
        breadth_first(graph),
    ]
    return list(dict.fromkeys(map(tuple, orders)))


class _OrderSearch:
    """The best order and the lower bound so far."""

    def __init__(self, problem: OrderProblem) -> None:
        self._problem = problem
        self._machine = GraphArrays(problem.numbered)
        self._simple = simple_orders(problem)
        self._bound = ends_bound(problem.numbered)
        self._is_exhausted = False
        self._file_peak = self._peak_of(self._simple[0])
        self._best, self._peak = self._simple[0], self._file_peak
        for order in self._simple:
            self._offer(order)

    def _peak_of(self, order: Sequence[int]) -> int:
        return max(self._machine.costs(order), default=self._bound)

    def _offer(self, order: Sequence[int]) -> None:
        peak = self._peak_of(order)
        if peak < self._peak:
            self._best, self._peak = tuple(order), peak

    @property
    def _is_optimal(self) -> bool:
        return self._bound >= self._peak

    def run(self, stop: Stop) -> None:
        """Search until the order is optimal, or more states are needed than are stored."""
        costs = [0] * len(self._best)
        for step, bytes_ in zip(self._best, self._machine.costs(self._best), strict=True):
            costs[step] = bytes_
        self._bound = cut_bound(self._machine, costs, stop)
        self._bisect(FIRST_STATES, stop)
        self._improve(ROUNDS[:1], stop)
        for states in MORE_STATES:
            self._descend(states, stop)
        self._improve(ROUNDS[1:], stop)
        self._descend(MOST_STATES, stop)

    def _within(self, bound: int, states: int, stop: Stop) -> int:
        """Search for an order within a bound; return FOUND, NONE or FULL."""
        stop.look(Progress(lower_bound=self._bound, best=self._peak))
        search = BoundedSearch(self._machine, bound, capacity=states)
        outcome = run_bounded(search, stop)
        if outcome == FOUND:
            self._offer(search.order)
        elif outcome == NONE:
            self._is_exhausted = True
            self._bound = max(self._bound, min(search.blocked, self._peak))
        return outcome

    def _bisect(self, states: int, stop: Stop) -> None:
        """Halve the gap between bound and peak.

        A bound for which more states are needed counts as too low.
        """
        low = self._bound
        while low < self._peak:
            middle = (low + self._peak - 1) // 2
            outcome = self._within(middle, states, stop)
            low = middle + 1 if outcome not in (FOUND, NONE) else max(low, self._bound)

    def _descend(self, states: int, stop: Stop) -> None:
        """Search for an order below the best one, until there is none; else raise the lower bound."""
        outcome = FOUND
        while not self._is_optimal and outcome == FOUND:
            outcome = self._within(self._peak - 1, states, stop)
        high = self._peak - 1
        for _ in range(PROBES):
            if self._is_optimal or high <= self._bound:
                break
            middle = (self._bound + high) // 2
            if self._within(middle, states, stop) not in (FOUND, NONE):
                high = middle

    def _improve(self, rounds: Sequence[Sequence[tuple[int, int]]], stop: Stop) -> None:
        """Improve the best order, and each simple one, by windows."""
        for widths in rounds:
            for order in dict.fromkeys((*self._simple[1:], self._best, self._simple[0])):
                if self._is_optimal:
                    return
                better = list(order)
                for width, states in widths:
                    better = improve_by_windows(
                        self._machine,
                        better,
                        width=width,
                        capacity=states,
                        stop=stop,
                    )
                    self._offer(better)

    def plan(self, end: Reason | None) -> OrderPlan:
        """Return the best order. end: why the search ended early, if it did."""
        status, bound = Status.OPTIMAL, min(self._bound, self._peak)
        if not self._best:
            reason = because(OrderWhy.NO_STEP)
        elif self._is_optimal:
            reason = because(
                OrderWhy.EXHAUSTED if self._is_exhausted else OrderWhy.CUT, bound=bound
            )
        else:
            status = Status.FEASIBLE
            reason = because(OrderWhy.STATES, bound=bound)
            if end is not None:
                reason = because(OrderWhy.ENDED, end=end, bound=bound)
        order = tuple(self._problem.steps[step].name for step in self._best)
        if peak_of(self._problem, order) != self._peak:
            raise InternalError(f"order of {self._problem.name!r}: another peak when replayed")
        return OrderPlan(
            problem=self._problem,
            order=order,
            peak=self._peak,
            lower_bound=bound,
            file_peak=self._file_peak,
            status=status,
            reason=reason,
        )
