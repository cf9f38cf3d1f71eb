"""kn2row and kn2col: each position of the kernel is a 1x1 convolution; results are shifted and added.

A position of the kernel is a tap. The workspace contains the products of all taps ("kn2row"), of a
single tap with all input rows ("accumulating"), or of all taps with a single input row ("row by row").
Products filter by filter are kn2row, which writes "CHW"; products pixel by pixel are kn2col, which
writes "HWC".

Source: Vasudevan, Anderson, Gregg, Parallel Multi Channel Convolution using General Matrix
Multiplication, ASAP 2017, section III; Anderson et al., Low-memory GEMM-based convolution
algorithms for deep neural networks, arXiv 1709.03395, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from cnn2csdf.weights import Array
from planners.kernels import convolution_layers as kernels
from planners.primitives.library.im2col import multiply
from planners.primitives.library.primitive import ConvolutionSizes, Primitive, compiled, float_bytes
from planners.primitives.profile import CHW, LAYOUTS

AT_ONCE = ""
ACCUMULATING = ", accumulating"
ROW_BY_ROW = ", row by row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted(Primitive):
    """Multiply, shift, add. manner: AT_ONCE, ACCUMULATING or ROW_BY_ROW."""

    manner: str

    def applies(self, sizes: ConvolutionSizes) -> bool:
        """Whether the convolution is dense: with a stride most products would be unused."""
        return sizes.is_dense and sizes.kernel != (1, 1)

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        rows, taps = next(self.products(sizes))
        return float_bytes(len(taps) * sizes.filters * len(rows) * sizes.width)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        """Return (taps, filters, channels)."""
        taps = prod(sizes.kernel)
        return np.ascontiguousarray(kernel.transpose(2, 3, 0, 1)).reshape(
            taps, sizes.filters, sizes.channels
        )

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        output.fill(0)
        is_by_filter, width, filters = self.output_layout == CHW, sizes.width, sizes.filters
        add = kernels.add_by_channels if is_by_filter else kernels.add_by_places
        for rows, taps in self.products(sizes):
            dims = (len(taps) * filters, len(rows) * width)
            weights = kernel[taps.start : taps.stop].reshape(dims[0], sizes.channels)
            if self.input_layout == CHW:
                windows = source[:, rows.start : rows.stop].reshape(sizes.channels, dims[1])
            else:
                windows = source[rows.start : rows.stop].reshape(dims[1], sizes.channels).T
            result = workspace[: prod(dims)].reshape(dims if is_by_filter else dims[::-1])
            multiply(weights, windows, self.output_layout, result)
            by_filter, by_pixel = (len(taps), filters), (len(rows), width)
            shape = (*by_filter, *by_pixel) if is_by_filter else (*by_pixel, *by_filter)
            for index, tap in enumerate(taps):
                # The output elements to which the input rows contribute through this tap.
                row, column = divmod(tap, sizes.kernel[1])
                padding_top, padding_left = sizes.steps.padding
                down, across = row - padding_top, column - padding_left
                top, bottom = max(0, rows.start - down), min(sizes.rows, rows.stop - down)
                left, right = max(0, -across), min(sizes.columns, width - across)
                part = (top, bottom, left, right, down - rows.start, across)
                compiled(add)(result.reshape(shape), index, part, output)

    def products(self, sizes: ConvolutionSizes) -> Iterator[tuple[range, range]]:
        """Yield the input rows and the taps, in row order, of each product."""
        rows, taps = range(sizes.height), range(prod(sizes.kernel))
        if self.manner == AT_ONCE:
            yield rows, taps
        elif self.manner == ACCUMULATING:
            yield from ((rows, range(tap, tap + 1)) for tap in taps)
        else:
            yield from ((range(row, row + 1), taps) for row in rows)


SHIFTED = tuple(
    Shifted(
        name=f"{'kn2row' if target == CHW else 'kn2col'}{manner}",
        input_layout=source,
        output_layout=target,
        manner=manner,
    )
    for manner, source, target in product((AT_ONCE, ACCUMULATING, ROW_BY_ROW), LAYOUTS, LAYOUTS)
)
