"""Firings of fused stages: column by column, or tile by tile.

A column of the result is computed on demand: a layer whose input columns are missing waits until the
layer that produces them has computed them.

All firings run in the arena with shadow memory, in which each byte is tagged with its tensor and
element. A stage may have an accumulating layer, a convolution. The layers before it are sliced: a
pass over all columns computes one channel block of these layers and adds its products to the
accumulators. The last pass completes the accumulators and continues to the result. For example, 2
blocks of 6 channels:

    pass 0: channels 0 to 2 of the sliced layers -> accumulators
    pass 1: channels 3 to 5 of the sliced layers -> accumulators -> result
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, starmap
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
    """The network, arena and computation that a firing uses."""

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
        return (
            self.offset + (self.rows[1] - self.rows[0]) * self.layer.shape.width * self._pixel_bytes
        )

    def tagged(self, row: int, column: int) -> tuple[str, Range, int]:
        """Return the sums of a pixel as MarkedArena tags them: layer, bytes of the arena, first tag.

        The first tag is the index of the first byte among the bytes of the sums of the whole layer.
        """
        pixel, size = row * self.layer.shape.width + column, self._pixel_bytes
        begin = self.offset + (pixel - self.rows[0] * self.layer.shape.width) * size
        return self.layer.name, (begin, begin + size), pixel * size

    @property
    def _pixel_bytes(self) -> int:
        return self.layer.shape.channels * ACCUMULATOR_BYTES


class FusedFiring:
    """A firing of a stage of several layers.

    The staging buffer holds a strip (some columns of each layer but the last, as a ring), then the
    accumulators.
    """

    def __init__(
        self,
        context: FiringContext,
        tensors: Mapping[str, HeldTensor],
        stage: CheckedFirings,
        free: Range,
        group: int,
    ) -> None:
        """Take the tensors of the group, and the bytes of the arena for strips and accumulators."""
        self._group = group
        self._context = context
        self._tensors = tensors
        self._stage = stage
        self._ranges = stage.ranges[stage.fired]
        self._blocks = stage.stage.channel_blocks
        self._inside = {layer.name: layer for layer in stage.layers}
        names, accumulating = list(self._inside), stage.stage.accumulating_layer
        self._sliced = set(names[: names.index(accumulating)]) if accumulating else set()
        for layer in stage.layers[len(self._sliced) + 1 :]:
            for source in self._sliced.intersection(layer.inputs):
                raise ExecutionError(
                    f"{layer.name!r} reads {source!r}, which holds one channel block at a time"
                )
        self._strips, end = self._placed_strips(free[0])
        self._sums: _Sums | None = None
        # The input of the accumulating layer by pixel, (channels,): a pass adds its block.
        self._collected: dict[tuple[int, int], Array] = {}
        if accumulating:
            offset = -(-end // ACCUMULATOR_BYTES) * ACCUMULATOR_BYTES
            layer = self._inside[accumulating]
            self._sums = _Sums(layer, offset, self._ranges[accumulating])
            end = self._sums.end
        result = tensors[stage.result]
        self._may_overlap = result.staged is not None or result.may_overlap(free[0], end)
        if end > free[1]:
            raise ExecutionError(
                f"the strips of {stage.result!r} end {end - free[1]} bytes after the staging buffer"
            )

    def _placed_strips(self, base: int) -> tuple[dict[str, HeldStrip], int]:
        strips: dict[str, HeldStrip] = {}
        for name, rows, columns in self._stage.stage.strips:
            _, channels = self._channels(name, 0)  # no block is larger than the first
            strips[name] = HeldStrip(
                self._inside[name], self._ranges[name], rows, columns, base, channels
            )
            base += rows * columns * channels * self._context.arena.element_bytes(name)
        return strips, base

    def _channels(self, name: str, block: int) -> Range:
        """The channels of a tensor that a pass holds: a block of a sliced layer, all of any other."""
        channels = self._context.network.layer(name).shape.channels
        if name not in self._sliced:
            return 0, channels
        size = -(-channels // self._blocks)
        return min(block * size, channels), min((block + 1) * size, channels)

    def run(self) -> None:
        """Compute the rows of the firing."""
        for block in range(self._blocks):
            goal = self._stage.layers[-1]
            if self._sums is not None and block + 1 < self._blocks:
                goal = self._sums.layer
            computed = dict.fromkeys(self._inside, 0)  # columns
            while computed[goal.name] < goal.shape.width:
                layer = goal
                while (lacking := self._lacking(layer, computed)) is not None:
                    layer = self._inside[lacking]
                self._compute_column(layer, computed[layer.name], block)
                computed[layer.name] += 1

    def _lacking(self, layer: Layer, computed: Mapping[str, int]) -> str | None:
        """The tensor inside the stage that lacks input columns for the next column of a layer."""
        for index, source in enumerate(layer.inputs):
            if source not in self._inside:
                continue
            if computed[source] < self._columns(layer, index, computed[layer.name])[1]:
                return source
        return None

    def _columns(self, layer: Layer, index: int, column: int) -> Range:
        return self._context.needs.columns(layer, index, (column, column + 1))

    def _compute_column(self, layer: Layer, column: int, block: int) -> None:
        """Compute the rows of one column of a layer, as the generated C may order its accesses.

        1. Overwrite the scratch of the layer: scratch must not overlap an input.
        2. Read the inputs. The accumulating layer tags its accumulators, and ends here in all passes
           but the last, whose inputs are completed by the blocks of the earlier passes.
        3. Compute and write the column. The accumulators must be intact after the write.
        4. Overwrite the scratch again: a kernel uses it until it ends.
        5. Read the inputs again if the result may overlap strips or accumulators: a kernel may write
           its first element before it reads its last input. These reads are not counted.
        """
        rows = self._ranges[layer.name]
        if rows[0] >= rows[1]:
            return
        self._context.spoil_scratch(layer.name, self._group)
        inputs = self._inputs(layer, rows, column, block)
        if self._sums is not None and layer is self._sums.layer:
            self._add(column, block)
            if block + 1 < self._blocks:
                return
            inputs = [(region, self._all_channels(region, values)) for region, values in inputs]
        computed_region = None
        if self._context.computing is not None:
            target = Region(rows, (column, column + 1))
            computed_region = self._context.computing.region(layer, target, inputs)
        for row in range(*rows):
            values = None if computed_region is None else computed_region[row - rows[0], 0]
            self._write_pixel(layer, row, column, values, block)
        if self._sums is not None and layer is self._sums.layer:
            self._require_sums(column, "the result overlaps them")
        self._context.spoil_scratch(layer.name, self._group)
        if self._may_overlap:
            with self._context.arena.uncounted():
                self._inputs(layer, rows, column, block)

    def _inputs(
        self, layer: Layer, rows: Range, column: int, block: int
    ) -> list[tuple[Region, Array]]:
        """Return the input regions that a layer reads for rows of a column, with their values."""
        inputs = []
        for index, source in enumerate(layer.inputs):
            columns = self._columns(layer, index, column)
            span = self._context.needs.rows(layer, index, rows)
            values = self._read(source, span, columns, block, layer.name)
            inputs.append((Region(span, columns), values))
        return inputs

    def _require_sums(self, column: int, otherwise: str) -> None:
        """Require that the accumulators of a column are intact; they are requantised in sequence."""
        assert self._sums is not None
        for row in range(*self._sums.rows):
            if not self._context.arena.holds(Content.BLOCK_SUMS, *self._sums.tagged(row, column)):
                raise ExecutionError(f"the sums of {self._sums.layer.name!r}: {otherwise}")

    def _add(self, column: int, block: int) -> None:
        """Tag the accumulators of a column with their layer; later channel blocks check the tags."""
        assert self._sums is not None
        if block:
            self._require_sums(column, "they are overwritten")
        for row in range(*self._sums.rows):
            self._context.arena.fill(Content.BLOCK_SUMS, *self._sums.tagged(row, column))

    def _all_channels(self, region: Region, like: Array) -> Array:
        """Return the collected input of the accumulating layer in a region, with all channels.

        The executor computes all sums at once in the last pass: their values do not depend on the
        order. like: the input in the last channel block, with the same shape and type.
        """
        collected = np.zeros_like(like)
        (top, _), (left, _) = region
        for row in range(*region.rows):
            for column in range(*region.columns):
                collected[row - top, column - left] = self._collected[row, column]
        return collected

    def _read(self, source: str, rows: Range, columns: Range, block: int, reader: str) -> Array:
        """Return a region of a tensor as a layer reads it, (rows, columns, channels).

        It is 0 in the channels of other blocks. reader: the layer.
        """
        layer = self._context.network.layer(source)
        shape, kind = layer.shape, layer.array_type
        if source not in self._strips and columns == (0, shape.width):
            return rows_read(self._context.arena, self._tensors[source], rows, reader)
        first, end = self._channels(source, block)
        region = np.zeros((rows[1] - rows[0], columns[1] - columns[0], shape.channels), kind)
        runs, channels_each = self._runs(source, columns, end - first), end - first
        for row in range(*rows):
            for left, right in runs:
                values = self._context.arena.read(
                    self._offset(source, row, left, reader),
                    source,
                    (row * shape.width + left) * shape.channels + first,
                    (right - left) * channels_each,
                ).reshape(right - left, channels_each)
                region[row - rows[0], left - columns[0] : right - columns[0], first:end] = values
                if self._sums is not None and source == self._sums.layer.inputs[0]:
                    # The input of the accumulating layer is sliced into two blocks or more, as the
                    # checker requires: each run is one column.
                    (pixel_values,) = values
                    collected = np.zeros(shape.channels, kind)
                    self._collected.setdefault((row, left), collected)[first:end] = pixel_values
        return region

    def _runs(self, source: str, columns: Range, channels: int) -> list[Range]:
        """Split columns of a tensor into runs whose elements are contiguous in shadow and arena.

        A strip of all channels wraps around after its last column. In a strip of a channel block, the
        elements of neighbouring columns are not consecutive in the tensor: each column is a run.
        """
        left, right = columns
        if source not in self._strips:
            return [columns]
        if channels < self._inside[source].shape.channels:
            return [(column, column + 1) for column in range(left, right)]
        lap = self._strips[source].columns
        bends = range((left // lap + 1) * lap, right, lap)
        return list(pairwise((left, *bends, right)))

    def _offset(self, tensor: str, row: int, column: int, reader: str | None = None) -> int:
        unit = self._context.arena.element_bytes(tensor)
        if tensor in self._strips:
            return self._strips[tensor].place(row, column, unit)
        held = self._tensors[tensor]
        return held.place(row, reader) + column * held.place_bytes

    def _write_pixel(
        self, layer: Layer, row: int, column: int, values: Array | None, block: int
    ) -> None:
        shape = layer.shape
        first, end = self._channels(layer.name, block)
        self._context.arena.write(
            self._offset(layer.name, row, column),
            layer.name,
            (row * shape.width + column) * shape.channels + first,
            None if values is None else values[first:end],
            end - first,
        )


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

    def may_overlap(self, begin: int, end: int) -> bool:
        """Whether bytes from begin to end may belong to the region."""
        ((first, last),) = self.spans
        return first < end and begin < last

    @property
    def spans(self) -> list[Range]:
        """Byte ranges of the region in the arena."""
        unit = self.arena.element_bytes(self.layer.name) * self._channels
        return [(self.offset, self.offset + self.region.pixels * unit)]

    @property
    def _channels(self) -> int:
        return self.layer.shape.channels

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


class WholeInTiles:
    """A whole tensor whose regions tiles read or write, wherever its rows and pixels are."""

    def __init__(self, arena: MarkedArena, held: HeldTensor, reader: str | None) -> None:
        """Set the tensor, in the buffer of this reader; a result is written to all its buffers."""
        self._arena, self._held, self._reader = arena, held, reader
        self.spans = [(buffer.offset, buffer.offset + buffer.size) for buffer in held.buffers]
        self.may_overlap = held.may_overlap

    def read(self, region: Region) -> Array:
        """Return a region, (rows, columns, channels). Raises ExecutionError where it is gone."""
        return rows_read(self._arena, self._held, region.rows, self._reader, region.columns)

    def write(self, region: Region, values: Array | None) -> None:
        """Write a region."""
        held, layer = self._held, self._held.layer
        channels, left = layer.shape.row_elements // layer.shape.width, region.columns[0]
        for row in range(*region.rows):
            part = None if values is None else values[row - region.rows[0]]
            first = (row * layer.shape.width + left) * channels
            for place in held.places(row):
                at = place + left * held.place_bytes
                self._arena.write(at, layer.name, first, part, region.width * channels)


def _require_intact(
    reads: Iterable[tuple[Rectangle | WholeInTiles, Region]], written: Rectangle | WholeInTiles
) -> None:
    """Raise ExecutionError if what was written overwrote a region that was read."""
    for source, region in reads:
        if any(starmap(source.may_overlap, written.spans)):
            source.read(region)


def _copy(source: Rectangle, target: Rectangle, region: Region) -> None:
    target.write(region, source.read(region))
    _require_intact([(source, region)], target)


BufferOf = Callable[[str, Kind], StreamBuffer]  # the buffer of a tensor of a kind in the group


class TileWork:
    """All tiles of a stage, row by row of tiles, from left to right.

    down, across: numbers of a tile. A tile holds the region that later layers need for the tile of the
    result. Neighbouring regions overlap: in the halo. A tile of a tensor inside the stage with a
    cached halo, for which TiledStage computes the regions:

                  left      edge               right      edge: end of the tile to the left
         top      +---------+--------------------+
                  | TILE_   | TILE_ROWS          |        restored from the tiles above
         end of   | COLUMNS +--------------------+
         tiles    |         | computed           |
         above    | (from   |                    |
                  | the     |      +-------------+
                  | left)   |      | also held by| next   cached for tiles below and to the right
         bottom   +---------+------+-------------+

    TILE_COLUMNS stores all rows of one tile, TILE_ROWS all columns of the tensor: each tile adds the
    columns right of `edge`. Without a cache a tile computes its whole region.
    """

    def __init__(
        self,
        context: FiringContext,
        tensors: Mapping[str, HeldTensor],
        stage: Stage,
        buffer_of: BufferOf,
        group: int,
    ) -> None:
        self._context, self._tensors, self._stage = context, tensors, stage
        self._buffer_of, self._group = buffer_of, group
        self._regions = TiledStage(stage, context.needs)

    def run(self) -> None:
        """Execute all tiles."""
        tiles = self._regions.tiles
        for down in range(len(tiles.row_ends)):
            for across in range(len(tiles.column_ends)):
                self._run_tile(down, across)

    def _run_tile(self, down: int, across: int) -> None:
        tiles: dict[str, Rectangle] = {}
        for layer in self._regions.layers:
            if layer.name == self._stage.result:
                target = self._regions.held(layer.name, down, across)
                self._compute(layer, target, tiles, self._whole(layer.name, None))
                continue
            tile = self._tile(layer, down, across)
            tiles[layer.name] = tile
            self._restore_halo(tile, down, across)
            region = self._regions.computed(layer.name, down, across)
            if region.pixels:
                self._compute(layer, region, tiles, tile)
            self._cache_halo(tile, down, across)

    def _compute(
        self,
        layer: Layer,
        target: Region,
        tiles: Mapping[str, Rectangle],
        out: Rectangle | WholeInTiles,
    ) -> None:
        """Compute a region of a layer from its inputs, which must be intact after the write."""
        context = self._context
        context.spoil_scratch(layer.name, self._group)
        reads: list[tuple[Rectangle | WholeInTiles, Region]] = []
        for index, source in enumerate(layer.inputs):
            # As for columns: if all rows are padding, the nearest row, since a tile is not empty.
            rows = context.needs.tile_rows(layer, index, target.rows)
            columns = context.needs.columns(layer, index, target.columns)
            tensor = tiles[source] if source in tiles else self._whole(source, layer.name)
            reads.append((tensor, Region(rows, columns)))
        inputs = [(region, tensor.read(region)) for tensor, region in reads]
        computed_region = None
        if context.computing is not None:
            computed_region = context.computing.region(layer, target, inputs)
        out.write(target, computed_region)
        context.spoil_scratch(layer.name, self._group)
        _require_intact(reads, out)

    def _whole(self, name: str, reader: str | None) -> WholeInTiles:
        """Return a tensor in the buffer in which a layer reads it; by default in the first."""
        held = self._tensors[name]
        if not held.read_in(reader).has_all_rows:
            raise ExecutionError(f"tiles need tensor {name!r} whole")
        return WholeInTiles(self._context.arena, held, reader)

    def _tile(self, layer: Layer, down: int, across: int) -> Rectangle:
        return self._placed(layer, Kind.TILE, self._regions.held(layer.name, down, across))

    def _placed(self, layer: Layer, kind: Kind, region: Region) -> Rectangle:
        buffer = self._buffer_of(layer.name, kind)
        elements = region.pixels * layer.shape.channels
        needed = elements * self._context.arena.element_bytes(layer.name)
        if needed > buffer.size:
            raise ExecutionError(
                f"buffer {buffer.name!r} of {buffer.size} bytes is asked for {needed} bytes"
            )
        return Rectangle(self._context.arena, layer, region, buffer.offset)

    def _rows_below(self, layer: Layer, down: int) -> Rectangle | None:
        region = self._regions.rows_below(layer.name, down)
        return None if region is None else self._placed(layer, Kind.TILE_ROWS, region)

    def _columns_beside(self, layer: Layer, down: int, across: int) -> Rectangle | None:
        region = self._regions.columns_beside(layer.name, down, across)
        return None if region is None else self._placed(layer, Kind.TILE_COLUMNS, region)

    def _restore_halo(self, tile: Rectangle, down: int, across: int) -> None:
        """Copy the cached halo of earlier tiles into a tile."""
        if not self._regions.tiles.halo_cached:
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

    def _cache_halo(self, tile: Rectangle, down: int, across: int) -> None:
        """Cache the halo of a tile that later tiles need."""
        if not self._regions.tiles.halo_cached:
            return
        below = self._rows_below(tile.layer, down)
        if below is not None:
            columns = self._regions.kept_columns(tile.layer.name, across)
            region = Region(below.region.rows, columns)
            _copy(tile, below, region)
        beside = self._columns_beside(tile.layer, down, across)
        if beside is not None:
            _copy(tile, beside, beside.region)
