"""im2col and im2row: what windows see is copied out as a matrix, which the weights multiply.

A column (im2col) or a row (im2row) holds what one window sees. With strips only so many output rows
are lowered at a time as STRIP_BYTES hold, at least one.

Source: Chellapilla, Puri, Simard, High Performance Convolutional Neural Networks for Document
Processing, IWFHR 2006, section 3.
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
    by_channels,
    by_places,
    compiled,
    contiguous,
    float_bytes,
)
from planners.primitives.library.products import matrix_of, multiply, part_of
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
