"""Rematerialisation: repeated steps of minimum price for a peak within a limit, or of minimum peak.

A list of runs is an order in which steps may occur several times; its price is that of all repetitions.
First a greedy search repeats steps until a list is within a bound on its bytes. The excess of a list is
the sum of the bytes above the bound, over all runs. Of all tensors that are live at the peak and not
read there, the search recomputes the tensor with the largest reduction of the excess for its price.
Then states are searched exactly (planners.order.repeat_states), and the greedy search is repeated with
random weights. The lower bounds are knapsacks at the first run of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from random import Random
from typing import NamedTuple

from csdf.errors import InternalError
from csdf.status import Reason, Status, because
from csdf.time_limit import Progress, Stop
from planners.order.heuristics import file_order
from planners.order.order_plan import OrderPlan, OrderWhy, not_all_searched
from planners.order.problem import OrderProblem, peak_of
from planners.order.repeat_states import RepeatStates
from planners.order.repeated_runs import Profile, RepeatedRuns

DEPTHS = (0, 1, 2, 3, 5, 8, 12)  # lengths of chains of steps that are repeated for one tensor
FEW_SETS, MOST_SETS = 2**12, 2**17  # sets of dropped tensors in an exact search; 2**17 take 4 s
ROUNDS = 12  # greedy searches with random weights
MICROSECONDS = 3  # of a typical machine, to count the bytes of a run in Python


class _RepeatBest(NamedTuple):
    """A list of runs, by number of its step. bytes: the maximum of its peak and the peak limit."""

    bytes: int
    price: int
    peak: int
    runs: tuple[int, ...]


class RepeatSearch:
    """The best list of runs so far, and lower bounds on the bytes and the price of every list."""

    def __init__(
        self,
        problem: OrderProblem,
        solve: Callable[[OrderProblem], OrderPlan],
        *,
        price_limit: int | None,
        peak_limit: int,
    ) -> None:
        """Begin with the order of minimum peak. solve: returns it for a problem without repetition."""
        steps = tuple(replace(step, repeat_price=None) for step in problem.steps)
        self._solve, self._limit, self._peak_limit = solve, price_limit, peak_limit
        self._once = solve(replace(problem, steps=steps))
        self._runs = RepeatedRuns(problem)
        graph = problem.numbered
        number = {step.name: index for index, step in enumerate(problem.steps)}
        self._starts = (tuple(number[name] for name in self._once.order), tuple(file_order(graph)))
        self._knapsacks = list(_knapsacks(self._runs))
        self._bytes_bound = max(
            (knapsack.bytes_bound(price_limit) for knapsack in self._knapsacks), default=0
        )
        prices = [price for price in self._runs.prices if price is not None]
        self._least_price = min(prices, default=0)
        if price_limit is not None and price_limit < self._least_price:
            self._bytes_bound = max(self._bytes_bound, self._once.lower_bound)
        self._price_bounds: dict[int, int] = {}  # by bytes, of exact searches
        self._is_searched = False  # whether an exact search raised a bound
        peak = self._once.peak
        self.best = _RepeatBest(max(peak, peak_limit), 0, peak, self._starts[0])

    @property
    def _target(self) -> int:
        """The bytes at which a list of runs is optimal."""
        return max(self._bytes_bound, self._peak_limit)

    @property
    def _price_bound(self) -> int:
        """A lower bound on the price of lists within the bytes of the best list."""
        bound = self.best.bytes
        least = self._least_price if bound < self._once.lower_bound else 0
        of_knapsacks = (knapsack.price_bound(bound) for knapsack in self._knapsacks)
        return max(least, self._price_bounds.get(bound, 0), *of_knapsacks)

    @property
    def is_optimal(self) -> bool:
        """Whether no list has a lower peak, or an equal peak at a lower price."""
        return self.best.bytes <= self._target and self.best.price <= self._price_bound

    def run(self, stop: Stop) -> None:
        """Search until the best list is optimal, or all searches are over."""
        if not self._runs.graph.steps or self.is_optimal:
            return
        for start in self._starts:
            self._lower(start, stop)
        self._search_states(FEW_SETS, stop)
        for seed in range(ROUNDS):
            if self.is_optimal:
                return
            random = Random(seed)
            for start in self._starts:
                if self.best.bytes > self._target:
                    self._offer_within(start, self.best.bytes - 1, random, stop)
                self._offer_within(start, self.best.bytes, random, stop)
        self._search_states(MOST_SETS, stop)

    def _lower(self, start: Sequence[int], stop: Stop) -> None:
        """Bisect between the target and the best peak by greedy searches."""
        low = bound = self._target
        while low < self.best.bytes:
            if not self._offer_within(start, bound, None, stop):
                low = bound + 1
            bound = (low + self.best.bytes) // 2

    def _offer(self, runs: Sequence[int]) -> None:
        profile = self._runs.profile(runs)
        price = self._runs.price(runs)
        if profile is None or (self._limit is not None and price > self._limit):
            return
        bytes_ = max(profile.peak, self._peak_limit)
        if (bytes_, price) < (self.best.bytes, self.best.price):
            self.best = _RepeatBest(bytes_, price, profile.peak, tuple(runs))

    def _offer_within(
        self, start: Sequence[int], bound: int, random: Random | None, stop: Stop
    ) -> bool:
        """Offer a list of the greedy search; return whether the best list is within the bound."""
        runs = self._greedy(list(start), bound, random, stop)
        if runs is None:
            return False
        price = None
        while price is None or self._runs.price(runs) < price:
            runs = self._without_needless(runs, bound, stop)
            price = self._runs.price(runs)
            self._offer(runs)
            expanded, _, numbers = self._runs.expanded(runs)
            ordered = [numbers[name] for name in self._solve(expanded).order]
            profile = self._runs.profile(ordered)
            if profile is not None and not profile.excess(bound):
                runs = self._without_needless(ordered, bound, stop)
                self._offer(runs)
        return self.best.bytes <= bound

    def _greedy(
        self, runs: list[int], bound: int, random: Random | None, stop: Stop
    ) -> list[int] | None:
        """Repeat steps until a list is within a bound; None if no further step reduces the excess."""
        profile = self._runs.profile(runs)
        while profile is not None and (excess := profile.excess(bound)):
            stop.look(Progress(lower_bound=self._bytes_bound, best=self.best.bytes))
            peak = profile.bytes.index(profile.peak)
            choice, best_gain, old_price = None, Fraction(0), self._runs.price(runs)
            for longer in self._longer(runs, peak, profile):
                stop.spend(MICROSECONDS * len(longer))
                after = self._runs.profile(longer)
                if after is None:
                    continue
                saved, price = excess - after.excess(bound), self._runs.price(longer) - old_price
                weight = 16 if random is None else random.randrange(8, 25)
                # Half a unit of price is added: repetition without a price is not always first.
                gain = Fraction(2 * weight * saved, 2 * price + 1)
                if gain > best_gain:
                    choice, best_gain = longer, gain
            if choice is None:
                return None
            runs, profile = choice, self._runs.profile(choice)
        return runs

    def _longer(self, runs: list[int], peak: int, profile: Profile) -> Iterator[list[int]]:
        """Yield lists that recompute a tensor which is live at the peak and not read there.

        peak: the position of the peak. Repeated runs are inserted before the next use of the tensor.
        """
        for life in profile.lives:
            use = next((use for use in life.uses if use >= peak), peak)
            if not life.start < peak < use:
                continue
            before: list[int] | None = None
            for depth in DEPTHS:
                previous, before = before, self._runs.before(life.tensor, use, depth, profile)
                if before is None or before == previous:
                    break
                yield [*runs[:use], *before, *runs[use:]]

    def _without_needless(self, runs: list[int], bound: int, stop: Stop) -> list[int]:
        """Remove repeated runs, the most expensive first, while the list is within the bound."""
        is_shorter = True
        while is_shorter:
            is_shorter = False
            for shorter in sorted(self._runs.without_one(runs), key=self._runs.price):
                stop.charge(MICROSECONDS * len(shorter))
                profile = self._runs.profile(shorter)
                if profile is not None and not profile.excess(bound):
                    runs, is_shorter = shorter, True
                    break
        return runs

    def _search_states(self, most: int, stop: Stop) -> None:
        """Search exactly: lower peaks by bisection, then lower prices."""
        low = self._target
        while low < self.best.bytes:
            bound = (low + self.best.bytes) // 2
            search = self._states_within(bound, self._limit, most, stop)
            if search.runs is None:
                low = bound + 1
                if search.is_complete:
                    self._bytes_bound, self._is_searched = low, True
        if not self.is_optimal:
            bound = self.best.bytes
            search = self._states_within(bound, self.best.price - 1, most, stop)
            bounds = (self.best.price, search.lower_bound)
            self._price_bounds[bound] = min(price for price in bounds if price is not None)
            self._is_searched |= search.is_complete

    def _states_within(
        self, bound: int, price_limit: int | None, most: int, stop: Stop
    ) -> RepeatStates:
        search = RepeatStates(self._runs, bound, price_limit=price_limit)
        search.run(most, stop)
        if search.runs is not None:
            self._offer(search.runs)
        return search

    def plan(self, end: Reason | None) -> OrderPlan:
        """Return the best list as an order of a graph with a step for each run."""
        problem, order, numbers = self._runs.expanded(self.best.runs)
        bound, price = min(self._bytes_bound, self.best.peak), self.best.price
        names = self._runs.problem.named(range(self._runs.graph.steps))
        if self.best.peak <= self._peak_limit and not price:
            reason = because(OrderWhy.FITS, bytes=self._peak_limit)
        elif self.is_optimal:
            reason = because(OrderWhy.REPEATED if self._is_searched else OrderWhy.KNAPSACK)
        elif self.best.bytes <= self._target:
            reason = because(OrderWhy.REPEATS, bytes=self.best.bytes, price=self._price_bound)
        else:
            reason = not_all_searched(end, bound)
        if peak_of(problem, order) != self.best.peak:
            raise InternalError(f"order of {problem.name!r}: another peak when replayed")
        return OrderPlan(
            problem=problem,
            order=tuple(order),
            peak=self.best.peak,
            lower_bound=bound,
            file_peak=self._once.file_peak,
            status=Status.OPTIMAL if self.is_optimal else Status.FEASIBLE,
            reason=reason,
            repeated=tuple(names[numbers[name]] for name in order if name not in names),
            price=price,
        )


class _Knapsack(NamedTuple):
    """Bytes at the first run of a step: in every schedule, and of tensors that may be recomputed.

    bytes: live in every schedule. items: bytes and price of each repeatable producer of tensors that a
    preceding step wrote and a later step reads.
    """

    bytes: int
    items: tuple[tuple[int, int], ...]

    def bytes_bound(self, price_limit: int | None) -> int:
        """Return a lower bound on the bytes of schedules within the price limit."""
        if price_limit is None:
            return self.bytes
        left, retained = Fraction(price_limit), Fraction(0)
        for size, price in self.items:
            share = min(Fraction(1), left / price) if price else Fraction(1)
            left -= share * price
            retained += (1 - share) * size
        return self.bytes + ceil(retained)

    def price_bound(self, bound: int) -> int:
        """Return a lower bound on the price of schedules within these bytes."""
        excess = Fraction(self.bytes + sum(size for size, _ in self.items) - bound)
        total = Fraction(0)
        for size, price in self.items:
            share = min(Fraction(1), max(Fraction(0), excess / size))
            excess -= share * size
            total += share * price
        return ceil(total)


def _knapsacks(runs: RepeatedRuns) -> Iterator[_Knapsack]:
    """Yield the knapsack of each step.

    All ancestors of the step ran, and none of its descendants. So a tensor for a descendant is live, or
    its step is repeated. The bounds are those of the linear relaxation (Dantzig, Operations Research 5,
    1957): items by decreasing bytes per price.
    """
    graph = runs.graph
    for step in range(graph.steps):
        ancestors = graph.ancestors[step]
        bytes_ = graph.scratch[step] + sum(graph.sizes[tensor] for tensor in graph.reads[step])
        if not graph.overwrites[step]:
            bytes_ += sum(graph.sizes[tensor] for tensor in graph.writes[step])
        items: dict[int, int] = {}
        for tensor, producer in enumerate(graph.producers):
            is_before = producer < 0 or ancestors >> producer & 1
            later = (
                reader for reader in graph.readers[tensor] if graph.ancestors[reader] >> step & 1
            )
            is_read = graph.is_output[tensor] or next(later, None) is not None
            if not is_before or not is_read or tensor in graph.reads[step]:
                continue
            if runs.is_repeatable(tensor):
                items[producer] = items.get(producer, 0) + graph.sizes[tensor]
            else:
                bytes_ += graph.sizes[tensor]
        rows = [(size, runs.prices[producer] or 0) for producer, size in items.items() if size]
        yield _Knapsack(bytes_, tuple(sorted(rows, key=lambda row: Fraction(row[1], row[0]))))
