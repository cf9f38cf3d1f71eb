"""What is known not to suffice: boxes of storage distributions, and bounds that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Cut(NamedTuple):
    """A region without any sufficient distribution: each of these capacities at most so large.

    limits: from the position of a variable to the largest capacity in the region; a variable that is
    not in it may have any. Every sufficient distribution exceeds at least one limit.
    """

    limits: Mapping[int, int]

    def holds(self, capacities: Sequence[int]) -> bool:
        """Whether the distribution lies in the region."""
        return all(capacities[place] <= limit for place, limit in self.limits.items())


class Cuts:
    """All cuts found so far.

    steps: distance between useful capacities of each variable; weights: what one token costs.
    """

    def __init__(self, steps: Sequence[int], weights: Sequence[int]) -> None:
        self._steps = steps
        self._weights = weights
        self._cuts: list[Cut] = []

    def __len__(self) -> int:
        return len(self._cuts)

    def add(self, cut: Cut) -> None:
        """Take note of one more region."""
        self._cuts.append(cut)

    def bound(self, capacities: Sequence[int]) -> tuple[int, Cut | None]:
        """Return what it costs at least to leave all cuts that hold here, and the smallest of them.

        A dual ascent in integers: every cut that holds must be left by one of its variables, so it may
        charge as much as the cheapest of them still bears; what it charges is no longer to be had by
        cuts that the same step leaves as well.
        """
        holding = [cut for cut in self._cuts if cut.holds(capacities)]
        if not holding:
            return 0, None
        holding.sort(key=lambda cut: len(cut.limits))
        charged: dict[int, list[tuple[int, int]]] = {}
        total = 0
        for cut in holding:
            prices = {
                place: (limit + self._steps[place] - capacities[place]) * self._weights[place]
                for place, limit in cut.limits.items()
            }
            charge = min(
                (_left(price, charged.get(place, ())) for place, price in prices.items()),
                default=0,
            )
            if charge > 0:
                total += charge
                for place, price in prices.items():
                    charged.setdefault(place, []).append((price, charge))
        return total, holding[0]


def _left(price: int, charged: Sequence[tuple[int, int]]) -> int:
    """What a step of that price, and every longer one, still bears.

    charged: the price of each step that was charged, and how much; a longer step includes it.
    """
    spent = sum(charge for other, charge in charged if other <= price)
    least = price - spent
    for other, charge in sorted(charged):
        if other > price:
            spent += charge
            least = min(least, other - spent)
    return least
