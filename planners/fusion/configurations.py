"""How a chain is to be worked: groups of sections, each with its way of working."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from csdf.errors import InvalidPlan
from planners.fusion.chains import Chain
from planners.fusion.tiles import Grid, even_grid
from planners.fusion.ways import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Sections [first, upto) that work together; the grid is one tile where the way has no tiles."""

    first: int
    upto: int
    way: Way
    grid: Grid

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.upto:
            raise InvalidPlan(f"a group of sections {self.first} to {self.upto}")

    @property
    def is_tiled(self) -> bool:
        """Whether it works tile by tile."""
        return self.way in (Way.RECOMPUTE, Way.KEEP)

    def __str__(self) -> str:
        return f"{self.grid} {self.way.value}" if self.is_tiled else self.way.value


Configuration = tuple[Group, ...]


def check_configuration(chain: Chain, groups: Sequence[Group]) -> None:
    """Raise InvalidPlan unless the groups cover the sections of the chain, each once, in order."""
    ends = [0, *(group.upto for group in groups)]
    firsts = [*(group.first for group in groups), len(chain.sections)]
    if ends != firsts:
        raise InvalidPlan(
            f"groups of sections {', '.join(f'{one.first}:{one.upto}' for one in groups)}; expected "
            f"each of 0:{len(chain.sections)} once, in order"
        )


def configuration(
    chain: Chain, cuts: Sequence[int], tiles: Sequence[tuple[int, int]], way: Way = Way.RECOMPUTE
) -> Configuration:
    """Return groups with even grids: a cut before each of these sections, tiles down and across.

    One tile is the way WHOLE. Raises InvalidPlan where there are not as many grids as groups.
    """
    ends = (0, *cuts, len(chain.sections))
    if len(tiles) != len(ends) - 1:
        raise InvalidPlan(f"{len(tiles)} grids for {len(ends) - 1} groups")
    groups = tuple(
        Group(
            first=first,
            upto=upto,
            way=Way.WHOLE if tile == (1, 1) else way,
            grid=even_grid(chain.network.layer(chain.sections[upto - 1].result), *tile),
        )
        for (first, upto), tile in zip(pairwise(ends), tiles, strict=True)
    )
    check_configuration(chain, groups)
    return groups


def single(chain: Chain, first: int, upto: int, way: Way) -> Group:
    """Return a group without tiles."""
    result = chain.network.layer(chain.sections[upto - 1].result)
    return Group(first=first, upto=upto, way=way, grid=even_grid(result, 1, 1))
