"""Stops of commands: a budget, Ctrl-C, and progress on standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from csdf.names import quoted
from csdf.stopping import Progress, Report, Stop, now_and_then

PATIENCE = 2.0  # seconds before progress is shown
EVERY = 1.0  # seconds between two lines of progress
SILENCE = 5.0  # seconds between signs of life from work that knows no progress
GRACE = 0.3  # seconds that one question of many may take to end by itself
AGAIN = 2.0  # seconds until it is ended once more

Describe = Callable[[Progress], str]


def stop_after(seconds: float | None, what: str | Describe | None = None) -> Stop:
    """Return the stop of a command's work.

    what: is being done; with it, progress is shown on standard error.
    """
    return Stop(seconds, report=None if what is None else shown(what))


def telling(stop: Stop, what: str | Describe) -> Stop:
    """Return the stop for work that shows its progress on standard error."""
    return stop.part(report=shown(what))


def shown(what: str | Describe) -> Report:
    """Return a report that says on standard error, once a second, how far work has come.

    what: is being done, where the progress says no more.
    """

    def say(seconds: float, progress: Progress) -> None:
        text = what if isinstance(what, str) else what(progress)
        print(f"csdf: {seconds:.0f} s, {quoted(text)}", file=sys.stderr)

    return now_and_then(say, first=PATIENCE, every=EVERY)


@contextmanager
def limited(seconds: float | None) -> Iterator[Stop]:
    """Give a stop to all that a command does; what does not look at it is ended soon after."""
    stop = stop_after(seconds)
    with stop.enforced():
        yield stop


@contextmanager
def limited_part(stop: Stop, share: float, what: str | Describe) -> Iterator[Stop]:
    """Give one question of many its share of the seconds that are left."""
    part = stop.part(share=share, report=shown(what))
    with part.enforced(grace=GRACE, again=AGAIN):
        yield part


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on standard error that work goes on which cannot say itself how far it has come."""
    ended = threading.Event()
    begin = time.perf_counter()

    def speak() -> None:
        pause = PATIENCE
        while not ended.wait(pause):
            pause = SILENCE
            print(f"csdf: {time.perf_counter() - begin:.0f} s, {quoted(what)}", file=sys.stderr)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()
