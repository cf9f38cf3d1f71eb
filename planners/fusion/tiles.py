"""A group of layers cut into tiles: what each tile holds of each tensor, and what it computes.

The output of a group is cut by a grid. Backwards from there each tile needs a rectangle of every
tensor; where windows overlap, so do the rectangles of neighbours. A tile computes all it holds, or
keeps what tiles before it have computed. Tiles go row by row, from left to right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from csdf.errors import InvalidPlan
from planners.tiling.cuts import cut_back
from planners.tiling.regions import (
    COLUMNS,
    ROWS,
    Needs,
    Range,
    Region,
    even_ends,
    hull,
)

Bands = dict[str, tuple[Range, ...]]  # by tensor: for each tile along an axis, what it holds
Place = tuple[int, int]  # of a tile: down, across


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The ends of tiles: the rows, and the columns, of the output of a group."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        for ends in (self.rows, self.columns):
            if not ends or any(
                end <= before for before, end in zip((0, *ends), ends, strict=False)
            ):
                raise InvalidPlan(f"tiles end at {ends}; expected growing numbers above 0")

    @property
    def down(self) -> int:
        """Tiles from top to bottom."""
        return len(self.rows)

    @property
    def across(self) -> int:
        """Tiles from left to right."""
        return len(self.columns)

    def __str__(self) -> str:
        return f"{self.down}x{self.across}"


def even_grid(layer: Layer, down: int, across: int) -> Grid:
    """Return a grid of tiles of nearly the same size over the output of a layer."""
    return Grid(
        rows=even_ends(layer.shape.height, down), columns=even_ends(layer.shape.width, across)
    )


def bands(needs: Needs, layers: Sequence[Layer], ends: Sequence[int], axis: int) -> Bands:
    """Return what each tile along an axis holds of each tensor that the layers read or write.

    ends: of the tiles of the last layer. Of a tensor with several readers a tile holds all from the
    first to the last place that any of them needs.
    """
    made_by = {layer.name: layer for layer in layers}

    def asks(name: str, held: tuple[Range, ...]) -> Iterator[tuple[str, tuple[Range, ...]]]:
        for need in needs.of(made_by[name], axis):
            yield need.source, tuple(map(need.clipped, held))

    whole = {layers[-1].name: tuple(zip((0, *ends), ends, strict=False))}
    return cut_back(whole, reversed(made_by), asks, union=hull, makes=lambda _, held: held)[0]


def fresh(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Return what each tile holds that no tile before it does; maybe nothing."""
    found, upto = [], 0
    for first, end in ranges:
        begin = min(max(first, upto), end)
        found.append((begin, end))
        upto = max(upto, end)
    return tuple(found)


def largest_shared(ranges: Sequence[Range]) -> int:
    """Return the most places that a tile shares with the next one."""
    pairs = pairwise(ranges)
    return max((max(0, one[1] - other[0]) for one, other in pairs), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledGroup:
    """Layers that work tile by tile.

    source: the layer whose tensor they read. keeps: whether a tile takes over what those before it
    have computed.
    """

    network: Network
    source: str
    layers: tuple[Layer, ...]
    grid: Grid
    keeps: bool
    rows: Bands
    columns: Bands

    @property
    def places(self) -> Iterator[Place]:
        """The tiles in the order of work."""
        return product(range(self.grid.down), range(self.grid.across))

    def held(self, name: str, place: Place) -> Region:
        """Return the part of a tensor that a tile holds."""
        return Region(self.rows[name][place[0]], self.columns[name][place[1]])

    def computed(self, name: str, place: Place) -> Region:
        """Return the part of a tensor that a tile computes."""
        if not self.keeps:
            return self.held(name, place)
        return Region(
            fresh(self.rows[name])[place[0]],
            fresh(self.columns[name])[place[1]],
        )

    @property
    def multiply_accumulates(self) -> int:
        """Of all tiles together."""
        return sum(
            per_place(self.network, layer)
            * _total(self.rows[layer.name], keeps=self.keeps)
            * _total(self.columns[layer.name], keeps=self.keeps)
            for layer in self.layers
        )


def _total(ranges: Sequence[Range], *, keeps: bool) -> int:
    return sum(end - first for first, end in (fresh(ranges) if keeps else ranges))


def per_place(network: Network, layer: Layer) -> int:
    """Return the multiply-accumulates of one place of all output maps of a layer."""
    places = layer.shape.height * layer.shape.width
    return multiply_accumulates(layer, network.input_shapes(layer)) // places


def tiled_group(
    network: Network, source: str, layers: Sequence[Layer], grid: Grid, *, keeps: bool = False
) -> TiledGroup:
    """Return layers cut by a grid over the output of the last one.

    Raises InvalidPlan where the grid does not fit, InvalidNetwork where a layer cannot be tiled.
    """
    shape = layers[-1].shape
    if (grid.rows[-1], grid.columns[-1]) != (shape.height, shape.width):
        raise InvalidPlan(
            f"a grid over {grid.rows[-1]}x{grid.columns[-1]} places for the output of "
            f"{layers[-1].name!r}, which has {shape.height}x{shape.width}"
        )
    needs = Needs(network)
    return TiledGroup(
        network=network,
        source=source,
        layers=tuple(layers),
        grid=grid,
        keeps=keeps,
        rows=bands(needs, layers, grid.rows, ROWS),
        columns=bands(needs, layers, grid.columns, COLUMNS),
    )
