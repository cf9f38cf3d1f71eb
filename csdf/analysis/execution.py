"""Self-timed execution iteration by iteration, until a state recurs; Collatz-Wielandt bounds.

A state is a vector of times: of each token, and of each actor's latest start. An iteration maps a state
to the next. The map is monotone, and adding t to all times adds t to the next state. So if every time
grows by at least l in n iterations, it grows by at least l in every further n iterations: the period is
at least l / n, and likewise at most the largest growth divided by n. In a strongly connected graph both
bounds converge to the period.

Source: Cochet-Terrasson, Gaubert, Gunawardena, A constructive fixed point theorem for min-max
functions, Dynamics and Stability of Systems 14(4), 1999 (bounds of Collatz and Wielandt's kind).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, count, pairwise
from typing import Any, NamedTuple

from csdf.errors import GaveUp, NoRecurrence
from csdf.kernels import compile as compiler
from csdf.kernels import ranges, self_timed
from csdf.model.indexed import IndexedGraph, is_ordered
from csdf.status import Why, because
from csdf.time_limit import Budget, stop_of

# Ports of firings between two looks at the stop, with compiled kernels and without.
FUEL = 1_000_000
PLAIN_FUEL = 5_000
ITERATION_BITS = 20  # compiled code executes at least 2 ** ITERATION_BITS iterations


class ExecutionWhy(Why):
    """Why an execution ended before a state recurred, or was not begun."""

    TOO_LONG = "{firings} firings per iteration; at most {most}"
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
    """Whether 64 bits hold the tokens and times of at least 2 ** ITERATION_BITS iterations."""
    time = ranges.sequential_time(graph, firings) << ITERATION_BITS
    return max(time, ranges.largest_in_execution(graph, firings)) <= compiler.INT64_SUM_LIMIT


class Execution:
    """A self-timed execution of a graph, iteration by iteration.

    graph: without capacities; firings: of each actor in one iteration.
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
        self._iteration_time = ranges.sequential_time(graph, firings)
        self._backend = compiler.backend(fits=fits(graph, firings))
        minimum = FUEL if self._backend.is_compiled else PLAIN_FUEL
        # Firings of actors with many ports take longer; each call visits every actor first.
        ports = sum(firings[actor] for side in (graph.producer, graph.consumer) for actor in side)
        self._fuel = max(minimum * sum(firings) // max(ports, 1), len(self._firings))
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
        """Allocate rings of these sizes and fill them with batches: (tokens, time).

        channels: the last columns of the rings: tokens, last_time, needed.
        """
        starts = [0, *accumulate(sizes)]
        # A ring that grows moves to the free room at the end, which is as large as all rings. So
        # all rings are moved only after growth in proportion to their size.
        self._free = starts[-1]
        counts, times = [0] * (2 * self._free), [0] * (2 * self._free)
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
        """Move the rings that one firing filled to free room of four times their size.

        full: one of these channels. If the free room is too small, all rings are allocated again, and
        rings that are more than half full grow too.
        """
        rings, graph = self._rings, self._graph
        actor = graph.producer[full]
        outputs = graph.output_channel[graph.output_start[actor] : graph.output_start[actor + 1]]
        grown = [output for output in outputs if rings.length[output] == rings.size[output]]
        if self._free + 4 * sum(rings.size[output] for output in grown) > len(rings.times):
            batches = [self._batches(channel) for channel in range(len(rings.size))]
            sizes = [
                size * 4 if 2 * len(queue) > size else size
                for queue, size in zip(batches, rings.size, strict=True)
            ]
            self._lay_out(sizes, batches, rings[-3:])
            return
        for channel in grown:
            for at, (held, time) in enumerate(self._batches(channel), start=self._free):
                rings.counts[at], rings.times[at] = held, time
            size = 4 * rings.size[channel]
            rings.start[channel], rings.size[channel], rings.head[channel] = self._free, size, 0
            self._free += size
        self._queues = self._backend.kernel(self_timed.Queues)(rings)

    def recorded(self, iterations: int) -> Any:
        """Execute this many iterations; return the start times, or None for a deadlock.

        The times are in one array of the kernel's kind, actor by actor, firing by firing. Raises
        NoRecurrence if times exceed 64 bits.
        """
        per_actor = [count * iterations for count in self._firings]
        record = self._backend.blank(sum(per_actor))
        self._actors.record_at = self._backend.array([0, *accumulate(per_actor)][:-1])
        self._actors.record = record
        self._actors.cause_bits = self._backend.blank(len(per_actor))
        return record if all(self._advance() for _ in range(iterations)) else None

    def caused(self, iterations: int) -> CauseRecord | None:
        """Execute this many iterations; return the causes of the starts, or None for a deadlock.

        Raises NoRecurrence if times exceed 64 bits.
        """
        self._record_to(blank_record(self._graph, [0] * len(self._firings), self._backend))
        firings = [count * iterations for count in self._firings]
        record = blank_record(self._graph, firings, self._backend)
        self._record_to(record)
        return record if all(self._advance() for _ in range(iterations)) else None

    def _record_to(self, record: CauseRecord) -> None:
        actors, array = self._actors, self._backend.array
        actors.causes, actors.record = record.causes, record.record
        actors.cause_bits, actors.cause_at = array(record.cause_bits), array(record.cause_start)
        actors.cause_shift = self._backend.blank(len(record.cause_bits))
        actors.record_at = array(record.record_start)

    def _advance(self) -> bool:
        """Execute one more iteration; return False for a deadlock."""
        if (
            self._backend.is_compiled
            and (self.iterations + 1) * self._iteration_time > compiler.INT64_SUM_LIMIT
        ):
            raise NoRecurrence(
                because(
                    ExecutionWhy.TIMES, most=compiler.INT64_SUM_LIMIT, iterations=self.iterations
                )
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
        """Start of the latest firing of the first actor, the origin of times in states."""
        return int(self._actors.latest_start[0])

    def times(self) -> Times:
        """Return all times of the state: of starts, of the newest tokens, of all tokens."""
        starts = [[(1, start)] for start in self._actors.latest_start]
        newest = [[(1, time)] for time in self._rings.last_time]
        return [*starts, *newest, *map(self._batches, range(len(newest)))]

    def state(self) -> bytes | tuple[int, ...]:
        """Return the state, with times relative to `now`."""
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

    Raises NoRecurrence if times exceed 64 bits, GaveUp if the budget ends.
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
    """Yield the infinite start times of one actor: the listed starts, then the steady part repeated.

    transient: number of listed firings before the steady part, which repeats with `period`.
    """
    yield from starts
    for later in count(period, period):
        yield from (start + later for start in starts[transient:])


Times = Sequence[Sequence[tuple[int, int]]]  # of each queue, its runs of equal times: length, time


def growth_bounds(before: Times, after: Times, iterations: int) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound of the period from states this many iterations apart."""
    grown = [
        growth
        for earlier, later in zip(before, after, strict=True)
        for growth in _growths(earlier, later)
    ]
    return Fraction(min(grown), iterations), Fraction(max(grown), iterations)


def _growths(earlier: Sequence[tuple[int, int]], later: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the growth of the times of a queue, once for each run of equal growth."""
    earlier_runs, later_runs = iter(earlier), iter(later)
    earlier_left = later_left = earlier_time = later_time = 0
    while True:
        if not earlier_left:
            earlier_left, earlier_time = next(earlier_runs, (0, 0))
        if not later_left:
            later_left, later_time = next(later_runs, (0, 0))
        shared = min(earlier_left, later_left)
        if not shared:
            return
        yield later_time - earlier_time
        earlier_left, later_left = earlier_left - shared, later_left - shared


class CauseRecord(NamedTuple):
    """The causes of starts, as the kernel writes them: see `self_timed.Actors`.

    Start times are recorded for actors whose firings may overtake each other; if there are any, also
    for the first actor.
    """

    firings: list[int]  # (A,) recorded of each actor
    cause_bits: list[int]  # (A,)
    per_word: list[int]  # (A,) causes in a word
    cause_start: list[int]  # (A,) first word
    causes: Any
    record_start: list[int]  # (A,) first start time, or self_timed.NOWHERE
    record: Any


def blank_record(
    graph: IndexedGraph, firings: Sequence[int], backend: compiler.Backend
) -> CauseRecord:
    """Return a record for the causes of this many firings of each actor, in arrays of the backend."""
    actors = range(len(graph.phases))
    ports = [graph.input_start[actor + 1] - graph.input_start[actor] for actor in actors]
    bits = [max(1, count.bit_length()) for count in ports]
    per_word = [self_timed.WORD_BITS // bit_width for bit_width in bits]
    words = [-(-count // capacity) for count, capacity in zip(firings, per_word, strict=True)]
    overtaking = [not is_ordered(graph, actor) for actor in actors]
    has_overtaking = any(overtaking)
    listed = [has_overtaking and (actor == 0 or overtaking[actor]) for actor in actors]
    starts = [count if is_listed else 0 for count, is_listed in zip(firings, listed, strict=True)]
    begins = accumulate(starts, initial=0)
    return CauseRecord(
        firings=list(firings),
        cause_bits=bits,
        per_word=per_word,
        cause_start=[0, *accumulate(words)][:-1],
        causes=backend.blank(sum(words)),
        record_start=[
            begin if is_listed else self_timed.NOWHERE
            for begin, is_listed in zip(begins, listed, strict=False)
        ],
        record=backend.blank(sum(starts)),
    )


REMEMBERED_BYTES = 150  # of an iteration: hash of its state, number, entry of the dictionary
MOST_REMEMBERED = 2**30 // REMEMBERED_BYTES  # iterations


class SteadyState(NamedTuple):
    """The recurrence of the execution of a graph, in whole iterations."""

    transient: int  # iterations before the first state that recurs
    iterations: int  # iterations until it recurs
    time: int  # time units until it recurs
    causes: CauseRecord  # of the starts in that many iterations of the steady part

    @property
    def period(self) -> Fraction:
        """Time of one iteration, in the long run."""
        return Fraction(self.time, self.iterations)


def steady_state(
    graph: IndexedGraph,
    firings: Sequence[int],
    *,
    limit: int | None = None,
    budget: Budget = None,
    on_bounds: Callable[[Fraction, Fraction], None] = lambda _low, _high: None,
) -> SteadyState | None:
    """Execute until a state recurs; None if the graph deadlocks.

    graph: without capacities. States are compared after whole iterations. In a strongly connected graph
    a state always recurs; in another graph only if no part runs ahead without bound.
    on_bounds: called with lower and upper bounds of the period during the search. limit: maximum number
    of iterations. Raises NoRecurrence at the limit, or if the memory for states is used up; GaveUp if
    the budget ends.
    """
    execution = Execution(graph, firings, budget=budget)
    # Only hashes of states are stored: a state of 100,000 actors has megabytes. If a hash recurs, the
    # iterations since then are executed again, and the two states are compared.
    seen: dict[int, int] = {}
    told, earlier = 0, execution.times()
    while limit is None or execution.iterations < limit:
        causes = None  # frees its memory for the next record
        causes = execution.caused(1)
        if causes is None:
            return None
        if execution.iterations >= 2 * told:
            later = execution.times()
            on_bounds(*growth_bounds(earlier, later, execution.iterations - told))
            told, earlier = execution.iterations, later
        state, begin = execution.state(), execution.now
        number = hash(state)
        if number in seen:
            transient = seen[number]
            iterations = execution.iterations - transient
            causes = execution.caused(iterations)
            if causes is None:
                raise AssertionError("a steady part does not deadlock")
            if execution.state() == state:
                time = execution.now - begin
                return SteadyState(
                    transient=transient, iterations=iterations, time=time, causes=causes
                )
            continue
        seen[number] = execution.iterations
        if len(seen) > MOST_REMEMBERED:
            remembered = len(seen) * REMEMBERED_BYTES
            raise NoRecurrence(
                because(ExecutionWhy.MEMORY, iterations=execution.iterations, remembered=remembered)
            )
    raise NoRecurrence(because(ExecutionWhy.NO_RECURRENCE, iterations=limit))


def recurrence(
    graph: IndexedGraph,
    firings: Sequence[int],
    *,
    limit: int,
    budget: Budget = None,
) -> SteadyState | None:
    """Return the steady part of a live graph, or None if no state recurs within this many iterations.

    Raises GaveUp if the budget ends.
    """
    try:
        return steady_state(graph, firings, limit=limit, budget=budget)
    except NoRecurrence:
        return None
