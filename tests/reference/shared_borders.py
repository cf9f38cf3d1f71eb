"""Borders that neighbours share when every other tile goes first.

Source: Zhao, Mirzazad Barijough, Gerstlauer, DeepThings, IEEE TCAD 37(11), 2018, on
which MAFAT builds: tiles like the black squares of a chess board compute all they hold; the white
ones between them take over what their four neighbours hold, and compute the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf.geometry import Range
from planners.plan.regions import TileRanges, multiply_accumulates_of_pixel

Place = tuple[int, int]  # of a tile: down, across


def reuse_order(down: int, across: int) -> list[Place]:
    """Return all tiles, those first that share no side with one another."""
    places = [(row, column) for row in range(down) for column in range(across)]
    return sorted(places, key=lambda place: sum(place) % 2)


def shared_elements(group: TileRanges, name: str) -> int:
    """Return the elements of a tensor that white tiles take over from black ones."""
    channels = group.network.layer(name).shape.channels
    return channels * sum(
        group.held(name, *place).pixels - _left_over(group, name, place)
        for place in reuse_order(len(group.tiles.row_ends), len(group.tiles.column_ends))
        if sum(place) % 2
    )


def reuse_multiply_accumulates(group: TileRanges) -> int:
    """Return the multiply-accumulates of all tiles when borders are taken over."""
    return sum(
        multiply_accumulates_of_pixel(group.network, layer)
        * sum(
            _left_over(group, layer.name, place)
            if sum(place) % 2
            else group.held(layer.name, *place).pixels
            for place in reuse_order(len(group.tiles.row_ends), len(group.tiles.column_ends))
        )
        for layer in group.layers
    )


def _left_over(group: TileRanges, name: str, place: Place) -> int:
    """Places of a tile that none of its four neighbours holds."""
    rows = _alone(group.rows[name], place[0])
    columns = _alone(group.columns[name], place[1])
    return rows * columns


def _alone(ranges: Sequence[Range], tile: int) -> int:
    """Places of a tile along an axis that neither the one before nor the one behind it holds."""
    first, end = ranges[tile]
    begin = max(first, ranges[tile - 1][1]) if tile else first
    upto = min(end, ranges[tile + 1][0]) if tile + 1 < len(ranges) else end
    return max(0, upto - begin)
