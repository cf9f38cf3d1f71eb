"""The engine's search for the cheapest depths, with cuts that suit FIFOs in a row.

Storage for one purpose can lie in any FIFO of a path, so each of them has to be a little larger before
one of them is large enough. A cut therefore grows in all its FIFOs at once, by the same cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from csdf.search.cuts import Cut
from csdf.search.exploration import Exploration, Sufficient

MOST_SINGLY = 4  # FIFOs of a cut up to which each is grown as far as it goes, by itself


class EvenExploration(Exploration):
    """Best first, as csdf.search has it; cuts are enlarged evenly."""

    def _cut(
        self, capacities: Sequence[int], holding: Sequence[int], is_sufficient: Sufficient
    ) -> Cut:
        limits = self._grown(capacities, holding, is_sufficient)
        if len(holding) <= MOST_SINGLY:
            trial: list[int | None] = [None] * len(capacities)
            for place, limit in limits.items():
                trial[place] = limit
            for place in sorted(holding, key=lambda one: -self._weights[one]):
                trial[place] = self._largest(trial, place, is_sufficient)
            limits = {place: one for place, one in enumerate(trial) if one is not None}
        return Cut(limits)

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
            self._cuts.add(cut)

    def least_cost(self, capacities: Sequence[int]) -> int:
        """Return what every sufficient distribution costs at least, from what is known now."""
        return max(self.lower_bound, self.size(capacities) + self._cuts.bound(capacities)[0])
