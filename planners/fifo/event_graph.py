"""Event graph of a design as arrays: event times for given depths, critical cycles, regions.

Every cycle of events through the space of FIFOs bounds their depths. A layer that forwards elements
one by one does not separate the FIFOs before and after it: an element can wait in either. So a
cycle through the space of a chain of FIFOs, joined by such layers, bounds the sum of their depths.
With the same or a smaller sum, a cycle through the same events outside the chain is no faster. If
the cycle is too slow, all depths with no larger sum in any of its chains are infeasible. This
region is much larger than the box of depths that are smaller one by one.

Example: FIFOs 0 and 1 around a threshold, both of depth 2 on a cycle that is too slow. The region
is {((0, 1), (1, 1)): 4}: depths (3, 1) and (1, 3) are infeasible too, depths (3, 2) perhaps not.

Proof: in layers with the same events for each element, a path between two events leads back by the
number of elements that the FIFOs and the layers on it can hold. Its time is the sum of its waits, for
any first element. Where the path leaves the chain, it meets an event of the same sequence. With a
smaller sum it meets a later event, which is no sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from csdf.analysis.components import strong_components
from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from planners.fifo.design import Design
from planners.fifo.timing.cluster import Lock, Numbers, WordPort, counting, is_word_by_word
from planners.kernels import event_times, ranges
from planners.kernels.event_times import NONE

Chain = tuple[tuple[int, int], ...]  # FIFOs, and how often each counts
Spend = Callable[[int], None]  # called with the microseconds of a step; may end the work by raising

FEWEST_SLOTS, MOST_SLOTS = 6, 64  # frames whose times are kept
# More slots than needed are kept within this number of times; about 100 MB.
USUAL_TIMES = 12_000_000
MOST_TIMES = 1_000_000_000  # stored times above which a design is rejected; 8 GB
MOST_FRAMES = 3_000  # simulated frames without a recurrence, after which the answer is unknown
EVENTS = 56  # timed and traced in a microsecond of a typical machine
# Frames after which a critical cycle is searched for; then every 64.
TRACED_FRAMES = (2, 4, 8, 16, 32, 64)

INSIDE, DATA, SPACE, LOCK = range(4)  # kinds of waits: in a layer, and of a FIFO


def spend_nothing(_microseconds: int) -> None:
    """Ignore the effort of a step."""


class Infeasible(NamedTuple):
    """Infeasible depths of a design: those where no chain is deeper than its limit."""

    limits: Mapping[Chain, int]

    def holds(self, depths: Sequence[int | None]) -> bool:
        """Whether the region contains these depths; None is an unbounded FIFO."""
        return all(
            (total := total_depth(chain, depths)) is not None and total <= limit
            for chain, limit in self.limits.items()
        )


def total_depth(
    chain: Chain, depths: Sequence[int | None] | Mapping[int, int | None]
) -> int | None:
    """Return the sum of depths over a chain of FIFOs; None if a FIFO is unbounded."""
    total = 0
    for fifo, times in chain:
        depth = depths[fifo]
        if depth is None:
            return None
        total += times * depth
    return total


ALL_DEPTHS = Infeasible({})


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCycle:
    """A cycle of events that wait for each other, which sets a lower bound on the period.

    period: clock cycles per frame, None for a deadlock. fifos: FIFOs whose space is on the cycle.
    layers: layers with events on the cycle, in the order of the waits. infeasible: depths for which
    some cycle is no faster. is_bound: whether the max-plus bound of a lock is on the cycle, so that
    the hardware may be faster or free of deadlock.
    """

    period: Fraction | None
    fifos: tuple[int, ...]
    layers: tuple[int, ...]
    infeasible: Infeasible = ALL_DEPTHS
    is_bound: bool = False


class _Wait(NamedTuple):
    """A wait of a sequence, the waiter, for another, the source, in the form of the kernel.

    token_at, event_at, delay_at: offsets of its tables, -1 for no table, as in TokenWaits. kind: INSIDE
    to LOCK. fifo: of a wait between layers.
    """

    waiter: int
    source: int
    token_at: int
    tokens: int  # of a frame
    event_at: int
    delay: int
    delay_at: int
    kind: int
    fifo: int = -1


class EventGraph:
    """A design as arrays for the kernel; every query states the depths.

    alone: periods of single layers, computed on request. owner: layer of each sequence. longest: cycles
    that a frame never exceeds. most_tokens: bound on the numbers of tokens. space_of: FIFO whose space
    each wait is for, or -1; is_lock: of each wait. is_passing: of each sequence, whether its layer
    forwards elements one by one.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.alone: dict[int, Fraction] = {}
        clusters = [layer.cluster for layer in design.layers]
        self._first = list(accumulate((len(cluster.sequences) for cluster in clusters), initial=0))
        self.owner = [number for number, cluster in enumerate(clusters) for _ in cluster.sequences]
        sequences = [sequence for cluster in clusters for sequence in cluster.sequences]
        self._tables: list[Numbers] = [np.zeros(1, dtype=np.int64)]
        # By identity: repeated layers share their tables.
        self._table_at: dict[int, int] = {}
        self._largest = {-1: 0}  # absolute value in each table
        self.events = [sequence.events for sequence in sequences]
        gap_at = [self._table(sequence.gaps) for sequence in sequences]
        self.waits = sorted(
            [*self._inner_waits(), *self._fifo_waits()], key=lambda wait: (wait.waiter, wait.kind)
        )
        pauses = [
            max(1, sequence.gap, self._largest[at])
            for sequence, at in zip(sequences, gap_at, strict=True)
        ]
        counts = [0] * len(sequences)
        for wait in self.waits:
            longest = max(abs(wait.delay), self._largest[wait.delay_at])
            pauses[wait.waiter] = max(pauses[wait.waiter], longest)
            counts[wait.waiter] += 1
        self.longest = sum(
            max(1, count) * pause for count, pause in zip(self.events, pauses, strict=True)
        )
        self.most_tokens = max(self.events, default=0) + max(self._largest.values())
        columns = zip(*self.waits, strict=True) if self.waits else [()] * len(_Wait._fields)
        of_waits = dict(zip(_Wait._fields, columns, strict=True))
        self._columns: dict[str, Any] = {
            **of_waits,
            "events": self.events,
            "gap": [sequence.gap for sequence in sequences],
            "gap_at": gap_at,
            "wait_start": [*accumulate(counts, initial=0)],
            "tables": np.concatenate(self._tables),
        }
        self._arrays: dict[bool, dict[str, Any]] = {}
        # By number of the wait; the last two entries are those of event_times.UNDECIDED and PRECEDING.
        kinds = np.array([*of_waits["kind"], INSIDE, INSIDE])
        self.space_of = np.where(kinds >= SPACE, [*of_waits["fifo"], -1, -1], -1)
        self.is_lock = kinds == LOCK
        passes = [is_word_by_word(cluster) for cluster in clusters]
        self.is_passing = np.array([passes[owner] for owner in self.owner], dtype=bool)

    def _inner_waits(self) -> Iterator[_Wait]:
        for number, layer in enumerate(self.design.layers):
            begin = self._first[number]
            for wait in layer.cluster.waits:
                source = begin + wait.source
                yield _Wait(
                    begin + wait.waiter, source, self._table(wait.events), self.events[source], -1,
                    wait.delay, self._table(wait.delays), INSIDE,
                )  # fmt: skip

    def _fifo_waits(self) -> Iterator[_Wait]:
        """Yield the waits of FIFOs: the reader for data, the writer and a locked layer for space."""
        for number, fifo in enumerate(self.design.fifos):
            written, read = self.design.ports(fifo)
            producer = self.sequence(fifo.producer, written)
            consumer = self.sequence(fifo.consumer, read)
            read_at, written_at = self._table(read.events), self._table(written.events)
            data = self._tokens(consumer, read.events)
            yield _Wait(consumer, producer, data, read.words, written_at, 1, -1, DATA, number)
            space = self._tokens(producer, written.events)
            yield _Wait(producer, consumer, space, written.words, read_at, 1, -1, SPACE, number)
            if (lock := written.lock) is not None:
                waiter = self.sequence(fifo.producer, lock)
                begun = self._tokens(waiter, lock.events, lock.words - lock.held)
                yield _Wait(
                    waiter, consumer, begun, read.words, read_at, lock.delay, -1, LOCK, number
                )

    def _tokens(self, waiter: int, events: Numbers | None, tokens: Numbers | None = None) -> int:
        """Store a table with the token that each event waits for; NONE for all other events.

        events: the events that wait. tokens: the token of each, by default in their order.
        """
        if events is None:
            return -1
        table = np.full(self.events[waiter], NONE, dtype=np.int64)
        table[events] = np.arange(len(events), dtype=np.int64) if tokens is None else tokens
        return self._table(table)

    def _table(self, numbers: Numbers | None) -> int:
        if numbers is None:
            return -1
        if id(numbers) not in self._table_at:
            index = sum(map(len, self._tables))
            self._tables.append(numbers)
            self._table_at[id(numbers)] = index
            self._largest[index] = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
        return self._table_at[id(numbers)]

    def sequence(self, layer: int, port: WordPort | Lock) -> int:
        """Return the number of the event sequence of a layer's port or lock."""
        return self._first[layer] + port.sequence

    def arrays(self, backend: compiler.Backend) -> dict[str, Any]:
        """Return the arrays of the sequences and the waits, by their names in the kernel."""
        if backend.is_compiled not in self._arrays:
            self._arrays[backend.is_compiled] = {
                name: _array(backend, column) for name, column in self._columns.items()
            }
        return self._arrays[backend.is_compiled]

    def restricted(self, layers: Iterable[int], depths: Sequence[int | None]) -> Subgraph:
        """Return the subgraph of these layers with these depths."""
        return Subgraph(self, set(layers), depths)

    def components(self, depths: Sequence[int | None]) -> list[list[int]]:
        """Return the strongly connected groups of layers; all other layers run independently.

        An unbounded FIFO has no wait for space, so the consumer does not delay the producer.
        """
        following: list[list[int]] = [[] for _ in self.design.layers]
        for fifo, depth in zip(self.design.fifos, depths, strict=True):
            following[fifo.producer].append(fifo.consumer)
            if depth is not None:
                following[fifo.consumer].append(fifo.producer)
        groups: dict[int, list[int]] = {}
        for layer, component in enumerate(strong_components(len(following), following)):
            groups.setdefault(component, []).append(layer)
        return [group for group in groups.values() if len(group) > 1]


def _array(backend: compiler.Backend, values: Any) -> Any:
    if backend.is_compiled:
        return np.ascontiguousarray(values, dtype=np.int64)
    return [int(value) for value in values]


class Subgraph:
    """A set of layers and the FIFOs between them, with the times of their events."""

    def __init__(self, whole: EventGraph, layers: set[int], depths: Sequence[int | None]) -> None:
        self._whole, self._depths = whole, depths
        design = whole.design
        active = [number for number, owner in enumerate(whole.owner) if owner in layers]
        base = [0] * len(whole.events)
        self.events = 0
        for number in active:
            base[number], self.events = self.events, self.events + whole.events[number]
        enabled, shift = [0] * len(whole.waits), [0] * len(whole.waits)
        self._back = max(1, _frames_back(design, layers))
        for index, wait in enumerate(whole.waits):
            if wait.kind == INSIDE:
                enabled[index] = 1
                continue
            fifo, depth = design.fifos[wait.fifo], depths[wait.fifo]
            if fifo.producer not in layers or fifo.consumer not in layers:
                continue
            if wait.kind == DATA:
                enabled[index] = 1
            elif depth is not None and depth < MOST_FRAMES * fifo.words:
                # A deeper FIFO has room for all frames that are ever simulated.
                enabled[index], shift[index] = 1, -depth
                lock = design.ports(fifo)[0].lock
                distance = depth + (0 if lock is None else lock.held)
                self._back = max(self._back, -(-distance // fifo.words))
        self._most_tokens = whole.most_tokens - min(shift, default=0)
        self._columns = {"active": active, "base": base, "enabled": enabled, "shift": shift}
        self._backend: compiler.Backend | None = None  # once there is a question
        # A ring of frames: an event refers at most `_back` frames back; further slots serve the
        # search for a repeated state.
        self._slots = max(
            FEWEST_SLOTS, self._back + 2, min(MOST_SLOTS, USUAL_TIMES // max(1, self.events))
        )
        if self._slots * self.events > MOST_TIMES:
            raise GaveUp(
                f"{design.name}: {self._slots} frames of {self.events} events wait for one another; "
                f"at most {MOST_TIMES} times are kept"
            )
        self._settled: tuple[int, Any] | None = None
        self.simulated = 0  # events so far

    def _begin(self, period: Fraction, frames: int) -> None:
        """Choose the backend for this number of frames, and make memory for their times."""
        whole = self._whole
        largest = ranges.event_times(
            frames, period.numerator, period.denominator, whole.longest, self._most_tokens
        )
        # Times are scaled by the denominator of the period, which may exceed 64 bits.
        backend = compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
        if backend is not self._backend:
            self._backend = backend
            arrays = {name: _array(backend, column) for name, column in self._columns.items()}
            columns = SimpleNamespace(**whole.arrays(backend), **arrays)
            self._sequences = backend.kernel(event_times.EventSequences)(columns)
            self._waits = backend.kernel(event_times.TokenWaits)(columns)
            stack = backend.kernel(event_times.SequenceStack)
            self._stack = stack(len(whole.events), backend.blank)
            self._growth = backend.kernel(event_times.Growth)()
        self._times = self._blank(self._slots * self.events)
        self._kept = backend.kernel(event_times.FrameTimes)(
            self._slots, self.events, self._times, period.numerator, period.denominator
        )

    @property
    def _kernels(self) -> compiler.Backend:
        """The backend of the question. Raises AssertionError before `_begin`."""
        assert self._backend is not None
        return self._backend

    @property
    def _kind(self) -> Any:
        """The numpy type of times: int64, or Python integers if 64 bits are too few."""
        return np.int64 if self._kernels.is_compiled else object

    def deadlock(self, spend: Spend = spend_nothing) -> EventCycle | None:
        """Return the cycle of a deadlock, or None."""
        # A deadlock shows in the first frame: later frames repeat its waits.
        self._begin(Fraction(0), 1)
        return self._stuck() if self._frame(0, spend) else None

    def cycle_above(self, period: Fraction, spend: Spend = spend_nothing) -> EventCycle | None:
        """Return a cycle with a period above this one; None if no such cycle exists.

        Both answers are exact: None is proved by times that repeat, a cycle by its events.
        """
        self._begin(period, MOST_FRAMES)
        if self._frame(0, spend):
            return self._stuck()
        measure_growth, growth = self._kernels.kernel(event_times.measure_growth), self._growth
        settled = 0
        for frame in range(1, MOST_FRAMES):
            self._frame(frame, spend)
            measure_growth(frame, self._sequences, self._kept, growth)
            settled = settled + 1 if growth.most == growth.least == 0 else 0
            if settled >= self._back:
                self._settled = frame, self._times
                return None
            if settled == 0 and (frame in TRACED_FRAMES or frame % TRACED_FRAMES[-1] == 0):
                cycle = self._traced(frame, period)
                if cycle is not None and cycle.period is not None and cycle.period > period:
                    return cycle
        raise GaveUp(f"no steady state in {MOST_FRAMES} frames of {self._whole.design.name}")

    def max_occupancy(self, number: int, period: Fraction, spend: Spend = spend_nothing) -> int:
        """Return a depth of a FIFO that leaves the last steady state unchanged.

        All FIFOs may have these depths at the same time.
        """
        spend(self._whole.design.fifos[number].words // EVENTS + 1)
        if self._settled is None:
            raise AssertionError("there is a steady state only after a period that is reached")
        frame, times = self._settled
        fifo = self._whole.design.fifos[number]
        written, read = self._whole.design.ports(fifo)

        def times_of(layer: int, port: WordPort | Lock) -> Numbers:
            sequence = self._whole.sequence(layer, port)
            begin = frame % self._slots * self.events + self._columns["base"][sequence]
            end = begin + self._whole.events[sequence]
            in_frame = np.asarray(times[begin:end], dtype=self._kind)
            return in_frame if port.events is None else in_frame[port.events]

        writes = times_of(fifo.producer, written) - period.denominator
        reads = times_of(fifo.consumer, read)
        maximum = _most_waiting(counting(fifo.words), writes, reads, period.numerator)
        if (lock := written.lock) is not None:
            free = times_of(fifo.producer, lock) - lock.delay * period.denominator
            waiting = _most_waiting(lock.words, free, reads, period.numerator)
            maximum = max(maximum, waiting - lock.held)
        return maximum

    def times(
        self, period: Fraction, frames: int, spend: Spend = spend_nothing
    ) -> dict[int, Numbers]:
        """Return the times of events by sequence, one row per frame, for frames at this distance."""
        self._begin(period, frames)
        for frame in range(frames):
            if self._frame(frame, spend):
                raise GaveUp(f"{self._whole.design.name} deadlocks in these depths")
        table = np.asarray(self._times, dtype=self._kind).reshape(self._slots, self.events)
        table = table[:frames] // period.denominator
        active, base = self._columns["active"], self._columns["base"]
        begins = {number: base[number] for number in active}
        return {
            number: table[:, begin : begin + self._whole.events[number]]
            for number, begin in begins.items()
        }

    def word_times(
        self, period: Fraction, frames: int, spend: Spend = spend_nothing
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield for each FIFO the times of its writes and of its reads, in frames at this distance.

        The subgraph has all layers of the design.
        """
        whole, times = self._whole, self.times(period, frames, spend)

        def of_port(layer: int, port: WordPort) -> Numbers:
            rows = times[whole.sequence(layer, port)]
            return np.ravel(rows if port.events is None else rows[:, port.events])

        for fifo in whole.design.fifos:
            written, read = whole.design.ports(fifo)
            yield of_port(fifo.producer, written), of_port(fifo.consumer, read)

    def _blank(self, length: int) -> Any:
        return np.empty(length, dtype=np.int64) if self._kernels.is_compiled else [0] * length

    def _frame(self, frame: int, spend: Spend) -> bool:
        """Compute the times of a frame; return whether an event waits for itself."""
        spend(self.events // EVENTS + 1)
        self.simulated += self.events
        status = self._kernels.kernel(event_times.advance)(
            frame, self._sequences, self._waits, self._kept, self._stack
        )
        return bool(status == event_times.STUCK)

    def _stuck(self) -> EventCycle:
        """Return the cycle of the events that wait for themselves, after `_frame` found it."""
        sequences = np.asarray(self._stack.stack[self._stack.begin : self._stack.end])
        return self._cycle(None, sequences, np.asarray(self._stack.cause)[sequences])

    def _traced(self, frame: int, period: Fraction) -> EventCycle | None:
        """Return the critical cycle of the event that grew the most in a frame, if it closes."""
        path = self._kernels.kernel(event_times.EventPath)(self.events, self._blank)
        # Following the waits backwards from an event closes the critical cycle.
        status = self._kernels.kernel(event_times.trace)(
            frame, self._sequences, self._waits, self._kept, self._growth, path
        )
        if status != event_times.CYCLE:
            return None
        cycle_period = Fraction(path.units, path.frames * period.denominator)
        of_cycle = slice(path.first, path.length)
        return self._cycle(
            cycle_period, np.asarray(path.sequence[of_cycle]), np.asarray(path.wait[of_cycle])
        )

    def _cycle(self, period: Fraction | None, sequences: Any, waits: Any) -> EventCycle:
        """Return the cycle of these steps. sequences, waits: of each step, as in EventPath."""
        whole = self._whole
        space = whole.space_of[waits]
        distinct, indices = np.unique(sequences, return_index=True)
        return EventCycle(
            period=period,
            fifos=tuple(np.unique(space[space >= 0]).tolist()),
            layers=tuple(
                dict.fromkeys(whole.owner[number] for number in distinct[np.argsort(indices)])
            ),
            infeasible=_infeasible(whole.is_passing[sequences], space, self._depths),
            is_bound=bool(whole.is_lock[waits].any()),
        )


def _infeasible(is_passing: Any, fifos: Any, depths: Sequence[int | None]) -> Infeasible:
    """Return the region of depths that a critical cycle excludes.

    is_passing: for each step of the cycle, whether it begins in a layer that forwards elements one
    by one. fifos: the FIFO whose space the step waits for, or -1. depths: the simulated depths.
    """
    outside = np.flatnonzero(~is_passing)
    # A cycle has no beginning: rotate it to a step outside a chain; without one it is a chain.
    if len(outside):
        is_passing, fifos = (np.roll(column, -int(outside[0])) for column in (is_passing, fifos))
    waits = np.flatnonzero(fifos >= 0)
    begins = np.flatnonzero(np.diff(np.cumsum(~is_passing)[waits], prepend=-1))
    lengths = np.diff(begins, append=len(waits))
    # Most chains have a single FIFO: these need no loop in Python.
    groups = [*np.unique(fifos[waits][begins[lengths == 1]]).reshape(-1, 1)]
    for begin, length in zip(begins[lengths > 1], lengths[lengths > 1], strict=True):
        groups.append(fifos[waits][begin : begin + length])
    chains = set()
    for group in groups:
        numbers, times = np.unique(group, return_counts=True)
        chains.add(tuple(zip(numbers.tolist(), times.tolist(), strict=True)))
    return Infeasible({chain: total_depth(chain, depths) or 0 for chain in sorted(chains)})


def _most_waiting(words: Numbers, writes: Numbers, reads: Numbers, period: int) -> int:
    """Return the maximum number of elements that were written but not read.

    writes, reads: times in the first frame, repeated every `period`.
    """
    iterations = max(0, -(-int(reads[-1] - writes[0]) // period)) + 1
    shifts = np.arange(-iterations, 1).astype(reads.dtype)[:, None] * period
    # Earlier frames are the same events, shifted by periods: one search in sorted times counts them.
    seen = np.searchsorted(np.ravel(reads[None, :] + shifts), writes, side="right")
    return int((words + 1 + iterations * len(reads) - seen).max())


def _frames_back(design: Design, layers: Iterable[int]) -> int:
    """Return the maximum number of frames that an inner wait of these layers reaches back."""
    reach = 0
    for cluster in (design.layers[number].cluster for number in layers):
        for wait in cluster.waits:
            first = int(np.where(wait.events == NONE, 0, wait.events).min(initial=0))
            reach = max(reach, -(first // cluster.sequences[wait.source].events))
    return reach
