"""Tiled loop nests of one convolution: order, tiles, and where in the nest each array is held.

Six loops over tiles run in some order; tiles have any size, the last of a loop is what remains. An
array held at level b lies in the buffer as the tile that all iterations of the loops from position b
on touch, the b outer ones standing still: level 0 holds the whole array, level 6 just what one
innermost iteration needs. The loop over groups is the outermost of all, at every level: groups share
no element, so what is held for one is of no use to another.

What is transferred:
- A tile comes in when the loops outside its level reach another tile, not when they merely go
  round: filters move no input, rows and columns move no weights.
- Input tiles overlap. With Halo.RELOADED each comes in whole; with Halo.KEPT a step of the innermost
  loop that moves the input tile brings only what the tile before does not share; a step of any other
  brings the whole tile.
- An output tile goes out when it is left. When it comes back for more of its sums it is read again;
  the first time nothing is read.
- Padding is no element, and weights that only ever meet padding stay outside. Where strides or
  dilation pass over elements, those stay out of the buffer.
Each array has its part of the buffer, as large as its largest tile; the three fit together.
Source: Stoutchinin, Conti, Benini, Optimally Scheduling CNN Convolutions for Efficient Memory Access,
arXiv 1902.01492, 2019 (application-managed buffers at a level of the nest).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Self

from csdf.errors import InvalidPlan
from planners.traffic.convolution import Convolution, group_of
from planners.traffic.footprints import axes_of


class Loop(IntEnum):
    """The dimension that a loop runs over, within one group."""

    FILTERS = 0
    CHANNELS = 1
    ROWS = 2  # of the output
    COLUMNS = 3  # of the output
    KERNEL_ROWS = 4
    KERNEL_COLUMNS = 5

    @property
    def words(self) -> str:
        """The name in a text."""
        return self.name.lower().replace("_", " ")


class Array(IntEnum):
    """The arrays that lie in the memory outside."""

    INPUT = 0
    WEIGHTS = 1
    OUTPUT = 2


class Halo(Enum):
    """Whether the part that successive input tiles share comes in again."""

    RELOADED = "reloaded"
    KEPT = "kept"


MOVES: dict[Array, frozenset[Loop]] = {  # the loops whose steps reach other elements of the array
    Array.INPUT: frozenset(Loop) - {Loop.FILTERS},
    Array.WEIGHTS: frozenset({Loop.FILTERS, Loop.CHANNELS, Loop.KERNEL_ROWS, Loop.KERNEL_COLUMNS}),
    Array.OUTPUT: frozenset({Loop.FILTERS, Loop.ROWS, Loop.COLUMNS}),
}


@lru_cache(maxsize=10_000)
def lengths(convolution: Convolution) -> tuple[int, ...]:
    """Return how far each loop runs within one group, by Loop; over live kernel places alone."""
    group = group_of(convolution)
    rows, columns = axes_of(group)
    return (
        group.filters,
        group.channels,
        group.output_rows,
        group.output_columns,
        max(1, len(rows.live)),
        max(1, len(columns.live)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopNest:
    """A schedule of one convolution with a managed buffer.

    tiles: size by Loop, in any case. levels: 0 to 6 by Array.
    Raises InvalidPlan where the order is none, or a tile or level is out of range.
    """

    order: tuple[Loop, ...]  # outermost first
    tiles: tuple[int, ...]
    levels: tuple[int, int, int]
    halo: Halo = Halo.KEPT

    def __post_init__(self) -> None:
        if sorted(self.order) != list(Loop):
            raise InvalidPlan(f"loop order {self.order} does not name each loop once")
        if len(self.tiles) != len(Loop) or min(self.tiles) < 1:
            raise InvalidPlan(f"tiles {self.tiles} are not {len(Loop)} positive sizes")
        if len(self.levels) != len(Array) or not 0 <= min(self.levels) <= max(self.levels) <= 6:
            raise InvalidPlan(f"levels {self.levels} are not three of 0 to {len(Loop)}")

    def trips(self, convolution: Convolution) -> tuple[int, ...]:
        """Iterations of each loop, by Loop."""
        return tuple(
            -(-length // tile)
            for length, tile in zip(lengths(convolution), self.tiles, strict=True)
        )

    def outside(self, array: Array) -> tuple[Loop, ...]:
        """The loops outside the level of the array, outermost first."""
        return self.order[: self.levels[array]]

    def canonical(self, convolution: Convolution) -> Self:
        """The same transfers, with no tile beyond its loop and no level deeper than it matters."""
        sizes = lengths(convolution)
        tiles = tuple(min(tile, size) for tile, size in zip(self.tiles, sizes, strict=True))
        trips = self.trips(convolution)
        levels = []
        for array in Array:
            moving = [
                place
                for place, loop in enumerate(self.outside(array), start=1)
                if loop in MOVES[array] and trips[loop] > 1
            ]
            levels.append(max(moving, default=0))
        return type(self)(
            order=self.order, tiles=tiles, levels=(levels[0], levels[1], levels[2]), halo=self.halo
        )
