"""Event sequences of the RTL layers of the FINN library, derived from the handshakes in their Verilog.

Registers inside a layer that never wait for a port are eliminated from the recurrences, so the
remaining events are those at the ports: R reads a word, W writes a word. The page docs/theory-fifo.md
has the table of layers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planners.fifo.timing.cluster import (
    Cluster,
    EventSequence,
    Lock,
    Numbers,
    Wait,
    WordPort,
    counting,
    waiting_for_nothing,
)


def _cluster(
    reads: int,
    writes: int,
    bits: tuple[int, int],
    waits: list[Wait],
    *,
    read_gap: int = 1,
    lock: Lock | None = None,
) -> Cluster:
    """A layer with one input and one output: sequence 0 reads, sequence 1 writes."""
    return Cluster(
        sequences=(
            EventSequence(name="read", events=reads, gap=read_gap),
            EventSequence(name="write", events=writes),
        ),
        waits=tuple(waits),
        inputs=(WordPort(sequence=0, words=reads, bits=bits[0]),),
        outputs=(WordPort(sequence=1, words=writes, bits=bits[1], lock=lock),),
    )


def padding(read: Numbers, written: int, *, bits: int) -> Cluster:
    """Return an FMPadding. read: numbers of the written words that are read words, not padding.

    The input register holds one word, so a word is read when the preceding moves on (fmpadding.sv).
    """
    needed = waiting_for_nothing(written)
    # Written words that are padding wait for no read.
    needed[read] = counting(len(read))
    moved = np.roll(read, 1) - 1
    moved[0] -= written  # of the frame before
    waits = [Wait(waiter=1, source=0, events=needed), Wait(waiter=0, source=1, events=moved)]
    return _cluster(len(read), written, (bits, bits), waits)


def sliding_window(fetched: Numbers, first: Numbers, room: int, read: int, *, bits: int) -> Cluster:
    """Return a ConvolutionInputGenerator in the default style, with its circular buffer.

    fetched: the read word that each written word repeats. first: the first read word that is needed
    after each written word. room: words in the buffer. A word is read when it overwrites no word that
    is still needed; a frame begins when the preceding frame is written.
    Source: swg_template_default.sv.
    """
    written = len(fetched)
    allowed = _fetches_before_reading(fetched, first, room, read)
    # Fetch q follows write q - 1, which frees the output register; the last of the `allowed` fetches is
    # number allowed - 1.
    freeing = np.where(allowed >= 2, allowed - 2, waiting_for_nothing(read))
    freeing[0] = -1  # the preceding frame is written
    waits = [
        Wait(waiter=1, source=0, events=fetched, delay=2),
        Wait(waiter=0, source=1, events=freeing),
    ]
    # The last allowed fetch also waits for the read of its word. The order of reads implies this wait,
    # except for the directly preceding read and later reads.
    last = np.where(allowed > 0, fetched[np.maximum(allowed - 1, 0)], waiting_for_nothing(read))
    binds = (allowed > 0) & (last >= counting(read) - 1)
    if binds.any():
        binding = np.where(binds, last, waiting_for_nothing(read))
        waits.append(Wait(waiter=0, source=0, events=binding, delay=2))
    return _cluster(read, written, (bits, bits), waits)


def _fetches_before_reading(fetched: Numbers, first: Numbers, room: int, read: int) -> Numbers:
    """Return the minimum number of fetches before each read.

    For read j it is the smallest q with two properties. Word j - room, which read j overwrites, is not
    needed after fetch q - 1: j - room < first[q - 1], or q = 0. And no later fetch until the next jump
    backwards needs it: j - room < fetched[q].
    """
    # The word that this read overwrites in the circular buffer; more room than words has no effect.
    oldest = counting(read) - min(room, read)
    needed_until = np.concatenate(
        ([0], np.maximum.accumulate(first))
    )  # still needed before fetch q
    written = len(fetched)
    allowed = np.minimum(np.searchsorted(needed_until, oldest, side="right"), written).astype(
        np.int64
    )
    following = np.append(fetched, read)  # after the last fetch no word is needed
    run = np.concatenate(([0], np.cumsum(np.diff(following) <= 0)))  # of increasing fetched words
    # One sorted key for run and word lets a binary search replace a scan within each run.
    ordered = run * (read + 1) + following
    while len(late := np.flatnonzero(oldest >= following[allowed])):
        sought = run[allowed[late]] * (read + 1) + oldest[late]
        allowed[late] = np.searchsorted(ordered, sought, side="right")
    return np.maximum.accumulate(allowed)


def sliding_window_parallel(last: Numbers, read: int, *, bits: tuple[int, int]) -> Cluster:
    """Return a ConvolutionInputGenerator in the parallel style: a whole window in one word.

    last: for each word written the last word of its window. Source: swg_template_parallel.sv.
    """
    written = len(last)
    # The read after the last word of a window waits for the write of the window.
    has_next = last + 1 < read
    after_window = waiting_for_nothing(read)
    after_window[last[has_next] + 1] = np.flatnonzero(has_next)
    frame_begin = waiting_for_nothing(read)
    frame_begin[0] = -1  # the preceding frame is written
    waits = [
        Wait(waiter=1, source=0, events=last),
        Wait(waiter=0, source=1, events=after_window, delay=0),
        Wait(waiter=0, source=1, events=frame_begin),
    ]
    return _cluster(read, written, bits, waits)


def widening(words: int, ratio: int, *, bits: int) -> Cluster:
    """Return a width converter that joins `ratio` words to one. Source: dwc.sv."""
    produced = words // ratio
    # The second part of a word waits for the write of the preceding word.
    second_parts = waiting_for_nothing(words)
    second_parts[1::ratio] = counting(produced) - 1
    waits = [
        Wait(waiter=1, source=0, events=counting(produced) * ratio + ratio - 1),
        Wait(waiter=0, source=1, events=second_parts),
    ]
    return _cluster(words, produced, (bits, bits * ratio), waits)


def narrowing(words: int, ratio: int, *, bits: int) -> Cluster:
    """Return a width converter that writes `ratio` words for each word that it reads.

    A read in dwc.sv is not always the maximum of its waits. Suppose that the next word is not available
    when the last part of the preceding word leaves the register, and that the output is refused in this
    cycle. Then the next word is read after the last part but one has left. Such a refusal ends one
    cycle after the read that makes space, so the next word is read at most 2 cycles after the read that
    makes space for the last part but one. Source: dwc.sv.
    """
    produced = words * ratio
    firsts = waiting_for_nothing(produced)
    # Only the first part of a word waits for its read; the others follow in order.
    firsts[::ratio] = counting(words)
    waits = [
        Wait(waiter=1, source=0, events=firsts, delay=2),
        Wait(waiter=0, source=1, events=counting(words) * ratio - 3),
    ]
    read = counting(words)
    lock = Lock(sequence=0, events=read, words=read * ratio, held=2, delay=2)
    return _cluster(words, produced, (bits, bits // ratio), waits, read_gap=ratio, lock=lock)


def pipeline(words: int, latency: int, held: int, *, bits: tuple[int, int]) -> Cluster:
    """Return a pipeline of one word in, one out, that holds this many. Source: thresholding.sv."""
    waits = [
        Wait(waiter=1, source=0, events=counting(words), delay=latency),
        Wait(waiter=0, source=1, events=counting(words) - held),
    ]
    return _cluster(words, words, bits, waits)


def matrix_vector(
    vectors: int, folds: tuple[int, int], core: int, *, bits: tuple[int, int]
) -> Cluster:
    """Return an MVAU that replays its input, or not.

    folds: synapse fold SF, neuron fold NF; core: cycles of the pipeline. With NF > 1 words are kept
    in a memory of a power of two, and P, the prefetch, reads it one step before C, the computation.

    A result that waits in the queue after a refused result stops the computation (`OLock`) until the
    queue is empty. This delay is no maximum of waits, but a maximum bounds it: results in the queue
    leave in successive cycles as soon as there is space, so the last but one leaves one cycle after the
    read that makes its space, and two cycles later the lock opens. So a step of a result is no later
    than without the lock, or than 3 cycles after the read that makes space for the result 2 before it.
    Source: mvu_vvu_axi.sv, replay_buffer.sv.
    """
    synapse, neuron = folds
    read, steps, produced = vectors * synapse, vectors * synapse * neuron, vectors * neuron
    begun = counting(produced)
    compute = 0 if neuron == 1 else 2
    last_step = begun * synapse + synapse - 1
    waits = [Wait(waiter=1, source=compute, events=last_step, delay=core + 2)]
    lock = Lock(sequence=compute, events=begun * synapse, words=begun, held=2, delay=3)
    cluster = _cluster(read, produced, bits, waits, lock=lock)
    if neuron == 1:
        return cluster
    return replace(
        cluster,
        sequences=(*cluster.sequences, EventSequence(name="compute", events=steps)),
        waits=(*waits, *_replay(counting(steps), synapse, neuron, read)),
    )


def _replay(step: Numbers, synapse: int, neuron: int, read: int) -> list[Wait]:
    """Return the waits of the memory of replayed words: data before use, and room before data."""
    # The replay memory has a power of two of words (replay_buffer.sv).
    room = 1 << (synapse - 1).bit_length() if synapse > 1 else 2
    fold = step % (synapse * neuron) // synapse
    needed = np.where(
        fold == 0,
        step // (synapse * neuron) * synapse + step % synapse,
        waiting_for_nothing(len(step)),
    )
    overwritten = counting(read) - room
    vector, word = np.divmod(overwritten, synapse)
    last_use = vector * synapse * neuron + (neuron - 1) * synapse + word
    return [
        Wait(waiter=2, source=0, events=needed, delay=2),
        Wait(waiter=0, source=2, events=last_use - 1),  # P reads one step before C computes
        Wait(waiter=0, source=0, events=overwritten, delay=2),
    ]
