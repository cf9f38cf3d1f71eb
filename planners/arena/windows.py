"""Large neighbourhood search for large problems: blocks in a window of time are placed again.

The window is around the highest block of the plan. Blocks whose lifetimes are inside the window are
placed again by ejection (planners/arena/pushing.py); blocks that cross its ends keep their offsets. A
plan with a lower peak in the window replaces the old plan, whose highest block is the next centre.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks
from planners.arena.orders import SearchInput
from planners.arena.pushing import PushingSearch
from planners.kernels import ranges
from planners.kernels.placement_ejection import FOUND

LEAST_WINDOW = 1000  # free blocks in a window; 2 and 4 times this number after failures
SIZES = 3  # of windows, which are tried until a window succeeds
MOST_ENTRIES = 6_000_000  # conflicts of blocks in a window; each takes 24 bytes
PARTS_OF_GAP = 6  # a window is lowered by this part of the gap to the bound, then the next window
PUSHES = 8000  # in a window, plus PUSHES_EACH for each of its blocks
PUSHES_EACH = 2
SLICE = 2**19  # conflicts examined between two checks of the stop, about 1/30 s
PLAIN_SLICE = 2**15  # SLICE of kernels that are not compiled
SEED = 1
# Effort in microseconds of a usual machine:
WINDOW_EFFORT = 10  # to list the conflicts of each block of a window
BLOCK_EFFORT = 1  # to find the highest of all blocks, for each


class _Window(NamedTuple):
    """Blocks to place again, and the blocks outside that conflict with them."""

    free: list[int]
    held: list[int]


class WindowSearch:
    """Search for a lower plan of many blocks that conflict by lifetime alone."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._starts, self._ends = blocks.starts, blocks.ends
        self._by_start = sorted(range(len(blocks)), key=self._starts.__getitem__)
        self._begun = [self._starts[block] for block in self._by_start]
        self._conflicts_each = blocks.conflicts_each
        self.effort = 0  # microseconds of a usual machine so far
        lives = zip(self._starts, self._ends, strict=True)
        self._longest = max((end - start for start, end in lives), default=0)

    def lowered(self, offsets: Sequence[int], minimum: int) -> Iterator[list[int]]:
        """Yield successively lower plans down to `minimum` bytes, in slices (as planners.arena.orders).

        offsets: of the first plan, in units. Endless if `minimum` is not reached.
        """
        blocks, best, turn, failures = self._blocks, list(offsets), 0, 0
        while (peak := blocks.peak(best)) > minimum:
            # Large neighbourhood search: the peak falls only if the highest block does, so it is in
            # the window.
            ends = (at * blocks.unit + room for at, room in zip(best, blocks.room, strict=True))
            _, highest = max(zip(ends, range(len(blocks)), strict=True))
            window = self._around(highest, LEAST_WINDOW << failures % SIZES)
            # A share of the gap at a time: one window rarely reaches the bound alone.
            goal = max(minimum, peak - max(blocks.unit, (peak - minimum) // PARTS_OF_GAP))
            pushing = self._pushing(window, best, turn)
            turn += 1
            lower, before = list[int](), 0
            self.effort += WINDOW_EFFORT * len(pushing.search_input.blocks) + BLOCK_EFFORT * len(
                best
            )
            for window_offsets in _pushed(pushing, goal, peak):
                self.effort, before = self.effort + pushing.effort - before, pushing.effort
                lower = window_offsets
                yield []
            failures = 0 if lower else failures + 1
            for block, offset in zip((*window.free, *window.held), lower, strict=False):
                best[block] = offset
            yield list(best) if lower else []

    def _around(self, block: int, minimum: int) -> _Window:
        """Return a window around the lifetime of a block, of `minimum` free blocks if possible.

        It has at least as many free blocks as held blocks, unless its blocks have too many conflicts.
        """
        margin = 1  # of time, before and after the lifetime of the block
        while True:
            begin, end = self._starts[block] - margin, self._ends[block] + margin
            live = self._live(begin, end)
            free = [
                block for block in live if begin <= self._starts[block] and self._ends[block] <= end
            ]
            held = len(live) - len(free)
            entries = sum(self._conflicts_each[block] for block in live)
            # Where more blocks are held than free the window has little room to improve.
            is_enough = len(free) >= max(minimum, held) or entries >= MOST_ENTRIES
            if is_enough or len(live) == len(self._blocks):
                inside = set(free)
                return _Window(free, [block for block in live if block not in inside])
            margin = margin * 3 // 2 + 1

    def _live(self, begin: int, end: int) -> list[int]:
        """Return the blocks that are live at some time between two times."""
        # A block that started earlier than the longest lifetime ago has ended.
        first = bisect_left(self._begun, begin - self._longest)
        last = bisect_left(self._begun, end)
        return [block for block in self._by_start[first:last] if self._ends[block] > begin]

    def _pushing(self, window: _Window, offsets: Sequence[int], turn: int) -> PushingSearch:
        """Return the ejection search of a window; offsets: of all blocks. turn: varies the seed."""
        numbers = (*window.free, *window.held)
        part = self._blocks.part_with_fixed(
            numbers, {number: offsets[number] for number in window.held}
        )
        old_offsets = [offsets[number] for number in numbers]
        height = part.peak(old_offsets) // part.unit + 1
        largest = max(
            ranges.placement_ejection(part.size, part.alignment, height, len(part)),
            ranges.overlaps(part.size),
        )
        search_input = SearchInput(
            part, (), compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
        )
        return PushingSearch(search_input, old_offsets, SEED + turn)


def _pushed(pushing: PushingSearch, goal: int, peak: int) -> Iterator[list[int]]:
    """Yield the lowest plan of the window so far, until the goal; [] until a plan is below the peak."""
    blocks = pushing.search_input.blocks
    held = (
        at * blocks.unit + room
        for at, room, fixed in zip(blocks.lowest, blocks.room, blocks.is_fixed, strict=True)
        if fixed
    )
    goal = max(goal, *held, 0)
    entries = max(1, blocks.neighbour_start[-1] // len(blocks))
    is_compiled = pushing.search_input.backend.is_compiled
    at_once = max(1, (SLICE if is_compiled else PLAIN_SLICE) // entries)
    maximum, lower = PUSHES + PUSHES_EACH * len(blocks), list[int]()
    while pushing.tried < maximum and peak > goal:
        pushing.aim(peak - 1)
        if pushing.run(at_once) == FOUND:
            lower = pushing.offsets
            peak = blocks.peak(lower)
        yield lower
