"""Cycles of one call of a design for given depths of its FIFOs, what limits them, and deadlocks.

FIFOs of an array of streams share one entry of the depths, as they have one depth in the source. Depths
are monotone but for one thing: a deep FIFO is a memory, whose words are read 2 cycles after they are
written; in a shallow one, a shift register, it is 1. `is_memory` says which. A question may fix which
places are memories whatever their depths: then more depth is never slower. With none of them a memory
no real depths are faster, and bounds rest on that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from csdf.kernels import compile as compiler
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.event_graph import Spend, spend_nothing
from planners.fifo.hls.pipelines import Again, Event, StagedDesign, Track
from planners.fifo.timing.cluster import Numbers
from planners.kernels import ranges, stage_times
from planners.kernels.stage_times import BEGIN, END, EVENT, NOWHERE, STOP, WRITE

SHIFTED = 2  # words that are in a shift register whatever their width
SHIFTED_BITS = 1024  # of a shift register, at most; deeper FIFOs are memories
SETS = 62  # places that are told apart; more share a bit, which makes reasons weaker, not wrong
KEPT_SHARE = 16  # events of a call for each time that a snapshot keeps
# Effort of a call in microseconds of a usual machine: least squares over 64 calls of 16 designs, which
# take from 0.6 to 1.5 times of it each.
CALL_EFFORT = 100
FIFOS, EVENTS, WORDS = 2, 24, 32  # FIFOs, stages timed and words kept in a microsecond
MANY = 4000  # stages of a call from which on a state that comes back is looked for
ROOM = 1 << 20  # waits that are kept to name the critical path
Depths = Sequence[int | None]
Sizes = tuple[int, ...]
Memories = Sequence[bool] | None


def is_memory(depth: int, bits: int, kind: str) -> bool:
    """Whether a FIFO is a memory: by its depth, or by the kind that the source asks for."""
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
    # Greedy slicing of the width: the widest aspect ratio of a block RAM first (18 x 1024, then 9 x
    # 2048, 4 x 4096, 2 x 8192, 1 x 16384).
    count, rest = bits // 18 * -(-depth // 1024), bits % 18
    if depth <= 1024:
        return count + (rest > 0)
    count, rest = count + rest // 9 * -(-depth // 2048), rest % 9
    if depth <= 2048:
        return count + (rest > 0)
    if depth <= 4096 and bits > 18 and rest == 3:
        return count + 2
    count, rest = count + rest // 4 * -(-depth // 4096), rest % 4
    if depth <= 4096:
        return count + (rest > 0)
    return count + rest // 2 * -(-depth // 8192) + rest % 2 * -(-depth // 16384)


class BlockedProcess(NamedTuple):
    """A process of a deadlock, and the FIFO that it waits for, or the process before it."""

    process: int
    fifo: int | None
    is_writing: bool


class Waited(NamedTuple):
    """A wait of the critical path: a process goes on at a time since a FIFO lets it."""

    process: int
    time: int
    fifo: int | None
    is_writing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one call in some depths.

    cycles: None for a deadlock, whose cycle is in `blocked`. holding: places whose lack of space lies
    on the longest path or the cycle; as long as none of them gets more, it is no faster. slowed:
    positions of memories whose latency lies on it. processes: the processes on it. full: positions at
    which a write waited.
    path: the last waits of the longest path, latest first, where they were asked for.
    """

    cycles: int | None
    holding: tuple[int, ...]
    slowed: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    blocked: tuple[BlockedProcess, ...] = ()
    full: tuple[int, ...] = ()
    path: tuple[Waited, ...] = ()


class CallModel:
    """A design as arrays for the kernel. groups: FIFOs that have one depth; by default the arrays."""

    def __init__(self, design: StagedDesign, *, is_grouped: bool = True) -> None:
        self.design = design
        places: dict[tuple[str, int], list[int]] = {}  # by name and line of the declaration
        for number, fifo in enumerate(design.fifos):
            name = fifo.group if is_grouped else fifo.name
            places.setdefault((name, fifo.line if is_grouped else number), []).append(number)
        often = Counter(name for name, _ in places)
        self.names = [name if often[name] == 1 else f"{name} ({line})" for name, line in places]
        self.members = list(places.values())
        self.place_of = [0] * len(design.fifos)
        for place, members in enumerate(self.members):
            for member in members:
                self.place_of[member] = place
        self.words = [
            max(design.fifos[member].words for member in members) for members in self.members
        ]
        self.events = sum(events(track) for process in design.processes for track in process.tracks)
        self.simulated = 0
        alike = _alike(design, self.place_of)
        self._is_first = [alike[number] == number for number in range(len(design.fifos))]
        self._columns = _columns(design, self.place_of, self._is_first)
        self._programs: dict[bool, Any] = {}
        self._largest = ranges.stage_times(
            [process.stages for process in design.processes], self.events
        )

    @property
    def given(self) -> tuple[int, ...]:
        """The depths in the source; of an array the largest."""
        return tuple(max(self.design.fifos[number].depth for number in row) for row in self.members)

    @property
    def fixed_memories(self) -> tuple[bool, ...]:
        """Which places are memories in any depths, as the source says of all their FIFOs."""
        return tuple(
            all(self.design.fifos[number].kind not in ("", "srl") for number in row)
            for row in self.members
        )

    def memories(self, depths: Sequence[int]) -> tuple[bool, ...]:
        """Which places are memories in these depths: of an array, if one of its FIFOs is."""
        return tuple(
            any(
                is_memory(depth, self.design.fifos[number].bits, self.design.fifos[number].kind)
                for number in row
            )
            for depth, row in zip(depths, self.members, strict=True)
        )

    def first_memory(self, place: int) -> int:
        """The least depth with which a place is a memory; beyond its words if it never is one."""
        fifos = [self.design.fifos[number] for number in self.members[place]]
        if any(fifo.kind not in ("", "srl") for fifo in fifos):
            return 0
        depths = [max(SHIFTED, SHIFTED_BITS // fifo.bits) + 1 for fifo in fifos if not fifo.kind]
        return min(depths, default=max(self.words) + LEAST_DEPTH)

    def price(self, place: int, depth: int, objective: str) -> int:
        """Return what the FIFOs of a place cost in bits, elements, block RAMs (bram) or LUTs (lut)."""
        total = 0
        for number in self.members[place]:
            fifo = self.design.fifos[number]
            total += cost(depth, fifo.bits, fifo.kind, objective)
        return total

    def outcome(
        self,
        depths: Depths,
        *,
        memories: Memories = None,
        limit: int | None = None,
        has_path: bool = False,
        spend: Spend = spend_nothing,
    ) -> Outcome:
        """Return what one call does. memories: places that are; by default those whose depths say so.

        None is a FIFO without end: a memory, where memories are not given. limit: cycles after which
        the answer may be a bound above the limit, with the reasons for it.
        """
        run, fifos, records, status = self._run(
            depths, memories, has_path=has_path, spend=spend, limit=limit
        )
        full = self._places_of(number for number, was in enumerate(fifos["was_full"]) if was)
        if status == stage_times.STUCK:
            blocked = self._deadlock(run)
            on_cycle = {
                self.place_of[step.fifo]
                for step in blocked
                if step.is_writing and step.fifo is not None
            }
            return Outcome(
                cycles=None, holding=tuple(sorted(on_cycle)), blocked=blocked, full=full,
                processes=tuple(step.process for step in blocked),
            )  # fmt: skip
        ends = [int(end) for end in run["end"]]
        last = max(range(len(ends)), key=ends.__getitem__)
        cycles = ends[last]
        # The limit was passed: the remaining stages of that process bound its end from below.
        if status == stage_times.LATE:
            last = int(run["late"])
            stages = self.design.processes[last].stages
            cycles = int(run["time"][last]) + stages - int(run["stage"][last])
        return Outcome(
            cycles=cycles,
            holding=self._bits(int(run["space"][last]), len(self.members)),
            slowed=self._bits(int(run["memory"][last]), len(self.members)),
            processes=self._bits(int(run["process"][last]), len(ends)),
            full=full,
            path=_path(records, int(run["record"][last])) if has_path else (),
        )

    def occupancy(
        self,
        depths: Depths,
        place: int,
        memories: Memories = None,
        *,
        spend: Spend = spend_nothing,
    ) -> int:
        """Return the depth of a place with which no write waits, the others having these depths."""
        unbounded = [*depths[:place], None, *depths[place + 1 :]]
        return self._most_held_in([place], unbounded, memories, spend)[0]

    def occupancies(self, memories: Memories = None, *, spend: Spend = spend_nothing) -> Sizes:
        """Return by place the most words that one of its FIFOs holds where no write waits.

        In a deadlock it is all words of the place.
        """
        unbounded = [None] * len(self.members)
        return self._most_held_in(range(len(self.members)), unbounded, memories, spend)

    def _most_held_in(
        self, places: Iterable[int], depths: Depths, memories: Memories, spend: Spend
    ) -> Sizes:
        """The most words in each of these places, which have no end."""
        _, fifos, _, status = self._run(depths, memories, is_whole=True, spend=spend)
        if status != stage_times.DONE:
            return tuple(self.words[place] for place in places)
        return tuple(
            max(
                (
                    self._most_held(fifos, fifo)
                    for fifo in self.members[place]
                    if self._is_first[fifo]
                ),
                default=1,
            )
            for place in places
        )

    @staticmethod
    def _most_held(fifos: dict[str, Any], fifo: int) -> int:
        """The most words between a write and the read that frees its place."""
        put, taken = _times_of_words(fifos, fifo)
        # Words written so far less words freed before this write: both time lists are sorted.
        held = np.arange(1, len(put) + 1) - np.searchsorted(taken, put)
        return max(1, int(held.max(initial=1)))

    def word_times(self, depths: Sequence[int]) -> tuple[list[tuple[Numbers, Numbers]], int] | None:
        """Return by place when its words are written and read, and the cycles; None for a deadlock.

        Of an array of streams it is the FIFO that holds most.
        """
        run, fifos, _, status = self._run(depths, is_whole=True, has_words=True)
        if status != stage_times.DONE:
            return None
        times = []
        for row in self.members:
            fullest = max(
                (fifo for fifo in row if self._is_first[fifo]),
                key=lambda fifo: self._most_held(fifos, fifo),
            )
            times.append(_times_of_words(fifos, fullest))
        return times, max(int(end) for end in run["end"])

    def _run(
        self,
        depths: Depths,
        memories: Memories = None,
        *,
        has_path: bool = False,
        is_whole: bool = False,
        has_words: bool = False,
        spend: Spend = spend_nothing,
        limit: int | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], int]:
        backend = compiler.backend(fits=self._largest <= compiler.INT64_SUM_LIMIT)
        if backend.is_compiled not in self._programs:
            columns = [backend.array(column) for column in self._columns]
            self._programs[backend.is_compiled] = backend.kernel(stage_times.Programs)(*columns)
        programs = self._programs[backend.is_compiled]
        bounded, latency, size, length = list[int](), list[int](), list[int](), list[int]()
        for fifo, place, is_first in zip(
            self.design.fifos, self.place_of, self._is_first, strict=True
        ):
            depth = depths[place]
            if memories is not None:
                is_slow = memories[place]
            else:
                is_slow = depth is None or is_memory(depth, fifo.bits, fifo.kind)
            words = fifo.words if is_first else 1
            is_open = depth is None or depth >= words
            bounded.append(int(not is_open))
            latency.append(2 if is_slow else 1)
            size.append(max(1, words if depth is None or is_open else depth))
            length.append(max(words, 1) if has_words else size[-1])
        ring, total, kept_words = [0] * len(size), 0, 0
        # Small FIFOs come first: a snapshot keeps only a prefix of the rings, with as many FIFOs as
        # fit.
        for number in sorted(range(len(length)), key=length.__getitem__):
            ring[number], total = total, total + length[number]
            if total * KEPT_SHARE <= self.events:
                kept_words = total
        count = len(self.design.fifos)
        counts = [backend.blank(count) for _ in range(7)]
        times = [backend.blank(total) for _ in range(10)]
        fifos = backend.kernel(stage_times.Fifos)(
            *map(backend.array, (bounded, latency, ring, size, length)), counts, *times
        )
        room = min(ROOM, self.events + len(self.design.processes) + 1) if has_path else 0
        kept = [backend.blank(max(1, room)) for _ in range(5)]
        records = backend.kernel(stage_times.Records)(room, *kept)
        processes, tracks = len(self.design.processes), len(self._columns[1])
        nowhere = [NOWHERE] * processes
        start = [[0] * processes] * 2 + [nowhere] + [[0] * processes] * 4 + [nowhere] * 3
        columns = [backend.array(column) for column in start]
        columns += [backend.blank(max(1, tracks)) for _ in range(3)]
        columns += [backend.blank(len(self._columns[2])), backend.array(range(processes))]
        columns += [backend.array([1] * processes)]
        run = backend.kernel(stage_times.ProcessProgress)(*columns)
        run.waiting = processes
        if limit is not None:
            run.limit = limit
        # Skipping repeated states loses the path and the occupancies, and pays only in long calls.
        is_skipping = int(not has_path and not is_whole and self.events >= MANY)
        snapshot = backend.kernel(stage_times.Snapshot)(
            is_skipping,
            *(backend.blank(processes) for _ in range(10)),
            *(backend.blank(max(1, tracks)) for _ in range(3)),
            *(backend.blank(len(self._columns[2])) for _ in range(3)),
            *(backend.blank(count) for _ in range(5)),
            *(backend.blank(kept_words if is_skipping else 0) for _ in range(8)),
        )
        advance = backend.kernel(stage_times.advance)
        status, simulated = stage_times.PAUSED, 0
        spend(CALL_EFFORT + len(size) // FIFOS + total // WORDS)
        while status == stage_times.PAUSED:
            status = advance(programs, fifos, records, snapshot, run, backend.fuel)
            spend((run.events - simulated) // EVENTS)
            self.simulated += run.events - simulated
            simulated = run.events
        names = ("time", "stage", "end", "is_started", "space", "memory", "process", "record",
                 "blocked", "blocked_kind")  # fmt: skip
        return (
            dict(zip(names, columns, strict=False)) | {"late": run.late},
            {
                "ring": ring, "written": counts[0], "released": counts[2],
                "was_full": counts[6], "write_time": times[0], "read_time": times[5],
            },
            {"kept": kept, "count": records.count, "room": room},
            int(status),
        )  # fmt: skip

    def _deadlock(self, run: dict[str, Any]) -> tuple[BlockedProcess, ...]:
        """The processes that wait for one another, or for one that waits for nothing that can come."""
        waits: dict[int, tuple[int, BlockedProcess]] = {}
        for process, staged in enumerate(self.design.processes):
            if int(run["end"][process]) != NOWHERE:
                continue
            fifo = int(run["blocked"][process])
            if fifo == NOWHERE:
                predecessor = next(
                    before for before in staged.after if int(run["end"][before]) == NOWHERE
                )
                waits[process] = predecessor, BlockedProcess(process, None, is_writing=False)
                continue
            is_writing = int(run["blocked_kind"][process]) == WRITE
            ends = self.design.fifos[fifo]
            predecessor = ends.reader if is_writing else ends.writer
            waits[process] = predecessor, BlockedProcess(process, fifo, is_writing=is_writing)
        way: list[int] = []
        # Following the waits from any blocked process ends in a cycle, or at a process that has
        # ended.
        here = min(waits)
        while here in waits and here not in way:
            way.append(here)
            here = waits[here][0]
        if here in way:
            way = way[way.index(here) :]
        return tuple(waits[number][1] for number in way)

    def _places_of(self, fifos: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted({self.place_of[fifo] for fifo in fifos}))

    @staticmethod
    def _bits(found: int, count: int) -> tuple[int, ...]:
        return tuple(number for number in range(count) if found >> number % SETS & 1)


def events(items: Track) -> int:
    """Return how many stages of a track have accesses."""
    total = 0
    for item in items:
        if isinstance(item, Event):
            total += 1
        elif isinstance(item, Again):
            total += item.times * events(item.items)
    return total


def _times_of_words(fifos: dict[str, Any], fifo: int) -> tuple[Numbers, Numbers]:
    """When the words of a FIFO are written and read, of a run that keeps them all."""
    ring = int(fifos["ring"][fifo])
    return (
        np.asarray(fifos["write_time"][ring : ring + int(fifos["written"][fifo])]),
        np.asarray(fifos["read_time"][ring : ring + int(fifos["released"][fifo])]),
    )


def _path(records: dict[str, Any], number: int) -> tuple[Waited, ...]:
    """The waits of the longest path that are still kept, latest first."""
    process, time, fifo, kind, before = records["kept"]
    room, limits = records["room"], []
    while number != NOWHERE and records["count"] - number <= room:
        at = number % room
        cause = int(fifo[at])
        limits.append(
            Waited(
                int(process[at]), int(time[at]), None if cause == NOWHERE else cause,
                int(kind[at]) == WRITE,
            )
        )  # fmt: skip
        number = int(before[at])
    return tuple(limits)


def _alike(design: StagedDesign, place_of: Sequence[int]) -> list[int]:
    """For each FIFO the first one of its place that is read and written in the same stages throughout.

    Lanes that move together have the same times, so one of them is enough.
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
            elif isinstance(item, Again):
                walk(item.items)

    for process in design.processes:
        for track in process.tracks:
            walk(track)
    first: dict[Any, int] = {}
    return [
        first.setdefault((place_of[number], fifo.bits, fifo.kind, tuple(seen[number])), number)
        for number, fifo in enumerate(design.fifos)
    ]


def _columns(
    design: StagedDesign, place_of: Sequence[int], is_first: Sequence[bool]
) -> list[list[int]]:
    """The arguments of the kernel's Programs; FIFOs that move with another one are left out."""
    track_start, first = [0], list[int]()
    operation, gap, argument = list[int](), list[int](), list[int]()
    set_start, set_fifo, set_kind = [0], list[int](), list[int]()
    sets: dict[tuple[tuple[int, int], ...], int] = {}

    def emit(code: int, stages: int, value: int) -> None:
        operation.append(code)
        gap.append(stages)
        argument.append(value)

    def write(items: Track) -> None:
        pause = 0
        for item in items:
            if isinstance(item, Event):
                if item.accesses not in sets:
                    sets[item.accesses] = len(sets)
                    own_accesses = [access for access in item.accesses if is_first[access[0]]]
                    set_fifo.extend(fifo for fifo, _ in own_accesses)
                    set_kind.extend(kind for _, kind in own_accesses)
                    set_start.append(len(set_fifo))
                emit(EVENT, pause, sets[item.accesses])
                pause = 0
            elif isinstance(item, Again):
                begin = len(operation)
                emit(BEGIN, pause, item.times)
                rest = write_inner(item.items)
                emit(END, rest, begin)
                pause = 0
            else:
                pause += item
        rests.append(pause)

    rests: list[int] = []

    def write_inner(items: Track) -> int:
        write(items)
        return rests.pop()

    for process in design.processes:
        for track in process.tracks:
            first.append(len(operation))
            write_inner(track)
            emit(STOP, 0, 0)
        track_start.append(len(first))
    after_start, after = [0], list[int]()
    for process in design.processes:
        after += process.after
        after_start.append(len(after))
    return [
        track_start, first or [0], operation or [STOP], gap or [0], argument or [0], set_start,
        set_fifo or [0], set_kind or [0], [process.stages for process in design.processes], after_start,
        after or [0], [fifo.writer for fifo in design.fifos], [fifo.reader for fifo in design.fifos],
        [1 << number % SETS for number in range(len(design.processes))],
        *[[1 << place % SETS for place in place_of]] * 2,
    ]  # fmt: skip
