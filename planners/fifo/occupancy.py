"""The words in FIFOs that are never full: the base of FINN's own rule for depths."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from planners.fifo.design import LEAST_DEPTH
from planners.fifo.event_system import EventSystem
from planners.fifo.timing.cluster import Numbers, Port

FRAMES = 2  # that FINN simulates
SHALLOW = 32  # its optimize_depth: what is more than 2 becomes 32 at least


def automatic_depths(system: EventSystem, period: Fraction) -> tuple[int, ...]:
    """Return the depths of FINN's rule `largefifo_rtlsim`, in our model of its simulation.

    Two frames come at the distance of the period into FIFOs without end; the depth is the most words
    that one held, and from 3 on 32 at least.
    """
    times = system.restricted(
        range(len(system.design.layers)), [None] * len(system.design.fifos)
    ).times(period, FRAMES)
    found = []
    for fifo in system.design.fifos:
        written, read = system.design.ports(fifo)
        put = _words(times[system.series_of(fifo.producer, written)], written)
        taken = _words(times[system.series_of(fifo.consumer, read)], read)
        held = np.arange(1, len(put) + 1) - np.searchsorted(taken, put, side="right")
        most = int(held.max(initial=0))
        found.append(LEAST_DEPTH if most <= LEAST_DEPTH else max(most, SHALLOW))
    return tuple(found)


def _words(frames: Numbers, port: Port) -> Numbers:
    """The times of a port's words, from those of its series: one row a frame."""
    return np.ravel(frames if port.events is None else frames[:, port.events])
