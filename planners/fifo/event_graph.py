"""The event graph of a whole design as arrays, and its event times for given depths of the FIFOs.

Chains of FIFOs: a cycle of events bounds the sum of their depths.

Between two layers that pass words on one by one, a word waits as well in the FIFO before as in that
behind. A circuit of events that goes back through the space of FIFOs in a row, by way of such layers
only, therefore asks for the sum of their depths: with the same sum, or a smaller one, there is a
circuit through the same events outside the row, that takes no less. All depths with no larger a sum
in any row of a circuit that is too slow are too small, then: many more than those with no FIFO deeper.

Proof: within layers that do the same for every word, a way from one event to another goes back as many
words as the space of the FIFOs on it and as many as the layers hold, and its time is that of its waits,
whichever word it begins with. Where the way leaves the row, it meets an event of the same series; with
a smaller sum a later one, which comes no sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from csdf.analysis.components import strong_components
from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from planners.fifo.design import Design
from planners.fifo.timing.cluster import Lock, Numbers, Port, counting, is_word_by_word
from planners.kernels import event_times, ranges
from planners.kernels.event_times import NONE

Row = tuple[tuple[int, int], ...]  # FIFOs, and how often each counts


class TooSmall(NamedTuple):
    """Depths of a whole design that are too small: those where no row has more words than its limit."""

    limits: Mapping[Row, int]

    def holds(self, depths: Sequence[int | None]) -> bool:
        """Whether these depths are among them. None is a FIFO without end."""
        return all(
            (words := in_row(row, depths)) is not None and words <= limit
            for row, limit in self.limits.items()
        )


ALL_DEPTHS = TooSmall({})


def in_row(row: Row, depths: Sequence[int | None]) -> int | None:
    """Return the words of a row in these depths; None if a FIFO of it has no end."""
    words = 0
    for fifo, times in row:
        depth = depths[fifo]
        if depth is None:
            return None
        words += times * depth
    return words


def too_small(is_inside: Any, fifos: Any, depths: Sequence[int | None]) -> TooSmall:
    """Return the depths for which a circuit says that they are too small.

    is_inside: for each of its steps, in order, whether it begins in a layer that passes words on one by
    one; fifos: the FIFO whose space the step waits for, -1 for none. depths: in which it was found.
    """
    outside = np.flatnonzero(~is_inside)
    if len(outside):  # else the whole circuit is one row
        is_inside, fifos = (np.roll(one, -int(outside[0])) for one in (is_inside, fifos))
    waits = np.flatnonzero(fifos >= 0)
    group = np.cumsum(~is_inside)[waits]
    rows = {_row(one) for one in _distinct(group, fifos[waits])}
    return TooSmall({row: in_row(row, depths) or 0 for row in sorted(rows)})


def _distinct(group: Any, fifos: Any) -> list[Any]:
    """The FIFOs of each group; of groups with a single one, each only once."""
    if not len(group):
        return []
    begins = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    lengths = np.diff(begins, append=len(group))
    single = np.unique(fifos[begins[lengths == 1]])
    longer = [
        fifos[begin : begin + length]
        for begin, length in zip(begins[lengths > 1], lengths[lengths > 1], strict=True)
    ]
    return [*single.reshape(-1, 1), *longer]


def _row(fifos: Any) -> Row:
    found, times = np.unique(fifos, return_counts=True)
    return tuple(zip(found.tolist(), times.tolist(), strict=True))


FEWEST_SLOTS, MOST_SLOTS = 6, 64  # frames whose times are kept
ROOM = 12_000_000  # times that are kept, where that allows more than the fewest slots
MOST_TIMES = 1_000_000_000  # for memory
MOST_FRAMES = 3_000  # simulated, before giving up
LOOKS = (2, 4, 8, 16, 32, 64)  # frames after which a cycle is looked for; then every 64

INSIDE, WORD, SPACE, LOCK = range(4)  # kinds of waits: in a layer, and of a FIFO

Look = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """A cycle of events that wait for one another, and so cannot come faster.

    period: cycles of a frame, None for a deadlock. fifos: whose lack of space lies on it; layers:
    whose events lie on it, in the order in which they wait for one another. too_small: all depths with
    which there is a circuit that is no faster. is_bound: whether the bound of a lock lies on it, so
    that the hardware may be faster, or go on.
    """

    period: Fraction | None
    fifos: tuple[int, ...]
    layers: tuple[int, ...]
    too_small: TooSmall = ALL_DEPTHS
    is_bound: bool = False


class EventSystem:
    """A design as arrays for the kernel; depths are given with every question."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.alone: dict[int, Fraction] = {}  # periods of layers by themselves, as far as asked for
        self._tables: list[Numbers] = []
        self._length = 0
        self._known_tables: dict[int, int] = {}
        self._largest = {-1: 0}  # absolute value in each table
        self._series_of: list[int] = []  # the first series of each layer
        self._owner: list[int] = []  # the layer of each series
        waits = self._own_waits()
        for number, fifo in enumerate(design.fifos):
            written, read = design.ports(fifo)
            producer = self._series_of[fifo.producer] + written.series
            consumer = self._series_of[fifo.consumer] + read.series
            waits += [
                self._stream(consumer, read, producer, written, (WORD, number)),
                self._stream(producer, written, consumer, read, (SPACE, number)),
            ]
            if (lock := written.lock) is not None:
                locked = self._series_of[fifo.producer] + lock.series
                waits.append(self._locked(locked, lock, consumer, read, number))
        self._finish(waits)

    def _own_waits(self) -> list[tuple[int, ...]]:
        events: list[int] = []
        gaps: list[int] = []
        gap_at: list[int] = []
        waits: list[tuple[int, ...]] = []
        for number, layer in enumerate(self.design.layers):
            begin = len(events)
            self._series_of.append(begin)
            for series in layer.cluster.series:
                self._owner.append(number)
                events.append(series.events)
                gaps.append(series.gap)
                gap_at.append(self._table(series.gaps))
            for wait in layer.cluster.waits:
                source = begin + wait.source
                waits.append(
                    (
                        begin + wait.waiter, source, self._table(wait.events), 0,
                        layer.cluster.series[wait.source].events, -1, wait.delay,
                        self._table(wait.delays), INSIDE, number,
                    )
                )  # fmt: skip
        self._events, self._gap, self._gap_at = events, gaps, gap_at
        return waits

    def _stream(
        self, waiter: int, own: Port, source: int, other: Port, kind: tuple[int, int]
    ) -> tuple[int, ...]:
        """The wait of one end of a FIFO for the other; its kind is WORD or SPACE."""
        tokens = -1
        if own.events is not None:
            table = np.full(self._events[waiter], NONE, dtype=np.int64)
            table[own.events] = np.arange(own.words, dtype=np.int64)
            tokens = self._table(table)
        return (waiter, source, tokens, 0, own.words, self._table(other.events), 1, -1, *kind)

    def _locked(
        self, waiter: int, lock: Lock, source: int, other: Port, fifo: int
    ) -> tuple[int, ...]:
        """The wait of a layer that a refused word stops, for space."""
        table = np.full(self._events[waiter], NONE, dtype=np.int64)
        table[lock.events] = lock.words - lock.held
        tokens = self._table(table)
        return (
            waiter, source, tokens, 0, other.words, self._table(other.events), lock.delay, -1,
            LOCK, fifo,
        )  # fmt: skip

    def _table(self, numbers: Numbers | None) -> int:
        if numbers is None:
            return -1
        if id(numbers) in self._known_tables:
            return self._known_tables[id(numbers)]
        place = self._length
        self._tables.append(numbers)
        self._length += len(numbers)
        self._largest[place] = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
        self._known_tables[id(numbers)] = place
        return place

    def _finish(self, waits: list[tuple[int, ...]]) -> None:
        """Sort the waits by their series; inner ones come first, space last."""
        waits = sorted(waits, key=lambda wait: (wait[0], wait[8]))
        columns = [list(column) for column in zip(*waits, strict=True)] or [[] for _ in range(10)]
        waiter, *_ = columns
        pauses = [
            max(1, gap, self._largest[at]) for gap, at in zip(self._gap, self._gap_at, strict=True)
        ]
        for wait in waits:
            pauses[wait[0]] = max(pauses[wait[0]], abs(wait[6]), self._largest[wait[7]])
        self.longest = sum(
            max(1, count) * pause for count, pause in zip(self._events, pauses, strict=True)
        )
        counts = [0] * len(self._events)
        for one in waiter:
            counts[one] += 1
        numbers = np.concatenate([*self._tables, np.zeros(1, dtype=np.int64)])
        self._tables = []
        _, source, token_at, _, tokens, event_at, delay, delay_at = columns[:8]
        self._columns = (
            [0, *accumulate(counts)], source, token_at, tokens, event_at, delay, delay_at, numbers,
        )  # fmt: skip
        self.most_tokens = max(self._events, default=0) + max(self._largest.values())
        self._arrays: dict[bool, tuple[Any, ...]] = {}
        self._kind = columns[8]
        passes = [is_word_by_word(layer.cluster) for layer in self.design.layers]
        self.is_inside = np.array([passes[one] for one in self._owner], dtype=bool)
        self.space_of = np.array(
            [fifo if one >= SPACE else -1 for one, fifo in zip(columns[8], columns[9], strict=True)]
            + [-1, -1],  # the order of a series, and its beginning
            dtype=np.int64,
        )
        self.is_lock = np.array([one == LOCK for one in columns[8]] + [False, False])
        self._data = [0] * len(self.design.fifos)
        self._space: list[list[int]] = [[] for _ in self.design.fifos]
        for place, (one, fifo) in enumerate(zip(columns[8], columns[9], strict=True)):
            if one == WORD:
                self._data[fifo] = place
            elif one >= SPACE:
                self._space[fifo].append(place)

    def series_of(self, layer: int, port: Port) -> int:
        """Return the number of the series of a layer's port."""
        return self._series_of[layer] + port.series

    def arrays(self, backend: compiler.Backend) -> tuple[Any, ...]:
        """Return where the waits of series begin, their columns, and the numbers in tables."""
        if backend.is_compiled not in self._arrays:
            self._arrays[backend.is_compiled] = tuple(_array(backend, one) for one in self._columns)
        return self._arrays[backend.is_compiled]

    def restricted(self, layers: Iterable[int], depths: Sequence[int | None]) -> Restricted:
        """Return the part of the design with only these layers, in these depths."""
        return Restricted(self, sorted(set(layers)), depths)

    def components(self, depths: Sequence[int | None]) -> list[list[int]]:
        """Return groups of layers that hold each other up; all others run by themselves.

        A FIFO without a bound lets its producer run ahead; what follows cannot hold it up.
        """
        following: list[list[int]] = [[] for _ in self.design.layers]
        for fifo, depth in zip(self.design.fifos, depths, strict=True):
            following[fifo.producer].append(fifo.consumer)
            if depth is not None:
                following[fifo.consumer].append(fifo.producer)
        number = strong_components(len(following), following)
        groups: dict[int, list[int]] = {}
        for layer, component in enumerate(number):
            groups.setdefault(component, []).append(layer)
        return [group for group in groups.values() if len(group) > 1]


def _array(backend: compiler.Backend, values: Any) -> Any:
    if backend.is_compiled:
        return np.ascontiguousarray(values, dtype=np.int64)
    return [int(one) for one in values]


class Restricted:
    """Some layers of a design and the FIFOs between them; times of their events."""

    def __init__(
        self, system: EventSystem, layers: list[int], depths: Sequence[int | None]
    ) -> None:
        self._system = system
        kept = set(layers)
        design = system.design
        active = [one for one, owner in enumerate(system._owner) if owner in kept]
        self.events = sum(system._events[one] for one in active)
        base = [0] * len(system._events)
        for one, place in zip(
            active, accumulate([0, *(system._events[one] for one in active)]), strict=False
        ):
            base[one] = place
        enabled = [int(kind == INSIDE) for kind in system._kind]
        shift = [0] * len(enabled)
        back = 1
        for number, (fifo, depth) in enumerate(zip(design.fifos, depths, strict=True)):
            if fifo.producer not in kept or fifo.consumer not in kept:
                continue
            enabled[system._data[number]] = 1
            if depth is not None and depth < MOST_FRAMES * fifo.words:
                # A deeper FIFO has room for all frames that are ever simulated.
                written, _ = design.ports(fifo)
                for place in system._space[number]:
                    enabled[place] = 1
                    shift[place] = -depth
                behind = depth + (0 if written.lock is None else written.lock.held)
                back = max(back, -(-behind // fifo.words))
        self._back = max(back, system_reach(system, kept))
        self._depths = depths
        self._most_tokens = system.most_tokens - min(shift, default=0)
        self._columns = (
            active, base, enabled, shift, system._events, system._gap, system._gap_at,
        )  # fmt: skip
        self._backend: compiler.Backend = compiler.PLAIN
        self._fixed: tuple[Any, ...] = ()  # arguments of the kernels, once there is a question
        slots = max(FEWEST_SLOTS, self._back + 2, min(MOST_SLOTS, ROOM // max(1, self.events)))
        if slots * self.events > MOST_TIMES:
            raise GaveUp(
                f"{design.name}: {slots} frames of {self.events} events wait for one another; "
                f"at most {MOST_TIMES} times are kept"
            )
        self._slots = slots
        self._settled: tuple[int, Any] | None = None
        self.simulated = 0  # events so far

    def _arguments(self) -> tuple[Any, ...]:
        wait_start, source, token_at, *rest = self._system.arrays(self._backend)
        tokens, event_at, delay, delay_at, numbers = rest
        return (
            self._events, self._base, self._gap, self._gap_at, wait_start, self._enabled, source,
            token_at, self._shift, tokens, event_at, delay, delay_at, numbers,
        )  # fmt: skip

    def _begin(self, period: Fraction, frames: int) -> Any:
        """Return room for times, on the backend that holds those of so many frames."""
        system = self._system
        largest = ranges.event_times(
            frames, period.numerator, period.denominator, system.longest, self._most_tokens
        )
        backend = compiler.backend(fits=largest <= compiler.SAFE)
        if backend is not self._backend or not self._fixed:
            self._backend = backend
            (self._active, self._base, self._enabled, self._shift, self._events, self._gap,
             self._gap_at) = (_array(backend, one) for one in self._columns)  # fmt: skip
            self._scratch = [_array(backend, [0] * len(self._base)) for _ in range(5)]
            self._answer = _array(backend, [0] * 4)
            self._fixed = self._arguments()
        return self._blank(self._slots * self.events)

    @property
    def _kind(self) -> Any:
        """The numpy type of times: integers without end where they are not in 64 bits."""
        return np.int64 if self._backend.is_compiled else object

    def deadlock(self) -> Circuit | None:
        """Return the layers and FIFOs that wait for one another for ever, or None."""
        times = self._begin(Fraction(0), 1)
        stuck = self._frame(0, Fraction(0), times)
        return self._stuck() if stuck else None

    def circuit_above(self, period: Fraction, look: Look = lambda: None) -> Circuit | None:
        """Return a cycle of events that takes longer than a period, None if there is none.

        None is proved by times that repeat, a circuit by its events: both are exact.
        """
        times = self._begin(period, MOST_FRAMES)
        if self._frame(0, period, times):
            return self._stuck()
        settled = 0
        for frame in range(1, MOST_FRAMES):
            look()
            self._frame(frame, period, times)
            scaled = period.numerator
            most = self._backend.kernel(event_times.growth)(
                frame, scaled, self._slots, self.events, self._active, self._events, self._base,
                times, self._answer,
            )  # fmt: skip
            settled = settled + 1 if most == 0 and int(self._answer[2]) == 0 else 0
            if settled >= self._back:
                self._settled = frame, times
                return None
            if settled == 0 and (frame in LOOKS or frame % LOOKS[-1] == 0):
                found = self._traced(frame, period, times)
                if found is not None and found.period is not None and found.period > period:
                    return found
        raise GaveUp(f"no steady state in {MOST_FRAMES} frames of {self._system.design.name}")

    def most_held(self, number: int, period: Fraction) -> int:
        """Return a depth of a FIFO that changes nothing in the steady state that was found last."""
        if self._settled is None:
            raise AssertionError("there is a steady state only after a period that is reached")
        frame, times = self._settled
        system = self._system
        fifo = system.design.fifos[number]
        written, read = system.design.ports(fifo)
        start = system.series_of(fifo.producer, written) - written.series
        put = self._words(frame, times, start + written.series, written.events)
        taken = self._words(frame, times, system.series_of(fifo.consumer, read), read.events)
        most = _most_waiting(
            counting(fifo.words), put - period.denominator, taken, period.numerator
        )
        if (lock := written.lock) is not None:
            begun = self._words(frame, times, start + lock.series, lock.events)
            free = begun - lock.delay * period.denominator
            waiting = _most_waiting(lock.words, free, taken, period.numerator)
            most = max(most, waiting - lock.held)
        return most

    def _words(self, frame: int, times: Any, series: int, events: Numbers | None) -> Numbers:
        begin = frame % self._slots * self.events + int(self._base[series])
        found = np.asarray(times[begin : begin + int(self._events[series])], dtype=self._kind)
        return found if events is None else found[events]

    def times(self, period: Fraction, frames: int) -> dict[int, Numbers]:
        """Return when the events of each series happen, a row a frame, at the distance of a period."""
        times = self._begin(period, frames)
        for frame in range(frames):
            if self._frame(frame, period, times):
                raise GaveUp(f"{self._system.design.name} deadlocks in these depths")
        table = np.asarray(times, dtype=self._kind).reshape(self._slots, self.events)
        return {
            int(one): table[
                :frames, int(self._base[one]) : int(self._base[one] + self._events[one])
            ]
            // period.denominator
            for one in self._active
        }

    def _blank(self, length: int) -> Any:
        if self._backend.is_compiled:
            return np.empty(length, dtype=np.int64)
        return [0] * length

    def _frame(self, frame: int, period: Fraction, times: Any) -> bool:
        self.simulated += self.events
        status = self._backend.kernel(event_times.advance)(
            frame, period.numerator, period.denominator, self._slots, self.events, self._active,
            *self._fixed, times, *self._scratch, self._answer,
        )  # fmt: skip
        return bool(status == event_times.STUCK)

    def _stuck(self) -> Circuit:
        begin, end = int(self._answer[0]), int(self._answer[1])
        stack, cause = self._scratch[1], self._scratch[4]
        series = [int(stack[place]) for place in range(begin, end)]
        waits = [int(cause[one]) for one in series]
        return self._circuit(None, np.array(series), np.array(waits))

    def _traced(self, frame: int, period: Fraction, times: Any) -> Circuit | None:
        place = int(self._answer[0]), int(self._answer[1])
        way = [self._blank(self.events + 1) for _ in range(4)]
        met = _array(self._backend, [-1] * self.events)
        status = self._backend.kernel(event_times.trace)(
            frame, period.denominator, self._slots, self.events, *self._fixed, times, *place,
            met, *way, self._answer,
        )  # fmt: skip
        if status != event_times.CYCLE:
            return None
        length, first, frames, units = (int(one) for one in self._answer)
        period_found = Fraction(units, frames * period.denominator)
        series, wait = np.asarray(way[0][first:length]), np.asarray(way[3][first:length])
        return self._circuit(period_found, series, wait)

    def _circuit(self, period: Fraction | None, series: Any, waits: Any) -> Circuit:
        """The circuit of some steps: series and the wait of each, by numbers; the order is -1."""
        own = self._system
        space = own.space_of[waits]
        found, places = np.unique(series, return_index=True)
        layers = dict.fromkeys(own._owner[one] for one in found[np.argsort(places)])
        return Circuit(
            period=period,
            fifos=tuple(np.unique(space[space >= 0]).tolist()),
            layers=tuple(layers),
            too_small=too_small(own.is_inside[series], space, self._depths),
            is_bound=bool(own.is_lock[waits].any()),
        )


def _most_waiting(words: Numbers, put: Numbers, taken: Numbers, period: int) -> int:
    """Return the most words up to one of `words` that are not taken when that is put.

    put, taken: when, once every `period`.
    """
    behind = max(0, -(-int(taken[-1] - put[0]) // period)) + 1
    shifts = np.arange(-behind, 1).astype(taken.dtype)[:, None] * period
    seen = np.searchsorted(np.ravel(taken[None, :] + shifts), put, side="right")
    return int((words + 1 + behind * len(taken) - seen).max())


def system_reach(system: EventSystem, kept: set[int]) -> int:
    """How many frames back the inner waits of these layers look, at most."""
    reach = 0
    for number in kept:
        for wait in system.design.layers[number].cluster.waits:
            used = wait.events[wait.events != NONE]
            source = system.design.layers[number].cluster.series[wait.source].events
            if len(used):
                reach = max(reach, -(int(used.min()) // source))
    return reach
