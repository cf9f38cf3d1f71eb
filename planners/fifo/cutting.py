"""The search for the cheapest depths of some FIFOs: regions that are too small, until none is left.

Storage for one purpose can lie in any FIFO of a path, so each of them has to be a little larger before
one of them is large enough. A region is therefore made of as few FIFOs as can be, and where they are
many it grows in all of them at once, by the same cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from planners.fifo.covering import Covering, Limits
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.rows import Row, TooSmall, in_row

MOST_SINGLY = 4  # rows of a region up to which each is grown as far as it goes, by itself
Depths = tuple[int, ...]


class PartEvaluator:
    """Some FIFOs of a design, in the order of `places`; all others have no bound but their most.

    most: the depth above which each FIFO of the design need not be, None if there is none.
    """

    def __init__(
        self, evaluator: DesignEvaluator, places: Sequence[int], most: Sequence[int | None]
    ) -> None:
        self._evaluator = evaluator
        self._places = places
        self._number = {place: number for number, place in enumerate(places)}
        self._others = [None if place in self._number else one for place, one in enumerate(most)]
        self.most = [most[place] for place in places]

    def too_small(self, depths: Sequence[int | None]) -> TooSmall | None:
        """Return depths of the design that are too small, these among them; None if these suffice."""
        own = list(self._others)
        for place, depth, most in zip(self._places, depths, self.most, strict=True):
            own[place] = least_of(depth, most)
        found = self._evaluator.circuit(own)
        return None if found is None else found.too_small

    def rows(self, region: TooSmall) -> list[list[int]]:
        """Return the FIFOs of each row of a region that are in the part."""
        own = [
            [self._number[one] for one, _ in row if one in self._number] for row in region.limits
        ]
        return [one for one in own if one]

    def inside(self, region: TooSmall) -> Limits | None:
        """Return a region by rows of the part, all other FIFOs being at their most.

        None if it says nothing then, because FIFOs outside may have no end.
        """
        found: dict[Row, int] = {}
        for row, limit in region.limits.items():
            own = [(self._number[one], times) for one, times in row if one in self._number]
            others = in_row(tuple(one for one in row if one[0] not in self._number), self._others)
            if others is None or (not own and others > limit):
                return None
            if own:
                key = tuple(sorted(own))
                found[key] = min(found.get(key, limit - others), limit - others)
        return found


def least_of(one: int | None, other: int | None) -> int | None:
    """Return the lesser of two depths, of which None is one without end."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class PartSearch:
    """The cheapest depths of a part: proposals are evaluated, and regions learnt from those too small.

    regions: what is known before. sufficient: depths that suffice, if some are known. found: regions
    that are learnt.
    """

    def __init__(
        self,
        evaluator: PartEvaluator,
        least: Depths,
        weights: Sequence[int],
        look: Callable[[], None],
        *,
        regions: Iterable[TooSmall],
        sufficient: Iterable[Depths] = (),
    ) -> None:
        self._evaluator, self._weights, self._look = evaluator, weights, look
        self._covering = Covering(least, evaluator.most, weights)
        self._sufficient = set(sufficient)
        self.found: list[TooSmall] = []
        for region in regions:
            self._learn(region)

    @property
    def lower_bound(self) -> int:
        """Return what the depths cost at least, as far as it is known."""
        return self._covering.lower_bound

    def cheapest(self) -> Depths:
        """Return the cheapest depths that suffice."""
        while (depths := self._covering.proposal(self._look, self._sufficient)) is not None:
            region = self._evaluator.too_small(depths)
            if region is None:
                self._sufficient.add(depths)
                continue
            self.found.append(self._enlarged(depths, region))
            self._learn(self.found[-1])
        return min(self._sufficient, key=lambda one: (self._covering.cost(one), one))

    def _learn(self, region: TooSmall) -> None:
        own = self._evaluator.inside(region)
        if own is not None:
            self._covering.add(own)

    def _enlarged(self, depths: Depths, region: TooSmall) -> TooSmall:
        """A region with these depths that is as large as can be, of few rows."""
        holding, region = self._fewest(depths, region)
        limits, region = self._grown(depths, holding, region)
        rows = self._evaluator.rows(region)
        if len(rows) <= MOST_SINGLY:
            for row in sorted(rows, key=lambda one: -self._weights[one[0]]):
                limits, region = self._largest(limits, row, region)
        return region

    def _fewest(self, depths: Depths, region: TooSmall) -> tuple[list[int], TooSmall]:
        """FIFOs that are too small together, none of which can be left out, and their region."""
        kept, tried = _places(self._evaluator.rows(region)), set[int]()
        while left := [one for one in kept if one not in tried]:
            self._look()
            one = max(left, key=lambda place: self._weights[place])
            tried.add(one)
            trial = [
                depth if place in kept and place != one else None
                for place, depth in enumerate(depths)
            ]
            found = self._evaluator.too_small(trial)
            if found is not None:
                kept, region = _places(self._evaluator.rows(found)), found
        return kept, region

    def _grown(
        self, depths: Depths, holding: Sequence[int], region: TooSmall
    ) -> tuple[list[int | None], TooSmall]:
        """The depths with the largest common cost above these that are still too small."""
        least = min(self._weights[place] for place in holding)
        low, high = 0, max(self._weights[place] for place in holding)
        best = self._larger(depths, holding, 0)
        while (found := self._tried(trial := self._larger(depths, holding, high))) is not None:
            low, high, best, region = high, 2 * high, trial, found
        while high - low > least:
            middle = (low + high) // 2
            found = self._tried(trial := self._larger(depths, holding, middle))
            if found is None:
                high = middle
            else:
                low, best, region = middle, trial, found
        return best, region

    def _larger(self, depths: Depths, holding: Sequence[int], cost: int) -> list[int | None]:
        """Depths that cost so much more in each of some FIFOs, all others without end."""
        found: list[int | None] = [None] * len(depths)
        for place in holding:
            found[place] = depths[place] + cost // self._weights[place]
        return found

    def _largest(
        self, limits: list[int | None], row: Sequence[int], region: TooSmall
    ) -> tuple[list[int | None], TooSmall]:
        """The limits with as many words more in one FIFO of a row as are still too small."""
        place = next((one for one in row if limits[one] is not None), None)
        if place is None:
            return limits, region
        low, step = limits[place] or 0, 1
        high = None
        while high is None or high - low > 1:
            middle = low + step if high is None else (low + high) // 2
            found = self._tried(_with(limits, place, middle))
            if found is None:
                high = middle
                continue
            low, step, region = middle, 2 * step, found
            if high is None and step == 2:  # before going far: is there an end?
                found = self._tried(_with(limits, place, None))
                if found is not None:
                    return _with(limits, place, None), found
        return _with(limits, place, low), region

    def _tried(self, depths: Sequence[int | None]) -> TooSmall | None:
        self._look()
        return self._evaluator.too_small(depths)


def _with(depths: Sequence[int | None], place: int, depth: int | None) -> list[int | None]:
    """These depths with another one in one place."""
    return [*depths[:place], depth, *depths[place + 1 :]]


def _places(rows: Sequence[Sequence[int]]) -> list[int]:
    return sorted({one for row in rows for one in row})
