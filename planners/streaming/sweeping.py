"""A firing of a stage of several layers, column by column of whoever lacks them.

Where the stage works in parts, the layers before its summing layer hold some channels at a time:
each part goes along all columns and adds to the sums of the summing layer, and the last part ends
the sums and goes on to the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.streaming.computations import Computing
from planners.streaming.held import HeldStrip, HeldTensor, MarkedArena
from planners.streaming.plan import ACCUMULATOR_BYTES
from planners.streaming.running_stage import RunningStage, rows_of_input
from planners.tiling.regions import COLUMNS, Needs, Range, Region

SUMS_OF_PARTS = -(2**40)  # what bytes hold that are the first sum of a stage, one less for the next


class Surroundings(Protocol):
    """The surroundings of a firing."""

    network: Network
    arena: MarkedArena
    needs: Needs
    computing: Computing | None


class _Sums(NamedTuple):
    """The sums of a layer in the rows of a firing: where they lie, and channels of its input."""

    layer: Layer
    offset: int
    rows: Range

    def place(self, row: int, column: int) -> slice:
        """The bytes of the sums of one place."""
        size = self.layer.shape.channels * ACCUMULATOR_BYTES
        at = ((row - self.rows[0]) * self.layer.shape.width + column) * size
        return slice(self.offset + at, self.offset + at + size)

    def mark(self, row: int, column: int) -> int:
        """The number that the bytes of one place hold."""
        return SUMS_OF_PARTS - row * self.layer.shape.width - column


class Sweep:
    """A firing of a stage of several layers."""

    def __init__(
        self,
        around: Surroundings,
        tensors: Mapping[str, HeldTensor],
        stage: RunningStage,
        room: Range,
    ) -> None:
        """Take the tensors of the group, and the bytes in which strips and sums may lie."""
        self._around = around
        self._tensors = tensors
        self._stage = stage
        self._ranges = stage.ranges[stage.fired]
        self._parts = stage.planned.stage.parts
        self._inside = {layer.name: layer for layer in stage.layers}
        names = list(self._inside)
        summing = stage.planned.stage.summing
        self._sliced = set(names[: names.index(summing)]) if summing else set()
        for layer in stage.layers[len(self._sliced) + 1 :]:
            for source in self._sliced.intersection(layer.inputs):
                raise ExecutionError(
                    f"{layer.name!r} reads {source!r}, of which one part of the channels is there"
                )
        self._held = {name: self._share(name, 0)[1] for name in self._sliced}
        self._strips, end = self._placed_strips(room[0])
        self._sums: _Sums | None = None
        self._collected: dict[tuple[int, int], Array] = {}
        if summing:
            offset = -(-end // ACCUMULATOR_BYTES) * ACCUMULATOR_BYTES
            layer = self._inside[summing]
            self._sums = _Sums(layer, offset, self._ranges[summing])
            rows = self._sums.rows[1] - self._sums.rows[0]
            end = self._sums.place(self._sums.rows[0] + rows, 0).start
        if end > room[1]:
            raise ExecutionError(f"the strips of {stage.result!r} leave the pool")

    def _placed_strips(self, base: int) -> tuple[dict[str, HeldStrip], int]:
        strips: dict[str, HeldStrip] = {}
        for name, rows, columns in self._stage.planned.strips:
            layer = self._inside[name]
            channels = self._held.get(name, layer.shape.channels)
            strips[name] = HeldStrip(layer, self._ranges[name], rows, columns, base, channels)
            base += rows * columns * channels * self._around.arena.element_bytes(name)
        return strips, base

    def _share(self, name: str, part: int) -> Range:
        """The channels of a tensor that are there in a part."""
        channels = self._inside[name].shape.channels
        if name not in self._sliced:
            return 0, channels
        size = -(-channels // self._parts)
        return min(part * size, channels), min((part + 1) * size, channels)

    def run(self) -> None:
        """Make the rows of the firing."""
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
        """The tensor inside the stage whose columns a layer lacks for its next one."""
        for index, source in enumerate(layer.inputs):
            if source not in self._inside:
                continue
            if made[source] < self._columns(layer, index, made[layer.name])[1]:
                return source
        return None

    def _columns(self, layer: Layer, index: int, column: int) -> Range:
        need = self._around.needs.of(layer, COLUMNS)[index]
        return need.clipped((column, column + 1))

    def _column(self, layer: Layer, column: int, part: int) -> None:
        rows = self._ranges[layer.name]
        if rows[0] >= rows[1]:
            return
        inputs = []
        for index, source in enumerate(layer.inputs):
            columns = self._columns(layer, index, column)
            span = rows_of_input(self._around.network, layer, index, rows)
            inputs.append((Region(span, columns), self._cells(source, span, columns, part)))
        if self._sums is not None and layer is self._sums.layer:
            self._add(column, part)
            if part + 1 < self._parts:
                return
            inputs = [(region, self._whole_cells(region, cells)) for region, cells in inputs]
        found = None
        if self._around.computing is not None:
            target = Region(rows, (column, column + 1))
            found = self._around.computing.region(layer, target, inputs)
        for row in range(*rows):
            values = None if found is None else found[row - rows[0], 0]
            self._put_cell(layer, row, column, values, part)

    def _add(self, column: int, part: int) -> None:
        """Mark the sums of a column as those of this stage; later parts must find them."""
        assert self._sums is not None
        held = self._around.arena.held
        for row in range(*self._sums.rows):
            place, mark = self._sums.place(row, column), self._sums.mark(row, column)
            if part and not np.all(held[place] == mark):
                raise ExecutionError(f"the sums of {self._sums.layer.name!r} are overwritten")
            held[place] = mark

    def _whole_cells(self, region: Region, like: Array) -> Array:
        """Return the sums of the summing layer, all channels; they do not depend on their order.

        like: the cells of the last part, which have the same shape and type.
        """
        found = np.zeros_like(like)
        (top, _), (left, _) = region
        for row in range(*region.rows):
            for column in range(*region.columns):
                found[row - top, column - left] = self._collected[row, column]
        return found

    def _cells(self, source: str, rows: Range, columns: Range, part: int) -> Array:
        """The cells of a tensor, all channels; those that are not there in this part are nought."""
        layer = self._around.network.layer(source)
        shape, kind = layer.shape, layer.array_type
        first, end = self._share(source, part) if source in self._inside else (0, shape.channels)
        found = np.zeros((rows[1] - rows[0], columns[1] - columns[0], shape.channels), kind)
        for row in range(*rows):
            for column in range(*columns):
                values = self._around.arena.read(
                    self._cell(source, row, column),
                    source,
                    (row * shape.width + column) * shape.channels + first,
                    end - first,
                )
                found[row - rows[0], column - columns[0], first:end] = values
                if self._sums is not None and source == self._sums.layer.inputs[0]:
                    kept = self._collected.setdefault((row, column), np.zeros(shape.channels, kind))
                    kept[first:end] = values
        return found

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
