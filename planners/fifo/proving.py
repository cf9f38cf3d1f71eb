"""The smallest depths, proved: part by part, where FIFOs have nothing to do with each other.

A part is a set of FIFOs; its smallest depths are those that suffice while all FIFOs outside have no
bound. No depths of the whole have fewer bits than the parts together. Parts begin as those FIFOs that
were found to be too small together, and are joined only where the smallest of each do not suffice
together. A layer without any slack separates parts: what is before it and behind it is never joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from planners.fifo.cutting import PartEvaluator, PartSearch
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.moving import Moves
from planners.fifo.rows import TooSmall

Depths = tuple[int, ...]
Look = Callable[[], None]

EFFORT = 64  # simulations for a part, before others have their turn; twice as many in every round


class _Enough(Exception):
    """The effort for a part is used up for now."""


@dataclass(slots=True)
class Part:
    """FIFOs that are searched together, and what is known about the smallest of them.

    depths: the smallest, in the order of the places, once they are found.
    """

    places: tuple[int, ...]
    bound: int = 0  # that all its depths cost at least
    depths: Depths | None = None


class Parts:
    """A search that proves the smallest depths.

    least: what no answer is below, found out; floor: what none may be below. weights: of a word.
    """

    def __init__(
        self,
        evaluator: DesignEvaluator,
        least: Sequence[int],
        weights: Sequence[int],
        floor: Sequence[int],
        look: Look,
    ) -> None:
        self._evaluator = evaluator
        self._least, self._weights, self._look = list(least), list(weights), look
        self._floor = floor
        self._moves = Moves(evaluator.system.design, evaluator.alone)
        self._known_most = self._moves.most_depths(weights, floor)
        self.most = self._known_most.depths
        self._parts: list[Part] = []
        self._regions: list[TooSmall] = []
        self._sufficient: Depths = ()  # of all FIFOs
        self._now: tuple[Part, PartSearch] | None = None
        self._end = 0  # of the turn of a part, in simulations

    @property
    def lower_bound(self) -> int:
        """Return the least cost of any sufficient distribution, as far as it is proved."""
        if self._now is not None:
            part, search = self._now
            part.bound = max(part.bound, search.lower_bound)
        inside = {place for part in self._parts for place in part.places}
        outside = [place for place in range(len(self._least)) if place not in inside]
        return self._cost(outside, self._least) + sum(part.bound for part in self._parts)

    def _cost(self, places: Sequence[int], depths: Sequence[int]) -> int:
        return sum(self._weights[place] * depths[place] for place in places)

    def proved(self, depths: Depths) -> Iterator[dict[int, int]]:
        """Yield smallest depths of ever more parts, by place; in the last those of all FIFOs.

        Only the last ones suffice for sure. Yields after each turn of a part, also if it was not
        enough for its smallest. depths: some that suffice; they say where to begin.
        """
        self._sufficient = depths
        self._begin(depths)
        effort = EFFORT
        yield from self._solved(effort)
        while (short := self._short()) is not None:
            self._join(short)
            effort *= 2
            yield from self._solved(effort)
        yield dict(enumerate(self._together()))

    def take(self, depths: Depths) -> None:
        """Take note of depths of all FIFOs that suffice."""
        self._sufficient = depths

    def _begin(self, depths: Depths) -> None:
        """Make parts without a FIFO in common of those that these depths show to be too small together.

        Each has a FIFO at its least, and the others of these depths that it then lacks: few and small
        parts, soon searched, and the bounds of all of them add up.
        """
        for place in sorted(
            range(len(depths)),
            key=lambda one: (self._least[one] - depths[one]) * self._weights[one],
        ):
            inside = {one for part in self._parts for one in part.places}
            if depths[place] == self._least[place] or place in inside:
                continue
            trial = (*depths[:place], self._least[place], *depths[place + 1 :])
            circuit = self._evaluator.circuit(trial)
            group = () if circuit is None else self._fewest(circuit.fifos, trial)
            if group and not inside & set(group):
                bound = self._cost(group, self._least)
                self._parts.append(Part(places=tuple(sorted(group)), bound=bound))

    def _solved(self, effort: int) -> Iterator[dict[int, int]]:
        """Search in each part, for so many simulations; what is not found is searched on later."""
        for part in sorted(self._parts, key=lambda one: len(one.places)):
            if part.depths is None:
                self._end = self._evaluator.simulations + effort
                with suppress(_Enough):
                    self._solve(part)
                yield self._known()

    def _short(self) -> list[tuple[int, ...]] | None:
        """Groups of FIFOs that hold the smallest depths of the parts back; None if they suffice."""
        trial: list[int | None] = list(self._together())
        found = []
        while (circuit := self._evaluator.circuit(trial)) is not None:
            free = tuple(one for one in circuit.fifos if not self._is_most(one, trial[one]))
            if not free:
                raise AssertionError("storage was moved where it does not do the same")
            found.append(free)
            for place in free:
                trial[place] = self.most[place]
        return found or None

    def _is_most(self, place: int, depth: int | None) -> bool:
        most = self.most[place]
        return depth is None or (most is not None and depth >= most)

    def _together(self) -> Depths:
        depths = list(self._least)
        for place, depth in self._known().items():
            depths[place] = depth
        return tuple(depths)

    def _known(self) -> dict[int, int]:
        return {
            place: depth
            for part in self._parts
            if part.depths is not None
            for place, depth in zip(part.places, part.depths, strict=True)
        }

    def _join(self, groups: Sequence[tuple[int, ...]]) -> None:
        """Make one part of those parts that lack space together, and of the FIFOs between them."""
        for group in groups:
            short = self._fewest(group, self._together())
            joined = [part for part in self._parts if set(part.places) & set(short)]
            places = {place for part in joined for place in part.places} | set(short)
            free = places - {place for part in joined for place in part.places}
            self._parts = [part for part in self._parts if part not in joined]
            self._parts.append(
                Part(
                    places=tuple(sorted(places)),
                    bound=sum(part.bound for part in joined)
                    + self._cost(sorted(free), self._least),
                )
            )

    def _fewest(self, group: Sequence[int], depths: Depths) -> list[int]:
        """FIFOs of a group that are too small together, none of which can be left out."""
        kept, tried = list(group), set[int]()
        while left := [one for one in kept if one not in tried]:
            self._look()
            one = max(left, key=lambda place: self._weights[place])
            tried.add(one)
            trial = list(self.most)
            for place in kept:
                trial[place] = depths[place] if place != one else trial[place]
            circuit = self._evaluator.circuit(trial)
            if circuit is not None:
                kept = [place for place in circuit.fifos if place in kept and place != one]
        return kept

    def _solve(self, part: Part) -> None:
        most = self._most_inside(part)
        evaluator = PartEvaluator(self._evaluator, part.places, most)
        search = PartSearch(
            evaluator,
            tuple(self._least[one] for one in part.places),
            [self._weights[one] for one in part.places],
            self._look_within,
            regions=self._regions,
            sufficient=self._known_inside(part, most),
        )
        self._now = part, search
        try:
            part.depths = search.cheapest()
        finally:
            part.bound = max(part.bound, search.lower_bound)
            self._regions += search.found
            self._now = None

    def _known_inside(self, part: Part, most: Sequence[int | None]) -> list[Depths]:
        """Depths of a part that suffice where all other FIFOs are at their most, if known.

        Those of the whole do, but where one of them is deeper than that.
        """
        if any(
            end is not None and depth > end
            for depth, end in zip(self._sufficient, most, strict=True)
        ):
            return []
        return [tuple(self._sufficient[one] for one in part.places)]

    def _look_within(self) -> None:
        self._look()
        if self._evaluator.simulations > self._end:
            raise _Enough

    def _most_inside(self, part: Part) -> Sequence[int | None]:
        """The depths that need not be exceeded where FIFOs outside the part are free."""
        weights = [0] * len(self._weights)
        for place in part.places:
            weights[place] = self._weights[place]
        return self._moves.most_depths(weights, self._floor, self._known_most).depths
