"""MEC: the windows of all rows share one lowered matrix, in which each output row has its part.

Lowered are the columns only: for each place in a row what a window sees of every input row. What
the windows of one output row see lies together there, and neighbouring output rows overlap.

Source: Cho and Brand, MEC: Memory-efficient Convolution for Deep Neural Network, ICML 2017,
section 3.1 and algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from cnn2csdf.weights import Array
from planners.kernels import convolution_layers as kernels
from planners.primitives.library.convolution import ConvolutionSizes
from planners.primitives.library.primitive import (
    PlainWeights,
    Prepared,
    compiled,
    contiguous,
    float_bytes,
)
from planners.primitives.library.products import multiply
from planners.primitives.profile import CHW, LAYOUTS


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
