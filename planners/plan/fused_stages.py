"""Firings of fused stages: column by column, or tile by tile.

A column of the result is computed on demand: a layer whose input columns are missing waits until the
layer that produces them has computed them.

All firings run in the arena with shadow memory, in which each byte is marked with its tensor and
element. A stage may have an accumulating layer, a convolution. The layers before it are sliced: a
pass over all columns computes one channel block of these layers and adds its products to the
accumulators. The last pass completes the accumulators and continues to the result. For example, 2
blocks of 6 channels:

    pass 0: channels 0 to 2 of the sliced layers -> accumulators
    pass 1: channels 3 to 5 of the sliced layers -> accumulators -> result
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.plan.checked_geometry import CheckedFirings, InputNeeds, TiledStage
from planners.plan.held_tensors import (
    HeldStrip,
    HeldTensor,
    HeldTile,
    may_overlap,
    rows_read,
    write_region,
)
from planners.plan.plan import ACCUMULATOR_BYTES, Kind, Stage, StreamBuffer
from planners.plan.shadow_arena import Content, MarkedArena


class Computing(Protocol):
    """The values that fill the regions; the checker computes none."""

    def frame_row(self, name: str, row: int) -> Array:
        """Return a row of an input, (columns, channels)."""

    def first_states(self) -> dict[str, dict[str, Array]]:
        """Return the initial states of layers, by role."""

    def region(
        self,
        layer: Layer,
        target: Region,
        inputs: Sequence[tuple[Region, Array]],
        kept: dict[str, Array] | None = None,
    ) -> Array:
        """Return a region of a layer's output, (rows, columns, channels), from its input regions.

        kept: the state of a layer that retains one from frame to frame, updated in place.
        """

    def add_row(self, layer: Layer, row: int, values: Array, sums: Array) -> None:
        """Add a row of the input, (columns, channels), to the accumulators of a layer."""

    def finished(self, layer: Layer, sums: Array) -> Array:
        """Return the output from complete accumulators, (rows, columns, channels)."""


class FiringContext(Protocol):
    """The network, arena and computation that a firing uses."""

    network: Network
    arena: MarkedArena
    needs: InputNeeds
    computing: Computing | None

    def buffer(self, tensor: str, kind: Kind, group: int) -> StreamBuffer:
        """Return the buffer of a kind for a tensor in a group."""

    def spoil_scratch(self, layer: str, group: int) -> None:
        """Poison the scratch bytes that a layer may use while it computes."""


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
        begin: int,
        staging: StreamBuffer,
        group: int,
    ) -> None:
        """Place strips and accumulators in the staging buffer of the group, from byte `begin` on."""
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
        self._strips, end = self._placed_strips(begin)
        self._accumulating = None if accumulating is None else self._inside[accumulating]
        if self._accumulating is not None:
            # The input rows of the accumulating layer, (rows, columns, channels). A pass adds the
            # channels of its block: the executor computes all sums at once in the last pass, since
            # their values do not depend on the order.
            collected = context.network.layer(self._accumulating.inputs[0])
            self._first_collected, end_collected = self._ranges[collected.name]
            dims = (
                end_collected - self._first_collected,
                collected.shape.width,
                collected.shape.channels,
            )
            self._collected = np.zeros(dims, collected.array_type)
            self._sums_offset = -(-end // ACCUMULATOR_BYTES) * ACCUMULATOR_BYTES
            first, last = self._ranges[self._accumulating.name]
            pixels = (last - first) * self._accumulating.shape.width
            end = self._sums_offset + pixels * self._bytes_of_sums(self._accumulating)
        result = tensors[stage.result]
        self._may_overlap = result.staged is not None or result.may_overlap(begin, end)
        if (excess := end - staging.end_byte) > 0:
            raise ExecutionError(
                f"the strips of {stage.result!r} end {excess} bytes after the staging buffer"
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
            if self._accumulating is not None and block + 1 < self._blocks:
                goal = self._accumulating
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
            _, end = self._columns(layer, index, computed[layer.name])
            if computed[source] < end:
                return source
        return None

    def _columns(self, layer: Layer, index: int, column: int) -> Range:
        return self._context.needs.columns(layer, index, (column, column + 1))

    def _compute_column(self, layer: Layer, column: int, block: int) -> None:
        """Compute the rows of one column of a layer, as the generated C may order its accesses.

        1. Overwrite the scratch of the layer: scratch must not overlap an input.
        2. Read the inputs. The accumulating layer marks its accumulators, and ends here in all passes
           but the last, whose inputs are completed by the blocks of the earlier passes.
        3. Compute and write the column. The accumulators must be intact after the write.
        4. Overwrite the scratch again: a kernel uses it until it ends.
        5. Read the inputs again if the result may overlap strips or accumulators: a kernel may write
           its first element before it reads its last input. These reads are not counted.
        """
        first, end = rows = self._ranges[layer.name]
        if first >= end:
            return
        self._context.spoil_scratch(layer.name, self._group)
        inputs = self._inputs(layer, rows, column, block)
        if layer is self._accumulating:
            self._add(layer, column, block)
            if block + 1 < self._blocks:
                return
            inputs = [(region, self._all_channels(region)) for region, _ in inputs]
        computed_region = None
        if self._context.computing is not None:
            target = Region(rows, (column, column + 1))
            computed_region = self._context.computing.region(layer, target, inputs)
        for row in range(first, end):
            values = None if computed_region is None else computed_region[row - first, 0]
            self._write_pixel(layer, row, column, values, block)
        if layer is self._accumulating:
            self._require_sums(layer, column, "the result overlaps them")
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

    def _require_sums(self, layer: Layer, column: int, otherwise: str) -> None:
        """Require that the accumulators of a column are intact; they are requantised in sequence."""
        for sums in self._sums(layer, column):
            if not self._context.arena.holds(Content.BLOCK_SUMS, *sums):
                raise ExecutionError(f"the sums of {layer.name!r}: {otherwise}")

    def _add(self, layer: Layer, column: int, block: int) -> None:
        """Mark the accumulators of a column; later channel blocks check the marks."""
        if block:
            self._require_sums(layer, column, "they are overwritten")
        for sums in self._sums(layer, column):
            self._context.arena.fill(Content.BLOCK_SUMS, *sums)

    def _sums(self, layer: Layer, column: int) -> Iterator[tuple[str, Range, int]]:
        """Yield the accumulators of each pixel of a column as MarkedArena takes them.

        These are the layer, the bytes in the arena, and the first byte among those of the whole layer.
        """
        size, (first, end) = self._bytes_of_sums(layer), self._ranges[layer.name]
        for row in range(first, end):
            pixel = row * layer.shape.width + column
            begin = self._sums_offset + (pixel - first * layer.shape.width) * size
            yield layer.name, (begin, begin + size), pixel * size

    @staticmethod
    def _bytes_of_sums(layer: Layer) -> int:
        """The bytes of the accumulators of a pixel."""
        return layer.shape.channels * ACCUMULATOR_BYTES

    def _all_channels(self, region: Region) -> Array:
        """Return the collected input of the accumulating layer in a region, with all channels."""
        (top, bottom), (left, right) = region
        first = self._first_collected
        return self._collected[top - first : bottom - first, left:right].copy()

    def _read(self, source: str, rows: Range, columns: Range, block: int, reader: str) -> Array:
        """Return a region of a tensor as a layer reads it, (rows, columns, channels).

        It is 0 in the channels of other blocks. reader: the layer.
        """
        layer = self._context.network.layer(source)
        shape = layer.shape
        if source not in self._strips and columns == (0, shape.width):
            return rows_read(self._context.arena, self._tensors[source], rows, reader)
        first, end = self._channels(source, block)
        channels_each = end - first
        region = Region(rows, columns)
        region_values = np.zeros((region.height, region.width, shape.channels), layer.array_type)
        (top, bottom), (first_column, _) = rows, columns
        for row in range(top, bottom):
            for left, right in self._runs(source, columns, channels_each):
                values = self._context.arena.read(
                    self._offset(source, row, left, reader),
                    source,
                    (row * shape.width + left) * shape.channels + first,
                    (right - left) * channels_each,
                ).reshape(right - left, channels_each)
                run = slice(left - first_column, right - first_column)
                region_values[row - top, run, first:end] = values
                if self._accumulating is not None and source == self._accumulating.inputs[0]:
                    self._collected[row - self._first_collected, left:right, first:end] = values
        return region_values

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
            return self._strips[tensor].offset_of(row, column, unit)
        held = self._tensors[tensor]
        return held.row_offset(row, reader) + column * held.column_bytes

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
        group: int,
    ) -> None:
        self._context, self._tensors = context, tensors
        self._stage, self._group = stage, group
        self._regions = TiledStage(stage, context.needs)

    def run(self) -> None:
        """Execute all tiles."""
        tiles = self._regions.tiles
        for down in range(len(tiles.row_ends)):
            for across in range(len(tiles.column_ends)):
                self._run_tile(down, across)

    def _run_tile(self, down: int, across: int) -> None:
        held: dict[str, HeldTensor] = dict(self._tensors)
        for layer in self._regions.layers:
            region = self._regions.held(layer.name, down, across)
            if layer.name == self._stage.result:
                self._compute(layer, region, held)
                continue
            tile = self._placed(layer, Kind.TILE, region)
            held[layer.name] = tile
            self._restore_halo(tile, down, across)
            computed = self._regions.computed(layer.name, down, across)
            if computed.pixels:
                self._compute(layer, computed, held)
            self._cache_halo(tile, down, across)

    def _compute(self, layer: Layer, target: Region, held: Mapping[str, HeldTensor]) -> None:
        """Compute a region of a layer from its inputs, which must be intact after the write.

        held: the tiles, and the tensors outside the stage, by name.
        """
        context = self._context
        context.spoil_scratch(layer.name, self._group)
        regions = [
            # A tile is not empty: if all rows or columns are padding, it has the nearest.
            Region(
                context.needs.tile_rows(layer, index, target.rows),
                context.needs.columns(layer, index, target.columns),
            )
            for index in range(len(layer.inputs))
        ]
        sources = [held[name] for name in layer.inputs]
        pairs = list(zip(sources, regions, strict=True))
        inputs = [(region, self._read(source, region, layer.name)) for source, region in pairs]
        values = None
        if context.computing is not None:
            values = context.computing.region(layer, target, inputs)
        result = held[layer.name]
        _require_whole(result, None)
        write_region(context.arena, result, target, values, into_all=True)
        context.spoil_scratch(layer.name, self._group)
        for source, region in pairs:
            if may_overlap(result, source):
                self._read(source, region, layer.name)

    def _read(self, source: HeldTensor, region: Region, reader: str) -> Array:
        """Return a region of a tensor as a layer reads it, (rows, columns, channels)."""
        _require_whole(source, reader)
        return rows_read(self._context.arena, source, region.rows, reader, region.columns)

    def _copy(self, source: HeldTile, target: HeldTile, region: Region) -> None:
        """Copy a region between a tile and a cache; the source must be intact after the copy."""
        arena = self._context.arena
        values = rows_read(arena, source, region.rows, None, region.columns)
        write_region(arena, target, region, values)
        if may_overlap(target, source):
            rows_read(arena, source, region.rows, None, region.columns)

    def _placed(self, layer: Layer, kind: Kind, region: Region) -> HeldTile:
        unit = self._context.arena.element_bytes(layer.name)
        buffer = self._context.buffer(layer.name, kind, self._group)
        return HeldTile(layer, unit, buffer, region)

    def _restore_halo(self, tile: HeldTile, down: int, across: int) -> None:
        """Copy the cached halo of earlier tiles into a tile."""
        if not self._regions.tiles.halo_cached:
            return
        layer, (edge, right) = tile.layer, tile.region.columns
        beside = self._regions.columns_beside(layer.name, down, across - 1) if across else None
        if beside is not None:
            left, edge = beside.columns
            cached = self._placed(layer, Kind.TILE_COLUMNS, beside)
            self._copy(cached, tile, Region(tile.region.rows, (left, edge)))
        above = self._regions.rows_below(layer.name, down - 1) if down else None
        if above is not None:
            cached = self._placed(layer, Kind.TILE_ROWS, above)
            self._copy(cached, tile, Region(above.rows, (edge, right)))

    def _cache_halo(self, tile: HeldTile, down: int, across: int) -> None:
        """Cache the halo of a tile that later tiles need."""
        if not self._regions.tiles.halo_cached:
            return
        layer, below = tile.layer, self._regions.rows_below(tile.layer.name, down)
        if below is not None:
            columns = self._regions.computed(layer.name, down, across).columns
            cache = self._placed(layer, Kind.TILE_ROWS, below)
            self._copy(tile, cache, Region(below.rows, columns))
        beside = self._regions.columns_beside(layer.name, down, across)
        if beside is not None:
            self._copy(tile, self._placed(layer, Kind.TILE_COLUMNS, beside), beside)


def _require_whole(tensor: HeldTensor, reader: str | None) -> None:
    """Raise ExecutionError unless tiles can reach all of a tensor: a tile, or a whole buffer."""
    if not (isinstance(tensor, HeldTile) or tensor.read_in(reader).has_all_rows):
        raise ExecutionError(f"tiles need tensor {tensor.layer.name!r} whole")
