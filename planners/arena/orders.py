"""Placement of blocks in an order: greedy by first fit or best fit, and by exact search.

A block is a set of buffers at one offset (planners.arena.blocks). Offsets and sizes are counted in a
unit of `unit` bytes. A generator "in slices" yields [] as a pause between two long calls of a kernel,
so that its caller can stop, and a plan as soon as the plan is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import accumulate
from random import Random
from typing import NamedTuple

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks, Clique
from planners.arena.problem import loads
from planners.kernels import placement, placement_search, ranges

TRIES = 32  # failures of hill climbing, after which it restarts from the best order
HEAT_ROOM = 32  # entries of the undo trail for each block: changes of heat on one branch
COMPARISONS = 10**8  # of lifetimes in one call of a kernel, about a tenth of a second
PLAIN_COMPARISONS = 10**6
# Of a placement, in a microsecond of a typical machine, measured on problems of 130 to 3000 blocks.
VISITS = 80  # of blocks and conflicts
SHIFTS = 700  # of blocks passed over in sorting


class Greedy:
    """Places the blocks of one problem in any order."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        largest = ranges.lowest_fit(blocks.size, blocks.alignment, blocks.lowest)
        self._backend = backend = compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
        self._place = backend.kernel(placement.lowest_fit)
        columns = blocks.neighbour_start, blocks.neighbour, blocks.rise, blocks.lift
        self._conflicts = backend.kernel(placement.Conflicts)(*map(backend.view, columns))
        maximum = max(blocks.conflicts_each, default=0) if blocks.is_listed else 0
        self._ground = backend.kernel(placement.Ground)(
            backend.array(blocks.alignment),
            backend.array(blocks.lowest),
            backend.blank(maximum),
            backend.blank(maximum),
        )
        # Coordinate compression: conflicts depend only on the order of times.
        times = {time: rank for rank, time in enumerate(sorted({*blocks.starts, *blocks.ends}))}
        self._starts = [times[time] for time in blocks.starts]
        self._ends = [times[time] for time in blocks.ends]
        self._lifetimes = backend.kernel(placement.Lifetimes)(
            *map(backend.array, (self._starts, self._ends, blocks.size))
        )
        self._window, self._window_first = _windows(self._starts, self._ends)
        self._free = [block for block in range(len(blocks)) if not blocks.is_fixed[block]]
        placed = [int(fixed) for fixed in blocks.is_fixed]
        self._start = (
            placed,
            [offset * fixed for offset, fixed in zip(blocks.lowest, placed, strict=True)],
        )

    def offsets(self, order: Sequence[int], *, is_tight: bool = False) -> list[int]:
        """Return the offsets, in units; fixed blocks are placed before all others.

        is_tight: each block takes the smallest gap that holds it, if conflicts are not listed.
        """
        *_, offsets = self._offsets_in_slices(order, is_tight=is_tight)
        return offsets

    def _offsets_in_slices(self, order: Sequence[int], *, is_tight: bool) -> Iterator[list[int]]:
        """Yield the offsets, in slices; the last list is the plan."""
        backend, blocks = self._backend, self._blocks
        is_placed, offset = (backend.array(values) for values in self._start)
        free = [block for block in order if not blocks.is_fixed[block]]
        if blocks.is_listed:
            placed = backend.kernel(placement.Placed)(is_placed, offset)
            self._place(backend.array(free), self._ground, self._conflicts, placed)
        else:
            columns = (backend.blank(self._window_first[-1]) for _ in range(4))
            stack = backend.kernel(placement.Stack)(
                *columns,
                backend.array(self._window_first),
                backend.blank(len(self._window_first)),
                self._window,
            )
            for block in range(len(blocks)):
                if blocks.is_fixed[block]:
                    backend.kernel(placement.put_by_time)(
                        stack, self._lifetimes, block, blocks.lowest[block]
                    )
            fit = backend.kernel(placement.fit_by_time)
            step = max(
                1, (COMPARISONS if backend.is_compiled else PLAIN_COMPARISONS) // len(blocks)
            )
            for first in range(0, len(free), step):
                yield []
                piece = backend.array(free[first : first + step])
                fit(piece, self._lifetimes, self._ground, stack, offset, int(is_tight))
        yield backend.take(offset, range(len(blocks)))

    def standard_plans(self) -> Iterator[list[int]]:
        """Yield the plans of the standard orders, good orders first."""
        return (
            self.offsets(order, is_tight=is_tight) for order, is_tight in self._standard_orders()
        )

    def standard_plans_in_slices(self) -> Iterator[list[int]]:
        """Yield the plans of the standard orders, in slices."""
        for order, is_tight in self._standard_orders():
            yield from self._offsets_in_slices(order, is_tight=is_tight)

    def _standard_orders(self) -> Iterator[tuple[list[int], bool]]:
        """Yield pairs: a standard order, and whether its blocks are placed by best fit."""
        # Best fit needs the gaps by time, which only the kernel for unlisted conflicts keeps.
        modes = (False,) if self._blocks.is_listed else (False, True)
        length, area, size, conflicts = _features(self._blocks)
        early = [-start for start in self._blocks.starts]
        for order in () if self._blocks.is_listed else self._peak_orders():
            yield from ((order, is_tight) for is_tight in modes)
        # Greedy by size (Pisarchyk and Lee), by area, by length, by degree, by start.
        for columns in ((size, early), (area,), (length, size), (conflicts, size), (early, size)):
            order = sorted(self._free, key=ranks(*columns).__getitem__)
            yield from ((order, is_tight) for is_tight in modes)

    def _peak_orders(self) -> Iterator[list[int]]:
        """Yield orders that begin with the blocks live at the peak of the load.

        First fit stacks these blocks without a gap.
        """
        blocks = self._blocks
        starts, ends, size = self._starts, self._ends, blocks.size
        load = loads(zip(starts, ends, size, strict=True))
        peak = max(load, key=load.__getitem__)
        lives = list(zip(starts, ends, strict=True))
        # The distance of each lifetime from the time of the peak; 0 for blocks live at the peak.
        distance = [max(start - peak, peak + 1 - end, 0) for start, end in lives]
        near = [-steps for steps in distance]
        length, early = [end - start for start, end in lives], [-start for start in starts]
        area = [a * b for a, b in zip(length, size, strict=True)]
        # At the peak by the first feature, elsewhere by the second; larger values are placed first.
        for at_peak in (length, size, ends, early):
            for elsewhere in (size, near, length, area):
                yield sorted(
                    self._free,
                    key=lambda block: (
                        distance[block] > 0,
                        -(elsewhere if distance[block] else at_peak)[block],
                        -size[block],
                    ),
                )

    def improvements(self, offsets: Sequence[int], random: Random) -> Iterator[list[int]]:
        """Yield plans without end, in slices: the standard plans, then hill climbing over orders.

        A move shifts the highest block, or a block in conflict with it, to an earlier position of the
        order.
        Source: Lee et al., On-device neural net inference with mobile GPUs, 2019.
        """
        if not self._free:
            return
        blocks = self._blocks
        best, order = blocks.peak(offsets), sorted(self._free, key=offsets.__getitem__)
        is_best_tight = False
        for start, is_tight in self._standard_orders():
            placed_offsets: list[int] = []
            for placed_offsets in self._offsets_in_slices(start, is_tight=is_tight):
                yield placed_offsets
            if blocks.peak(placed_offsets) < best:
                best, is_best_tight = blocks.peak(placed_offsets), is_tight
                order = start if is_tight else sorted(self._free, key=placed_offsets.__getitem__)
        current = list(order)
        failures = 0
        while True:
            for placed_offsets in self._offsets_in_slices(current, is_tight=is_best_tight):
                yield placed_offsets
            peak = blocks.peak(placed_offsets)
            failures += 1
            if peak <= best:
                failures = 0 if peak < best else failures
                best, order = peak, list(current)
            # Restart from the best order: after that many failures the walk is likely to have
            # drifted away.
            current = list(order) if failures % TRIES == 0 else current
            highest = max(
                current, key=lambda block: placed_offsets[block] * blocks.unit + blocks.room[block]
            )
            near = [block for block in blocks.neighbours(highest) if not blocks.is_fixed[block]]
            # The peak falls only if the highest block moves, or a block it conflicts with.
            moved = highest if not near or random.randrange(2) else random.choice(near)
            index = current.index(int(moved))
            # Earlier in the order means placed lower, so blocks are only moved forwards.
            current.insert(random.randrange(index + 1), current.pop(index))


def _windows(starts: Sequence[int], ends: Sequence[int]) -> tuple[int, list[int]]:
    """Return the length of the windows of time, and the first entry of each window.

    A window is as long as the longest lifetime; the last number is the count of all entries.
    """
    lives = list(zip(starts, ends, strict=True))
    # With windows as long as the longest lifetime each block meets at most two of them.
    width = max((end - start for start, end in lives), default=1)
    counts = [0] * (max(ends, default=1) // width + 1)
    for start, end in lives:
        for window in range(start // width, (end - 1) // width + 1):
            counts[window] += 1
    return width, list(accumulate(counts, initial=0))


class Heat(Enum):
    """How exact search computes the heat of a block: the largest load of its cliques, or zero."""

    RENEWED = "whenever the unplaced blocks split into components"
    CONSTANT = "once, for all blocks"
    ZERO = "not at all: the rank alone decides"


class TrialOrder(NamedTuple):
    """The order in which exact search tries blocks at the same offset: by heat, then by rank."""

    rank: Sequence[int]
    heat: Heat


class SearchInput:
    """The input of the searches: blocks, their conflicts and cliques as arrays of one backend."""

    def __init__(
        self, blocks: Blocks, cliques: Sequence[Clique], backend: compiler.Backend
    ) -> None:
        self.blocks = blocks
        self.backend = backend
        of_block: list[list[tuple[int, int]]] = [[] for _ in range(len(blocks))]
        for number, clique in enumerate(cliques):
            for block, weight in zip(clique.blocks, clique.weights, strict=True):
                of_block[block].append((number, weight))
        start = [0]
        for entries in of_block:
            start.append(start[-1] + len(entries))
        columns = blocks.neighbour_start, blocks.neighbour, blocks.rise, blocks.lift
        self.conflicts = backend.kernel(placement.Conflicts)(*map(backend.view, columns))
        self.cliques = backend.kernel(placement_search.Cliques)(
            backend.array(start),
            backend.array([number for entries in of_block for number, _ in entries]),
            backend.array([weight for entries in of_block for _, weight in entries]),
            backend.blank(len(cliques)),
        )
        self.sizes = backend.array(blocks.size), backend.array(blocks.alignment)
        self.totals = totals = [sum(clique.weights) for clique in cliques]
        self.heat = [
            max((totals[number] for number, _ in entries), default=0) for entries in of_block
        ]
        self.cliques_each = [len(entries) for entries in of_block]


class PlacementSearch:
    """An exact search for a plan within a capacity, in one order; each run continues the last."""

    def __init__(self, search_input: SearchInput, capacity: int, order: TrialOrder) -> None:
        backend, blocks = search_input.backend, search_input.blocks
        count = len(blocks)
        self._search_input = search_input
        self._run = backend.kernel(placement_search.search)
        self._low = backend.array(blocks.lowest)
        self._blocks = backend.kernel(placement_search.SearchBlocks)(
            *search_input.sizes,
            backend.array(blocks.highest(capacity)),
            backend.array(order.rank),
            (capacity + blocks.grain - 1) // blocks.unit,
        )
        self._tree = backend.kernel(placement_search.PlacementTree)(
            self._low,
            backend.array([0] * count if order.heat is Heat.ZERO else search_input.heat),
            backend.blank(len(blocks.neighbour) + (2 + HEAT_ROOM) * count),
            int(order.heat is Heat.RENEWED),
            backend.array,
        )

    def run(self, limit: int) -> int:
        """Try at most this many placements; return FOUND, NONE or UNDECIDED."""
        search_input = self._search_input
        return int(
            self._run(self._blocks, search_input.conflicts, search_input.cliques, self._tree, limit)
        )

    @property
    def effort(self) -> int:
        """Microseconds of all placements so far on a typical machine.

        A placement visits and sorts the remaining blocks, and visits the conflicts of its block.
        Within 2x on problems of 130 to 3000 blocks.
        """
        count = len(self._search_input.blocks)
        conflicts = self._search_input.blocks.neighbour_start[-1] // max(1, count)
        visits = int(self._tree.tried) * (count + 2 * conflicts)
        return visits // VISITS + int(self._tree.shifted) // SHIFTS

    @property
    def offsets(self) -> list[int]:
        """The plan in units, after a run that returned FOUND."""
        return self._search_input.backend.take(self._low, range(len(self._search_input.blocks)))


def standard_orders(search_input: SearchInput) -> list[TrialOrder]:
    """Return orders that often find a plan quickly, the best first."""
    cliques = search_input.cliques_each
    length, area, size, conflicts = _features(search_input.blocks)
    return [
        TrialOrder(ranks(length, area), Heat.RENEWED),
        TrialOrder(ranks(cliques, area), Heat.RENEWED),
        TrialOrder(ranks(area), Heat.RENEWED),
        TrialOrder(ranks(size), Heat.RENEWED),
        TrialOrder(ranks(length, area), Heat.CONSTANT),
        TrialOrder(ranks(conflicts, area), Heat.ZERO),
    ]


def random_order(search_input: SearchInput, random: Random) -> TrialOrder:
    """Return an order by a random weighted sum of the ranks of the features, with noise."""
    count = len(search_input.blocks)
    rankings = [
        ranks(feature) for feature in (*_features(search_input.blocks), search_input.cliques_each)
    ]
    weights = [random.randrange(11) ** 2 * random.choice((0, 1, 1)) for _ in rankings]
    # Some orders without noise, some almost random: neither is better on all problems.
    noise = random.choice((0, 5, 20, 50)) * count + 1
    scores = [
        -sum(weight * rank[block] for weight, rank in zip(weights, rankings, strict=True))
        - random.randrange(noise)
        for block in range(count)
    ]
    return TrialOrder(ranks(scores), random.choice((Heat.RENEWED, Heat.CONSTANT, Heat.ZERO)))


def _features(blocks: Blocks) -> tuple[list[int], ...]:
    """Return the features by which blocks are ranked: length, area, size, number of conflicts."""
    length = [end - start for end, start in zip(blocks.ends, blocks.starts, strict=True)]
    area = [a * b for a, b in zip(length, blocks.size, strict=True)]
    return length, area, list(blocks.size), blocks.conflicts_each


def ranks(*columns: Sequence[int]) -> list[int]:
    """Return the rank of each block: 0 for the largest in the columns, equal ones by number."""
    keys = list(zip(*columns, strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
    rank = [0] * len(order)
    for index, block in enumerate(order):
        rank[block] = index
    return rank
