"""Max pooling that tells where each maximum is, and its inverse.

Described from google-ai-edge/mediapipe, mediapipe/util/tflite/operations: max_pool_argmax.cc and
max_unpooling.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.geometry import Pair, Window
from cnn2csdf.operators.operator import Operator, RowsNeeded
from cnn2csdf.operators.windows import WindowsOfChannels, window_cells
from cnn2csdf.part import OutputRows
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = ["PlaceOfMaximum", "Unpooling"]

INSIDE = np.float32(0.1)  # added to a number, which a cast to integers cuts off again


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOfMaximum(WindowsOfChannels):
    """The number of the pixel of a window where its maximum is, row by row; the first of equal ones."""

    words = "place of maximum"
    window: Window

    def computed(self, part: OutputRows) -> Array:
        cells = window_cells(self.window, part, fill=-np.inf)
        (down, across), shape = self.window.stride, (part.rows, part.shape.width)
        best = np.full((len(cells), *shape), np.finfo(np.float32).min, np.float32)
        numbers = np.zeros(best.shape, np.float32)
        for number, (row, column) in enumerate(np.ndindex(*self.window.kernel)):
            ends = row + (shape[0] - 1) * down + 1, column + (shape[1] - 1) * across + 1
            values = cells[:, row : ends[0] : down, column : ends[1] : across]
            is_better = values > best
            numbers[is_better] = number
            best = np.where(is_better, values, best)
        return numbers + INSIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpooling(Operator):
    """Each element in a block of zeros, at the pixel of the block that the second input numbers."""

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
