"""The matrices that take tiles into a domain where a convolution is a product for each point.

Winograd's are those of Toom and Cook, computed with fractions and rounded once; Fourier's make use
of the symmetry of the spectrum of real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidPlan

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
