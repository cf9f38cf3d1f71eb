"""Convolutions, forwards and backwards, as products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.part import Part, along_channels
from cnn2csdf.execution.windows import unfolded, window_cells
from cnn2csdf.weights import Array

UNFOLDED_LIMIT = 1 << 22  # elements copied at once; more rows than fit are computed in two goes


def convolution(operator: op.Convolution, part: Part) -> Array:
    """Return the rows of the part of a convolution."""
    channels = part.inputs[0].shape.channels
    copied = channels * operator.window.kernel[0] * operator.window.kernel[1] * part.shape.width
    if part.rows > 1 and part.rows * copied > UNFOLDED_LIMIT:
        middle = (part.begin + part.end) // 2
        halves = (part._replace(end=middle), part._replace(begin=middle))
        return np.concatenate([convolution(operator, half) for half in halves], axis=1)
    cells = window_cells(operator.window, part, fill=0.0)
    sums = _depthwise if operator.groups == channels else _as_product
    return _with_bias(sums(operator, part, cells), operator, part)


def _with_bias(
    sums: Array, operator: op.Convolution | op.TransposedConvolution, part: Part
) -> Array:
    if operator.has_bias:
        sums += along_channels(part.weights["bias"], 3)
    return sums


def _as_product(operator: op.Convolution, part: Part, cells: Array) -> Array:
    seen = unfolded(cells, operator.window, part.rows, part.shape.width)
    columns = seen.reshape(operator.groups, -1, part.rows * part.shape.width)
    kernel = part.weights["kernel"].reshape(
        operator.groups, operator.filters // operator.groups, -1
    )
    product: Array = np.matmul(kernel, columns)
    return product.reshape(operator.filters, part.rows, part.shape.width)


def _depthwise(operator: op.Convolution, part: Part, cells: Array) -> Array:
    """One input channel a group: a sum over the kernel's places."""
    seen = unfolded(cells, operator.window, part.rows, part.shape.width)
    multiple = operator.filters // operator.groups
    kernel = part.weights["kernel"].reshape(operator.groups, multiple, *operator.window.kernel)
    places = [
        (row, column)
        for row in range(operator.window.kernel[0])
        for column in range(operator.window.kernel[1])
    ]
    sums: Any = 0
    for row, column in places:
        sums += seen[:, None, row, column] * kernel[:, :, row, column, None, None]
    return np.asarray(sums, np.float32).reshape(operator.filters, part.rows, part.shape.width)


def transposed_convolution(operator: op.TransposedConvolution, part: Part) -> Array:
    """Return the rows of the part of a transposed convolution.

    Input row i adds to row i * stride + tap * dilation - padding of the output.
    """
    sums = np.zeros((operator.filters, part.rows, part.shape.width), np.float32)
    window, shape = operator.window, part.inputs[0].shape
    top, left = window.padding[:2]
    first = max(0, -((window.extent[0] - 1 - part.begin - top) // window.stride[0]))
    upto = min(shape.height, (part.end - 1 + top) // window.stride[0] + 1)
    if first < upto:
        products = _scattered(operator, part, first, upto)
        for row in range(window.kernel[0]):
            shift = first * window.stride[0] + row * window.dilation[0] - top - part.begin
            rows = _landing(shift, window.stride[0], upto - first, part.rows)
            for column in range(window.kernel[1]):
                shift = column * window.dilation[1] - left
                columns = _landing(shift, window.stride[1], shape.width, part.shape.width)
                sums[:, rows[1], columns[1]] += products[:, row, column, rows[0], columns[0]]
    return _with_bias(sums, operator, part)


def _scattered(operator: op.TransposedConvolution, part: Part, first: int, upto: int) -> Array:
    """What each input element adds: (filters, kernel rows, kernel columns, rows, columns)."""
    cells = part.inputs[0].rows(first, upto)
    channels, rows, columns = cells.shape
    groups = operator.groups
    kernel = part.weights["kernel"].reshape(groups, channels // groups, -1)
    product: Array = np.matmul(
        kernel.transpose(0, 2, 1), cells.reshape(groups, channels // groups, rows * columns)
    )
    return product.reshape(operator.filters, *operator.window.kernel, rows, columns)


def _landing(shift: int, stride: int, sources: int, targets: int) -> tuple[slice, slice]:
    """Which sources land on a target, and on which: source i on target i * stride + shift."""
    first = max(0, -(shift // stride))
    upto = max(first, min(sources, (targets - 1 - shift) // stride + 1))
    start = first * stride + shift
    if first == upto:
        return slice(0, 0), slice(0, 0)
    return slice(first, upto), slice(start, start + (upto - first - 1) * stride + 1, stride)
