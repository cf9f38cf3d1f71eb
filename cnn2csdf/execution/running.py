"""A layer of a run by parts: its firings, its buffers, and what it has written by now."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnn2csdf.execution.buffers import RingBuffer
from cnn2csdf.execution.layers import Computation
from cnn2csdf.execution.wiring import WiredLayer
from cnn2csdf.network import Shape
from cnn2csdf.operators import Input, Output
from cnn2csdf.part import HeldRows, Reader
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError, counted
from csdf.model.schedule import Firing


@dataclass(frozen=True, slots=True)
class ConsumedRows:
    """The rows of one frame in a buffer, as far as a firing has consumed them."""

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


class _Started(NamedTuple):
    """A firing that has not written yet."""

    firing: Firing
    consumed: tuple[int, ...]  # rows of each input by then


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

        frames: what an input layer reads, or where an output layer writes, for each frame.
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
        self._started: deque[_Started] = deque()
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
        self._started.append(_Started(firing, consumed))
        self._next += 1
        return self._wired.rows[phase] * self._computation.shape.row_elements * len(self._outputs)

    def end(self, firing: Firing) -> int:
        """Write and release, and return how many tokens of space are released.

        A firing that ends before an earlier one waits for it. Raises ExecutionError for an access
        to a row that is not there.
        """
        self._ended.add(firing.index)
        released = 0
        while self._started and self._started[0].firing.index in self._ended:
            started = self._started.popleft()
            self._ended.remove(started.firing.index)
            released += self._finish(started)
        return released

    def _finish(self, started: _Started) -> int:
        phase = started.firing.phase
        try:
            if self._wired.rows[phase]:
                self._write(self._wired.rows[phase], started.consumed)
            for buffer, port in self._inputs:
                buffer.release(port.released[phase])
        except ExecutionError as error:
            raise ExecutionError(f"{firing_name(started.firing)}: {error}") from error
        for place, channel in enumerate(self._wired.loops):
            self._loops[place] += channel.production[phase]
        return sum(buffer.tokens(port.released[phase]) for buffer, port in self._inputs)

    def _write(self, rows: int, consumed: Sequence[int]) -> None:
        height = self._computation.shape.rows
        frame, begin = divmod(self.written, height)
        end = begin + rows
        if end > height:
            raise ExecutionError(f"rows {begin} to {end} written, but a frame has {height}")
        found = self._computation.rows(self._readers(frame, consumed), begin, end)
        for buffer in self._outputs:
            buffer.write(found)
        if isinstance(self._wired.layer.operator, Output):
            self._collect(frame, begin, found)
        self.written += rows

    def _readers(self, frame: int, consumed: Sequence[int]) -> list[Reader]:
        if isinstance(self._wired.layer.operator, Input):
            self._require_frame(frame)
            return [HeldRows(shape=self._computation.shape, array=self._frames[frame])]
        return [
            ConsumedRows(buffer, frame * buffer.shape.rows, upto)
            for (buffer, _), upto in zip(self._inputs, consumed, strict=True)
        ]

    def _collect(self, frame: int, begin: int, rows: Array) -> None:
        self._require_frame(frame)
        if self._computation.shape.is_map:
            self._frames[frame][:, begin : begin + rows.shape[1]] = rows
        else:
            self._frames[frame][...] = rows

    def _require_frame(self, frame: int) -> None:
        if frame >= len(self._frames):
            raise ExecutionError(
                f"it works on frame {frame}, counted from 0, but there are {len(self._frames)}"
            )


def firing_name(firing: Firing) -> str:
    """Return how errors name a firing."""
    return f"actor {firing.actor!r}, firing {firing.index} (phase {firing.phase})"
