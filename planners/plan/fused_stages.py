"""Firings of fused stages: column by column, or tile by tile.

A column of the result is computed on demand: a layer whose input columns are missing waits until the
layer that produces them has computed them.

With channel blocks, the layers before the accumulating layer hold one block of channels at a time. Each
block passes over all columns and adds to the accumulators of the accumulating layer; the last block
completes the accumulators and continues to the result. A stage of tiles runs in the arena with shadow
memory, in which each byte is tagged with its tensor and element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.plan.checked_geometry import CheckedFirings, InputNeeds, TiledStage
from planners.plan.plan import ACCUMULATOR_BYTES, Kind, Stage, StreamBuffer
from planners.plan.shadow_arena import (
    Computing,
    Content,
    HeldStrip,
    HeldTensor,
    MarkedArena,
    rows_read,
)


class FiringContext(Protocol):
    """The surroundings of a firing."""

    network: Network
    arena: MarkedArena
    needs: InputNeeds
    computing: Computing | None

    def spoil_scratch(self, layer: str, group: int) -> None:
        """Poison the scratch bytes that a layer may use while it computes."""


class _Sums(NamedTuple):
    """The accumulators of a layer for the rows of a firing, from an offset of the arena on."""

    layer: Layer
    offset: int
    rows: Range

    @property
    def end(self) -> int:
        """The byte past the accumulators."""
        return self.at(self.rows[1], 0)[1][0]

    def at(self, row: int, column: int) -> tuple[str, Range, int]:
        """Return the layer, the bytes of the sums of a pixel, and the first of them in the layer."""
        size, width = self.layer.shape.channels * ACCUMULATOR_BYTES, self.layer.shape.width
        begin = self.offset + ((row - self.rows[0]) * width + column) * size
        return self.layer.name, (begin, begin + size), (row * width + column) * size


class FusedFiring:
    """A firing of a stage of several layers."""

    def __init__(
        self,
        around: FiringContext,
        tensors: Mapping[str, HeldTensor],
        stage: CheckedFirings,
        room: Range,
        group: int,
    ) -> None:
        """Take the tensors of the group, and the bytes in which strips and sums may lie."""
        self._group = group
        self._around = around
        self._tensors = tensors
        self._stage = stage
        self._ranges = stage.ranges[stage.fired]
        self._parts = stage.stage.channel_blocks
        self._inside = {layer.name: layer for layer in stage.layers}
        names = list(self._inside)
        accumulating_layer = stage.stage.accumulating_layer
        self._sliced = (
            set(names[: names.index(accumulating_layer)]) if accumulating_layer else set()
        )
        for layer in stage.layers[len(self._sliced) + 1 :]:
            for source in self._sliced.intersection(layer.inputs):
                raise ExecutionError(
                    f"{layer.name!r} reads {source!r}, of which one part of the channels is there"
                )
        self._held = {name: self._share(name, 0)[1] for name in self._sliced}
        self._strips, end = self._placed_strips(room[0])
        self._sums: _Sums | None = None
        self._collected: dict[tuple[int, int], Array] = {}
        if accumulating_layer:
            offset = -(-end // ACCUMULATOR_BYTES) * ACCUMULATOR_BYTES
            layer = self._inside[accumulating_layer]
            self._sums = _Sums(layer, offset, self._ranges[accumulating_layer])
            end = self._sums.end
        result = tensors[stage.result]
        self._may_overlap = result.staged is not None or result.may_overlap(room[0], end)
        if end > room[1]:
            raise ExecutionError(f"the strips of {stage.result!r} leave the pool")

    def _placed_strips(self, base: int) -> tuple[dict[str, HeldStrip], int]:
        strips: dict[str, HeldStrip] = {}
        for name, rows, columns in self._stage.stage.strips:
            layer = self._inside[name]
            channels = self._held.get(name, layer.shape.channels)
            strips[name] = HeldStrip(layer, self._ranges[name], rows, columns, base, channels)
            base += rows * columns * channels * self._around.arena.element_bytes(name)
        return strips, base

    def _share(self, name: str, part: int) -> Range:
        """The channels of a tensor that a channel block holds."""
        channels = self._inside[name].shape.channels
        if name not in self._sliced:
            return 0, channels
        size = -(-channels // self._parts)
        return min(part * size, channels), min((part + 1) * size, channels)

    def run(self) -> None:
        """Compute the rows of the firing."""
        for part in range(self._parts):
            is_last = part + 1 == self._parts
            goal = self._stage.layers[-1]
            if self._sums is not None and not is_last:
                goal = self._sums.layer
            made = dict.fromkeys(self._inside, 0)
            while made[goal.name] < goal.shape.width:
                layer = goal
                while (lacking := self._lacking(layer, made)) is not None:
                    layer = self._inside[lacking]
                self._column(layer, made[layer.name], part)
                made[layer.name] += 1

    def _lacking(self, layer: Layer, made: Mapping[str, int]) -> str | None:
        """The tensor inside the stage that lacks input columns for the next column of a layer."""
        for index, source in enumerate(layer.inputs):
            if source not in self._inside:
                continue
            if made[source] < self._columns(layer, index, made[layer.name])[1]:
                return source
        return None

    def _columns(self, layer: Layer, index: int, column: int) -> Range:
        return self._around.needs.columns(layer, index, (column, column + 1))

    def _column(self, layer: Layer, column: int, part: int) -> None:
        rows = self._ranges[layer.name]
        if rows[0] >= rows[1]:
            return
        self._around.spoil_scratch(layer.name, self._group)
        inputs = self._inputs(layer, rows, column, part)
        if self._sums is not None and layer is self._sums.layer:
            self._add(column, part)
            if part + 1 < self._parts:
                return
            inputs = [(region, self._whole_cells(region, cells)) for region, cells in inputs]
        computed_region = None
        if self._around.computing is not None:
            target = Region(rows, (column, column + 1))
            computed_region = self._around.computing.region(layer, target, inputs)
        for row in range(*rows):
            values = None if computed_region is None else computed_region[row - rows[0], 0]
            self._put_cell(layer, row, column, values, part)
        if self._sums is not None and layer is self._sums.layer:
            self._require_sums(column, "the result lies over them")

        self._around.spoil_scratch(layer.name, self._group)
        if self._may_overlap:  # a result over strips or sums
            with self._around.arena.uncounted():
                self._inputs(layer, rows, column, part)

    def _inputs(
        self, layer: Layer, rows: Range, column: int, part: int
    ) -> list[tuple[Region, Array]]:
        """Return the input regions that a layer reads for some rows of a column, with their cells."""
        inputs = []
        for index, source in enumerate(layer.inputs):
            columns = self._columns(layer, index, column)
            span = self._around.needs.rows(layer, index, rows)
            inputs.append((Region(span, columns), self._cells(source, span, columns, part)))
        return inputs

    def _require_sums(self, column: int, otherwise: str) -> None:
        """Require that the accumulators of a column are intact; they are requantised in sequence."""
        assert self._sums is not None
        for row in range(*self._sums.rows):
            if not self._around.arena.holds(Content.BLOCK_SUMS, *self._sums.at(row, column)):
                raise ExecutionError(f"the sums of {self._sums.layer.name!r}: {otherwise}")

    def _add(self, column: int, part: int) -> None:
        """Tag the accumulators of a column with their layer; later channel blocks check the tags."""
        assert self._sums is not None
        if part:
            self._require_sums(column, "they are overwritten")
        for row in range(*self._sums.rows):
            self._around.arena.fill(Content.BLOCK_SUMS, *self._sums.at(row, column))

    def _whole_cells(self, region: Region, like: Array) -> Array:
        """Return the collected cells of a region in all channels, for the accumulating layer.

        The values of the sums do not depend on their order. like: the cells of the last channel block,
        with the same shape and type.
        """
        collected = np.zeros_like(like)
        (top, _), (left, _) = region
        for row in range(*region.rows):
            for column in range(*region.columns):
                collected[row - top, column - left] = self._collected[row, column]
        return collected

    def _cells(self, source: str, rows: Range, columns: Range, part: int) -> Array:
        """The cells of a tensor, all channels; channels that are missing in this part are 0."""
        layer = self._around.network.layer(source)
        shape, kind = layer.shape, layer.array_type
        if source not in self._strips and columns == (0, shape.width):
            return rows_read(self._around.arena, self._tensors[source], rows)
        first, end = self._share(source, part) if source in self._inside else (0, shape.channels)
        rows_of_region = np.zeros(
            (rows[1] - rows[0], columns[1] - columns[0], shape.channels), kind
        )
        runs, channels_each = self._runs(source, columns, end - first), end - first
        for row in range(*rows):
            for left, right in runs:
                values = self._around.arena.read(
                    self._cell(source, row, left),
                    source,
                    (row * shape.width + left) * shape.channels + first,
                    (right - left) * channels_each,
                ).reshape(right - left, channels_each)
                rows_of_region[row - rows[0], left - columns[0] : right - columns[0], first:end] = (
                    values
                )
                if self._sums is not None and source == self._sums.layer.inputs[0]:
                    kept = self._collected.setdefault((row, left), np.zeros(shape.channels, kind))
                    kept[first:end] = values[0]
        return rows_of_region

    def _runs(self, source: str, columns: Range, channels: int) -> list[Range]:
        """Split columns of a tensor into runs stored contiguously; a strip wraps around at its end."""
        left, right = columns
        if source not in self._strips:
            return [columns]
        if channels < self._inside[source].shape.channels:
            return [(column, column + 1) for column in range(left, right)]
        lap = self._strips[source].columns
        bends = range((left // lap + 1) * lap, right, lap)
        return list(pairwise((left, *bends, right)))

    def _cell(self, tensor: str, row: int, column: int) -> int:
        unit = self._around.arena.element_bytes(tensor)
        if tensor in self._strips:
            return self._strips[tensor].place(row, column, unit)
        held = self._tensors[tensor]
        return held.place(row) + column * held.place_bytes

    def _put_cell(
        self, layer: Layer, row: int, column: int, values: Array | None, part: int
    ) -> None:
        shape = layer.shape
        first, end = self._share(layer.name, part)
        self._around.arena.write(
            self._cell(layer.name, row, column),
            layer.name,
            (row * shape.width + column) * shape.channels + first,
            None if values is None else values[first:end],
            end - first,
        )


Room = Callable[[str, Kind], StreamBuffer]  # of a tensor, as the plan has it


class Rectangle(NamedTuple):
    """A region of a tensor, row by row from an offset on."""

    arena: MarkedArena
    layer: Layer
    region: Region
    offset: int

    def read(self, region: Region) -> Array:
        """Return a region inside, (rows, columns, channels). Raises ExecutionError where it is gone."""
        channels = self._channels
        rows_of_region = np.empty((region.height, region.width, channels), self.layer.array_type)
        for row in range(*region.rows):
            at, first = self._places(row, region.columns)
            values = self.arena.read(at, self.layer.name, first, region.width * channels)
            rows_of_region[row - region.rows[0]] = values.reshape(region.width, channels)
        return rows_of_region

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
        return self.region.pixels * unit

    def _places(self, row: int, columns: Range) -> tuple[int, int]:
        """The offset of a range of columns of a row, and the index of its first element."""
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
    """Raise ExecutionError if the written rectangle overwrote a region that was read."""
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
        around: FiringContext,
        tensors: Mapping[str, HeldTensor],
        stage: Stage,
        room: Room,
        group: int,
    ) -> None:
        self._around, self._tensors, self._stage = around, tensors, stage
        self._room, self._group = room, group
        self._ranges = TiledStage(stage, around.needs)

    def run(self) -> None:
        """Carry out all tiles."""
        tiles = self._ranges.tiles
        for down in range(len(tiles.row_ends)):
            for across in range(len(tiles.column_ends)):
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
            if region.pixels:
                self._compute(layer, region, there, tile)
            self._keep(tile, down, across)

    def _compute(
        self, layer: Layer, target: Region, there: Mapping[str, Rectangle], out: Rectangle
    ) -> None:
        around = self._around
        around.spoil_scratch(layer.name, self._group)
        reads = []
        for index, source in enumerate(layer.inputs):
            rows = around.needs.tile_rows(layer, index, target.rows)
            columns = around.needs.columns(layer, index, target.columns)
            reads.append((there[source], Region(rows, columns)))
        inputs = [(region, rectangle.read(region)) for rectangle, region in reads]
        computed_region = None
        if around.computing is not None:
            computed_region = around.computing.region(layer, target, inputs)
        out.write(target, computed_region)
        around.spoil_scratch(layer.name, self._group)
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
        elements = region.pixels * layer.shape.channels
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
        """Copy the cached halo of earlier tiles into a tile."""
        if not self._ranges.tiles.halo_cached:
            return
        (top, bottom), (left, right) = tile.region
        right_edge = left
        beside = self._columns_beside(tile.layer, down, across - 1) if across else None
        if beside is not None:
            right_edge = beside.region.columns[1]
            region = Region((top, bottom), (left, right_edge))
            _copy(beside, tile, region)
        above = self._rows_below(tile.layer, down - 1) if down else None
        if above is not None:
            region = Region(above.region.rows, (right_edge, right))
            _copy(above, tile, region)

    def _keep(self, tile: Rectangle, down: int, across: int) -> None:
        """Cache the halo of a tile that later tiles need."""
        if not self._ranges.tiles.halo_cached:
            return
        below = self._rows_below(tile.layer, down)
        if below is not None:
            columns = self._ranges.kept_columns(tile.layer.name, across)
            region = Region(below.region.rows, columns)
            _copy(tile, below, region)
        beside = self._columns_beside(tile.layer, down, across)
        if beside is not None:
            _copy(tile, beside, beside.region)
