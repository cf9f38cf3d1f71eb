"""The cheapest storage where a channel costs what its memory does: by steps, not by the token.

csdf.search.memory_cost finds the cheapest. Its capacities are narrowed in the end, which no longer
changes the cost.

The cheapest sufficient capacities where what they cost grows in steps, as memories of an FPGA do.

A capacity may be as large as it can be at the same cost, so only the ends of the steps are looked at.
Best first: the cheapest distribution is evaluated, and where it does not suffice, one of the capacities
on the critical cycle has to be on a higher step. So what is found first is the cheapest.

Costs of a FIFO as a memory of an FPGA: LUTs or block RAMs, by its depth and width.

Up to 256 words a FIFO is a shift register in LUTs; beyond it takes block RAMs of 18 kbit, with a power
of two of words, at most 32768 in one memory. Words are padded to whole bytes. The numbers are the
estimates of FINN's library: custom_op/fpgadataflow/streamingfifo.py.

The trade-off between a cost of memories that grows in steps, and the period.

One search goes on from point to point: the cheapest distribution that is faster than all before it.
Several may cost the same; the fastest of them is the point, found last of them. So a point is proved
when a more expensive one is found, or when nothing is faster.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from csdf.analysis.bound_channels import why_unlimited
from csdf.errors import GaveUp, counted
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.outcome import Reason, Status, because
from csdf.search.cuts import Cut
from csdf.search.evaluator import Evaluates, Evaluator
from csdf.search.exploration import QUEUE_NUMBERS, Sufficient
from csdf.search.named_search import NamedSearch
from csdf.search.narrowing import Distribution, narrowing
from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage, StorageWhy
from csdf.search.refusals import refusal
from csdf.search.trade_off import FEW, Extent, FrontWhy, Reached, extent_of
from csdf.search.variables import Choice, Variable, prepared, token_weight
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of

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
            status = Status.FEASIBLE if self._best else Status.UNKNOWN
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


Price = Callable[[int, int], int]  # of a place and a capacity there; never less for more


class StepSearch:
    """The queue of distributions at the ends of their steps, by cost, and the cuts so far.

    It must be known that capacities large enough suffice. A search that was ended goes on where it was
    when `cheapest` is called again. A test of sufficiency may only become
    stricter from one `cheapest` to the next.
    """

    def __init__(
        self,
        evaluator: Evaluates,
        variables: Sequence[Variable],
        price: Price,
        look: Callable[[], None],
    ) -> None:
        self._evaluator, self._variables = evaluator, variables
        self._price, self._look = price, look
        start = tuple(self.end(place, one.least) for place, one in enumerate(variables))
        self.lower_bound = self.total(start)
        self._queue = [(self.lower_bound, start)]
        self._seen = {start}
        self._cuts: list[Cut] = []

    def total(self, capacities: Sequence[int]) -> int:
        """Return what a distribution costs."""
        return sum(self._price(place, one) for place, one in enumerate(capacities))

    def cheapest(self, is_sufficient: Sufficient) -> tuple[int, ...]:
        """Return the cheapest sufficient distribution, every capacity at the end of a step."""
        while self._queue:
            self._look()
            self._require_room()
            self.lower_bound, capacities = self._queue[0]
            cut = next((one for one in self._cuts if one.holds(capacities)), None)
            if cut is None:
                found = self._evaluator.evaluate(capacities)
                if is_sufficient(found.period):
                    return capacities
                cut = Cut({place: capacities[place] for place in found.holding})
                self._cuts.append(cut)
            heapq.heappop(self._queue)
            self._branch(capacities, cut)
        raise AssertionError("unbounded channels suffice, so some capacities do")

    def _require_room(self) -> None:
        if len(self._seen) * len(self._variables) > QUEUE_NUMBERS:
            raise GaveUp("the queue of candidates is full")

    def _branch(self, capacities: tuple[int, ...], cut: Cut) -> None:
        """Queue the distributions that leave the cut by one capacity each."""
        for place, limit in cut.limits.items():
            more = self.end(place, limit + self._variables[place].step)
            larger = (*capacities[:place], more, *capacities[place + 1 :])
            if larger in self._seen:
                continue
            self._seen.add(larger)
            heapq.heappush(self._queue, (self.total(larger), larger))

    def below(self, place: int, capacity: int) -> int | None:
        """The largest useful capacity that costs less than this one; None if there is none."""
        least, step = self._variables[place].least, self._variables[place].step
        known = self._price(place, capacity)
        low, high = -1, (capacity - least) // step
        while high - low > 1:
            middle = (low + high) // 2
            is_less = self._price(place, least + middle * step) < known
            low, high = (middle, high) if is_less else (low, middle)
        return None if low < 0 else least + low * step

    def end(self, place: int, capacity: int) -> int:
        """The largest useful capacity that costs no more than this one."""
        step, known = self._variables[place].step, self._price(place, capacity)
        low, high = 0, 1
        while self._price(place, capacity + high * step) == known:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            is_same = self._price(place, capacity + middle * step) == known
            low, high = (middle, high) if is_same else (low, middle)
        return capacity + low * step


MOST_SHIFTED = 256  # words in a shift register
MOST_VENDOR = 32768  # words in one memory
BLOCK_SHAPES = ((1, 16384), (2, 8192), (4, 4096), (9, 2048), (18, 1024), (36, 512))  # bits, words


def padded(bits: int) -> int:
    """Return the bits of a word on the wire: whole bytes."""
    return -(-bits // 8) * 8


def address_luts(depth: int) -> int:
    """Return the LUTs that count up to a depth, at both ends."""
    return 2 * (depth - 1).bit_length()


def shift_luts(depth: int, bits: int) -> int:
    """Return the LUTs of a shift register of so many words, whatever its depth."""
    return -(-depth // 32) * -(-padded(bits) // 2) + address_luts(max(1, depth))


def blocks(depth: int, width: int) -> int:
    """Return the block RAMs of 18 kbit for a memory: the widest shape that holds it, side by side.

    width: of a word on the wire.
    """
    for bits, words in BLOCK_SHAPES[:-1]:
        if width <= bits or (bits == BLOCK_SHAPES[-2][0] and depth > BLOCK_SHAPES[-1][1]):
            return -(-depth // words) * -(-width // bits)
    bits, words = BLOCK_SHAPES[-1]
    return -(-depth // words) * -(-width // bits)


def fifo_blocks(depth: int, bits: int) -> int:
    """Return the block RAMs of a FIFO: none up to 256 words, then those of a power of two of words."""
    whole, rest = divmod(depth, MOST_VENDOR)
    found = whole * blocks(MOST_VENDOR, padded(bits))
    if rest > MOST_SHIFTED:
        found += blocks(1 << (rest - 1).bit_length(), padded(bits))
    return found


UNITS: Mapping[str, str] = {"bram": "block RAMs of 18 kbit", "lut": "LUTs of shift registers"}
OBJECTIVES: Mapping[str, Callable[[int, int], int]] = {"bram": fifo_blocks, "lut": shift_luts}


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
