"""Poolings in either layout, without temporary arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from cnn2csdf.weights import Array
from planners.kernels import convolution_layers as kernels
from planners.kernels import ranges
from planners.primitives.library.primitive import compiled
from planners.primitives.profile import CHW


def is_plain(window: op.Window) -> bool:
    """Whether no window hangs over a border that is cropped."""
    return min(window.padding[2:]) >= 0 or max(window.overhang) == 0


def pooling(operator: op.Pooling, source: Shape, shape: Shape, layout: str) -> tuple[Any, int, int]:
    """Return how to pool, the bytes of its workspace, and those of the counts it divides by."""
    window = operator.window
    steps = (*window.stride, *window.dilation, *window.padding[:2])
    if operator.function == "max":
        counts = np.empty((0, 0), np.float32)
        known = (window.kernel, steps, kernels.MAXIMUM, np.float32(-np.inf), counts)
    else:
        rows = _counts(operator, 0, shape.height, source.height)
        columns = _counts(operator, 1, shape.width, source.width)
        counts = np.maximum(np.outer(rows, columns), 1).astype(np.float32)
        known = (window.kernel, steps, kernels.MEAN, np.float32(0), counts)
    return partial(_pool, layout, known), 0, counts.nbytes


def _pool(layout: str, known: tuple[Any, ...], inputs: Sequence[Array], output: Array) -> None:
    pool = kernels.pool_by_channels if layout == CHW else kernels.pool_by_places
    window, steps, *_ = known
    rows = slice(1, 3) if layout == CHW else slice(0, 2)
    largest = ranges.windows(steps, window, inputs[0].shape[rows], output.shape[rows])
    compiled(pool, largest)(inputs[0], *known, output)


def _counts(operator: op.Pooling, axis: int, places: int, length: int) -> list[int]:
    """Elements along an axis that count in the mean, for each place of the output."""
    window = operator.window
    before, after = window.padding[axis], window.padding[axis + 2]
    low, high = (-before, length + after) if operator.counts_padding else (0, length)
    return [
        sum(
            low <= place * window.stride[axis] - before + tap * window.dilation[axis] < high
            for tap in range(window.kernel[axis])
        )
        for place in range(places)
    ]


def global_pooling(function: str, layout: str, inputs: Sequence[Array], output: Array) -> None:
    """Write one element a map."""
    axes = (1, 2) if layout == CHW else (0, 1)
    if function == "max":
        np.max(inputs[0], axis=axes, keepdims=True, out=output)
    else:
        np.mean(inputs[0], axis=axes, keepdims=True, out=output)
