"""kn2row and kn2col: each place of the kernel is a 1x1 convolution; results are shifted and added.

All products at once want room for every place of the kernel ("kn2row"); one after another, for one
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
from typing import NamedTuple

from cnn2csdf.weights import Array
from planners.kernels import convolution_layers as kernels
from planners.primitives.library.im2col import multiply
from planners.primitives.library.primitive import (
    ConvolutionSizes,
    PlainWeights,
    Prepared,
    compiled,
    contiguous,
    float_bytes,
)
from planners.primitives.profile import CHW, LAYOUTS

AT_ONCE = ""
ACCUMULATING = ", accumulating"
ROW_BY_ROW = ", row by row"


class _Product(NamedTuple):
    """Some input rows times the weights of some places of the kernel, counted in row order."""

    rows: tuple[int, int]
    taps: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted(PlainWeights):
    """Multiply, shift, add."""

    input_layout: str
    output_layout: str
    manner: str

    @property
    def name(self) -> str:
        return f"{'kn2row' if self.output_layout == CHW else 'kn2col'}{self.manner}"

    def applies(self, sizes: ConvolutionSizes) -> bool:
        """A stride would throw most products away."""
        return sizes.is_dense and sizes.kernel != (1, 1)

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        one = next(self._products(sizes))
        rows, taps = one.rows[1] - one.rows[0], one.taps[1] - one.taps[0]
        return float_bytes(taps * sizes.filters * rows * sizes.width)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        """Return (places of the kernel, filters, channels)."""
        taps = prod(sizes.kernel)
        return contiguous(kernel.transpose(2, 3, 0, 1)).reshape(taps, sizes.filters, sizes.channels)

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        workspace: Array,
        output: Array,
    ) -> None:
        output.fill(0)
        add = kernels.add_by_channels if self.output_layout == CHW else kernels.add_by_places
        for one in self._products(sizes):
            products = self._multiplied(sizes, one, source, prepared, workspace)
            for place, tap in enumerate(range(*one.taps)):
                part = _part(sizes, one.rows, divmod(tap, sizes.kernel[1]))
                compiled(add)(products, place, part, output)

    def _products(self, sizes: ConvolutionSizes) -> Iterator[_Product]:
        taps = prod(sizes.kernel)
        if self.manner == AT_ONCE:
            yield _Product((0, sizes.height), (0, taps))
        elif self.manner == ACCUMULATING:
            yield from (_Product((0, sizes.height), (tap, tap + 1)) for tap in range(taps))
        else:
            yield from (_Product((row, row + 1), (0, taps)) for row in range(sizes.height))

    def _multiplied(
        self,
        sizes: ConvolutionSizes,
        one: _Product,
        source: Array,
        prepared: Prepared,
        workspace: Array,
    ) -> Array:
        """Products in the order of axes that is added to the output, a view of the workspace."""
        (first, upto), (begin, end) = one
        taps, rows, filters = end - begin, upto - first, sizes.filters
        weights = prepared[begin:end].reshape(taps * filters, sizes.channels)
        cells = workspace[: taps * filters * rows * sizes.width]
        if self.input_layout == CHW:
            seen = source[:, first:upto].reshape(sizes.channels, rows * sizes.width)
        else:
            seen = source[first:upto].reshape(rows * sizes.width, sizes.channels).T
        if self.output_layout == CHW:
            multiply(weights, seen, CHW, cells.reshape(taps * filters, rows * sizes.width))
            return cells.reshape(taps, filters, rows, sizes.width)
        result = cells.reshape(rows * sizes.width, taps * filters)
        multiply(weights, seen, self.output_layout, result)
        return result.reshape(rows, sizes.width, taps, filters)


def _part(
    sizes: ConvolutionSizes, rows: tuple[int, int], tap: tuple[int, int]
) -> tuple[int, int, int, int, int, int]:
    """The output elements to which input rows contribute through one place of the kernel."""
    down, across = tap[0] - sizes.steps[4], tap[1] - sizes.steps[5]
    top, bottom = max(0, rows[0] - down), min(sizes.rows, rows[1] - down)
    left, right = max(0, -across), min(sizes.columns, sizes.width - across)
    return top, bottom, left, right, down - rows[0], across


SHIFTED = tuple(
    Shifted(input_layout=source, output_layout=target, manner=manner)
    for manner, source, target in product((AT_ONCE, ACCUMULATING, ROW_BY_ROW), LAYOUTS, LAYOUTS)
)
