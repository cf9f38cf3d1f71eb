"""Lines that know their place in a file, for messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from csdf.errors import UnreadableFile
from csdf.model.exact import MalformedText, natural, shown


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
        try:
            found = natural(word)
        except MalformedText:
            found = -1
        if found < least:
            raise self.refusal(f"{what}: found {shown(word)}; expected a whole number >= {least}")
        return found


def lines_of(text: str, file: str, comment: str) -> Iterator[Line]:
    """Yield the lines that hold more than a comment."""
    for number, whole in enumerate(text.splitlines(), start=1):
        line = whole.partition(comment)[0].strip()
        if line:
            yield Line(line, number, file)
