"""im2col and im2row: what windows see is copied out as a matrix, which the weights multiply.

A column (im2col) or a row (im2row) holds what one window sees. With strips only so many output rows
are lowered at a time as STRIP_BYTES hold, at least one.

Source: Chellapilla, Puri, Simard, High Performance Convolutional Neural Networks for Document
Processing, IWFHR 2006, section 3.

MEC: the windows of all rows share one lowered matrix, in which each output row has its part.

Lowered are the columns only: for each place in a row what a window sees of every input row. What
the windows of one output row see lies together there, and neighbouring output rows overlap.

Source: Cho and Brand, MEC: Memory-efficient Convolution for Deep Neural Network, ICML 2017,
section 3.1 and algorithm 2.

A 1x1 convolution with stride one: the map itself is the matrix, and nothing is copied.

Matrix products into a place given, between either order of axes.
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
    PlainWeights,
    Prepared,
    by_channels,
    by_places,
    compiled,
    contiguous,
    float_bytes,
)
from planners.primitives.profile import CHW, LAYOUTS

STRIP_BYTES = 1 << 18  # what stays in the nearer caches of a core


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered(PlainWeights):
    """Lower, then multiply, group by group.

    is_by_rows: im2row. is_transposed: the weights are kept with the filters along memory.
    """

    input_layout: str
    output_layout: str
    is_by_rows: bool
    is_transposed: bool = False
    is_in_strips: bool = False

    @property
    def name(self) -> str:
        kind = "im2row" if self.is_by_rows else "im2col"
        strips = ", strips" if self.is_in_strips else ""
        return f"{kind}{strips}{', weights transposed' if self.is_transposed else ''}"

    def applies(self, sizes: ConvolutionSizes) -> bool:
        return not self.is_in_strips or self._strip(sizes) < sizes.rows

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        return float_bytes(sizes.seen * self._strip(sizes) * sizes.columns)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        seen = kernel.transpose(0, 2, 3, 1) if self.is_by_rows else kernel
        weights = seen.reshape(sizes.groups, sizes.group_filters, sizes.seen)
        return contiguous(weights.swapaxes(1, 2) if self.is_transposed else weights)

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        workspace: Array,
        output: Array,
    ) -> None:
        result = matrix_of(output, self.output_layout, sizes.places)
        weights = prepared.swapaxes(1, 2) if self.is_transposed else prepared
        strip = self._strip(sizes)
        for group, first in product(range(sizes.groups), range(0, sizes.rows, strip)):
            upto = min(first + strip, sizes.rows)
            filters = (group * sizes.group_filters, (group + 1) * sizes.group_filters)
            places = (first * sizes.columns, upto * sizes.columns)
            multiply(
                weights[group],
                self._lowered(sizes, source, workspace, group, first, upto),
                self.output_layout,
                part_of(result, self.output_layout, filters, places),
            )

    def _strip(self, sizes: ConvolutionSizes) -> int:
        """How many output rows are lowered at a time."""
        if not self.is_in_strips:
            return sizes.rows
        return max(1, min(sizes.rows, STRIP_BYTES // float_bytes(sizes.seen * sizes.columns)))

    def _lowered(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        workspace: Array,
        group: int,
        first: int,
        upto: int,
    ) -> Array:
        """Return what the windows of some output rows see of a group, (K, places)."""
        rows, depth = upto - first, sizes.group_channels
        cells = workspace[: sizes.seen * rows * sizes.columns]
        seen = slice(group * depth, (group + 1) * depth)
        if self.is_by_rows:
            lowered = cells.reshape(rows, sizes.columns, *sizes.kernel, depth)
            there = by_places(source, self.input_layout)[:, :, seen]
            compiled(kernels.rows, sizes.largest)(there, sizes.steps, first, lowered)
            return lowered.reshape(rows * sizes.columns, sizes.seen).T
        lowered = cells.reshape(depth, *sizes.kernel, rows, sizes.columns)
        there = by_channels(source, self.input_layout)[seen]
        compiled(kernels.columns, sizes.largest)(there, sizes.steps, first, lowered)
        return lowered.reshape(sizes.seen, rows * sizes.columns)


LOWERED = (
    *(
        Lowered(
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
            input_layout=source,
            output_layout=target,
            is_by_rows=source != CHW,
            is_in_strips=True,
        )
        for source, target in product(LAYOUTS, LAYOUTS)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEfficient(PlainWeights):
    """Lower the columns, then multiply row by row."""

    input_layout: str
    output_layout: str
    name: str = "mec"

    def applies(self, sizes: ConvolutionSizes) -> bool:
        """Dilated rows of a window would not lie together."""
        return sizes.groups == 1 and sizes.steps[2] == 1 and sizes.kernel != (1, 1)

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        return float_bytes(_rows(sizes) * sizes.channels * sizes.kernel[1] * sizes.columns)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        """Return (filters, what a window sees, its rows outermost)."""
        order = (0, 2, 1, 3) if self.input_layout == CHW else (0, 2, 3, 1)
        return contiguous(kernel.transpose(order)).reshape(sizes.filters, sizes.seen)

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        workspace: Array,
        output: Array,
    ) -> None:
        lowered = self._lowered(sizes, source, workspace)
        depth = sizes.channels * sizes.kernel[1]
        for row in range(sizes.rows):
            first = row * sizes.steps[0] * depth
            seen = lowered[first : first + sizes.seen]
            there = output[:, row] if self.output_layout == CHW else output[row]
            multiply(prepared, seen, self.output_layout, there)

    def _lowered(self, sizes: ConvolutionSizes, source: Array, workspace: Array) -> Array:
        """(what windows see of all rows, columns), a view of the workspace."""
        rows, channels, width = _rows(sizes), sizes.channels, sizes.kernel[1]
        cells = workspace[: rows * channels * width * sizes.columns]
        steps = (1, *sizes.steps[1:])
        if self.input_layout == CHW:
            lowered = cells.reshape(rows, channels, width, 1, sizes.columns)
            compiled(kernels.columns, sizes.largest)(
                source, steps, 0, lowered.transpose(1, 3, 2, 0, 4)
            )
            return lowered.reshape(rows * channels * width, sizes.columns)
        lowered = cells.reshape(sizes.columns, rows, 1, width, channels)
        compiled(kernels.rows, sizes.largest)(source, steps, 0, lowered.transpose(1, 0, 2, 3, 4))
        return lowered.reshape(sizes.columns, rows * width * channels).T


def _rows(sizes: ConvolutionSizes) -> int:
    """Input rows, with their border, that windows see."""
    return (sizes.rows - 1) * sizes.steps[0] + sizes.kernel[0]


MEMORY_EFFICIENT = tuple(
    MemoryEfficient(input_layout=source, output_layout=target)
    for source, target in product(LAYOUTS, LAYOUTS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointwise(PlainWeights):
    """A product of matrices; is_transposed: weights are kept with the filters along memory."""

    input_layout: str
    output_layout: str
    is_transposed: bool

    @property
    def name(self) -> str:
        return f"pointwise{', weights transposed' if self.is_transposed else ''}"

    def applies(self, sizes: ConvolutionSizes) -> bool:
        return sizes.is_pointwise

    def workspace_bytes(self, _: ConvolutionSizes) -> int:
        return 0

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        weights = kernel.reshape(sizes.filters, sizes.channels)
        return contiguous(weights.T if self.is_transposed else weights)

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        _: Array,
        output: Array,
    ) -> None:
        seen = matrix_of(source, self.input_layout, sizes.places)
        multiply(
            prepared.T if self.is_transposed else prepared,
            seen if self.input_layout == CHW else seen.T,
            self.output_layout,
            matrix_of(output, self.output_layout, sizes.places),
        )


POINTWISE = tuple(
    Pointwise(input_layout=source, output_layout=target, is_transposed=is_transposed)
    for source, target, is_transposed in product(LAYOUTS, LAYOUTS, (False, True))
)


def multiply(weights: NDArray[Any], seen: NDArray[Any], layout: str, result: NDArray[Any]) -> None:
    """Write weights times what is seen; further axes in front count the products.

    weights: (filters, K). seen: (K, places). result: (filters, places) for "CHW", (places, filters)
    for "HWC". Any of them may be a transposed view: no array is copied as long as one of its last
    two axes has neighbours in memory.
    """
    if layout == CHW:
        np.matmul(weights, seen, out=result)
    else:
        np.matmul(seen.swapaxes(-1, -2), weights.swapaxes(-1, -2), out=result)


def matrix_of(output: NDArray[Any], layout: str, places: int) -> NDArray[Any]:
    """Return a view of a whole map as the result of a product, see `multiply`."""
    return output.reshape(-1, places) if layout == CHW else output.reshape(places, -1)


def part_of(
    matrix: NDArray[Any], layout: str, filters: tuple[int, int], places: tuple[int, int]
) -> NDArray[Any]:
    """Return some filters at some places of a result of a product, a view."""
    if layout == CHW:
        return matrix[filters[0] : filters[1], places[0] : places[1]]
    return matrix[places[0] : places[1], filters[0] : filters[1]]
