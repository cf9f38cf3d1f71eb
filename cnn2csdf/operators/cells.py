"""The cells that windows cover: input rows and columns with their border."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cnn2csdf.arrays import Array
from cnn2csdf.geometry import Span, Window
from cnn2csdf.part import Part, Reader


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
