"""Rectangles of tensors that each tile of a stage holds and computes, by the needs of its layers."""

from __future__ import annotations

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from planners.plan.plan import Stage, Tiles
from planners.tiling.regions import COLUMNS, ROWS, Needs, Range, Region, bands, fresh


class TileRanges:
    """The rectangles of a stage of tiles: a tile is named by its place down and across."""

    def __init__(self, network: Network, stage: Stage, needs: Needs | None = None) -> None:
        """Raise InvalidNetwork for a layer that needs all of an input at once."""
        assert stage.tiles is not None
        self.network = network
        self.tiles: Tiles = stage.tiles
        self.layers = [network.layer(name) for name in stage.layers]
        needs = needs or Needs(network)
        self.rows = bands(needs, self.layers, self.tiles.row_ends, ROWS)
        self.columns = bands(needs, self.layers, self.tiles.column_ends, COLUMNS)

    def held(self, name: str, down: int, across: int) -> Region:
        """Return what a tile holds of a tensor."""
        return Region(self.rows[name][down], self.columns[name][across])

    def computed(self, name: str, down: int, across: int) -> Region:
        """Return what a tile computes of a tensor."""
        return Region(self.computed_rows(name)[down], self.computed_columns(name)[across])

    def computed_rows(self, name: str) -> tuple[Range, ...]:
        """Return the rows of a tensor that each tile down computes."""
        return fresh(self.rows[name]) if self.tiles.halo_cached else self.rows[name]

    def computed_columns(self, name: str) -> tuple[Range, ...]:
        """Return the columns of a tensor that each tile across computes."""
        return fresh(self.columns[name]) if self.tiles.halo_cached else self.columns[name]

    def rows_below(self, name: str, down: int) -> Region | None:
        """Return the rows, of the whole width, that tiles share with those below them."""
        if down + 1 == len(self.tiles.row_ends):
            return None
        rows = (self.rows[name][down + 1][0], self.rows[name][down][1])
        return _unless_empty(Region(rows, (self.columns[name][0][0], self.columns[name][-1][1])))

    def columns_beside(self, name: str, down: int, across: int) -> Region | None:
        """Return the columns that a tile shares with the next one."""
        if across + 1 == len(self.tiles.column_ends):
            return None
        columns = (self.columns[name][across + 1][0], self.columns[name][across][1])
        return _unless_empty(Region(self.rows[name][down], columns))

    @property
    def work(self) -> int:
        """Multiply-accumulates of all tiles together."""
        return sum(map(self.work_of, self.layers))

    def work_of(self, layer: Layer) -> int:
        """Multiply-accumulates of a layer in all tiles."""
        rows, columns = self.computed_rows(layer.name), self.computed_columns(layer.name)
        pixels = sum(end - first for first, end in rows) * sum(
            end - first for first, end in columns
        )
        return multiply_accumulates_of_pixel(self.network, layer) * pixels


def multiply_accumulates_of_pixel(network: Network, layer: Layer) -> int:
    """Return the multiply-accumulates of one pixel of all channels of the output of a layer."""
    pixels = layer.shape.height * layer.shape.width
    return multiply_accumulates(layer, network.input_shapes(layer)) // pixels


def _unless_empty(region: Region) -> Region | None:
    return None if min(region.height, region.width) <= 0 else region
