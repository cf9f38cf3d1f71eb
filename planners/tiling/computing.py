"""A region of the output of a layer, computed from regions of its inputs into a place given.

A region of a layer is all of a smaller layer: the same operator on what the region needs, padded
where it reaches over the border of the map. So the operators of cnn2csdf compute it. They make
arrays of their own for what they compute; here that is a few rows at a time, CHUNK elements or one
row. Only a convolution with a matrix of its windows works without: on scratch, straight into place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.whole import Computation, Step, computation
from cnn2csdf.geometry import Axis, meeting
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows, Reader, along_channels
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from planners.tiling.regions import COLUMNS, ROWS, Need, Needs, Range, Region

CHUNK = 1 << 16  # elements


class TensorPiece(NamedTuple):
    """A region of a tensor that is there: (channels, rows, columns)."""

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
    scratch: Array | None,
) -> None:
    """Compute what the target is to hold of the output of a layer that can be tiled.

    pieces: what is there of its inputs. scratch: elements for the windows of a convolution; integers
    are computed without.
    """
    rows, columns = target.region
    inputs, borders = [], []
    for down, across in zip(needs.of(layer, ROWS), needs.of(layer, COLUMNS), strict=True):
        region = Region(down.clipped(rows), across.clipped(columns))
        inputs.append(pieces[down.source].cut(region))
        borders.append(
            (_beyond(down.of(rows), region.rows), _beyond(across.of(columns), region[1]))
        )
    small = replace(
        layer,
        operator=_bordered(layer.operator, needs, layer, borders[0], target.region),
        shape=Shape(dims=target.array.shape),
    )
    is_real = computation(model, small).own.types is None
    if is_real and isinstance(small.operator, op.Convolution) and scratch is not None:
        _multiply(model, small, small.operator, inputs[0], target.array, scratch)
        return
    _compute_rows(computation(model, small), _readers(inputs), target.array)


def compute_whole(
    model: Model, layer: Layer, inputs: Sequence[HeldRows], out: Array, *, by_rows: bool
) -> None:
    """Compute the whole output of any layer; some rows at a time where it works by rows."""
    computed = computation(model, layer)
    if by_rows:
        _compute_rows(computed, inputs, out)
    else:
        out[...] = computed.rows(inputs, 0, layer.shape.rows)


def _readers(inputs: Sequence[Array]) -> list[HeldRows]:
    return [HeldRows(shape=Shape(dims=array.shape), array=array) for array in inputs]


def _compute_rows(computed: Computation, inputs: Sequence[Reader], out: Array) -> None:
    for begin, end in _chunks(out):
        out[:, begin:end] = computed.rows(inputs, begin, end)


def _chunks(array: Array) -> list[Range]:
    channels, rows, columns = array.shape
    count = max(1, CHUNK // (channels * columns))
    return [(first, min(first + count, rows)) for first in range(0, rows, count)]


def _beyond(wanted: Range, there: Range) -> Range:
    """Places asked for before what is there, and behind it; negative where more is there."""
    return there[0] - wanted[0], wanted[1] - there[1]


def _bordered(
    operator: op.Operator, needs: Needs, layer: Layer, border: tuple[Range, Range], region: Region
) -> op.Operator:
    """The operator with the padding that a region of its output sees."""
    (top, bottom), (left, right) = border
    match operator:
        case op.Pad():
            return replace(operator, padding=(top, left, bottom, right))
        case op.Convolution(window=window) | op.Pooling(window=window):
            bottom -= _overhanging(needs.of(layer, ROWS)[0], region.rows, window.padding[2])
            right -= _overhanging(needs.of(layer, COLUMNS)[0], region.columns, window.padding[3])
            return replace(operator, window=replace(window, padding=(top, left, bottom, right)))
    return operator


def _overhanging(need: Need, wanted: Range, padding: int) -> int:
    """Places beyond the padding that the windows cover: they do not count in a mean."""
    return max(0, need.of(wanted)[1] - need.limit - padding)


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
    kernel = computed.own.weights["kernel"].reshape(operator.groups, each, -1)
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
        out += along_channels(computed.own.weights["bias"], 3)
    if computed.epilogue:
        rest = replace(computed, own=Step(op.Identity(), {}))
        _compute_rows(rest, _readers([out]), out)


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
    return meeting(tap * axis.dilation - axis.before, axis.stride, places, limit)
