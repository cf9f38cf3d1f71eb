"""Feature maps that are padded, cropped or resized as by ONNX Runtime and TensorFlow Lite.

Nearest positions are computed in single precision, because rounding errors decide at ties, and a
trained network depends on them. They equal those of ONNX Runtime 1.31.1, which treats a coordinate
within a millionth of a half as a half. Linear interpolation in floating point has exact coordinates:
a rounding error of a coordinate changes a result only in proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.arrays import Array
from cnn2csdf.geometry import PaddedInterval, Pair
from cnn2csdf.integers import quantized
from cnn2csdf.operators.moves import Reshape
from cnn2csdf.operators.operator import (
    KernelLoops,
    KernelUse,
    Operator,
    RowsNeeded,
    map_dims,
    moved_elements,
    same_row,
    strided_row,
)
from cnn2csdf.operators.windows import framed
from cnn2csdf.part import OutputRows, Types
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = ["Pad", "Resize", "padding_steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Operator):
    """Rows and columns added around: top, left, bottom, right; a negative number crops.

    channels: added before the channels of the input, and after them; both are constant.
    """

    by_pixels = True
    allows_stored_integers = True
    padding: tuple[int, int, int, int]
    mode: str = "constant"  # or "reflect", "symmetric" (the border itself is repeated), "edge"
    value: float = 0.0
    channels: Pair = (0, 0)

    def reads_all(self, source: Shape, output: Shape) -> bool:
        return min(self.padding) >= 0

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        counts, (source,) = moved_elements(use.inputs, use.output), use.inputs
        counts["places outside"] = counts["places"] - source.height * source.width
        return f"Pad.{self.mode}", counts

    @property
    def zero_border(self) -> tuple[int, int, int, int] | None:
        adds_zeros = (self.mode, self.value, self.channels) == ("constant", 0.0, (0, 0))
        return self.padding if adds_zeros else None

    def with_border(self, padding: tuple[int, int, int, int]) -> Pad:
        return replace(self, padding=padding)

    def turned(self) -> Pad:
        top, left, bottom, right = self.padding
        return replace(self, padding=(left, top, right, bottom))

    @property
    def is_tileable(self) -> bool:
        return self.mode == "constant" and min(self.padding) >= 0

    def __post_init__(self) -> None:
        if min(self.channels) < 0 or (any(self.channels) and self.mode != "constant"):
            raise InvalidNetwork(
                f"padding of channels by {self.channels} in mode {self.mode!r}; expected amounts of "
                "at least 0 in mode 'constant'"
            )

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        top, left, bottom, right = self.padding
        return (channels + sum(self.channels), height + top + bottom, width + left + right)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row itself; reflected rows come back from below, so all are needed."""
        top, bottom = self.padding[0], self.padding[2]
        if self.mode == "constant" or top <= 0 >= bottom:
            return strided_row(-top)
        last = inputs[index].rows - 1
        is_edge = self.mode == "edge"
        return (lambda row: same_row(min(max(row - top, 0), last))) if is_edge else None

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the rows of the part; what is added is stored as the value is."""
        if types.output is None or set(types.inputs) != {types.output}:
            return super(Pad, self).computed_in_integers(part, types)
        fill = quantized(np.array(self.value), types.output)
        return replace(self, value=int(fill)).computed(part)

    def computed(self, part: OutputRows) -> Array:
        """Return the rows of the part with rows and columns added around, or cut off."""
        source, (top, left) = part.inputs[0], self.padding[:2]
        height, width = source.shape.height, source.shape.width
        if self.mode == "constant":
            rows = PaddedInterval(part.begin - top, part.end - top, height)
            columns = PaddedInterval(-left, part.shape.width - left, width)
            stored = None if part.types is None else part.types.output
            dtype = "float32" if stored is None else stored.element.value
            cells = framed(source, rows, columns, fill=self.value, dtype=dtype)
            if not any(self.channels):
                return cells
            return np.pad(cells, (self.channels, (0, 0), (0, 0)), constant_values=self.value)
        row_positions = np.arange(part.begin, part.end) - top
        column_positions = np.arange(part.shape.width) - left
        return _picked(
            part, self._inside(row_positions, height), self._inside(column_positions, width)
        )

    def _inside(self, positions: Places, length: int) -> Places:
        """Return the positions of an axis that are read for positions beyond its ends.

        Example of length 4: "edge" 0 0 | 0 1 2 3 | 3 3, "reflect" 2 1 | 0 1 2 3 | 2 1, "symmetric"
        1 0 | 0 1 2 3 | 3 2.
        """
        if self.mode == "edge":
            return np.clip(positions, 0, length - 1)
        # Mirrored positions are periodic: 0 1 2 3 2 1 in "reflect", 0 1 2 3 3 2 1 0 in "symmetric".
        repeats_border = int(self.mode == "symmetric")
        period = max(2 * length - 2 * (1 - repeats_border), 1)
        in_period = positions % period
        return np.minimum(in_period, period - repeats_border - in_period)


def padding_steps(
    dims: Dims, amounts: Sequence[Pair], *, mode: str = "constant", value: float = 0.0
) -> list[Operator]:
    """Return the operators that pad a tensor of any rank: elements before and after along each axis.

    Neighbouring axes without padding count as a single axis, and the tensor is viewed as a feature
    map meanwhile. Where more than three axes are left, axes are padded in sequence.
    """
    sizes: list[int] = []
    added: list[Pair] = []
    for size, amount in zip(dims, amounts, strict=True):
        if sizes and not any(amount) and not any(added[-1]) and len(dims) != 3:
            sizes[-1] *= size
        else:
            sizes.append(size)
            added.append(amount)
    if len(sizes) > 3:
        steps: list[Operator] = []
        for axis, amount in enumerate(amounts):
            if any(amount):
                alone = [(0, 0)] * len(dims)
                alone[axis] = amount
                steps += padding_steps(dims, alone, mode=mode, value=value)
                dims = (*dims[:axis], dims[axis] + sum(amount), *dims[axis + 1 :])
        return steps
    missing = 3 - len(sizes)
    sizes, added = [1] * missing + sizes, [(0, 0)] * missing + added
    channels, rows, columns = added
    padding = (rows[0], columns[0], rows[1], columns[1])
    pad = Pad(padding=padding, mode=mode, value=value, channels=channels)
    if len(dims) == 3:
        return [pad]
    padded = tuple(size + sum(amount) for size, amount in zip(dims, amounts, strict=True))
    return [Reshape(dims=tuple(sizes)), pad, Reshape(dims=padded)]


IN_1024THS, SINGLE_PRECISION = "in 1024ths", "single precision"  # shares of integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Operator):
    """Feature maps interpolated to another height and width.

    coordinates: how to compute the input coordinate of an output position: "asymmetric", "half pixel",
    "pytorch half pixel", "align corners"; or, for "nearest", "asymmetric by ratio", "half pixel by
    ratio" or "align corners by ratio", as TensorFlow Lite computes them.
    rounding: its meaning depends on the function. For "nearest", the rounding of a coordinate: "floor",
    "ceil", "ceil where smaller" (floor where the output is larger), or to the nearest with ties up
    ("half up", "prefer ceil") or down ("prefer floor"); for the latter two a coordinate within TIE of
    a half is a tie. For quantised "linear" layers in fixed point, the precision of interpolation
    weights: "in 1024ths" (int8) or "single precision" (uint8), as in TensorFlow Lite. For other layers
    it has no effect, and is "floor".
    scales: vertical and horizontal, where they differ from the output size over the input size;
    floats, since the nearest position is found in single precision. cubic: the coefficient of cubic
    interpolation; skips_outside: whether positions beyond the ends have weight 0 in it.
    """

    by_pixels = True
    size: Pair
    function: str  # "nearest", "linear" or "cubic"
    coordinates: str = "asymmetric"
    rounding: str = "floor"
    scales: tuple[float, float] | None = None
    cubic: float = -0.75
    skips_outside: bool = False

    @property
    def kernel(self) -> str:
        return f"{type(self).__name__}.{self.function}"

    @property
    def picks_elements(self) -> bool:
        return self.function == "nearest"

    def reads_all(self, source: Shape, output: Shape) -> bool:
        return source.height <= output.height and source.width <= output.width

    def enlargement(self, source: Shape) -> tuple[int, int] | None:
        """Return the factors of a nearest-neighbour resize to whole multiples of both sizes."""
        down, across = (divmod(axis.size, axis.length) for axis in self.axes(source))
        if self.function != "nearest" or down[1] or across[1]:
            return None
        for axis, (factor, _) in zip(self.axes(source), (down, across), strict=True):
            places = np.arange(axis.size)
            if not np.array_equal(axis.nearest(places), places // factor):
                return None
        return down[0], across[0]

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the nearest integers, or a mean of four in fixed point."""
        source, result = types.inputs[0], types.output
        is_fixed = source is not None and result is not None and result.is_fixed_point
        if self.function == "nearest" and (is_fixed or set(types.inputs) == {types.output}):
            return self.computed(part)
        if self.function == "linear" and is_fixed and self.rounding == SINGLE_PRECISION:
            return self._mixed_in_single_precision(part)
        if self.function == "linear" and is_fixed:
            # Elements weighed in steps of 2 ** -20; halves go away from zero.
            (upper, lower), down, (left, right, across) = self._around(
                part, self.integer_neighbours
            )
            rows = upper.astype(np.int64) * (2**10 - down) + lower.astype(np.int64) * down
            sums = rows[:, :, left] * (2**10 - across) + rows[:, :, right] * across
            means: Array = np.sign(sums) * ((np.abs(sums) + 2**19) >> 20)
            return means.astype(upper.dtype)
        return super(Resize, self).computed_in_integers(part, types)

    def _mixed_in_single_precision(self, part: OutputRows) -> Array:
        """Return means of four unsigned integers, weighed in single precision; halves go up."""
        rows, down, (left, right, across) = self._around(part, self.integer_neighbours)
        (upper, lower), unity = (row.astype(np.float32) for row in rows), np.float32(1)
        sums = upper[:, :, left] * (unity - down) * (unity - across)
        sums += lower[:, :, left] * down * (unity - across)
        sums += upper[:, :, right] * (unity - down) * across
        sums += lower[:, :, right] * down * across
        means: Array = (sums + np.float32(0.5)).astype(np.uint8)
        return means

    def _around(
        self, part: OutputRows, neighbours: Callable[[ResizedAxis, Places], Neighbours]
    ) -> tuple[tuple[Array, Array], NDArray[Any], Neighbours]:
        """Return the input rows above and below each row of the part, and the share of those below.

        The shares are a column, which multiplies rows. The third element of the result: for each column
        of the output the input columns to the left and right, and the share of those to the right.
        """
        vertical, horizontal = self.axes(part.inputs[0].shape)
        above, below, shares = neighbours(vertical, np.arange(part.begin, part.end))
        first = int(above.min())
        read = part.inputs[0].rows(first, int(below.max()) + 1)
        rows = read[:, above - first], read[:, below - first]
        return rows, shares[:, None], neighbours(horizontal, np.arange(self.size[1]))

    def integer_neighbours(
        self, axis: ResizedAxis, places: Places
    ) -> tuple[Places, Places, NDArray[Any]]:
        """Return input positions before and after integer output positions, and the share of each.

        The share is in 1024ths, or in single precision. A rounding error of a coordinate in single
        precision may move a neighbour by a position; neighbours are clipped to the exact ones, which
        `rows_needed` returns.
        """
        if self.rounding != SINGLE_PRECISION:
            return axis.neighbours_in_1024ths(places)
        first, last, _ = axis.exact_neighbours(places)
        before, after, share = axis.single_precision_neighbours(places)
        return np.clip(before, first, last), np.clip(after, first, last), share

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return (map_dims(self, inputs)[0], *self.size)

    def axes(self, source: Shape) -> tuple[ResizedAxis, ResizedAxis]:
        """The resized axes of rows and columns."""
        lengths, scales = (source.height, source.width), self.scales or (None, None)
        rows, columns = (
            ResizedAxis(*axis_arguments, coordinates=self.coordinates, rounding=self.rounding)
            for axis_arguments in zip(lengths, self.size, scales, strict=True)
        )
        return rows, columns

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        """Return the nearest row, or the rows above and below, or the four nearest rows."""
        axis, rows = self.axes(inputs[index])[0], np.arange(self.size[0])
        if self.function == "nearest":
            first = last = axis.nearest(rows)
        elif self.function == "cubic":
            around = axis.cubic_neighbours(rows, self.cubic, skips_outside=self.skips_outside)[0]
            first, last = around[:, 0], around[:, -1]
        elif self.rounding == IN_1024THS:
            first, last = axis.neighbours_in_1024ths(rows)[:2]
        else:
            first, last = axis.exact_neighbours(rows)[:2]
        return lambda row: (int(first[row]), int(last[row]) + 1)

    def computed(self, part: OutputRows) -> Array:
        """Return the rows of the part: interpolated along rows, then along columns."""
        down, across = self.axes(part.inputs[0].shape)
        rows, columns = np.arange(part.begin, part.end), np.arange(self.size[1])
        result: Array
        if self.function == "nearest":
            return _picked(part, down.nearest(rows), across.nearest(columns))
        if self.function == "cubic":
            skips = self.skips_outside
            around, weights = down.cubic_neighbours(rows, self.cubic, skips_outside=skips)
            first = int(around.min())
            read = part.inputs[0].rows(first, int(around.max()) + 1)
            mixed = np.einsum("crtw,rt->crw", read[:, around - first], weights)
            around, weights = across.cubic_neighbours(columns, self.cubic, skips_outside=skips)
            result = np.einsum("crwt,wt->crw", mixed[:, :, around], weights)
            return result
        neighbours = ResizedAxis.exact_neighbours
        (upper, lower), down_shares, (left, right, shares) = self._around(part, neighbours)
        mixed = upper + (lower - upper) * down_shares
        west, east = mixed[:, :, left], mixed[:, :, right]
        result = west + (east - west) * shares
        return result

    def in_words(self) -> str:
        return f"resize {self.function} to {self.size[0]}x{self.size[1]}"


def _picked(part: OutputRows, rows: Places, columns: Places) -> Array:
    """The input elements in those rows and columns; only the rows between them are read."""
    first = int(rows.min())
    read = part.inputs[0].rows(first, int(rows.max()) + 1)
    return read[:, (rows - first)[:, None], columns]


Places = NDArray[np.int64]
Neighbours = tuple[Places, Places, NDArray[Any]]  # positions before and after, share of those after
Reals = NDArray[np.float32]

HALF = np.float32(0.5)
TIE = np.float32(1e-6)  # a coordinate closer than this to a half is a tie


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """An axis of a resize, rows or columns.

    scale: output positions per input position, if it is not the size over the length.
    """

    length: int  # of the input
    size: int  # of the output
    scale: float | None = None
    coordinates: str = "asymmetric"
    rounding: str = "floor"

    def nearest(self, places: Places) -> Places:
        """Return the input place nearest to each output place."""
        rounded = self._rounded(self._single_precision(places.astype(np.float32)))
        clipped: Places = np.clip(rounded, 0, self.length - 1).astype(np.int64)
        return clipped

    def exact_neighbours(self, places: Places) -> tuple[Places, Places, Reals]:
        """Return the input positions before and after output positions, and the distance to the first.

        Coordinates are fractions. Positions are clipped to the first and the last of the input.
        """
        numerators, denominator = self._exact(places)
        numerators = np.clip(numerators, 0, (self.length - 1) * denominator)
        before, after = numerators // denominator, -(-numerators // denominator)
        shares = (numerators - before * denominator) / denominator
        return before, after, shares.astype(np.float32)

    def single_precision_neighbours(self, places: Places) -> tuple[Places, Places, Reals]:
        """Return the same as `exact_neighbours`, computed in single precision.

        As TensorFlow Lite computes them for uint8.
        """
        step = np.float32(self.length) / np.float32(self.size)
        if self.coordinates == "align corners" and self.size > 1:
            step = np.float32(self.length - 1) / np.float32(self.size - 1)
        half = np.float32(0.5 if self.coordinates == "half pixel" else 0)
        real_places = (places.astype(np.float32) + half) * step - half
        before = np.maximum(np.floor(real_places), 0).astype(np.int64)
        after = np.minimum(np.ceil(real_places), self.length - 1).astype(np.int64)
        return np.minimum(before, self.length - 1), after, real_places - before.astype(np.float32)

    def neighbours_in_1024ths(self, places: Places) -> tuple[Places, Places, Places]:
        """Return the same as `exact_neighbours`, with distances and coordinates in integer 1024ths.

        The step from position to position is rounded to 1024ths, as in TensorFlow Lite Micro for int8.
        """
        step = (2**10 * self.length + self.size // 2) // self.size
        if self.coordinates == "align corners" and self.size > 1:
            last = self.size - 1
            step = (2**10 * (self.length - 1) + last // 2) // last
        scaled_places = places * step
        if self.coordinates == "half pixel":
            scaled_places = scaled_places + step // 2 - 2**9
        before = np.maximum(scaled_places // 2**10, 0)
        after = np.clip(-(-scaled_places // 2**10), 0, self.length - 1)
        before = np.minimum(before, self.length - 1)
        return before, after, scaled_places - 2**10 * before

    def cubic_neighbours(
        self, places: Places, coefficient: float, *, skips_outside: bool
    ) -> tuple[Places, Reals]:
        """Return the four input places around each output place, and the weight of each.

        Places are clipped to the first and the last; skips_outside: those beyond weigh nothing.
        Source: Keys, Cubic Convolution Interpolation for Digital Image Processing, IEEE Trans.
        ASSP 29(6), 1981, equation 8.
        """
        numerators, denominator = self._exact(places)
        first = numerators // denominator
        beyond = ((numerators - first * denominator) / denominator)[:, None]
        taps = np.arange(-1, 3)
        weights = _cubic(np.abs(beyond - taps), coefficient)
        around = first[:, None] + taps
        if skips_outside:
            weights = np.where((around >= 0) & (around < self.length), weights, 0.0)
            weights /= weights.sum(axis=1, keepdims=True)
        return np.clip(around, 0, self.length - 1), weights.astype(np.float32)

    def _single_precision(self, places: Reals) -> Reals:
        scale = np.float32(self.scale or np.float32(self.size) / np.float32(self.length))
        last = np.float32(max(self.size - 1, 1))
        match self.coordinates:
            case "align corners":
                return places * np.float32(self.length - 1) / last
            case "pytorch half pixel" if self.size == 1:
                return places * np.float32(0)
            case "half pixel" | "pytorch half pixel":
                return (places + HALF) / scale - HALF
            # The three coordinates "by ratio" are rounded as TensorFlow Lite rounds them.
            case "asymmetric by ratio":
                return places * (np.float32(self.length) / np.float32(self.size))
            case "half pixel by ratio":  # not less HALF: its "floor" finds the nearest position
                return (places + HALF) * (np.float32(self.length) / np.float32(self.size))
            case "align corners by ratio":
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
        """Return the positions of the output in the input: numerators, and one denominator."""
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
    """The weight of an input position at this distance."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
