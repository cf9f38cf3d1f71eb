"""Search for plans without a free byte, if the same number of bytes is live at every time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from random import Random

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks, twins
from planners.kernels import placement_corners as kernel
from planners.kernels import ranges

SLICE = 2**21  # columns and blocks examined in one step, about 3 ms
PLAIN_SLICE = 2**13  # SLICE of kernels that are not compiled
# Restarts: each random order of the blocks is searched up to a limit, at first LEAST_TRY columns and
# blocks. After every TRIES orders the limit doubles, up to MOST_TRY.
LEAST_TRY = 2**22
MOST_TRY = 2**40
TRIES = 4
SEED = 1
EXAMINED = 700  # columns and blocks in a microsecond of a usual machine


class CornerSearch:
    """Search for a plan as small as the live bytes, with a restart for each order of the blocks."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        starts, ends = blocks.starts, blocks.ends
        times = {time: at for at, time in enumerate(sorted({*starts, *ends}))}
        self._starts, self._ends = [times[time] for time in starts], [times[time] for time in ends]
        self._columns = len(times) - 1
        self._capacity = sum(
            size for start, size in zip(self._starts, blocks.size, strict=True) if start == 0
        )
        largest = ranges.placement_corners(blocks.size, self._capacity)
        self._backend = compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
        self._search = self._backend.kernel(kernel.search)
        self._twin = twins(blocks)
        self._random, self._tries, self._most = Random(SEED), 0, LEAST_TRY
        self.effort = 0  # microseconds of a usual machine
        self.is_over = False  # whether every plan was excluded
        self._begin(range(len(blocks)))

    def step(self) -> list[int]:
        """Search for a slice; return the offsets in units, or an empty list without a plan yet."""
        before = int(self._filling.examined)
        limit = SLICE if self._backend.is_compiled else PLAIN_SLICE
        outcome = self._search(self._blocks_by_time, self._filling, limit)
        examined = int(self._filling.examined)
        self.effort += (examined - before) // EXAMINED
        if outcome == kernel.FOUND:
            return self._backend.take(self._offset, range(len(self._blocks)))
        self.is_over = outcome == kernel.NONE
        if not self.is_over and examined >= self._most:
            self._tries += 1
            if self._tries % TRIES == 0:
                # Doubling bounds the total effort by a small multiple of the effort at the best limit.
                self._most = min(2 * self._most, MOST_TRY)
            order = list(range(len(self._blocks)))
            self._random.shuffle(order)
            self._begin(order)
        return []

    def _begin(self, order: Sequence[int]) -> None:
        """Restart with no block placed; blocks are tried in this order."""
        backend, count = self._backend, len(self._blocks)
        begins, begin_first = _by_time(order, self._starts, self._columns + 1)
        ends, end_first = _by_time(order, self._ends, self._columns + 1)
        columns = (self._starts, self._ends, self._blocks.size, self._twin)
        self._blocks_by_time = backend.kernel(kernel.BlocksByTime)(
            *map(backend.array, (*columns, begins, begin_first, ends, end_first)), self._capacity
        )
        self._offset = backend.blank(count)
        self._filling = backend.kernel(kernel.Filling)(
            backend.blank(self._columns),
            self._offset,
            backend.blank(count),
            backend.blank(kernel.FRAME * (count + 1)),
        )


def _by_time(order: Sequence[int], times: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Return the blocks by time, then in this order, and the index of the first block of each time."""
    counts = [0] * count
    for time in times:
        counts[time] += 1
    return sorted(order, key=times.__getitem__), list(accumulate(counts, initial=0))
