"""The end of work that never looks at its stop: reading, expansion, one long evaluation."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import islice
from types import FrameType, TracebackType
from typing import Any

from csdf.errors import GaveUp
from csdf.outcome import Reason

SOON = 0.1  # seconds until the next look at what must not be left half done
LOADING = "<frozen importlib"  # file of code that imports
LEAVING = (__file__, contextlib.__file__)  # of code that leaves a block,
NEAR = 5  # not more frames away from where the alarm finds the work


class OutOfTime(KeyboardInterrupt):
    """Raised wherever the work is; what Ctrl-C may end, this may end."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(str(reason))


class Alarm(AbstractContextManager[None]):
    """Ends what goes on within its block after some seconds, as Ctrl-C would.

    The end is GaveUp with the reason, unless the work makes an answer of it. It is the alarm of the
    process, so in another thread, or where there is none, and within one run of a compiled kernel
    nothing ends. again: seconds until work that made an answer out of the end is ended too.
    """

    def __init__(self, seconds: float | None, reason: Reason, *, again: float) -> None:
        self._seconds, self._again = seconds, again
        self._reason = reason
        self._before: Any = None
        self._is_over = False
        self._is_set = (
            seconds is not None
            and hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
        )

    def __enter__(self) -> None:
        if self._is_set:
            self._before = signal.signal(signal.SIGALRM, self._end)
            signal.setitimer(signal.ITIMER_REAL, max(self._seconds or 0.0, 1e-6), self._again)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        if self._is_set:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)
        if isinstance(error, OutOfTime):
            raise GaveUp(error.reason) from None

    def _end(self, _number: int, frame: FrameType | None) -> None:
        if self._is_over:  # a signal that came before the timer was stopped
            return
        if _must_go_on(frame):
            signal.setitimer(signal.ITIMER_REAL, SOON, self._again)
        else:
            raise OutOfTime(self._reason)


def _must_go_on(frame: FrameType | None) -> bool:
    """Whether a module is being imported or a block left: not to be half done."""
    near = [one.f_code.co_filename for one in islice(_frames(frame), NEAR)]
    return any(name in LEAVING for name in near) or any(
        LOADING in one.f_code.co_filename for one in _frames(frame)
    )


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
