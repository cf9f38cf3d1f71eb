"""The parts of tensors that each tile of a stage holds and computes, from the needs of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from planners.streaming.stage import Stage, Tiles
from planners.tiling.regions import COLUMNS, ROWS, Needs, Range, Region, hull

Ranges = dict[str, list[Range]]  # by tensor: of each tile along an axis


def held_ranges(needs: Needs, layers: Sequence[Layer], ends: Sequence[int], axis: int) -> Ranges:
    """Return the places along an axis that each tile needs of each tensor read or written.

    ends: of the tiles in the result. Of a tensor with several readers a tile needs all from the first
    to the last place that any of them needs.
    """
    found: Ranges = {}
    for target in pairwise((0, *ends)):
        wanted = {layers[-1].name: target}
        for layer in reversed(layers):
            for need in needs.of(layer, axis):
                span = need.clipped(wanted[layer.name])
                known = wanted.get(need.source)
                wanted[need.source] = span if known is None else hull(known, span)
        for name, span in wanted.items():
            found.setdefault(name, []).append(span)
    return found


def not_held_before(ranges: Sequence[Range]) -> list[Range]:
    """Return what each tile needs that no tile before it does; an empty range for nothing."""
    found, upto = [], 0
    for first, end in ranges:
        begin = min(max(first, upto), end)
        found.append((begin, end))
        upto = max(upto, end)
    return found


class TileRanges:
    """The rectangles of a stage of tiles: a tile is named by its place down and across."""

    def __init__(self, network: Network, stage: Stage, needs: Needs | None = None) -> None:
        """Raise InvalidNetwork for a layer that needs all of an input at once."""
        assert stage.tiles is not None
        self._network = network
        self.tiles: Tiles = stage.tiles
        self.layers = [network.layer(name) for name in stage.layers]
        needs = needs or Needs(network)
        self.rows = held_ranges(needs, self.layers, self.tiles.rows, ROWS)
        self.columns = held_ranges(needs, self.layers, self.tiles.columns, COLUMNS)

    def held(self, name: str, down: int, across: int) -> Region:
        """Return what a tile holds of a tensor."""
        return Region(self.rows[name][down], self.columns[name][across])

    def computed(self, name: str, down: int, across: int) -> Region:
        """Return what a tile computes of a tensor."""
        if not self.tiles.keeps:
            return self.held(name, down, across)
        rows, columns = not_held_before(self.rows[name]), not_held_before(self.columns[name])
        return Region(rows[down], columns[across])

    def rows_below(self, name: str, down: int) -> Region | None:
        """Return the rows, of the whole width, that tiles share with those below them."""
        if down + 1 == len(self.tiles.rows):
            return None
        rows = (self.rows[name][down + 1][0], self.rows[name][down][1])
        return _unless_empty(Region(rows, (self.columns[name][0][0], self.columns[name][-1][1])))

    def columns_beside(self, name: str, down: int, across: int) -> Region | None:
        """Return the columns that a tile shares with the next one."""
        if across + 1 == len(self.tiles.columns):
            return None
        columns = (self.columns[name][across + 1][0], self.columns[name][across][1])
        return _unless_empty(Region(self.rows[name][down], columns))

    @property
    def work(self) -> int:
        """Multiply-accumulates of all tiles together."""
        return sum(self._work_of(layer) for layer in self.layers)

    def _work_of(self, layer: Layer) -> int:
        every = multiply_accumulates(layer, self._network.input_shapes(layer))
        places = layer.shape.height * layer.shape.width
        rows, columns = self.rows[layer.name], self.columns[layer.name]
        if self.tiles.keeps:
            rows, columns = not_held_before(rows), not_held_before(columns)
        return every // places * _places(rows) * _places(columns)


def _places(ranges: Sequence[Range]) -> int:
    return sum(end - first for first, end in ranges)


def _unless_empty(region: Region) -> Region | None:
    return None if min(region.height, region.width) <= 0 else region
