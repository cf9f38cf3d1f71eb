"""Tensors in a shadow arena: where their rows are, and how regions of them are read and written.

A `HeldTensor` has rows in whole buffers, in ring or line buffers, or staged. A `RingWindow` is the
window of a ring, a `HeldTile` the rectangle of a tensor that a tile holds. The offset of an element in
the arena is that of its row, plus `column_bytes` for each column:

    buffer of 2 rows (RING), tensor of 5 rows    row 0 1 2 3 4
                                                 at  0 1 0 1 0   times row_bytes, from the offset on
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.plan.plan import Alias, StreamBuffer
from planners.plan.shadow_arena import MarkedArena


class HeldTensor:
    """The execution state of a tensor: its buffers, its computed rows, the rows that readers need.

    layer: produces the tensor. buffer: the first of its buffers. made: the number of computed rows.
    needed_from: for each reader, the first row that it still needs. staged: the first staged row and
    its offset; None without staged rows. column_bytes, row_bytes: from one column, or row, to the next.
    """

    def __init__(
        self, layer: Layer, host: Layer, alias: Alias, unit: int, *buffers: StreamBuffer
    ) -> None:
        """Store a tensor in its buffers; several buffers are for different readers.

        host: the tensor that owns the buffers. alias: the position of this tensor inside the host.
        unit: bytes per element.
        """
        self.layer = layer
        self.buffer = buffers[0]
        self.buffers = buffers
        self._of_reader = {name: buffer for buffer in buffers for name in buffer.readers}
        self.made = 0
        self.needed_from: dict[str, int] = {}
        self.staged: tuple[int, int] | None = None
        self.column_bytes = host.shape.pixel_elements * unit
        self.row_bytes = host.shape.row_elements * unit
        self._first_row = alias.row
        self._inset = alias.column * self.column_bytes + alias.channel * unit

    @property
    def first_needed(self) -> int:
        """The first row that a reader still needs."""
        return min(min(self.needed_from.values(), default=self.made), self.made)

    def read_in(self, reader: str | None) -> StreamBuffer:
        """Return the buffer in which a layer reads it; by default the first."""
        return self._of_reader.get(reader or "", self.buffer)

    def row_offset(self, row: int, reader: str | None = None) -> int:
        """Return the offset of a row, where a layer reads it; by default in the first buffer."""
        if self.staged is not None:
            first_staged, begin = self.staged
            if row >= first_staged:
                return begin + (row - first_staged) * self.row_bytes
        return self._offset_in(self.read_in(reader), row)

    def row_offsets(self, row: int) -> list[int]:
        """Return the offsets of a row in all buffers, to write it."""
        if len(self.buffers) == 1:
            return [self.row_offset(row)]
        return [self._offset_in(buffer, row) for buffer in self.buffers]

    def may_overlap(self, begin: int, end: int) -> bool:
        """Whether bytes from begin to end intersect a buffer of the tensor, or it has staged rows."""
        return self.staged is not None or any(
            buffer.offset < end and begin < buffer.end_byte for buffer in self.buffers
        )

    def require_region(self, rows: Range, columns: Range) -> None:
        """Raise ExecutionError if the tensor never holds a region; only tiles are parts of tensors."""

    def _offset_in(self, buffer: StreamBuffer, row: int) -> int:
        row += self._first_row
        if not buffer.has_all_rows:
            row %= max(buffer.rows, 1)
        return buffer.offset + self._inset + row * self.row_bytes


def whole_region(layer: Layer) -> Region:
    """Return the region of all rows and columns of the result of a layer."""
    return Region((0, layer.shape.rows), (0, layer.shape.width))


def rows_read(
    arena: MarkedArena,
    tensor: HeldTensor,
    rows: Range,
    reader: str | None = None,
    columns: Range | None = None,
) -> Array:
    """Return rows of a tensor, (rows, columns, channels); contiguous rows are read as one block.

    columns: all by default. Raises ExecutionError if an element is not in the arena, or not in a tile.
    """
    layer, (first, end) = tensor.layer, rows
    width, channels, count = layer.shape.width, layer.shape.pixel_elements, max(end - first, 0)
    left, right = columns or (0, width)
    tensor.require_region(rows, (left, right))
    if count and (left, right) == (0, width):
        size = layer.shape.row_elements
        begin, last = tensor.row_offset(first, reader), tensor.row_offset(end - 1, reader)
        is_dense = tensor.row_bytes == size * arena.element_bytes(layer.name)
        is_block = is_dense and last - begin == (count - 1) * tensor.row_bytes
        if is_block and tensor.staged is None and not isinstance(tensor, RingWindow):
            elements = arena.read(begin, layer.name, first * size, count * size)
            return elements.reshape(count, width, channels)
    values = np.empty((count, right - left, channels), layer.array_type)
    for row in range(first, end):
        at = tensor.row_offset(row, reader) + left * tensor.column_bytes
        elements = arena.read(
            at, layer.name, (row * width + left) * channels, (right - left) * channels
        )
        values[row - first] = elements.reshape(right - left, channels)
    return values


def write_region(
    arena: MarkedArena,
    tensor: HeldTensor,
    region: Region,
    values: Array | None,
    *,
    into_all: bool = False,
) -> None:
    """Write a region of a tensor, (rows, columns, channels), into its first buffer or staged rows.

    values: None if nothing is computed. into_all: write into all buffers of the tensor. Raises
    ExecutionError if a tile does not have the region.
    """
    layer, ((top, bottom), (left, right)) = tensor.layer, region
    tensor.require_region(*region)
    channels = layer.shape.pixel_elements
    for row in range(top, bottom):
        row_values = None if values is None else values[row - top]
        first = (row * layer.shape.width + left) * channels
        for offset in tensor.row_offsets(row) if into_all else (tensor.row_offset(row),):
            at = offset + left * tensor.column_bytes
            arena.write(at, layer.name, first, row_values, (right - left) * channels)


class RingWindow(HeldTensor):
    """The window of a ring: its first rows are rows of one tensor, the others rows of another."""

    def __init__(self, layer: Layer, unit: int, first: HeldTensor, new: HeldTensor) -> None:
        """Join the tensor of the first rows and the tensor of the new rows. unit: bytes per element."""
        alias = Alias(layer.name, layer.name)
        super().__init__(layer, layer, alias, unit, first.buffer)
        self._pieces = first, new
        self.made = layer.shape.rows

    def may_overlap(self, begin: int, end: int) -> bool:
        """Whether bytes from begin to end may belong to either tensor."""
        return any(piece.may_overlap(begin, end) for piece in self._pieces)

    def row_offset(self, row: int, reader: str | None = None) -> int:
        """Return the offset of a row; a row of the first tensor is in the buffer for the window."""
        first, new = self._pieces
        kept = first.layer.shape.rows
        return (
            first.row_offset(row, self.layer.name)
            if row < kept
            else new.row_offset(row - kept, reader)
        )

    def read_in(self, _reader: str | None) -> StreamBuffer:
        """Return the buffer in which the window, and so each of its readers, reads the first rows."""
        return self._pieces[0].read_in(self.layer.name)


class HeldTile(HeldTensor):
    """The region of a tensor that a tile holds, row by row from the begin of a buffer."""

    def __init__(self, layer: Layer, unit: int, buffer: StreamBuffer, region: Region) -> None:
        """Hold a region. unit: bytes per element. Raises ExecutionError if the buffer is too small."""
        super().__init__(layer, layer, Alias(layer.name, layer.name), unit, buffer)
        self.region = region
        self.row_bytes = region.width * self.column_bytes
        if (needed := region.height * self.row_bytes) > buffer.size:
            raise ExecutionError(
                f"buffer {buffer.name!r} of {buffer.size} bytes is asked for {needed} bytes"
            )

    def row_offset(self, row: int, _reader: str | None = None) -> int:
        """Return the byte at which column 0 of a row would be; the region may begin further right."""
        (top, _), (left, _) = self.region.rows, self.region.columns
        return self.buffer.offset + (row - top) * self.row_bytes - left * self.column_bytes

    def require_region(self, rows: Range, columns: Range) -> None:
        """Raise ExecutionError if rows, one at least, have elements outside the region of the tile."""
        (first_row, end_row), (first_column, end_column) = rows, columns
        (top, bottom), (left, right) = self.region.rows, self.region.columns
        has_rows = top <= first_row and end_row <= bottom
        has_columns = left <= first_column <= end_column <= right
        if first_row < end_row and not (has_rows and has_columns):
            raise ExecutionError(
                f"rows {first_row} to {end_row}, columns {first_column} to {end_column} of "
                f"{self.layer.name!r} are accessed, but a tile has {self.region}"
            )


class HeldStrip(NamedTuple):
    """A strip of a layer inside a stage, during a firing: some columns of its rows, as a ring.

    rows: of the layer that the firing computes. room, columns: rows and columns of the strip, from the
    byte `offset` of the arena on. channels: of one channel block, or all.
    """

    layer: Layer
    rows: Range
    room: int
    columns: int
    offset: int
    channels: int

    def offset_of(self, row: int, column: int, unit: int) -> int:
        """Return the offset of the first channel of a pixel. unit: bytes per element."""
        first, _ = self.rows
        if not 0 <= row - first < self.room:
            raise ExecutionError(f"row {row} of the strip of {self.layer.name!r} has no room")
        pixel = (row - first) * self.columns + column % self.columns
        return self.offset + pixel * self.channels * unit


def may_overlap(result: HeldTensor, source: HeldTensor) -> bool:
    """Return whether the buffers of a result and a source intersect, or the result has staged rows."""
    return result.staged is not None or any(
        source.may_overlap(*buffer.byte_range) for buffer in result.buffers
    )


def is_in_place(layer: Layer, result: HeldTensor, source: HeldTensor, made: Range) -> bool:
    """Whether a layer writes no element over a source element that it reads later.

    made: the rows of the result that the firing computed.
    """
    is_whole = made == (0, layer.shape.rows) and not layer.epilogue
    if is_whole and layer.operator.keeps_memory_order:  # every element stays at its address
        return result.row_offsets(0) == [source.row_offset(0, layer.name)]
    if is_whole and layer.operator.converts:
        # Converted in order, an element that does not get wider ends before the next source element.
        types = source.layer.quantization, layer.quantization
        return (
            None not in types
            and layer.element_bytes <= source.layer.element_bytes
            and result.row_bytes <= source.row_bytes
            and source.layer.shape == layer.shape
            and result.row_offsets(0) == [source.row_offset(0, layer.name)]
        )
    return (
        layer.operator.is_elementwise
        and source.layer.name not in layer.inputs[2:]  # read when the first two are combined
        and (source.layer.shape, source.row_bytes) == (layer.shape, result.row_bytes)
        and source.read_in(layer.name).layout == result.buffer.layout
        and all(
            result.row_offsets(row) == [source.row_offset(row, layer.name)] for row in range(*made)
        )
    )
