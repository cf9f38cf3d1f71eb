"""A stage of tiles at work, in the bytes of an arena that know what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.streaming.computations import Computing
from planners.streaming.held import HeldTensor, MarkedArena
from planners.streaming.plan import Kind, StreamBuffer
from planners.streaming.stage import Stage
from planners.streaming.tiles.held_ranges import TileRanges
from planners.tiling.regions import COLUMNS, ROWS, Needs, Range, Region

Room = Callable[[str, Kind], StreamBuffer]  # of a tensor, as the plan has it


class Surroundings(Protocol):
    """The surroundings of a stage."""

    network: Network
    arena: MarkedArena
    needs: Needs
    computing: Computing | None

    def spoil_scratch(self, layer: str, group: int) -> None:
        """Write over what a layer may use while it computes."""


class Rectangle(NamedTuple):
    """A region of a tensor, row by row from an offset on."""

    arena: MarkedArena
    layer: Layer
    region: Region
    offset: int

    def read(self, region: Region) -> Array:
        """Return a region inside, (rows, columns, channels). Raises ExecutionError where it is gone."""
        channels = self._channels
        found = np.empty((region.height, region.width, channels), self.layer.array_type)
        for row in range(*region.rows):
            at, first = self._places(row, region.columns)
            values = self.arena.read(at, self.layer.name, first, region.width * channels)
            found[row - region.rows[0]] = values.reshape(region.width, channels)
        return found

    def write(self, region: Region, values: Array | None) -> None:
        """Write a region inside."""
        for row in range(*region.rows):
            at, first = self._places(row, region.columns)
            part = None if values is None else values[row - region.rows[0]]
            self.arena.write(at, self.layer.name, first, part, region.width * self._channels)

    def meets(self, other: Rectangle) -> bool:
        """Whether bytes of both are the same."""
        return self.offset < other.offset + other._size and other.offset < self.offset + self._size

    @property
    def _channels(self) -> int:
        return self.layer.shape.channels

    @property
    def _size(self) -> int:
        """Bytes."""
        unit = self.arena.element_bytes(self.layer.name) * self._channels
        return self.region.places * unit

    def _places(self, row: int, columns: Range) -> tuple[int, int]:
        """The place of a part of a row, and the number of its first element."""
        (top, bottom), (left, right) = self.region
        if not (top <= row < bottom and left <= columns[0] <= columns[1] <= right):
            raise ExecutionError(
                f"row {row}, columns {columns[0]} to {columns[1]} of {self.layer.name!r} are "
                f"wanted, but a tile has {self.region}"
            )
        unit = self.arena.element_bytes(self.layer.name) * self._channels
        at = self.offset + ((row - top) * (right - left) + columns[0] - left) * unit
        return at, (row * self.layer.shape.width + columns[0]) * self._channels


def _require_intact(reads: Iterable[tuple[Rectangle, Region]], written: Rectangle) -> None:
    """Raise ExecutionError unless what was read is there behind what was written."""
    for source, region in reads:
        if source.meets(written):
            source.read(region)


def _copy(source: Rectangle, target: Rectangle, region: Region) -> None:
    target.write(region, source.read(region))
    _require_intact([(source, region)], target)


class TileWork:
    """All tiles of a stage, row by row of tiles, from left to right."""

    def __init__(
        self,
        around: Surroundings,
        tensors: Mapping[str, HeldTensor],
        stage: Stage,
        room: Room,
        group: int,
    ) -> None:
        self._around, self._tensors, self._stage = around, tensors, stage
        self._room, self._group = room, group
        self._ranges = TileRanges(around.network, stage, around.needs)

    def run(self) -> None:
        """Carry out all tiles."""
        tiles = self._ranges.tiles
        for down in range(len(tiles.rows)):
            for across in range(len(tiles.columns)):
                self._work(down, across)

    def _work(self, down: int, across: int) -> None:
        there: dict[str, Rectangle] = {}
        for layer in self._ranges.layers:
            for source in layer.inputs:
                if source not in there:
                    there[source] = self._whole(source)
            if layer.name == self._stage.result:
                target = self._ranges.held(layer.name, down, across)
                self._compute(layer, target, there, self._whole(layer.name))
                continue
            tile = self._tile(layer, down, across)
            there[layer.name] = tile
            self._restore(tile, down, across)
            region = self._ranges.computed(layer.name, down, across)
            if region.places:
                self._compute(layer, region, there, tile)
            self._keep(tile, down, across)

    def _compute(
        self, layer: Layer, target: Region, there: Mapping[str, Rectangle], out: Rectangle
    ) -> None:
        around = self._around
        around.spoil_scratch(layer.name, self._group)
        reads = []
        needs = zip(around.needs.of(layer, ROWS), around.needs.of(layer, COLUMNS), strict=True)
        for down, across in needs:
            region = Region(down.clipped(target.rows), across.clipped(target.columns))
            reads.append((there[down.source], region))
        inputs = [(region, source.read(region)) for source, region in reads]
        found = None
        if around.computing is not None:
            found = around.computing.region(layer, target, inputs)
        out.write(target, found)
        _require_intact(reads, out)

    def _whole(self, name: str) -> Rectangle:
        held = self._tensors[name]
        if not held.buffer.has_all_rows:
            raise ExecutionError(f"tiles need tensor {name!r} whole")
        shape = held.layer.shape
        region = Region((0, shape.height), (0, shape.width))
        return Rectangle(self._around.arena, held.layer, region, held.buffer.offset)

    def _tile(self, layer: Layer, down: int, across: int) -> Rectangle:
        return self._placed(layer, Kind.TILE, self._ranges.held(layer.name, down, across))

    def _placed(self, layer: Layer, kind: Kind, region: Region) -> Rectangle:
        buffer = self._room(layer.name, kind)
        elements = region.places * layer.shape.channels
        needed = elements * self._around.arena.element_bytes(layer.name)
        if needed > buffer.size:
            raise ExecutionError(
                f"buffer {buffer.name!r} of {buffer.size} bytes is asked for {needed} bytes"
            )
        return Rectangle(self._around.arena, layer, region, buffer.offset)

    def _rows_below(self, layer: Layer, down: int) -> Rectangle | None:
        region = self._ranges.rows_below(layer.name, down)
        return None if region is None else self._placed(layer, Kind.TILE_ROWS, region)

    def _columns_beside(self, layer: Layer, down: int, across: int) -> Rectangle | None:
        region = self._ranges.columns_beside(layer.name, down, across)
        return None if region is None else self._placed(layer, Kind.TILE_COLUMNS, region)

    def _restore(self, tile: Rectangle, down: int, across: int) -> None:
        """Put into a tile what tiles before it have computed, where they keep it."""
        if not self._ranges.tiles.keeps:
            return
        (top, bottom), (left, right) = tile.region
        known = left
        beside = self._columns_beside(tile.layer, down, across - 1) if across else None
        if beside is not None:
            known = beside.region.columns[1]
            region = Region((top, bottom), (left, known))
            _copy(beside, tile, region)
        above = self._rows_below(tile.layer, down - 1) if down else None
        if above is not None:
            region = Region(above.region.rows, (known, right))
            _copy(above, tile, region)

    def _keep(self, tile: Rectangle, down: int, across: int) -> None:
        """Keep what tiles after this one need."""
        if not self._ranges.tiles.keeps:
            return
        columns, (left, right) = self._ranges.columns[tile.layer.name], tile.region.columns
        begin = max(left, columns[across - 1][1] if across else 0)
        below = self._rows_below(tile.layer, down)
        if below is not None:
            region = Region(below.region.rows, (begin, right))
            _copy(tile, below, region)
        beside = self._columns_beside(tile.layer, down, across)
        if beside is not None:
            _copy(tile, beside, beside.region)
