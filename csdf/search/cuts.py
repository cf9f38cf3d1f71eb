"""Storage distributions known not to suffice, as boxes, and the bounds that follow from them."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from csdf.kernels import compile as compiler
from csdf.kernels import cuts as kernel
from csdf.kernels import ranges


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
        self._steps = list(steps)
        self._weights = list(weights)
        self._cuts: list[Cut] = []
        self._order: list[tuple[int, int]] = []  # number of limits, number of the cut
        self._dearest = max((0, *weights))  # no bound is more, with tokens that cost at least 1
        self._backend = compiler.backend(fits=True)
        self._table: _Table | None = None

    def __len__(self) -> int:
        return len(self._cuts)

    def __iter__(self) -> Iterator[Cut]:
        return iter(self._cuts)

    def add(self, cut: Cut) -> None:
        """Take note of one more region."""
        number = len(self._cuts)
        self._cuts.append(cut)
        key = (len(cut.limits), number)
        place = bisect(self._order, key)
        self._order.insert(place, key)
        self._dearest += sum(
            (limit + self._steps[place]) * max(1, self._weights[place])
            for place, limit in cut.limits.items()
        )
        self._require_room(())
        if self._table is not None and not self._table.take(number, cut, place):
            self._table = None

    def bound(self, capacities: Sequence[int]) -> tuple[int, Cut | None]:
        """Return what it costs at least to leave all cuts that hold here, and one of them.

        A dual ascent in integers, those with the fewest limits first, of which the first is returned.
        """
        if not self._cuts:
            return 0, None
        self._require_room(capacities)
        if self._table is None:
            self._table = _Table(self._backend, self._steps, self._weights, self._cuts, self._order)
        total, first = self._table.leaving_cost(capacities)
        return total, None if first < 0 else self._cuts[first]

    def _require_room(self, capacities: Sequence[int]) -> None:
        """Go over to plain integers before numbers that 64 bits do not hold."""
        largest = ranges.cuts(self._dearest, capacities, self._steps)
        if self._backend.is_compiled and largest > compiler.SAFE:
            self._backend, self._table = compiler.PLAIN, None


class _Table:
    """The cuts as the kernel wants them, with room for as many again."""

    def __init__(
        self,
        backend: compiler.Backend,
        steps: Sequence[int],
        weights: Sequence[int],
        cuts: Sequence[Cut],
        order: Sequence[tuple[int, int]],
    ) -> None:
        self._backend = backend
        self._variables = len(steps)
        self._room = 2 * len(cuts) + 16
        self._limits = backend.array([-1] * (self._room * self._variables))
        self._order = backend.array([0] * self._room)
        self._table = backend.kernel(kernel.Table)(
            backend.array(steps), backend.array(weights), self._limits, self._order, backend.blank
        )
        self._count = len(cuts)
        self._run = backend.kernel(kernel.leaving_cost)
        for number, cut in enumerate(cuts):
            self._write(number, cut)
        self._order[: len(order)] = backend.array([number for _, number in order])

    def take(self, number: int, cut: Cut, place: int) -> bool:
        """Add a cut, at this place of the order; False if there is no room left."""
        if number >= self._room:
            return False
        self._write(number, cut)
        later = self._backend.array([number]) + self._order[place : self._count]
        self._order[place : self._count + 1] = later
        self._count += 1
        return True

    def _write(self, number: int, cut: Cut) -> None:
        for place, limit in cut.limits.items():
            self._limits[number * self._variables + place] = limit

    def leaving_cost(self, capacities: Sequence[int]) -> tuple[int, int]:
        total = self._run(self._table, self._backend.array(capacities), self._count)
        return int(total), self._table.first
