"""Convolutions, as products of matrices, pooling and its inverse: windows over feature maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.single_precision import averaged, multiplied
from cnn2csdf.geometry import PaddedInterval, Pair, Window, aligned_slices, window_places
from cnn2csdf.integers import centred, channel_ratios, rescaled_products, rescaled_sums
from cnn2csdf.operators.kernel_loops import convolution_loops, pooling_loops
from cnn2csdf.operators.operator import (
    FilterBank,
    KernelLoops,
    KernelUse,
    Operator,
    RowsNeeded,
    map_dims,
    quantized_types,
    require_groups,
)
from cnn2csdf.part import OutputRows, RowReader, Types, along_channels, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = [
    "Convolution", "GlobalPooling", "PlaceOfMaximum", "Pooling", "TransposedConvolution", "Unpooling",
]  # fmt: skip

INSIDE = np.float32(0.1)  # added to a whole number, so that a cast to integers returns the number
UNFOLDED_LIMIT = 1 << 22  # elements of windows copied at once; a part with more is halved


class WindowedOperator(Operator):
    """An operator that computes each element from one window over the feature maps."""

    __slots__ = ()
    window: Window

    @property
    def window_taps(self) -> tuple[int, int]:
        return self.window.kernel

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        rows = self.window.rows
        return lambda row: rows.covered((row, row + 1))


class WindowOfRows(WindowedOperator):
    """A windowed operator that is defined for windows of any size, and for turned maps."""

    __slots__ = ()

    @property
    def sliding_window(self) -> Window:
        return self.window

    def with_window(self, window: Window) -> Self:
        return replace(self, window=window)  # type: ignore[type-var]

    def turned(self) -> Self:
        return self.with_window(self.window.turned)

    @property
    def stride(self) -> tuple[int, int]:
        return self.window.stride

    @property
    def is_tileable(self) -> bool:
        return min(self.window.padding) >= 0


class WindowsOfChannels(WindowedOperator):
    """An operator that computes an element from each window over one channel of a map."""

    __slots__ = ()

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        return (channels, *window_places(self.window, height, width))

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements * prod(self.window.kernel)


class MaximumOrMean(Operator):
    """An operator whose results are maxima or means. function: "max" or "average"."""

    __slots__ = ()
    function: str

    @property
    def reduction(self) -> str:
        return "max" if self.function == "max" else "mean"

    @property
    def picks_elements(self) -> bool:
        return self.function == "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(WindowOfRows):
    """Filters that slide over the feature maps; depthwise where groups equals the channels.

    block: for a convolution that is a matrix product in the file, the number of floating-point products
    that its runtime sums in a block; integers in single precision are rounded in the same blocks.
    """

    bias_axis = 0
    weight_role = "kernel"
    half_roles = ("kernel",)
    by_pixels = True
    splits_filters = True
    filters: int
    window: Window
    groups: int = 1
    has_bias: bool = True
    block: int | None = None

    def of_channels(self, count: int) -> Convolution | None:
        return replace(self, filters=count) if self.groups == 1 else None

    def of_head(self, axis: int, heads: int) -> Convolution | None:
        """Return the convolution with the filters of one head, which reads the whole input."""
        return self.of_channels(self.filters // heads) if axis == 0 else None

    def on_channels(self, count: int, whole: int) -> Convolution | None:
        if self.groups != whole:
            return None
        return replace(self, groups=count, filters=self.filters // whole * count)

    def with_bias(self) -> Convolution:
        return replace(self, has_bias=True)

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        return convolution_loops(self.filter_bank, use)

    @property
    def filter_bank(self) -> FilterBank:
        return FilterBank(self.filters, self.groups, self.window, self.block)

    @property
    def mixes_channels(self) -> bool:
        return self.groups == 1

    @property
    def is_channelwise(self) -> bool:
        return self.groups == self.filters > 1

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, height, width = map_dims(self, inputs)
        require_groups(channels, self.filters, self.groups)
        return (self.filters, *window_places(self.window, height, width))

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the kernel (filters, channels of a group, rows, columns), and the bias."""
        kernel = (self.filters, inputs[0].channels // self.groups, *self.window.kernel)
        return {"kernel": kernel} | ({"bias": (self.filters,)} if self.has_bias else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Return the multiply-accumulates of all windows, padding included."""
        return output.elements * (inputs[0].channels // self.groups) * prod(self.window.kernel)

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        """Return the arrays that requantise sums, and the steps of a product with many scales."""
        arrays = super(Convolution, self).derived_arrays(types, output)
        kernel, result = types.weights.get("kernel"), types.output
        is_single = result is not None and not result.is_fixed_point and self.block is not None
        if kernel is None or not is_single or len(kernel.scales) == 1:
            return arrays
        return {**arrays, "steps": np.array(kernel.scales, np.float32)}

    def computed(self, part: OutputRows) -> Array:
        channels = part.inputs[0].shape.channels
        copied = channels * prod(self.window.kernel) * part.shape.width
        if part.rows > 1 and part.rows * copied > UNFOLDED_LIMIT:
            middle = (part.begin + part.end) // 2
            halves = (part._replace(end=middle), part._replace(begin=middle))
            return np.concatenate([self.computed(half) for half in halves], axis=1)
        cells = window_cells(self.window, part, fill=0.0)
        return self.summed(cells, part.weights, part)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the rows of the part; sums of integers are exact in double precision."""
        if "kernel" not in types.weights:
            return super(Convolution, self).computed_in_integers(part, types)
        input_types, result = quantized_types(self, types)
        kernel = types.weights["kernel"]
        cells = window_cells(
            self.window, part, fill=input_types.zero_point, dtype=input_types.element.value
        ).astype(np.float64)
        cells -= input_types.zero_point
        weights = {role: array.astype(np.float64) for role, array in part.weights.items()}
        weights["kernel"] -= kernel.zero_point
        if self.block is not None and not result.is_fixed_point:
            return self._multiplied(cells, weights, part, (input_types, kernel, result))
        sums = self.summed(cells, weights, part)
        return rescaled_products(sums, input_types, kernel, result, part.weights)

    def _multiplied(
        self,
        cells: Array,
        weights: Mapping[str, Array],
        part: OutputRows,
        types: tuple[Quantization, Quantization, Quantization],
    ) -> Array:
        """Return the products of the windows with the kernel, as a matrix product of the runtime.

        The columns of a window are in the order (taps, channels), in which the runtime sums them.
        """
        size, taps = (part.rows, part.shape.width), prod(self.window.kernel)
        windows = unfolded(cells, self.window, *size).reshape(-1, taps, prod(size))
        left = windows.transpose(2, 1, 0).reshape(prod(size), -1)  # pixels x (taps, channels)
        kernel = weights["kernel"].reshape(self.filters, -1, taps).swapaxes(1, 2)
        right = kernel.reshape(self.filters, -1).T  # (taps, channels) x filters
        product = multiplied(left, right, weights.get("bias"), types, self.block)
        return product.T.reshape(self.filters, *size)

    def summed(self, cells: Array, weights: Mapping[str, Array], part: OutputRows) -> Array:
        """Return the products of the windows with the kernel, plus the bias."""
        size = (part.rows, part.shape.width)
        windows = unfolded(cells, self.window, *size)
        sums: Any = 0
        if self.groups == part.inputs[0].shape.channels:  # depthwise: sums over taps of the kernel
            kernel = weights["kernel"].reshape(self.groups, -1, *self.window.kernel, 1, 1)
            for row, column in np.ndindex(*self.window.kernel):
                sums += windows[:, None, row, column] * kernel[:, :, row, column]
        else:
            kernel = weights["kernel"].reshape(self.groups, self.filters // self.groups, -1)
            sums = np.matmul(kernel, windows.reshape(self.groups, -1, prod(size)))
        biased: Array = sums.reshape(self.filters, *size)
        if self.has_bias:
            biased += along_channels(weights["bias"], 3)
        return biased

    def in_words(self) -> str:
        window = window_in_words(self.window)
        if self.is_channelwise:
            return f"depthwise conv {window}"
        return f"conv {window}" + ("" if self.groups == 1 else f", {self.groups} groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposedConvolution(Operator):
    """A transposed convolution: each input element, times a kernel, is added to the output.

    window.padding is cut from the output; extra: rows and columns added at the bottom and right.
    """

    weight_role = "kernel"
    half_roles = ("kernel",)
    scatters_products = True
    by_pixels = True
    filters: int
    window: Window
    groups: int = 1
    has_bias: bool = True
    extra: Pair = (0, 0)

    def reads_all(self, source: Shape, output: Shape) -> bool:
        """Return whether each input pixel, and each pixel of the kernel, adds to some output."""
        sizes = (source.height, output.height), (source.width, output.width)
        return all(
            axis.scatters_all(*lengths)
            for axis, lengths in zip((self.window.rows, self.window.columns), sizes, strict=True)
        )

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

    def computed(self, part: OutputRows) -> Array:
        """Return the rows of the part.

        Input row i adds to row i * stride + tap * dilation - padding of the output.
        """
        return self._summed(part, part.weights, None)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the rows of the part; sums of integers are exact in double precision."""
        if "kernel" not in types.weights:
            return super(TransposedConvolution, self).computed_in_integers(part, types)
        input_types, result = quantized_types(self, types)
        kernel = types.weights["kernel"]
        weights = {role: array.astype(np.float64) for role, array in part.weights.items()}
        weights["kernel"] -= kernel.zero_point
        sums = self._summed(part, weights, input_types).astype(np.int64)
        ratios = channel_ratios(input_types, kernel, result, self.filters)
        return rescaled_sums(sums, ratios, result, is_wide=input_types.element is Element.INT16)

    def _summed(
        self, part: OutputRows, weights: Mapping[str, Array], source: Quantization | None
    ) -> Array:
        """Sums of products plus bias. source: quantisation of the input; None for real numbers."""
        sums = np.zeros((self.filters, part.rows, part.shape.width), weights["kernel"].dtype)
        shape, (down, across) = part.inputs[0].shape, (self.window.rows, self.window.columns)
        first, upto = down.scattering((part.begin, part.end))
        first, upto = max(0, first), min(shape.height, upto)
        if first < upto:
            cells = part.inputs[0].rows(first, upto)
            cells = cells if source is None else centred(cells, source).astype(np.float64)
            # The products of each input element, by filter, kernel row and column, and input pixel.
            kernel = weights["kernel"].reshape(self.groups, shape.channels // self.groups, -1)
            columns = cells.reshape(*kernel.shape[:2], -1)
            products = np.matmul(kernel.transpose(0, 2, 1), columns).reshape(
                self.filters, *self.window.kernel, upto - first, shape.width
            )
            for row, column in np.ndindex(*self.window.kernel):
                shift = first * down.stride + row * down.dilation - down.before - part.begin
                rows = aligned_slices(shift, down.stride, upto - first, part.rows)
                shift = column * across.dilation - across.before
                pixels = aligned_slices(shift, across.stride, shape.width, part.shape.width)
                sums[:, rows[1], pixels[1]] += products[:, row, column, rows[0], pixels[0]]
        if self.has_bias:
            sums += along_channels(weights["bias"], 3)
        return sums

    def in_words(self) -> str:
        return f"transposed conv {window_in_words(self.window)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling(MaximumOrMean, WindowOfRows, WindowsOfChannels):
    """The largest or the mean element of each window over a single channel.

    rounds_up: whether halves of means of integers in fixed point go up, as those of unsigned
    integers do in TensorFlow Lite; else away from zero.
    """

    is_channelwise = True
    by_pixels = True
    function: str  # "max" or "average"
    window: Window
    counts_padding: bool = False  # whether padding counts in the mean
    rounds_up: bool = False

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        return f"Pooling.{self.function}", pooling_loops(self.window, use.inputs[0], use.output)

    @property
    def counts_zero_padding(self) -> bool:
        return self.function == "average" and self.counts_padding and any(self.window.padding)

    def on_signed_integers(self, offset: int, *, is_fixed_point: bool) -> Pooling:
        """Return the mean whose halves go away from zero of the unsigned integers, which is up."""
        return self if self.function == "max" else replace(self, rounds_up=is_fixed_point)

    def row_elements_read(self, source: Shape, output: Shape) -> int:
        """Return the elements of the columns of one window."""
        return source.row_elements // source.width * self.window.kernel[1]

    def accumulates_rows(self, source: Shape, output: Shape) -> bool:
        window = self.window
        is_plain = window.dilation == (1, 1) and not any((*window.padding, *window.overhang))
        return is_plain and output.width == 1

    def computed(self, part: OutputRows) -> Array:
        if self.function == "max":
            return self._reduced(window_cells(self.window, part, fill=-np.inf), np.maximum, part)
        sums = self._reduced(window_cells(self.window, part, fill=0.0), np.add, part)
        mean: Array = sums / self._counts(part).astype(np.float32)
        return mean

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the rows of the part; in fixed point, files give both sides the same scale."""
        input_types, result = quantized_types(self, types)
        dtype, is_max = input_types.element.value, self.function == "max"
        if is_max and not input_types.is_fixed_point and input_types != result:
            return super(Pooling, self).computed_in_integers(part, types)
        fill = 0 if input_types.is_fixed_point else input_types.zero_point
        least = int(np.iinfo(dtype).min)
        cells = window_cells(self.window, part, fill=least if is_max else fill, dtype=dtype)
        if is_max:
            return self._reduced(cells, np.maximum, part)
        sums = self._reduced(cells.astype(np.int64) - fill, np.add, part)
        counts = self._counts(part)
        if not input_types.is_fixed_point:
            return averaged(sums, counts, input_types, result)
        if self.rounds_up:
            return ((sums + counts // 2) // counts).astype(dtype)
        # Rounded with halves away from zero, by a division towards zero, as in C.
        means: Array = np.sign(sums) * ((np.abs(sums) + counts // 2) // counts)
        return means.astype(dtype)

    def _counts(self, part: OutputRows) -> NDArray[np.int64]:
        """The number of cells of each window that count in the mean; at least 1."""
        window, shape, counts_of_axes = self.window, part.inputs[0].shape, []
        for axis, positions, length in (
            (window.rows, np.arange(part.begin, part.end), shape.height),
            (window.columns, np.arange(part.shape.width), shape.width),
        ):
            starts = positions * axis.stride - axis.before
            cells = starts[:, None] + np.arange(axis.kernel) * axis.dilation
            low = -axis.before if self.counts_padding else 0
            high = length + (axis.after if self.counts_padding else min(axis.after, 0))
            counts_of_axes.append(((low <= cells) & (cells < high)).sum(axis=1))
        counts: NDArray[np.int64] = np.maximum(counts_of_axes[0][:, None] * counts_of_axes[1], 1)
        return counts

    def _reduced(self, cells: Array, combine: np.ufunc, part: OutputRows) -> Array:
        """Combine the rows of each window, then the columns."""
        axes = ((self.window.rows, part.rows), (self.window.columns, part.shape.width))
        for number, (axis, count) in enumerate(axes):
            extent = (count - 1) * axis.stride + 1  # from the first window to the last
            taps = [
                cells[:, *(slice(None),) * number, start : start + extent : axis.stride]
                for start in range(0, axis.extent, axis.dilation)
            ]
            cells = taps[0] if len(taps) == 1 else combine(taps[0], taps[1])
            for tap in taps[2:]:
                combine(cells, tap, out=cells)
        return cells

    def in_words(self) -> str:
        return f"{self.function} pool {window_in_words(self.window)}"


class OverWholeInput(Operator):
    """An operator that reduces the whole input, and can do so row by row."""

    __slots__ = ()

    def window_over(self, source: Shape) -> Window:
        """Return the window of the whole feature map."""
        return Window(kernel=(source.height, source.width))

    def accumulates_rows(self, source: Shape, output: Shape) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalPooling(MaximumOrMean, OverWholeInput):
    """The maximum or the average of each feature map: a single element for each channel."""

    depends_on_all = True
    by_pixels = True
    function: str  # "max" or "average"

    @property
    def kernel(self) -> str:
        return f"Reduction.{self.reduction}"  # in C a reduction over both axes

    def on_channels(self, count: int, whole: int) -> GlobalPooling:
        return self

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return (map_dims(self, inputs)[0], 1, 1)

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return inputs[0].elements

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        pooled = np.max if self.function == "max" else np.mean
        pooled_values: Array = pooled(tensors[0], axis=(1, 2), keepdims=True)
        return pooled_values

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return means as sums of integers over their number, in single precision."""
        input_types, result = types.inputs[0], types.output
        if input_types is None or result is None or result.is_fixed_point or self.function == "max":
            return super(GlobalPooling, self).computed_in_integers(part, types)
        maps = centred(whole_tensor(part.inputs[0]), input_types)
        sums = maps.sum(axis=(1, 2), keepdims=True)
        return averaged(sums, maps[0].size, input_types, result)

    def in_words(self) -> str:
        return f"global {self.function} pool"


def framed(
    reader: RowReader,
    rows: PaddedInterval,
    columns: PaddedInterval,
    *,
    fill: float,
    dtype: str = "float32",
) -> Array:
    """Return the cells of two intervals, (channels, rows, columns); `fill` outside of the input.

    A view of the input if the intervals are inside; otherwise an array of `dtype`.
    """
    (top, bottom), (left, right) = rows.held, columns.held
    if (top, bottom, left, right) == (rows.first, rows.upto, columns.first, columns.upto):
        return reader.rows(top, bottom)[:, :, left:right]
    cells = np.full((reader.shape.channels, rows.length, columns.length), fill, dtype)
    if top < bottom and left < right:
        inner = cells[:, top - rows.first : bottom - rows.first]
        inner[:, :, left - columns.first : right - columns.first] = reader.rows(top, bottom)[
            :, :, left:right
        ]
    return cells


def window_cells(window: Window, part: OutputRows, *, fill: float, dtype: str = "float32") -> Array:
    """Return the cells that the windows of a part cover, with their border."""
    shape = part.inputs[0].shape
    rows = window.rows.read((part.begin, part.end), shape.height)
    columns = window.columns.read((0, part.shape.width), shape.width)
    return framed(part.inputs[0], rows, columns, fill=fill, dtype=dtype)


def unfolded(cells: Array, window: Window, rows: int, columns: int) -> Array:
    """Return a view (channels, kernel rows, kernel columns, rows, columns) of the windows."""
    channel_stride, *strides = cells.strides
    sizes, factors = (*window.kernel, rows, columns), (*window.dilation, *window.stride)
    # The stride of an axis of size 1 is not used, and may exceed 64 bits.
    steps = [
        stride * factor if size > 1 else 0
        for stride, factor, size in zip(strides * 2, factors, sizes, strict=True)
    ]
    shape = (cells.shape[0], *sizes)
    return as_strided(cells, shape=shape, strides=(channel_stride, *steps), writeable=False)


def window_in_words(window: Window) -> str:
    """Return the kernel, "/" and the stride, "@" and the dilation; a single number if both agree."""
    text = f"{window.kernel[0]}x{window.kernel[1]}"
    for sign, pair in (("/", window.stride), ("@", window.dilation)):
        if pair != (1, 1):
            text += sign + (str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOfMaximum(WindowsOfChannels):
    """The number of the pixel of a window where its maximum is, row by row; the first of equal ones.

    Source: google-ai-edge/mediapipe, mediapipe/util/tflite/operations/max_pool_argmax.cc.
    """

    words = "place of maximum"
    window: Window

    def computed(self, part: OutputRows) -> Array:
        least = float(np.finfo(np.float32).min)
        cells = window_cells(self.window, part, fill=least)
        cells = np.where(cells > least, cells, np.float32(least))  # NaN is no maximum
        size = (part.rows, part.shape.width)
        windows = unfolded(cells, self.window, *size).reshape(len(cells), -1, *size)
        numbers: Array = windows.argmax(axis=1).astype(np.float32)
        return numbers + INSIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpooling(Operator):
    """Each element in a block of zeros, at the pixel of the block that the second input numbers.

    Source: google-ai-edge/mediapipe, mediapipe/util/tflite/operations/max_unpooling.cc.
    """

    words = "unpooling"
    block: Pair

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if len(inputs) != 2 or inputs[0] != inputs[1] or not inputs[0].is_map:
            raise InvalidNetwork("unpooling takes maps and numbers of pixels of the same shape")
        channels, height, width = inputs[0].dims
        return (channels, height * self.block[0], width * self.block[1])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        rows = self.block[0]
        return lambda row: (row // rows, row // rows + 1)

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements

    def computed(self, part: OutputRows) -> Array:
        rows, columns = self.block
        first, upto = part.begin // rows, (part.end - 1) // rows + 1
        values, numbers = (
            reader.rows(first, upto).repeat(rows, 1).repeat(columns, 2) for reader in part.inputs
        )
        pixels = (np.arange(first * rows, upto * rows) % rows)[:, None] * columns
        pixels = pixels + np.arange(part.shape.width) % columns
        spread = np.where(numbers.astype(np.int64) == pixels, values, np.float32(0))
        return spread[:, part.begin - first * rows : part.end - first * rows]
