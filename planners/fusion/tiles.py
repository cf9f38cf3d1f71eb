"""A group of layers cut into tiles: what each tile holds of each tensor, computes, and keeps.

The output of a group is cut by a grid. Backwards from there each tile needs a rectangle of every
tensor; where windows overlap, so do the rectangles of neighbours. A tile computes all it holds, or
keeps what tiles before it have computed. Tiles go row by row, from left to right.

Lifetimes of buffers are in steps: a step for each layer. The input of a group lies whole in memory
and is read where it lies; the output lies whole, and each tile writes its piece where it belongs.
In between a tile has one buffer for what it holds of each tensor, as large as the largest tile
needs it; all tiles use the same buffers. Where tiles keep what others computed, two more buffers of
each tensor hold it: the rows that the tiles below need (`lines`, as wide as the map), and the
columns that the next tile needs (`edge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Convolution
from cnn2csdf.parameters import multiply_accumulates
from csdf.errors import InvalidPlan
from planners.arena.problem import Buffer
from planners.fusion.ways import Scratch
from planners.tiling.regions import (
    COLUMNS,
    ROWS,
    Bands,
    Needs,
    Range,
    Region,
    bands,
    even_ends,
    fresh,
    largest_shared,
)

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


class Sizes(NamedTuple):
    """Elements of one tensor of a tiled group: of a tile, and of what tiles keep for others."""

    tile: int
    lines: int
    edge: int

    @property
    def kept(self) -> int:
        """Elements that stay from tile to tile."""
        return self.lines + self.edge


def sizes(channels: int, rows: Sequence[Range], columns: Sequence[Range], *, keeps: bool) -> Sizes:
    """Return the buffers of a tensor of which tiles hold these rows and columns."""
    height, width = longest(rows), longest(columns)
    if not keeps:
        return Sizes(channels * height * width, 0, 0)
    span = columns[-1][1] - columns[0][0]
    return Sizes(
        channels * height * width,
        channels * largest_shared(rows) * span,
        channels * height * largest_shared(columns),
    )


def longest(ranges: Sequence[Range]) -> int:
    """Return the most places that one tile has along an axis."""
    return max(end - first for first, end in ranges)


def scratch_elements(network: Network, layer: Layer, places: int, scratch: Scratch) -> int:
    """Return the elements of scratch for so many output places of a layer."""
    match layer.operator:
        case Convolution(window=window, groups=groups) if scratch is Scratch.IM2COL:
            channels = network.input_shapes(layer)[0].channels // groups
            return places * channels * prod(window.kernel)
    return 0


def scratch_bytes(
    network: Network, layer: Layer, places: int, scratch: Scratch, element_bytes: int | None
) -> int:
    """Return the bytes of scratch for so many output places: elements of the input of the layer.

    element_bytes: of every element; None: as the network stores them.
    """
    elements = scratch_elements(network, layer, places, scratch)
    return elements * (element_bytes or network.layer(layer.inputs[0]).element_bytes)


def tile_name(layer: str) -> str:
    """Name of the buffer for what a tile holds of the output of a layer."""
    return f"{layer} tile"


def lines_name(layer: str) -> str:
    """Name of the buffer for rows of the output of a layer that tiles below need."""
    return f"{layer} lines"


def edge_name(layer: str) -> str:
    """Name of the buffer for columns of the output of a layer that the next tile needs."""
    return f"{layer} edge"


def scratch_name(layer: str) -> str:
    """Name of the scratch of a layer."""
    return f"{layer} scratch"


def tiled_buffers(
    group: TiledGroup, scratch: Scratch, *, begin: int, element_bytes: int | None
) -> Iterator[Buffer]:
    """Yield the buffers of a group but its input and output; its first step is at time `begin`."""
    last = last_steps(group.layers)
    end = begin + len(group.layers)
    for step, layer in enumerate(group.layers):
        rows, columns = group.rows[layer.name], group.columns[layer.name]
        size = element_bytes or layer.element_bytes
        if layer is not group.layers[-1]:
            found = sizes(layer.shape.channels, rows, columns, keeps=group.keeps)
            yield Buffer(
                name=tile_name(layer.name),
                size=found.tile * size,
                start=begin + step,
                end=begin + last[layer.name] + 1,
                alignment=size,
            )
            for name, elements in (
                (lines_name(layer.name), found.lines),
                (edge_name(layer.name), found.edge),
            ):
                if elements:
                    yield Buffer(
                        name=name, size=elements * size, start=begin, end=end, alignment=size
                    )
        if group.keeps:
            rows, columns = fresh(rows), fresh(columns)
        places = longest(rows) * longest(columns)
        yield from _scratch(
            group.network, layer, places, scratch, at=begin + step, element_bytes=element_bytes
        )


def _scratch(
    network: Network,
    layer: Layer,
    places: int,
    scratch: Scratch,
    *,
    at: int,
    element_bytes: int | None,
) -> Iterator[Buffer]:
    """The scratch of a layer at one step, where it has some."""
    size = scratch_bytes(network, layer, places, scratch, element_bytes)
    if size:
        yield Buffer(
            name=scratch_name(layer.name),
            size=size,
            start=at,
            end=at + 1,
            alignment=element_bytes or network.layer(layer.inputs[0]).element_bytes,
        )


def last_steps(layers: Sequence[Layer]) -> Mapping[str, int]:
    """Return for each tensor the step of the last layer that reads it, or writes it."""
    last: dict[str, int] = {}
    for step, layer in enumerate(layers):
        last[layer.name] = step
        for source in layer.inputs:
            last[source] = step
    return last


def whole_buffers(
    network: Network,
    layers: Sequence[Layer],
    scratch: Scratch,
    *,
    begin: int,
    element_bytes: int | None,
) -> Iterator[Buffer]:
    """Yield the buffers of layers that work on whole maps, but for input and output."""
    last = last_steps(layers)
    for step, layer in enumerate(layers):
        places = layer.shape.height * layer.shape.width
        size = element_bytes or layer.element_bytes
        if layer is not layers[-1]:
            yield Buffer(
                name=layer.name,
                size=layer.shape.elements * size,
                start=begin + step,
                end=begin + last[layer.name] + 1,
                alignment=size,
            )
        yield from _scratch(
            network, layer, places, scratch, at=begin + step, element_bytes=element_bytes
        )
