"""Simulation of a call of an HLS design at given depths: cycles, longest path, and deadlocks.

The FIFOs of an array of streams have one depth in the source; such a *group* of FIFOs shares one entry
of the depths. More depth may be slower in one case: a deep FIFO is a memory, whose words are read 2
cycles after they are written; in a shallow FIFO, a shift register, they are read after 1 (`is_memory`).
If a call fixes which groups are memories whatever their depths, more depth is never slower. Lower
bounds on the cycles are those of a call in which no group is a memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from csdf.kernels import compile as compiler
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.event_graph import Spend, spend_nothing
from planners.fifo.hls.pipelines import Event, Repeat, StagedDesign, Track
from planners.fifo.timing.cluster import Numbers
from planners.kernels import ranges, stage_times
from planners.kernels.stage_times import BEGIN, END, EVENT, NOWHERE, STOP, WRITE

# Vitis HLS builds a FIFO as a shift register up to 2 words, or up to 1024 bits.
SHIFTED = 2
SHIFTED_BITS = 1024
# Widths and depths that a block RAM of 18 kbit can have.
BLOCK_RAM_RATIOS = ((18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))
# Bits of a set of groups in the kernel. Further groups share a bit: reasons are weaker, not wrong.
SETS = 62
SNAPSHOT_SHARE = 16  # minimum number of events of a call for each word in a snapshot
# Effort of a call in microseconds of a usual machine: least squares over 64 calls of 16 designs, which
# take from 0.6 to 1.5 times of it each.
CALL_EFFORT = 100
FIFOS, EVENTS, WORDS = 2, 24, 32  # FIFOs, stages timed and words kept in a microsecond
MANY = 4000  # stages of a call from which on recurring states are detected and skipped
ROOM = 1 << 20  # latest waits that are recorded for the critical path
Depths = Sequence[int | None]
Sizes = tuple[int, ...]
WordTimes = tuple[Numbers, Numbers]  # of the writes and of the reads of a FIFO
Memories = Sequence[bool] | None


def is_memory(depth: int, bits: int, kind: str) -> bool:
    """Whether a FIFO is a memory, by its depth or by the kind that the source requests."""
    if kind:
        return kind != "srl"
    return depth > SHIFTED and depth * bits > SHIFTED_BITS


def cost(depth: int, bits: int, kind: str, objective: str) -> int:
    """Return what a FIFO costs: bits, elements, block RAMs of 18 kbit (bram), or LUTs (lut).

    Block RAMs as FIFOAdvisor and LightningSim count them (arXiv 2510.20981): widths are cut into the
    widest slices that a block RAM has. Kinds of BIND_STORAGE that are no block RAM cost none. LUTs are
    those of shift registers of 32 words (UltraScale+), whatever the depth, or of memories of 64.
    """
    if objective == "bits":
        return depth * bits
    if objective == "elements":
        return depth
    if objective == "bram":
        is_block = is_memory(depth, bits, kind) and kind in ("", "bram", "memory")
        return block_rams(depth, bits) if is_block else 0
    return -(-depth // (64 if kind == "lutram" else 32)) * bits


def block_rams(depth: int, bits: int) -> int:
    """Return the block RAMs of 18 kbit of a FIFO in memory."""
    # Greedy slicing of the width: the widest aspect ratio of a block RAM first.
    count, remainder = 0, bits
    for width, words in BLOCK_RAM_RATIOS:
        if width == 4 and depth <= words and bits > 18 and remainder == 3:
            return count + 2  # an exception in the count of LightningSim
        count, remainder = count + remainder // width * -(-depth // words), remainder % width
        if depth <= words:
            return count + (remainder > 0)
    return count


class ProcessWait(NamedTuple):
    """A process waits for a FIFO, or for the end of another process where `fifo` is None."""

    process: int
    fifo: int | None
    is_writing: bool


class TimedWait(NamedTuple):
    """A wait on the critical path, and the time at which it ended."""

    wait: ProcessWait
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one call in some depths.

    cycles: None for a deadlock, whose cycle is in `blocked`. holding: groups of full FIFOs on the
    longest path or the cycle; the call gets faster only if one of them gets deeper. slowed: groups
    that are memories whose latency is on that path. processes: the processes on it. full: groups in
    which a write waited. path: the last waits of the longest path, latest first, if requested.
    """

    cycles: int | None
    holding: tuple[int, ...]
    slowed: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    blocked: tuple[ProcessWait, ...] = ()
    full: tuple[int, ...] = ()
    path: tuple[TimedWait, ...] = ()


class _CallRun(NamedTuple):
    """A simulated call, as objects of the kernel `stage_times`, and its status."""

    progress: Any
    fifos: Any
    records: Any
    status: int


class CallModel:
    """A design as arrays for the kernel.

    A group is a set of FIFOs with one depth, by default an array of streams. names, words: of each
    group; members, fifos: the FIFOs of each group, by number in the design, and themselves.
    """

    def __init__(self, design: StagedDesign, *, is_grouped: bool = True) -> None:
        self.design = design
        groups: dict[tuple[str, int], list[int]] = {}  # by name and line of the declaration
        for number, fifo in enumerate(design.fifos):
            name = fifo.group if is_grouped else fifo.name
            groups.setdefault((name, fifo.line if is_grouped else number), []).append(number)
        often = Counter(name for name, _ in groups)
        self.names = [name if often[name] == 1 else f"{name} ({line})" for name, line in groups]
        self.members = list(groups.values())
        self.group_of = [0] * len(design.fifos)
        for group, members in enumerate(self.members):
            for member in members:
                self.group_of[member] = group
        self.fifos = [[design.fifos[member] for member in members] for members in self.members]
        self.words = [max(fifo.words for fifo in fifos) for fifos in self.fifos]
        self.events = sum(events(track) for process in design.processes for track in process.tracks)
        self.simulated = 0
        alike = _alike(design, self.group_of)
        self._is_first = [alike[number] == number for number in range(len(design.fifos))]
        self._columns = _columns(design, self.group_of, self._is_first)
        self._program_sizes = (
            len(design.processes), len(self._columns.first), len(self._columns.operation),
        )  # fmt: skip
        self._programs: dict[bool, Any] = {}
        self._largest = ranges.stage_times(
            [process.stages for process in design.processes], self.events
        )

    @property
    def source_depths(self) -> Sizes:
        """The depths in the source; of an array the largest."""
        return tuple(max(fifo.depth for fifo in fifos) for fifos in self.fifos)

    @property
    def fixed_memories(self) -> tuple[bool, ...]:
        """Which groups are memories at any depth, as the source binds all their FIFOs to memories."""
        return tuple(all(fifo.kind not in ("", "srl") for fifo in fifos) for fifos in self.fifos)

    def memories(self, depths: Sequence[int]) -> tuple[bool, ...]:
        """Which groups are memories at these depths: those with a FIFO that is a memory."""
        return tuple(
            any(is_memory(depth, fifo.bits, fifo.kind) for fifo in fifos)
            for depth, fifos in zip(depths, self.fifos, strict=True)
        )

    def first_memory(self, group: int) -> int:
        """The minimum depth at which a group is a memory; beyond its words if it never is."""
        fifos = self.fifos[group]
        if any(fifo.kind not in ("", "srl") for fifo in fifos):
            return 0
        depths = [max(SHIFTED, SHIFTED_BITS // fifo.bits) + 1 for fifo in fifos if not fifo.kind]
        return min(depths, default=max(self.words) + LEAST_DEPTH)

    def price(self, group: int, depth: int, objective: str) -> int:
        """Return the cost of a group of FIFOs in bits, elements, block RAMs (bram) or LUTs (lut)."""
        return sum(cost(depth, fifo.bits, fifo.kind, objective) for fifo in self.fifos[group])

    def outcome(
        self,
        depths: Depths,
        *,
        memories: Memories = None,
        limit: int | None = None,
        has_path: bool = False,
        spend: Spend = spend_nothing,
    ) -> Outcome:
        """Return the outcome of one call.

        depths: None is an unbounded FIFO, by default a memory. memories: which groups are memories;
        by default their depths decide. limit: cycles after which the outcome may be a lower bound
        above the limit, with the reasons for it.
        """
        call = self._run(depths, memories, has_path=has_path, spend=spend, limit=limit)
        run = call.progress
        was_full = enumerate(run.words.was_full)
        full = tuple(sorted({self.group_of[number] for number, waited in was_full if waited}))
        if call.status == stage_times.STUCK:
            blocked = self._deadlock(run)
            on_cycle = {
                self.group_of[step.fifo]
                for step in blocked
                if step.is_writing and step.fifo is not None
            }
            return Outcome(
                cycles=None, holding=tuple(sorted(on_cycle)), blocked=blocked, full=full,
                processes=tuple(step.process for step in blocked),
            )  # fmt: skip
        ends = list(run.end)
        last = max(range(len(ends)), key=ends.__getitem__)
        cycles = ends[last]
        # The limit was passed: the remaining stages of that process bound its end from below.
        if call.status == stage_times.LATE:
            last = run.late
            stages = self.design.processes[last].stages
            cycles = run.last.time[last] + stages - run.stage[last]
        return Outcome(
            cycles=cycles,
            holding=self._bits(run.last.space[last], len(self.members)),
            slowed=self._bits(run.last.memory[last], len(self.members)),
            processes=self._bits(run.last.process[last], len(ends)),
            full=full,
            path=_path(call.records, run.last.record[last]) if has_path else (),
        )

    def occupancy(
        self, depths: Depths, group: int, memories: Memories = None, *, spend: Spend = spend_nothing
    ) -> int:
        """Return the depth from which on no write to a group waits, at these depths elsewhere."""
        unbounded = [*depths[:group], None, *depths[group + 1 :]]
        return self._max_occupancies([group], unbounded, memories, spend)[0]

    def occupancies(self, memories: Memories = None, *, spend: Spend = spend_nothing) -> Sizes:
        """Return by group the maximum occupancy of its FIFOs when they are unbounded.

        In a deadlock it is all words of the group.
        """
        unbounded = [None] * len(self.members)
        return self._max_occupancies(range(len(self.members)), unbounded, memories, spend)

    def _max_occupancies(
        self, groups: Iterable[int], depths: Depths, memories: Memories, spend: Spend
    ) -> Sizes:
        """The maximum occupancy of the FIFOs of each of these groups, which are unbounded."""
        call = self._run(depths, memories, has_all_events=True, spend=spend)
        if call.status != stage_times.DONE:
            return tuple(self.words[group] for group in groups)
        return tuple(max(map(_max_occupancy, self._word_times(call, group))) for group in groups)

    def _word_times(self, call: _CallRun, group: int) -> list[WordTimes]:
        """Return the times of the words of the FIFOs of a group; equal lanes count once."""
        simulated = (fifo for fifo in self.members[group] if self._is_first[fifo])
        return [_times_of_words(call, fifo) for fifo in simulated]

    def word_times(self, depths: Sequence[int]) -> tuple[list[WordTimes], int] | None:
        """Return by group the times of its writes and reads, and the cycles; None for a deadlock.

        For an array of streams they are those of the FIFO with the maximum occupancy.
        """
        call = self._run(depths, has_all_events=True, has_all_words=True)
        if call.status != stage_times.DONE:
            return None
        times = [
            max(self._word_times(call, group), key=_max_occupancy)
            for group in range(len(self.members))
        ]
        return times, max(call.progress.end)

    def _run(
        self,
        depths: Depths,
        memories: Memories = None,
        *,
        has_path: bool = False,
        has_all_events: bool = False,
        has_all_words: bool = False,
        spend: Spend = spend_nothing,
        limit: int | None = None,
    ) -> _CallRun:
        """Simulate a call. has_path: record the waits of the longest path.

        has_all_events: skip no repeated states. has_all_words: keep the times of all words of the call.
        """
        backend = compiler.backend(fits=self._largest <= compiler.INT64_SUM_LIMIT)
        make, array, blank = backend.kernel, backend.array, backend.blank
        columns = self._fifo_columns(depths, memories, has_all_words=has_all_words)
        room = min(ROOM, self.events + len(self.design.processes) + 1) if has_path else 0
        fifos = make(stage_times.Fifos)(columns, array)
        records = make(stage_times.Records)(room, blank)
        run = self._progress(backend, sum(columns.length))
        if limit is not None:
            run.limit = limit
        # Skipping repeated states loses the path and the occupancies, and pays only in long calls.
        is_skipping = not has_path and not has_all_events and self.events >= MANY
        snapshot_words = self._snapshot_words(columns.length)
        then = self._progress(backend, snapshot_words) if is_skipping else run
        snapshot = make(stage_times.Snapshot)(is_skipping, then)
        programs = self._programs_for(backend)
        spend(CALL_EFFORT + len(columns.size) // FIFOS + sum(columns.length) // WORDS)
        status, simulated = stage_times.PAUSED, 0
        while status == stage_times.PAUSED:
            status = make(stage_times.advance)(
                programs, fifos, records, snapshot, run, backend.fuel
            )
            spend((run.events - simulated) // EVENTS)
            self.simulated += run.events - simulated
            simulated = run.events
        return _CallRun(run, fifos, records, status)

    def _progress(self, backend: Any, words: int) -> Any:
        """Return all processes before their first stage, with rings of this many words."""
        kept = backend.kernel(stage_times.Words)(len(self.design.fifos), words, backend.blank)
        make = backend.kernel(stage_times.Progress)
        return make(self._program_sizes, kept, backend.blank, backend.array)

    def _programs_for(self, backend: Any) -> Any:
        """Return the tracks of the processes as arrays, converted once for each backend."""
        if backend.is_compiled not in self._programs:
            programs = backend.kernel(stage_times.Programs)(self._columns, backend.array)
            self._programs[backend.is_compiled] = programs
        return self._programs[backend.is_compiled]

    def _fifo_columns(
        self, depths: Depths, memories: Memories, *, has_all_words: bool
    ) -> SimpleNamespace:
        """Return the columns of the kernel's Fifos.

        has_all_words: a ring has the times of all words of the call, not only of the words in the FIFO.
        """
        bounded, latencies = list[int](), list[int]()
        sizes, lengths = list[int](), list[int]()
        for fifo, group, is_first in zip(
            self.design.fifos, self.group_of, self._is_first, strict=True
        ):
            depth = depths[group]
            if memories is not None:
                is_slow = memories[group]
            else:
                is_slow = depth is None or is_memory(depth, fifo.bits, fifo.kind)
            words = fifo.words if is_first else 1
            is_open = depth is None or depth >= words
            bounded.append(int(not is_open))
            latencies.append(2 if is_slow else 1)
            sizes.append(max(1, words if depth is None or is_open else depth))
            lengths.append(max(words, 1) if has_all_words else sizes[-1])
        rings, total = [0] * len(lengths), 0
        # Small FIFOs come first: a snapshot keeps a prefix of the rings, with as many FIFOs as fit.
        for number in sorted(range(len(lengths)), key=lengths.__getitem__):
            rings[number], total = total, total + lengths[number]
        return SimpleNamespace(
            is_bounded=bounded, latency=latencies, ring=rings, size=sizes, length=lengths
        )

    def _snapshot_words(self, lengths: Sequence[int]) -> int:
        """Return the words of the smallest rings that a snapshot keeps; lengths: of all rings."""
        totals = accumulate(sorted(lengths))
        return max((words for words in totals if words * SNAPSHOT_SHARE <= self.events), default=0)

    def _deadlock(self, run: Any) -> tuple[ProcessWait, ...]:
        """The cycle of processes that wait for each other, or a chain to a process that has ended."""
        waits: dict[int, ProcessWait] = {}
        peers: dict[int, int] = {}  # the process at the other end of each wait
        for process, staged in enumerate(self.design.processes):
            if run.end[process] != NOWHERE:
                continue
            fifo = run.blocked[process]
            if fifo == NOWHERE:
                peers[process] = next(peer for peer in staged.after if run.end[peer] == NOWHERE)
                waits[process] = ProcessWait(process, None, is_writing=False)
                continue
            is_writing = run.blocked_kind[process] == WRITE
            ends = self.design.fifos[fifo]
            peers[process] = ends.reader if is_writing else ends.writer
            waits[process] = ProcessWait(process, fifo, is_writing=is_writing)
        chain: list[int] = []
        # The waits from any blocked process lead into a cycle, or to a process that has ended.
        process = min(waits)
        while process in waits and process not in chain:
            chain.append(process)
            process = peers[process]
        if process in chain:
            chain = chain[chain.index(process) :]
        return tuple(waits[number] for number in chain)

    @staticmethod
    def _bits(mask: int, count: int) -> tuple[int, ...]:
        return tuple(number for number in range(count) if mask >> number % SETS & 1)


def events(items: Track) -> int:
    """Return the number of stages of a track that have accesses."""
    return sum(
        1 if isinstance(item, Event) else item.times * events(item.items)
        for item in items
        if not isinstance(item, int)
    )


def _times_of_words(call: _CallRun, fifo: int) -> WordTimes:
    """When the words of a FIFO are written and read, of a run that keeps them all."""
    ring, words = call.fifos.ring[fifo], call.progress.words
    return (
        np.asarray(words.writes.time[ring : ring + words.written[fifo]]),
        np.asarray(words.reads.time[ring : ring + words.released[fifo]]),
    )


def _max_occupancy(times: WordTimes) -> int:
    """Return the maximum number of words between a write and the read that frees its space."""
    writes, reads = times
    # Words written so far less words freed before this write: both lists of times are sorted.
    held = np.arange(1, len(writes) + 1) - np.searchsorted(reads, writes)
    return max(1, int(held.max(initial=1)))


def _path(records: Any, number: int) -> tuple[TimedWait, ...]:
    """The recorded waits of the longest path, latest first."""
    columns = records.process, records.time, records.fifo, records.kind, records.before
    path = []
    while number != NOWHERE and records.count - number <= records.room:
        process, time, fifo, kind, before = (column[number % records.room] for column in columns)
        cause = None if fifo == NOWHERE else fifo
        path.append(TimedWait(ProcessWait(process, cause, is_writing=kind == WRITE), time))
        number = before
    return tuple(path)


def _alike(design: StagedDesign, group_of: Sequence[int]) -> list[int]:
    """For each FIFO the first FIFO of its group that is read and written in the same stages throughout.

    Such lanes have equal times, so only the first of them is simulated.
    """
    seen: list[list[tuple[int, int]]] = [[] for _ in design.fifos]
    numbers: dict[tuple[tuple[int, int], ...], int] = {}

    def walk(items: Track) -> None:
        for item in items:
            if isinstance(item, Event):
                if item.accesses not in numbers:
                    numbers[item.accesses] = len(numbers)
                    for fifo, kind in item.accesses:
                        seen[fifo].append((numbers[item.accesses], kind))
            elif isinstance(item, Repeat):
                walk(item.items)

    for process in design.processes:
        for track in process.tracks:
            walk(track)
    first: dict[Any, int] = {}
    return [
        first.setdefault((group_of[number], fifo.bits, fifo.kind, tuple(seen[number])), number)
        for number, fifo in enumerate(design.fifos)
    ]


def _columns(
    design: StagedDesign, group_of: Sequence[int], is_first: Sequence[bool]
) -> SimpleNamespace:
    """Return the columns of the kernel's Programs.

    is_first: FIFOs with equal times are simulated once; all others of them have no accesses.
    """
    track_start, first = [0], list[int]()
    operation, gap, argument = list[int](), list[int](), list[int]()
    set_start, set_fifo, set_kind = [0], list[int](), list[int]()
    sets: dict[tuple[tuple[int, int], ...], int] = {}

    def emit(code: int, stages: int, value: int) -> None:
        operation.append(code)
        gap.append(stages)
        argument.append(value)

    def write(items: Track) -> int:
        """Write the operations of items; return the stages after the last operation."""
        pause = 0
        for item in items:
            if isinstance(item, Event):
                if item.accesses not in sets:
                    sets[item.accesses] = len(sets)
                    simulated = [access for access in item.accesses if is_first[access[0]]]
                    set_fifo.extend(fifo for fifo, _ in simulated)
                    set_kind.extend(kind for _, kind in simulated)
                    set_start.append(len(set_fifo))
                emit(EVENT, pause, sets[item.accesses])
                pause = 0
            elif isinstance(item, Repeat):
                begin = len(operation)
                emit(BEGIN, pause, item.times)
                emit(END, write(item.items), begin)
                pause = 0
            else:
                pause += item
        return pause

    for process in design.processes:
        for track in process.tracks:
            first.append(len(operation))
            write(track)
            emit(STOP, 0, 0)
        track_start.append(len(first))
    after_start, after = [0], list[int]()
    for process in design.processes:
        after += process.after
        after_start.append(len(after))
    return SimpleNamespace(
        track_start=track_start,
        first=first,
        operation=operation,
        gap=gap,
        argument=argument,
        set_start=set_start,
        fifo=set_fifo,
        kind=set_kind,
        stages=[process.stages for process in design.processes],
        after_start=after_start,
        after=after,
        writer=[fifo.writer for fifo in design.fifos],
        reader=[fifo.reader for fifo in design.fifos],
        process_bit=[1 << number % SETS for number in range(len(design.processes))],
        fifo_bit=[1 << group % SETS for group in group_of],
    )
