"""Ring buffers in memory that others use too, which find out when others use it at a wrong time."""

from __future__ import annotations

import numpy as np

from cnn2csdf.execution.buffers import RingBuffer
from cnn2csdf.network import Shape
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from csdf.model.graph import Channel

POISON = 0xFFFFFFFF  # a NaN, no byte of which is like one of a number; of integers, -1


def _bits(array: Array) -> str:
    """The type of whole numbers that has the bits of an element."""
    return f"uint{8 * array.itemsize}"


class GuardedBuffer(RingBuffer):
    """A ring buffer that remembers, elsewhere, what was written, and compares what is read.

    Space is filled with NaN, or with -1 in integers, when it is claimed: a firing may write its
    output at any time while it runs. Where a layer writes in the place of what it reads, it keeps
    that until it has computed.
    """

    def __init__(self, channel: Channel, shape: Shape, storage: Array, *, in_place: bool) -> None:
        super().__init__(channel, shape, storage)
        self._expected = RingBuffer(channel, shape, array_type=storage.dtype.name)
        self._in_place = in_place

    def claim(self, rows: int) -> None:
        """Take space for rows, and spoil it."""
        super().claim(rows)
        self._expected.claim(rows)
        if not self._in_place:
            places = np.arange(self.claimed - rows, self.claimed) % self.capacity
            bits = _bits(self._array)
            self._array.view(bits)[:, places] = np.iinfo(bits).max & POISON

    def write(self, rows: Array) -> None:
        """Put rows into claimed space, and remember them."""
        self._expected.write(rows)
        super().write(rows)

    def read(self, first: int, upto: int) -> Array:
        """Return rows. Raises ExecutionError where they are not what was written."""
        found = super().read(first, upto)
        expected = self._expected.read(first, upto)
        bits = _bits(found)
        if not np.array_equal(found.view(bits), expected.view(bits)):
            raise ExecutionError(
                f"channel {self.name!r}: rows {first} to {upto} are not what was written there; "
                "another buffer has bytes in common with it"
            )
        return found

    def release(self, rows: int) -> None:
        """Free the space of rows."""
        super().release(rows)
        self._expected.released = self.released
