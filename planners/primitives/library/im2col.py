"""Convolution by products of matrices: im2col, im2row, MEC, and 1x1 convolutions as they are.

The lowered matrix has a column (im2col) or a row (im2row) for each output pixel: the input elements of
its window. It is multiplied by the weights. With strips only as many output rows are lowered
at a time as fit into STRIP_BYTES, at least one. Source: Chellapilla, Puri, Simard, High Performance
Convolutional Neural Networks for Document Processing, IWFHR 2006, section 3.

MEC lowers the columns only: for each output column the window elements of every input row. The windows
of an output row are then a contiguous range, and the ranges of successive output rows overlap. Source:
Cho and Brand, MEC: Memory-efficient Convolution for Deep Neural Network, ICML 2017, section 3.1 and
algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.weights import Array
from planners.kernels import convolution_layers as kernels
from planners.primitives.library.primitive import (
    ConvolutionSizes,
    Primitive,
    by_channels,
    by_pixels,
    compiled,
    float_bytes,
)
from planners.primitives.profile import CHW, LAYOUTS

STRIP_BYTES = 1 << 18  # bytes that stay in the nearer caches of a core
TRANSPOSED = ", weights transposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered(Primitive):
    """Lower, then multiply, group by group.

    is_by_rows: im2row. is_transposed: the weights are kept with the filters along memory.
    """

    is_by_rows: bool
    is_transposed: bool = False
    is_in_strips: bool = False

    def applies(self, sizes: ConvolutionSizes) -> bool:
        return not self.is_in_strips or self.strip(sizes) < sizes.rows

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        return float_bytes(sizes.window_elements * self.strip(sizes) * sizes.columns)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        in_order = kernel.transpose(0, 2, 3, 1) if self.is_by_rows else kernel
        weights = in_order.reshape(sizes.groups, sizes.group_filters, sizes.window_elements)
        return np.ascontiguousarray(weights.swapaxes(1, 2) if self.is_transposed else weights)

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        result = matrix_of(output, self.output_layout, sizes.pixels)
        weights = kernel.swapaxes(1, 2) if self.is_transposed else kernel
        strip, columns, depth = self.strip(sizes), sizes.columns, sizes.group_channels
        for group, first in product(range(sizes.groups), range(0, sizes.rows, strip)):
            rows = min(strip, sizes.rows - first)
            buffer = workspace[: sizes.window_elements * rows * columns]
            channels = slice(group * depth, (group + 1) * depth)
            if self.is_by_rows:
                lowered = buffer.reshape(rows, columns, *sizes.kernel, depth)
                source_part = by_pixels(source, self.input_layout)[:, :, channels]
                compiled(kernels.rows, sizes.largest)(source_part, sizes.steps, first, lowered)
                windows = lowered.reshape(rows * columns, sizes.window_elements).T
            else:
                lowered = buffer.reshape(depth, *sizes.kernel, rows, columns)
                source_part = by_channels(source, self.input_layout)[channels]
                compiled(kernels.columns, sizes.largest)(source_part, sizes.steps, first, lowered)
                windows = lowered.reshape(sizes.window_elements, rows * columns)
            filters = slice(group * sizes.group_filters, (group + 1) * sizes.group_filters)
            pixels = slice(first * columns, (first + rows) * columns)
            # The axes of the result are those of the layout, see `matrix_of`.
            axes = (filters, pixels) if self.output_layout == CHW else (pixels, filters)
            multiply(weights[group], windows, self.output_layout, result[axes])

    def strip(self, sizes: ConvolutionSizes) -> int:
        """Return the number of output rows that are lowered at a time."""
        if not self.is_in_strips:
            return sizes.rows
        return max(
            1, min(sizes.rows, STRIP_BYTES // float_bytes(sizes.window_elements * sizes.columns))
        )


LOWERED = (
    *(
        Lowered(
            name=f"{'im2row' if is_by_rows else 'im2col'}{TRANSPOSED * is_transposed}",
            input_layout=source,
            output_layout=target,
            is_by_rows=is_by_rows,
            is_transposed=is_transposed,
        )
        for source, target, is_by_rows, is_transposed in product(
            LAYOUTS, LAYOUTS, (False, True), (False, True)
        )
    ),
    *(
        Lowered(
            name="im2col, strips" if source == CHW else "im2row, strips",
            input_layout=source,
            output_layout=target,
            is_by_rows=source != CHW,
            is_in_strips=True,
        )
        for source, target in product(LAYOUTS, LAYOUTS)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEfficient(Primitive):
    """Lower the columns, then multiply row by row."""

    def applies(self, sizes: ConvolutionSizes) -> bool:
        # The rows of a window are contiguous in the lowered map only without dilation.
        return sizes.groups == 1 and sizes.steps.dilation[0] == 1 and sizes.kernel != (1, 1)

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        return float_bytes(_rows(sizes) * sizes.channels * sizes.kernel[1] * sizes.columns)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        """Return (filters, window elements with the rows outermost)."""
        order = (0, 2, 1, 3) if self.input_layout == CHW else (0, 2, 3, 1)
        return np.ascontiguousarray(kernel.transpose(order)).reshape(
            sizes.filters, sizes.window_elements
        )

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        rows, channels, width = _rows(sizes), sizes.channels, sizes.kernel[1]
        buffer = workspace[: rows * channels * width * sizes.columns]
        row_stride, column_stride = sizes.steps.stride
        # Every input row is lowered by itself: as im2col or im2row of a kernel of one row, stride 1.
        steps = sizes.steps._replace(stride=(1, column_stride))
        if self.input_layout == CHW:
            by_rows = buffer.reshape(rows, channels, width, 1, sizes.columns)
            lowered = by_rows.transpose(1, 3, 2, 0, 4)
            compiled(kernels.columns, sizes.largest)(source, steps, 0, lowered)
            matrix = by_rows.reshape(rows * channels * width, sizes.columns)
        else:
            by_columns = buffer.reshape(sizes.columns, rows, 1, width, channels)
            lowered = by_columns.transpose(1, 0, 2, 3, 4)
            compiled(kernels.rows, sizes.largest)(source, steps, 0, lowered)
            matrix = by_columns.reshape(sizes.columns, rows * width * channels).T
        # The window of an output row is a range of rows of the matrix; the next begins a stride later.
        for row in range(sizes.rows):
            first = row * row_stride * channels * width
            target = output[:, row] if self.output_layout == CHW else output[row]
            multiply(
                kernel, matrix[first : first + sizes.window_elements], self.output_layout, target
            )


def _rows(sizes: ConvolutionSizes) -> int:
    """Return the number of input rows of all windows, with the padding."""
    return (sizes.rows - 1) * sizes.steps.stride[0] + sizes.kernel[0]


MEMORY_EFFICIENT = tuple(
    MemoryEfficient(name="mec", input_layout=source, output_layout=target)
    for source, target in product(LAYOUTS, LAYOUTS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseProduct(Primitive):
    """A product of matrices; is_transposed: weights are kept with the filters along memory."""

    is_transposed: bool

    def applies(self, sizes: ConvolutionSizes) -> bool:
        return sizes.is_pointwise

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        weights = kernel.reshape(sizes.filters, sizes.channels)
        return np.ascontiguousarray(weights.T if self.is_transposed else weights)

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        windows = matrix_of(source, self.input_layout, sizes.pixels)
        multiply(
            kernel.T if self.is_transposed else kernel,
            windows if self.input_layout == CHW else windows.T,
            self.output_layout,
            matrix_of(output, self.output_layout, sizes.pixels),
        )


POINTWISE = tuple(
    PointwiseProduct(
        name=f"pointwise{TRANSPOSED * is_transposed}",
        input_layout=source,
        output_layout=target,
        is_transposed=is_transposed,
    )
    for source, target, is_transposed in product(LAYOUTS, LAYOUTS, (False, True))
)


def multiply(
    weights: NDArray[Any], windows: NDArray[Any], layout: str, result: NDArray[Any]
) -> None:
    """Write the product of weights and window elements; additional first axes are of several products.

    weights: (filters, K), with K elements of a window. windows: (K, pixels). result: (filters, pixels)
    for "CHW", (pixels, filters) for "HWC". Any of them may be a transposed view: no array is copied if
    the elements along one of its last two axes are adjacent in memory.
    """
    if layout == CHW:
        np.matmul(weights, windows, out=result)
    else:
        np.matmul(windows.swapaxes(-1, -2), weights.swapaxes(-1, -2), out=result)


def matrix_of(output: NDArray[Any], layout: str, pixels: int) -> NDArray[Any]:
    """Return a view of a whole map as the result of a product, see `multiply`."""
    return output.reshape(-1, pixels) if layout == CHW else output.reshape(pixels, -1)
