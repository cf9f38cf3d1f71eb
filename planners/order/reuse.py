"""Order and arena of a graph in which pairs of tensors may share bytes only at a price.

For each order, a branch and bound decides for each priced pair: paid, so that both tensors may share
bytes, or separated, so that they conflict in the arena.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

from csdf.arguments import public
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.problem import MemoryPlan, Pair, Problem
from planners.order.lifetimes import tensor_lifetimes
from planners.order.order_plan import OrderPlan
from planners.order.problem import OrderProblem, ReusePrice, peak_of
from planners.order.search import EFFORT, plan_order, simple_orders
from planners.order.timed import MICROSECONDS, DownSets, in_windows, windows_of

# Arenas planned for an order: 10 priced pairs of 8 tensors need up to 100.
MOST_ARENAS = 400
# Orders that are enumerated, of graphs of at most MOST_STEPS steps. For larger graphs the lower bound
# is that of the live bytes.
MOST_ORDERS = 5000
MOST_STEPS = 40
EFFORT_OF_AN_ARENA = 0.5  # seconds of effort, counted in steps of the search


class ReuseWhy(Why):
    """The reasons for the status of an arena with prices of reuse."""

    BOUND = "no order takes fewer than {bound} bytes"
    EXHAUSTED = "the search of all orders and pairs is complete"
    PRICE = "no order takes fewer than {bound} bytes; not all were searched for a lower price"
    OTHER = "chosen for its arena; no order takes fewer than {bound} bytes"
    NOT_ALL = "not all orders and pairs were searched; no order takes fewer than {bound} bytes"
    ENDED = "{end}; no order takes fewer than {bound} bytes"


@dataclass(frozen=True, kw_only=True)
class PricedOrder:
    """An order, an arena, and the pairs of tensors that share bytes at a price.

    problem: the buffers of the order; unpaid pairs conflict. price: of alternatives and pairs together.
    lower_bound: on the bytes of all orders and choices of pairs.
    """

    order: OrderPlan
    problem: Problem
    arena: MemoryPlan
    paid: tuple[ReusePrice, ...]
    price: int
    lower_bound: int
    status: Status
    reason: Reason

    def to_json(self) -> dict[str, Any]:
        """Return prices and bound as a JSON value."""
        return {
            "peak": self.arena.peak,
            "lower_bound": self.lower_bound,
            "price": self.price,
            "pairs": [list(pair[:2]) for pair in self.paid],
            "status": str(self.status),
            "reason": str(self.reason),
        }


@public
def plan_reuse(
    graph: OrderProblem, *, price_limit: int | None = None, budget: Budget = None
) -> PricedOrder:
    """Return order and arena of minimum bytes, then of minimum price, within a price limit.

    Two tensors of `graph.reuse_prices` that are not live together may share bytes only if their price
    is paid, such as that of a synchronisation. The alternatives of steps are those of the minimum peak.
    All orders are searched if they are at most MOST_ORDERS; otherwise the order of minimum peak, and
    simple orders.
    budget: a stop, seconds, or a text such as "60s"; by default 20 seconds of effort.
    Raises InvalidGraph as plan_order does.
    """
    stop = Stop(effort=EFFORT) if budget is None else stop_of(budget)
    free = plan_order(graph, price_limit=price_limit, budget=stop.part(share=0.5))
    search = _ReuseSearch(free, None if price_limit is None else price_limit - free.price)
    end: Reason | None = None
    try:
        search.run(stop)
    except ENDS as error:
        end = reason_of(error)
    best = search.best or search.without_reuse()
    stop.interrupt_after(best.arena.reason)
    bound = free.lower_bound
    status, reason = Status.OPTIMAL, because(ReuseWhy.BOUND, bound=bound)
    # Other selections of alternatives, and other lists of repeated steps, are not searched.
    has_choices = graph.has_alternatives or graph.has_repeats
    is_all = search.is_complete and end is None and not has_choices
    if best.bytes > bound and is_all:
        bound, reason = best.bytes, because(ReuseWhy.EXHAUSTED)
    elif best.bytes > bound:
        status, reason = Status.FEASIBLE, because(ReuseWhy.NOT_ALL, bound=bound)
        if end is not None:
            reason = because(ReuseWhy.ENDED, end=end, bound=bound)
    elif not is_all and (best.price or (has_choices and free.status != Status.OPTIMAL)):
        status, reason = Status.FEASIBLE, because(ReuseWhy.PRICE, bound=bound)
    return PricedOrder(
        order=_in_order(free, best.order),
        problem=best.problem,
        arena=best.arena,
        paid=best.paid,
        price=free.price + best.price,
        lower_bound=bound,
        status=status,
        reason=reason,
    )


def _in_order(free: OrderPlan, order: tuple[str, ...]) -> OrderPlan:
    """Return the plan with this order and its peak, which may be above the minimum."""
    peak = peak_of(free.problem, order)
    if peak == free.peak:
        return replace(free, order=order)
    reason = because(ReuseWhy.OTHER, bound=free.lower_bound)
    return replace(free, order=order, peak=peak, status=Status.FEASIBLE, reason=reason)


class _Candidate(NamedTuple):
    """An arena for an order; fewer bytes are better, then a lower price of the paid pairs."""

    bytes: int
    price: int
    order: tuple[str, ...]
    problem: Problem
    arena: MemoryPlan
    paid: tuple[ReusePrice, ...]


class _ReuseSearch:
    """The best arena so far, over orders and choices of pairs."""

    def __init__(self, free: OrderPlan, limit: int | None) -> None:
        self._free, self._graph, self._limit = free, free.problem, limit
        self._prices = [pair for pair in self._graph.reuse_prices if pair.price]
        # An arena depends on the pairs of tensors live together, and on the pairs in place, alone.
        self._seen: set[tuple[frozenset[Pair], tuple[Pair, ...]]] = set()
        self.best: _Candidate | None = None
        self.is_complete = True

    def run(self, stop: Stop) -> None:
        """Search the order of minimum peak, simple orders, then all, until no order can be better."""
        self._search(self._free.order, stop)
        windows = windows_of(self._graph)
        for numbers in simple_orders(self._graph):
            if in_windows(windows, numbers):
                self._search(tuple(self._graph.named(numbers)), stop)
        for count, order in enumerate(self._orders(stop)):
            if self.best is not None and self.best[:2] <= (self._free.lower_bound, 0):
                return  # no order is better
            if count >= MOST_ORDERS:
                self.is_complete = False
                return
            self._search(order, stop)

    def without_reuse(self) -> _Candidate:
        """Return the order of minimum peak with all pairs separated."""
        problem = tensor_lifetimes(self._graph, self._free.order)
        problem = _apart(problem, self._reusable(problem))
        arena = plan_arena(problem, budget=Stop(effort=EFFORT_OF_AN_ARENA))
        return _Candidate(arena.peak, 0, self._free.order, problem, arena, ())

    def _reusable(self, problem: Problem) -> list[ReusePrice]:
        """Return the priced pairs that may share bytes: not live together, or in place."""
        names = {buffer.name for buffer in problem.buffers if buffer.takes_bytes}
        barred = {*map(frozenset, _live_together(problem))} - {*map(frozenset, problem.in_place)}
        return [
            pair
            for pair in self._prices
            if names.issuperset(pair[:2]) and frozenset(pair[:2]) not in barred
        ]

    def _search(self, order: tuple[str, ...], stop: Stop) -> None:
        """Search an order unless its arena has the same conflicts as that of an earlier order."""
        problem = tensor_lifetimes(self._graph, order)
        dependencies = _live_together(problem), problem.in_place
        if dependencies not in self._seen:
            self._seen.add(dependencies)
            self._search_pairs(order, problem, stop)

    def _search_pairs(self, order: tuple[str, ...], problem: Problem, stop: Stop) -> None:
        """Branch and bound over pairs in an order: a pair that shares bytes is separated, or paid.

        A node is a set of separated pairs (`apart`) and a set of paid pairs.
        """
        pairs = self._reusable(problem)
        arenas: dict[frozenset[ReusePrice], MemoryPlan] = {}
        waiting: list[tuple[frozenset[ReusePrice], frozenset[ReusePrice]]] = [
            (frozenset(), frozenset())
        ]
        while waiting:
            stop.look(Progress(best=None if self.best is None else self.best.bytes))
            apart, paid = waiting.pop()
            if apart not in arenas:
                if len(arenas) == MOST_ARENAS:
                    self.is_complete = False
                    return
                part = stop.part(effort=EFFORT_OF_AN_ARENA)
                arenas[apart] = plan_arena(_apart(problem, apart), budget=part)
                stop.end_whole(arenas[apart].reason)
            arena = arenas[apart]
            minimum = sum(pair.price for pair in paid)
            if self.best is not None and (arena.lower_bound, minimum) >= self.best[:2]:
                continue
            shared = [pair for pair in pairs if pair not in apart and _share(arena, pair)]
            price = sum(pair.price for pair in shared)
            self._offer(order, problem, arena, shared, price)
            undecided = [pair for pair in shared if pair not in paid]
            if not undecided:
                self.is_complete &= arena.status == Status.OPTIMAL
                continue
            pair = max(undecided, key=lambda pair: pair.price)
            if self._limit is None or minimum + pair.price <= self._limit:
                waiting.append((apart, paid | {pair}))
            waiting.append((apart | {pair}, paid))

    def _offer(
        self,
        order: tuple[str, ...],
        problem: Problem,
        arena: MemoryPlan,
        shared: list[ReusePrice],
        price: int,
    ) -> None:
        if self._limit is not None and price > self._limit:
            return
        if self.best is None or (arena.peak, price) < self.best[:2]:
            unpaid = [pair for pair in self._reusable(problem) if pair not in shared]
            problem = _apart(problem, unpaid)
            self.best = _Candidate(
                arena.peak, price, order, problem, replace(arena, problem=problem), tuple(shared)
            )

    def _orders(self, stop: Stop) -> Iterator[tuple[str, ...]]:
        """Yield all orders whose peak is not above the best arena, if the steps are few."""
        graph, windows = self._graph.numbered, windows_of(self._graph)
        if graph.steps > MOST_STEPS:
            self.is_complete = False
            return
        sets, full = DownSets(graph), (1 << graph.steps) - 1

        def following(done: int, live: int, order: list[int]) -> Iterator[tuple[str, ...]]:
            stop.charge(MICROSECONDS)
            if done == full:
                yield tuple(self._graph.named(order))
            for step in sets.ready(done):
                cost, change = sets.cost(step, done, live)
                is_within = windows.earliest[step] <= len(order) <= windows.latest[step]
                if is_within and (self.best is None or cost <= self.best.bytes):
                    yield from following(done | 1 << step, live + change, [*order, step])

        yield from following(0, sets.live_at_start, [])


def _live_together(problem: Problem) -> frozenset[Pair]:
    """Return the pairs of buffers that are live at a common time."""
    pairs = combinations((buffer for buffer in problem.buffers if buffer.takes_bytes), 2)
    return frozenset(
        (first.name, second.name)
        for first, second in pairs
        if first.start < second.end and second.start < first.end
    )


def _apart(problem: Problem, pairs: Collection[ReusePrice]) -> Problem:
    """Return the problem in which these pairs share no byte."""
    names = {frozenset(pair[:2]) for pair in pairs}
    live_together = set(map(frozenset, _live_together(problem)))
    return replace(
        problem,
        conflicts=tuple(
            (first, second) for first, second in sorted(map(sorted, names - live_together))
        ),
        in_place=tuple(pair for pair in problem.in_place if frozenset(pair) not in names),
    )


def _share(arena: MemoryPlan, pair: ReusePrice) -> bool:
    """Whether the two tensors of a pair have a byte in common."""
    sizes = {buffer.name: buffer.size for buffer in arena.problem.buffers}
    first, second = (arena.offsets[name] for name in pair[:2])
    return first < second + sizes[pair.second] and second < first + sizes[pair.first]
