"""Layers in C++ (HLS): one pipelined loop, a read or a write in some of its iterations.

An iteration starts at least `interval` cycles after the preceding iteration, reads its words at its
start, and writes `latency` cycles later. The pipeline is flushable: it holds `latency` + 1 iterations,
so iteration i starts after the write of iteration i - latency - 1. A stage holds one iteration, whether
the iteration writes or not: after a refused write, iterations leave one by one in their order. The
C++ loop nest orders the words; the HLS scheduler decides the latency, which is an assumption here.
Times in this module are cycles of a pipeline that never waits: iteration i starts at i * interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidGraph
from planners.fifo.timing.cluster import (
    Cluster,
    EventSequence,
    Numbers,
    Wait,
    WordPort,
    require_short,
)

Stream = tuple[Numbers, int]  # the iterations in which a port has a word, in order, and its bits


def loop_cluster(
    iterations: int,
    reads: Sequence[Stream],
    writes: Sequence[Stream],
    *,
    latency: int,
    interval: int = 1,
    gap: int = 0,
    assumed: tuple[str, ...] = (),
) -> Cluster:
    """Return the cluster of a loop: the iterations that read, and a sequence for each kind of write.

    gap: cycles between two frames. Raises InvalidGraph for a long frame, and a stream without words.
    """
    if not reads:
        raise InvalidGraph("no stream is read")
    if any(len(starts_of_port) == 0 for starts_of_port, _ in (*reads, *writes)):
        raise InvalidGraph("a stream has no word in a frame")
    frame = iterations * interval + gap
    require_short(max(frame, latency + interval))
    starts = reads[0][0]
    if not all(np.array_equal(starts_of_port, starts) for starts_of_port, _ in reads):
        # Ports that read in different iterations share one sequence: iterations start in order.
        starts = np.unique(np.concatenate([starts_of_port for starts_of_port, _ in reads]))
    read_at = starts * interval
    sequences, waits = [_sequence("read", read_at, frame)], list[Wait]()
    outputs: list[WordPort] = []
    for number, (starts_of_port, bits) in enumerate(writes):
        # Ports that write in the same iterations must all be ready at once: they are one sequence.
        same = [
            port.sequence
            for (starts_before, _), port in zip(writes[:number], outputs, strict=True)
            if np.array_equal(starts_before, starts_of_port)
        ]
        index = same[0] if same else len(sequences)
        if not same:
            write_at = starts_of_port * interval
            sequences.append(_sequence(f"write {index}" if index > 1 else "write", write_at, frame))
            # A write comes after its reads, and a read after the write that held up the pipeline.
            # The pipeline is full when this many cycles lie between a read and the oldest write.
            held = latency + interval
            needed, needed_at = _latest(read_at, write_at, frame)
            oldest, oldest_at = _latest(write_at, read_at - held, frame)
            waits.append(_wait(index, 0, needed, latency + write_at - needed_at))
            waits.append(_wait(0, index, oldest, interval + read_at - held - oldest_at))
        outputs.append(WordPort(sequence=index, words=len(starts_of_port), bits=bits))
    inputs = []
    for starts_of_port, bits in reads:
        events = None
        if len(starts_of_port) < len(starts):
            events = np.searchsorted(starts, starts_of_port).astype(np.int64)
        inputs.append(WordPort(sequence=0, words=len(starts_of_port), bits=bits, events=events))
    return Cluster(
        sequences=tuple(sequences),
        waits=tuple(waits),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        assumed=assumed,
    )


def _sequence(name: str, times: Numbers, frame: int) -> EventSequence:
    gaps = np.diff(times, prepend=times[-1] - frame)
    return EventSequence(name=name, events=len(times), gaps=np.ascontiguousarray(gaps))


def _wait(waiter: int, source: int, events: Numbers, delays: Numbers) -> Wait:
    if len(delays) and (delays == delays[0]).all():
        return Wait(waiter=waiter, source=source, events=events, delay=int(delays[0]))
    return Wait(waiter=waiter, source=source, events=events, delays=delays)


def _latest(times: Numbers, moments: Numbers, frame: int) -> tuple[Numbers, Numbers]:
    """The last event that is not after each moment, and its time; negative for an earlier frame.

    times: of the events of a frame, which repeat every `frame` cycles.
    """
    frames, in_frame = np.divmod(moments, frame)
    events: Numbers = np.searchsorted(times, in_frame, side="right") - 1 + frames * len(times)
    frames, number = np.divmod(events, len(times))
    return events, times[number] + frames * frame


def marked(rows: NDArray[np.bool_], columns: NDArray[np.bool_], *, words: int = 1) -> Numbers:
    """Return the numbers of the words of an image's pixels whose row and column are both marked.

    words: of a pixel.
    """
    image = np.repeat(np.ravel(rows[:, None] & columns), words)
    return np.flatnonzero(image).astype(np.int64)
