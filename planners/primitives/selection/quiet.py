"""Standard output kept free of what a library in C prints there."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

STANDARD_OUTPUT = 1


@contextmanager
def quiet_output() -> Iterator[None]:
    """Drop what is written to standard output within the block, by C too; of the whole process."""
    _flush()
    kept = os.dup(STANDARD_OUTPUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, STANDARD_OUTPUT)
        yield
    finally:
        _flush()
        os.dup2(kept, STANDARD_OUTPUT)
        os.close(kept)
        os.close(nowhere)


def _flush() -> None:
    """Let C write what it has printed so far; Windows keeps its buffers elsewhere."""
    if os.name == "posix":
        ctypes.pythonapi.fflush(None)
