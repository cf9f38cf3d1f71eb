"""Shadow memory: a mark for each byte of an arena says which tensor element the byte holds.

Example: tensor x of 4 elements of 1 byte has the marks 0 to 3, tensor y of 2 elements of 1 byte the
marks 4 and 5. After x was written at offset 0 and y at offset 2, the bytes have the marks 0, 1, 4, 5.
A read of x at offset 0 then raises ExecutionError: the bytes 2 and 3 do not have the marks of x.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import numpy as np

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.rings import rings_of
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.plan.plan import Kind, StreamingPlan

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
        self._arena_bytes = plan.arena_bytes
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
            alias.tensor: self._layers[alias.host].shape.pixel_elements for alias in plan.aliases
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
        begin, end = place
        if begin < 0 or end > self._arena_bytes:
            raise ExecutionError(
                f"bytes {begin} to {end} for layer {layer!r} leave the arena of "
                f"{self._arena_bytes} bytes"
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
        end = offset + size
        if offset < 0 or end > self._arena_bytes:
            raise ExecutionError(f"scratch from byte {offset} to {end} leaves the arena")
        self.held[offset:end] = NOTHING
        self.memory[offset:end] = POISON
        self.written_end = max(self.written_end, end)

    def count(self, kind: Counter[str], offset: int, size: int) -> None:
        """Count bytes from an offset on if the offset is in a slow memory."""
        for name, memory in self._slow.items():
            if offset in memory:
                kind[name] += size

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Suspend the counts, for reads by checks and for moves that a frame does not make."""
        reads, writes = self.reads.copy(), self.writes.copy()
        yield
        self.reads, self.writes = reads, writes

    @property
    def slow_bytes(self) -> int:
        """Bytes read from slow memories and written to them."""
        return self.reads.total() + self.writes.total()

    def _addresses(
        self, offset: int, tensor: str, first: int, count: int
    ) -> tuple[slice | Array, Array | None]:
        """The bytes of elements of one row; within an alias, the addresses from the first on, too."""
        size = self._sizes[tensor]
        first_byte, end = self._bounds.get(tensor, (0, self._arena_bytes))
        if tensor in self._windows and offset >= self._windows[tensor][0]:
            first_byte, end = self._windows[tensor]
        length, steps = count * size, None
        if tensor in self._strides:
            within = self._layers[tensor].shape.pixel_elements
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
