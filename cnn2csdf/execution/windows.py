"""The cells that windows cover: input rows and columns with their border."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cnn2csdf.execution.part import Part, Reader
from cnn2csdf.operators import Window
from cnn2csdf.weights import Array


class Span(NamedTuple):
    """Places first to upto along an axis; only those from 0 to limit hold anything."""

    first: int
    upto: int
    limit: int

    @property
    def places(self) -> int:
        """How many places it covers."""
        return self.upto - self.first

    @property
    def held(self) -> tuple[int, int]:
        """The places that hold something, as first and upto."""
        return (min(max(self.first, 0), self.limit), min(max(self.upto, 0), self.limit))


def covered(window: Window, axis: int, places: tuple[int, int], length: int) -> Span:
    """Return what the windows at the given output places cover.

    axis: 0 for rows, 1 for columns; length: of the input along it.
    """
    begin, end = places
    stride, before, after = window.stride[axis], window.padding[axis], window.padding[axis + 2]
    return Span(
        first=begin * stride - before,
        upto=(end - 1) * stride - before + window.extent[axis],
        limit=min(length, length + after),
    )


def framed(reader: Reader, rows: Span, columns: Span, *, fill: float) -> Array:
    """Return the cells of the spans, (channels, rows, columns); `fill` where there is no cell.

    A view of the input where the spans lie inside it.
    """
    top, bottom = rows.held
    left, right = columns.held
    if (top, bottom, left, right) == (rows.first, rows.upto, columns.first, columns.upto):
        return reader.rows(top, bottom)[:, :, left:right]
    cells = np.full((reader.shape.channels, rows.places, columns.places), fill, np.float32)
    if top < bottom and left < right:
        cells[
            :,
            top - rows.first : bottom - rows.first,
            left - columns.first : right - columns.first,
        ] = reader.rows(top, bottom)[:, :, left:right]
    return cells


def window_cells(window: Window, part: Part, *, fill: float) -> Array:
    """Return the cells that the windows of a part cover, with their border."""
    shape = part.inputs[0].shape
    rows = covered(window, 0, (part.begin, part.end), shape.height)
    columns = covered(window, 1, (0, part.shape.width), shape.width)
    return framed(part.inputs[0], rows, columns, fill=fill)


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
