"""Computations of the machine, in real numbers or integers, by the operators of cnn2csdf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.whole import Step, computation
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows
from cnn2csdf.weights import Array, Model
from planners.tiling.computing import TensorPiece, compute_region
from planners.tiling.regions import ROWS, Need, Needs, Region


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
        found: Array = self._frame[name][row]
        return found

    def region(self, layer: Layer, target: Region, inputs: Sequence[tuple[Region, Array]]) -> Array:
        """Return a region of a layer's output, (rows, columns, channels)."""
        network = self._model.network
        are_whole_rows = all(
            region.columns == (0, network.layer(source).shape.width)
            for source, (region, _) in zip(layer.inputs, inputs, strict=True)
        )
        if target.columns == (0, layer.shape.width) and are_whole_rows:
            readers = [
                _Rows(network.layer(source).shape, region, array)
                for source, (region, array) in zip(layer.inputs, inputs, strict=True)
            ]
            found = computation(self._model, layer).rows(readers, *target.rows)
            return _placed(found)
        if layer.quantization is not None:
            return self._integers(layer, target, inputs)
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
        compute_region(self._model, self._needs, layer, pieces, TensorPiece(target, out), None)
        return out.transpose(1, 2, 0)

    def _integers(
        self, layer: Layer, target: Region, inputs: Sequence[tuple[Region, Array]]
    ) -> Array:
        """Some columns of integers: of whole rows, in which what was not read is nought."""
        readers = []
        for source, (region, array) in zip(layer.inputs, inputs, strict=True):
            shape = self._model.network.layer(source).shape
            rows = np.zeros((array.shape[0], shape.width, array.shape[2]), array.dtype)
            rows[:, slice(*region.columns)] = array
            readers.append(_Rows(shape, region, rows))
        found = _placed(computation(self._model, layer).rows(readers, *target.rows))
        return found[:, slice(*target.columns)]

    def _finished_integers(self, layer: Layer) -> Array:
        shape = self._model.network.input_shapes(layer)[0]
        rows = np.stack(self._rows.pop(layer.name))
        unread = np.zeros((shape.rows - len(rows), *rows.shape[1:]), rows.dtype)
        array = np.concatenate([rows, unread])
        region = Region((0, shape.rows), (0, shape.width))
        reader = _Rows(shape, region, array)
        return _placed(computation(self._model, layer).rows([reader], 0, layer.shape.rows))

    def _piece(self, need: Need, target: Region, region: Region, array: Array) -> TensorPiece:
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
        match layer.operator:
            case op.FullyConnected():
                weights = computation(self._model, layer).own.weights
                matrix = weights["matrix"].reshape(-1, *source.dims)
                sums += np.einsum("ucw,wc->u", matrix[:, :, row], values)
            case op.GlobalPooling(function="max") | op.Reduction(function="max"):
                _keep_largest(sums, values, row)
            case op.Pooling(function="max", window=window):
                _keep_largest(sums, values[: window.extent[1] : window.dilation[1]], row)
            case op.Pooling(window=window):
                sums += values[: window.extent[1]].sum(axis=0)
            case _:
                sums += values.sum(axis=0)

    def finished(self, layer: Layer, sums: Array) -> Array:
        """Return the output that sums stand for."""
        if layer.quantization is not None:
            return self._finished_integers(layer)
        source = self._model.network.input_shapes(layer)[0]
        own = computation(self._model, layer).own
        found = sums.reshape(layer.shape.dims)
        match layer.operator:
            case op.FullyConnected(has_bias=has_bias):
                found = found + own.weights["bias"] if has_bias else found
            case op.GlobalPooling(function="average") | op.Reduction(function="mean"):
                found = found / np.float32(source.height * source.width)
            case op.Pooling(function="average", window=window):
                found = found / np.float32(window.kernel[0] * window.kernel[1])
        rest = replace(computation(self._model, layer), own=Step(op.Identity(), {}))
        whole = HeldRows(shape=layer.shape, array=found.astype(np.float32))
        return _placed(rest.rows([whole], 0, layer.shape.rows))


def _keep_largest(sums: Array, values: Array, row: int) -> None:
    best = values.max(axis=0)
    sums[:] = best if row == 0 else np.maximum(sums, best)


class _Rows:
    """Rows of a tensor that were read out of the arena."""

    def __init__(self, shape: Shape, region: Region, array: Array) -> None:
        self.shape = shape
        self._first = region.rows[0]
        self._array = array

    def rows(self, first: int, upto: int) -> Array:
        """Return rows, as the operators take them."""
        found = self._array[first - self._first : upto - self._first]
        if self.shape.is_map:
            return np.ascontiguousarray(found.transpose(2, 0, 1))
        return found.reshape(self.shape.dims)


def _placed(found: Array) -> Array:
    """Rows of the operators as rows of the arena: (rows, columns, channels)."""
    return found.transpose(1, 2, 0) if found.ndim == 3 else found.reshape(1, 1, -1)
