"""A 1x1 convolution with stride one: the map itself is the matrix, and nothing is copied."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from cnn2csdf.weights import Array
from planners.primitives.library.convolution import ConvolutionSizes
from planners.primitives.library.primitive import PlainWeights, Prepared, contiguous
from planners.primitives.library.products import matrix_of, multiply
from planners.primitives.profile import CHW, LAYOUTS


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
