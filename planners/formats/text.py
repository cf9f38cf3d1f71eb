"""Lines that know their place in a file, for messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from csdf.errors import UnreadableFile

MOST_DIGITS = 1000


class Line(NamedTuple):
    """A line without its comment, and where it stands."""

    text: str
    number: int
    file: str

    def refusal(self, complaint: str) -> UnreadableFile:
        """Return the error that blames this line."""
        return UnreadableFile(f"{self.file}:{self.number}: {complaint}")

    def natural(self, word: str, what: str, least: int = 0) -> int:
        """Return the whole number that the word is; `what` says of what."""
        is_short = len(word) <= MOST_DIGITS
        if not (is_short and word.isascii() and word.isdigit()) or int(word) < least:
            raise self.refusal(f"{what}: found {word[:40]!r}; expected a whole number >= {least}")
        return int(word)


def lines_of(text: str, file: str, comment: str) -> Iterator[Line]:
    """Yield the lines that hold more than a comment."""
    for number, whole in enumerate(text.splitlines(), start=1):
        line = whole.partition(comment)[0].strip()
        if line:
            yield Line(line, number, file)
