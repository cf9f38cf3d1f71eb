"""Which input rows an output row needs, for each operator: the one row rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from cnn2csdf.resizing import ResizedAxis

RowsNeeded = Callable[[int], tuple[int, int]]
"""Output row -> first input row needed, and one past the last; neither is clipped to the input.

Both grow with the output row, or stay.
"""


def rows_needed(
    operator: op.Operator, index: int, inputs: Sequence[Shape], output: Shape
) -> RowsNeeded | None:
    """Return which rows of input `index` each output row needs; None if it needs them all.

    Fully connected, global and softmax layers, and those that move elements between rows (such as
    the reorganisation of Darknet, which reads the maps as others of another shape), take everything
    at once.
    """
    source = inputs[index]
    match operator:
        case op.Convolution(window=window) | op.Pooling(window=window):
            return _window(window)
        case op.TransposedConvolution(window=window):
            return _transposed_window(window)
        case op.Elementwise() if output.is_map:
            return _same_row if source.rows == output.rows else _only_row
        case op.Concatenation(axis=axis) if output.is_map:
            before = sum(shape.rows for shape in inputs[:index]) if axis == 1 else 0
            return _shifted(-before)
        case op.Slice(axis=axis, start=start, step=step) if source.is_map:
            return _strided(start, step) if axis == 1 else _same_row
        case op.Resize():
            return _resized(operator, source)
        case op.Pad():
            return _padded(operator, source)
        case op.SpaceToDepth(block=block, order="block first"):
            return lambda row: (row * block, row * block + block)
        case op.DepthToSpace(block=block):
            return lambda row: (row // block, row // block + 1)
    return _same_row if _keeps_rows(operator, source) else None


def _keeps_rows(operator: op.Operator, source: Shape) -> bool:
    """Whether an output row needs just the input row of its number."""
    match operator:
        case op.Output() | op.ChannelShuffle():
            return True
        case op.Transpose(permutation=permutation):
            return source.is_map and permutation[1] == 1
        case op.Reduction(axes=axes, keeps=keeps):
            return source.is_map and keeps and 1 not in axes
        case op.LayerNormalization(axis=axis):
            return source.is_map and axis == 2
        case op.MatrixProduct(units=int()):
            return source.is_map
    return isinstance(operator, op.POINTWISE)


def _same_row(row: int) -> tuple[int, int]:
    return row, row + 1


def _only_row(_row: int) -> tuple[int, int]:
    return 0, 1


def _shifted(shift: int) -> RowsNeeded:
    return lambda row: (row + shift, row + shift + 1)


def _strided(start: int, step: int) -> RowsNeeded:
    return lambda row: (start + row * step, start + row * step + 1)


def _window(window: op.Window) -> RowsNeeded:
    stride, top, extent = window.stride[0], window.padding[0], window.extent[0]
    return lambda row: (row * stride - top, row * stride - top + extent)


def _transposed_window(window: op.Window) -> RowsNeeded:
    """Input row i adds to output rows i * stride - top and the extent - 1 below it."""
    stride, top, extent = window.stride[0], window.padding[0], window.extent[0]
    return lambda row: (-((extent - 1 - row - top) // stride), (row + top) // stride + 1)


def _padded(operator: op.Pad, source: Shape) -> RowsNeeded | None:
    top, bottom = operator.padding[0], operator.padding[2]
    if operator.mode == "constant" or top <= 0 >= bottom:
        return _shifted(-top)
    if operator.mode == "edge":
        last = source.rows - 1
        return lambda row: _same_row(min(max(row - top, 0), last))
    return None  # reflected rows come back from below


def _resized(operator: op.Resize, source: Shape) -> RowsNeeded:
    axis, rows = ResizedAxis(operator, 0, source), np.arange(operator.size[0])
    if operator.function == "nearest":
        first = last = axis.nearest(rows)
    else:
        above, below = axis.between(rows)
        first, last = above // below, -(-above // below)
    return lambda row: (int(first[row]), int(last[row]) + 1)
