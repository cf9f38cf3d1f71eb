"""The bytes of an arena, each of which knows what it holds, and where tensors lie in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.streaming.plan import Kind, StreamBuffer, StreamingPlan
from planners.tiling.regions import Range

NOTHING = -1
POISON = 0xFF  # a float of such bytes is no number


class MarkedArena:
    """Bytes, with what each of them holds: a number for every byte of every tensor.

    Elements that are counted with fewer or more bytes than they are computed in have their values
    beside the bytes: who may read those bytes reads these values.
    """

    def __init__(self, plan: StreamingPlan, network: Network) -> None:
        self.memory = np.full(plan.all_bytes, POISON, np.uint8)
        self.held = np.full(plan.all_bytes, NOTHING, np.int64)
        self.most = 0  # one past the last byte of the arena that was written
        self._bounds = {
            one.tensor: (plan.arena_bytes, plan.all_bytes)
            for one in plan.buffers
            if one.kind is Kind.OUTSIDE
        }
        self._inside = 0, plan.arena_bytes
        self._layers = {layer.name: layer for layer in network.layers}
        self._element_bytes = plan.element_bytes
        self._beside: dict[str, Array] = {}
        self._numbers: dict[str, int] = {}
        total = 0
        for layer in network.layers:
            self._numbers[layer.name] = total
            total += layer.shape.elements * self.element_bytes(layer.name)

    def element_bytes(self, tensor: str) -> int:
        """Bytes of one element of a tensor."""
        return self._element_bytes or self._layers[tensor].element_bytes

    def write(self, offset: int, tensor: str, first: int, values: Array | None, count: int) -> None:
        """Write elements of a tensor, in its order from `first` on, at an offset in bytes."""
        place, held = self._span(offset, tensor, first, count)
        self.held[place] = held
        if values is not None:
            flat = np.ascontiguousarray(values, self._layers[tensor].array_type).reshape(-1)
            if self._fits(tensor):
                self.memory[place] = flat.view(np.uint8)
            else:
                self._values(tensor)[first : first + count] = flat
        if tensor not in self._bounds:
            self.most = max(self.most, place.stop)

    def read(self, offset: int, tensor: str, first: int, count: int) -> Array:
        """Return elements of a tensor. Raises ExecutionError where something else lies there."""
        place, held = self._span(offset, tensor, first, count)
        if not np.array_equal(self.held[place], held):
            raise ExecutionError(
                f"bytes {place.start} to {place.stop} do not hold elements {first} to "
                f"{first + count} of {tensor!r}"
            )
        if not self._fits(tensor):
            return self._values(tensor)[first : first + count]
        return self.memory[place].view(self._layers[tensor].array_type)

    def spoil(self, offset: int, size: int) -> None:
        """Write over bytes; what they hold from now on is nobody's."""
        if offset < 0 or offset + size > self._inside[1]:
            raise ExecutionError(f"scratch from byte {offset} to {offset + size} leaves the arena")
        self.held[offset : offset + size] = NOTHING
        self.memory[offset : offset + size] = POISON
        self.most = max(self.most, offset + size)

    def _fits(self, tensor: str) -> bool:
        """Whether elements are counted with the bytes that they are computed in."""
        kind = np.dtype(self._layers[tensor].array_type)
        return kind.itemsize == self.element_bytes(tensor)

    def _values(self, tensor: str) -> Array:
        """The values of all elements of a tensor that lie beside the bytes."""
        if tensor not in self._beside:
            layer = self._layers[tensor]
            self._beside[tensor] = np.zeros(layer.shape.elements, layer.array_type)
        return self._beside[tensor]

    def _span(self, offset: int, tensor: str, first: int, count: int) -> tuple[slice, Array]:
        """The bytes of elements, and the numbers of what they hold."""
        size = self.element_bytes(tensor)
        first_byte, end = self._bounds.get(tensor, self._inside)
        if offset < first_byte or offset % size or offset + count * size > end:
            raise ExecutionError(
                f"{count} elements of {tensor!r} at byte {offset} leave the arena or its grid"
            )
        begin = self._numbers[tensor] + first * size
        held = np.arange(begin, begin + count * size)
        return slice(offset, offset + count * size), held


class HeldTensor:
    """A tensor on its way: rows made, rows that readers are done with, and where rows lie."""

    def __init__(self, layer: Layer, *buffers: StreamBuffer) -> None:
        """Take the buffers in which it lies; each of several is read by some layers."""
        self.layer = layer
        self.buffer = buffers[0]
        self.buffers = buffers
        self._of_reader = {name: one for one in buffers for name in one.readers}
        self.made = 0
        self.done: dict[str, int] = {}  # first row that each reader still needs
        self.staged: tuple[int, int] | None = None  # first staged row, and where it lies

    @property
    def first(self) -> int:
        """The first row that a reader still needs."""
        return min(min(self.done.values(), default=self.made), self.made)

    def place(self, row: int, row_bytes: int, reader: str | None = None) -> int:
        """Return the place of a row, where a layer reads it; by default in the first buffer."""
        if self.staged is not None and row >= self.staged[0]:
            return self.staged[1] + (row - self.staged[0]) * row_bytes
        return _place(self._of_reader.get(reader or "", self.buffer), row, row_bytes)

    def places(self, row: int, row_bytes: int) -> list[int]:
        """Return all places of a row that is written."""
        if len(self.buffers) == 1:
            return [self.place(row, row_bytes)]
        return [_place(one, row, row_bytes) for one in self.buffers]


def _place(buffer: StreamBuffer, row: int, row_bytes: int) -> int:
    if buffer.has_all_rows:
        return buffer.offset + row * row_bytes
    return buffer.offset + row % max(buffer.rows, 1) * row_bytes


class HeldStrip(NamedTuple):
    """Return the place of the columns of a strip during a firing."""

    layer: Layer
    rows: Range
    room: int  # rows
    columns: int
    offset: int
    channels: int  # that are there at a time

    def place(self, row: int, column: int, unit: int) -> int:
        """Return the place of an element."""
        if not 0 <= row - self.rows[0] < self.room:
            raise ExecutionError(f"row {row} of the strip of {self.layer.name!r} has no room")
        at = (row - self.rows[0]) * self.columns + column % self.columns
        return self.offset + at * self.channels * unit
