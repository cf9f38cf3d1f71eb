"""The cheapest sufficient capacities where what they cost grows in steps, as memories of an FPGA do.

A capacity may be as large as it can be at the same cost, so only the ends of the steps are looked at.
Best first: the cheapest distribution is evaluated, and where it does not suffice, one of the capacities
on the critical cycle has to be on a higher step. So what is found first is the cheapest.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from csdf.errors import GaveUp
from csdf.search.cuts import Cut
from csdf.search.evaluator import Evaluates
from csdf.search.exploration import QUEUE_NUMBERS, Sufficient
from csdf.search.variables import Variable

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
