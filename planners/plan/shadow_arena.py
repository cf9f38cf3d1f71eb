"""Shadow memory: the tensor element that each byte of an arena holds, and the offsets of tensors.

It defines `Computing`, the interface between the executor of plans and the code that computes
layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np

from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.rings import rings_of
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.plan.plan import Alias, Kind, StreamBuffer, StreamingPlan

NOTHING = -(2**62)  # no mark less an address
POISON = 0xFF  # a float of such bytes is no number


MOST_BYTES = 2**40  # of a content of a layer: its marks leave room for as many


class Content(Enum):
    """Contents of bytes other than tensor elements; each byte of each layer has a unique mark."""

    SUMS = "sums"  # of a layer that adds up rows
    BLOCK_SUMS = "block sums"  # of a layer that adds up channel blocks
    STATE = "state"  # of a layer, from frame to frame
    WEIGHTS = "weights"


class MarkedArena:
    """The bytes of an arena with shadow memory: a unique mark for every byte of every element.

    The bytes of a tensor, and of each other content, have consecutive marks. `held` stores the mark of
    each byte minus its address, which is constant over bytes stored contiguously in order.

    Elements that a concatenation or slice only moves keep their marks, so a tensor may be read wherever
    its elements are stored. Where the planned element size differs from the computed size, the values
    are stored outside the arena; a read that is allowed by the marks returns these values.
    """

    def __init__(self, plan: StreamingPlan, network: Network, memory: Array | None = None) -> None:
        """Create the arena of a plan. memory: its bytes as earlier users left them, else poisoned."""
        if memory is None:
            memory = np.full(plan.all_bytes, POISON, np.uint8)
        self.memory = memory
        self.held = np.full(plan.all_bytes, NOTHING, np.int64)
        self.written_end = 0  # one past the last byte of the arena that was written
        self._bounds = {
            buffer.tensor: (plan.arena_bytes, plan.all_bytes)
            for buffer in plan.buffers
            if buffer.kind is Kind.EXTERNAL
        }
        self._inside = 0, plan.arena_bytes
        # Windows of rings whose last rows are those of a tensor outside the arena.
        self._windows = {
            name: self._bounds[ring.new]
            for name, ring in rings_of(network).items()
            if ring.new in self._bounds
        }
        self._slow = {
            memory.name: range(begin, begin + memory.size)
            for memory, begin in plan.placed_memories
            if memory.is_slow
        }
        self.reads: Counter[str] = Counter()  # bytes read from each slow memory, and the flash
        self.writes: Counter[str] = Counter()  # bytes written to each slow memory
        self._network = network
        self._layers = {layer.name: layer for layer in network.layers}
        self._strides = {
            alias.tensor: _place_elements(self._layers[alias.host]) for alias in plan.aliases
        }
        self._sizes = {
            name: plan.element_bytes or layer.element_bytes for name, layer in self._layers.items()
        }
        self._fits = {
            name: np.dtype(layer.array_type).itemsize == self._sizes[name]
            for name, layer in self._layers.items()
        }
        # C counts the arena in its smallest elements; strips of wider elements begin at any of them.
        self._grid = min(self._sizes.values())
        self._moves = {name for name in self._layers if _only_moves(network, self._layers[name])}
        self._moved: dict[str, Array] = {}
        self._first: dict[str, int] = {}
        total = 0
        for layer in network.layers:
            self._first[layer.name] = total
            total += layer.shape.elements * self._sizes[layer.name]
        self._contents: dict[tuple[Content, str], int] = {}
        self._unused = total
        self._beside = np.zeros(0 if all(self._fits.values()) else total)

    def element_bytes(self, tensor: str) -> int:
        """Bytes of one element of a tensor."""
        return self._sizes[tensor]

    def write(self, offset: int, tensor: str, first: int, values: Array | None, count: int) -> None:
        """Write elements of a tensor, in its order from `first` on, at an offset in bytes."""
        addresses, steps = self._addresses(offset, tensor, first, count)
        self.count(self.writes, offset, count * self._sizes[tensor])
        self.held[addresses] = self._held(offset, tensor, first, count, steps)
        if values is not None:
            flat = np.ascontiguousarray(values, self._layers[tensor].array_type).reshape(-1)
            if self._fits[tensor]:
                self.memory[addresses] = flat.view(np.uint8)
            else:
                self._beside[self._marks(tensor, first, count)] = flat
        if tensor not in self._bounds:
            self.written_end = max(
                self.written_end,
                addresses.stop if isinstance(addresses, slice) else addresses[-1] + 1,
            )

    def read(self, offset: int, tensor: str, first: int, count: int) -> Array:
        """Return elements of a tensor. Raises ExecutionError where the marks are of other elements."""
        addresses, steps = self._addresses(offset, tensor, first, count)
        self.count(self.reads, offset, count * self._sizes[tensor])
        if not (self.held[addresses] == self._held(offset, tensor, first, count, steps)).all():
            raise ExecutionError(
                f"the bytes from {offset} on do not hold elements {first} to {first + count} of "
                f"{tensor!r}"
            )
        kind = self._layers[tensor].array_type
        if not self._fits[tensor]:
            return self._beside[self._marks(tensor, first, count)].astype(kind)
        return self.memory[addresses].view(kind)

    def fill(self, content: Content, layer: str, place: Range, first: int = 0) -> None:
        """Mark bytes as sums, weights or state of a layer, from byte `first` of that content on."""
        begin, end = self._inside_arena(place, layer)
        self.held[begin:end] = self._first_mark(content, layer) + first - begin
        self.written_end = max(self.written_end, end)

    def holds(self, content: Content, layer: str, place: Range, first: int = 0) -> bool:
        """Whether each byte still has the mark that `fill` with the same arguments wrote."""
        begin, end = self._inside_arena(place, layer)
        wanted = self._first_mark(content, layer) + first - begin
        return bool((self.held[begin:end] == wanted).all())

    def _inside_arena(self, place: Range, layer: str) -> Range:
        if place[0] < 0 or place[1] > self._inside[1]:
            raise ExecutionError(
                f"bytes {place[0]} to {place[1]} for layer {layer!r} leave the arena of "
                f"{self._inside[1]} bytes"
            )
        return place

    def _first_mark(self, content: Content, layer: str) -> int:
        """The first mark of a content; no two contents, layers or bytes have a mark in common."""
        key = content, layer
        if key not in self._contents:
            self._contents[key] = self._unused
            self._unused += MOST_BYTES
        return self._contents[key]

    def spoil(self, offset: int, size: int) -> None:
        """Poison bytes: their marks are cleared, so no tensor can be read from them."""
        if offset < 0 or offset + size > self._inside[1]:
            raise ExecutionError(f"scratch from byte {offset} to {offset + size} leaves the arena")
        self.held[offset : offset + size] = NOTHING
        self.memory[offset : offset + size] = POISON
        self.written_end = max(self.written_end, offset + size)

    def count(self, kind: Counter[str], offset: int, size: int) -> None:
        """Count bytes from an offset on if the offset is in a slow memory."""
        for name, memory in self._slow.items():
            if offset in memory:
                kind[name] += size

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Suspend the counts, for reads by checks and for moves that a frame does not make."""
        counts = self.reads.copy(), self.writes.copy()
        yield
        self.reads, self.writes = counts

    @property
    def slow_bytes(self) -> int:
        """Bytes read from slow memories and written to them."""
        return self.reads.total() + self.writes.total()

    def _addresses(
        self, offset: int, tensor: str, first: int, count: int
    ) -> tuple[slice | Array, Array | None]:
        """The bytes of elements of one row; within an alias, the addresses from the first on, too."""
        size = self._sizes[tensor]
        first_byte, end = self._bounds.get(tensor, self._inside)
        if tensor in self._windows and offset >= self._windows[tensor][0]:
            first_byte, end = self._windows[tensor]
        length, steps = count * size, None
        if tensor in self._strides:
            within = _place_elements(self._layers[tensor])
            places, beside = np.divmod(np.arange(first, first + count), within)
            apart = (places - places[:1]) * self._strides[tensor] + beside - beside[:1]
            if count and apart[-1] + 1 != count:
                steps = (apart[:, None] * size + np.arange(size)).reshape(-1)
                length = int(steps[-1]) + 1
        if offset < first_byte or offset % self._grid or offset + length > end:
            raise ExecutionError(
                f"{count} elements of {tensor!r} at byte {offset} leave the arena or its grid"
            )
        if steps is None:
            return slice(offset, offset + length), None
        return offset + steps, steps

    def _held(
        self, offset: int, tensor: str, first: int, count: int, steps: Array | None
    ) -> int | Array:
        """Marks of the bytes of elements less their addresses. steps: addresses from the first on."""
        size = self._sizes[tensor]
        if tensor not in self._moves and steps is None:
            return self._first[tensor] + first * size - offset
        marks = self._marks(tensor, first, count)[:, None] + np.arange(size)
        addresses = np.arange(count * size) if steps is None else steps
        return np.asarray(marks.reshape(-1) - (offset + addresses))

    def _marks(self, tensor: str, first: int, count: int) -> Array:
        """The marks of the first bytes of elements; a moved tensor has the marks of its sources."""
        if tensor not in self._moves:
            begin, size = self._first[tensor], self._sizes[tensor]
            return np.arange(begin + first * size, begin + (first + count) * size, size)
        if tensor not in self._moved:
            self._moved[tensor] = self._all_marks(tensor).reshape(-1)
        return self._moved[tensor][first : first + count]

    def _all_marks(self, tensor: str) -> Array:
        """The marks of all elements in storage order."""
        layer = self._layers[tensor]
        shapes = self._network.input_shapes(layer)
        parts = [
            _as_dims(self._marks(name, 0, shape.elements), shape)
            for name, shape in zip(layer.inputs, shapes, strict=True)
        ]
        axis, cut = layer.operator.joined_axis, layer.operator.sliced_range
        if axis is not None:
            return _as_it_lies(np.concatenate(parts, axis))
        if cut is not None:
            rows = np.moveaxis(parts[0], cut.axis, 0)[cut.start : cut.stop : cut.step]
            return _as_it_lies(np.moveaxis(rows, 0, cut.axis))
        return _as_it_lies(parts[0])  # an identity: `_only_moves` admits no other view


def _only_moves(network: Network, layer: Layer) -> bool:
    """Whether a layer passes on elements of its inputs: concatenation, slice, identity."""
    if layer.epilogue or not (layer.operator.is_view and layer.operator.by_pixels):
        return False
    types = {(source.element, source.quantization) for source in map(network.layer, layer.inputs)}
    return types == {(layer.element, layer.quantization)}


def _as_dims(marks: Array, shape: Shape) -> Array:
    """Elements from storage order (HWC) to the order of the dims (CHW)."""
    if not shape.is_map:
        return marks.reshape(shape.dims)
    channels, height, width = shape.dims
    return marks.reshape(height, width, channels).transpose(2, 0, 1)


def _as_it_lies(marks: Array) -> Array:
    """Elements from the order of the dims (CHW) to storage order (HWC)."""
    return marks.transpose(1, 2, 0) if marks.ndim == 3 else marks


def _place_elements(layer: Layer) -> int:
    """Elements of one position of a tensor."""
    return layer.shape.row_elements // layer.shape.width


class HeldTensor:
    """The execution state of a tensor: rows computed, rows released by readers, offsets of rows."""

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
        self.done: dict[str, int] = {}  # first row that each reader still needs
        self.staged: tuple[int, int] | None = None  # first staged row, and where it lies
        self.place_bytes = _place_elements(host) * unit
        self.row_bytes = host.shape.row_elements * unit
        self._first_row = alias.row
        self._within = alias.column * self.place_bytes + alias.channel * unit

    @property
    def first(self) -> int:
        """The first row that a reader still needs."""
        return min(min(self.done.values(), default=self.made), self.made)

    def read_in(self, reader: str | None) -> StreamBuffer:
        """Return the buffer in which a layer reads it; by default the first."""
        return self._of_reader.get(reader or "", self.buffer)

    def place(self, row: int, reader: str | None = None) -> int:
        """Return the position of a row, where a layer reads it; by default in the first buffer."""
        if self.staged is not None and row >= self.staged[0]:
            return self.staged[1] + (row - self.staged[0]) * self.row_bytes
        return self._place(self.read_in(reader), row)

    def places(self, row: int) -> list[int]:
        """Return all positions of a row that is written."""
        if len(self.buffers) == 1:
            return [self.place(row)]
        return [self._place(buffer, row) for buffer in self.buffers]

    def may_overlap(self, begin: int, end: int) -> bool:
        """Whether bytes from begin to end intersect a buffer of the tensor, or it has staged rows."""
        return self.staged is not None or any(
            buffer.offset < end and begin < buffer.offset + buffer.size for buffer in self.buffers
        )

    def _place(self, buffer: StreamBuffer, row: int) -> int:
        row += self._first_row
        if not buffer.has_all_rows:
            row %= max(buffer.rows, 1)
        return buffer.offset + self._within + row * self.row_bytes


def rows_read(
    arena: MarkedArena,
    tensor: HeldTensor,
    rows: Range,
    reader: str | None = None,
    columns: Range | None = None,
) -> Array:
    """Return rows of a tensor, (rows, columns, channels), at once where they follow one another.

    columns: if not all. Raises ExecutionError where one does not exist.
    """
    shape, (first, end) = tensor.layer.shape, rows
    count, size = end - first, shape.row_elements
    unit = arena.element_bytes(tensor.layer.name)
    if count <= 0:
        return np.empty((0, shape.width, size // shape.width), tensor.layer.array_type)
    if columns not in (None, (0, shape.width)):
        left, elements_each = columns[0], size // shape.width
        count_of = (columns[1] - left) * elements_each
        parts = [
            arena.read(
                tensor.place(row, reader) + left * tensor.place_bytes,
                tensor.layer.name,
                row * size + left * elements_each,
                count_of,
            )
            for row in range(first, end)
        ]
        return np.stack(parts).reshape(count, columns[1] - left, -1)
    begin, last = tensor.place(first, reader), tensor.place(end - 1, reader)
    is_block = tensor.row_bytes == size * unit and last - begin == (count - 1) * tensor.row_bytes
    if is_block and tensor.staged is None and not isinstance(tensor, JoinedTensor):
        elements = arena.read(begin, tensor.layer.name, first * size, count * size)
    else:
        elements = np.stack(
            [
                arena.read(tensor.place(row, reader), tensor.layer.name, row * size, size)
                for row in range(first, end)
            ]
        )
    return elements.reshape(count, shape.width, -1)


class JoinedTensor(HeldTensor):
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

    def place(self, row: int, reader: str | None = None) -> int:
        """Return the position of a row: one of the first tensor in the buffer for the window."""
        first, new = self._pieces
        kept = first.layer.shape.rows
        return first.place(row, self.layer.name) if row < kept else new.place(row - kept, reader)

    def read_in(self, _reader: str | None) -> StreamBuffer:
        """Return the buffer in which the window, and so each of its readers, reads the first rows."""
        return self._pieces[0].read_in(self.layer.name)


class HeldStrip(NamedTuple):
    """Return the position of the columns of a strip during a firing."""

    layer: Layer
    rows: Range
    room: int  # rows
    columns: int
    offset: int
    channels: int  # that are there at a time

    def place(self, row: int, column: int, unit: int) -> int:
        """Return the position of an element."""
        if not 0 <= row - self.rows[0] < self.room:
            raise ExecutionError(f"row {row} of the strip of {self.layer.name!r} has no room")
        at = (row - self.rows[0]) * self.columns + column % self.columns
        return self.offset + at * self.channels * unit


def may_overlap(result: HeldTensor, source: HeldTensor) -> bool:
    """Return whether the buffers of a result and a source intersect, or the result has staged rows."""
    return result.staged is not None or any(
        source.may_overlap(buffer.offset, buffer.offset + buffer.size) for buffer in result.buffers
    )


def is_in_place(layer: Layer, result: HeldTensor, source: HeldTensor, made: Range) -> bool:
    """Whether a layer writes no element over a source element that it reads later.

    made: the rows of the result that the firing computed.
    """
    is_whole = made == (0, layer.shape.rows) and not layer.epilogue
    if is_whole and layer.operator.keeps_memory_order:  # every element stays at its address
        return result.places(0) == [source.place(0, layer.name)]
    if is_whole and layer.operator.converts:
        # Converted in order, an element that does not get wider ends before the next source element.
        types = source.layer.quantization, layer.quantization
        return (
            None not in types
            and layer.element_bytes <= source.layer.element_bytes
            and result.row_bytes <= source.row_bytes
            and source.layer.shape == layer.shape
            and result.places(0) == [source.place(0, layer.name)]
        )
    return (
        layer.operator.is_elementwise
        and source.layer.name not in layer.inputs[2:]  # read when the first two are combined
        and (source.layer.shape, source.row_bytes) == (layer.shape, result.row_bytes)
        and source.read_in(layer.name).layout == result.buffer.layout
        and all(
            result.places(row) == [source.place(row, layer.name)] for row in range(made[0], made[1])
        )
    )


class Computing(Protocol):
    """The values that fill the regions; the checker computes none."""

    def frame_row(self, name: str, row: int) -> Array:
        """Return a row of an input, (columns, channels)."""

    def first_states(self) -> dict[str, dict[str, Array]]:
        """Return the initial states of layers, by role."""

    def region(
        self,
        layer: Layer,
        target: Region,
        inputs: Sequence[tuple[Region, Array]],
        kept: dict[str, Array] | None = None,
    ) -> Array:
        """Return a region of a layer's output, (rows, columns, channels), from its input regions.

        kept: the state of a layer that retains one from frame to frame, updated in place.
        """

    def add_row(self, layer: Layer, row: int, values: Array, sums: Array) -> None:
        """Add a row of the input, (columns, channels), to the accumulators of a layer."""

    def finished(self, layer: Layer, sums: Array) -> Array:
        """Return the output from complete accumulators, (rows, columns, channels)."""
