"""The tables of stages that work tile by tile."""

from __future__ import annotations

from collections.abc import Callable

from cnn2csdf.network import Network
from csdf.errors import InvalidPlan
from planners.code.tables import NULL, Tables
from planners.streaming.plan import Kind
from planners.streaming.stage import Stage
from planners.streaming.tiles.held_ranges import TileRanges
from planners.tiling.regions import Needs, can_be_tiled

Offset = Callable[[str, Kind], int]  # of the buffer for a tensor, in elements of the arena


def tiling_of(network: Network, stage: Stage, offset: Offset, tables: Tables) -> str:
    """Return the initialiser of a tiling: which places of each tensor each tile holds.

    Raises InvalidPlan for a layer that cannot be tiled.
    """
    for name in stage.layers:
        if not can_be_tiled(network, network.layer(name)):
            raise InvalidPlan(f"no C code for {name!r} in tiles, which needs more than rectangles")
    ranges = TileRanges(network, stage, Needs(network))
    places = [
        str(place)
        for name in stage.layers
        for span in (*ranges.rows[name], *ranges.columns[name])
        for place in span
    ]
    held = tables.defined("uint16_t", "held", places)
    kept = tables.defined("int32_t", "kept", _kept(ranges, offset)) if ranges.tiles.keeps else NULL
    return f"{{{len(ranges.tiles.rows)}, {len(ranges.tiles.columns)}, {held}, {kept}}},"


def _kept(ranges: TileRanges, offset: Offset) -> list[str]:
    """Return where rows lie for tiles below, and columns for the next tile; zero for none."""
    downs, acrosses = range(len(ranges.tiles.rows)), range(len(ranges.tiles.columns))
    found = []
    for layer in ranges.layers:
        below = any(ranges.rows_below(layer.name, down) for down in downs)
        beside = any(ranges.columns_beside(layer.name, 0, across) for across in acrosses)
        for kind, is_there in ((Kind.TILE_ROWS, below), (Kind.TILE_COLUMNS, beside)):
            found.append(str(offset(layer.name, kind) if is_there else 0))
    return found
