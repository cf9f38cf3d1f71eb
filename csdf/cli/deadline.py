"""The end of a budget where no watch looks at the clock: reading, expansion, one long evaluation."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from csdf.errors import GaveUp

AGAIN = 2.0  # seconds until work that made an answer out of the end is ended too
SOON = 0.1  # seconds until the next look at what must not be left half done
LOADING = ("<frozen importlib", f"{os.sep}numba{os.sep}")  # files of code that imports or compiles


class OutOfTime(KeyboardInterrupt):
    """Raised wherever the work is; what Ctrl-C may end, this may end."""


@contextmanager
def deadline(budget: float | None) -> Iterator[None]:
    """End what goes on within the block soon after its budget (seconds); None is no budget.

    A watch that looks at the clock ends a search in time and in good order. So that it comes first,
    and that an answer can be made of what was found, a quarter of the budget and a second are left.
    Raises GaveUp unless the work knows an answer.
    """
    if budget is None:
        yield
        return
    with alarm(1.25 * budget + 1, f"the budget of {budget:g} s is used up"):
        yield


@contextmanager
def alarm(seconds: float, reason: str) -> Iterator[None]:
    """End what goes on within the block after these seconds, as Ctrl-C would.

    Raises GaveUp with the reason unless the work makes an answer of it. It is the alarm of the
    process, so in another thread, or where there is none, and within one run of a compiled kernel
    nothing ends.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    is_over = threading.Event()

    def end(_number: int, frame: FrameType | None) -> None:
        if _is_loading(frame):
            signal.setitimer(signal.ITIMER_REAL, SOON, AGAIN)
        elif not is_over.is_set():
            raise OutOfTime(reason)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    except OutOfTime as error:
        raise GaveUp(str(error)) from None
    finally:
        is_over.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a module is being imported or a kernel compiled: half of one is of no use to others."""
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in LOADING):
            return True
        frame = frame.f_back
    return False
