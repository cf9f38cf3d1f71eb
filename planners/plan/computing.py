"""Computation of regions of layers for the executor of plans, in floating point or integers.

A region of a layer is the whole output of a smaller layer: the same operator over the needed region of
its input, with padding only at the borders of the map. So the operators of cnn2csdf compute it.
Example: rows [0, 3) of a 3x3 convolution with padding 1 are a convolution over rows [0, 4) of the
input, with padding 1 above and none below. Arrays of the arena are (rows, columns, channels); maps of
the operators are (channels, rows, columns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import Computation, OperatorStep, computation, first_states
from cnn2csdf.geometry import Axis, Range, Region
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows, RowReader
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from planners.plan.regions import COLUMNS, ROWS, AxisNeed, Needs


class ModelComputing:
    """Computes the layers of a model with weights on one frame.

    frame: an array for each input of the model, by name.
    """

    def __init__(self, model: Model, frame: Mapping[str, Array]) -> None:
        self._model = model
        self._needs = Needs(model.network)
        self._integer_rows: dict[str, list[Array]] = {}  # rows of integer reductions, by layer
        self._frame = {
            layer.name: _channels_last(np.asarray(frame[layer.name], layer.array_type))
            for layer in model.network.inputs
        }

    def frame_row(self, name: str, row: int) -> Array:
        """Return a row of an input, (columns, channels)."""
        row_values: Array = self._frame[name][row]
        return row_values

    def first_states(self) -> dict[str, dict[str, Array]]:
        """Return the initial states of all layers, by layer and role."""
        return first_states(self._model)

    def region(
        self,
        layer: Layer,
        target: Region,
        inputs: Sequence[tuple[Region, Array]],
        kept: dict[str, Array] | None = None,
    ) -> Array:
        """Return a region of a layer's output, (rows, columns, channels).

        inputs: the regions that were read, with their elements. kept: the state of the layer, which
        is updated.
        """
        operator, shapes = layer.operator, self._model.network.input_shapes(layer)
        has_whole_rows = target.width == layer.shape.width and all(
            region.width == shape.width for shape, (region, _) in zip(shapes, inputs, strict=True)
        )
        is_by_rows = layer.quantization is not None or operator.attention or operator.sliced_range
        if has_whole_rows or is_by_rows:
            return self._rows(layer, target.rows, inputs, kept)[:, slice(*target.columns)]
        pieces = [
            _some_rows(need, target.rows, region, array)
            for need, (region, array) in zip(self._needs.of(layer, ROWS), inputs, strict=True)
        ]
        small, readers = bordered_layer(self._needs, layer, target, pieces)
        out = np.empty(small.shape.dims, layer.array_type)
        compute_rows(computation(self._model, small), readers, out)
        return _channels_last(out)

    def _rows(
        self,
        layer: Layer,
        rows: Range,
        inputs: Sequence[tuple[Region, Array]],
        kept: dict[str, Array] | None = None,
    ) -> Array:
        """Return whole rows of a layer's output, (rows, columns, channels).

        Elements that need columns that were not read are undefined. inputs, kept: as in `region`.
        """
        shapes = self._model.network.input_shapes(layer)
        readers = [
            _rows_of(shape, region, array)
            for shape, (region, array) in zip(shapes, inputs, strict=True)
        ]
        return _channels_last(computation(self._model, layer).rows(readers, *rows, kept))

    def add_row(self, layer: Layer, row: int, values: Array, sums: Array) -> None:
        """Add a row of the input to the accumulators `sums` of a layer that reduces rows.

        Integer rows are stored and reduced in `finished`, where requantisation has its only
        implementation: integer sums do not depend on the order of addition.
        """
        if layer.quantization is not None:
            self._integer_rows.setdefault(layer.name, []).append(values.copy())
            return
        source = self._model.network.input_shapes(layer)[0]
        operator, window = layer.operator, layer.operator.window_over(source)
        if operator.dense_units is not None:
            weights = computation(self._model, layer).first_step.weights
            matrix = weights["matrix"].reshape(-1, *source.dims)
            sums += np.einsum("ucw,wc->u", matrix[:, :, row], values)
            return
        if window is not None:
            values = values[: window.columns.extent : window.columns.dilation]
        if operator.reduction == "max":
            largest = values.max(axis=0)
            sums[:] = largest if row == 0 else np.maximum(sums, largest)
        else:
            sums += values.sum(axis=0)

    def finished(self, layer: Layer, sums: Array) -> Array:
        """Return the output of a layer, (rows, columns, channels), from its complete accumulators."""
        source = self._model.network.input_shapes(layer)[0]
        if layer.quantization is not None:
            added = np.stack(self._integer_rows.pop(layer.name))
            unread = np.zeros((source.rows - len(added), *added.shape[1:]), added.dtype)
            whole_input = Region((0, source.rows), (0, source.width))
            inputs = [(whole_input, np.concatenate([added, unread]))]
            return self._rows(layer, (0, layer.shape.rows), inputs)
        weights = computation(self._model, layer).first_step.weights
        result = sums.reshape(layer.shape.dims)
        if layer.operator.dense_units is not None and "bias" in weights:
            result = result + weights["bias"]
        if layer.operator.reduction == "mean":
            window = layer.operator.window_over(source)
            rows, columns = window.kernel if window else (source.height, source.width)
            result = result / np.float32(rows * columns)
        # The accumulators replace the first operator; the epilogue of the layer follows.
        epilogue = replace(
            computation(self._model, layer), first_step=OperatorStep(op.Identity(), {})
        )
        whole = HeldRows(shape=layer.shape, array=result.astype(np.float32))
        return _channels_last(epilogue.rows([whole], 0, layer.shape.rows))


def _rows_of(shape: Shape, region: Region, array: Array) -> HeldRows:
    """Return the rows of a tensor that were read from the arena, for the operators.

    Columns that were not read are 0.
    """
    if not shape.is_map:
        return HeldRows(shape=shape, array=array.reshape(shape.dims))
    maps = np.zeros((shape.channels, len(array), shape.width), array.dtype)
    maps[:, :, slice(*region.columns)] = array.transpose(2, 0, 1)
    return HeldRows(shape=shape, array=maps, begin=region.rows[0])


def _channels_last(array: Array) -> Array:
    """Transpose a map to (rows, columns, channels); reshape a vector to (1, 1, channels)."""
    return array.transpose(1, 2, 0) if array.ndim == 3 else array.reshape(1, 1, -1)


# Output elements that are computed together, so that temporary arrays stay small.
CHUNK = 1 << 16


def _some_rows(need: AxisNeed, target: Range, region: Region, array: Array) -> tuple[Region, Array]:
    """Return a region that was read, (channels, rows, columns), with one row at least.

    target: the rows of the output. A row of zeros if these rows need only padding.
    """
    if region.height > 0:
        return region, array.transpose(2, 0, 1)
    zeros = np.zeros((array.shape[2], 1, array.shape[1]), array.dtype)
    return Region(need.clipped(target), region.columns), zeros


def cut_out(available: Region, array: Array, wanted: Region) -> Array:
    """Return a view of a region of an array (channels, rows, columns) of the available region.

    Raises ExecutionError if the wanted region is not within the available region.
    """
    slices = [slice(None)]  # all channels
    for (first, end), (begin, upto) in zip(wanted, available, strict=True):
        if not begin <= first <= end <= upto:
            raise ExecutionError(f"region {wanted} is needed, only {available} is available")
        slices.append(slice(first - begin, end - begin))
    return array[tuple(slices)]


def bordered_layer(
    needs: Needs, layer: Layer, target: Region, pieces: Sequence[tuple[Region, Array]]
) -> tuple[Layer, list[HeldRows]]:
    """Return a layer whose whole output is the target region of the given layer, and its inputs.

    pieces: the available region of each input, as an array (channels, rows, columns).
    """
    rows, columns = target
    needs_of_rows, needs_of_columns = needs.of(layer, ROWS), needs.of(layer, COLUMNS)
    inputs = []
    for down, across, piece in zip(needs_of_rows, needs_of_columns, pieces, strict=True):
        needed = cut_out(*piece, Region(down.clipped(rows), across.clipped(columns)))
        inputs.append(HeldRows(shape=Shape(dims=needed.shape), array=needed))
    top, bottom = needs_of_rows[0].padding(rows)
    left, right = needs_of_columns[0].padding(columns)
    operator, window = layer.operator, layer.operator.sliding_window
    if window is None:
        operator = operator.with_border((top, left, bottom, right))
    else:
        # An average pooling leaves positions past the padding out of its divisor.
        bottom = min(bottom, _unread_after(needs_of_rows[0], rows, window.rows))
        right = min(right, _unread_after(needs_of_columns[0], columns, window.columns))
        operator = operator.with_window(replace(window, padding=(top, left, bottom, right)))
    shape = Shape(dims=(layer.shape.channels, target.height, target.width))
    return replace(layer, operator=operator, shape=shape), inputs


def _unread_after(need: AxisNeed, wanted: Range, axis: Axis) -> int:
    """Return the positions of input and padding after the clipped range that a layer needs."""
    return need.limit + axis.after - need.clipped(wanted)[1]


def compute_rows(computed: Computation, inputs: Sequence[RowReader], out: Array) -> None:
    """Compute the whole output of a layer, (channels, rows, columns), in blocks of rows."""
    channels, rows, columns = out.shape
    count = max(1, CHUNK // (channels * columns))
    for first in range(0, rows, count):
        end = min(first + count, rows)
        out[:, first:end] = computed.rows(inputs, first, end)
