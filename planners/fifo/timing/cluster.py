"""How a layer of a streaming design is timed: series of events that wait for one another.

A layer is not one actor: a sliding window reads while it writes, and each holds up the other. So a
layer is a small cluster of series. A series is one port's handshakes in order (or an inner event); a
wait says which event of another series has to come first, and by how many clock cycles.
planners.kernels.event_times computes the times of all events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidGraph
from planners.kernels.event_times import NONE

Numbers = NDArray[np.int64]
MOST_EVENTS = 50_000_000  # in one series, for memory
MOST_CYCLES = 2**39  # of a frame, a latency or an interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """Events in a fixed order, the same number in every frame.

    gap: clock cycles from one event to the next, at least; gaps: before each event, if they differ (the
    first is that from the last event of the frame before).
    """

    name: str
    events: int
    gap: int = 1
    gaps: Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wait:
    """Events of one series that wait for events of another.

    waiter, source: numbers of series. events: for each event of the waiter the event of the source
    that comes first, numbered in the frame of the waiter: a negative number is an event of an earlier
    frame, NONE no event. delay: clock cycles from one to the other; delays: for each event.
    """

    waiter: int
    source: int
    events: Numbers
    delay: int = 1
    delays: Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lock:
    """How a refused word stops a layer: nothing begins until words that it holds have left.

    The event of `series` that begins a word of the output also waits for the space of the word `held`
    words before it, and comes `delay` cycles after the read that makes this space. events, words: of a
    frame, in pairs.
    """

    series: int
    events: Numbers
    words: Numbers
    held: int
    delay: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Port:
    """A port of a layer, where words enter or leave: a word at each of the events of a series.

    events: the event of each word; None if there is one at every event. bits: width of a word. lock: of
    an output, how refused words stop the layer, if it does not only wait with the next word.
    """

    series: int
    words: int  # in one frame
    bits: int
    events: Numbers | None = None
    lock: Lock | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """The series of one layer, what they wait for, and its ports in the order of the node."""

    series: tuple[Series, ...]
    waits: tuple[Wait, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    assumed: tuple[str, ...] = ()  # what the model of the design does not say

    @property
    def events(self) -> int:
        """Events of one frame, of all series."""
        return sum(one.events for one in self.series)


def require_few(events: int) -> None:
    """Raise InvalidGraph for more events in a frame than memory holds."""
    if events > MOST_EVENTS:
        raise InvalidGraph(
            f"{events} steps in one frame; at most {MOST_EVENTS} are simulated. Raise its folding first"
        )


def require_short(cycles: int) -> None:
    """Raise InvalidGraph for more clock cycles than the numbers of events are told from NONE by."""
    if cycles > MOST_CYCLES:
        raise InvalidGraph(f"{cycles} cycles in one frame; at most {MOST_CYCLES} are simulated")


def counting(events: int) -> Numbers:
    """Return 0, 1, 2, ... Raises InvalidGraph if there are too many."""
    require_few(events)
    return np.arange(events, dtype=np.int64)


def waiting_for_nothing(events: int) -> Numbers:
    """Return a table in which no event waits. Raises InvalidGraph if there are too many."""
    require_few(events)
    return np.full(events, NONE, dtype=np.int64)
