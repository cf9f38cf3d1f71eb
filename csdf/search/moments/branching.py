"""The smallest live capacities, by branch and bound over capacity boxes (LP relaxation).

In each box linear constraints are learned that hold for all live capacities in it. By them, and by
runs, the box becomes smaller, and in a smaller box the same markings give stronger constraints. A box
whose bound is not below the best known size is closed. The others are split at one capacity, the box
with the smallest bound first: that bound is a lower bound of all live capacities.

Source: Land, Doig, An automatic method of solving discrete programming problems, Econometrica 28(3),
1960 (branch and bound); Benders, Partitioning procedures for solving mixed-variables programming
problems, Numerische Mathematik 4, 1962 (demands as cuts). Ours is that a smaller box has fewer states.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from csdf.search.moments.boxes import Box, live_part
from csdf.search.moments.demanded import Demanded
from csdf.search.moments.single import Demand, SingleMoment
from csdf.search.moments.windows import Firings, Moment
from csdf.search.narrowing import Distribution
from csdf.search.variables import Variable, size_of

FIRST_ROUNDS = 40  # of demands, in the box of all capacities
ROUNDS = 4  # in a part of it
NEW_MOMENTS = 3  # of one round
MOST_DEMANDS = 150  # of a box
MOST_PARTS = 200  # that are looked at

Near = Callable[[Sequence[float]], tuple[Distribution | None, Sequence[Moment]]]


class Branched(NamedTuple):
    """No live capacities are smaller than `lower_bound`; the smallest that are known."""

    lower_bound: int
    best: Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A box, a bound of the live capacities in it, and what else is known of them.

    near: about the smallest capacities that meet the demands. is_settled: whether these moments
    demand no more of them.
    """

    box: Box
    bound: int = 0
    demands: tuple[Demand, ...] = ()
    moments: tuple[Moment, ...] = ()
    near: tuple[float, ...] = ()
    is_settled: bool = False


class Branching:
    """A search for live capacities that are smaller than the best ones known.

    near: makes live capacities of what a linear program means, and says at which moments space was
    lacking. seconds: asks how long a linear program may take. look: called between steps; may end the
    work by raising.
    """

    def __init__(
        self,
        firings: Firings,
        variables: Sequence[Variable],
        best: Distribution,
        *,
        near: Near,
        seconds: Callable[[], float],
        look: Callable[[], None],
    ) -> None:
        self._firings, self._variables, self._near = firings, variables, near
        self._seconds, self._look = seconds, look
        self._demanded = Demanded(variables, seconds, look)
        self.best = best

    @property
    def _size(self) -> int:
        """Of capacities that would be smaller than the best."""
        return size_of(self._variables, self.best) - 1

    def bounds(self, box: Box) -> Iterator[Branched]:
        """Yield bounds, better and better. The search has come to its end if the last is the size.

        box: of all capacities that are searched.
        """
        numbers = count()
        queue: list[tuple[int, int, _Part]] = []
        for part in self._rounds(_Part(box=box), FIRST_ROUNDS):
            queue = [] if part is None else [(part.bound, next(numbers), part)]
            yield self._branched(queue)
        while queue and queue[0][0] <= self._size and next(numbers) < MOST_PARTS:
            _, _, whole = heapq.heappop(queue)
            for half in self._halves(whole):
                *_, part = self._rounds(half, ROUNDS)
                if part is not None:
                    heapq.heappush(queue, (part.bound, next(numbers), part))
            yield self._branched(queue)

    def _branched(self, queue: Sequence[tuple[int, int, _Part]]) -> Branched:
        bound = self._size + 1
        return Branched(min(bound, queue[0][0]) if queue else bound, self.best)

    def _rounds(self, part: _Part, most: int) -> Iterator[_Part | None]:
        """Yield the part after each round of demands; None at the end if nothing is left of it."""
        known: _Part | None = part
        for _ in range(most):
            known = None if known is None else self._round(known)
            yield known
            if known is None or known.is_settled:
                return

    def _round(self, part: _Part) -> _Part | None:
        """The part made smaller, with more demands; None if nothing in it is small enough."""
        box = self._smaller(part.box, part.demands)
        if box is None:
            return None
        relaxed = self._demanded.least(box, part.demands, self._size)
        if relaxed is None:  # no time for it
            return replace(part, box=box, near=tuple(map(float, box.least)), is_settled=True)
        bound = max(part.bound, relaxed.lower_bound)
        if bound > self._size:
            return None
        near = tuple(relaxed.columns[: len(self._variables)])
        moments = (*part.moments, *self._lacking(near, part.moments))
        new = self._new_demands(box, moments, near)
        if new is None:
            return None
        known = dict.fromkeys(part.demands)
        demands = self._tightest((*known, *(one for one in new if one not in known)), near)
        return _Part(
            box=box,
            bound=bound,
            demands=demands,
            moments=moments,
            near=near,
            is_settled=known.keys() >= set(new),
        )

    def _lacking(self, near: Sequence[float], known: Sequence[Moment]) -> list[Moment]:
        """Moments at which these capacities lack space; live ones are made of them meanwhile."""
        found, moments = self._near(near)
        if found is not None and size_of(self._variables, found) <= self._size:
            self.best = found
        return [one for one in moments if one not in known][:NEW_MOMENTS]

    def _smaller(self, box: Box, demands: Sequence[Demand]) -> Box | None:
        """The part of a box that runs and demands leave."""
        places = _named(demands)
        part = live_part(self._firings, self._variables, box, self._size, places, look=self._look)
        if part is not None and demands:
            part = self._demanded.part(part, demands, self._size)
        return part

    def _new_demands(
        self, box: Box, moments: Sequence[Moment], near: Sequence[float]
    ) -> list[Demand] | None:
        """The demands of the moments that these capacities do not meet; None if one has no state."""
        new = []
        for moment in moments:
            self._look()
            single = SingleMoment.of(self._firings, self._variables, moment, box.most)
            if single is None:
                return None
            demand = single.demand(near, self._seconds(), self._look)
            new += [] if demand is None else [demand]
        return new

    def _tightest(self, demands: Sequence[Demand], near: Sequence[float]) -> tuple[Demand, ...]:
        """The demands that these capacities only just meet, or do not."""

        def spare(demand: Demand) -> float:
            total = sum(factor * near[place] for place, factor in demand.terms)
            return (total - demand.least) / sum(factor for _, factor in demand.terms)

        return tuple(sorted(demands, key=spare)[:MOST_DEMANDS])

    def _halves(self, part: _Part) -> tuple[_Part, ...]:
        """The part split at the capacity that raises the bound most; none of a single distribution."""
        wide = [
            place for place, (low, high) in enumerate(zip(*part.box, strict=True)) if low < high
        ]
        named = set(_named(part.demands)).intersection(wide)
        splits = [self._split(part, place) for place in sorted(named or wide)]
        return max(splits, key=lambda halves: self._gain(part, halves), default=())

    def _split(self, part: _Part, place: int) -> tuple[_Part, _Part]:
        """The part with at most so much at one position as is near, and with more."""
        low, high, step = part.box.least[place], part.box.most[place], self._variables[place].step
        most = low + max(0, int((part.near[place] - low) / step)) * step
        most = min(most, high - step)
        boxes = part.box.lowered(place, most), part.box.raised(place, most + step)
        first, second = (replace(part, box=box, is_settled=False) for box in boxes)
        return first, second

    def _gain(self, part: _Part, halves: tuple[_Part, _Part]) -> tuple[int, int]:
        """By how much the bound of the lesser and of the greater half is above that of the part."""
        bounds = []
        for half in halves:
            relaxed = self._demanded.least(half.box, part.demands, self._size)
            is_live = self._firings.is_live(half.box.most)
            bound = part.bound if relaxed is None else relaxed.lower_bound
            bounds.append(min(bound, self._size + 1) if is_live else self._size + 1)
        return min(bounds), max(bounds)


def _named(demands: Sequence[Demand]) -> list[int]:
    """Positions of the variables that are in a demand."""
    return sorted({place for demand in demands for place, _ in demand.terms})
