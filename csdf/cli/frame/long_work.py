"""Stops of commands: time limits, Ctrl-C, and progress on a terminal.

A limit is either seconds of the clock, or an effort: seconds that the counted steps of the work take
on a usual machine, so that the answer does not depend on how busy the machine is.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from csdf.cli.frame.streams import Remarks
from csdf.cli.frame.terminal import progress_line
from csdf.time_limit import NOTHING_KNOWN, Progress, Report, Stop, now_and_then

# Without a limit in seconds, the clock ends work after this many times the effort of all its parts; on
# a machine with eight busy processes, work takes 5 to 8 times its effort.
CLOCK_FACTOR = 20
LEAST_CLOCK_SECONDS = 60.0  # for a small effort: reading and preparing a graph take time too
PATIENCE = 0.5  # seconds before progress is shown
EVERY = 0.1  # seconds between two lines of progress
SILENCE = 1.0  # seconds between two lines of work that cannot tell its progress
GRACE = 0.3  # seconds after its limit that a part of a command may take to end by itself
AGAIN = 2.0  # seconds until the part is interrupted a second time

Describe = Callable[[Progress], str]


def stop_after(
    seconds: float | None, what: str | Describe | None = None, *, effort: float | None = None
) -> Stop:
    """Return the stop of a command's work.

    what: the text of the progress on a terminal; None shows no progress. effort: see the module;
    without `seconds` the clock ends the work much later.
    """
    report = None if what is None else shown(what, effort or seconds)
    if effort is None or seconds is not None:
        return Stop(seconds, effort=effort, report=report)
    latest = max(CLOCK_FACTOR * effort, LEAST_CLOCK_SECONDS)
    return Stop(latest, effort=effort, slowdown=CLOCK_FACTOR, report=report)


def stops_of_searches(seconds: float | None, what: str, *, effort: float) -> Callable[[], Stop]:
    """Return a function that gives a stop, with this effort, to each search of a command.

    seconds: of the clock, for all searches together; None: a separate, late limit for each search.
    what: the text of the progress on a terminal.
    """
    if seconds is None:
        return lambda: stop_after(None, what, effort=effort)
    clock = Stop(seconds)
    return lambda: clock.part(effort=effort, report=shown(what, effort))


def telling(stop: Stop, what: str | Describe) -> Stop:
    """Return the stop for work that shows its progress on a terminal."""
    return stop.part(report=shown(what, stop.seconds_left))


def shown(what: str | Describe, budget: float | None = None) -> Report:
    """Return a report that shows progress in one line of a terminal.

    what: the text, or a function that makes it from the progress. budget: seconds of the work.
    """

    def say(seconds: float, progress: Progress) -> None:
        text = what if isinstance(what, str) else what(progress)
        left = None if budget is None else max(0.0, budget - seconds)
        _show(progress_line(text, progress, seconds, left))

    return now_and_then(say, first=PATIENCE, every=EVERY)


@contextmanager
def limited(seconds: float | None) -> Iterator[Stop]:
    """Give a stop to a whole command; work that does not look at the stop is interrupted after it."""
    stop = stop_after(seconds)
    with stop.enforced():
        yield stop


@contextmanager
def limited_part(stop: Stop, share: float, what: str | Describe) -> Iterator[Stop]:
    """Give a part of a command its share of the seconds that are left."""
    left = stop.seconds_left
    part = stop.part(share=share, report=shown(what, None if left is None else share * left))
    with part.enforced(grace=GRACE, again=AGAIN):
        yield part


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal, from a thread, the elapsed time of work that cannot tell its progress."""
    ended = threading.Event()
    begin = time.perf_counter()

    def show_elapsed_time() -> None:
        pause = PATIENCE
        while not ended.wait(pause):
            pause = SILENCE
            _show(progress_line(what, NOTHING_KNOWN, time.perf_counter() - begin, None))

    thread = threading.Thread(target=show_elapsed_time, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(line: str) -> None:
    """Show a line in place, while a command runs on a terminal."""
    if isinstance(sys.stderr, Remarks):
        sys.stderr.show_in_place(f"csdf: {line}")
