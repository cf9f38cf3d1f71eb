"""Layers in C++ (HLS): one pipelined loop, a read or a write in some of its iterations.

An iteration starts at least `interval` cycles after the preceding iteration, and reads its words at its
start. What it writes comes `latency` cycles later. The pipeline is flushable: it holds `latency` + 1
iterations, so an iteration starts after the write of the one that many iterations before. A stage holds
one iteration, whether it writes or not: behind a write that was refused, iterations leave one by one as
they came. The words are ordered by the C++ loop nest; the latency is decided by the HLS scheduler and
is an assumption here.
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

    gap: cycles between two frames. Raises InvalidGraph for a frame that is too long, and for a stream
    without words.
    """
    if any(len(starts_of_port) == 0 for starts_of_port, _ in (*reads, *writes)):
        raise InvalidGraph("a stream has no word in a frame")
    frame = iterations * interval + gap
    require_short(max(frame, latency + interval))
    starts = reads[0][0]
    if not all(np.array_equal(starts_of_port, starts) for starts_of_port, _ in reads):
        # Ports that read in different iterations share one sequence: iterations start in order.
        starts = np.unique(np.concatenate([starts_of_port for starts_of_port, _ in reads]))
    at = starts * interval
    sequences, waits = [_sequence("read", at, frame)], list[Wait]()
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
            source, source_at = _latest(at, write_at, frame)
            behind, behind_at = _latest(write_at, at - held, frame)
            waits.append(_wait(index, 0, source, latency + write_at - source_at))
            waits.append(_wait(0, index, behind, interval + at - held - behind_at))
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


def _sequence(name: str, at: Numbers, frame: int) -> EventSequence:
    gaps = np.diff(at, prepend=at[-1] - frame)
    return EventSequence(name=name, events=len(at), gaps=np.ascontiguousarray(gaps))


def _wait(waiter: int, source: int, events: Numbers, delays: Numbers) -> Wait:
    if len(delays) and (delays == delays[0]).all():
        return Wait(waiter=waiter, source=source, events=events, delay=int(delays[0]))
    return Wait(waiter=waiter, source=source, events=events, delays=delays)


def _latest(indices: Numbers, moments: Numbers, frame: int) -> tuple[Numbers, Numbers]:
    """The last event not after each moment, and when it is in the time of the pipeline.

    A frame before the first event has negative numbers.
    """
    frames, remainder = np.divmod(moments, frame)
    events: Numbers = np.searchsorted(indices, remainder, side="right") - 1 + frames * len(indices)
    frames, remainder = np.divmod(events, len(indices))
    return events, indices[remainder] + frames * frame


def marked(rows: NDArray[np.bool_], columns: NDArray[np.bool_], *, words: int = 1) -> Numbers:
    """Return the numbers of the words of an image's pixels whose row and column are both marked.

    words: of a pixel.
    """
    image = np.repeat(np.ravel(rows[:, None] & columns), words)
    return np.flatnonzero(image).astype(np.int64)
