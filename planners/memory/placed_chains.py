"""Search for chains of groups whose tensors can be placed side by side in an arena of a given size.

The search of groups counts the memory of a chain as the maximum over its groups, as if each group
could overlap its result with its input. But a result is placed below the input that it overlaps: if
the input is already at the bottom of the arena, the result needs bytes of its own. This search
therefore extends chains from separator to separator, with the range of offsets that the tensor at each
separator may have; each group maps the range of its input to ranges of its result.

The staging buffer of a group is in one piece: below the two tensors at its ends, between them, or
above them. The line buffers of a group fill the remaining bytes and may be split. Real line buffers
are not split, so the offsets of a chain have to be searched afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf.weights import Array
from csdf.time_limit import Stop
from planners.kernels import ranges
from planners.memory.moves import GroupWay, collecting

BEFORE = -1  # the state before the first separator
MOST_RANGES = 48  # of a separator, those with the fewest MACs

# Effort of the search, in microseconds of a usual machine: least squares over the catalogue.
PAIRS_EFFORT = 400  # to extend the ranges of a separator by groups
PAIRS = 2  # of ranges and groups, all in arrays, in a microsecond
RANGE_EFFORT = 4  # to compare a range with others


class _Ranges(NamedTuple):
    """Partial chains to a separator: MACs, minimum and maximum offset of its tensor, and predecessors.

    before: the index of the partial chain at the separator where the last group begins; group: the
    last group.
    """

    work: Array
    low: Array
    high: Array
    before: list[tuple[int, int]]  # separator and index; BEFORE for the first
    group: list[GroupWay | None]


Found = tuple[Array, Array, Array, Array, Array]  # low, high, work, number of group, of range


class PlacedChains(NamedTuple):
    """The groups of a search, and the bytes of the tensors at the separators.

    groups: by the separator where they begin, and whether its tensor arrives row by row; then by end.
    """

    sizes: tuple[int, ...]
    groups: dict[tuple[int, bool], dict[int, list[GroupWay]]]

    def within(self, cap: int, most_work: int, stop: Stop) -> tuple[GroupWay, ...] | None:
        """Return the chain with the fewest MACs, below `most_work`, that fits into `cap` bytes.

        stop: ends the search with GaveUp.
        """
        return _Places(self, cap, most_work, stop).best()


class _Places:
    """Offsets of the tensors of all partial chains within one arena."""

    def __init__(self, chains: PlacedChains, cap: int, most_work: int, stop: Stop) -> None:
        self._stop = stop
        self._sizes, self._groups = chains
        self._cap, self._most_work = cap, most_work
        largest = max(cap, *self._sizes)
        for groups in self._groups.values():
            for variant in (group for same in groups.values() for group in same):
                largest = max(largest, variant.lines, variant.pool, variant.lead, variant.work)
        self._kind = ranges.number_type(8 * largest * len(self._sizes))  # MACs add up
        self._open: dict[int, list[tuple[Found, int, Sequence[GroupWay | None]]]] = {}
        self._known: dict[int, _Ranges] = {}

    def best(self) -> tuple[GroupWay, ...] | None:
        """Return the chain with the fewest MACs; None if no chain fits."""
        last = len(self._sizes) - 1
        self._begin()
        for cut in range(last):
            self._known[cut] = kept = self._kept(cut)
            for end, groups in self._groups.get((cut, False), {}).items():
                self._stop.look()
                self._extend(cut, end, kept, groups)
        self._known[last] = best = self._kept(last)
        return self._chain(last, int(best.work.argmin())) if len(best.work) else None

    def _begin(self) -> None:
        """Start with the input at any offset, or with its rows, consumed by groups or collected."""
        zero, size = np.zeros(1, self._kind), self._sizes[0]
        streamed = self._groups.get((0, True))
        nothing = _Ranges(zero, zero, zero, [(BEFORE, 0)], [None])
        if size <= self._cap:
            whole = [None if streamed is None else collecting(size)]
            self._add(BEFORE, 0, whole, [(zero, zero + self._cap - size, *(zero,) * 3)])
        for end, groups in (streamed or {}).items():
            self._extend(BEFORE, end, nothing, groups)

    def _extend(self, begin: int, end: int, found: _Ranges, groups: Sequence[GroupWay]) -> None:
        fitting = [group for group in groups if group.memory <= self._cap]
        if fitting and len(found.work):
            source = 0 if begin == BEFORE else self._sizes[begin]
            self._stop.spend(PAIRS_EFFORT + len(fitting) * len(found.work) // PAIRS)
            pairs = _Pairs(self._cap, (source, self._sizes[end]), found, fitting, self._kind)
            self._add(begin, end, fitting, list(pairs.found()))

    def _add(
        self, begin: int, end: int, groups: Sequence[GroupWay | None], cases: Sequence[Found]
    ) -> None:
        columns = tuple(np.concatenate(column) for column in zip(*cases, strict=True))
        low, high, work, group, before = columns
        fits = (low <= high) & (work < self._most_work)
        range_columns = low[fits], high[fits], work[fits], group[fits], before[fits]
        self._open.setdefault(end, []).append((range_columns, begin, groups))

    def _kept(self, cut: int) -> _Ranges:
        """The undominated partial chains: none has at most the MACs, and all offsets, of another."""
        kept: list[tuple[int, int, int, tuple[int, int], GroupWay | None]] = []
        ranges = [
            (*numbers, begin, groups)
            for range_columns, begin, groups in self._open.pop(cut, [])
            for numbers in zip(*(column.tolist() for column in range_columns), strict=True)
        ]
        self._stop.spend(RANGE_EFFORT * len(ranges))
        ranges.sort(key=lambda interval: (interval[2], interval[0] - interval[1]))
        for low, high, work, group, number, begin, groups in ranges:
            if any(kept_range[1] <= low and kept_range[2] >= high for kept_range in kept):
                continue
            kept.append((work, low, high, (begin, number), groups[group]))
            if len(kept) == MOST_RANGES:
                break
        columns = list(zip(*kept, strict=True)) or [()] * 5
        work, low, high = (np.array(column, self._kind) for column in columns[:3])
        return _Ranges(work, low, high, list(columns[3]), list(columns[4]))

    def _chain(self, cut: int, number: int) -> tuple[GroupWay, ...]:
        groups: list[GroupWay] = []
        while cut >= 0:
            chain_at = self._known[cut]
            group = chain_at.group[number]
            if group is not None:
                groups.append(group)
            cut, number = chain_at.before[number]
        return tuple(reversed(groups))


class _Pairs:
    """All groups (rows) after all ranges of their input (columns), within an arena."""

    def __init__(
        self,
        cap: int,
        sizes: tuple[int, int],
        source: _Ranges,
        groups: Sequence[GroupWay],
        kind: Any,
    ) -> None:
        """Take the bytes of the input and of the result. kind: of numbers, as a NumPy dtype."""
        self._cap = cap
        self._source, self._result = sizes
        needs = [(group.lines, group.pool, group.lead, group.work) for group in groups]
        lines, self._pool, lead, work = np.array(needs, kind).T[:, :, None]
        self._inner = lines + self._pool
        self._lead = np.minimum(lead, self._result)
        self._low, self._high = source.low[None, :], source.high[None, :]
        self._is_apart = np.array([group.is_apart for group in groups])[:, None]
        self._work = work + source.work[None, :]

    def found(self) -> Iterator[Found]:
        """The ranges of the results."""
        yield self._told(0, self._cap - self._result, self._is_apart)
        if not self._source:
            yield from self._alone()
            return
        below = np.minimum(self._high, self._cap - self._pool - self._source)
        yield from self._over(below)
        yield from self._beside(below)

    def _alone(self) -> Iterator[Found]:
        """Without an input in the arena: the result is above the staging buffer, or below."""
        cap, result, pool = self._cap, self._result, self._pool
        can = (self._inner + result <= cap) & ~self._is_apart
        yield self._told(pool, cap - result, can)
        yield self._told(0, cap - result - pool, can)

    def _over(self, below: Array) -> Iterator[Found]:
        """The result overlaps the input; both are above the staging buffer, or below.

        below: the maximum offset of the input with the staging buffer above it.
        """
        cap, source, result = self._cap, self._source, self._result
        least = self._low + source + self._inner - cap  # so that lines find room
        can = self._inner + np.maximum(self._lead + source, result) <= cap
        can = can & ~self._is_apart
        highest = np.minimum(self._high - self._lead, cap - result)
        yield self._told(np.maximum(self._pool, least), highest, can)
        highest = np.minimum(below - self._lead, cap - self._pool - result)
        yield self._told(least, highest, can & (self._low <= below))

    def _beside(self, below: Array) -> Iterator[Found]:
        """The result is above the input, or below; the staging buffer has three possible positions."""
        cap, source, result = self._cap, self._source, self._result
        low, high, pool = self._low, self._high, self._pool
        can = (self._inner + source + result <= cap) & ~self._is_apart
        raised = np.maximum(low, pool)  # what is read, with the pool below
        yield self._told(low + source, cap - result - pool, can)
        yield self._told(low + source + pool, cap - result, can)
        yield self._told(raised + source, cap - result, can & (raised <= high))
        yield self._told(pool, high - result, can)
        yield self._told(0, high - result - pool, can)
        yield self._told(0, below - result, can & (low <= below))

    def _told(self, lowest: Array | int, highest: Array | int, can: Array) -> Found:
        """The ranges from the minimum to the maximum offset, where both exist."""
        first, last, mask, work = np.broadcast_arrays(
            np.maximum(lowest, 0), highest, can, self._work
        )
        group, before = np.nonzero(mask)
        return first[mask], last[mask], work[mask], group, before
