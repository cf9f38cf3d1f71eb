"""Cheapest storage, and its Pareto front, for costs that grow in steps, as memories of an FPGA do.

Raising a capacity to the end of its cost step is free, so only ends of steps are evaluated. Example:
with block RAMs of 512 words, capacities of 300 and 512 cost the same, so 512 is evaluated.

The search is best first: the cheapest distribution is evaluated; if it does not suffice, its
successors raise one capacity on the critical cycle to the next step. The first sufficient
distribution is therefore the cheapest. Finally its capacities are narrowed at the same cost.
For a front the search continues from point to point, to the cheapest distribution that is faster
than all points so far. Of equally expensive distributions the fastest is the point. A point is proved
when a more expensive point follows, or when no distribution is faster.

Costs are the estimates of FINN's library, custom_op/fpgadataflow/streamingfifo.py. A FIFO of up to
256 words is a shift register in LUTs. A deeper FIFO takes block RAMs of 18 kbit; its words are a
power of two, at most 32768 in one memory. Words are padded to whole bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from csdf.bisection import first_above_zero, first_between
from csdf.errors import GaveUp
from csdf.model.exact import Exact, exact_above_zero
from csdf.model.graph import Graph
from csdf.search.evaluator import Evaluates
from csdf.search.exploration import QUEUE_NUMBERS
from csdf.search.learned_bounds import InsufficientRegion, Sufficient, fast_enough
from csdf.search.least import narrowing
from csdf.search.named_search import NamedSearch
from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage, StorageWhy
from csdf.search.trade_off import FrontSearch, extent_of
from csdf.search.variables import Distribution, SearchSpace, Variable, token_weight
from csdf.status import Status, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of

LONGEST_STEP = 1 << 40  # tokens of one cost; a cost that never changes has no end

# The cost of a memory of a depth and a word width in bits; it never decreases with the depth.
MemoryCost = Callable[[int, int], int]


def least_memory(
    graph: Graph,
    space: SearchSpace,
    cost: MemoryCost,
    *,
    period: Exact | None = None,
    budget: Budget = None,
) -> SmallestStorage:
    """Return the cheapest storage without deadlock, or with at most the given period.

    space: search space with widths in bits. cost: cost of a memory as a function of depth and
    width; the size of the answer is the sum over all channels. No single capacity of the answer can
    be reduced. budget: as in `smallest_storage`.

    Raises InconsistentGraph, InvalidGraph or CsdfError for invalid arguments.
    """
    required = None if period is None else exact_above_zero(period, "period") / graph.time_unit
    search = MemorySearch(graph, space, cost, stop_of(budget), only_live=required is None)
    best: Distribution | None = None
    suffices = fast_enough(required)
    try:
        if not suffices(search.best_period):
            return search.smallest(Status.INFEASIBLE, search.refusal(suffices))
        # A first sufficient distribution: the answer if the stop ends the search below.
        best = next(
            distribution for distribution in search.narrowing(suffices) if distribution is not None
        )
        best = search.next_point(suffices)
        for less in search.narrowing(suffices, best):
            best = less or best
        status, reason = Status.OPTIMAL, because(StorageWhy.NO_SMALLER)
    except ENDS as end:
        status, reason = Status.FEASIBLE if best else Status.UNKNOWN, reason_of(end)
        if best is not None and search.total(best) == search.lower_bound:
            status = Status.OPTIMAL
    if best is not None:
        search.points.append(search.timed_point(best))
    return search.smallest(status, reason)


class MemorySearch(NamedSearch):
    """A storage search in which a capacity costs as much as its memory; see `least_memory`."""

    def __init__(
        self,
        graph: Graph,
        space: SearchSpace,
        cost: MemoryCost,
        stop: Stop,
        *,
        only_live: bool = False,
    ) -> None:
        super().__init__(graph, space, stop, only_live=only_live)
        self._fixed_cost = sum(
            cost(depth, token_weight(graph.channel(name), space))
            for name, depth in (space.fixed or {}).items()
        )
        bits = [
            [max(1, token_weight(channel, space)) for channel in variable.channels]
            for variable in self._variables
        ]

        def price(index: int, capacity: int) -> int:
            return sum(cost(capacity, width) for width in bits[index])

        self._steps = StepSearch(self._evaluator, self._variables, price, self._look)

    @property
    def lower_bound(self) -> int:
        """Lower bound of the cost of all distributions that are not points."""
        return self._fixed_cost + self._steps.lower_bound

    def total(self, capacities: Sequence[int]) -> int:
        """Return the cost of all channels."""
        return self._fixed_cost + self._steps.total(capacities)

    def run_ahead(self) -> None:
        """Do nothing: the queue of cost steps already begins at the minimum capacities."""

    def next_point(
        self, is_sufficient: Sufficient, max_size: int | None = None
    ) -> Distribution | None:
        """Return the cheapest sufficient distribution, every capacity at the end of a step."""
        if max_size is None:
            return self._steps.cheapest(is_sufficient)
        return self._steps.cheapest_of_all(is_sufficient, max_size - self._fixed_cost)

    def narrowing(
        self, is_sufficient: Sufficient, start: Distribution | None = None
    ) -> Iterator[Distribution | None]:
        """Yield decreasing sufficient distributions; see `narrowing`."""
        return narrowing(self._evaluator, self._variables, is_sufficient, start)

    def timed_point(self, capacities: Distribution) -> ParetoPoint:
        """Return the point of these capacities, without its period if that takes too long."""
        return replace(self._searched.timed_point(capacities), size=self.total(capacities))

    def _point(self, capacities: Sequence[int]) -> tuple[ParetoPoint, Fraction | None]:
        point, period = super()._point(capacities)
        return replace(point, size=self.total(capacities)), period

    def add(self, capacities: Sequence[int]) -> Fraction | None:
        """Store a distribution as a point, and end the search if the front is complete."""
        period = super().add(capacities)
        self._look()
        return period

    def finished(self, point: ParetoPoint) -> ParetoPoint:
        """Return the point with its capacities narrowed one by one, at the same period."""
        start = narrow = self._searched.distribution(point.capacities)
        self._evaluator.hurry()
        fast = self._evaluator.evaluate(start).period

        def is_as_fast(period: Fraction | None) -> bool:
            return period is not None and fast is not None and period <= fast

        with suppress(*ENDS):
            for less in self.narrowing(is_as_fast, start):
                narrow = less or narrow
        return replace(self.timed_point(narrow), period=point.period)


# The cost of a variable, by its index, at a capacity; it never decreases with the capacity.
Price = Callable[[int, int], int]


class StepSearch:
    """Best-first search over distributions at the ends of their cost steps, with the cuts so far.

    Each call resumes the search of the previous call, with a test of sufficiency that is at least as
    strict. A memory may be slower than a smaller shift register, but capacities on the queue only grow:
    all successors have that memory too.
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
        start = tuple(self.end(index, variable.least) for index, variable in enumerate(variables))
        self.lower_bound = self.total(start)
        self._queue = [(self.lower_bound, start)]
        self._seen = {start}
        self._cuts: list[InsufficientRegion] = []

    def total(self, capacities: Sequence[int]) -> int:
        """Return the cost of a distribution."""
        return sum(self._price(index, capacity) for index, capacity in enumerate(capacities))

    def cheapest(self, is_sufficient: Sufficient) -> tuple[int, ...]:
        """Return the cheapest sufficient distribution; sufficiently large capacities must suffice."""
        cheapest = self.cheapest_of_all(is_sufficient)
        if cheapest is None:
            raise AssertionError("unbounded channels suffice, so some capacities do")
        return cheapest

    def cheapest_of_all(
        self, is_sufficient: Sufficient, limit: int | None = None
    ) -> tuple[int, ...] | None:
        """Return the cheapest sufficient distribution at the ends of steps, or None.

        Also None if its cost exceeds the limit; the lower bound is then above the limit.
        """
        while self._queue:
            self._look()
            if len(self._seen) * len(self._variables) > QUEUE_NUMBERS:
                raise GaveUp("the queue of candidates is full")
            self.lower_bound, capacities = self._queue[0]
            if limit is not None and self.lower_bound > limit:
                return None
            # A known cut replaces an evaluation.
            cut = next((cut for cut in self._cuts if cut.holds(capacities)), None)
            if cut is None:
                evaluation = self._evaluator.evaluate(capacities)
                if is_sufficient(evaluation.period):
                    return capacities
                cut = InsufficientRegion(
                    {index: capacities[index] for index in evaluation.holding},
                    evaluation.minimums,
                )
                self._cuts.append(cut)
            heapq.heappop(self._queue)
            self._branch(capacities, cut)
        return None

    def _branch(self, capacities: tuple[int, ...], cut: InsufficientRegion) -> None:
        """Queue the distributions that leave the cut by one capacity each."""
        for index, limit in cut.limits.items():
            more = self.end(index, limit + self._variables[index].step)
            larger = (*capacities[:index], more, *capacities[index + 1 :])
            if larger in self._seen:
                continue
            self._seen.add(larger)
            heapq.heappush(self._queue, (self.total(larger), larger))

    def below(self, index: int, capacity: int) -> int | None:
        """The largest useful capacity that costs less than this one; None if there is none."""
        minimum, step = self._variables[index].least, self._variables[index].step
        price = self._price(index, capacity)

        def is_no_cheaper(steps: int) -> bool:
            return self._price(index, minimum + steps * step) >= price

        begin = first_between(-1, (capacity - minimum) // step, is_no_cheaper)
        return minimum + (begin - 1) * step if begin else None

    def end(self, index: int, capacity: int) -> int:
        """The largest useful capacity that costs no more than this one, up to LONGEST_STEP more."""
        step, price = self._variables[index].step, self._price(index, capacity)
        above = first_above_zero(
            lambda steps: (
                steps * step > LONGEST_STEP or self._price(index, capacity + steps * step) != price
            )
        )
        return capacity + (above - 1) * step


MOST_SHIFTED = 256  # words in a shift register
MOST_VENDOR = 32768  # words in one memory
BLOCK_SHAPES = ((1, 16384), (2, 8192), (4, 4096), (9, 2048), (18, 1024), (36, 512))  # bits, words


def padded(bits: int) -> int:
    """Return the bits of a word on the wire: whole bytes."""
    return -(-bits // 8) * 8


def address_luts(depth: int) -> int:
    """Return the LUTs of the address counters at both ends of a FIFO."""
    return 2 * (depth - 1).bit_length()


def shift_luts(depth: int, bits: int) -> int:
    """Return the LUTs of a shift register, also for depths for which FINN uses block RAM."""
    return -(-depth // 32) * -(-padded(bits) // 2) + address_luts(max(1, depth))


def blocks(depth: int, width: int) -> int:
    """Return the block RAMs of 18 kbit for a memory: copies of one shape, stacked and side by side.

    The shape is the narrowest one at least as wide as the word. For words wider than 18 bits it is
    36 x 512 up to a depth of 512, and 18 x 1024 above. width: of a word on the wire.
    """
    for bits, words in BLOCK_SHAPES[:-1]:
        if width <= bits or (bits == BLOCK_SHAPES[-2][0] and depth > BLOCK_SHAPES[-1][1]):
            return -(-depth // words) * -(-width // bits)
    bits, words = BLOCK_SHAPES[-1]
    return -(-depth // words) * -(-width // bits)


def fifo_blocks(depth: int, bits: int) -> int:
    """Return the block RAMs of a FIFO: none up to 256 words, then those of a power of two of words."""
    whole, rest = divmod(depth, MOST_VENDOR)
    total = whole * blocks(MOST_VENDOR, padded(bits))
    if rest > MOST_SHIFTED:
        total += blocks(1 << (rest - 1).bit_length(), padded(bits))
    return total


UNITS: Mapping[str, str] = {"bram": "block RAMs of 18 kbit", "lut": "LUTs of shift registers"}
OBJECTIVES: Mapping[str, Callable[[int, int], int]] = {"bram": fifo_blocks, "lut": shift_luts}


def memory_front(
    graph: Graph,
    space: SearchSpace,
    cost: MemoryCost,
    *,
    budget: Budget = None,
    max_size: int | None = None,
    points: int | None = None,
    gap: Exact = 0,
) -> ParetoFront:
    """Return the Pareto front of memory cost and period, as `pareto_front` does.

    space: search space with widths in bits. cost: cost of a memory as a function of depth and
    width. Points that are not proved are left out.
    """
    extent = extent_of(max_size, points, gap)
    unit = next((UNITS[name] for name, counted in OBJECTIVES.items() if counted is cost), "cost")
    return FrontSearch(
        graph,
        extent,
        stop_of(budget),
        lambda stop: MemorySearch(graph, space, cost, stop),
        unit=unit,
    ).front()
