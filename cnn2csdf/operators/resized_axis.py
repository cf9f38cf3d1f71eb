"""Places of a resized axis in the input, computed as ONNX Runtime computes them.

The nearest place is found in single precision, rounding errors included: at a tie they decide, and
a network that was trained and deployed has them. Compared with ONNX Runtime 1.31.1, which takes a
coordinate within a millionth of a half as the half. Linear interpolation is exact instead, since
there a rounding error moves a result by as little.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Reals = NDArray[np.float32]

HALF = np.float32(0.5)
TIE = np.float32(1e-6)  # how far from a half a coordinate still counts as one


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """An axis of a resize, rows or columns, with its places before and after.

    scale: output places for an input place, where it is not just the size over the length.
    """

    length: int  # of the input
    size: int  # of the output
    scale: float | None = None
    coordinates: str = "asymmetric"
    rounding: str = "floor"

    def nearest(self, places: Places) -> Places:
        """Return the input place nearest to each output place."""
        found = self._rounded(self._single_precision(places.astype(np.float32)))
        clipped: Places = np.clip(found, 0, self.length - 1).astype(np.int64)
        return clipped

    def neighbours(self, places: Places) -> tuple[Places, Places, Reals]:
        """Return the input places before and behind output places, and how far from the first.

        Clipped to the first and the last place.
        """
        above, below = self._exact(places)
        above = np.clip(above, 0, (self.length - 1) * below)
        before, behind = above // below, -(-above // below)
        return before, behind, ((above - before * below) / below).astype(np.float32)

    def binary_neighbours(self, places: Places) -> tuple[Places, Places, Places]:
        """Return the input places before and behind, and how far from the first in 1024ths.

        The step from place to place is rounded to 1024ths, as TensorFlow Lite Micro rounds it.
        """
        step = (2**10 * self.length + self.size // 2) // self.size
        if self.coordinates == "align corners" and self.size > 1:
            last = self.size - 1
            step = (2**10 * (self.length - 1) + last // 2) // last
        found = places * step
        if self.coordinates == "half pixel":
            found = found + step // 2 - 2**9
        before = np.maximum(found // 2**10, 0)
        behind = np.clip(-(-found // 2**10), 0, self.length - 1)
        before = np.minimum(before, self.length - 1)
        return before, behind, found - 2**10 * before

    def cubic_neighbours(
        self, places: Places, coefficient: float, *, skips_outside: bool
    ) -> tuple[Places, Reals]:
        """Return the four input places around each output place, and the weight of each.

        Places are clipped to the first and the last; skips_outside: those beyond weigh nothing.
        Source: Keys, Cubic Convolution Interpolation for Digital Image Processing, IEEE Trans.
        ASSP 29(6), 1981, equation 8.
        """
        above, below = self._exact(places)
        first = above // below
        beyond = ((above - first * below) / below)[:, None]
        taps = np.arange(-1, 3)
        weights = _cubic(np.abs(beyond - taps), coefficient)
        around = first[:, None] + taps
        if skips_outside:
            weights = np.where((around >= 0) & (around < self.length), weights, 0.0)
            weights /= weights.sum(axis=1, keepdims=True)
        return np.clip(around, 0, self.length - 1), weights.astype(np.float32)

    def _single_precision(self, places: Reals) -> Reals:
        scale = np.float32(self.scale or np.float32(self.size) / np.float32(self.length))
        match self.coordinates:
            case "align corners":
                last = np.float32(max(self.size - 1, 1))
                return places * np.float32(self.length - 1) / last
            case "pytorch half pixel" if self.size == 1:
                return places * np.float32(0)
            case "half pixel" | "pytorch half pixel":
                return (places + HALF) / scale - HALF
            case "asymmetric by ratio":  # this and the next two as TensorFlow Lite
                return places * (np.float32(self.length) / np.float32(self.size))
            case "half pixel by ratio":
                return (places + HALF) * (np.float32(self.length) / np.float32(self.size))
            case "align corners by ratio":
                last = np.float32(max(self.size - 1, 1))
                return places * (np.float32(self.length - 1) / last)
        return places / scale

    def _rounded(self, coordinates: Reals) -> Reals:
        match self.rounding:
            case "floor":
                return np.floor(coordinates)
            case "ceil":
                return np.ceil(coordinates)
            case "half up":
                low = np.floor(coordinates)
                return low + (coordinates - low >= HALF)
            case "ceil where smaller":
                return np.ceil(coordinates) if self.size < self.length else np.floor(coordinates)
        low = np.floor(coordinates)
        beyond = coordinates - low
        is_tie = np.abs(beyond - HALF) < TIE
        at_tie = np.float32(self.rounding == "prefer ceil")
        return low + np.where(is_tie, at_tie, (beyond > HALF).astype(np.float32))

    def _exact(self, places: Places) -> tuple[Places, int]:
        """Return the places of the output in the input: numerators, and one denominator."""
        scale = Fraction(self.size, self.length)
        if self.scale is not None:
            scale = Fraction(float(np.float32(self.scale)))
        match self.coordinates:
            case "align corners":
                return places * (self.length - 1), max(self.size - 1, 1)
            case "pytorch half pixel" if self.size == 1:
                return places * 0, 1
            case "half pixel" | "pytorch half pixel":
                return (2 * places + 1) * scale.denominator - scale.numerator, 2 * scale.numerator
        return places * scale.denominator, scale.numerator


def _cubic(distance: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """The weight of a place that far away."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
