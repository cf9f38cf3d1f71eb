"""Row-by-row executor: the firings of a schedule, in ring buffers of exactly the given capacities.

The executor checks rates, schedule and capacities. The graph tells how many rows each phase consumes,
writes and releases; the executor computes the rows that a phase writes, and rejects every access to a
row that does not exist. It shares no row arithmetic with the conversion to the graph.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cnn2csdf.execution.layer_by_layer import Computation, checked_frame, computation
from cnn2csdf.execution.wiring import WiredLayer, wired_layers
from cnn2csdf.network import Shape
from cnn2csdf.part import HeldRows, RowReader
from cnn2csdf.weights import Array, Model
from csdf.arguments import public
from csdf.errors import ExecutionError, counted
from csdf.model.graph import Channel, Graph
from csdf.model.schedule import Firing

Frame = Mapping[str, Array]  # name of an input or output layer: its tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class RowByRowRun:
    """The outputs of a row-by-row run, and its use of the channels.

    outputs: for each frame, by output layer. peaks: the maximum of stored and claimed tokens of each
    channel; capacities: those of the graph. largest_size: the maximum of tokens in all channels.
    """

    outputs: tuple[dict[str, Array], ...]
    peaks: dict[str, int]
    capacities: dict[str, int]
    largest_size: int
    firings: int


@public
def run_row_by_row(
    model: Model,
    graph: Graph,
    schedule: Iterable[Firing],
    frames: Sequence[Frame],
    *,
    storage: Mapping[str, Array] | None = None,
) -> RowByRowRun:
    """Return the outputs of the frames, computed firing by firing.

    graph: one actor for each layer, one channel with a capacity for each connection, a token for
    each tensor element. schedule: firings of exactly this many frames, in any order. storage: where
    the elements of a channel lie, as views of an arena; by default each has an array of its own.
    Raises ExecutionError, naming actor, phase and channel, where a firing starts without its tokens
    or its space or out of its order, where it reads a row that does not exist, or where the schedule
    ends before the last frame does or goes on after it.
    """
    run = _NetworkRun(model, graph, frames, storage or {})
    ends: dict[Fraction, list[Firing]] = defaultdict(list)
    starts: dict[Fraction, list[Firing]] = defaultdict(list)
    for firing in schedule:
        if firing.end < firing.start:
            raise ExecutionError(
                f"actor {firing.actor!r}, firing {firing.index} starts at {firing.start} "
                f"and ends before, at {firing.end}"
            )
        starts[firing.start].append(firing)
        if firing.end > firing.start:  # one of no duration ends as it starts
            ends[firing.end].append(firing)
    for time in sorted({*ends, *starts}):
        for firing in ends.get(time, []):
            run.end(firing)
        run.start_all(starts.get(time, []))
    return run.result()


class _NetworkRun:
    """All layers of a network, running."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        frames: Sequence[Frame],
        storage: Mapping[str, Array],
    ) -> None:
        self._frames = [checked_frame(model.network, frame) for frame in frames]
        self._outputs: tuple[dict[str, Array], ...] = tuple(
            {
                layer.name: np.empty(layer.shape.dims, layer.array_type)
                for layer in model.network.outputs
            }
            for _ in frames
        )
        self._wired = wired_layers(model.network, graph)
        self._buffers = {
            port.channel.name: RingBuffer(
                port.channel,
                wired_layer.layer.shape,
                storage.get(port.channel.name),
                array_type=wired_layer.layer.array_type,
            )
            for wired_layer in self._wired
            for port in wired_layer.outputs
        }
        self._layers = {}
        for wired_layer in self._wired:
            computed, name = computation(model, wired_layer.layer), wired_layer.layer.name
            is_end = wired_layer.layer.is_end
            sides = self._frames if wired_layer.layer.is_input else self._outputs
            tensors = [side[name] for side in sides] if is_end else []
            self._layers[name] = RunningLayer(wired_layer, computed, self._buffers, tensors)
        self._size = self._largest_size = self._firings = 0  # sizes in tokens

    def start_all(self, firings: Sequence[Firing]) -> None:
        """Start the firings of one moment, in any order that their tokens allow."""
        waiting = list(firings)
        while waiting:
            later = []
            for firing in waiting:
                layer = self._layer(firing)
                if layer.obstacle(firing) is not None:
                    later.append(firing)
                    continue
                self._size += layer.start(firing)
                self._largest_size = max(self._largest_size, self._size)
                self._firings += 1
                if firing.start == firing.end:
                    self.end(firing)
            if len(later) == len(waiting):
                first = waiting[0]
                obstacle = self._layer(first).obstacle(first)
                raise ExecutionError(
                    f"{firing_name(first)} starts at {first.start}, but {obstacle}"
                )
            waiting = later

    def end(self, firing: Firing) -> None:
        """End a firing."""
        self._size -= self._layer(firing).end(firing)

    def _layer(self, firing: Firing) -> RunningLayer:
        if firing.actor not in self._layers:
            raise ExecutionError(f"the schedule fires {firing.actor!r}, which is no layer")
        return self._layers[firing.actor]

    def result(self) -> RowByRowRun:
        """Return the run. Raises ExecutionError where a frame is not complete."""
        for wired_layer in self._wired:
            if wired_layer.layer.is_output:
                layer = wired_layer.layer
                written = self._layers[layer.name].written
                wanted = len(self._frames) * layer.shape.rows
                if written != wanted:
                    raise ExecutionError(
                        f"the schedule ends with {written} rows of output {layer.name!r} written; "
                        f"{len(self._frames)} frames have {wanted}"
                    )
        return RowByRowRun(
            outputs=self._outputs,
            peaks={name: buffer.tokens(buffer.peak) for name, buffer in self._buffers.items()},
            capacities={
                port.channel.name: port.channel.capacity or 0
                for wired_layer in self._wired
                for port in wired_layer.outputs
            },
            largest_size=self._largest_size,
            firings=self._firings,
        )


@dataclass(frozen=True, slots=True)
class ConsumedRows:
    """The rows of one frame in a buffer that a firing has consumed."""

    buffer: RingBuffer
    origin: int  # number in the buffer of the frame's first row
    consumed: int  # rows of the buffer that are consumed

    @property
    def shape(self) -> Shape:
        """Shape of the tensor."""
        return self.buffer.shape

    def rows(self, first: int, upto: int) -> Array:
        """Return rows [first, upto). Raises ExecutionError for one not consumed, or released."""
        if self.origin + upto > self.consumed:
            raise ExecutionError(
                f"channel {self.buffer.name!r}: rows {self.origin + first} to "
                f"{self.origin + upto} read, but only those up to {self.consumed} are consumed"
            )
        return self.buffer.read(self.origin + first, self.origin + upto)


class RunningLayer:
    """A layer that fires.

    A firing starts when it has its tokens and its space. Firings that overlap write and release in
    the order of their starts, whichever ends first.
    """

    def __init__(
        self,
        wired: WiredLayer,
        computation: Computation,
        buffers: Mapping[str, RingBuffer],
        frames: Sequence[Array],
    ) -> None:
        """Connect a layer to the buffers of its channels.

        frames: the tensors that an input layer reads, or that an output layer writes, by frame.
        """
        self.name = wired.layer.name
        self.written = 0  # rows
        self._wired = wired
        self._computation = computation
        self._frames = frames
        self._inputs = [(buffers[port.channel.name], port) for port in wired.inputs]
        self._outputs = [buffers[port.channel.name] for port in wired.outputs]
        self._loops = [channel.initial_tokens for channel in wired.loops]
        self._next = 0  # index of the firing that starts next
        self._started: deque[tuple[Firing, tuple[int, ...]]] = deque()  # with rows consumed by then
        self._ended: set[int] = set()

    def obstacle(self, firing: Firing) -> str | None:
        """Say why the firing cannot start now; None if it can."""
        phase = self._next % len(self._wired.rows)
        if (firing.index, firing.phase) != (self._next, phase):
            return f"firing {self._next} (phase {phase}) is next"
        for buffer, port in self._inputs:
            if not buffer.can_consume(port.rows[phase]):
                return buffer.lack_of_rows(port.rows[phase])
        for buffer in self._outputs:
            if not buffer.can_claim(self._wired.rows[phase]):
                return buffer.lack_of_space(self._wired.rows[phase])
        for channel, held in zip(self._wired.loops, self._loops, strict=True):
            if held < channel.consumption[phase]:
                needed = channel.consumption[phase]
                return (
                    f"channel {channel.name!r} holds {counted(held, 'token')}, {needed} are needed"
                )
        return None

    def start(self, firing: Firing) -> int:
        """Consume tokens, claim space, and return how many tokens of space.

        For a firing without an obstacle; raises ExecutionError where a buffer refuses.
        """
        phase = firing.phase
        consumed = tuple(buffer.consume(port.rows[phase]) for buffer, port in self._inputs)
        for buffer in self._outputs:
            buffer.claim(self._wired.rows[phase])
        for place, channel in enumerate(self._wired.loops):
            self._loops[place] -= channel.consumption[phase]
        self._started.append((firing, consumed))
        self._next += 1
        return self._wired.rows[phase] * self._computation.shape.row_elements * len(self._outputs)

    def end(self, firing: Firing) -> int:
        """Write and release, and return how many tokens of space are released.

        A firing that ends before an earlier one waits for it. Raises ExecutionError for an access
        to a row that does not exist.
        """
        self._ended.add(firing.index)
        released = 0
        while self._started and self._started[0][0].index in self._ended:
            started, consumed = self._started.popleft()
            self._ended.remove(started.index)
            phase = started.phase
            try:
                if self._wired.rows[phase]:
                    self._write(self._wired.rows[phase], consumed)
                for buffer, port in self._inputs:
                    buffer.release(port.released[phase])
            except ExecutionError as error:
                raise ExecutionError(f"{firing_name(started)}: {error}") from error
            for place, channel in enumerate(self._wired.loops):
                self._loops[place] += channel.production[phase]
            released += sum(buffer.tokens(port.released[phase]) for buffer, port in self._inputs)
        return released

    def _write(self, rows: int, consumed: Sequence[int]) -> None:
        height = self._computation.shape.rows
        frame, begin = divmod(self.written, height)
        end = begin + rows
        if end > height:
            raise ExecutionError(f"rows {begin} to {end} written, but a frame has {height}")
        layer, shape = self._wired.layer, self._computation.shape
        if layer.is_end and frame >= len(self._frames):
            raise ExecutionError(
                f"it works on frame {frame}, counted from 0, but there are {len(self._frames)}"
            )
        readers: list[RowReader] = [
            ConsumedRows(buffer, frame * buffer.shape.rows, upto)
            for (buffer, _), upto in zip(self._inputs, consumed, strict=True)
        ]
        if layer.is_input:
            readers = [HeldRows(shape=shape, array=self._frames[frame])]
        computed_rows = self._computation.rows(readers, begin, end)
        for buffer in self._outputs:
            buffer.write(computed_rows)
        if layer.is_output:
            target = self._frames[frame]
            target = target[:, begin : begin + computed_rows.shape[1]] if shape.is_map else target
            target[...] = computed_rows
        self.written += rows


def firing_name(firing: Firing) -> str:
    """Return how errors name a firing."""
    return f"actor {firing.actor!r}, firing {firing.index} (phase {firing.phase})"


class RingBuffer:
    """The rows that one channel holds, in one array.

    Rows are numbered on from frame to frame: row r of frame f of a tensor of H rows is f * H + r.
    They pass four marks, each at or ahead of the next: claimed (space for them is taken), written,
    consumed (a firing took their tokens), released (their space is free again). Rows between
    released and claimed occupy the buffer. A tensor that is no stack of maps is a single row.
    """

    def __init__(
        self,
        channel: Channel,
        shape: Shape,
        storage: Array | None = None,
        *,
        array_type: str = "float32",
    ) -> None:
        """Make a buffer for the rows of a tensor. Raises ExecutionError if it could hold none.

        array_type: of the elements of a new array. storage: an array with an element for each token of
        the capacity, perhaps a view of a larger array that other buffers share; by default a new array.
        """
        if channel.capacity is None:
            raise ExecutionError(f"channel {channel.name!r} has no capacity; a buffer needs one")
        self.name = channel.name
        self.shape = shape
        self.capacity = channel.capacity // shape.row_elements  # rows
        if not self.capacity:
            raise ExecutionError(
                f"channel {channel.name!r}: capacity {channel.capacity} is less than one row, "
                f"which has {shape.row_elements} elements"
            )
        before, behind = (shape.dims[:1], shape.dims[2:]) if shape.is_map else ((1,), shape.dims)
        elements = self.capacity * shape.row_elements
        if storage is None:
            storage = np.zeros(elements, array_type)
        elif storage.shape != (channel.capacity,):
            raise ExecutionError(
                f"channel {channel.name!r}: storage of shape {storage.shape}, "
                f"expected ({channel.capacity},)"
            )
        self._array = storage[:elements].reshape((*before, self.capacity, *behind))
        self.claimed = self.written = self.consumed = self.released = 0
        self.peak = 0  # most rows that occupied the buffer

    @property
    def occupied(self) -> int:
        """Rows of space that are in use."""
        return self.claimed - self.released

    def can_claim(self, rows: int) -> bool:
        """Whether there is space for this many rows."""
        return self.occupied + rows <= self.capacity

    def can_consume(self, rows: int) -> bool:
        """Whether this many rows were written and not yet consumed."""
        return self.consumed + rows <= self.written

    def claim(self, rows: int) -> None:
        """Take space for rows. Raises ExecutionError where there is not enough."""
        if not self.can_claim(rows):
            raise ExecutionError(self.lack_of_space(rows))
        self.claimed += rows
        self.peak = max(self.peak, self.occupied)

    def write(self, rows: Array) -> None:
        """Put rows into claimed space. Raises ExecutionError beyond it."""
        count = rows.shape[1] if self.shape.is_map else 1
        if self.written + count > self.claimed:
            raise ExecutionError(
                f"channel {self.name!r}: rows {self.written} to {self.written + count} written, "
                f"but space is claimed up to row {self.claimed} only"
            )
        place = self.written % self.capacity
        fitting = min(count, self.capacity - place)
        if self.shape.is_map:
            self._array[:, place : place + fitting] = rows[:, :fitting]
            if fitting < count:
                self._array[:, : count - fitting] = rows[:, fitting:]
        else:
            self._array[0, place] = rows
        self.written += count

    def consume(self, rows: int) -> int:
        """Take the tokens of rows and return how many are consumed by now.

        Raises ExecutionError where they are not all written.
        """
        if not self.can_consume(rows):
            raise ExecutionError(self.lack_of_rows(rows))
        self.consumed += rows
        return self.consumed

    def read(self, first: int, upto: int) -> Array:
        """Return rows [first, upto): a view, or a copy if the rows wrap around the end of the ring.

        Raises ExecutionError for a row that is not written yet, or released.
        """
        if not self.released <= first <= upto <= self.written:
            raise ExecutionError(
                f"channel {self.name!r}: rows {first} to {upto} read, "
                f"but it holds rows {self.released} to {self.written}"
            )
        place = first % self.capacity
        end = place + upto - first
        if not self.shape.is_map:
            row: Array = self._array[0, place]
            return row
        if end <= self.capacity:
            return self._array[:, place:end]
        around = end - self.capacity
        return np.concatenate((self._array[:, place:], self._array[:, :around]), axis=1)

    def release(self, rows: int) -> None:
        """Free the space of rows. Raises ExecutionError for rows that were not consumed."""
        if self.released + rows > self.consumed:
            raise ExecutionError(
                f"channel {self.name!r}: rows up to {self.released + rows} released, "
                f"but only those up to {self.consumed} are consumed"
            )
        self.released += rows

    def lack_of_rows(self, rows: int) -> str:
        """Describe the rows that a firing finds which consumes this number of rows."""
        return (
            f"channel {self.name!r} holds {self._described(self.written - self.consumed)}, "
            f"{self._described(rows)} are needed"
        )

    def lack_of_space(self, rows: int) -> str:
        """Describe the space that a firing finds which writes this number of rows."""
        free = self.capacity - self.occupied
        return (
            f"channel {self.name!r} has space for {self._described(free)}, "
            f"{self._described(rows)} are needed"
        )

    def tokens(self, rows: int) -> int:
        """Return the tokens of this many rows."""
        return rows * self.shape.row_elements

    def _described(self, rows: int) -> str:
        return f"{counted(self.tokens(rows), 'token')} ({counted(rows, 'row')})"
