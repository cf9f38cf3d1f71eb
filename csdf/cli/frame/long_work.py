"""Stops of commands: a budget, Ctrl-C, and progress on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from csdf.cli.frame.streams import Remarks
from csdf.cli.frame.terminal import progress_line
from csdf.time_limit import NOTHING_KNOWN, Progress, Report, Stop, now_and_then

FAR = 20  # times the effort: seconds of the clock; a machine with eight busy processes takes 5 to 8
LEAST_FAR = 60.0  # seconds, however small the effort: what comes before a search takes time too
PATIENCE = 0.5  # seconds before progress is shown
EVERY = 0.1  # seconds between two states of it
SILENCE = 1.0  # seconds between signs of life from work that knows no progress
GRACE = 0.3  # seconds that one question of many may take to end by itself
AGAIN = 2.0  # seconds until it is ended once more

Describe = Callable[[Progress], str]


def stop_after(
    seconds: float | None, what: str | Describe | None = None, *, effort: float | None = None
) -> Stop:
    """Return the stop of a command's work.

    what: is being done; with it, progress is shown on a terminal. effort: seconds that the work takes
    on a usual machine, counted by its steps; without `seconds` the clock ends it much later.
    """
    if effort is not None and seconds is None:
        seconds = max(FAR * effort, LEAST_FAR)
    return Stop(
        seconds,
        effort=effort,
        report=None if what is None else shown(what, effort or seconds),
    )


def stops_of_searches(seconds: float | None, what: str, *, effort: float) -> Callable[[], Stop]:
    """Return what gives a stop to each search of a command: an effort of its own.

    seconds: of the clock, for all searches together; without them each has its own far limit. what: is
    being done, shown on a terminal.
    """
    if seconds is None:
        return lambda: stop_after(None, what, effort=effort)
    clock = Stop(seconds)
    return lambda: clock.part(effort=effort, report=shown(what, effort))


def telling(stop: Stop, what: str | Describe) -> Stop:
    """Return the stop for work that shows its progress on a terminal."""
    return stop.part(report=shown(what, stop.seconds_left))


def shown(what: str | Describe, budget: float | None = None) -> Report:
    """Return a report that shows in one line of a terminal how far work has come.

    what: is being done, where the progress says no more. budget: seconds that it has.
    """

    def say(seconds: float, progress: Progress) -> None:
        text = what if isinstance(what, str) else what(progress)
        left = None if budget is None else max(0.0, budget - seconds)
        _show(progress_line(text, progress, seconds, left))

    return now_and_then(say, first=PATIENCE, every=EVERY)


@contextmanager
def limited(seconds: float | None, *, effort: float | None = None) -> Iterator[Stop]:
    """Give a stop to all that a command does; what does not look at it is ended soon after."""
    stop = stop_after(seconds, effort=effort)
    with stop.enforced():
        yield stop


@contextmanager
def limited_part(stop: Stop, share: float, what: str | Describe) -> Iterator[Stop]:
    """Give one question of many its share of the seconds that are left."""
    left = stop.seconds_left
    part = stop.part(share=share, report=shown(what, None if left is None else share * left))
    with part.enforced(grace=GRACE, again=AGAIN):
        yield part


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that work goes on which cannot say itself how far it has come."""
    ended = threading.Event()
    begin = time.perf_counter()

    def speak() -> None:
        pause = PATIENCE
        while not ended.wait(pause):
            pause = SILENCE
            _show(progress_line(what, NOTHING_KNOWN, time.perf_counter() - begin, None))

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()


def _show(line: str) -> None:
    """Show a line in place, while a command runs on a terminal."""
    if isinstance(sys.stderr, Remarks):
        sys.stderr.show_in_place(f"csdf: {line}")
