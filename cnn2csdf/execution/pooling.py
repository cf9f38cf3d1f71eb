"""Pooling: the largest or the mean of what a window covers, first along columns, then rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cnn2csdf import operators as op
from cnn2csdf.execution.part import Part, whole_tensor
from cnn2csdf.execution.windows import window_cells
from cnn2csdf.weights import Array


def pooling(operator: op.Pooling, part: Part) -> Array:
    """Return the rows of the part of a pooling."""
    if operator.function == "max":
        return _folded(
            window_cells(operator.window, part, fill=-np.inf), np.maximum, operator, part
        )
    sums = _folded(window_cells(operator.window, part, fill=0.0), np.add, operator, part)
    height, width = part.inputs[0].shape.height, part.inputs[0].shape.width
    rows = _counts(operator, 0, (part.begin, part.end), height)
    columns = _counts(operator, 1, (0, part.shape.width), width)
    counts = np.maximum(rows[:, None] * columns, 1).astype(np.float32)
    mean: Array = sums / counts
    return mean


def _folded(cells: Array, combine: np.ufunc, operator: op.Pooling, part: Part) -> Array:
    """Combine the rows of each window, then the columns."""
    for axis, places in ((0, part.rows), (1, part.shape.width)):
        window = operator.window
        starts = [tap * window.dilation[axis] for tap in range(window.kernel[axis])]
        reach = (places - 1) * window.stride[axis] + 1
        taps = [
            cells[:, *(slice(None),) * axis, start : start + reach : window.stride[axis]]
            for start in starts
        ]
        cells = taps[0] if len(taps) == 1 else combine(taps[0], taps[1])
        for tap in taps[2:]:
            combine(cells, tap, out=cells)
    return cells


def _counts(
    operator: op.Pooling, axis: int, places: tuple[int, int], length: int
) -> NDArray[np.int64]:
    """Cells along an axis that count in the mean, for each place of the output."""
    window = operator.window
    before, after = window.padding[axis], window.padding[axis + 2]
    starts = np.arange(*places) * window.stride[axis] - before
    cells = starts[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
    low = -before if operator.counts_padding else 0
    high = length + (after if operator.counts_padding else min(after, 0))
    counts: NDArray[np.int64] = ((low <= cells) & (cells < high)).sum(axis=1)
    return counts


def global_pooling(operator: op.GlobalPooling, part: Part) -> Array:
    """Return one element a feature map."""
    maps = whole_tensor(part.inputs[0])
    pooled: Array = (np.max if operator.function == "max" else np.mean)(
        maps, axis=(1, 2), keepdims=True
    )
    return pooled
