"""Search for plans by beams, each twice as wide as the one before, in slices."""

from __future__ import annotations

from random import Random
from typing import Any

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks
from planners.arena.exact import Field
from planners.kernels import placement_beam as kernel
from planners.kernels import placement_search

MOST_ROWS = 2**22  # numbers in the rows of a level; what is wider begins again, in another order
NARROWER = 4  # of the width on the way to the best plan
WORK = 2**27  # blocks and cliques that one slice looks at; then a search can be ended
PLAIN_WORK = 2**18  # the same of plain kernels
FINE = 17  # bits in which lost room is counted
WHOLE = 2**20  # parts of all sizes and lifetimes
SOFTNESS = 1024  # the last unit of so many is hardly worth more than the one before


class WideningSearch:
    """A search for a plan within a capacity, and for one half way from the best plan to there.

    A heuristic: where it finds no plan there may still be one.
    """

    def __init__(self, field: Field, seed: int) -> None:
        backend, blocks = field.backend, field.blocks
        self.field = field
        self.offsets: list[int] = []  # the plan that was found last, in units
        self._random = Random(seed)
        self._search = backend.kernel(kernel.search)
        self._twin = backend.array(_twins(blocks))
        self._share = backend.array(_shares(field))
        self._ranks = _by_time(blocks)
        self._side = 0  # from which rows grow along time
        self._start = _start(blocks)
        self._width = 1
        self._is_too_narrow = False  # whether rows were left out that may lead to what is wanted
        self._capacity = -1  # of the beam at work
        self._wanted = -1
        self._failed = -1  # a capacity above which a plan is looked for
        entries = len(blocks) + sum(field.cliques_each)
        self.slice = max(1, (WORK if backend.is_compiled else PLAIN_WORK) // entries)  # steps

    def run(self, limit: int, *, wanted: int, peak: int) -> int:
        """Try so many steps for a plan below the peak; return FOUND or UNDECIDED.

        wanted: a capacity; it does not matter which plan within it is found.
        """
        if wanted != self._wanted:
            self._wanted = self._failed = wanted
            self._begin(wanted, self._width)
        elif self._capacity >= peak:  # there is a plan as good by now
            self._begin_half_way(peak)
        field = self.field
        outcome = int(
            self._search(self._part, field.conflicts, field.cliques, self._guide, self._beam, limit)
        )
        if outcome == kernel.UNDECIDED:
            return outcome
        if outcome == kernel.FOUND:
            self.offsets = field.backend.take(self._low, range(len(field.blocks)))
            self._failed = wanted
            self._widen()
            return outcome
        if self._capacity == wanted:
            self._is_too_narrow = bool(self._beam.kept.has_overflowed)
            if self._side == 0:
                self._widen()
            else:
                self._begin_half_way(peak)
        else:
            self._failed = self._capacity
            self._widen()
        return kernel.UNDECIDED

    def _begin_half_way(self, peak: int) -> None:
        """Begin half way to the best plan from what failed last, or from what is wanted."""
        if self._failed >= peak:
            self._failed = self._wanted
        unit = self.field.blocks.unit
        half = (peak - self._failed) // 2 // unit * unit
        if half:
            self._begin(self._failed + half, max(1, self._width // NARROWER))
        else:
            self._widen()

    def _widen(self) -> None:
        """Begin within what is wanted, from the other side of time; then twice as wide."""
        self._side = 1 - self._side
        if self._side == 0 and self._is_too_narrow:
            self._width *= 2
        if self._width * len(self.field.blocks) > MOST_ROWS:
            self._width = 1
            for rank in self._ranks:
                self._random.shuffle(rank)
        self._begin(self._wanted, self._width)

    def _begin(self, capacity: int, width: int) -> None:
        """Begin within so many bytes, with no block placed but the base."""
        self._capacity = capacity
        field, backend, blocks = self.field, self.field.backend, self.field.blocks
        room = (capacity + blocks.grain - 1) // blocks.unit
        self._part = backend.kernel(placement_search.Part)(
            *field.sizes,
            backend.array(blocks.highest(capacity)),
            backend.array(self._ranks[self._side]),
            room,
        )
        scale, soft = min(room << FINE, compiler.SAFE), max(1, room // SOFTNESS)
        self._guide = backend.kernel(kernel.Guide)(
            self._share,
            self._twin,
            backend.array(self._random.randrange(1, 2**60, 2) for _ in range(len(blocks))),
            backend.array(scale // (max(0, room - total) + soft) for total in field.totals),
            scale,
            soft,
            WHOLE,
        )
        self._beam = self._first_beam(width)

    def _first_beam(self, width: int) -> Any:
        """Return a beam with one row, in which only the base is placed."""
        backend, count = self.field.backend, len(self.field.blocks)
        low, order = self._start
        lows, orders, shares = (backend.blank(width * most) for most in (count, count, 1))
        for block in range(count):
            lows[block] = low[block]
        for place, block in enumerate(order):
            orders[place] = block
        shares[0] = 1 + sum(self._share) - sum(self._share[block] for block in order)
        rows = backend.kernel(kernel.Rows)
        following = (backend.blank(width * most) for most in (count, count, 1))
        kept = backend.kernel(kernel.Kept)(width, backend.blank(8 * width), backend.array)
        self._low = backend.array(low)
        return backend.kernel(kernel.Beam)(
            self._low, order, rows(lows, orders, shares), rows(*following), kept, backend.array
        )


def most_lost(cliques: int) -> int:
    """Return what so many cliques lose at most as the guide counts it, times the parts of the whole.

    One with no room left loses room << FINE over room // SOFTNESS: the quotient is below 2 * SOFTNESS.
    """
    return (1 + cliques * (2 * SOFTNESS << FINE)) * WHOLE


def _start(blocks: Blocks) -> tuple[list[int], list[int]]:
    """Return the smallest offset of each block, and the blocks left to place, by that.

    What conflicts with all others may lie at the bottom, one upon another: no plan is missed.
    """
    count, low = len(blocks), list(blocks.lowest)
    first = blocks.neighbour_start
    base = [block for block in range(count) if first[block + 1] - first[block] == count - 1]
    is_whole = blocks.room == [size * blocks.unit for size in blocks.size]
    if not (blocks.by_lifetime and is_whole) or any(blocks.is_fixed) or max(blocks.alignment) > 1:
        base = []  # here it may matter which buffer lies at the top, or under another
    height = 0
    for block in base[: count - 1]:
        low[block] = height
        height += blocks.size[block]
    placed = set(base[: count - 1])
    order = [block for block in range(count) if block not in placed]
    for block in order:
        low[block] = max(low[block], height)
    return low, sorted(order, key=low.__getitem__)


def _twins(blocks: Blocks) -> list[int]:
    """Return for each block one before it that may change places with it in every plan, or -1."""
    last: dict[tuple[int, ...], int] = {}
    twins = []
    for block, members in enumerate(blocks.members):
        (one, *others) = members
        alike = one.start, one.end, one.size, blocks.alignment[block]
        may_change = blocks.by_lifetime and not others and not blocks.is_fixed[block]
        twins.append(last.get(alike, -1) if may_change else -1)
        if may_change:
            last[alike] = block
    return twins


def _shares(field: Field) -> list[int]:
    """Return what parts of all sizes and lifetimes the blocks have, counted by cliques."""
    areas = [
        size * cliques for size, cliques in zip(field.blocks.size, field.cliques_each, strict=True)
    ]
    return [max(1, area * WHOLE // sum(areas)) for area in areas]


def _by_time(blocks: Blocks) -> list[list[int]]:
    """Return the ranks of the blocks in the order of their starts, and from their ends backwards."""
    numbers = range(len(blocks))
    start = [min(buffer.start for buffer in members) for members in blocks.members]
    end = [max(buffer.end for buffer in members) for members in blocks.members]
    orders = (
        sorted(numbers, key=lambda block: (start[block], block)),
        sorted(numbers, key=lambda block: (-end[block], block)),
    )
    ranks = []
    for order in orders:
        place_of = {block: place for place, block in enumerate(order)}
        ranks.append([place_of[block] for block in numbers])
    return ranks
