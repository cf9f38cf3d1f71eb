"""Search by ejection chains: blocks eject others until all are placed within a capacity."""

from __future__ import annotations

from collections.abc import Sequence

from planners.arena.orders import SearchInput
from planners.kernels import placement_ejection as ejection_kernel

# A push scans the conflicts of a block instead of all blocks if the number of blocks is at least this
# multiple of the mean number of conflicts. Tuned on uniform lifetimes: 10,000 blocks with 200 conflicts
# each are pushed three times as fast.
FEW_CONFLICTS = 16


class PushingSearch:
    """Search from a plan for plans within decreasing capacities.

    The search is a heuristic: if it finds no plan, a plan may exist.
    """

    def __init__(self, search_input: SearchInput, offsets: Sequence[int], seed: int) -> None:
        backend, blocks = search_input.backend, search_input.blocks
        count = len(blocks)
        self.search_input = search_input
        self._search = backend.kernel(ejection_kernel.search)
        self._eject_above_highest = backend.kernel(ejection_kernel.eject_above_highest)
        self._size, alignment = search_input.sizes
        self._is_fixed = backend.array(int(fixed) for fixed in blocks.is_fixed)
        self._alignment = alignment
        self._begin = backend.blank(count)
        # With few conflicts, gaps are found among the neighbours of a block; with many, a scan over
        # all blocks in order is faster.
        self._is_sparse = FEW_CONFLICTS * blocks.neighbour_start[-1] < count**2
        self._shelf = backend.kernel(ejection_kernel.Shelf)(
            self._begin,
            backend.blank(count),
            backend.array(
                ejection_kernel.FIXED_PRICE if fixed else ejection_kernel.FULL
                for fixed in blocks.is_fixed
            ),
            backend.blank(count),
            backend.array,
            seed,
            int(self._is_sparse),
        )
        self._capacity: int | None = None
        put = backend.kernel(ejection_kernel.put)
        for block, offset in enumerate(offsets):
            put(self._size, self._shelf, block, offset)

    def aim(self, capacity: int) -> None:
        """Set the capacity in bytes, which no fixed block may exceed; eject the blocks above it."""
        if capacity == self._capacity:
            return
        self._capacity = capacity
        backend, blocks = self.search_input.backend, self.search_input.blocks
        highest = backend.array(blocks.highest(capacity))
        self._rooms = backend.kernel(ejection_kernel.BlockRooms)(
            self._alignment, highest, self._is_fixed
        )
        self._eject_above_highest(self._rooms, self._shelf)

    def run(self, limit: int) -> int:
        """Place at most this many waiting blocks; return FOUND or UNDECIDED."""
        search_input = self.search_input
        return int(
            self._search(self._rooms, search_input.conflicts, self._size, self._shelf, limit)
        )

    @property
    def tried(self) -> int:
        """The number of placements so far."""
        return int(self._shelf.tried)

    @property
    def effort(self) -> int:
        """Microseconds that all placements so far take on a usual machine, within 2x."""
        blocks = self.search_input.blocks
        conflicts = blocks.neighbour_start[-1] // max(1, len(blocks))
        return self.tried * (7 * conflicts + (0 if self._is_sparse else len(blocks))) // 80

    @property
    def offsets(self) -> list[int]:
        """The plan in units, after a run that returned FOUND."""
        return self.search_input.backend.take(self._begin, range(len(self.search_input.blocks)))
