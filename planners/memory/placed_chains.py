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
"""Ranges of the offset of a result: minimum, maximum, MACs, number of the group, number of the chain.

The numbers are the indices of a group, and of the partial chain that the group extends.
"""


class _PartialChain(NamedTuple):
    """A chain of groups to a separator, with a range of offsets that the tensor there may have.

    low, high: minimum and maximum offset. work: MACs. group: the last group of the chain; None for an
    input that is whole from the start. begin: the separator where this group begins, or BEFORE.
    number: index of the rest of the chain among the partial chains to `begin`.
    """

    low: int
    high: int
    work: int
    begin: int
    number: int
    group: JoinedMoves | None


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
        self._extended: dict[int, list[_PartialChain]] = {}
        self._undominated: dict[int, list[_PartialChain]] = {}
        last = len(self.sizes) - 1
        self._begin()
        for cut in range(last):
            self._undominated[cut] = chains = self._undominated_at(cut)
            for end, groups in self.groups.get((cut, False), {}).items():
                self._stop.look()
                self._extend(cut, end, chains, groups)
        complete = self._undominated_at(last)
        return (complete[0].work, self._groups_of(complete[0])) if complete else None

    def _begin(self) -> None:
        """Start with the input at any offset, or with its rows, consumed by groups or collected."""
        size, streamed = self.sizes[0], self.groups.get((0, True))
        if size <= self._cap and self._most_work > 0:
            # (): a group without moves collects the rows of the input.
            collected = None if streamed is None else ()
            whole = _PartialChain(0, self._cap - size, 0, BEFORE, 0, collected)
            self._extended[0] = [whole]
        nothing = _PartialChain(0, 0, 0, BEFORE, 0, None)
        for end, groups in (streamed or {}).items():
            self._extend(BEFORE, end, [nothing], groups)

    def _extend(
        self, begin: int, end: int, chains: Sequence[_PartialChain], groups: Sequence[Candidate]
    ) -> None:
        """Extend the partial chains to a separator by each group from there to a later separator."""
        fitting = [group for group in groups if group[0][PEAK] <= self._cap]
        if not fitting or not chains:
            return
        sizes = 0 if begin == BEFORE else self.sizes[begin], self.sizes[end]
        self._stop.spend(PAIRS_EFFORT + len(fitting) * len(chains) // PAIRS)
        pairs = _GroupsAfterChains(self._cap, sizes, chains, fitting, self._kind)
        columns = [np.concatenate(column) for column in zip(*pairs.result_ranges(), strict=True)]
        low, high, work, *_ = columns
        fits = (low <= high) & (work < self._most_work)
        self._extended.setdefault(end, []).extend(
            _PartialChain(low, high, work, begin, number, fitting[group][1])
            for low, high, work, group, number in zip(
                *(column[fits].tolist() for column in columns), strict=True
            )
        )

    def _undominated_at(self, cut: int) -> list[_PartialChain]:
        """The partial chains to a separator by MACs, at most MOST_RANGES, without dominated chains.

        A chain is dominated if another has at most its MACs, and all its offsets.
        """
        undominated: list[_PartialChain] = []
        extended = self._extended.pop(cut, [])
        self._stop.spend(RANGE_EFFORT * len(extended))
        for chain in sorted(extended, key=lambda chain: (chain.work, chain.low - chain.high)):
            if any(kept.low <= chain.low and kept.high >= chain.high for kept in undominated):
                continue
            undominated.append(chain)
            if len(undominated) == MOST_RANGES:
                break
        return undominated

    def _groups_of(self, chain: _PartialChain) -> tuple[JoinedMoves, ...]:
        """Return the groups of a chain, in execution order."""
        groups = [chain.group]
        while chain.begin != BEFORE:
            chain = self._undominated[chain.begin][chain.number]
            groups.append(chain.group)
        return tuple(group for group in reversed(groups) if group is not None)


class _GroupsAfterChains:
    """All groups (rows) after all partial chains to their input (columns), within an arena.

    `pool`: staging buffers. `is_apart`: whether the candidate is several groups, executed sequentially
    (`GroupMove.in_turn`), which fit with the result at any offset. The layouts below are written from
    offset 0 upwards.
    """

    def __init__(
        self,
        cap: int,
        sizes: tuple[int, int],
        chains: Sequence[_PartialChain],
        groups: Sequence[Candidate],
        kind: Any,
    ) -> None:
        """Set the bytes of the input and of the result. kind: of numbers, as a NumPy dtype."""
        self._cap = cap
        self._source, self._result = sizes
        needs = [numbers[PEAK + 1 :] for numbers, _ in groups]
        work, lines, self._pool, lead = np.array(needs, kind).T[:, :, None]
        self._inner = lines + self._pool
        self._lead = np.minimum(lead, self._result)
        self._low = np.array([[chain.low for chain in chains]], kind)
        self._high = np.array([[chain.high for chain in chains]], kind)
        is_apart = [bool(moves) and bool(moves[0].in_turn) for _, moves in groups]
        self._is_apart = np.array(is_apart)[:, None]
        self._work = work + np.array([[chain.work for chain in chains]], kind)

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
