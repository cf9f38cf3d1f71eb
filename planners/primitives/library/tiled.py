"""Convolution of tiles in a transformed domain: Winograd's and Fourier's, along both axes.

Results differ from exact ones by rounding, which grows with the tile: in single precision, relative
to the largest output, ROUNDING bounds what tests and runs accept.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016, section 4;
Mathieu, Henaff, LeCun, Fast Training of Convolutional Networks through FFTs, ICLR 2014, for the
Fourier domain. As the tiles are short, a transform is a product with its matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.weights import Array
from planners.kernels import convolution_tiles as kernels
from planners.primitives.library.convolution import ELEMENT_BYTES, ConvolutionSizes
from planners.primitives.library.primitive import Prepared, compiled, contiguous, float_bytes
from planners.primitives.library.products import multiply
from planners.primitives.library.transforms import Transform, fourier, winograd
from planners.primitives.profile import CHW, LAYOUTS

ROUNDING = 1e-4  # of the largest output, at most, by any primitive
MOST_PARAMETER_BYTES = 1 << 28  # transformed weights beyond that are not worth their time
STRIP_TILES = 2  # rows of tiles at a time in strips


class Domain(NamedTuple):
    """The transforms of one convolution along rows and columns, and how many tiles there are."""

    row: Transform
    column: Transform
    tile_rows: int
    tiles: int  # in a row

    @property
    def points(self) -> int:
        """Products of two tiles."""
        return len(self.row.forth) * len(self.column.forth)

    @property
    def line(self) -> int:
        """Input columns that a row of tiles covers."""
        return len(self.column.back) * (self.tiles - 1) + int(self.column.forth.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of transformed elements."""
        return self.column.forth.dtype

    @property
    def floats(self) -> int:
        """Numbers of single precision in a transformed element."""
        return int(self.dtype.itemsize) // ELEMENT_BYTES


def domain_of(sizes: ConvolutionSizes, row: Transform, column: Transform) -> Domain:
    """Return the domain in which these transforms cover the whole output."""
    return Domain(
        row, column, -(-sizes.rows // len(row.back)), -(-sizes.columns // len(column.back))
    )


def transformed_weights(domain: Domain, kernel: Array) -> NDArray[Any]:
    """Return (points, filters, channels); computed in double precision, rounded once."""
    weights = np.einsum("pi,qj,fcij->pqfc", domain.row.kernel, domain.column.kernel, kernel)
    return contiguous(weights.astype(domain.dtype)).reshape(domain.points, *kernel.shape[:2])


class Cells:
    """Cuts a workspace into arrays, one behind the other."""

    def __init__(self, workspace: Array, domain: Domain) -> None:
        self._left = workspace
        self._domain = domain

    def take(self, *dims: int) -> NDArray[Any]:
        """Return the next array of transformed elements."""
        count = prod(dims) * self._domain.floats
        taken, self._left = self._left[:count], self._left[count:]
        return taken.view(self._domain.dtype).reshape(dims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled:
    """Transform tiles of the input, multiply point by point, transform the products back.

    transforms: along rows and columns. condition: on the kernel, besides what any domain asks for.
    """

    name: str
    input_layout: str
    output_layout: str
    transforms: Callable[[ConvolutionSizes], tuple[Transform, Transform]]
    condition: Callable[[ConvolutionSizes], bool]
    is_in_strips: bool = False

    def applies(self, sizes: ConvolutionSizes) -> bool:
        if not (sizes.is_dense and self.condition(sizes)):
            return False
        if self.is_in_strips and self._domain(sizes).tile_rows <= STRIP_TILES:
            return False
        return self.parameter_bytes(sizes) <= MOST_PARAMETER_BYTES

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        domain = self._domain(sizes)
        tiles = domain.points * self._strip(domain) * domain.tiles
        elements = tiles * (sizes.channels + sizes.filters) + self._line(sizes, domain)
        return float_bytes(elements * domain.floats)

    def parameter_bytes(self, sizes: ConvolutionSizes) -> int:
        domain = self._domain(sizes)
        return float_bytes(domain.points * sizes.filters * sizes.channels * domain.floats)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        """Return (points, filters, channels)."""
        return transformed_weights(self._domain(sizes), kernel)

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        workspace: Array,
        output: Array,
    ) -> None:
        domain = self._domain(sizes)
        strip = self._strip(domain)
        for first in range(0, domain.tile_rows, strip):
            cells = Cells(workspace, domain)
            line = cells.take(self._line(sizes, domain))
            rows = min(strip, domain.tile_rows - first)
            seen = self._forwards(sizes, domain, source, (first, rows), line, cells)
            self._backwards(sizes, domain, prepared, seen, (first, rows), line, cells, output)

    def _forwards(
        self,
        sizes: ConvolutionSizes,
        domain: Domain,
        source: Array,
        part: tuple[int, int],
        line: NDArray[Any],
        cells: Cells,
    ) -> NDArray[Any]:
        """The transformed tiles of some rows of them: (points, channels, tiles)."""
        first, rows = part
        shape = (len(domain.row.forth), len(domain.column.forth))
        spacing = (len(domain.row.back), len(domain.column.back))
        known = (source, domain.row.forth, domain.column.forth, spacing, sizes.steps[4:], first)
        places = rows * domain.tiles
        if self.input_layout == CHW:
            tiles = cells.take(*shape, sizes.channels, rows, domain.tiles)
            compiled(kernels.forwards_by_channels, sizes.largest)(
                *known, line[: domain.line], tiles
            )
            return tiles.reshape(domain.points, sizes.channels, places)
        tiles = cells.take(*shape, rows, domain.tiles, sizes.channels)
        near = line[: domain.line * sizes.channels].reshape(domain.line, sizes.channels)
        compiled(kernels.forwards_by_places, sizes.largest)(*known, near, tiles)
        return tiles.reshape(domain.points, places, sizes.channels).swapaxes(1, 2)

    def _backwards(
        self,
        sizes: ConvolutionSizes,
        domain: Domain,
        prepared: Prepared,
        seen: NDArray[Any],
        part: tuple[int, int],
        line: NDArray[Any],
        cells: Cells,
        output: Array,
    ) -> None:
        """Multiply, and write the results of some rows of tiles."""
        first, rows = part
        shape = (len(domain.row.forth), len(domain.column.forth))
        if self.output_layout == CHW:
            products = cells.take(domain.points, sizes.filters, rows * domain.tiles)
            multiply(prepared, seen, CHW, products)
            tiles = products.reshape(*shape, sizes.filters, rows, domain.tiles)
            near = line[: shape[1] * domain.tiles].reshape(shape[1], domain.tiles)
            backwards = kernels.backwards_by_channels
        else:
            products = cells.take(domain.points, rows * domain.tiles, sizes.filters)
            multiply(prepared, seen, self.output_layout, products)
            tiles = products.reshape(*shape, rows, domain.tiles, sizes.filters)
            near = line[: shape[1] * sizes.filters].reshape(shape[1], sizes.filters)
            backwards = kernels.backwards_by_places
        compiled(backwards)(tiles, domain.row.back, domain.column.back, first, near, output)

    def _domain(self, sizes: ConvolutionSizes) -> Domain:
        return domain_of(sizes, *self.transforms(sizes))

    def _strip(self, domain: Domain) -> int:
        return min(STRIP_TILES, domain.tile_rows) if self.is_in_strips else domain.tile_rows

    def _line(self, sizes: ConvolutionSizes, domain: Domain) -> int:
        """Elements of a line of scratch, which both directions use."""
        return max(
            line_elements(domain.line, sizes.channels, self.input_layout),
            len(domain.column.forth)
            * line_elements(1, sizes.filters, self.output_layout, domain.tiles),
        )


def line_elements(places: int, channels: int, layout: str, tiles: int = 1) -> int:
    """Return the elements of a line of scratch: of one map, or of all of them side by side."""
    return places * (tiles if layout == CHW else channels)


def _is_square(taps: int) -> Callable[[ConvolutionSizes], bool]:
    def condition(sizes: ConvolutionSizes) -> bool:
        return sizes.kernel == (taps, taps)

    return condition


def _winograd(results: int, taps: int) -> Callable[[ConvolutionSizes], tuple[Transform, Transform]]:
    def transforms(_: ConvolutionSizes) -> tuple[Transform, Transform]:
        return winograd(results, taps), winograd(results, taps)

    return transforms


def _fourier(tile: int) -> Callable[[ConvolutionSizes], tuple[Transform, Transform]]:
    def transforms(sizes: ConvolutionSizes) -> tuple[Transform, Transform]:
        down, across = sizes.kernel
        return fourier(tile, down, is_half=False), fourier(tile, across, is_half=True)

    return transforms


def _fits(tile: int) -> Callable[[ConvolutionSizes], bool]:
    def condition(sizes: ConvolutionSizes) -> bool:
        return sizes.kernel != (1, 1) and max(sizes.kernel) <= tile // 2 + 1

    return condition


TILED = (
    *(
        Tiled(
            name=f"winograd F({results}x{results}, {taps}x{taps}){', strips' * is_in_strips}",
            input_layout=source,
            output_layout=target,
            transforms=_winograd(results, taps),
            condition=_is_square(taps),
            is_in_strips=is_in_strips,
        )
        for (results, taps), is_in_strips, source, target in product(
            ((2, 3), (4, 3), (2, 5)), (False, True), LAYOUTS, LAYOUTS
        )
    ),
    *(
        Tiled(
            name=f"fourier {tile}x{tile}",
            input_layout=source,
            output_layout=target,
            transforms=_fourier(tile),
            condition=_fits(tile),
        )
        for tile, source, target in product((8, 16), LAYOUTS, LAYOUTS)
    ),
)
