"""Exact search of one connected part of a problem, in slices."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks, Clique
from planners.kernels import placement, placement_search

HEAT_ROOM = 32  # of the trail, for each block: changes of heat on the way down
FOLLOWED = 1  # the modes of heat: brought up to date where the rest falls apart
KEPT = 2  # as at the start
COLD = 3  # none


class Order(NamedTuple):
    """Which block is tried first where several could lie at the same offset."""

    rank: Sequence[int]
    mode: int


class Field:
    """A part and its cliques, as the kernel of one backend wants them."""

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
        self.heat = [max(totals[number] for number, _ in entries) for entries in of_block]
        self.cliques_each = [len(entries) for entries in of_block]


class PlacementSearch:
    """A search for a plan within a capacity, in one order; it goes on where it stopped."""

    def __init__(self, field: Field, capacity: int, order: Order) -> None:
        backend, blocks = field.backend, field.blocks
        count = len(blocks)
        self._field = field
        self._run = backend.kernel(placement_search.search)
        self._low = backend.array(blocks.lowest)
        self._part = backend.kernel(placement_search.Part)(
            *field.sizes,
            backend.array(blocks.highest(capacity)),
            backend.array(order.rank),
            (capacity + blocks.grain - 1) // blocks.unit,
        )
        self._tree = backend.kernel(placement_search.Tree)(
            self._low,
            backend.array([0] * count if order.mode == COLD else field.heat),
            backend.blank(len(blocks.neighbour) + (2 + HEAT_ROOM) * count),
            int(order.mode == FOLLOWED),
            backend.array,
        )

    def run(self, limit: int) -> int:
        """Try at most so many placements; return FOUND, NONE or UNDECIDED."""
        field = self._field
        return int(self._run(self._part, field.conflicts, field.cliques, self._tree, limit))

    @property
    def offsets(self) -> list[int]:
        """The plan, in units, once it is found."""
        return self._field.backend.take(self._low, range(len(self._field.blocks)))


def standard_orders(field: Field) -> list[Order]:
    """Return orders of which one or the other is often quick, the best of them first."""
    length, area, size, conflicts, cliques = _features(field)
    return [
        Order(ranks(length, area), FOLLOWED),
        Order(ranks(cliques, area), FOLLOWED),
        Order(ranks(area), FOLLOWED),
        Order(ranks(size), FOLLOWED),
        Order(ranks(length, area), KEPT),
        Order(ranks(conflicts, area), COLD),
    ]


def random_order(field: Field, random: Random) -> Order:
    """Return an order that mixes the features of blocks in random parts, with some noise."""
    count = len(field.blocks)
    places = [ranks(of) for of in _features(field)]
    parts = [random.randrange(11) ** 2 * random.choice((0, 1, 1)) for _ in places]
    noise = random.choice((0, 5, 20, 50)) * count + 1
    less = [
        -sum(part * place[block] for part, place in zip(parts, places, strict=True))
        - random.randrange(noise)
        for block in range(count)
    ]
    return Order(ranks(less), random.choice((FOLLOWED, KEPT, COLD)))


def _features(field: Field) -> tuple[list[int], ...]:
    """Return length, area, size, number of conflicts and of cliques of the blocks."""
    blocks = field.blocks
    length = [end - start for end, start in zip(blocks.ends, blocks.starts, strict=True)]
    area = [a * b for a, b in zip(length, blocks.size, strict=True)]
    return length, area, list(blocks.size), blocks.conflicts_each, field.cliques_each


def ranks(*columns: Sequence[int]) -> list[int]:
    """Return the rank of each block: 0 for the largest in the columns, equal ones by number."""
    keys = list(zip(*columns, strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
    rank = [0] * len(order)
    for place, block in enumerate(order):
        rank[block] = place
    return rank
