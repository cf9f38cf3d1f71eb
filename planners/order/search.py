"""Order of minimum peak memory of a graph of tensors, with a lower bound on every order.

A down-set is a set of executed steps: with each step it has all its predecessors. Live bytes depend on
the down-set alone. The lower bound is a minimum cut over down-sets for each step. A bounded search over
down-sets decides whether an order is within a peak (planners.order.bounded). If it needs too many
states, windows of consecutive steps of the best order are searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from csdf.arguments import public
from csdf.errors import GaveUp, InternalError, InvalidGraph
from csdf.status import Reason, Status, because
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of
from planners.order.bounded import (
    FOUND,
    NONE,
    WORK_A_MICROSECOND,
    BoundedSearch,
    GraphArrays,
    run_bounded,
)
from planners.order.heuristics import breadth_first, file_order, reverse_post_order
from planners.order.order_plan import OrderPlan, OrderWhy, not_all_searched
from planners.order.problem import NumberedGraph, OrderProblem, peak_of
from planners.order.repeats import RepeatSearch
from planners.order.selections import SelectionSearch
from planners.order.timed import TimedSearch

EFFORT = 20.0  # default in seconds; graphs of up to 250 steps need at most 4
FIRST_STATES = 2**10  # 75 of 98 graphs of 9 to 257 steps need no more
MORE_STATES = (2**14, 2**17)
MOST_STATES = 2**19  # 200 MB for 500 steps
EFFORT_OF_A_SELECTION = 2.0  # seconds; graphs of 50 steps need at most 0.1
PROBES = 4  # smaller bounds that are tried after a search that needs too many states

# Rounds of pairs: width of the windows in steps, and states of each search. Narrow windows improve the
# order for the wide windows after them. From a reverse post-order of a series-parallel graph of 1,000
# steps these rounds result in 102,784, 105,088, 105,088 and 106,240 bytes. All rounds differ, because a
# repeated round has no effect.
ROUNDS = (
    ((40, 1024), (100, 2048), (160, 4096), (350, 8192)),
    ((20, 1024), (60, 1024), (140, 2048), (300, 4096)),
    ((30, 1024), (60, 1024), (120, 2048), (240, 4096)),
    ((25, 1024), (80, 2048), (200, 4096), (400, 8192)),
)
# After a search that ended early, a decrease of the bound by this many bytes or more is quartered, a
# smaller decrease is 1 byte.
LARGE_DECREASE = 256


@public
def plan_order(
    problem: OrderProblem,
    *,
    price_limit: int | None = None,
    peak_limit: int | None = None,
    budget: Budget = None,
) -> OrderPlan:
    """Return a topological order of minimum peak, or the best order by the end of the budget.

    The lower bound is a minimum cut over down-sets for each step (`cut_bound`). Searches for an order
    within a bound (planners.kernels.order_search) then bisect between bound and peak. If they need too
    many states, windows of the best order are searched. Steps at positions are searched by
    planners.order.timed, alternatives of steps by planners.order.selections, and steps that may run
    again by planners.order.repeats.

    budget: a stop, seconds, or a text such as "60s"; by default 20 seconds of effort, which is counted
    in steps of the search. It or Ctrl-C ends the search with the best order so far.
    price_limit: maximum of the total price. Of all orders of minimum peak the cheapest is returned.
    peak_limit: bytes; of two orders within them the cheaper is better, whatever their peaks.

    Raises InvalidGraph if no order has all steps within their positions, if no selection is within the
    price limit, and for a price limit below 0; GaveUp if the search ends before it tries a selection.

    Sources: Ahn et al., Ordering chaos: memory-aware scheduling of irregularly wired neural networks
    for edge devices, MLSys 2020 (dynamic programming over down-sets); Liu, SIAM J. Algebraic Discrete
    Methods 8 (1987), and Kayaaslan et al., Theoretical Computer Science 707 (2018) (orders through
    valleys).
    """
    if price_limit is not None and price_limit < 0:
        raise InvalidGraph(
            f"graph {problem.name!r}: a price limit of {price_limit}; expected at least 0"
        )
    stop = Stop(effort=EFFORT) if budget is None else stop_of(budget)
    if problem.has_alternatives:
        return _with_alternatives(problem, price_limit, peak_limit or 0, stop)
    if problem.has_repeats:
        search = RepeatSearch(
            problem, _solver_of_parts(stop), price_limit=price_limit, peak_limit=peak_limit or 0
        )
        return search.plan(_end_of(search.run, stop))
    return _without_alternatives(problem, stop)


def _end_of(run: Callable[[Stop], None], stop: Stop) -> Reason | None:
    """Run a search; return why it ended early, or None. After Ctrl-C all searches of the stop end."""
    try:
        run(stop)
    except ENDS as error:
        reason = reason_of(error)
        stop.interrupt_after(reason)
        return reason
    return None


def _solver_of_parts(stop: Stop) -> Callable[[OrderProblem], OrderPlan]:
    """Return a function that orders problems without alternatives, each within a part of the effort."""
    return lambda part: _without_alternatives(part, stop.part(effort=EFFORT_OF_A_SELECTION))


def _without_alternatives(problem: OrderProblem, stop: Stop) -> OrderPlan:
    """Return the best order of steps without alternatives and repetition."""
    search = _OrderSearch(problem)
    end = _end_of(search.run, stop)
    plan = search.plan(end)
    return _at_positions(plan, stop, end) if problem.has_times else plan


def _at_positions(free: OrderPlan, stop: Stop, end: Reason | None) -> OrderPlan:
    """Return the best order with steps at positions.

    free: the plan without positions, whose lower bound holds here. end: why its search ended early.
    """
    problem = free.problem
    numbers = {step.name: number for number, step in enumerate(problem.steps)}
    search = TimedSearch(problem, lower_bound=free.lower_bound)
    file_peak = search.answer.peak
    search.offer([numbers[name] for name in free.order], free.peak)
    if end is None:
        end = _end_of(search.run, stop)
    answer = search.answer
    status, reason = Status.OPTIMAL, because(OrderWhy.TIMED)
    if not search.is_optimal:
        status, reason = Status.FEASIBLE, not_all_searched(end, answer.lower_bound)
    return replace(
        free,
        order=tuple(problem.named(answer.order)),
        peak=answer.peak,
        lower_bound=answer.lower_bound,
        file_peak=file_peak,
        status=status,
        reason=reason,
    )


def _with_alternatives(
    problem: OrderProblem, price_limit: int | None, peak_limit: int, stop: Stop
) -> OrderPlan:
    """Return the best order over all selections of alternatives."""
    search = SelectionSearch(
        problem, _solver_of_parts(stop), price_limit=price_limit, peak_limit=peak_limit
    )
    end = _end_of(search.run, stop)
    best = search.best
    if best is None:
        if end is not None:
            raise GaveUp(end)
        raise InvalidGraph(
            f"graph {problem.name!r}: no order of any alternatives has each step within its positions"
        )
    bound, chosen = search.lower_bound, search.problem_of(best.selection)
    peak = peak_of(chosen, best.order)
    reason = because(OrderWhy.SELECTED)
    if not search.is_complete:
        reason = because(OrderWhy.PRICE, bound=bound)
    if bound < peak and peak > peak_limit:
        reason = not_all_searched(end, bound)
    names = (step.name for step in problem.steps if step.alternatives)
    return OrderPlan(
        problem=chosen,
        order=best.order,
        peak=peak,
        lower_bound=bound,
        file_peak=search.file_peak,
        status=Status.OPTIMAL if search.is_complete else Status.FEASIBLE,
        reason=reason,
        alternatives=dict(zip(names, best.selection, strict=True)),
        price=best.price,
    )


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
    """The search for an order of minimum peak: the best order and the lower bound so far."""

    def __init__(self, problem: OrderProblem) -> None:
        self._problem = problem
        self._arrays = GraphArrays(problem.numbered)
        self._simple = simple_orders(problem)
        self._bound = ends_bound(problem.numbered)
        self._is_exhausted = False
        self._file_peak = self._peak_of(self._simple[0])
        self._best, self._peak = self._simple[0], self._file_peak
        for order in self._simple:
            self._offer(order)

    def _peak_of(self, order: Sequence[int]) -> int:
        return max(self._arrays.costs(order), default=self._bound)

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
        for step, bytes_ in zip(self._best, self._arrays.costs(self._best), strict=True):
            costs[step] = bytes_
        self._bound = cut_bound(self._arrays, costs, stop)
        self._bisect(FIRST_STATES, stop)
        self._improve(ROUNDS[:1], stop)
        for states in MORE_STATES:
            self._descend(states, stop)
        self._improve(ROUNDS[1:], stop)
        self._descend(MOST_STATES, stop)

    def _within(self, bound: int, states: int, stop: Stop) -> int:
        """Search for an order within a bound; return FOUND, NONE or FULL."""
        stop.look(Progress(lower_bound=self._bound, best=self._peak))
        search = BoundedSearch(self._arrays, bound, capacity=states)
        outcome = run_bounded(search, stop)
        if outcome == FOUND:
            self._offer(search.order)
        elif outcome == NONE:
            self._is_exhausted = True
            # Each order has a step of at least `blocked` bytes, the fewest that the search refused.
            self._bound = max(self._bound, min(search.blocked, self._peak))
        return outcome

    def _bisect(self, states: int, stop: Stop) -> None:
        """Bisect between bound and peak; a peak whose search needs more states counts as too low."""
        low = self._bound
        while low < self._peak:
            middle = (low + self._peak - 1) // 2
            outcome = self._within(middle, states, stop)
            low = middle + 1 if outcome not in (FOUND, NONE) else max(low, self._bound)

    def _descend(self, states: int, stop: Stop) -> None:
        """Search for lower orders while there are any; then raise the lower bound by bisection."""
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
        """Improve the best order, and each simple order, by windows."""
        for widths in rounds:
            for order in dict.fromkeys((*self._simple[1:], self._best, self._simple[0])):
                if self._is_optimal:
                    return
                better = list(order)
                for width, states in widths:
                    better = improve_by_windows(
                        self._arrays,
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
            status, reason = Status.FEASIBLE, not_all_searched(end, bound)
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


def ends_bound(graph: NumberedGraph) -> int:
    """Return the larger of the bytes live before the first step and after the last."""
    inputs = sum(
        size for size, maker in zip(graph.sizes, graph.producers, strict=True) if maker < 0
    )
    output_bytes = sum(
        size for size, is_kept in zip(graph.sizes, graph.is_output, strict=True) if is_kept
    )
    return max(inputs, output_bytes)


def cut_bound(arrays: GraphArrays, costs: Sequence[int], stop: Stop) -> int:
    """Return a lower bound on the peak of every order.

    costs: bytes of each step in one order, an upper bound on the minimum of the step over all orders.
    A step whose costs do not exceed the bound so far is skipped.

    The steps that ran before a step are a down-set with all its ancestors and no descendant. Live bytes
    are submodular, so their minimum over these down-sets is a minimum cut. If a step overwrites a
    tensor, all other readers of the tensor ran before, and the step needs no bytes for its result.
    """
    graph = arrays.graph
    full = (1 << graph.steps) - 1
    descendants = [0] * graph.steps
    for step in reversed(graph.topological):
        for later in graph.after[step]:
            descendants[step] |= descendants[later] | 1 << later
    bound = ends_bound(graph)
    for step in sorted(range(graph.steps), key=lambda step_: (-costs[step_], step_)):
        if costs[step] <= bound:
            break
        stop.look(Progress(lower_bound=bound))
        before = arrays.cut.work
        upper = full & ~descendants[step] & ~(1 << step)
        live, _ = arrays.least_live(graph.ancestors[step], upper)
        minimum = live + sum(graph.sizes[tensor] for tensor in graph.writes[step])
        minimum += graph.scratch[step]
        for tensor in graph.overwrites[step]:
            lower = graph.ancestors[step]
            for reader in graph.readers[tensor]:
                if reader != step:
                    lower |= graph.ancestors[reader] | 1 << reader
            if lower & ~upper == 0 and not graph.is_output[tensor]:
                overwritten, _ = arrays.least_live(lower, upper)
                minimum = min(minimum, overwritten + graph.scratch[step])
        bound = max(bound, minimum)
        stop.spend((arrays.cut.work - before) // WORK_A_MICROSECOND)
    return bound


def improve_by_windows(
    arrays: GraphArrays, order: list[int], *, width: int, capacity: int, stop: Stop
) -> list[int]:
    """Return an order with lower peaks in windows of `width` steps, which overlap by half.

    capacity: states of a search. Windows below the peak of the order are also lowered, because fewer
    live tensors help the neighbouring windows.
    """
    order = list(order)
    for begin in range(0, len(order), width // 2):
        start = sum(1 << step for step in order[:begin])
        window = order[begin : begin + width]
        order[begin : begin + width] = _improve_window(
            arrays, window, start, capacity=capacity, stop=stop
        )
    return order


def _improve_window(
    arrays: GraphArrays, window: list[int], start: int, *, capacity: int, stop: Stop
) -> list[int]:
    """Return the steps of a window in the order of lowest peak that searches of this size find.

    The bound decreases by a number of bytes, which doubles with each success. If no order is within
    the bound, the next decrease is half of the remaining gap; after a search that ends early, it is
    smaller.
    """
    goal = start | sum(1 << step for step in window)
    peak = max(arrays.costs(window, start))
    arrays.load(start)
    minimum, decrease = int(arrays.walk.live), 1
    while minimum < peak:
        bound = max(minimum, peak - decrease)
        search = BoundedSearch(arrays, bound, start=start, goal=goal, capacity=capacity)
        outcome = run_bounded(search, stop)
        if outcome == FOUND:
            window = search.order
            peak = max(arrays.costs(window, start))
            decrease *= 2
        elif outcome == NONE:
            minimum = search.blocked
            decrease = max(1, (peak - minimum) // 2)
        elif decrease == 1:
            break
        else:
            decrease = 1 if decrease < LARGE_DECREASE else decrease // 4
    return window
