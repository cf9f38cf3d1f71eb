"""Times of several ways to do one thing, taken in turns.

The ways take turns, so that each repetition comes after all others and finds its own weights no
nearer than in a network. Before each run something larger than the near caches is written, then the
inputs, as the layers before would have written them: inputs are near, weights are not. Times are
those of the processor for this one thread: on an idle machine they are what passes on the wall, and
on a busy one the work of others does not count.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from statistics import median, quantiles
from time import thread_time_ns
from typing import NamedTuple

from planners.primitives.profiling.effort import Effort

Clock = Callable[[], int]  # nanoseconds


class Time(NamedTuple):
    """Median and interquartile range."""

    nanoseconds: int
    spread_nanoseconds: int


class Candidate(NamedTuple):
    """A way to time: what comes before each run, and the run itself, which alone is timed."""

    before: Callable[[], None]
    run: Callable[[], None]


def take_turns(
    candidates: Sequence[Candidate],
    effort: Effort,
    *,
    look: Callable[[int], None],
    clock: Clock = thread_time_ns,
) -> list[Time]:
    """Return the time of each candidate; look: called with its number before each run."""
    limit = effort.hopeless * min(_first_times(candidates, look, clock), default=0)
    taken: list[list[int]] = [[] for _ in candidates]
    for turn in range(effort.repetitions):
        for number, one in enumerate(candidates):
            times = taken[number]
            if times and times[0] > limit:
                continue
            if turn < effort.least or sum(times) < effort.nanoseconds:
                look(number)
                times.append(_timed(one, clock))
    return [_summary(times) for times in taken]


def _first_times(
    candidates: Sequence[Candidate], look: Callable[[int], None], clock: Clock
) -> Iterator[int]:
    """The times that do not count: kernels are translated, memory is touched."""
    for number, one in enumerate(candidates):
        look(number)
        yield _timed(one, clock)


def _timed(candidate: Candidate, clock: Clock) -> int:
    candidate.before()
    started = clock()
    candidate.run()
    return max(1, clock() - started)


def _summary(times: Sequence[int]) -> Time:
    if len(times) == 1:
        return Time(times[0], 0)
    low, _, high = quantiles(times, n=4, method="inclusive")
    return Time(round(median(times)), round(high - low))


def allocated_bytes(run: Callable[[], None]) -> int:
    """Return the most bytes that are allocated at once during a run, Python's own included."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    run()
    peak = tracemalloc.get_traced_memory()[1]
    if not was_tracing:
        tracemalloc.stop()
    return peak - before
