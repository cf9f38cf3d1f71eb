"""Convolution of tiles in a transformed domain: Winograd's and Fourier's, along both axes.

Results differ from exact ones by rounding, which grows with the tile: in single precision, relative
to the largest output, ROUNDING bounds what tests and runs accept.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016, section 4;
Mathieu, Henaff, LeCun, Fast Training of Convolutional Networks through FFTs, ICLR 2014, for the
Fourier domain. As the tiles are short, a transform is a product with its matrix.

Convolution along rows in a transformed domain: Winograd's and Fourier's in one dimension.

Each input row is cut into tiles and transformed along itself; an output row is the sum over the
kernel's rows of products of transformed tiles, which lie together, as in MEC.

Source: Anderson and Gregg, Optimal DNN Primitive Selection with Partitioned Boolean Quadratic
Programming, CGO 2018, section 4, which has one-dimensional forms among its primitives.

The matrices that take tiles into a domain where a convolution is a product for each point.

Winograd's are those of Toom and Cook, computed with fractions and rounded once; Fourier's make use
of the symmetry of the spectrum of real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.weights import Array
from csdf.errors import InvalidPlan
from planners.kernels import convolution_tiles as kernels
from planners.primitives.library.im2col import multiply
from planners.primitives.library.primitive import (
    ELEMENT_BYTES,
    ConvolutionSizes,
    Prepared,
    compiled,
    contiguous,
    float_bytes,
)
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


def _winograd_rows(results: int, taps: int) -> dict[str, Any]:
    return {
        "name": f"winograd rows F({results}, {taps})",
        "transform": lambda _: winograd(results, taps),
        "condition": lambda columns: columns == taps,
    }


def _fourier_rows(tile: int) -> dict[str, Any]:
    return {
        "name": f"fourier rows {tile}",
        "transform": lambda columns: fourier(tile, columns, is_half=True),
        "condition": lambda columns: 1 < columns <= tile // 2 + 1,
    }


TILED_ROWS = tuple(
    TiledRows(input_layout=source, output_layout=target, **kind)
    for kind, source, target in product(
        (
            _winograd_rows(2, 3),
            _winograd_rows(4, 3),
            _winograd_rows(2, 5),
            _winograd_rows(4, 5),
            _fourier_rows(16),
        ),
        LAYOUTS,
        LAYOUTS,
    )
)


POINTS = tuple(Fraction(*one) for one in ((0,), (1,), (-1,), (2,), (-2,), (1, 2), (-1, 2)))

Matrix = tuple[tuple[Fraction, ...], ...]


class Transform(NamedTuple):
    """Along one axis: m results of a kernel of r elements, from a tile of m + r - 1.

    With p points, results = back @ ((kernel @ weights) * (forth @ tile)), of which the real part.
    """

    forth: NDArray[Any]  # (p, m + r - 1)
    kernel: NDArray[Any]  # (p, r), in double precision
    back: NDArray[Any]  # (m, p)


class ToomCook(NamedTuple):
    """The matrices of F(m, r) as fractions, see Transform."""

    forth: Matrix
    kernel: Matrix
    back: Matrix


def toom_cook(results: int, taps: int) -> ToomCook:
    """Return the matrices of F(results, taps) with small points and the one at infinity.

    Correlation is the transpose of the product of two polynomials, which Toom and Cook find from
    its values at points. Raises InvalidPlan for a tile of more points than there are.
    Source: Blahut, Fast Algorithms for Signal Processing, 2010, sections 5.2 and 5.3.
    """
    if results < 1 or taps < 1 or results + taps - 2 > len(POINTS):
        raise InvalidPlan(
            f"F({results}, {taps}) wants more points than the {len(POINTS)} there are"
        )
    points = POINTS[: results + taps - 2]
    last = (Fraction(0),)
    others = [[one for one in points if one != point] for point in points]
    scales = [
        prod((point - one for one in rest), start=Fraction(1))
        for point, rest in zip(points, others, strict=True)
    ]
    back_columns = [*(_powers(point, results) for point in points), _unit(results)]
    return ToomCook(
        forth=(*((*_with_roots(rest), *last) for rest in others), _with_roots(points)),
        kernel=(
            *(
                tuple(power / scale for power in _powers(point, taps))
                for point, scale in zip(points, scales, strict=True)
            ),
            _unit(taps),
        ),
        back=tuple(zip(*back_columns, strict=True)),
    )


def _powers(point: Fraction, count: int) -> tuple[Fraction, ...]:
    return tuple(point**power for power in range(count))


def _unit(count: int) -> tuple[Fraction, ...]:
    """Return what the point at infinity sees: the highest power alone."""
    return (*(Fraction(0),) * (count - 1), Fraction(1))


def _with_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients, from that of the lowest power, of the product of (x - root)."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [
            high - root * low for high, low in zip(shifted, [*found, Fraction(0)], strict=True)
        ]
    return tuple(found)


@lru_cache(maxsize=64)
def winograd(results: int, taps: int) -> Transform:
    """Return F(results, taps) in single precision."""
    exact = toom_cook(results, taps)
    return Transform(
        np.array(exact.forth, np.float32),
        np.array(exact.kernel, np.float64),
        np.array(exact.back, np.float32),
    )


@lru_cache(maxsize=64)
def fourier(tile: int, taps: int, *, is_half: bool) -> Transform:
    """Return the discrete Fourier transform of tiles; is_half: keep the points 0 to tile / 2 only.

    The real part of what comes back is right if the other points mirror them: so in the last axis
    of a real map, when the axes before it have been transformed back.
    """
    points = np.arange(tile // 2 + 1 if is_half else tile)
    waves = np.exp(-2j * np.pi * np.outer(points, np.arange(tile)) / tile)
    counts = np.where((points == 0) | (points * 2 == tile) | (not is_half), 1, 2)
    results = tile - taps + 1
    back = (waves.conj() * counts[:, None] / tile).T[:results]
    return Transform(
        waves.astype(np.complex64),
        waves[:, :taps].conj(),
        np.ascontiguousarray(back, np.complex64),
    )


@lru_cache(maxsize=2)
def identity(dtype: np.dtype[Any]) -> Transform:
    """Return the transform that changes nothing, for elements of that type."""
    return Transform(np.ones((1, 1), dtype), np.ones((1, 1), np.float64), np.ones((1, 1), dtype))
