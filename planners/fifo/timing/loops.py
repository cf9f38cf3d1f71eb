"""Layers in C++ (HLS): one pipelined loop, a read or a write in some of its iterations.

An iteration starts at least `interval` cycles after the one before and takes its words at its start.
What it writes comes `latency` cycles later. The pipeline is flushable: it holds `latency` + 1
iterations, so an iteration starts after the write of the one that many iterations before. A stage
holds one iteration, whether it writes or not: behind a write that was refused, iterations leave one by
one as they came.
The order of the words is that of the C++ loop nest; the latency is decided by the HLS scheduler and
is an assumption here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from csdf.errors import InvalidGraph
from planners.fifo.timing.cluster import Cluster, Numbers, Port, Series, Wait, require_short


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The iterations in which a port has a word, in order, and how wide it is."""

    iterations: Numbers
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A pipelined loop over `iterations`; `idle` cycles pass between two frames."""

    iterations: int
    latency: int
    interval: int = 1
    idle: int = 0

    @property
    def frame(self) -> int:
        """Cycles of one frame, in the time of the pipeline."""
        return self.iterations * self.interval + self.idle


def loop_cluster(
    loop: Loop, reads: Sequence[Stream], writes: Sequence[Stream], assumed: tuple[str, ...]
) -> Cluster:
    """Return the cluster of a loop: the iterations that read, and a series for each kind of write.

    Raises InvalidGraph for a frame that is too long, and for a stream without words.
    """
    if any(len(one.iterations) == 0 for one in (*reads, *writes)):
        raise InvalidGraph("a stream has no word in a frame")
    require_short(max(loop.frame, loop.latency + loop.interval))
    starts = _union([one.iterations for one in reads])
    at = starts * loop.interval
    series = [_series("read", at, loop.frame)]
    waits: list[Wait] = []
    outputs: list[Port] = []
    for one in writes:
        number = _same(writes, outputs, one)
        if number is None:
            number, write_at = len(series), one.iterations * loop.interval
            name = f"write {number}" if number > 1 else "write"
            series.append(_series(name, write_at, loop.frame))
            waits += _waits(loop, at, write_at, number)
        outputs.append(Port(series=number, words=len(one.iterations), bits=one.bits))
    return Cluster(
        series=tuple(series),
        waits=tuple(waits),
        inputs=tuple(_input(starts, one) for one in reads),
        outputs=tuple(outputs),
        assumed=assumed,
    )


def _union(lists: Sequence[Numbers]) -> Numbers:
    """All numbers of sorted lists, each once, in order."""
    if all(np.array_equal(one, lists[0]) for one in lists):
        return lists[0]
    merged = np.sort(np.concatenate(lists))
    found: Numbers = merged[np.append(True, np.diff(merged) > 0)]
    return found


def _same(writes: Sequence[Stream], outputs: Sequence[Port], one: Stream) -> int | None:
    """The series that already writes in these iterations: all its ports must be ready at once."""
    for earlier, port in zip(writes, outputs, strict=False):
        if np.array_equal(earlier.iterations, one.iterations):
            return port.series
    return None


def _series(name: str, at: Numbers, frame: int) -> Series:
    gaps = np.diff(at, prepend=at[-1] - frame)
    return Series(name=name, events=len(at), gaps=np.ascontiguousarray(gaps))


def _input(starts: Numbers, one: Stream) -> Port:
    events = np.searchsorted(starts, one.iterations).astype(np.int64)
    whole = len(events) == len(starts)
    return Port(series=0, words=len(events), bits=one.bits, events=None if whole else events)


def _waits(loop: Loop, read_at: Numbers, write_at: Numbers, number: int) -> list[Wait]:
    """The two waits of a write: for its reads, and of reads for it."""
    held = loop.latency + loop.interval
    source = _latest(read_at, write_at, loop.frame)
    behind = _latest(write_at, read_at - held, loop.frame)
    return [
        _wait(number, 0, source, loop.latency + write_at - _time(read_at, source, loop.frame)),
        _wait(
            0,
            number,
            behind,
            loop.interval + read_at - held - _time(write_at, behind, loop.frame),
        ),
    ]


def _wait(waiter: int, source: int, events: Numbers, delays: Numbers) -> Wait:
    if len(delays) and (delays == delays[0]).all():
        return Wait(waiter=waiter, source=source, events=events, delay=int(delays[0]))
    return Wait(waiter=waiter, source=source, events=events, delays=delays)


def _latest(places: Numbers, moments: Numbers, frame: int) -> Numbers:
    """The last event not after each moment; a frame before the first event has negative numbers."""
    frames, rest = np.divmod(moments, frame)
    found: Numbers = np.searchsorted(places, rest, side="right") - 1 + frames * len(places)
    return found


def _time(places: Numbers, events: Numbers, frame: int) -> Numbers:
    """When these events are in the time of the pipeline."""
    frames, rest = np.divmod(events, len(places))
    found: Numbers = places[rest] + frames * frame
    return found
