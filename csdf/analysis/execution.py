"""Self-timed execution: what happens when every actor fires as soon as it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, count, pairwise
from typing import Any, NamedTuple

from csdf.analysis.cause_record import CauseRecord, blank_record
from csdf.analysis.growth import Times
from csdf.errors import GaveUp, NoRecurrence
from csdf.kernels import compile as compiler
from csdf.kernels import ranges, self_timed
from csdf.model.indexed import IndexedGraph
from csdf.outcome import Why, because
from csdf.stopping import Budget, stop_of

FUEL = 1_000_000  # ports of firings between two looks at the clock and the keyboard,
PLAIN_FUEL = 5_000  # or so many where they are not compiled
ITERATION_BITS = 20  # compiled code executes so many iterations, as a power of two, or more


class ExecutionWhy(Why):
    """Why an execution ended before a state recurred, or was not begun."""

    TOO_LONG = "{firings} firings an iteration; at most {most}"
    TIMES = "times pass {most} after {iterations} iterations"
    NO_RECURRENCE = "no state recurred in {iterations} iterations"
    MEMORY = (
        "no state recurred in {iterations} iterations, of which {remembered} bytes were remembered"
    )


class _Rings(NamedTuple):
    """The tokens in each channel, in arrays of the kernel's kind: see `self_timed.Queues`."""

    start: Any
    size: Any
    head: Any
    length: Any
    counts: Any  # of each batch of tokens
    times: Any
    tokens: Any
    last_time: Any
    needed: Any


def fits(graph: IndexedGraph, firings: Sequence[int]) -> bool:
    """Whether 64 bits hold the tokens and times of very many iterations of so many firings."""
    time = ranges.iteration_time(graph, firings) << ITERATION_BITS
    return max(time, ranges.execution(graph, firings)) <= compiler.SAFE


class Execution:
    """A graph that is being executed, iteration by iteration.

    graph: without capacities; firings: of each actor in one iteration. The queues live in kernel
    arrays, compiled code or not; it makes no difference to the result.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        firings: Sequence[int],
        *,
        budget: Budget = None,
    ) -> None:
        self._stop = stop_of(budget)
        self._graph = graph
        self._firings = list(firings)
        self._iteration_time = ranges.iteration_time(graph, firings)
        self._backend = compiler.backend(fits=fits(graph, firings))
        least = FUEL if self._backend.is_compiled else PLAIN_FUEL
        # Firings of actors with many ports take longer; and each call looks at every actor first.
        ports = sum(firings[actor] for side in (graph.producer, graph.consumer) for actor in side)
        self._fuel = max(least * sum(firings) // max(ports, 1), len(self._firings))
        self.iterations = 0
        make = self._backend.kernel
        self._wiring = make(self_timed.Wiring)(graph, self._backend.array)
        self._actors = make(self_timed.Actors)(len(graph.phases), self._backend.blank)
        sizes = [min(max(4, firings[actor] + 2), 256) for actor in graph.producer]
        batches = [[(count, 0)] if count else [] for count in graph.initial_tokens]
        tokens = self._backend.array(graph.initial_tokens)
        blank = self._backend.blank
        self._lay_out(sizes, batches, (tokens, blank(len(sizes)), blank(len(sizes))))
        make(self_timed.begin)(self._wiring, self._queues, self._actors)

    def _lay_out(
        self, sizes: list[int], batches: list[list[tuple[int, int]]], channels: tuple[Any, ...]
    ) -> None:
        """Take rings of these sizes, which hold these batches of tokens and their times.

        channels: what else the kernel knows of each, the last columns of the rings.
        """
        starts = [0, *accumulate(sizes)]
        counts, times = [0] * starts[-1], [0] * starts[-1]
        for start, queue in zip(starts, batches, strict=False):
            for i, (held, time) in enumerate(queue):
                counts[start + i], times[start + i] = held, time
        columns = starts[:-1], sizes, [0] * len(sizes), map(len, batches), counts, times
        arrays = map(self._backend.array, columns)
        self._rings = _Rings._make((*arrays, *channels))
        self._queues = self._backend.kernel(self_timed.Queues)(self._rings)

    def _batches(self, channel: int) -> list[tuple[int, int]]:
        rings = self._rings
        start, size, head = rings.start[channel], rings.size[channel], rings.head[channel]
        at = [start + (head + i) % size for i in range(rings.length[channel])]
        return [(rings.counts[i], rings.times[i]) for i in at]

    def _grow(self, full: int) -> None:
        """Give every ring that is at least half full four times its room."""
        batches = [self._batches(channel) for channel in range(len(self._rings.size))]
        sizes = [
            size * 4 if channel == full or 2 * len(batches[channel]) > size else size
            for channel, size in enumerate(self._rings.size)
        ]
        self._lay_out(sizes, batches, self._rings[-3:])

    def recorded(self, iterations: int) -> Any:
        """Carry out so many iterations; return the start times, or None in a deadlock.

        The times stand actor by actor, firing by firing, in one array of the kernel's kind.
        Raises NoRecurrence where times would leave 64 bits.
        """
        per_actor = [count * iterations for count in self._firings]
        record = self._backend.blank(sum(per_actor))
        self._actors.record_at = self._backend.array([0, *accumulate(per_actor)][:-1])
        self._actors.record = record
        self._actors.cause_bits = self._backend.blank(len(per_actor))
        return record if self._advanced(iterations) else None

    def caused(self, iterations: int) -> CauseRecord | None:
        """Carry out so many iterations; return what decided the starts, or None in a deadlock.

        Raises NoRecurrence where times would leave 64 bits.
        """
        self._record_to(blank_record(self._graph, [0] * len(self._firings), self._backend))
        firings = [count * iterations for count in self._firings]
        record = blank_record(self._graph, firings, self._backend)
        self._record_to(record)
        return record if self._advanced(iterations) else None

    def _record_to(self, record: CauseRecord) -> None:
        actors, array = self._actors, self._backend.array
        actors.causes, actors.record = record.causes, record.record
        actors.cause_bits, actors.cause_at = array(record.cause_bits), array(record.cause_start)
        actors.cause_shift = self._backend.blank(len(record.cause_bits))
        actors.record_at = array(record.record_start)

    def _advanced(self, iterations: int) -> bool:
        """Carry out so many iterations; False if they get stuck in a deadlock."""
        return all(self._advance() for _ in range(iterations))

    def _advance(self) -> bool:
        """Carry out one more iteration; False if it gets stuck in a deadlock."""
        if (
            self._backend.is_compiled
            and (self.iterations + 1) * self._iteration_time > compiler.SAFE
        ):
            raise NoRecurrence(
                because(ExecutionWhy.TIMES, most=compiler.SAFE, iterations=self.iterations)
            )
        run = self._backend.kernel(self_timed.advance)
        self._actors.quota = self._backend.array(self._firings)
        self._stop.look()
        while True:
            status = run(self._wiring, self._queues, self._actors, self._fuel)
            if status == self_timed.FULL:
                self._grow(self._queues.full)
            elif status == self_timed.PAUSED:
                self._stop.look()
            else:
                break
        self.iterations += 1
        return bool(status == self_timed.DONE)

    @property
    def now(self) -> int:
        """Start of the latest firing of the first actor: a clock to compare states by."""
        return int(self._actors.latest_start[0])

    def times(self) -> Times:
        """All times that the future depends on: of starts, of the newest tokens, of all tokens."""
        starts = [[(1, start)] for start in self._actors.latest_start]
        newest = [[(1, time)] for time in self._rings.last_time]
        return [*starts, *newest, *map(self._batches, range(len(newest)))]

    def state(self) -> bytes | tuple[int, ...]:
        """Everything the future depends on, times relative to `now`."""
        run = self._backend.kernel(self_timed.pack_state)
        length = run(self._queues, self._actors, self.now, self._backend.array([]))
        packed = self._backend.blank(length)
        run(self._queues, self._actors, self.now, packed)
        return packed.tobytes() if self._backend.is_compiled else tuple(packed)


def first_starts(
    graph: IndexedGraph,
    repetitions: Mapping[str, int],
    iterations: int,
    *,
    budget: Budget = None,
) -> dict[str, tuple[int, ...]]:
    """Return the start times of the first iterations, actor by actor, of a graph without deadlock.

    Raises NoRecurrence where times would leave 64 bits, GaveUp where the budget ends.
    """
    firings = list(repetitions.values())
    record = Execution(graph, firings, budget=budget).recorded(iterations)
    if record is None:
        raise GaveUp("a graph without deadlock got stuck")
    begins = accumulate((count * iterations for count in firings), initial=0)
    return {
        name: tuple(int(start) for start in record[begin:end])
        for name, (begin, end) in zip(repetitions, pairwise(begins), strict=True)
    }


def repeated(starts: Sequence[int], *, transient: int, period: int) -> Iterator[int]:
    """Yield the start times of one actor for ever: as listed, then the steady part again and again.

    transient: how many of the listed firings come before the steady part, which lasts `period`.
    """
    yield from starts
    for later in count(period, period):
        yield from (start + later for start in starts[transient:])
