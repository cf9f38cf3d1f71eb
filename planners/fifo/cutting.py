"""The engine's search for the cheapest depths, with cuts that suit FIFOs in a row.

Storage for one purpose can lie in any FIFO of a path, so each of them has to be a little larger before
one of them is large enough. A cut is therefore made of as few FIFOs as can be, and where they are many
it grows in all of them at once, by the same cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from csdf.search.cuts import Cut
from csdf.search.evaluator import Evaluation
from csdf.search.exploration import Exploration, Sufficient
from csdf.search.variables import Variable
from planners.fifo.evaluator import DesignEvaluator

MOST_SINGLY = 4  # FIFOs of a cut up to which each is grown as far as it goes, by itself


class PartEvaluator:
    """Some FIFOs of a design, in the order of `places`; all others have no bound but their most.

    most: the depth above which each FIFO of the design need not be, None if there is none.
    """

    firings = 0

    def __init__(
        self, evaluator: DesignEvaluator, places: Sequence[int], most: Sequence[int | None]
    ) -> None:
        self._evaluator = evaluator
        self._places = places
        self._number = {place: number for number, place in enumerate(places)}
        self._others = most
        self.most = [most[place] for place in places]

    @property
    def count(self) -> int:
        """Evaluations so far, of the whole design's evaluator."""
        return self._evaluator.count

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        """Return the period in these depths, and those that may grow of the FIFOs that hold it back."""
        depths = list(self._others)
        for place, depth, most in zip(self._places, capacities, self.most, strict=True):
            depths[place] = least_of(depth, most)
        found = self._evaluator.evaluate(tuple(depths))
        holding = [self._number[one] for one in found.holding if one in self._number]
        free = tuple(one for one in holding if not self.is_most(one, capacities[one]))
        return Evaluation(found.period, free)

    def is_most(self, number: int, depth: int | None) -> bool:
        """Whether a FIFO of the part need not be deeper."""
        most = self.most[number]
        return depth is None or (most is not None and depth >= most)


def least_of(one: int | None, other: int | None) -> int | None:
    """Return the lesser of two depths, of which None is one without end."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class EvenExploration(Exploration):
    """Best first, as csdf.search has it; cuts have few FIFOs and are enlarged evenly."""

    evaluator: PartEvaluator

    def __init__(
        self, evaluator: PartEvaluator, variables: Sequence[Variable], look: Callable[[], None]
    ) -> None:
        super().__init__(evaluator, variables, look)
        self.found: list[Cut] = []  # all cuts so far
        self._sets: set[frozenset[int]] = set()  # of FIFOs of which none can be left out

    def _cut(
        self, capacities: Sequence[int], holding: Sequence[int], is_sufficient: Sufficient
    ) -> Cut:
        holding = self._fewest(capacities, holding, is_sufficient)
        limits = self._grown(capacities, holding, is_sufficient)
        if len(holding) <= MOST_SINGLY:
            trial: list[int | None] = [None] * len(capacities)
            for place, limit in limits.items():
                trial[place] = limit
            for place in sorted(holding, key=lambda one: -self._weights[one]):
                trial[place] = self._largest(trial, place, is_sufficient)
            limits = {place: one for place, one in enumerate(trial) if one is not None}
        free = {p: one for p, one in limits.items() if not self.evaluator.is_most(p, one)}
        cut = Cut(free)
        self.found.append(cut)
        return cut

    def _fewest(
        self, capacities: Sequence[int], holding: Sequence[int], is_sufficient: Sufficient
    ) -> list[int]:
        """FIFOs that are too small together, none of which can be left out."""
        if frozenset(holding) in self._sets:
            return list(holding)
        kept, tried = list(holding), set[int]()
        while left := [one for one in kept if one not in tried]:
            self._look()
            one = max(left, key=lambda place: self._weights[place])
            tried.add(one)
            trial = [
                depth if place in kept and place != one else None
                for place, depth in enumerate(capacities)
            ]
            found = self.evaluator.evaluate(tuple(trial))
            if not is_sufficient(found.period):
                kept = list(found.holding)
        self._sets.add(frozenset(kept))
        return kept

    def _largest(
        self, limits: list[int | None], place: int, is_sufficient: Sufficient
    ) -> int | None:
        """As csdf.search has it, but one word more is tried first: it often suffices."""
        trial = list(limits)
        trial[place] = (limits[place] or 0) + 1
        self._look()
        if is_sufficient(self.evaluator.evaluate(tuple(trial)).period):
            return limits[place]
        return super()._largest(limits, place, is_sufficient)

    def _grown(
        self, capacities: Sequence[int], holding: Sequence[int], is_sufficient: Sufficient
    ) -> dict[int, int]:
        """The depths with the largest common cost above these that are still insufficient."""

        def limits(cost: int) -> dict[int, int]:
            return {place: capacities[place] + cost // self._weights[place] for place in holding}

        def suffices(cost: int) -> bool:
            self._look()
            trial: list[int | None] = [None] * len(capacities)
            for place, limit in limits(cost).items():
                trial[place] = limit
            return is_sufficient(self.evaluator.evaluate(tuple(trial)).period)

        low, high = 0, max(self._weights[place] for place in holding)
        while not suffices(high):
            low, high = high, 2 * high
        fine = min(self._weights[place] for place in holding)
        while high - low > fine:
            middle = (low + high) // 2
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return limits(low)

    def start_from(self, cuts: Sequence[Cut]) -> None:
        """Take note of cuts that are known before the search."""
        for cut in cuts:
            self._note(cut)

    def _note(self, cut: Cut) -> None:
        self.found.append(cut)
        self.cuts.add(cut)
