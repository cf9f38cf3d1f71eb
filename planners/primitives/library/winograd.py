"""Convolution of tiles in the domain of Winograd or Fourier, along both axes or along rows only.

F(m, r) computes m outputs of a kernel of r taps from a tile of m + r - 1 inputs, such as 2 outputs of 3
taps from 4 inputs. Kernel and tile are transformed, multiplied point by point, and the products are
transformed back. As the tiles are short, a transform is a product with its matrix. The matrices of
Winograd are those of Toom and Cook, computed with fractions and rounded once; those of Fourier use the
symmetry of the spectrum of real numbers. Rounding errors grow with the tile: ROUNDING is the accepted
error in single precision, relative to the largest output.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016, section 4;
Mathieu, Henaff, LeCun, Fast Training of Convolutional Networks through FFTs, ICLR 2014, for the
Fourier domain; Anderson and Gregg, Optimal DNN Primitive Selection with Partitioned Boolean Quadratic
Programming, CGO 2018, section 4, which has one-dimensional forms among its primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    Primitive,
    compiled,
    float_bytes,
)
from planners.primitives.profile import CHW, LAYOUTS

ROUNDING = 1e-4  # of the largest output, at most, by any primitive
MOST_PARAMETER_BYTES = 1 << 28  # of transformed weights; larger ones take more time than they save
STRIP_TILES = 2  # rows of tiles in a strip
POINTS = tuple(Fraction(*point) for point in ((0,), (1,), (-1,), (2,), (-2,), (1, 2), (-1, 2)))


class Transform(NamedTuple):
    """A transform along one axis: m results of a kernel of r elements from m + r - 1 inputs.

    With p points, the results are the real part of back @ ((kernel @ weights) * (forth @ tile)).
    The matrices are arrays, or tuples of fractions.
    """

    forth: Any  # (p, m + r - 1)
    kernel: Any  # (p, r), in double precision
    back: Any  # (m, p)


class Domain(NamedTuple):
    """The transforms of a convolution down (`row`) and across (`column`), and the number of tiles."""

    row: Transform
    column: Transform
    tile_rows: int
    tiles: int  # in a row

    @property
    def points(self) -> int:
        """Points of a transformed tile, each with a product of matrices."""
        return len(self.row.forth) * len(self.column.forth)

    @property
    def line(self) -> int:
        """Input columns that a row of tiles covers."""
        return len(self.column.back) * (self.tiles - 1) + int(self.column.forth.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of transformed elements."""
        dtype: np.dtype[Any] = self.column.forth.dtype
        return dtype

    @property
    def floats(self) -> int:
        """Floats in a transformed element: 1, or 2 of a complex number."""
        return int(self.dtype.itemsize) // ELEMENT_BYTES


def arrays_in(workspace: Array, domain: Domain, *dims: tuple[int, ...]) -> Iterator[NDArray[Any]]:
    """Yield successive arrays of transformed elements of these dims, cut from a workspace."""
    first = 0
    for array_dims in dims:
        end = first + prod(array_dims) * domain.floats
        yield workspace[first:end].view(domain.dtype).reshape(array_dims)
        first = end


Transforms = Callable[[ConvolutionSizes], tuple[Transform, Transform]]  # along rows, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed(Primitive):
    """Transform the input, multiply point by point, transform the products back.

    condition: on the kernel, in addition to a dense convolution.
    """

    transforms: Transforms
    condition: Callable[[ConvolutionSizes], bool]

    def applies(self, sizes: ConvolutionSizes) -> bool:
        if not (sizes.is_dense and self.condition(sizes)):
            return False
        return self.parameter_bytes(sizes) <= MOST_PARAMETER_BYTES

    def parameter_bytes(self, sizes: ConvolutionSizes) -> int:
        domain = self.domain(sizes)
        return float_bytes(domain.points * sizes.filters * self.depth(sizes) * domain.floats)

    def depth(self, sizes: ConvolutionSizes) -> int:
        """Return the number of weights of a filter at a point."""
        return sizes.channels

    def domain(self, sizes: ConvolutionSizes) -> Domain:
        """Return the domain in which the transforms cover the whole output."""
        row, column = self.transforms(sizes)
        tiles = -(-sizes.columns // len(column.back))
        return Domain(row, column, -(-sizes.rows // len(row.back)), tiles)

    def line(self, sizes: ConvolutionSizes, domain: Domain) -> int:
        """Return the elements of the scratch row of both transforms, of one or of all channels."""
        forth = domain.line * (1 if self.input_layout == CHW else sizes.channels)
        width = domain.tiles if self.output_layout == CHW else sizes.filters
        return max(forth, len(domain.column.forth) * width)

    def forwards(
        self,
        sizes: ConvolutionSizes,
        domain: Domain,
        source: Array,
        first: int,
        line: NDArray[Any],
        tiles: NDArray[Any],
    ) -> None:
        """Transform the input of rows of tiles from `first` on; line: scratch.

        tiles: the result, by points, then in the input's layout; its size gives the number of rows.
        """
        spacing = (len(domain.row.back), len(domain.column.back))
        top, left = sizes.steps.padding
        corner = (top - first * spacing[0], left)
        arguments = (source, domain.row.forth, domain.column.forth, spacing, corner)
        near, forwards = line[: domain.line], kernels.forwards_by_channels
        if self.input_layout != CHW:
            near = line[: domain.line * sizes.channels].reshape(domain.line, sizes.channels)
            forwards = kernels.forwards_by_places
        compiled(forwards, sizes.largest)(*arguments, near, tiles)

    def backwards(
        self, domain: Domain, products: NDArray[Any], first: int, line: NDArray[Any], output: Array
    ) -> None:
        """Transform products back to the output of rows of tiles from `first` on; line: scratch.

        products: by points, then in the output's layout.
        """
        is_by_maps = self.output_layout == CHW
        points, width = len(domain.column.forth), products.shape[4]
        near = line[: points * width].reshape(points, width)
        backwards = kernels.backwards_by_channels if is_by_maps else kernels.backwards_by_places
        arguments = (domain.row.back, domain.column.back, first)
        compiled(backwards)(products, *arguments, near, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled(Transformed):
    """Transform tiles along both axes, all rows of tiles or a strip of them at a time."""

    is_in_strips: bool = False

    def applies(self, sizes: ConvolutionSizes) -> bool:
        if not Transformed.applies(self, sizes):
            return False
        return not self.is_in_strips or self.domain(sizes).tile_rows > STRIP_TILES

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        domain = self.domain(sizes)
        tiles = domain.points * self.strip(domain) * domain.tiles
        elements = tiles * (sizes.channels + sizes.filters) + self.line(sizes, domain)
        return float_bytes(elements * domain.floats)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        """Return (points, filters, channels); computed in double precision, rounded once."""
        domain = self.domain(sizes)
        weights = np.einsum("pi,qj,fcij->pqfc", domain.row.kernel, domain.column.kernel, kernel)
        rounded = np.ascontiguousarray(weights.astype(domain.dtype))
        return rounded.reshape(domain.points, *kernel.shape[:2])

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        domain = self.domain(sizes)
        shape, points = (len(domain.row.forth), len(domain.column.forth)), domain.points
        channels, filters, strip = sizes.channels, sizes.filters, self.strip(domain)
        is_read_by_maps, is_written_by_maps = self.input_layout == CHW, self.output_layout == CHW
        for first in range(0, domain.tile_rows, strip):
            grid = min(strip, domain.tile_rows - first), domain.tiles
            places = prod(grid)
            line, tiles, products = arrays_in(
                workspace,
                domain,
                (self.line(sizes, domain),),
                (*shape, channels, *grid) if is_read_by_maps else (*shape, *grid, channels),
                (points, filters, places) if is_written_by_maps else (points, places, filters),
            )
            if is_read_by_maps:
                windows = tiles.reshape(points, channels, places)
            else:
                windows = tiles.reshape(points, places, channels).swapaxes(1, 2)
            self.forwards(sizes, domain, source, first, line, tiles)
            multiply(kernel, windows, self.output_layout, products)
            dims = (filters, *grid) if is_written_by_maps else (*grid, filters)
            self.backwards(domain, products.reshape(*shape, *dims), first, line, output)

    def strip(self, domain: Domain) -> int:
        return min(STRIP_TILES, domain.tile_rows) if self.is_in_strips else domain.tile_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledRows(Transformed):
    """Transform input rows along columns, multiply for each output row, transform back.

    An output row is the sum over the kernel's rows of products of transformed tiles, which are
    adjacent in memory, as in MEC.
    """

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        domain = self.domain(sizes)
        tiles = (sizes.rows - 1 + sizes.kernel[0]) * sizes.channels + sizes.filters
        elements = domain.points * domain.tiles * tiles + self.line(sizes, domain)
        return float_bytes(elements * domain.floats)

    def depth(self, sizes: ConvolutionSizes) -> int:
        return sizes.kernel[0] * sizes.channels

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        """Return (points, filters, rows of the kernel with all channels)."""
        domain = self.domain(sizes)
        across = domain.column.kernel.T
        weights = (kernel.transpose(0, 2, 1, 3) @ across).transpose(3, 0, 1, 2)
        rounded = np.ascontiguousarray(weights.astype(domain.dtype))
        return rounded.reshape(domain.points, sizes.filters, self.depth(sizes))

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        domain, channels, depth = self.domain(sizes), sizes.channels, self.depth(sizes)
        rows, points, count = sizes.rows - 1 + sizes.kernel[0], domain.points, domain.tiles
        is_by_maps, filters = self.output_layout == CHW, sizes.filters
        line, tiles, products = arrays_in(
            workspace,
            domain,
            (self.line(sizes, domain),),
            (1, points, rows, channels, count)
            if self.input_layout == CHW
            else (1, points, count, rows, channels),
            (points, filters, count) if is_by_maps else (points, count, filters),
        )
        if self.input_layout == CHW:
            windows = tiles.reshape(points, rows * channels, count)
        else:
            windows = tiles.reshape(points, count, rows * channels).swapaxes(1, 2)
        self.forwards(sizes, domain, source, 0, line, tiles.transpose(0, 1, 3, 2, 4))
        dims = (filters, 1, count) if is_by_maps else (1, count, filters)
        for row in range(sizes.rows):
            window = windows[:, row * channels : row * channels + depth]
            multiply(kernel, window, self.output_layout, products)
            self.backwards(domain, products.reshape(1, points, *dims), row, line, output)


def toom_cook(results: int, taps: int) -> Transform:
    """Return the matrices of F(results, taps) with POINTS and the point at infinity.

    Correlation is the transpose of the product of two polynomials, which Toom and Cook interpolate from
    its values at points. Raises InvalidPlan for a tile of more points.
    Source: Blahut, Fast Algorithms for Signal Processing, 2010, sections 5.2 and 5.3.
    """
    if results < 1 or taps < 1 or results + taps - 2 > len(POINTS):
        raise InvalidPlan(
            f"F({results}, {taps}) wants more points than the {len(POINTS)} there are"
        )
    points = POINTS[: results + taps - 2]
    zero, unit = Fraction(0), Fraction(1)
    forth, kernel, back = [], [], []
    for point in points:
        roots = [root for root in points if root != point]
        scale = prod((point - root for root in roots), start=unit)
        forth.append((*_with_roots(roots), zero))
        kernel.append(tuple(point**power / scale for power in range(taps)))
        back.append(tuple(point**power for power in range(results)))
    forth.append(_with_roots(points))
    # The value at infinity is the coefficient of the highest power.
    kernel.append((*(zero,) * (taps - 1), unit))
    back.append((*(zero,) * (results - 1), unit))
    return Transform(tuple(forth), tuple(kernel), tuple(zip(*back, strict=True)))


def _with_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of the product of (x - root), from the lowest power."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [
            high - root * low
            for high, low in zip(shifted, [*coefficients, Fraction(0)], strict=True)
        ]
    return tuple(coefficients)


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

    The real part of the inverse transform is right if the other points mirror them: so in the last axis
    of a real map, when the axes before it have been transformed back.
    """
    points = np.arange(tile // 2 + 1 if is_half else tile)
    waves = np.exp(-2j * np.pi * np.outer(points, np.arange(tile)) / tile)
    counts = np.where((points == 0) | (points * 2 == tile) | (not is_half), 1, 2)
    results = tile - taps + 1
    back = (waves.conj() * counts[:, None] / tile).T[:results]
    return Transform(
        waves.astype(np.complex64), waves[:, :taps].conj(), np.ascontiguousarray(back, np.complex64)
    )


def _winograd(results: int, taps: int) -> dict[str, Any]:
    return {
        "transforms": lambda _: (winograd(results, taps), winograd(results, taps)),
        "condition": lambda sizes: sizes.kernel == (taps, taps),
    }


def _fourier(tile: int) -> dict[str, Any]:
    def transforms(sizes: ConvolutionSizes) -> tuple[Transform, Transform]:
        down, across = sizes.kernel
        return fourier(tile, down, is_half=False), fourier(tile, across, is_half=True)

    def condition(sizes: ConvolutionSizes) -> bool:
        return sizes.kernel != (1, 1) and max(sizes.kernel) <= tile // 2 + 1

    return {"name": f"fourier {tile}x{tile}", "transforms": transforms, "condition": condition}


def _winograd_rows(results: int, taps: int) -> dict[str, Any]:
    return {
        "name": f"winograd rows F({results}, {taps})",
        "transforms": lambda _: _along_rows(winograd(results, taps)),
        "condition": lambda sizes: sizes.kernel[1] == taps,
    }


def _fourier_rows(tile: int) -> dict[str, Any]:
    return {
        "name": f"fourier rows {tile}",
        "transforms": lambda sizes: _along_rows(fourier(tile, sizes.kernel[1], is_half=True)),
        "condition": lambda sizes: 1 < sizes.kernel[1] <= tile // 2 + 1,
    }


def _along_rows(column: Transform) -> tuple[Transform, Transform]:
    return _identity(column.forth.dtype), column


@lru_cache(maxsize=2)
def _identity(dtype: np.dtype[Any]) -> Transform:
    """Return the identity for elements of a type."""
    return Transform(np.ones((1, 1), dtype), np.ones((1, 1), np.float64), np.ones((1, 1), dtype))


TILED = (
    *(
        Tiled(
            name=f"winograd F({results}x{results}, {taps}x{taps}){', strips' * is_in_strips}",
            input_layout=source,
            output_layout=target,
            is_in_strips=is_in_strips,
            **_winograd(results, taps),
        )
        for (results, taps), is_in_strips, source, target in product(
            ((2, 3), (4, 3), (2, 5)), (False, True), LAYOUTS, LAYOUTS
        )
    ),
    *(
        Tiled(input_layout=source, output_layout=target, **_fourier(tile))
        for tile, source, target in product((8, 16), LAYOUTS, LAYOUTS)
    ),
)
TILED_ROWS = tuple(
    TiledRows(input_layout=source, output_layout=target, **kind)
    for kind, source, target in product(
        (
            *(_winograd_rows(*size_pair) for size_pair in ((2, 3), (4, 3), (2, 5), (4, 5))),
            _fourier_rows(16),
        ),
        LAYOUTS,
        LAYOUTS,
    )
)
