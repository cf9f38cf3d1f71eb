"""Computations of the executor, in real numbers or integers, by the operators of cnn2csdf.

A region of a layer is all of a smaller layer: the same operator on what the region needs, padded
where it reaches over the border of the map. So the operators of cnn2csdf compute it, some rows at a
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import Computation, OperatorStep, computation, first_states
from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows, RowReader
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from planners.plan.regions import COLUMNS, ROWS, AxisNeed, Needs


class ModelComputing:
    """The layers of a model on one frame."""

    def __init__(self, model: Model, frame: Mapping[str, Array]) -> None:
        """Take a model with weights, and an array for each of its inputs, by name."""
        self._model = model
        self._needs = Needs(model.network)
        self._rows: dict[str, list[Array]] = {}
        self._frame = {
            layer.name: _placed(np.asarray(frame[layer.name], layer.array_type))
            for layer in model.network.inputs
        }

    def frame_row(self, name: str, row: int) -> Array:
        """Return a row of an input, (columns, channels)."""
        row_values: Array = self._frame[name][row]
        return row_values

    def first_states(self) -> dict[str, dict[str, Array]]:
        """Return what layers keep, by role, before the first frame."""
        return first_states(self._model)

    def region(
        self,
        layer: Layer,
        target: Region,
        inputs: Sequence[tuple[Region, Array]],
        kept: dict[str, Array] | None = None,
    ) -> Array:
        """Return a region of a layer's output, (rows, columns, channels)."""
        network = self._model.network
        are_whole_rows = all(
            region.columns == (0, network.layer(source).shape.width)
            for source, (region, _) in zip(layer.inputs, inputs, strict=True)
        )
        if target.columns == (0, layer.shape.width) and are_whole_rows:
            readers = [
                _ReadRows(network.layer(source).shape, region, array)
                for source, (region, array) in zip(layer.inputs, inputs, strict=True)
            ]
            computed_rows = computation(self._model, layer).rows(readers, *target.rows, kept)
            return _placed(computed_rows)
        operator = layer.operator
        if layer.quantization is not None or operator.attention or operator.cut:
            return self._of_whole_rows(layer, target, inputs)
        out = np.empty(
            (
                layer.shape.channels,
                target.rows[1] - target.rows[0],
                target.columns[1] - target.columns[0],
            ),
            layer.array_type,
        )
        pieces = {
            need.source: self._piece(need, target, region, array)
            for need, (region, array) in zip(self._needs.of(layer, ROWS), inputs, strict=True)
        }
        compute_region(self._model, self._needs, layer, pieces, TensorPiece(target, out))
        return out.transpose(1, 2, 0)

    def _of_whole_rows(
        self, layer: Layer, target: Region, inputs: Sequence[tuple[Region, Array]]
    ) -> Array:
        """Some columns of whole rows, with 0 for elements that were not read."""
        readers = []
        for source, (region, array) in zip(layer.inputs, inputs, strict=True):
            shape = self._model.network.layer(source).shape
            rows = np.zeros((array.shape[0], shape.width, array.shape[2]), array.dtype)
            rows[:, slice(*region.columns)] = array
            readers.append(_ReadRows(shape, region, rows))
        computed_rows = _placed(computation(self._model, layer).rows(readers, *target.rows))
        return computed_rows[:, slice(*target.columns)]

    def _finished_integers(self, layer: Layer) -> Array:
        shape = self._model.network.input_shapes(layer)[0]
        rows = np.stack(self._rows.pop(layer.name))
        unread = np.zeros((shape.rows - len(rows), *rows.shape[1:]), rows.dtype)
        array = np.concatenate([rows, unread])
        region = Region((0, shape.rows), (0, shape.width))
        reader = _ReadRows(shape, region, array)
        return _placed(computation(self._model, layer).rows([reader], 0, layer.shape.rows))

    def _piece(self, need: AxisNeed, target: Region, region: Region, array: Array) -> TensorPiece:
        """Return what was read; where only padding is needed, an input row that nothing sees."""
        if region.rows[0] < region.rows[1]:
            return TensorPiece(region, array.transpose(2, 0, 1))
        unseen = np.zeros((array.shape[2], 1, array.shape[1]), array.dtype)
        return TensorPiece(Region(need.clipped(target.rows), region.columns), unseen)

    def add_row(self, layer: Layer, row: int, values: Array, sums: Array) -> None:
        """Add a row of the input to the sums of a layer.

        Sums of integers do not depend on their order, so of integers the rows are remembered and
        computed at the end, by the one function that knows how they are rounded.
        """
        if layer.quantization is not None:
            self._rows.setdefault(layer.name, []).append(values.copy())
            return
        source = self._model.network.input_shapes(layer)[0]
        operator, window = layer.operator, layer.operator.window_over(source)
        if operator.dense_units is not None:
            weights = computation(self._model, layer).first_step.weights
            matrix = weights["matrix"].reshape(-1, *source.dims)
            sums += np.einsum("ucw,wc->u", matrix[:, :, row], values)
            return
        if window is not None:
            values = values[: window.extent[1] : window.dilation[1]]
        if operator.reduction == "max":
            largest = values.max(axis=0)
            sums[:] = largest if row == 0 else np.maximum(sums, largest)
        else:
            sums += values.sum(axis=0)

    def finished(self, layer: Layer, sums: Array) -> Array:
        """Return the output that sums stand for."""
        if layer.quantization is not None:
            return self._finished_integers(layer)
        source = self._model.network.input_shapes(layer)[0]
        weighted = computation(self._model, layer).first_step
        means = sums.reshape(layer.shape.dims)
        if layer.operator.dense_units is not None and "bias" in weighted.weights:
            means = means + weighted.weights["bias"]
        if layer.operator.reduction == "mean":
            window = layer.operator.window_over(source)
            rows, columns = window.kernel if window else (source.height, source.width)
            means = means / np.float32(rows * columns)
        rest = replace(computation(self._model, layer), first_step=OperatorStep(op.Identity(), {}))
        whole = HeldRows(shape=layer.shape, array=means.astype(np.float32))
        return _placed(rest.rows([whole], 0, layer.shape.rows))


class _ReadRows:
    """Rows of a tensor that were read out of the arena."""

    def __init__(self, shape: Shape, region: Region, array: Array) -> None:
        self.shape = shape
        self._first = region.rows[0]
        self._array = array

    def rows(self, first: int, upto: int) -> Array:
        """Return rows, as the operators take them."""
        rows_held = self._array[first - self._first : upto - self._first]
        if self.shape.is_map:
            return np.ascontiguousarray(rows_held.transpose(2, 0, 1))
        return rows_held.reshape(self.shape.dims)


def _placed(found: Array) -> Array:
    """Rows of the operators as rows of the arena: (rows, columns, channels)."""
    return found.transpose(1, 2, 0) if found.ndim == 3 else found.reshape(1, 1, -1)


CHUNK = 1 << 16  # elements


class TensorPiece(NamedTuple):
    """The available region of a tensor, as an array (channels, rows, columns)."""

    region: Region
    array: Array

    def cut(self, region: Region) -> Array:
        """Return a view of a region inside. Raises ExecutionError outside."""
        for wanted, here in zip(region, self.region, strict=True):
            if not here[0] <= wanted[0] <= wanted[1] <= here[1]:
                raise ExecutionError(f"region {region} asked for, {self.region} is there")
        (top, bottom), (left, right) = region
        first, before = self.region.rows[0], self.region.columns[0]
        return self.array[:, top - first : bottom - first, left - before : right - before]


def compute_region(
    model: Model,
    needs: Needs,
    layer: Layer,
    pieces: Mapping[str, TensorPiece],
    target: TensorPiece,
) -> None:
    """Compute the region of the output of a tileable layer that the target holds.

    pieces: the available regions of its inputs, by tensor.
    """
    small, inputs = bordered_layer(needs, layer, pieces, target)
    compute_rows(computation(model, small), inputs, target.array)


def bordered_layer(
    needs: Needs, layer: Layer, pieces: Mapping[str, TensorPiece], target: TensorPiece
) -> tuple[Layer, list[HeldRows]]:
    """Return a layer whose whole output is the target region of the given layer, and its inputs."""
    rows, columns = target.region
    inputs, borders = [], []
    for down, across in zip(needs.of(layer, ROWS), needs.of(layer, COLUMNS), strict=True):
        region = Region(down.clipped(rows), across.clipped(columns))
        piece = pieces[down.source].cut(region)
        inputs.append(HeldRows(shape=Shape(dims=piece.shape), array=piece))
        borders.append(
            (_beyond(down.of(rows), region.rows), _beyond(across.of(columns), region[1]))
        )
    small = replace(
        layer,
        operator=_bordered(layer.operator, needs, layer, borders[0], target.region),
        shape=Shape(dims=target.array.shape),
    )
    return small, inputs


def compute_rows(computed: Computation, inputs: Sequence[RowReader], out: Array) -> None:
    """Compute the whole output of a layer that is executed row by row, some rows at a time."""
    channels, rows, columns = out.shape
    count = max(1, CHUNK // (channels * columns))
    for first in range(0, rows, count):
        end = min(first + count, rows)
        out[:, first:end] = computed.rows(inputs, first, end)


def _beyond(wanted: Range, there: Range) -> Range:
    """Positions wanted before and after the available range; negative where it extends further."""
    return there[0] - wanted[0], wanted[1] - there[1]


def _bordered(
    operator: op.Operator, needs: Needs, layer: Layer, border: tuple[Range, Range], region: Region
) -> op.Operator:
    """The operator with the padding that a region of its output sees."""
    (top, bottom), (left, right) = border
    window = operator.sliding_window
    if window is None:
        return operator.with_border((top, left, bottom, right))
    bottom -= _overhanging(needs.of(layer, ROWS)[0], region.rows, window.padding[2])
    right -= _overhanging(needs.of(layer, COLUMNS)[0], region.columns, window.padding[3])
    return operator.with_window(replace(window, padding=(top, left, bottom, right)))


def _overhanging(need: AxisNeed, wanted: Range, padding: int) -> int:
    """Positions past the padding that the windows cover, which an average pooling does not count."""
    return max(0, need.of(wanted)[1] - need.limit - padding)
