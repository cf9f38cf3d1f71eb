"""Convolution along rows in a transformed domain: Winograd's and Fourier's in one dimension.

Each input row is cut into tiles and transformed along itself; an output row is the sum over the
kernel's rows of products of transformed tiles, which lie together, as in MEC.

Source: Anderson and Gregg, Optimal DNN Primitive Selection with Partitioned Boolean Quadratic
Programming, CGO 2018, section 4, which has one-dimensional forms among its primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from numpy.typing import NDArray

from cnn2csdf.weights import Array
from planners.kernels import convolution_tiles as kernels
from planners.primitives.library.convolution import ConvolutionSizes
from planners.primitives.library.primitive import Prepared, compiled, contiguous, float_bytes
from planners.primitives.library.products import multiply
from planners.primitives.library.tiled import (
    MOST_PARAMETER_BYTES,
    Cells,
    Domain,
    domain_of,
    line_elements,
)
from planners.primitives.library.transforms import Transform, fourier, identity, winograd
from planners.primitives.profile import CHW, LAYOUTS


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledRows:
    """Transform input rows, multiply for each output row, transform the products back."""

    name: str
    input_layout: str
    output_layout: str
    transform: Callable[[int], Transform]  # for a kernel of so many columns
    condition: Callable[[int], bool]  # on the columns of the kernel

    def applies(self, sizes: ConvolutionSizes) -> bool:
        if not (sizes.is_dense and self.condition(sizes.kernel[1])):
            return False
        return self.parameter_bytes(sizes) <= MOST_PARAMETER_BYTES

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        domain = self._domain(sizes)
        tiles = _rows(sizes) * sizes.channels + sizes.filters
        elements = domain.points * domain.tiles * tiles + self._line(sizes, domain)
        return float_bytes(elements * domain.floats)

    def parameter_bytes(self, sizes: ConvolutionSizes) -> int:
        domain = self._domain(sizes)
        taps = sizes.kernel[0] * sizes.channels
        return float_bytes(domain.points * sizes.filters * taps * domain.floats)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        """Return (points, filters, rows of the kernel with all channels)."""
        domain = self._domain(sizes)
        across = domain.column.kernel.T
        weights = (kernel.transpose(0, 2, 1, 3) @ across).transpose(3, 0, 1, 2)
        taps = sizes.kernel[0] * sizes.channels
        return contiguous(weights.astype(domain.dtype)).reshape(domain.points, sizes.filters, taps)

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        workspace: Array,
        output: Array,
    ) -> None:
        domain = self._domain(sizes)
        cells = Cells(workspace, domain)
        line = cells.take(self._line(sizes, domain))
        seen = self._forwards(sizes, domain, source, line, cells)
        taps = sizes.kernel[0] * sizes.channels
        dims = (sizes.filters, domain.tiles)
        products = cells.take(domain.points, *(dims if self.output_layout == CHW else dims[::-1]))
        for row in range(sizes.rows):
            first = row * sizes.channels
            multiply(prepared, seen[:, first : first + taps], self.output_layout, products)
            self._write(sizes, domain, products, row, line, output)

    def _forwards(
        self,
        sizes: ConvolutionSizes,
        domain: Domain,
        source: Array,
        line: NDArray[Any],
        cells: Cells,
    ) -> NDArray[Any]:
        """The transformed tiles of all input rows: (points, rows with all channels, tiles)."""
        rows, channels, points = _rows(sizes), sizes.channels, domain.points
        spacing = (1, len(domain.column.back))
        known = (source, domain.row.forth, domain.column.forth, spacing, sizes.steps[4:], 0)
        if self.input_layout == CHW:
            tiles = cells.take(1, points, rows, channels, domain.tiles)
            compiled(kernels.forwards_by_channels, sizes.largest)(
                *known, line[: domain.line], tiles.transpose(0, 1, 3, 2, 4)
            )
            return tiles.reshape(points, rows * channels, domain.tiles)
        tiles = cells.take(1, points, domain.tiles, rows, channels)
        near = line[: domain.line * channels].reshape(domain.line, channels)
        compiled(kernels.forwards_by_places, sizes.largest)(
            *known, near, tiles.transpose(0, 1, 3, 2, 4)
        )
        return tiles.reshape(points, domain.tiles, rows * channels).swapaxes(1, 2)

    def _write(
        self,
        sizes: ConvolutionSizes,
        domain: Domain,
        products: NDArray[Any],
        row: int,
        line: NDArray[Any],
        output: Array,
    ) -> None:
        points = domain.points
        known = (domain.row.back, domain.column.back, row)
        if self.output_layout == CHW:
            tiles = products.reshape(1, points, sizes.filters, 1, domain.tiles)
            near = line[: points * domain.tiles].reshape(points, domain.tiles)
            compiled(kernels.backwards_by_channels)(tiles, *known, near, output)
            return
        tiles = products.reshape(1, points, 1, domain.tiles, sizes.filters)
        near = line[: points * sizes.filters].reshape(points, sizes.filters)
        compiled(kernels.backwards_by_places)(tiles, *known, near, output)

    def _domain(self, sizes: ConvolutionSizes) -> Domain:
        column = self.transform(sizes.kernel[1])
        return domain_of(sizes, identity(column.forth.dtype), column)

    def _line(self, sizes: ConvolutionSizes, domain: Domain) -> int:
        """Elements of a line of scratch, which both directions use."""
        return max(
            line_elements(domain.line, sizes.channels, self.input_layout),
            domain.points * line_elements(1, sizes.filters, self.output_layout, domain.tiles),
        )


def _rows(sizes: ConvolutionSizes) -> int:
    """Input rows, with their border, that windows see."""
    return sizes.rows - 1 + sizes.kernel[0]


def _winograd(results: int, taps: int) -> dict[str, Any]:
    return {
        "name": f"winograd rows F({results}, {taps})",
        "transform": lambda _: winograd(results, taps),
        "condition": lambda columns: columns == taps,
    }


def _fourier(tile: int) -> dict[str, Any]:
    return {
        "name": f"fourier rows {tile}",
        "transform": lambda columns: fourier(tile, columns, is_half=True),
        "condition": lambda columns: 1 < columns <= tile // 2 + 1,
    }


TILED_ROWS = tuple(
    TiledRows(input_layout=source, output_layout=target, **kind)
    for kind, source, target in product(
        (_winograd(2, 3), _winograd(4, 3), _winograd(2, 5), _winograd(4, 5), _fourier(16)),
        LAYOUTS,
        LAYOUTS,
    )
)
