"""Plans at once: blocks in some order, each as low as those before it leave room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks
from planners.kernels import placement as kernel
from planners.kernels import ranges

TRIES = 32  # improvements without success, after which the next starts from the best again


class Greedy:
    """Places the blocks of one problem in any order."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        largest = ranges.lowest_fit(blocks.size, blocks.alignment, blocks.lowest)
        self._backend = backend = compiler.backend(fits=largest <= compiler.SAFE)
        self._place = backend.kernel(kernel.lowest_fit)
        columns = blocks.neighbour_start, blocks.neighbour, blocks.rise, blocks.lift
        self._conflicts = backend.kernel(kernel.Conflicts)(*map(backend.view, columns))
        most = max(blocks.conflicts_each, default=0)
        self._ground = backend.kernel(kernel.Ground)(
            backend.array(blocks.alignment),
            backend.array(blocks.lowest),
            backend.blank(most),
            backend.blank(most),
        )
        self._free = [block for block in range(len(blocks)) if not blocks.is_fixed[block]]
        placed = [int(fixed) for fixed in blocks.is_fixed]
        self._start = placed, [at * one for at, one in zip(blocks.lowest, placed, strict=True)]

    def offsets(self, order: Sequence[int]) -> list[int]:
        """Return the offsets, in units; fixed blocks are placed before all others."""
        backend = self._backend
        is_placed, offset = (backend.array(values) for values in self._start)
        free = [block for block in order if not self._blocks.is_fixed[block]]
        placed = backend.kernel(kernel.Placed)(is_placed, offset)
        self._place(backend.array(free), self._ground, self._conflicts, placed)
        return backend.take(offset, range(len(self._blocks)))

    def standard_plans(self) -> Iterator[list[int]]:
        """Yield the plans of the usual orders, those that tend to be good first."""
        blocks = self._blocks
        size, start, conflicts = blocks.size, blocks.starts, blocks.conflicts_each
        length = [end - begin for end, begin in zip(blocks.ends, start, strict=True)]
        keys: list[Callable[[int], tuple[int, ...]]] = [
            lambda block: (-size[block], start[block]),
            lambda block: (-size[block] * length[block],),
            lambda block: (-length[block], -size[block]),
            lambda block: (-conflicts[block], -size[block]),
            lambda block: (start[block], -size[block]),
        ]
        for key in keys:
            yield self.offsets(sorted(self._free, key=lambda block: (key(block), block)))

    def improvements(self, offsets: Sequence[int], random: Random) -> Iterator[list[int]]:
        """Yield the usual plans, then others for ever: who ends highest in the best is moved.

        Source: the hill climbing of storage planners, as in Lee et al., On-device neural net
        inference with mobile GPUs, 2019 (greedy by size is its start).
        """
        if not self._free:
            return
        best, order = self._blocks.peak(offsets), sorted(self._free, key=offsets.__getitem__)
        for found in self.standard_plans():
            yield found
            if self._blocks.peak(found) < best:
                best, order = self._blocks.peak(found), sorted(self._free, key=found.__getitem__)
        current = list(order)
        failures = 0
        while True:
            found = self.offsets(current)
            yield found
            peak = self._blocks.peak(found)
            failures += 1
            if peak <= best:
                failures = 0 if peak < best else failures
                best, order = peak, list(current)
            current = list(order) if failures % TRIES == 0 else current
            blocks = self._blocks
            highest = max(current, key=lambda one: found[one] * blocks.unit + blocks.room[one])
            near = [one for one in blocks.neighbours(highest) if not blocks.is_fixed[one]]
            moved = highest if not near or random.randrange(2) else random.choice(near)
            place = current.index(int(moved))
            current.insert(random.randrange(place + 1), current.pop(place))
