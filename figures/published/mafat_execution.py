"""A fusion plan as Darknet runs it: matrices of windows in the scratch of the arena, nothing else.

For measurements of time and of the memory of a process; planners.plan.executor, whose bytes know
what they hold, runs plans for everybody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import OperatorStep, checked_frame, computation
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.geometry import Axis, Region, aligned_slices
from cnn2csdf.granularity import ROWS
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows, along_channels
from cnn2csdf.weights import Array, Model
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import ExecutionError
from planners.fusion.groups import scratch_elements
from planners.fusion.planning import FusionPlan
from planners.plan.computing import bordered_layer, compute_rows, cut_out
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.regions import Needs, TileRanges, can_be_tiled
from planners.published.samos import network_memory

SINGLE = np.dtype(np.float32)
LOOK = 1 << 16  # bytes compared at once; a multiple of the pattern
UNTOUCHED = np.array([0x7FC0DEAD], "<u4").view(np.uint8)  # a NaN that no operator writes

Element = np.dtype[Any]
Place = tuple[int, int]  # of a tile: down, across


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedRun:
    """The outputs of a run. arena_bytes: of the arena; touched: up to the last byte written."""

    output: Array
    arena_bytes: int
    touched: int


class TensorPiece(NamedTuple):
    """The available region of a tensor, as an array (channels, rows, columns)."""

    region: Region
    array: Array

    def cut(self, region: Region) -> Array:
        """Return a view of a region. Raises ExecutionError if it is not within the available one."""
        return cut_out(self.region, self.array, region)


class Arena:
    """A block of memory with a buffer at each planned offset."""

    def __init__(self, plan: StreamingPlan) -> None:
        self._offsets = {buffer.name: buffer.offset for buffer in plan.buffers}
        self._sizes = {buffer.name: buffer.size for buffer in plan.buffers}
        self._cells = np.resize(UNTOUCHED, plan.arena_bytes)

    def view(self, name: str, dims: tuple[int, ...], element: Element) -> Array:
        """Return a tensor at the start of a buffer. Raises ExecutionError where it does not fit."""
        if name not in self._offsets:
            raise ExecutionError(f"no buffer {name!r} was planned")
        size = prod(dims) * element.itemsize
        if size > self._sizes[name]:
            raise ExecutionError(
                f"buffer {name!r} of {self._sizes[name]} bytes is asked for {size} bytes"
            )
        first = self._offsets[name]
        return self._cells[first : first + size].view(element).reshape(dims)

    @property
    def touched(self) -> int:
        """Bytes up to the last one that was written."""
        for begin in reversed(range(0, len(self._cells), LOOK)):
            cells = self._cells[begin : begin + LOOK]
            written = np.flatnonzero(cells != np.resize(UNTOUCHED, len(cells)))
            if len(written):
                return begin + int(written[-1]) + 1
        return 0

    @property
    def size(self) -> int:
        """Bytes."""
        return self._cells.nbytes


def run_fused(model: Model, plan: FusionPlan, frame: Mapping[str, Array]) -> FusedRun:
    """Return the output of a frame, computed as the plan says.

    model: with the network of the plan and its weights. Raises ExecutionError for an access outside
    of a buffer, and where the plan is for elements of other bytes than those that are computed.
    """
    run = _Run(model, plan)
    given = checked_frame(plan.chain.network, frame)
    run.tensor(plan.chain.at(0))[...] = given[plan.chain.at(0)]
    network = plan.chain.network
    for group in plan.groups:
        stage = group.stages[0]
        if stage.tiles is not None:
            run.work_tiles(TileRanges(network, stage))
        elif group.stages[1:] or stage.rows < network.layer(stage.result).shape.rows:
            raise ExecutionError("Darknet streams no rows")
        else:
            run.work_whole(network.layer(stage.result))
    return FusedRun(
        output=run.tensor(plan.chain.layers[-1]).copy(),
        arena_bytes=run.arena.size,
        touched=run.arena.touched,
    )


def run_rows(model: Model, frame: Mapping[str, Array]) -> FusedRun:
    """Return the output of all layers streamed row by row, each buffer apart; frame and output too."""
    memory = network_memory(model.network, ROWS, element_bytes=SINGLE.itemsize)
    firings = self_timed_execution(memory.graph, iterations=1).firings
    outputs = run_row_by_row(model, memory.graph, firings, [frame]).outputs[0]
    (output,) = outputs.values()
    ends = output.size + sum(array.size for array in frame.values())
    size = memory.buffers + ends * SINGLE.itemsize
    return FusedRun(output=output, arena_bytes=size, touched=size)


def _elements(plan: FusionPlan) -> Mapping[str, Element]:
    """The type that each tensor is run in; single precision holds 8-bit integers as well."""
    wanted, layers = plan.terms.element_bytes, plan.chain.network.layers
    if wanted == SINGLE.itemsize:
        return {layer.name: SINGLE for layer in layers}
    found = {layer.name: np.dtype(layer.array_type) for layer in layers}
    for layer in layers:
        planned, own = wanted or layer.element_bytes, found[layer.name]
        if own.itemsize != planned:
            raise ExecutionError(
                f"a plan for elements of {planned} bytes; {layer.name!r} is run in {own.name}"
            )
    return found


class _Run:
    """The arena and what works in it."""

    def __init__(self, model: Model, plan: FusionPlan) -> None:
        self._model, self._plan = model, plan
        self._network = plan.chain.network
        self.arena = Arena(plan.plan)
        self._elements = _elements(plan)
        self._needs = Needs(self._network)

    def tensor(self, name: str) -> Array:
        """The whole tensor that a layer writes."""
        return self.arena.view(name, self._network.layer(name).shape.dims, self._elements[name])

    def work_whole(self, layer: Layer) -> None:
        """Compute a layer whole."""
        shapes = self._network.input_shapes(layer)
        out = self.tensor(layer.name)
        if can_be_tiled(self._network, layer):
            pieces = {source: self._whole_piece(source) for source in layer.inputs}
            self._compute(layer, pieces, self._whole_piece(layer.name))
            return
        readers = [
            HeldRows(shape=shape, array=self.tensor(source))
            for shape, source in zip(shapes, layer.inputs, strict=True)
        ]
        by_rows = layer.shape.is_map and all(
            layer.operator.rows_needed(index, shapes, layer.shape) is not None
            for index in range(len(shapes))
        )
        computed = computation(self._model, layer)
        if by_rows:
            compute_rows(computed, readers, out)
        else:
            out[...] = computed.rows(readers, 0, layer.shape.rows)

    def _whole_piece(self, name: str) -> TensorPiece:
        shape = self._network.layer(name).shape
        return TensorPiece(Region((0, shape.height), (0, shape.width)), self.tensor(name))

    def _compute(
        self, layer: Layer, pieces: Mapping[str, TensorPiece], target: TensorPiece
    ) -> None:
        elements = scratch_elements(
            self._plan.terms.scratch, self._network, layer, target.region.pixels
        )
        element = self._elements[layer.inputs[0]]
        scratch = (
            self.arena.view(f"{layer.name} {Kind.SCRATCH.value}", (elements,), element)
            if elements
            else None
        )
        sources = [pieces[name] for name in layer.inputs]
        small, inputs = bordered_layer(self._needs, layer, target.region, sources)
        computed = computation(self._model, small)
        if scratch is not None and computed.first_step.types is None:
            assert isinstance(small.operator, op.Convolution)
            (cells,) = (one.array for one in inputs)
            _multiply(self._model, small, small.operator, cells, target.array, scratch)
        else:
            compute_rows(computed, inputs, target.array)

    def work_tiles(self, group: TileRanges) -> None:
        """Work tile by tile; each writes its piece of the result where it belongs."""
        (source,) = set(group.rows) - {layer.name for layer in group.layers}
        places = product(range(len(group.tiles.row_ends)), range(len(group.tiles.column_ends)))
        for place in places:
            pieces = {source: self._whole_piece(source)}
            for layer in group.layers:
                if layer is group.layers[-1]:
                    region = group.held(layer.name, *place)
                    whole = self._whole_piece(layer.name)
                    self._compute(layer, pieces, TensorPiece(region, whole.cut(region)))
                    continue
                pieces[layer.name] = self._tile(group, layer, place)
                self._work_tile(group, layer, place, pieces)

    def _tile(self, group: TileRanges, layer: Layer, place: Place) -> TensorPiece:
        region = group.held(layer.name, *place)
        dims = layer.shape.channels, region.height, region.width
        element = self._elements[layer.name]
        return TensorPiece(
            region, self.arena.view(f"{layer.name} {Kind.TILE.value}", dims, element)
        )

    def _work_tile(
        self, group: TileRanges, layer: Layer, place: Place, pieces: Mapping[str, TensorPiece]
    ) -> None:
        """Compute what the tile holds of a tensor, but for what others before it have kept."""
        tile, region = pieces[layer.name], group.computed(layer.name, *place)
        if group.tiles.halo_cached:
            self._keeper(group, layer).restore(place, tile)
        if region.pixels:
            self._compute(layer, pieces, TensorPiece(region, tile.cut(region)))
        if group.tiles.halo_cached:
            self._keeper(group, layer).keep(place, tile)

    def _keeper(self, group: TileRanges, layer: Layer) -> _Keeper:
        return _Keeper(self.arena, group, layer, self._elements[layer.name])


class _Keeper:
    """The kept part of a tensor: rows for the tiles below, columns for the next tile."""

    def __init__(self, arena: Arena, group: TileRanges, layer: Layer, element: Element) -> None:
        self._arena, self._layer, self._element = arena, layer, element
        self._rows, self._columns = group.rows[layer.name], group.columns[layer.name]

    def restore(self, place: Place, tile: TensorPiece) -> None:
        """Put into the tile what tiles before it have computed."""
        down, across = place
        (top, bottom), (left, right) = tile.region
        known = left
        if across and (edge := self._edge(down, across - 1)) is not None:
            known = edge.region.columns[1]
            region = Region((top, bottom), (left, known))
            tile.cut(region)[...] = edge.cut(region)
        if down and (lines := self._lines(down - 1)) is not None:
            region = Region(lines.region.rows, (known, right))
            tile.cut(region)[...] = lines.cut(region)

    def keep(self, place: Place, tile: TensorPiece) -> None:
        """Keep what tiles after this one need."""
        down, across = place
        begin = max(tile.region.columns[0], self._columns[across - 1][1] if across else 0)
        if (lines := self._lines(down)) is not None:
            region = Region(lines.region.rows, (begin, tile.region.columns[1]))
            lines.cut(region)[...] = tile.cut(region)
        if (edge := self._edge(down, across)) is not None:
            edge.array[...] = tile.cut(edge.region)

    def _lines(self, down: int) -> TensorPiece | None:
        """Rows that tiles share with those below them, of the whole width."""
        if down + 1 == len(self._rows):
            return None
        rows = (self._rows[down + 1][0], self._rows[down][1])
        columns = (self._columns[0][0], self._columns[-1][1])
        return self._kept(f"{self._layer.name} {Kind.TILE_ROWS.value}", Region(rows, columns))

    def _edge(self, down: int, across: int) -> TensorPiece | None:
        """Columns that a tile shares with the next one."""
        if across + 1 == len(self._columns):
            return None
        columns = (self._columns[across + 1][0], self._columns[across][1])
        return self._kept(
            f"{self._layer.name} {Kind.TILE_COLUMNS.value}", Region(self._rows[down], columns)
        )

    def _kept(self, name: str, region: Region) -> TensorPiece | None:
        if min(region.height, region.width) <= 0:
            return None
        dims = self._layer.shape.channels, region.height, region.width
        return TensorPiece(region, self._arena.view(name, dims, self._element))


def _multiply(
    model: Model,
    layer: Layer,
    operator: op.Convolution,
    cells: Array,
    out: Array,
    scratch: Array,
) -> None:
    """Write a convolution as products of its kernel and a matrix of what its windows see."""
    filters, rows, columns = out.shape
    channels = len(cells) // operator.groups
    each = filters // operator.groups
    computed = computation(model, layer)
    kernel = computed.first_step.weights["kernel"].reshape(operator.groups, each, -1)
    seen = scratch[: kernel.shape[2] * rows * columns]
    for group in range(operator.groups):
        _fill(
            seen.reshape(channels, *operator.window.kernel, rows, columns),
            cells[group * channels : (group + 1) * channels],
            operator.window,
        )
        part = out[group * each : (group + 1) * each]
        if part.flags.c_contiguous:
            np.matmul(
                kernel[group],
                seen.reshape(-1, rows * columns),
                out=part.reshape(each, rows * columns),
            )
            continue
        by_rows = seen.reshape(-1, rows, columns)
        for row in range(rows):
            np.matmul(kernel[group], by_rows[:, row], out=part[:, row])
    if operator.has_bias:
        out += along_channels(computed.first_step.weights["bias"], 3)
    if computed.epilogue:
        rest = replace(computed, first_step=OperatorStep(op.Identity(), {}))
        compute_rows(rest, [HeldRows(shape=Shape(dims=out.shape), array=out)], out)


def _fill(seen: Array, cells: Array, window: op.Window) -> None:
    """Write into (channels, kernel rows, kernel columns, rows, columns) what windows see."""
    if any(window.padding) or not _lie_inside(window, seen, cells):
        seen.fill(0.0)
    for down in range(window.kernel[0]):
        rows = _meeting(window.rows, down, seen.shape[3], cells.shape[1])
        for across in range(window.kernel[1]):
            columns = _meeting(window.columns, across, seen.shape[4], cells.shape[2])
            seen[:, down, across, rows[0], columns[0]] = cells[:, rows[1], columns[1]]


def _lie_inside(window: op.Window, seen: Array, cells: Array) -> bool:
    """Whether no window without padding reaches beyond the cells, as one that overhangs does."""
    return all(
        axis.covered((0, seen.shape[number + 3]))[1] <= cells.shape[number + 1]
        for number, axis in enumerate((window.rows, window.columns))
    )


def _meeting(axis: Axis, tap: int, places: int, limit: int) -> tuple[slice, slice]:
    """Output places at which one tap of the kernel meets a cell, and those cells."""
    return aligned_slices(tap * axis.dilation - axis.before, axis.stride, places, limit)
