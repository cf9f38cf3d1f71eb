"""Beam search for plans of one problem, with beams of doubling width.

A row of the beam is a partial plan: offsets of the placed blocks, and the blocks left to place. A beam
of width w retains the w rows that waste the fewest bytes for the area that they place
(planners.kernels.placement_beam). The blocks are placed forwards in time, from the first start, and
backwards, from the last end. After both directions have failed the beam is twice as wide.
"""

from __future__ import annotations

from random import Random
from typing import Any

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks, twins
from planners.arena.orders import SearchInput, ranks
from planners.kernels import placement_beam as beam_kernel
from planners.kernels import placement_search

SEED = 1
MOST_ROWS = 2**22  # numbers in the rows of a level; a wider beam restarts in another order
NARROWER = 4  # divisor of the beam width for a capacity halfway to the best plan
UPDATES = 2**27  # blocks and cliques updated in one slice, after which a search can end
PLAIN_UPDATES = 2**18  # UPDATES of kernels that are not compiled
# The guide of the beam, in fixed point: it weighs the bytes that a partial plan wastes in each clique.
WASTE_BITS = 17  # fraction bits of the weight of wasted bytes
WHOLE_AREA = 2**20  # the area of all blocks
# A clique with slack s weighs a wasted byte by 1 / (s + capacity / SOFTNESS): finite for no slack.
SOFTNESS = 1024


class WideningSearch:
    """Beam search for a plan within a capacity, and for a plan halfway from the best plan to it.

    The search is a heuristic: if it finds no plan, a plan may exist.
    """

    def __init__(self, search_input: SearchInput) -> None:
        backend, blocks = search_input.backend, search_input.blocks
        self.search_input = search_input
        self.offsets: list[int] = []  # the latest plan, in units
        self._random = Random(SEED)
        self._search = backend.kernel(beam_kernel.search)
        self._twin = backend.array(twins(blocks))
        areas = [
            size * cliques
            for size, cliques in zip(blocks.size, search_input.cliques_each, strict=True)
        ]
        total = sum(areas)
        # The share of each block in the area of all: its size times the number of its cliques.
        self._share = backend.array(max(1, area * WHOLE_AREA // total) for area in areas)
        starts, ends = blocks.starts, blocks.ends
        self._ranks = [ranks([-start for start in starts]), ranks(ends)]
        self._direction = 0  # index of `_ranks`: forwards by start, or backwards from the last end
        self._start = _start(blocks)
        self._width = 1
        self._is_too_narrow = False  # whether rows were discarded that may lead to a plan
        self._capacity = -1  # of the present beam
        self._wanted = -1
        self._failed = -1  # the largest capacity for which a beam found no plan
        self.entries = len(blocks) + sum(search_input.cliques_each)
        self.slice = max(
            1, (UPDATES if backend.is_compiled else PLAIN_UPDATES) // self.entries
        )  # steps

    def run(self, limit: int, *, wanted: int, peak: int) -> int:
        """Run this many steps for a plan below the peak; return FOUND or UNDECIDED.

        wanted: the capacity of the goal; any plan within it is equally good.
        """
        if wanted != self._wanted:
            self._wanted = self._failed = wanted
            self._begin(wanted, self._width)
        elif self._capacity >= peak:  # another search has a plan as good
            self._begin_half_way(peak)
        search_input = self.search_input
        outcome = int(
            self._search(
                self._blocks,
                search_input.conflicts,
                search_input.cliques,
                self._guide,
                self._beam,
                limit,
            )
        )
        if outcome == beam_kernel.UNDECIDED:
            return outcome
        if outcome == beam_kernel.FOUND:
            self.offsets = search_input.backend.take(self._low, range(len(search_input.blocks)))
            self._failed = wanted
            self._widen()
            return outcome
        if self._capacity == wanted:
            self._is_too_narrow = bool(self._beam.kept.has_overflowed)
            if self._direction == 0:
                self._widen()
            else:
                self._begin_half_way(peak)
        else:
            self._failed = self._capacity
            self._widen()
        return beam_kernel.UNDECIDED

    def _begin_half_way(self, peak: int) -> None:
        """Restart halfway between the best plan and the last capacity that failed."""
        if self._failed >= peak:
            self._failed = self._wanted
        unit = self.search_input.blocks.unit
        # Bisection between the capacity that failed and the best plan, in whole units.
        half = (peak - self._failed) // 2 // unit * unit
        if half:
            self._begin(self._failed + half, max(1, self._width // NARROWER))
        else:
            self._widen()

    def _widen(self) -> None:
        """Restart within the wanted capacity in the other direction of time; after both, wider."""
        self._direction = 1 - self._direction
        # Both directions of time failed at this width, and states were dropped: a wider beam may
        # succeed.
        if self._direction == 0 and self._is_too_narrow:
            self._width *= 2
        # The beam no longer fits memory: restart with width 1 and random ranks.
        if self._width * len(self.search_input.blocks) > MOST_ROWS:
            self._width = 1
            for rank in self._ranks:
                self._random.shuffle(rank)
        self._begin(self._wanted, self._width)

    def _begin(self, capacity: int, width: int) -> None:
        """Restart within this capacity, with no block placed except the base (see `_start`)."""
        self._capacity = capacity
        search_input = self.search_input
        backend, blocks = search_input.backend, search_input.blocks
        room = (capacity + blocks.grain - 1) // blocks.unit
        self._blocks = backend.kernel(placement_search.SearchBlocks)(
            *search_input.sizes,
            backend.array(blocks.highest(capacity)),
            backend.array(self._ranks[self._direction]),
            room,
        )
        scale = min(room << WASTE_BITS, compiler.INT64_SUM_LIMIT)
        soft = max(1, room // SOFTNESS)
        self._guide = backend.kernel(beam_kernel.Guide)(
            self._share,
            self._twin,
            backend.array(self._random.randrange(1, 2**60, 2) for _ in range(len(blocks))),
            backend.array(scale // (max(0, room - total) + soft) for total in search_input.totals),
            scale,
            soft,
            WHOLE_AREA,
        )
        self._beam = self._first_beam(width)

    def _first_beam(self, width: int) -> Any:
        """Return a beam whose first level is the base alone, with memory for this width."""
        backend, (low, order) = self.search_input.backend, self._start
        count = len(low)

        def blank_rows() -> tuple[Any, Any, Any]:
            """Memory of a level: offsets, order of the blocks left to place, and placed shares."""
            lows, orders, shares = (backend.blank(width * size) for size in (count, count, 1))
            return lows, orders, shares

        lows, orders, shares = blank_rows()
        for block in range(count):
            lows[block] = low[block]
        for index, block in enumerate(order):
            orders[index] = block
        shares[0] = 1 + sum(self._share) - sum(self._share[block] for block in order)
        rows = backend.kernel(beam_kernel.Rows)
        first, following = rows(lows, orders, shares), rows(*blank_rows())
        kept = backend.kernel(beam_kernel.BestSteps)(width, backend.blank(8 * width), backend.array)
        self._low = backend.array(low)
        return backend.kernel(beam_kernel.Beam)(
            self._low, order, first, following, kept, backend.array
        )


def most_lost(cliques: int) -> int:
    """Return an upper bound on the waste of a row with this number of cliques, times WHOLE_AREA.

    A clique without slack has the largest weight: room << WASTE_BITS over room // SOFTNESS, and the
    quotient of the rooms is below 2 * SOFTNESS.
    """
    return (1 + cliques * (2 * SOFTNESS << WASTE_BITS)) * WHOLE_AREA


def _start(blocks: Blocks) -> tuple[list[int], list[int]]:
    """Return the smallest offset of each block, and the blocks left to place, by increasing offset.

    Blocks that conflict with all others are stacked at the bottom, the base, without loss of plans.
    """
    count, low = len(blocks), list(blocks.lowest)
    base = [
        block for block, conflicts in enumerate(blocks.conflicts_each) if conflicts == count - 1
    ]
    is_whole = blocks.room == [size * blocks.unit for size in blocks.size]
    if not (blocks.by_lifetime and is_whole) or any(blocks.is_fixed) or max(blocks.alignment) > 1:
        # With alignments, fixed offsets or partial conflicts the order at the bottom matters.
        base = []
    height = 0
    for block in base[: count - 1]:
        low[block] = height
        height += blocks.size[block]
    placed = set(base[: count - 1])
    order = [block for block in range(count) if block not in placed]
    for block in order:
        low[block] = max(low[block], height)
    return low, sorted(order, key=low.__getitem__)
