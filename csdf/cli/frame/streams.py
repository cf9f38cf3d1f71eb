"""Streams of a command: names act on no terminal, and a lost remark changes no answer."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from csdf.cli.frame import terminal
from csdf.names import quoted, quoted_lines


class Answers(io.TextIOBase):
    """Standard output; what is printed on it where it is closed is an OSError, as on a full disk.

    A reader that has left, as `head` does, is no error: the rest of the output is dropped, and the
    command still writes its files and ends with the exit code of its answer.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lost: OSError | None = None
        self.beside: Remarks | None = None  # whose line of progress ends where this begins
        self.last = ""  # of the texts that were to be written, without blanks around it

    def write(self, text: str) -> int:
        """Write the text with what would act on a terminal quoted."""
        self.last = text.strip() or self.last
        if self.beside is not None:
            self.beside.clear()
        if isinstance(self._lost, BrokenPipeError):
            return len(text)
        try:
            self._open.write(self._as_shown(quoted_lines(text)))
        except BrokenPipeError as error:
            self._drop(error)
        except OSError as error:  # some printers, such as argparse, do not mind
            self._lost = error
            raise
        return len(text)

    def flush(self) -> None:
        """Write out the buffer. Raises OSError if text is lost that a reader still waits for."""
        if isinstance(self._lost, BrokenPipeError):
            return
        if self._lost is not None:
            raise self._lost
        if self._stream is not None:
            try:
                self._stream.flush()
            except BrokenPipeError as error:
                self._drop(error)

    def _drop(self, error: BrokenPipeError) -> None:
        """Drop this output and all later output: no process reads it."""
        self.silence()
        self._lost = error

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
        """Whether it is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def _as_shown(self, text: str) -> str:
        """The text with its verdicts in colour, on a terminal that has colours."""
        return terminal.coloured(text) if terminal.has_colours(self._stream) else text

    @property
    def _open(self) -> TextIO:
        if self._stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._stream


class Remarks(Answers):
    """Standard error; where it takes nothing, remarks are lost and nothing else."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream)
        self._is_in_place = False  # whether the last line is one of progress
        self._said: set[str] = set()
        self.is_quiet = False  # whether neither remarks nor progress are shown

    def say_once(self, line: str) -> None:
        """Write a line, unless the command has said the same before."""
        if line not in self._said:
            self._said.add(line)
            print(line, file=self)

    def show_in_place(self, line: str) -> None:
        """Show a line of progress on a terminal instead of the one before; elsewhere nothing."""
        if terminal.moves(self._stream) and not self.is_quiet:
            cut = quoted(line)[: terminal.columns() - 1]
            self._put(f"{terminal.CLEAR}{cut}")
            self._is_in_place = True

    def clear(self) -> None:
        """Take the line of progress away."""
        if self._is_in_place:
            self._is_in_place = False
            self._put(terminal.CLEAR)

    def _put(self, text: str) -> None:
        with suppress(OSError):
            self._open.write(text)
            self._open.flush()

    def _as_shown(self, text: str) -> str:
        return text

    def write(self, text: str) -> int:
        """Write the text, if that can be."""
        self.clear()
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
    output.beside = remarks
    sys.stdout, sys.stderr = output, remarks
    try:
        yield output, remarks
    finally:
        remarks.clear()
        remarks.flush()
        sys.stdout, sys.stderr = before


def _occupy_closed_descriptors() -> None:
    """Let no file that is opened later get the number of standard input, output or error."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
