"""Search for chains of groups whose tensors can be placed side by side in an arena of a given size.

The search of groups counts the memory of a chain as the maximum over its groups, as if each group
could overlap its result with its input. But a result is placed below the input that it overlaps: if
the input is already at the bottom of the arena, the result needs bytes of its own. A separator is a
layer after which only its own tensor is live. This search extends chains from separator to separator,
with the range of offsets that the tensor at each separator may have; each group maps the range of its
input to ranges of its result.

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
from planners.memory.moves import JoinedMoves

Candidate = tuple[tuple[int, int, int, int, int], JoinedMoves]
"""Numbers and moves of a group. The numbers are bytes, except the second, which is MACs of a frame:

peak with the whole tensors at the ends; MACs; line buffers, which may be split; staging buffer, which
is contiguous; lead: the minimum of source offset minus result offset at which the result may overlap
the source. Example of a lead of 64: a source at offset 100 allows a result at offset 36 or below.
"""
PEAK = 0  # index of the first of these numbers

BEFORE = -1  # the state before the first separator
MOST_RANGES = 48  # of a separator, those with the fewest MACs

# Effort of the search, in microseconds of a usual machine: least squares over the catalogue.
PAIRS_EFFORT = 400  # to extend the ranges of a separator by groups
PAIRS = 2  # of ranges and groups, all in arrays, in a microsecond
RANGE_EFFORT = 4  # to compare a range with others

_Extensions = tuple[Array, ...]
"""Ranges of the offset of a result: minimum, maximum, MACs, number of the group, index of the input."""


class _Ranges(NamedTuple):
    """Partial chains to a separator: MACs, minimum and maximum offset of its tensor, and predecessors.

    before: the index of the partial chain at the separator where the last group begins; group: the
    last group.
    """

    work: Array
    low: Array
    high: Array
    before: list[tuple[int, int]]  # separator and index; BEFORE for the first
    group: list[JoinedMoves | None]


class PlacedChains:
    """Search for offsets of the tensors of all partial chains within an arena."""

    def __init__(
        self, sizes: tuple[int, ...], groups: dict[tuple[int, bool], dict[int, list[Candidate]]]
    ) -> None:
        """Set the bytes of the tensors at the separators, and the groups.

        groups: by the separator where they begin, and whether its tensor arrives row by row; then by
        end.
        """
        self.sizes, self.groups = sizes, groups

    def within(
        self, cap: int, most_work: int, stop: Stop
    ) -> tuple[int, tuple[JoinedMoves, ...]] | None:
        """Return the fewest MACs of a chain that fits into `cap` bytes, and the chain; or None.

        most_work: only chains with fewer MACs are searched. stop: ends the search with GaveUp.
        """
        self._stop, self._cap, self._most_work = stop, cap, most_work
        largest = max(cap, *self.sizes)
        for groups_from in self.groups.values():
            for numbers, _ in (group for same in groups_from.values() for group in same):
                largest = max(largest, *numbers[PEAK + 1 :])
        self._kind = ranges.number_type(8 * largest * len(self.sizes))  # MACs add up
        self._open: dict[int, list[tuple[_Extensions, int, Sequence[JoinedMoves | None]]]] = {}
        self._known: dict[int, _Ranges] = {}
        last = len(self.sizes) - 1
        self._begin()
        for cut in range(last):
            self._known[cut] = kept = self._kept(cut)
            for end, groups in self.groups.get((cut, False), {}).items():
                self._stop.look()
                self._extend(cut, end, kept, groups)
        self._known[last] = best = self._kept(last)
        if not len(best.work):
            return None
        number = int(best.work.argmin())
        return int(best.work[number]), self._chain(last, number)

    def _begin(self) -> None:
        """Start with the input at any offset, or with its rows, consumed by groups or collected."""
        zero, size = np.zeros(1, self._kind), self.sizes[0]
        streamed = self.groups.get((0, True))
        nothing = _Ranges(zero, zero, zero, [(BEFORE, 0)], [None])
        if size <= self._cap:
            # None: the input is whole from the start; (): a group without moves collects its rows.
            whole = [None if streamed is None else ()]
            self._add(BEFORE, 0, whole, [(zero, zero + self._cap - size, zero, zero, zero)])
        for end, groups in (streamed or {}).items():
            self._extend(BEFORE, end, nothing, groups)

    def _extend(self, begin: int, end: int, partial: _Ranges, groups: Sequence[Candidate]) -> None:
        """Extend the partial chains to a separator by each group from there to a later separator."""
        fitting = [group for group in groups if group[0][PEAK] <= self._cap]
        if fitting and len(partial.work):
            source = 0 if begin == BEFORE else self.sizes[begin]
            self._stop.spend(PAIRS_EFFORT + len(fitting) * len(partial.work) // PAIRS)
            pairs = _GroupsAfterRanges(
                self._cap, (source, self.sizes[end]), partial, fitting, self._kind
            )
            self._add(begin, end, [moves for _, moves in fitting], list(pairs.result_ranges()))

    def _add(
        self,
        begin: int,
        end: int,
        groups: Sequence[JoinedMoves | None],
        cases: Sequence[_Extensions],
    ) -> None:
        """Record the partial chains to `end` that have an offset, and fewer MACs than the limit."""
        columns = [np.concatenate(column) for column in zip(*cases, strict=True)]
        low, high, work, _, _ = columns
        fits = (low <= high) & (work < self._most_work)
        fitting = tuple(column[fits] for column in columns)
        self._open.setdefault(end, []).append((fitting, begin, groups))

    def _kept(self, cut: int) -> _Ranges:
        """The undominated partial chains: none has at most the MACs, and all offsets, of another."""
        kept: list[tuple[int, int, int, tuple[int, int], JoinedMoves | None]] = []
        candidates = [
            (*numbers, begin, groups)
            for extensions, begin, groups in self._open.pop(cut, [])
            for numbers in zip(*(column.tolist() for column in extensions), strict=True)
        ]
        self._stop.spend(RANGE_EFFORT * len(candidates))
        candidates.sort(key=lambda interval: (interval[2], interval[0] - interval[1]))
        for low, high, work, group, number, begin, groups in candidates:
            if any(kept_range[1] <= low and kept_range[2] >= high for kept_range in kept):
                continue
            kept.append((work, low, high, (begin, number), groups[group]))
            if len(kept) == MOST_RANGES:
                break
        columns = list(zip(*kept, strict=True)) or [()] * 5
        work, low, high = (np.array(column, self._kind) for column in columns[:3])
        return _Ranges(work, low, high, list(columns[3]), list(columns[4]))

    def _chain(self, cut: int, number: int) -> tuple[JoinedMoves, ...]:
        groups: list[JoinedMoves] = []
        while cut >= 0:
            chain_at = self._known[cut]
            group = chain_at.group[number]
            if group is not None:
                groups.append(group)
            cut, number = chain_at.before[number]
        return tuple(reversed(groups))


class _GroupsAfterRanges:
    """All groups (rows) after all ranges of their input (columns), within an arena.

    `pool`: staging buffers. `is_apart`: whether the candidate is several groups, executed sequentially
    (`GroupMove.in_turn`), which fit with the result at any offset. The layouts below are written from
    offset 0 upwards.
    """

    def __init__(
        self,
        cap: int,
        sizes: tuple[int, int],
        source: _Ranges,
        groups: Sequence[Candidate],
        kind: Any,
    ) -> None:
        """Take the bytes of the input and of the result. kind: of numbers, as a NumPy dtype."""
        self._cap = cap
        self._source, self._result = sizes
        needs = [numbers[PEAK + 1 :] for numbers, _ in groups]
        work, lines, self._pool, lead = np.array(needs, kind).T[:, :, None]
        self._inner = lines + self._pool
        self._lead = np.minimum(lead, self._result)
        self._low, self._high = source.low[None, :], source.high[None, :]
        is_apart = [bool(moves) and bool(moves[0].in_turn) for _, moves in groups]
        self._is_apart = np.array(is_apart)[:, None]
        self._work = work + source.work[None, :]

    def result_ranges(self) -> Iterator[_Extensions]:
        """Yield the ranges of the results, layout by layout."""
        yield self._ranges_where(self._is_apart, 0, self._cap - self._result)
        if not self._source:
            yield from self._without_input()
            return
        # The maximum offset of the input with the staging buffer above it.
        below_pool = np.minimum(self._high, self._cap - self._pool - self._source)
        yield from self._overlapping(below_pool)
        yield from self._side_by_side(below_pool)

    def _without_input(self) -> Iterator[_Extensions]:
        """Without an input in the arena: pool | result, or result | pool."""
        cap, result, pool = self._cap, self._result, self._pool
        fits = (self._inner + result <= cap) & ~self._is_apart
        yield self._ranges_where(fits, pool, cap - result)
        yield self._ranges_where(fits, 0, cap - result - pool)

    def _overlapping(self, below_pool: Array) -> Iterator[_Extensions]:
        """The result overlaps the input: pool | result + input, or result + input | pool."""
        cap, source, result = self._cap, self._source, self._result
        fits = self._inner + np.maximum(self._lead + source, result) <= cap
        fits = fits & ~self._is_apart
        # Tensors occupy the bytes from the result to the end of the input, at `low` or above. Pool and
        # line buffers have to fit into the other cap - (low + source - offset of the result) bytes.
        lowest = self._low + source + self._inner - cap
        highest = np.minimum(self._high - self._lead, cap - result)
        yield self._ranges_where(fits, np.maximum(self._pool, lowest), highest)
        highest = np.minimum(below_pool - self._lead, cap - self._pool - result)
        yield self._ranges_where(fits & (self._low <= below_pool), lowest, highest)

    def _side_by_side(self, below_pool: Array) -> Iterator[_Extensions]:
        """The result is above the input, or below, with three positions of the pool for each."""
        cap, source, result = self._cap, self._source, self._result
        low, high, pool = self._low, self._high, self._pool
        fits = (self._inner + source + result <= cap) & ~self._is_apart
        # input | result | pool
        yield self._ranges_where(fits, low + source, cap - result - pool)
        # input | pool | result
        yield self._ranges_where(fits, low + source + pool, cap - result)
        # pool | input | result
        raised = np.maximum(low, pool)
        yield self._ranges_where(fits & (raised <= high), raised + source, cap - result)
        # pool | result | input
        yield self._ranges_where(fits, pool, high - result)
        # result | pool | input
        yield self._ranges_where(fits, 0, high - result - pool)
        # result | input | pool
        yield self._ranges_where(fits & (low <= below_pool), 0, below_pool - result)

    def _ranges_where(self, fits: Array, lowest: Array | int, highest: Array | int) -> _Extensions:
        """The ranges from the minimum to the maximum offset, of the pairs that fit."""
        low, high, mask, work = np.broadcast_arrays(
            np.maximum(lowest, 0), highest, fits, self._work
        )
        group, before = np.nonzero(mask)
        return low[mask], high[mask], work[mask], group, before
