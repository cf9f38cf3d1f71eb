"""Ctrl-C: an end of the work wherever it is, except within an import, with one exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import FrameType, TracebackType

from csdf.cli.frame.exit_codes import ANSWERED, GAVE_UP

IMPORTING = "<frozen importlib"
SOON = 0.02  # seconds until an interrupt that came within an import is looked at again


class InterruptsBetweenImports(AbstractContextManager["InterruptsBetweenImports"]):
    """Within its block, Ctrl-C is KeyboardInterrupt once the import under way is done.

    Libraries in C turn an interrupt of their own import into other errors, or stay half imported.
    Only imports within the block count. Another thread, or a process with a handler of its own, is
    left as it is. It takes note of interrupts, for the exit code of a command that makes an answer
    of what it had found by then.
    """

    def __init__(self) -> None:
        self._outside: frozenset[FrameType] = frozenset()
        self._later: threading.Timer | None = None
        self._count = 0
        self._is_ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )

    def __enter__(self) -> InterruptsBetweenImports:
        if self._is_ours:
            self._outside = frozenset(_frames(sys._getframe()))
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_ours:
            self._forget()  # the work is done
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def let_in(self) -> None:
        """Raise KeyboardInterrupt if there was one during the import that is done now."""
        if self._later is not None:
            self._forget()
            raise KeyboardInterrupt

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that would end with this one: 3 after Ctrl-C.

        A "no", and a refusal, stay what they are.
        """
        return GAVE_UP if self._count and code == ANSWERED else code

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        self._forget()
        self._count += 1
        inside = (one for one in _frames(frame) if one not in self._outside)
        if not any(IMPORTING in one.f_code.co_filename for one in inside):
            raise KeyboardInterrupt
        self._later = threading.Timer(SOON, os.kill, (os.getpid(), signal.SIGINT))
        self._later.daemon = True
        self._later.start()

    def _forget(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
