"""Convolutions, forwards and backwards; computed as products of matrices.

Pooling: the largest or the mean of what a window covers.

The cells that windows cover: input rows and columns with their border.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element
from cnn2csdf.fixed_point.single_precision import averaged
from cnn2csdf.geometry import Axis, Pair, Range, Span, Window, meeting, window_places
from cnn2csdf.integers import centred, channel_ratios, has_wide_sums, rescaled_sums
from cnn2csdf.operators.operator import (
    Operator,
    RowsNeeded,
    map_dims,
    quantized_types,
    require_groups,
)
from cnn2csdf.part import Part, Reader, Types, along_channels, whole_tensor
from cnn2csdf.shape import Dims, Shape

UNFOLDED_LIMIT = 1 << 22  # elements copied at once; more rows than fit are computed in two goes


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(Operator):
    """Filters that slide over the feature maps; depthwise where groups equals the channels."""

    filters: int
    window: Window
    groups: int = 1
    has_bias: bool = True

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        require_groups(channels, self.filters, self.groups)
        return (self.filters, *window_places(self.window, height, width))

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        rows = self.window.rows
        return lambda row: rows.covered((row, row + 1))

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the kernel (filters, channels of a group, rows, columns), and the bias."""
        kernel = (self.filters, inputs[0].channels // self.groups, *self.window.kernel)
        return {"kernel": kernel} | ({"bias": (self.filters,)} if self.has_bias else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Return the multiply-accumulates of all windows, padding included."""
        return output.elements * (inputs[0].channels // self.groups) * prod(self.window.kernel)

    def computed(self, part: Part) -> Array:
        channels = part.inputs[0].shape.channels
        copied = channels * prod(self.window.kernel) * part.shape.width
        if part.rows > 1 and part.rows * copied > UNFOLDED_LIMIT:
            middle = (part.begin + part.end) // 2
            halves = (part._replace(end=middle), part._replace(begin=middle))
            return np.concatenate([self.computed(half) for half in halves], axis=1)
        cells = window_cells(self.window, part, fill=0.0)
        return self.summed(cells, part.weights, part)

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return the rows of the part; sums of integers are exact in double precision."""
        if "kernel" not in types.weights:
            return super(Convolution, self).computed_in_integers(part, types)
        given, result = quantized_types(self, types)
        kernel = types.weights["kernel"]
        cells = window_cells(
            self.window, part, fill=given.zero_point, dtype=given.element.value
        ).astype(np.float64)
        cells -= given.zero_point
        weights = {role: array.astype(np.float64) for role, array in part.weights.items()}
        weights["kernel"] -= kernel.zero_point
        sums = self.summed(cells, weights, part).astype(np.int64)
        ratios = channel_ratios(given, kernel, result, self.filters)
        return rescaled_sums(sums, ratios, result, is_wide=has_wide_sums(given, part.weights))

    def summed(self, cells: Array, weights: Mapping[str, Array], part: Part) -> Array:
        """Return the products of what the windows see with the kernel, plus the bias."""
        seen = unfolded(cells, self.window, part.rows, part.shape.width)
        is_depthwise = self.groups == part.inputs[0].shape.channels
        sums = (_depthwise if is_depthwise else _as_product)(self, part, seen, weights["kernel"])
        return _with_bias(sums, self, weights)

    def in_words(self) -> str:
        kind = "" if self.groups == 1 else f", {self.groups} groups"
        return f"conv {window_in_words(self.window)}{kind}"


def _as_product(operator: Convolution, part: Part, seen: Array, kernel: Array) -> Array:
    columns = seen.reshape(operator.groups, -1, part.rows * part.shape.width)
    matrices = kernel.reshape(operator.groups, operator.filters // operator.groups, -1)
    product: Array = np.matmul(matrices, columns)
    return product.reshape(operator.filters, part.rows, part.shape.width)


def _depthwise(operator: Convolution, part: Part, seen: Array, kernel: Array) -> Array:
    """Return the sums over the kernel's places, where each group has a single input channel."""
    multiple = operator.filters // operator.groups
    kernel = kernel.reshape(operator.groups, multiple, *operator.window.kernel)
    sums: Any = 0
    for row, column in np.ndindex(*operator.window.kernel):
        sums += seen[:, None, row, column] * kernel[:, :, row, column, None, None]
    found: Array = sums.reshape(operator.filters, part.rows, part.shape.width)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposedConvolution(Operator):
    """A convolution backwards: each input element adds a kernel to the output.

    window.padding is cut from the output; extra: rows and columns added at the bottom and right.
    """

    filters: int
    window: Window
    groups: int = 1
    has_bias: bool = True
    extra: Pair = (0, 0)

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        require_groups(channels, self.filters, self.groups)
        rows = self.window.rows.scattered(height) + self.extra[0]
        return (self.filters, rows, self.window.columns.scattered(width) + self.extra[1])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        rows = self.window.rows
        return lambda row: rows.scattering((row, row + 1))

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the kernel (channels, filters of a group, rows, columns), and the bias."""
        kernel = (inputs[0].channels, self.filters // self.groups, *self.window.kernel)
        return {"kernel": kernel} | ({"bias": (self.filters,)} if self.has_bias else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Return the multiply-accumulates of all inputs; products that are cut off count as well."""
        return inputs[0].elements * (self.filters // self.groups) * prod(self.window.kernel)

    def computed(self, part: Part) -> Array:
        """Return the rows of the part.

        Input row i adds to row i * stride + tap * dilation - padding of the output.
        """
        return self._summed(part, part.weights, lambda cells: cells)

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return the rows of the part; sums of integers are exact in double precision."""
        if "kernel" not in types.weights:
            return super(TransposedConvolution, self).computed_in_integers(part, types)
        given, result = quantized_types(self, types)
        weights = {role: array.astype(np.float64) for role, array in part.weights.items()}
        sums = self._summed(part, weights, lambda cells: centred(cells, given).astype(np.float64))
        ratios = channel_ratios(given, types.weights["kernel"], result, self.filters)
        is_wide = given.element is Element.INT16
        return rescaled_sums(sums.astype(np.int64), ratios, result, is_wide=is_wide)

    def _summed(
        self, part: Part, weights: Mapping[str, Array], taken: Callable[[Array], Array]
    ) -> Array:
        """The sums, and the bias; taken: what is made of the rows that are read."""
        sums = np.zeros((self.filters, part.rows, part.shape.width), weights["kernel"].dtype)
        shape, (down, across) = part.inputs[0].shape, (self.window.rows, self.window.columns)
        first, upto = down.scattering((part.begin, part.end))
        first, upto = max(0, first), min(shape.height, upto)
        if first < upto:
            cells = taken(part.inputs[0].rows(first, upto))
            products = _scattered(self, cells, weights["kernel"])
            for row, column in np.ndindex(*self.window.kernel):
                shift = first * down.stride + row * down.dilation - down.before - part.begin
                rows = meeting(shift, down.stride, upto - first, part.rows)
                shift = column * across.dilation - across.before
                columns = meeting(shift, across.stride, shape.width, part.shape.width)
                sums[:, rows[1], columns[1]] += products[:, row, column, rows[0], columns[0]]
        return _with_bias(sums, self, weights)

    def in_words(self) -> str:
        return f"transposed conv {window_in_words(self.window)}"


def _scattered(operator: TransposedConvolution, cells: Array, kernel: Array) -> Array:
    """Return what each input element adds: (filters, kernel rows, kernel columns, rows, columns)."""
    channels, rows, columns = cells.shape
    groups = operator.groups
    matrices = kernel.reshape(groups, channels // groups, -1)
    product: Array = np.matmul(
        matrices.transpose(0, 2, 1), cells.reshape(groups, channels // groups, rows * columns)
    )
    return product.reshape(operator.filters, *operator.window.kernel, rows, columns)


def _with_bias(
    sums: Array, operator: Convolution | TransposedConvolution, weights: Mapping[str, Array]
) -> Array:
    if operator.has_bias:
        sums += along_channels(weights["bias"], 3)
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling(Operator):
    """The largest or the mean element under a window, for each feature map on its own."""

    function: str  # "max" or "average"
    window: Window
    counts_padding: bool = False  # whether padding counts in the mean

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        return (channels, *window_places(self.window, height, width))

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        rows = self.window.rows
        return lambda row: rows.covered((row, row + 1))

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements * prod(self.window.kernel)

    def computed(self, part: Part) -> Array:
        if self.function == "max":
            return _folded(window_cells(self.window, part, fill=-np.inf), np.maximum, self, part)
        sums = _folded(window_cells(self.window, part, fill=0.0), np.add, self, part)
        mean: Array = sums / self._all_counts(part).astype(np.float32)
        return mean

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return the rows of the part; in fixed point, files give both sides the same scale."""
        given, result = quantized_types(self, types)
        if not given.is_fixed_point and given != result and self.function == "max":
            return super(Pooling, self).computed_in_integers(part, types)
        if self.function == "max":
            least = np.iinfo(given.element.value).min
            return _folded(
                window_cells(self.window, part, fill=least, dtype=given.element.value),
                np.maximum,
                self,
                part,
            )
        fill = 0 if given.is_fixed_point else given.zero_point
        cells = window_cells(self.window, part, fill=fill, dtype=given.element.value)
        whole, counts = cells.astype(np.int64) - fill, self._all_counts(part)
        sums = _folded(whole, np.add, self, part)
        if not given.is_fixed_point:
            return averaged(sums, counts, given, result)
        halves = np.where(sums > 0, counts // 2, -(counts // 2))
        means: NDArray[np.int64] = np.sign(sums) * (
            np.abs(sums + halves) // counts
        )  # towards zero, as C divides
        result_rows: Array = means.astype(given.element.value)
        return result_rows

    def _all_counts(self, part: Part) -> NDArray[np.int64]:
        """Cells of each window that count in the mean; at least one."""
        shape = part.inputs[0].shape
        rows = self._counts(self.window.rows, (part.begin, part.end), shape.height)
        columns = self._counts(self.window.columns, (0, part.shape.width), shape.width)
        counts: NDArray[np.int64] = np.maximum(rows[:, None] * columns, 1)
        return counts

    def _counts(self, axis: Axis, outputs: Range, length: int) -> NDArray[np.int64]:
        """Cells along an axis that count in the mean, for each place of the output."""
        starts = np.arange(*outputs) * axis.stride - axis.before
        cells = starts[:, None] + np.arange(axis.kernel) * axis.dilation
        low = -axis.before if self.counts_padding else 0
        high = length + (axis.after if self.counts_padding else min(axis.after, 0))
        counts: NDArray[np.int64] = ((low <= cells) & (cells < high)).sum(axis=1)
        return counts

    def in_words(self) -> str:
        return f"{self.function} pool {window_in_words(self.window)}"


def _folded(cells: Array, combine: np.ufunc, operator: Pooling, part: Part) -> Array:
    """Combine the rows of each window, then the columns."""
    window = operator.window
    for number, (axis, places) in enumerate(
        ((window.rows, part.rows), (window.columns, part.shape.width))
    ):
        reach = (places - 1) * axis.stride + 1
        taps = [
            cells[:, *(slice(None),) * number, start : start + reach : axis.stride]
            for start in range(0, axis.extent, axis.dilation)
        ]
        cells = taps[0] if len(taps) == 1 else combine(taps[0], taps[1])
        for tap in taps[2:]:
            combine(cells, tap, out=cells)
    return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalPooling(Operator):
    """The maximum or the average of each feature map: one element a map."""

    function: str  # "max" or "average"

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return (map_dims(self, inputs)[0], 1, 1)

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return inputs[0].elements

    def computed(self, part: Part) -> Array:
        maps = whole_tensor(part.inputs[0])
        pooled: Array = (np.max if self.function == "max" else np.mean)(
            maps, axis=(1, 2), keepdims=True
        )
        return pooled

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return means as sums of integers over their number, in single precision."""
        given, result = types.inputs[0], types.output
        if given is None or result is None or result.is_fixed_point or self.function == "max":
            return super(GlobalPooling, self).computed_in_integers(part, types)
        maps = centred(whole_tensor(part.inputs[0]), given)
        sums = maps.sum(axis=(1, 2), keepdims=True)
        return averaged(sums, maps[0].size, given, result)

    def in_words(self) -> str:
        return f"global {self.function} pool"


def framed(
    reader: Reader, rows: Span, columns: Span, *, fill: float, dtype: str = "float32"
) -> Array:
    """Return the cells of the spans, (channels, rows, columns); `fill` where there is no cell.

    A view of the input where the spans lie inside it; else an array of the type of its elements.
    """
    top, bottom = rows.held
    left, right = columns.held
    if (top, bottom, left, right) == (rows.first, rows.upto, columns.first, columns.upto):
        return reader.rows(top, bottom)[:, :, left:right]
    cells = np.full((reader.shape.channels, rows.places, columns.places), fill, dtype)
    if top < bottom and left < right:
        cells[
            :, top - rows.first : bottom - rows.first, left - columns.first : right - columns.first
        ] = reader.rows(top, bottom)[:, :, left:right]
    return cells


def window_cells(window: Window, part: Part, *, fill: float, dtype: str = "float32") -> Array:
    """Return the cells that the windows of a part cover, with their border."""
    shape = part.inputs[0].shape
    rows = window.rows.read((part.begin, part.end), shape.height)
    columns = window.columns.read((0, part.shape.width), shape.width)
    return framed(part.inputs[0], rows, columns, fill=fill, dtype=dtype)


def unfolded(cells: Array, window: Window, rows: int, columns: int) -> Array:
    """Return a view (channels, kernel rows, kernel columns, rows, columns) of what windows see."""
    channel, down, across = cells.strides
    return as_strided(
        cells,
        shape=(cells.shape[0], *window.kernel, rows, columns),
        strides=(
            channel,
            down * window.dilation[0],
            across * window.dilation[1],
            down * window.stride[0],
            across * window.stride[1],
        ),
        writeable=False,
    )


def window_in_words(window: Window) -> str:
    """Kernel, stride behind a slash, dilation behind an at sign; one number where both agree."""
    text = f"{window.kernel[0]}x{window.kernel[1]}"
    if window.stride != (1, 1):
        text += f"/{_pair(window.stride)}"
    return text if window.dilation == (1, 1) else f"{text}@{_pair(window.dilation)}"


def _pair(values: tuple[int, int]) -> str:
    return str(values[0]) if values[0] == values[1] else f"{values[0]}x{values[1]}"
