"""Options of custom operators, which TensorFlow Lite files store as a map in a FlexBuffer.

All widths are in bytes: 1, 2, 4 or 8. An offset is subtracted from the position where it is stored.
The parts of a buffer:

    root (end of the buffer)   offset of the map, packed type (1 byte), width of this offset (1 byte)
    map, before its values     offset of the vector of keys, width of a key, number of values
    values                     of equal width: a number, or an offset of the number if indirect
    packed types               of the values, 1 byte each, after the last value
    keys                       offsets of names in alphabetical order; a name ends with a zero byte

A packed type is a kind times 4, plus the binary logarithm of a width: of the map's values in the type
of the root, of the number in the type of an indirect value.
Source: google/flatbuffers, docs, FlexBuffers format.
"""

from __future__ import annotations

import struct

from csdf.errors import UnreadableFile

INT, UINT, FLOAT, MAP, BOOL = 1, 2, 3, 9, 26
# Kinds of values that are offsets, and the kinds of the numbers there.
INDIRECT = {6: INT, 7: UINT, 8: FLOAT}
# Letters of `struct` for numbers of each kind, at the index of their width in bytes; "?" for none.
FORMS = {INT: "?bh?i???q", UINT: "?BH?I???Q", FLOAT: "??e?f???d", BOOL: "?BH?I???Q"}
WIDTHS = (1, 2, 4, 8)
MOST_OPTIONS = 256


class _Buffer:
    """Numbers at positions of a buffer; each access is checked against its bounds."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def number(self, position: int, width: int, kind: int) -> float:
        """Return the number of this kind at a position."""
        if width not in WIDTHS or not 0 <= position <= len(self.content) - width:
            raise UnreadableFile("the options of a custom operator are corrupt")
        form = FORMS[kind][width]
        if form == "?":
            raise UnreadableFile(f"a custom option of {width} bytes is of no known type")
        value: float = struct.unpack_from(f"<{form}", self.content, position)[0]
        return value

    def count(self, position: int, width: int) -> int:
        """Return the unsigned integer at a position."""
        return int(self.number(position, width, UINT))

    def pointed(self, position: int, width: int) -> int:
        """Return the position to which the offset at a position leads back."""
        return position - self.count(position, width)

    def text(self, position: int) -> str:
        """Return the text that ends with a zero."""
        end = self.content.find(b"\0", max(position, 0))
        if position < 0 or end < 0:
            raise UnreadableFile("a name among the options of a custom operator has no end")
        return self.content[position:end].decode("utf-8", "replace")


def flexible_options(content: bytes) -> dict[str, float]:
    """Return the numbers of a map by their names; other values are left out.

    Raises UnreadableFile for a buffer that is damaged or no map.
    """
    buffer = _Buffer(content)
    if len(content) < 3 or content[-2] >> 2 != MAP:
        raise UnreadableFile("the options of a custom operator are no map")
    width = 1 << (content[-2] & 3)
    begin = buffer.pointed(len(content) - 2 - content[-1], content[-1])
    count = buffer.count(begin - width, width)
    if count > MOST_OPTIONS:
        raise UnreadableFile(f"{count} options of a custom operator, at most {MOST_OPTIONS}")
    keys = buffer.pointed(begin - 3 * width, width)
    key_width = buffer.count(begin - 2 * width, width)
    options = {}
    for number in range(count):
        packed = buffer.count(begin + count * width + number, 1)
        kind, position, value_width = packed >> 2, begin + number * width, width
        if kind in INDIRECT:
            position, value_width = buffer.pointed(position, width), 1 << (packed & 3)
            kind = INDIRECT[kind]
        if kind in FORMS:
            name = buffer.text(buffer.pointed(keys + number * key_width, key_width))
            options[name] = buffer.number(position, value_width, kind)
    return options
