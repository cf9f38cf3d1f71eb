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

    The input register holds one word. A word is read when the preceding read word moves to the output
    register, which is free after the write of the word before. Source: fmpadding.sv.
    """
    needed = waiting_for_nothing(written)
    # Written words that are padding wait for no read.
    needed[read] = counting(len(read))
    before_preceding = np.roll(read, 1) - 1
    before_preceding[0] -= written  # the word that precedes the first is of the frame before
    waits = [
        Wait(waiter=1, source=0, events=needed),
        Wait(waiter=0, source=1, events=before_preceding),
    ]
    return _cluster(len(read), written, (bits, bits), waits)


def sliding_window(fetched: Numbers, first: Numbers, room: int, read: int, *, bits: int) -> Cluster:
    """Return a ConvolutionInputGenerator in the default style, with its circular buffer.

    fetched: the read word that each written word repeats. first: the first read word that is needed
    after each written word. room: words in the buffer. A word is read when it overwrites no word that
    is still needed; a frame begins when the preceding frame is written.
    Source: swg_template_default.sv.
    """
    nothing = waiting_for_nothing(read)
    last = _fetches_before_reading(fetched, first, room, read) - 1
    # Fetch q follows write q - 1, which frees the output register.
    freeing = np.where(last >= 1, last - 1, nothing)
    freeing[0] = -1  # the preceding frame is written
    waits = [
        Wait(waiter=1, source=0, events=fetched, delay=2),
        Wait(waiter=0, source=1, events=freeing),
    ]
    # The last fetch also waits for the read of its word. The order of reads implies this wait, except
    # for the directly preceding read and later reads.
    word = fetched[np.maximum(last, 0)]
    binds = (last >= 0) & (word >= counting(read) - 1)
    if binds.any():
        waits.append(Wait(waiter=0, source=0, events=np.where(binds, word, nothing), delay=2))
    return _cluster(read, len(fetched), (bits, bits), waits)


def _fetches_before_reading(fetched: Numbers, first: Numbers, room: int, read: int) -> Numbers:
    """Return the minimum number of fetches before each read.

    Read j overwrites word j - room. The number is the smallest q with two properties: the word is not
    needed after fetch q - 1 (j - room < first[q - 1], or q = 0), and fetch q, like those after it
    until the next jump backwards, fetches a later word (j - room < fetched[q]).
    """
    overwritten = counting(read) - min(room, read)  # more room than words has no effect
    # First property: before fetch q, all words from first_needed[q] on may be needed.
    first_needed = np.concatenate(([0], np.maximum.accumulate(first)))
    fetches = np.searchsorted(first_needed, overwritten, side="right").astype(np.int64)
    fetches = np.minimum(fetches, len(fetched))
    # Second property: skip the fetches of a run of increasing words up to the overwritten word. The
    # next fetch may begin a run that needs the word again. After the last fetch no word is needed.
    following = np.append(fetched, read)
    run = np.concatenate(([0], np.cumsum(np.diff(following) <= 0)))
    ordered = run * (read + 1) + following  # sorted by run and word, for a binary search in a run
    while len(late := np.flatnonzero(overwritten >= following[fetches])):
        sought = run[fetches[late]] * (read + 1) + overwritten[late]
        fetches[late] = np.searchsorted(ordered, sought, side="right")
    return np.maximum.accumulate(fetches)


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

    A word is read when the last part of the preceding word leaves the shift register. A part leaves the
    shift register one cycle after the write of the part two before it.

    With refused output a read is not a maximum of waits. Suppose that the next word is not available
    when the last part of the preceding word leaves the shift register, and that the output is refused
    in this cycle. Then the next word is read one cycle after the write of the last part but one. This
    write is one cycle after the read that makes its space, so a lock of 2 cycles bounds the read.
    Source: dwc.sv.
    """
    produced, first_part = words * ratio, counting(words) * ratio
    firsts = waiting_for_nothing(produced)
    # Only the first part of a word waits for its read; the others follow in order.
    firsts[::ratio] = counting(words)
    waits = [
        Wait(waiter=1, source=0, events=firsts, delay=2),
        Wait(waiter=0, source=1, events=first_part - 1 - 2),
    ]
    # The lock names the last part but one, 2 before the first part of the word that is read.
    lock = Lock(sequence=0, events=counting(words), words=first_part, held=2, delay=2)
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
    queue is empty. This delay is no maximum of waits, but a lock of 3 cycles bounds it. Results in the
    queue leave in successive cycles as soon as there is space. The last but one leaves one cycle after
    the read that makes its space, and the computation continues two cycles later.
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
    """Return the waits of the replay memory: data before use, and room before data.

    Each of the `neuron` folds uses all `synapse` words of a vector, a word in each step. Only the first
    fold waits for the read of a word. A read waits until the last fold has used the word that the read
    overwrites.
    """
    room = max(2, 1 << (synapse - 1).bit_length())  # words, a power of two (replay_buffer.sv)
    vector, step_of_vector = np.divmod(step, synapse * neuron)
    fold, word = np.divmod(step_of_vector, synapse)
    needed = np.where(fold == 0, vector * synapse + word, waiting_for_nothing(len(step)))
    overwritten = counting(read) - room
    old_vector, old_word = np.divmod(overwritten, synapse)
    last_use = (old_vector * neuron + neuron - 1) * synapse + old_word
    return [
        Wait(waiter=2, source=0, events=needed, delay=2),
        Wait(waiter=0, source=2, events=last_use - 1),  # P reads one step before C computes
        Wait(waiter=0, source=0, events=overwritten, delay=2),
    ]
