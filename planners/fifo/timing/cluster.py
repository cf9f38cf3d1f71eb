"""Timing of a layer as event sequences that wait for one another, and what is assumed about it.

A layer is not a single actor: a sliding window reads while it writes, and reads and writes delay each
other. So a layer is a small cluster of sequences. A sequence is the handshakes of one port in order, or
an inner event. A wait is an event of another sequence that has to precede, and the delay in cycles.
planners.kernels.event_times computes the times of all events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, gcd, isqrt, log2

import numpy as np
from numpy.typing import NDArray

from csdf.errors import InvalidGraph
from planners.kernels.event_times import NONE

Numbers = NDArray[np.int64]
MOST_EVENTS = 50_000_000  # of one sequence; 400 MB of times
# Cycles of a frame, a latency or an interval: sums over all frames then fit int64.
MOST_CYCLES = 2**39


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventSequence:
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
    """Events of one sequence that wait for events of another.

    waiter, source: numbers of sequences. events: for each event of the waiter the event of the source
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

    The event of `sequence` that begins a word of the output also waits for the space of the word `held`
    words before it, and comes `delay` cycles after the read that makes this space. events, words: of a
    frame, in pairs.
    """

    sequence: int
    events: Numbers
    words: Numbers
    held: int
    delay: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordPort:
    """A port of a layer, where words enter or leave: a word at each event of a sequence.

    events: the event of each word; None if there is one at every event. bits: width of a word. lock: of
    an output, how refused words stop the layer, if it does not only wait with the next word.
    """

    sequence: int
    words: int  # in one frame
    bits: int
    events: Numbers | None = None
    lock: Lock | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """The event sequences of one layer, what they wait for, and its ports in the order of the node."""

    sequences: tuple[EventSequence, ...]
    waits: tuple[Wait, ...]
    inputs: tuple[WordPort, ...]
    outputs: tuple[WordPort, ...]
    assumed: tuple[str, ...] = ()  # what the model of the design does not say

    @property
    def events(self) -> int:
        """Events of one frame, of all sequences."""
        return sum(sequence.events for sequence in self.sequences)


def require_few(events: int) -> None:
    """Raise InvalidGraph for more events in a frame than memory holds."""
    if events > MOST_EVENTS:
        raise InvalidGraph(
            f"{events} steps in one frame; at most {MOST_EVENTS} are simulated. Raise its folding first"
        )


def require_short(cycles: int) -> None:
    """Raise InvalidGraph for more clock cycles than MOST_CYCLES."""
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


def units(cluster: Cluster) -> int:
    """Return the maximum number of equal parts of a frame in which a layer does the same."""
    common = gcd(
        *(sequence.events for sequence in cluster.sequences),
        *(port.words for port in (*cluster.inputs, *cluster.outputs)),
    )
    small = [divisor for divisor in range(1, isqrt(common) + 1) if common % divisor == 0]
    # The largest number of parts first: the smallest repeated unit gives the finest exchanges.
    divisors = sorted({*small, *(common // divisor for divisor in small)}, reverse=True)
    return next(parts for parts in divisors if is_repeated(cluster, parts))


def is_repeated(cluster: Cluster, parts: int) -> bool:
    """Whether a layer does the same in each of this many parts of a frame.

    The numbers of events and words of the layer are multiples of `parts`.
    """
    steps = [sequence.events // parts for sequence in cluster.sequences]

    def is_same(numbers: Numbers | None, step: int, more: int = 0) -> bool:
        """Whether each number plus `more` is the number `step` entries later."""
        if numbers is None:
            return True
        return np.array_equal(numbers[step:], numbers[: len(numbers) - step] + more)

    def is_same_wait(wait: Wait) -> bool:
        step, more = steps[wait.waiter], steps[wait.source]
        is_nothing = wait.events == NONE
        total = cluster.sequences[wait.source].events
        later = np.append(wait.events[step:], wait.events[:step] + total)
        return (
            np.array_equal(is_nothing, np.roll(is_nothing, step))
            and bool(((later == wait.events + more) | is_nothing).all())
            and is_same(wait.delays, step)
        )

    return (
        all(
            is_same(sequence.gaps, step)
            for sequence, step in zip(cluster.sequences, steps, strict=True)
        )
        and all(map(is_same_wait, cluster.waits))
        and all(
            is_same(port.events, port.words // parts, steps[port.sequence])
            for port in (*cluster.inputs, *cluster.outputs)
        )
    )


def is_word_by_word(cluster: Cluster) -> bool:
    """Whether a layer does the same for every word at all ports, and waits for no later word."""
    words = {port.words for port in (*cluster.inputs, *cluster.outputs)}
    if len(words) != 1 or any(sequence.events not in words for sequence in cluster.sequences):
        return False
    looks_ahead = any((wait.events > counting(len(wait.events))).any() for wait in cluster.waits)
    return not looks_ahead and is_repeated(cluster, words.pop())


def is_thinning(cluster: Cluster) -> bool:
    """Whether space for a word after a layer has the effect of space for a word before the layer.

    For a layer with one input and one output that drops words: each read waits for at most one more
    write than the preceding read. So if read r waits for write w, read r - 1 waits for write w - 1 or a
    later write, with at least the same delay.
    """
    if len(cluster.sequences) != 2 or len(cluster.inputs) != 1 or len(cluster.outputs) != 1:
        return False
    read, written = cluster.inputs[0], cluster.outputs[0]
    if read.events is not None or written.events is not None:
        return False
    if any(wait.waiter == wait.source for wait in cluster.waits):
        return False
    rows = []  # of each wait: the number of the read, the number of the write, and the delay
    for wait in cluster.waits:
        if wait.waiter == read.sequence:
            waiting = np.flatnonzero(wait.events != NONE)
            delays = np.full(len(wait.events), wait.delay) if wait.delays is None else wait.delays
            rows.append(np.stack([waiting, wait.events[waiting], delays[waiting]], axis=1))
    if not rows:
        return False
    waits = np.concatenate(rows)
    # By read, then by write.
    waits = waits[np.lexsort((waits[:, 1], waits[:, 0]))]
    last = len(waits)
    frame = np.array([read.words, written.words, 0])
    # The preceding frame is included, since the first waits may refer to it.
    reads, writes, delays = np.concatenate([waits - frame, waits]).T
    if (np.diff(writes) < 0).any():
        return False
    # The first wait for the preceding write: it has to be of the preceding read or of an earlier read,
    # with at least the same delay; each read earlier allows for a cycle less.
    before = np.searchsorted(writes, writes[-last:] - 1)
    slack = reads[-last:] - 1 - reads[before]
    return bool(((slack >= 0) & (slack + delays[before] >= delays[-last:])).all())


COPYING = 3  # cycles from a read to the dependent write of a layer that copies words
DSP58_LANES = 3  # with more lanes FINN uses the core of mvu.sv
DSP58_SETUP, DSP58_STAGE = 0.741, 0.605  # ns, of mvu_vvu_8sx9_dsp58.sv
LATENCIES = {  # assumed cycles of HLS layers by operator; of all other operators COPYING
    "MVAU": 5,
    "VVAU": 5,
    "Pool": 4,
    "GlobalAccPool": 4,
    "LabelSelect": 4,
    "StreamingDataWidthConverter": 2,
    "UpsampleNearestNeighbour": 2,
}
# The adder tree over SIMD inputs adds a cycle for each of its levels.
ADDER_TREES = ("MVAU", "VVAU")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """Latencies by operator or by node, the clock, and the DSP of the part.

    clock_ns: the period that the build asks for; it decides the depth of a DSP58 pipeline.
    dsp: 48 or 58. restart_gap: cycles between two frames of an HLS layer. more: added to every guess.
    Raises InvalidGraph for more cycles than are simulated.
    """

    latencies: Mapping[str, int] = field(default_factory=dict)
    clock_ns: float = 5.0
    dsp: int = 48
    restart_gap: int = 0
    more: int = 0

    def __post_init__(self) -> None:
        for cycles in (*self.latencies.values(), self.restart_gap, self.more):
            require_short(cycles)

    def latency(self, operator: str, node: str, simd: int = 1) -> tuple[int, str]:
        """Return the latency of an HLS layer, and the remark if the user did not state it."""
        for key in (node, operator):
            if key in self.latencies:
                return self.latencies[key], ""
        guess = LATENCIES.get(operator, COPYING) + self.more
        if operator in ADDER_TREES:
            # A balanced adder tree has one register level for each halving.
            guess += ceil(log2(simd)) if simd > 1 else 0
        return guess, f"latency {guess}"

    def core(self, simd: int, weight_bits: int, input_bits: int, *, is_vvau: bool) -> int:
        """Return the pipeline of the computing core of an MVAU or VVAU in RTL, in cycles."""
        # Products packed side by side into the 27-bit operand of one DSP.
        lanes = 1 + (27 - 1 - weight_bits) // max(1, weight_bits + input_bits - 1)
        small = weight_bits <= 8 and input_bits <= 9
        if self.dsp == 58 and small and (is_vvau or lanes <= DSP58_LANES):
            chain = -(-simd // 3)
            reach = int((self.clock_ns - DSP58_SETUP) / DSP58_STAGE + 1)
            return 2 + -(-chain // max(1, min(reach, chain)))
        return 4 + (ceil(log2(simd)) if simd > 1 else 1)
