"""The cheapest depths outside all regions known to be too small, by a covering linear program.

A region is left by a row of FIFOs with more words than its limit: of each region one row has to be
longer, and which of them is what is searched. A column for each row and each length that counts says
whether the row has it. As a linear program, with columns from 0 to 1, this is a lower bound, and mostly
a close one; where a column is neither, both are tried, the cheaper first.

No float decides: a solver's prices are computed again in integers (csdf.search.moments.linear_bound),
and its columns are no more than a proposal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from math import ceil, gcd
from typing import NamedTuple

from csdf.search.moments.highs import solved
from csdf.search.moments.linear_bound import LinearProgram
from planners.fifo.rows import Row, in_row

Depths = tuple[int, ...]
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
