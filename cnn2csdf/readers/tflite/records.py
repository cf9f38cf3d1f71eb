"""Tables of a flatbuffer, where no offset may lead out of the file.

A table begins with the distance to its vtable, which has the place of each field. The flatbuffers
package follows these offsets without a check (a negative one counts from the end of the file), so it
is of no use for files that may be damaged. Field numbers are those of the TensorFlow Lite schema,
tensorflow/lite/schema/schema.fbs, in its order.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from csdf.errors import UnreadableFile

IDENTIFIER = b"TFL3"
CORRUPT = "is not a TensorFlow Lite model, or a corrupt one"


class Record:
    """A table of the file."""

    def __init__(self, content: bytes, position: int) -> None:
        """Look at a position. Raises UnreadableFile where no table can lie there."""
        self._content, self._position = content, position
        self._vtable = position - int(self._number("i", position))
        self._size = int(self._number("H", self._vtable))

    def _number(self, form: str, position: int) -> float:
        if not 0 <= position <= len(self._content) - struct.calcsize(f"<{form}"):
            raise UnreadableFile(CORRUPT)
        found: float = struct.unpack_from(f"<{form}", self._content, position)[0]
        return found

    def _place(self, field: int) -> int | None:
        """Return the position of the field; None where the file leaves it out."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = int(self._number("H", self._vtable + entry))
        return self._position + offset if offset else None

    def _pointed(self, place: int) -> int:
        return place + int(self._number("I", place))

    def integer(self, field: int, form: str, default: int = 0) -> int:
        """Return a whole number; form: as in struct, such as b for a byte, i for 32 bits."""
        place = self._place(field)
        return default if place is None else int(self._number(form, place))

    def real(self, field: int, default: float = 0.0) -> float:
        """Return a number in single precision."""
        place = self._place(field)
        return default if place is None else self._number("f", place)

    def vector(self, field: int, dtype: str) -> NDArray[np.generic]:
        """Return a vector of numbers of that NumPy type; empty if left out."""
        place, width = self._place(field), np.dtype(dtype).itemsize
        if place is None:
            return np.zeros(0, dtype)
        start, count = self._vector(place, width)
        return np.frombuffer(self._content, np.dtype(dtype).newbyteorder("<"), count, start)

    def integers(self, field: int, dtype: str = "i4") -> tuple[int, ...]:
        """Return a vector as integers."""
        return tuple(self.vector(field, dtype).tolist())

    def text(self, field: int) -> str:
        """Return a text; empty if left out."""
        return bytes(self.vector(field, "u1")).decode("utf-8", "replace")

    def record(self, field: int) -> Record | None:
        """Return another table; None where it is left out."""
        place = self._place(field)
        return None if place is None else Record(self._content, self._pointed(place))

    def records(self, field: int) -> list[Record]:
        """Return a vector of tables."""
        place = self._place(field)
        if place is None:
            return []
        start, count = self._vector(place, 4)
        return [Record(self._content, self._pointed(start + 4 * number)) for number in range(count)]

    def _vector(self, place: int, width: int) -> tuple[int, int]:
        """Return the position of the first element of a vector, and the number of elements."""
        start = self._pointed(place)
        count = int(self._number("I", start))
        if start + 4 + count * width > len(self._content):
            raise UnreadableFile(CORRUPT)
        return start + 4, count


def root_record(content: bytes) -> Record:
    """Return the outermost table of a file. Raises UnreadableFile for one of another kind."""
    if not content:
        raise UnreadableFile("is empty; expected a TensorFlow Lite model")
    if content[4:8] != IDENTIFIER:
        raise UnreadableFile(CORRUPT)
    return Record(content, struct.unpack_from("<I", content)[0])
