"""Buffers of rows: rings of exactly the capacity of their channel, that refuse any other access."""

from __future__ import annotations

import numpy as np

from cnn2csdf.network import Shape
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError, counted
from csdf.model.graph import Channel


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

        array_type: of its elements, where it makes the storage itself.
        storage: where its elements lie, one for each token of the capacity; it may be a part of a
        larger array that others use too. By default it has an array of its own.
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
        """Whether there is space for so many rows."""
        return self.occupied + rows <= self.capacity

    def can_consume(self, rows: int) -> bool:
        """Whether so many rows were written and not yet consumed."""
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
        """Return rows [first, upto): a view, or a copy where they lie around the end of the ring.

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
        """Say what a firing that consumes so many rows finds."""
        return (
            f"channel {self.name!r} holds {self._described(self.written - self.consumed)}, "
            f"{self._described(rows)} are needed"
        )

    def lack_of_space(self, rows: int) -> str:
        """Say what a firing that writes so many rows finds."""
        free = self.capacity - self.occupied
        return (
            f"channel {self.name!r} has space for {self._described(free)}, "
            f"{self._described(rows)} are needed"
        )

    def tokens(self, rows: int) -> int:
        """Return the tokens of so many rows."""
        return rows * self.shape.row_elements

    def _described(self, rows: int) -> str:
        return f"{counted(self.tokens(rows), 'token')} ({counted(rows, 'row')})"
