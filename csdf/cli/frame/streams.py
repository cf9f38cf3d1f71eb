"""Streams of a command: names act on no terminal, and a lost remark changes no answer."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from csdf.names import quoted_lines


class Answers(io.TextIOBase):
    """Standard output; what is printed on it where it is closed is an OSError, as on a full disk."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lost: OSError | None = None
        self.last = ""  # of the texts that were to be written, without blanks around it

    def write(self, text: str) -> int:
        """Write the text with what would act on a terminal quoted."""
        self.last = text.strip() or self.last
        try:
            self._open.write(quoted_lines(text))
        except OSError as error:  # some printers, such as argparse, do not mind
            self._lost = error
            raise
        return len(text)

    def flush(self) -> None:
        """Bring out what was written. Raises OSError if any of it is lost."""
        if self._lost is not None:
            raise self._lost
        if self._stream is not None:
            self._stream.flush()

    def silence(self) -> None:
        """Let what is left go nowhere: Python flushes at its end and would complain again."""
        self._lost = None
        if self._stream is not None:
            with suppress(OSError):  # of a stream without a descriptor
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def close(self) -> None:
        """Leave the stream open: it belongs to the process."""

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._open.fileno()

    def isatty(self) -> bool:
        """Whether somebody looks at it."""
        return self._stream is not None and self._stream.isatty()

    @property
    def _open(self) -> TextIO:
        if self._stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._stream


class Remarks(Answers):
    """Standard error; where it takes nothing, remarks are lost and nothing else."""

    def write(self, text: str) -> int:
        """Write the text, if that can be."""
        try:
            return super().write(text)
        except OSError:
            self.silence()
            return len(text)

    def flush(self) -> None:
        """Bring out what was written, if that can be."""
        try:
            super().flush()
        except OSError:
            self.silence()


@contextmanager
def own_streams() -> Iterator[tuple[Answers, Remarks]]:
    """Within the block, print and all libraries write on these streams, which are returned.

    What standard output cannot encode is written with backslashes.
    """
    _occupy_closed_descriptors()
    before = sys.stdout, sys.stderr
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    output, remarks = Answers(sys.stdout), Remarks(sys.stderr)
    sys.stdout, sys.stderr = output, remarks
    try:
        yield output, remarks
    finally:
        remarks.flush()
        sys.stdout, sys.stderr = before


def _occupy_closed_descriptors() -> None:
    """Let no file that is opened later get the number of standard input, output or error."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
