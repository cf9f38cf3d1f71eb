"""Pooling: the largest or the mean of what a window covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.arrays import Array
from cnn2csdf.fixed_point.single_precision import averaged
from cnn2csdf.geometry import Axis, Range, Window, window_places
from cnn2csdf.integers import centred
from cnn2csdf.operators.cells import window_cells, window_in_words
from cnn2csdf.operators.operator import Operator, RowsNeeded, map_dims, quantized_types
from cnn2csdf.part import Part, Types, whole_tensor
from cnn2csdf.shape import Dims, Shape


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
