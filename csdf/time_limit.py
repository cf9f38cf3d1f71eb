"""Time limits: stops that searches poll and report to, and a signal for code that does not look.

A search asks its stop between steps (`look`), and answers the exception that ends it with the best
found until then:

    try:
        while not done:
            stop.look(Progress(done=steps, lower_bound=bound, best=best))
            step()
    except ENDS as end:
        reason = reason_of(end)

Ctrl-C also ends a search: KeyboardInterrupt is one of ENDS. No other module looks at a
clock to find out whether work has to end.

A budget that does not depend on the load of the machine is an effort: a search spends it where it
computes (`spend`), in microseconds that the computation takes on a usual machine. The same search on
the same input ends at the same step, and gives the same answer, on every machine. Seconds of the
clock are then a limit far away, which moves further with the effort counted (`slowdown`); an answer
that they cut short says so.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any, NamedTuple, cast

from csdf.errors import CsdfError, GaveUp
from csdf.log import Log
from csdf.memory_limit import exceeded_limit
from csdf.status import Ended, Reason, because, told
from csdf.units import bytes_in_words

LOG = Log("csdf.progress")
MICROSECONDS = 10**6  # of a second of effort
# Work that does not end by itself at its limit is ended after this share of the limit, or after
# LEAST_GRACE seconds if that is more.
GRACE = 0.04
LEAST_GRACE = 0.4
# A look at the memory takes 5 us, as long as a short step of a search.
LOOKS_AT_MEMORY = 16

ENDS = (GaveUp, KeyboardInterrupt)  # what ends a search before its own end


class Progress(NamedTuple):
    """How far work has come; a search gives what it knows of these."""

    # Steps so far: distributions, generations or layers; None where none are counted.
    done: int | None = None
    total: int | None = None  # how many steps there are
    lower_bound: int | None = None  # no answer is smaller
    best: int | None = None  # the smallest answer so far
    found: int = 0  # answers so far, where there are many
    at: str = ""  # what is being worked on


NOTHING_KNOWN = Progress()

Report = Callable[[Progress], object]


class Stop:
    """When work has to end: after some seconds, after some steps, or when the caller says so.

    seconds: count from the construction of the stop. effort: seconds that the computation takes on a
    usual machine, as searches spend them; no clock is asked. steps: as the work counts them itself in
    its progress; where it counts none, every look is followed by one step. report: is called with the
    progress at each look, and may end the work by raising GaveUp. reason: instead of the usual one. One
    stop may be given to several searches, which then share its seconds. slowdown: the clock ends the
    work only after this many times the effort of all its parts, if that is later than the seconds; the
    seconds then limit this effort, also of work that may exceed the effort of its search.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        effort: float | None = None,
        steps: int | None = None,
        slowdown: int = 0,
        report: Report | None = None,
        reason: Reason | None = None,
    ) -> None:
        for name, limit in (("seconds", seconds), ("seconds of effort", effort), ("steps", steps)):
            if limit is not None and not limit >= 0:
                raise CsdfError(f"a stop after {limit} {name}; expected at least 0")
        self._begin = 0.0 if seconds is None else time.monotonic()
        self.seconds: float | None = seconds
        self._effort = None if effort is None else int(effort * MICROSECONDS)
        self._spent = 0  # microseconds
        self._slowdown = slowdown
        # Microseconds of all work; counted in the stop of the whole, the root of its parts.
        self._counted = 0
        self._root = self
        self._steps = steps
        self._report = report
        self._reason = reason
        self._looks = 0
        self._is_interrupted = False
        self._ended: Reason | None = None
        self._outer: Callable[[Progress], None] | None = None
        self._whole: Stop | None = None
        self._logged: Progress | None = NOTHING_KNOWN if LOG.hears_steps else None

    def look(self, progress: Progress = NOTHING_KNOWN) -> None:
        """Report the progress. Raises GaveUp, with the reason, when the work has to end."""
        try:
            self._look(progress)
        except ENDS as end:
            if self._outer is None and self._ended is None:
                LOG.info("ended: %s", reason_of(end))
            self._ended = reason_of(end)
            raise

    def _look(self, progress: Progress) -> None:
        self._look_outside(progress)
        if self._logged is not None and self._outer is None:
            self._log(progress, self._logged)
        if self._effort is not None and self._spent > self._effort:
            raise GaveUp(self._out_of_effort)
        if self._looks % LOOKS_AT_MEMORY == 0 and (limit := exceeded_limit()) is not None:
            raise GaveUp(because(Ended.MEMORY_LIMIT, limit=bytes_in_words(limit)))
        done = self._looks if progress.done is None else progress.done
        if self._steps is not None and done >= self._steps:
            raise GaveUp(self._reason or because(Ended.STEPS, steps=self._steps))
        self._looks += 1
        if self._report is not None:
            self._report(progress)

    def _log(self, progress: Progress, before: Progress) -> None:
        """Log bounds and answers that are new, not each step."""
        if progress._replace(done=before.done, total=before.total) != before:
            changes = [
                f"{name.replace('_', ' ')} {value}"
                for name, value in progress._asdict().items()
                if value not in (None, "", 0)
            ]
            LOG.debug("%s", ", ".join(changes))
            self._logged = progress

    def _look_outside(self, progress: Progress) -> None:
        """Look at what ends the work other than its own count: the clock, an interrupt, the whole."""
        if self._outer is not None:
            self._outer(progress)
        if self._is_interrupted:
            raise GaveUp(because(Ended.INTERRUPTED))
        if self.seconds is None:
            return
        if self._slowdown and self._counted > self.seconds * MICROSECONDS:
            raise GaveUp(because(Ended.EFFORT, seconds=self.seconds))
        if time.monotonic() - self._begin > self._clock_limit(self.seconds):
            raise GaveUp(self._out_of_seconds)

    def _clock_limit(self, seconds: float) -> float:
        """Return the seconds after which the clock ends the work, at least the given seconds."""
        return max(seconds, self._slowdown * self._counted / MICROSECONDS)

    def spend(self, microseconds: int) -> None:
        """Count a computation that takes so long on a usual machine; the next look ends the work."""
        self._root._counted += microseconds
        stop: Stop | None = self
        while stop is not None:
            stop._spent += microseconds
            stop = stop._whole

    def charge(self, microseconds: int) -> None:
        """Count a computation that takes so long on a usual machine, and look."""
        self.spend(microseconds)
        self.look()

    def interrupt(self) -> None:
        """End the work at its next look; may be called from another thread."""
        self._is_interrupted = True

    def interrupt_after(self, reason: Reason) -> None:
        """End the whole work at its next look if Ctrl-C is why this part of it ended."""
        stop: Stop | None = self if reason.has(Ended.INTERRUPTED) else None
        while stop is not None:
            stop.interrupt()
            stop = stop._whole

    def part(
        self,
        *,
        share: float | None = None,
        effort: float | None = None,
        steps: int | None = None,
        report: Report | None = None,
        reason: Reason | None = None,
        as_whole: Callable[[Progress], Progress] | None = None,
    ) -> Stop:
        """Return the stop of a part of the work: it ends with the whole, or before.

        share: of the effort that is left; where none limits the work, of the seconds. effort: of the
        part, in seconds. as_whole: converts the progress of the part to progress of the whole.
        """
        seconds, usual = None, None
        if share is not None and (left := self._effort_left) is not None:
            effort, usual = share * left / MICROSECONDS, self._out_of_effort
        elif share is not None and self.seconds_left is not None:
            seconds, usual = share * self.seconds_left, self._out_of_seconds
        part = Stop(seconds, effort=effort, steps=steps, report=report, reason=reason or usual)
        part._whole, part._root = self, self._root
        part._outer = (
            self.look if as_whole is None else lambda progress: self.look(as_whole(progress))
        )
        return part

    def question(self, share: float) -> Stop:
        """Return the stop of a question beside this one, with an effort of its own.

        share: of the effort of this stop, whatever was spent of it; both have the same seconds and
        interrupts. Where no effort is limited, the question has this share of the seconds left.
        """
        if self._effort is None:
            return self.part(share=share)
        stop = Stop(effort=share * self._effort / MICROSECONDS, reason=self._reason)
        stop._outer, stop._root = self._look_outside, self._root
        return stop

    def finishing(self) -> Stop:
        """Return the stop of work that has to be finished: the clock and an interrupt end it.

        Neither steps nor efforts do, but the limit on all effort of `slowdown`, nor seconds of a part.
        """
        whole = self
        while whole._whole is not None:
            whole = whole._whole
        stop = Stop()
        stop._outer, stop._root = whole._look_outside, self._root
        return stop

    @property
    def is_cut_short(self) -> bool:
        """Whether the clock ended the work; the answer then depends on the load of the machine."""
        return self._ended is not None and self._ended.has(Ended.TIME_LIMIT)

    @property
    def has_effort(self) -> bool:
        """Whether the effort of this stop itself is limited."""
        return self._effort is not None

    def is_over(self) -> bool:
        """Whether the work has to end; so may a caller ask who has an answer at hand."""
        return self.end() is not None

    def end(self) -> Reason | None:
        """Return the reason why the work has to end; None if it may go on."""
        try:
            self.look()
        except GaveUp as end:
            return end.reason
        return None

    def end_whole(self, reason: Reason | None) -> None:
        """End the whole as well, if it was more than its own limit that ended a part of it.

        reason: why the part ended. Searches answer an end with the best result until then; where that
        search is a part, the work around it must end too. Raises GaveUp or KeyboardInterrupt.
        """
        if reason is not None and reason.has(Ended.INTERRUPTED):
            raise KeyboardInterrupt
        if self._ended is not None:
            raise GaveUp(self._ended)

    @property
    def _effort_left(self) -> int | None:
        """Microseconds of effort until the end of this or of the work that it is a part of."""
        left = None if self._whole is None else self._whole._effort_left
        if self._effort is None:
            return left
        left_over = max(0, self._effort - self._spent)
        return left_over if left is None else min(left_over, left)

    @property
    def effort_left(self) -> float | None:
        """Seconds of effort until the end of this or of the work that it is a part of."""
        left = self._effort_left
        return None if left is None else left / MICROSECONDS

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end, at least 0; None where they are not limited."""
        if self.seconds is None:
            return None
        return max(0.0, self._begin + self._clock_limit(self.seconds) - time.monotonic())

    @property
    def seconds_of_all(self) -> float | None:
        """Seconds until the end of this or of the work that it is a part of; None for no limit."""
        whole = None if self._whole is None else self._whole.seconds_of_all
        left = [seconds for seconds in (self.seconds_left, whole) if seconds is not None]
        return min(left, default=None)

    @property
    def _out_of_effort(self) -> Reason:
        if self._effort is None and self._reason is None and self._whole is not None:
            return self._whole._out_of_effort
        seconds = (self._effort or 0) / MICROSECONDS
        return self._reason or because(Ended.EFFORT, seconds=seconds)

    @property
    def _out_of_seconds(self) -> Reason:
        return self._reason or because(Ended.TIME_LIMIT, seconds=self.seconds)

    def enforced(self, *, grace: float | None = None, again: float | None = None) -> Alarm:
        """Interrupt the code of the block soon after the time limit, even if it never checks the limit.

        A search that checks the limit ends by itself, with an answer. To let it do so, the interruption
        follows the limit after `grace` seconds. After `again` more seconds (default: `grace`), the
        preparation of an answer is interrupted, too. By default, both together are less than a tenth
        of the limit or a second. Raises GaveUp unless the code turns the interruption into an answer.
        """
        left = self.seconds_left
        grace = max(LEAST_GRACE, GRACE * (self.seconds or 0)) if grace is None else grace
        return Alarm(
            None if left is None else left + grace, self._out_of_seconds, again=again or grace
        )


Budget = Stop | float | int | str | None  # seconds, or a text such as "60s"; None is no limit


def stop_of(budget: Budget) -> Stop:
    """Return the stop that a caller gave, or one after seconds, which `@public` makes of a text."""
    return budget if isinstance(budget, Stop) else Stop(cast("float | None", budget))


def reason_of(end: BaseException) -> Reason:
    """Return why the exception, one of ENDS, ended the work."""
    if isinstance(end, GaveUp | OutOfTime):
        return end.reason
    return told(str(end)) if str(end) else because(Ended.INTERRUPTED)


def now_and_then(
    report: Callable[[float, Progress], object], *, first: float, every: float
) -> Report:
    """Return a report that is passed on when `first` seconds have gone, then once in `every`.

    What is passed on begins with the seconds from now on.
    """
    begin = time.monotonic()
    latest = begin + first - every

    def pass_on(progress: Progress) -> None:
        nonlocal latest
        now = time.monotonic()
        if now - latest > every:
            latest = now
            report(now - begin, progress)

    return pass_on


SOON = 0.1  # seconds until the next look at what must not be left half done
LOADING = "<frozen importlib"  # file of code that imports
LEAVING = (__file__, contextlib.__file__)  # files of code that leaves a block
NEAR = 5  # frames from the interrupted one up to code that leaves a block, at most


class OutOfTime(KeyboardInterrupt):
    """Raised at an arbitrary point of the code, like KeyboardInterrupt by Ctrl-C."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(str(reason))


class Alarm(AbstractContextManager[None]):
    """Interrupts the code of its block after a number of seconds, as Ctrl-C would.

    The block ends with GaveUp and the reason, unless the code turns the interruption into an answer.
    The alarm is SIGALRM of the process: it has no effect outside the main thread, on systems without
    it, or during a call of a compiled kernel. again: seconds after which the preparation of an
    answer is interrupted, too.
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
        # Neither the import of a module nor the leaving of a block may be half done.
        files = []
        while frame is not None:
            files.append(frame.f_code.co_filename)
            frame = frame.f_back
        is_leaving = any(name in LEAVING for name in files[:NEAR])
        if is_leaving or any(LOADING in name for name in files):
            signal.setitimer(signal.ITIMER_REAL, SOON, self._again)
        else:
            raise OutOfTime(self._reason)
