"""The smallest depths, proved: part by part, where FIFOs have nothing to do with each other.

A part is a set of FIFOs; its smallest depths are those that suffice while all FIFOs outside have no
bound. No depths of the whole have fewer bits than the parts together. Parts begin as those FIFOs that
were found to be too small together, and are joined only where the smallest of each do not suffice
together. A layer without any slack separates parts: what is before it and behind it is never joined.

The search for the cheapest depths of some FIFOs: regions that are too small, until none is left.

Storage for one purpose can lie in any FIFO of a path, so each of them has to be a little larger before
one of them is large enough. A region is therefore made of as few FIFOs as can be, and where they are
many it grows in all of them at once, by the same cost.

The cheapest depths outside all regions known to be too small, by a covering linear program.

A region is left by a row of FIFOs with more words than its limit: of each region one row has to be
longer, and which of them is what is searched. A column for each row and each length that counts says
whether the row has it. As a linear program, with columns from 0 to 1, this is a lower bound, and mostly
a close one; where a column is neither, both are tried, the cheaper first.

No float decides: a solver's prices are computed again in integers (see
csdf.search.liveness_bounds.linear_programs), and its columns are no more than a proposal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, gcd
from typing import NamedTuple

from csdf.search.liveness_bounds.linear_programs import LinearProgram, solved
from planners.fifo.dominance import Moves
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import Row, TooSmall, in_row

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


MOST_SINGLY = 4  # rows of a region up to which each is grown as far as it goes, by itself


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


Length = tuple[Row, int]  # a row that has so many words at least
Limits = Mapping[Row, int]

SECONDS = 60.0  # for a linear program, which takes some thousandths
CLOSE = 1e-6  # to a whole number


class _Node(NamedTuple):
    """A part of the search: what its depths cost at least, and the lengths that were decided on."""

    bound: int
    number: int
    decided: Mapping[Length, bool]


class Covering:
    """Regions that are too small, and the search for the cheapest depths outside of all of them.

    least, most: of each FIFO, None for no end. weights: what a word of each costs.
    """

    def __init__(
        self, least: Sequence[int], most: Sequence[int | None], weights: Sequence[int]
    ) -> None:
        self._least, self._most, self._weights = tuple(least), tuple(most), tuple(weights)
        self._step = gcd(*weights) or 1
        self._regions: list[Limits] = []
        self.lower_bound = self.cost(self._least)
        self._nodes = [_Node(self.lower_bound, 0, {})]
        self._made = 1

    def cost(self, depths: Sequence[int]) -> int:
        """Return what depths cost."""
        return sum(map(int.__mul__, depths, self._weights))

    def add(self, region: Limits) -> None:
        """Take note of a region; rows that cannot be longer do not count."""
        if any((in_row(row, self._least) or 0) > limit for row, limit in region.items()):
            return  # none of the depths that are looked at is in it
        own = {row: limit for row, limit in region.items() if self._can_pass(row, limit)}
        if any(_is_within(own, known) for known in self._regions):
            return
        self._regions = [one for one in self._regions if not _is_within(one, own)]
        self._regions.append(own)

    def _can_pass(self, row: Row, limit: int) -> bool:
        most = in_row(row, self._most)
        return most is None or most > limit

    def proposal(self, look: Callable[[], None], sufficient: set[Depths]) -> Depths | None:
        """Return depths outside all regions: they suffice, or another region is to be learnt from them.

        sufficient: depths that are known to suffice. None if nothing is cheaper than one of them.
        """
        best = min(map(self.cost, sufficient), default=None)
        while self._nodes:
            look()
            node = heapq.heappop(self._nodes)
            self.lower_bound = max(self.lower_bound, node.bound)
            if best is not None and node.bound >= best:
                self.lower_bound = max(self.lower_bound, best)
                return None
            try:
                found = self._solved(node, look)
            except BaseException:
                heapq.heappush(self._nodes, node)  # its part of the depths is still to be searched
                raise
            if found is None:
                continue
            bound, depths, unsure = found
            node = _Node(max(bound, node.bound), node.number, node.decided)
            if self._nodes and node.bound > self._nodes[0].bound:
                heapq.heappush(self._nodes, node)
                continue
            self.lower_bound = max(self.lower_bound, node.bound)
            if depths not in sufficient and not self._is_inside(depths):
                heapq.heappush(self._nodes, node)
                return depths
            self._branch(node, unsure)
        return None

    def _is_inside(self, depths: Depths) -> bool:
        return any(
            all((in_row(row, depths) or 0) <= limit for row, limit in one.items())
            for one in self._regions
        )

    def _branch(self, node: _Node, unsure: Length) -> None:
        for has in (True, False):
            self._made += 1
            decided = {**node.decided, unsure: has}
            heapq.heappush(self._nodes, _Node(node.bound, self._made, decided))

    def _solved(self, node: _Node, look: Callable[[], None]) -> tuple[int, Depths, Length] | None:
        """The bound of a node, depths near its optimum, a length to decide on; None if it is empty."""
        made = _Program(self._least, self._most, self._weights, self._regions, node.decided)
        if made.is_empty:
            return None
        relaxed = solved(made.program, SECONDS, look)
        if relaxed is None:  # of a program that has a solution: the solver gave up
            return node.bound, self._least, made.any_length()
        depths = tuple(ceil(one - CLOSE) for one in relaxed.columns[: len(self._least)])
        bound = -(-relaxed.lower_bound // self._step) * self._step
        return bound, depths, made.unsure(relaxed.columns)


class _Program:
    """The linear program of a node: depths, and for each row the lengths that count."""

    def __init__(
        self,
        least: Depths,
        most: Sequence[int | None],
        weights: Sequence[int],
        regions: Sequence[Limits],
        decided: Mapping[Length, bool],
    ) -> None:
        self.program = LinearProgram()
        self.is_empty = False
        self._decided = decided
        self._most = [_at_most(place, one, decided) for place, one in enumerate(most)]
        for weight, low, high in zip(weights, least, self._most, strict=True):
            self.is_empty |= high is not None and high < low
            self.program.add_column(weight, low, high)
        self._columns: dict[Length, int] = {}
        for row, lengths in _lengths(regions, decided).items():
            self._add_row(row, sorted(lengths), in_row(row, least) or 0)
        for region in regions:
            ways = [self._columns[row, limit + 1] for row, limit in region.items()]
            self.is_empty |= not any(self.program.most[one] for one in ways)
            self.program.add_row([(one, -1) for one in ways], -1)

    def _add_row(self, row: Row, lengths: Sequence[int], base: int) -> None:
        """A row of FIFOs is as long as the longest of its lengths says, and no less than `base`."""
        terms, before = [(fifo, -times) for fifo, times in row], base
        for length in lengths:
            column = self.program.add_column(0, *self._range(row, length))
            self.is_empty |= self.program.least[column] > (self.program.most[column] or 0)
            if before != base:
                self.program.add_row([(column, 1), (column - 1, -1)], 0)
            self._columns[row, length] = column
            terms.append((column, length - before))
            before = length
        self.program.add_row(terms, -base)

    def _range(self, row: Row, length: int) -> tuple[int, int]:
        """Whether a row has to have a length, and whether it may, as numbers."""
        own = [(one, has) for (other, one), has in self._decided.items() if other == row]
        must = any(has and length <= one for one, has in own)
        most = in_row(row, self._most)
        may = (most is None or most >= length) and all(has or length < one for one, has in own)
        return int(must), int(may)

    def unsure(self, columns: Sequence[float]) -> Length:
        """Return the length that is least decided in a solution, or a depth if all are decided."""
        doubt = {length: min(columns[at], 1 - columns[at]) for length, at in self._columns.items()}
        best = max(doubt, key=lambda one: doubt[one], default=None)
        if best is not None and doubt[best] > CLOSE:
            return best
        depths = len(self._most)
        broken = [
            place for place in range(depths) if columns[place] % 1 > CLOSE < 1 - columns[place] % 1
        ]
        for place in [*broken, *range(depths)]:
            length = ((place, 1),), ceil(columns[place] - CLOSE)
            if length not in self._decided:
                return length
        return self.any_length()

    def any_length(self) -> Length:
        """Return a length that is not decided yet."""
        for length, column in self._columns.items():
            if self.program.least[column] != self.program.most[column]:
                return length
        raise AssertionError(
            "all lengths are decided, and yet it is open which depths are cheapest"
        )


def _at_most(place: int, most: int | None, decided: Mapping[Length, bool]) -> int | None:
    """The depth that a FIFO has at most, where it was decided that it has less than some length."""
    own = ((place, 1),)
    ends = [length - 1 for (row, length), has in decided.items() if row == own and not has]
    return min([*ends, *([] if most is None else [most])], default=None)


def _lengths(regions: Sequence[Limits], decided: Mapping[Length, bool]) -> dict[Row, set[int]]:
    """The lengths of each row that leave a region, and those that it was decided to have."""
    found: dict[Row, set[int]] = {}
    for region in regions:
        for row, limit in region.items():
            found.setdefault(row, set()).add(limit + 1)
    for (row, length), has in decided.items():
        if has:
            found.setdefault(row, set()).add(length)
    return found


def _is_within(less: Limits, more: Limits) -> bool:
    """Whether all depths of one region are in the other."""
    return all(row in less and less[row] <= limit for row, limit in more.items())
