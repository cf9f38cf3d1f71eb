"""Feature maps of another size: padded, cropped, resized."""

from __future__ import annotations

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.part import Part
from cnn2csdf.execution.windows import Span, framed
from cnn2csdf.resizing import Places, ResizedAxis
from cnn2csdf.weights import Array


def pad(operator: op.Pad, part: Part) -> Array:
    """Return the rows of the part with rows and columns added around, or cut off."""
    source = part.inputs[0]
    top, left = operator.padding[:2]
    height, width = source.shape.height, source.shape.width
    if operator.mode == "constant":
        rows = Span(part.begin - top, part.end - top, height)
        columns = Span(-left, part.shape.width - left, width)
        return framed(source, rows, columns, fill=operator.value)
    found = _PLACES[operator.mode]
    return _picked(
        part,
        found(np.arange(part.begin, part.end) - top, height),
        found(np.arange(part.shape.width) - left, width),
    )


def _picked(part: Part, rows: Places, columns: Places) -> Array:
    """The input elements in those rows and columns; only the rows between them are read."""
    first = int(rows.min())
    read = part.inputs[0].rows(first, int(rows.max()) + 1)
    return read[:, (rows - first)[:, None], columns]


def _reflected(places: Places, length: int) -> Places:
    """Places beyond the ends mirrored at the first and the last one."""
    turns = places % max(2 * length - 2, 1)
    return np.where(turns < length, turns, 2 * length - 2 - turns)


def _repeated(places: Places, length: int) -> Places:
    """Places beyond the ends moved to the first or the last one."""
    return np.clip(places, 0, length - 1)


_PLACES = {"reflect": _reflected, "edge": _repeated}


def resize(operator: op.Resize, part: Part) -> Array:
    """Return the rows of the part of maps resized to the nearest or by linear interpolation."""
    shape = part.inputs[0].shape
    down, across = (ResizedAxis(operator, axis, shape) for axis in (0, 1))
    rows, columns = np.arange(part.begin, part.end), np.arange(operator.size[1])
    if operator.function == "nearest":
        return _picked(part, down.nearest(rows), across.nearest(columns))
    return _interpolated(part, _neighbours(down, rows), _neighbours(across, columns))


Neighbours = tuple[Places, Places, Array]  # place before, place behind, how far from the first


def _neighbours(axis: ResizedAxis, places: Places) -> Neighbours:
    above, below = axis.between(places)
    before, behind = above // below, -(-above // below)
    return before, behind, ((above - before * below) / below).astype(np.float32)


def _interpolated(part: Part, rows: Neighbours, columns: Neighbours) -> Array:
    above, below, down = rows
    left, right, across = columns
    first = int(above.min())
    read = part.inputs[0].rows(first, int(below.max()) + 1)
    upper, lower = read[:, above - first], read[:, below - first]
    mixed = upper + (lower - upper) * down[:, None]
    west, east = mixed[:, :, left], mixed[:, :, right]
    result: Array = west + (east - west) * across
    return result
