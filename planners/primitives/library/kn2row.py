"""kn2row and kn2col: each position of the kernel is a 1x1 convolution; results are shifted and added.

All products at once want room for every position of the kernel ("kn2row"); in sequence, for one
("accumulating"); row by row of the input, for one row of it ("row by row"). Products by filter make
kn2row, which writes "CHW"; products by place kn2col, which writes "HWC".

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


Span = tuple[int, int]  # the first, and the one after the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted(Primitive):
    """Multiply, shift, add."""

    manner: str

    def applies(self, sizes: ConvolutionSizes) -> bool:
        """A stride would throw most products away."""
        return sizes.is_dense and sizes.kernel != (1, 1)

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        (first, upto), (begin, end) = next(self.products(sizes))
        return float_bytes((end - begin) * sizes.filters * (upto - first) * sizes.width)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        """Return (positions of the kernel, filters, channels)."""
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
        for (first, upto), (begin, end) in self.products(sizes):
            taps, rows = end - begin, upto - first
            weights = kernel[begin:end].reshape(taps * filters, sizes.channels)
            if self.input_layout == CHW:
                seen = source[:, first:upto].reshape(sizes.channels, rows * width)
            else:
                seen = source[first:upto].reshape(rows * width, sizes.channels).T
            cells = workspace[: taps * filters * rows * width]
            dims = (taps * filters, rows * width)
            result = cells.reshape(dims if is_by_filter else dims[::-1])
            multiply(weights, seen, self.output_layout, result)
            shape = (taps, filters, rows, width) if is_by_filter else (rows, width, taps, filters)
            for index, tap in enumerate(range(begin, end)):
                # The output elements to which the rows contribute through one place of the kernel.
                row, column = divmod(tap, sizes.kernel[1])
                down, across = row - sizes.steps[4], column - sizes.steps[5]
                top, bottom = max(0, first - down), min(sizes.rows, upto - down)
                left, right = max(0, -across), min(sizes.columns, width - across)
                part = (top, bottom, left, right, down - first, across)
                compiled(add)(result.reshape(shape), index, part, output)

    def products(self, sizes: ConvolutionSizes) -> Iterator[tuple[Span, Span]]:
        """Yield the input rows and the positions of the kernel, in row order, of each product."""
        taps = prod(sizes.kernel)
        if self.manner == AT_ONCE:
            yield (0, sizes.height), (0, taps)
        elif self.manner == ACCUMULATING:
            yield from (((0, sizes.height), (tap, tap + 1)) for tap in range(taps))
        else:
            yield from (((row, row + 1), (0, taps)) for row in range(sizes.height))


SHIFTED = tuple(
    Shifted(
        name=f"{'kn2row' if target == CHW else 'kn2col'}{manner}",
        input_layout=source,
        output_layout=target,
        manner=manner,
    )
    for manner, source, target in product((AT_ONCE, ACCUMULATING, ROW_BY_ROW), LAYOUTS, LAYOUTS)
)
