"""Pipeline stages of the FIFO accesses of a traced Vitis HLS design.

The trace lists the accesses of each loop iteration. The synthesis report states which loops are
pipelined, with their initiation interval and depth. Iteration i of a loop that begins in stage b
executes in the stages b + i * interval to b + i * interval + depth - 1. Example: of a loop with
interval 2 and depth 5 that begins in stage 10, iteration 3 executes in stages 16 to 20; it reads
its FIFO in stage 17 and writes its result in stage 20. The rules below were inferred from the
cycles of RTL simulations of Vitis HLS 2023.2 (docs/fifo-hls.md names the evidence of each):

- a loop begins 2 stages after the last stage of the preceding loop of the process;
- a FIFO is read in stage 1 of an iteration if every iteration reads it or the loop is no nest,
  otherwise in stage 2; a FIFO is written in the last stage, and no access is later;
- further accesses of the same FIFO in one iteration follow one per cycle; the last write is in the
  last stage, the first read in the stage above, or earlier if the others need the later stages;
- a process begins when all processes that write its arrays have ended.

A process is stored as tracks. A track lists accesses in the order of their stages, with the numbers of
stages between them. One pipelined loop needs a track for each distinct offset of its accesses, from the
first stage of the iteration: iterations overlap, so accesses of different offsets are not in order, but
accesses of one offset are. The rank of a track is the index of its offset in the ascending offsets of
each loop. Example: a loop with interval 2, depth 5 and 3 iterations reads x at offset 1 and writes y at
offset 4. Its two tracks begin with the offset and end with the gap to the next loop; the gap of
rank 1 is 0, and is left out:

    rank 0    (1, Repeat(3, (Event(read x), 2)), 3)
    rank 1    (4, Repeat(3, (Event(write y), 2)))

Lanes are the FIFOs of one array of streams that an iteration reads. They may be read some stages
later, which the report does not state. `skew` is the maximum number of these stages: a word is
required in the first of them, its space is free after the last: no schedule in between is slower.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from csdf.errors import InvalidGraph
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.hls.process_modules import Members, is_of_module, modules_of_processes, shortened
from planners.fifo.hls.synthesis_report import ReportedLoop, SynthesisReport
from planners.fifo.hls.trace import (
    Access,
    Iteration,
    LoopExecution,
    RepeatedIterations,
    Trace,
    TracedFifo,
)
from planners.kernels.stage_times import NEED, READ, RELEASE, WRITE

LOOP_GAP = 2  # stages from the last stage of a loop to the first stage of the next loop
UNCONDITIONAL, GUARDED = 1, 2  # stages of reads


class Event(NamedTuple):
    """The accesses of one stage, as pairs of a FIFO and a kind of planners.kernels.stage_times."""

    accesses: tuple[tuple[int, int], ...]


class Repeat(NamedTuple):
    """Items of a track that are executed `times` times, such as a loop."""

    times: int
    items: tuple[Item, ...]


Accesses = tuple[Access, ...]  # of an iteration
Body = Sequence[Iteration | RepeatedIterations]  # of the trace
LoopKey = tuple[str, int, str]  # a loop of the source: label, line and function
Item = int | Event | Repeat  # int: stages until the next item
Track = tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFifo:
    """A FIFO between two processes.

    group: its array of streams. bits: width of a word. depth: in the source. kind: its memory, if
    the source states it. line: of its declaration. words: written in one call.
    """

    name: str
    group: str
    bits: int
    depth: int
    kind: str
    line: int
    words: int
    writer: int
    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedProcess:
    """A process as tracks of accesses.

    stages: number of its last stage. after: processes that must end before it begins.
    """

    name: str
    module: str
    file: str
    line: int
    tracks: tuple[Track, ...]
    stages: int
    after: tuple[int, ...] = ()
    loops: tuple[str, ...] = ()  # in words: "loop4_loop5: interval 1, depth 30, 256 iterations"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDesign:
    """The processes and FIFOs of one call of the top function.

    uncalibrated: accesses whose stages follow from a rule that was never compared with RTL.
    """

    name: str
    file: str
    fifos: tuple[StagedFifo, ...]
    processes: tuple[StagedProcess, ...]
    assumptions: tuple[str, ...] = ()
    largest_skew: int = 0
    uncalibrated: tuple[str, ...] = ()


Skew = int | None  # stages; None for as many as the reader of each lane has


def staged(
    trace: Trace, report: SynthesisReport, skew: Skew = 0, skews: Mapping[str, int] | None = None
) -> StagedDesign:
    """Return the design with the stages of all accesses.

    skew: maximum skew of lanes; None for the largest of each read. skews: by module, if a schedule of
    Vitis HLS states it. Raises InvalidGraph if the report and the trace are of different designs.
    """
    builders = [
        _builder(trace, report, members, modules, skew, skews or {})
        for members, modules in modules_of_processes(trace, report)
    ]
    owner = {
        process: number for number, builder in enumerate(builders) for process in builder.numbers
    }
    after: list[set[int]] = [set() for _ in builders]
    for array in trace.arrays:
        for reader in array.readers:
            for writer in array.writers:
                # Arrays are PIPO buffers: a reader waits for writers before it in program order.
                if owner[writer] < owner[reader]:
                    after[owner[reader]].add(owner[writer])
    processes = [
        builder.staged_process(sorted(before))
        for builder, before in zip(builders, after, strict=True)
    ]
    return StagedDesign(
        name=trace.top,
        file=str(trace.file),
        fifos=staged_fifos(trace.fifos, processes, trace.file),
        processes=tuple(processes),
        largest_skew=max((builder.largest_skew for builder in builders), default=0),
        uncalibrated=tuple(dict.fromkeys(chain(*(builder.uncalibrated for builder in builders)))),
    )


def counted_accesses(track: Track) -> Counter[tuple[int, int]]:
    """Return the number of executions of each access of a track."""
    totals: Counter[tuple[int, int]] = Counter()
    for item in track:
        if isinstance(item, Event):
            totals.update(item.accesses)
        elif isinstance(item, Repeat):
            for access, times in counted_accesses(item.items).items():
                totals[access] += item.times * times
    return totals


def staged_fifos(
    fifos: Sequence[TracedFifo], processes: Sequence[StagedProcess], file: Path
) -> tuple[StagedFifo, ...]:
    """Return the FIFOs with writer and reader.

    Raises InvalidGraph for several writers or readers, and for more reads than writes.
    """
    # By FIFO: the words that each process writes or reads.
    writers: list[Counter[int]] = [Counter() for _ in fifos]
    readers: list[Counter[int]] = [Counter() for _ in fifos]
    for number, process in enumerate(processes):
        for track in process.tracks:
            for (index, kind), words in counted_accesses(track).items():
                if kind != RELEASE:
                    (writers if kind == WRITE else readers)[index][number] += words
    with_ends = []
    for fifo, written_by, read_by in zip(fifos, writers, readers, strict=True):
        for verb, ends in (("written", written_by), ("read", read_by)):
            if len(ends) > 1:
                names = ", ".join(processes[number].name for number in ends)
                raise InvalidGraph(
                    f"{file}:{fifo.line}: FIFO {fifo.name!r} is {verb} by {len(ends)} processes "
                    f"({names}); a FIFO of a dataflow region has one"
                )
        written, read = written_by.total(), read_by.total()
        if read > written:
            raise InvalidGraph(
                f"{file}:{fifo.line}: FIFO {fifo.name!r}: {read} words are read, but only "
                f"{written} are written in one call; the reader never ends"
            )
        # A FIFO without a reader, or without accesses, counts as read by its writer.
        writer = next(iter(written_by), next(iter(read_by), 0))
        with_ends.append(
            StagedFifo(
                name=fifo.name,
                group=fifo.group,
                bits=fifo.bits,
                depth=max(1, fifo.depth or LEAST_DEPTH),
                kind=fifo.kind,
                line=fifo.line,
                words=written,
                writer=writer,
                reader=next(iter(read_by), writer),
            )
        )
    return tuple(with_ends)


def _builder(
    trace: Trace,
    report: SynthesisReport,
    members: Members,
    modules: Sequence[str],
    skew: Skew,
    skews: Mapping[str, int],
) -> _TrackBuilder:
    """Return the builder of a process with the first module whose loops match the trace."""
    mismatch: InvalidGraph | None = None
    for module in modules:
        builder = _TrackBuilder(trace, report, members, module, skew, skews)
        try:
            builder.find_pipelines()
        except InvalidGraph as error:
            mismatch = mismatch or error
        else:
            return builder
    raise mismatch or AssertionError("a process without a module is refused before")


@dataclass(slots=True)
class _Pipeline:
    """A pipelined loop of the trace, with the offsets of its accesses from the stage of an iteration.

    loop: the innermost loop of its nest. iterations: the accesses of each distinct iteration.
    outer: FIFOs that the loops around it access, and whether they write. offset_of: by FIFO, kind and
    number of the access in an iteration. offsets: distinct, ascending.
    """

    loop: LoopKey
    reported: ReportedLoop
    is_nest: bool
    iterations: list[Accesses] = field(default_factory=list)
    outer: set[tuple[int, bool]] = field(default_factory=set)
    offset_of: dict[tuple[int, int, int], int] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)


class _TrackBuilder:
    """Builds the tracks of one process: it matches loops with the report, then chooses stages."""

    def __init__(
        self,
        trace: Trace,
        report: SynthesisReport,
        members: Members,
        module: str,
        skew: Skew,
        skews: Mapping[str, int],
    ) -> None:
        self._trace, self._report, self._module = trace, report, module
        self.numbers = [number for number, _ in members]
        self._process = members[0][1]
        self._bodies: list[Body] = [(process.body,) for _, process in members]
        self._skew, self._skews = skew, skews
        self._loops: list[str] = []
        self.largest_skew = 0
        self.uncalibrated: list[str] = []
        self._reported = [
            loop
            for name, loops in report.loops.items()
            if is_of_module(name, module)
            for loop in loops
        ]
        self._pipelines: dict[LoopKey, _Pipeline | None] = {}  # by loop that begins the nest
        # Tables by the identity of bodies and loops, which live as long as the trace.
        self._items: dict[tuple[int, int], Track] = {}  # by body or loop, and rank
        self._iterations: dict[tuple[int, LoopKey], Counter[Accesses]] = {}
        # Consecutive accesses outside loops of the report, as a pipeline with one iteration.
        self._unpipelined: dict[Accesses, _Pipeline] = {}
        self._depth_without_loops = report.latencies.get(module, 1) + 1

    def find_pipelines(self) -> None:
        """Match the loops of the process with the loops of its module.

        Raises InvalidGraph for a loop without a counterpart or with another number of iterations.
        """
        for body in self._bodies:
            self._find_in(body)

    def staged_process(self, after: Iterable[int]) -> StagedProcess:
        """Return the process with its tracks, once its pipelines are found."""
        pipelines = [*self._unpipelined.values(), *filter(None, self._pipelines.values())]
        for pipeline in pipelines:
            self._choose_offsets(pipeline)
        ranks = max([1, *(len(pipeline.offsets) for pipeline in pipelines)])
        tracks = [
            _joined(chain(*(self._items_of(body, rank) for body in self._bodies)))
            for rank in range(ranks)
        ]
        return StagedProcess(
            name=self._process.name,
            module=self._module,
            file=str(self._trace.file),
            line=self._process.line,
            tracks=tuple(
                track for track in tracks if any(not isinstance(item, int) for item in track)
            ),
            stages=max(0, stages_of(tracks[0]) - LOOP_GAP),  # the same in all tracks
            after=tuple(after),
            loops=tuple(self._loops),
        )

    # -- which loops are pipelines --------------------------------------------------------------------

    def _find_in(self, body: Body) -> None:
        """Find the pipelined loops of a body, and the accesses of their iterations."""
        for iteration, _ in _distinct(body):
            for part in _parts(iteration):
                if not isinstance(part, LoopExecution):
                    self._add_unpipelined(part)
                    continue
                if _loop_key(part) not in self._pipelines:
                    self._pipelines[_loop_key(part)] = self._pipeline(part)
                pipeline = self._pipelines[_loop_key(part)]
                if pipeline is None:
                    self._find_in(part.iterations)
                else:
                    self._add_iterations(pipeline, part)
            unpipelined = (item.fifo for item in iteration if isinstance(item, Access))
            self._note_uncalibrated(unpipelined, "outside its pipelined loops")

    def _add_unpipelined(self, accesses: Accesses) -> None:
        """Add consecutive accesses outside loops: of each FIFO at most one a stage."""
        counts = Counter((access.fifo, access.is_write) for access in accesses)
        depth = max(1 if self._reported else self._depth_without_loops, *counts.values())
        reported = ReportedLoop(module=self._module, tag="", interval=1, depth=depth, trips=1)
        self._unpipelined[accesses] = _Pipeline(
            loop=("", 0, ""), reported=reported, is_nest=False, iterations=[accesses]
        )

    def _add_iterations(self, pipeline: _Pipeline, execution: LoopExecution) -> None:
        """Add the distinct iterations of a pipelined loop in an execution of its nest."""
        inner = self._pipelined_iterations(execution, pipeline.loop)
        pipeline.iterations += inner
        tag = pipeline.reported.tag
        if not pipeline.reported.is_pipelined:
            fifos = (access.fifo for access in chain(*inner))
            self._note_uncalibrated(fifos, f"in loop {tag!r}, which is no pipeline")
        outer = list(_outer_accesses(execution, pipeline.loop))
        pipeline.outer.update((access.fifo, access.is_write) for access in outer)
        self._note_uncalibrated((access.fifo for access in outer), f"in an outer loop of {tag!r}")

    def _note_uncalibrated(self, fifos: Iterable[int], where: str) -> None:
        """Note FIFOs with accesses whose stages were never compared with RTL."""
        names = list(dict.fromkeys(self._trace.fifos[fifo].group for fifo in fifos))
        if names:
            self.uncalibrated.append(
                f"{self._process.name} (line {self._process.line}) accesses {shortened(names)} {where}"
            )

    def _pipeline(self, execution: LoopExecution) -> _Pipeline | None:
        """Return the pipelined loop whose nest this loop begins; None if it only contains pipelines."""
        for reported in self._reported:
            if (matched := self._matched(execution, reported.tag)) is None:
                continue
            loop, labels = matched
            pipeline = _Pipeline(loop=loop, reported=reported, is_nest=labels > 1)
            traced = self._pipelined_iterations(execution, loop).total()
            if reported.trips is not None and traced != reported.trips:
                raise InvalidGraph(
                    f"{self._report.file}: loop {reported.tag!r} of {reported.module!r} has "
                    f"{reported.trips} iterations, but {traced} in "
                    f"{self._trace.file}:{execution.line}; the report is of another design, or of "
                    "another version of it"
                )
            self._loops.append(
                f"{reported.tag}: interval {reported.interval}, depth {reported.depth}, {traced} "
                "iterations"
            )
            return pipeline
        items = [item for iteration, _ in _distinct(execution.iterations) for item in iteration]
        if items and self._reported and not any(isinstance(item, LoopExecution) for item in items):
            label = execution.label or f"VITIS_LOOP_{execution.line}_{execution.number}"
            raise InvalidGraph(
                f"{self._report.file}: no loop for {label!r} of process {self._process.name!r} "
                f"({self._trace.file}:{execution.line}); {self._module!r} has "
                f"{shortened([loop.tag for loop in self._reported])}"
            )
        return None

    def _matched(
        self, execution: LoopExecution, suffix: str, labels: int = 0
    ) -> tuple[LoopKey, int] | None:
        """The loop that the tag of a nest ends with, and how many loops the tag names.

        None if it is not the tag of a nest from this loop on.
        """
        label = execution.label
        if not label:
            unnamed = re.match(rf"VITIS_LOOP_{execution.line}_\d+", suffix)
            label = unnamed[0] if unnamed else "?"
        if suffix == label:
            return _loop_key(execution), labels + 1
        if suffix.startswith(f"{label}_"):
            suffix, labels = suffix[len(label) + 1 :], labels + 1
        elif execution.trips != 1:  # a loop of one iteration is not in the tag
            return None
        items = chain(*(iteration for iteration, _ in _distinct(execution.iterations)))
        children = {_loop_key(item): item for item in items if isinstance(item, LoopExecution)}
        matches = (self._matched(child, suffix, labels) for child in children.values())
        return next((match for match in matches if match is not None), None)

    def _pipelined_iterations(self, execution: LoopExecution, loop: LoopKey) -> Counter[Accesses]:
        """Return how often a pipelined loop has each iteration in an execution of a loop around it."""
        key = id(execution), loop
        if key not in self._iterations:
            counts: Counter[Accesses] = Counter()
            for iteration, times in _distinct(execution.iterations):
                if _loop_key(execution) == loop:
                    counts[tuple(_accesses(iteration))] += times
                    continue
                for item in iteration:
                    if isinstance(item, LoopExecution):
                        for accesses, inner in self._pipelined_iterations(item, loop).items():
                            counts[accesses] += times * inner
            self._iterations[key] = counts
        return self._iterations[key]

    def _choose_offsets(self, pipeline: _Pipeline) -> None:
        """Choose the offset of each access of a pipelined loop, by the rules above."""
        last = pipeline.reported.depth - 1
        counts = [
            Counter((access.fifo, access.is_write) for access in accesses)
            for accesses in pipeline.iterations
        ]
        accessed = dict.fromkeys(chain(*counts, pipeline.outer))
        lanes = Counter(
            self._trace.fifos[fifo].group for fifo, is_write in accessed if not is_write
        )
        uneven = []
        for fifo, is_write in accessed:
            totals = {accesses[fifo, is_write] for accesses in counts} - {0}
            # The trace has no statements: a missing access may be the first or the last access.
            uneven += [fifo] * (len(totals) > 1)
            count = max(totals, default=1)
            # One access a cycle: those that follow an access leave it these stages at most.
            latest = [max(0, last - following) for following in reversed(range(count))]
            if is_write:
                for number, offset in enumerate(latest):
                    pipeline.offset_of[fifo, WRITE, number] = offset
                continue
            is_always = all(accesses[fifo, is_write] == count for accesses in counts)
            first = UNCONDITIONAL if is_always or not pipeline.is_nest else GUARDED
            needed = [min(first + number, latest[number]) for number in range(count)]
            later = 0
            if lanes[self._trace.fifos[fifo].group] > 1:
                room = min(last - needed[0], self._skews.get(pipeline.reported.module, last))
                self.largest_skew = max(self.largest_skew, room)
                later = room if self._skew is None else min(self._skew, room)
            for number, offset in enumerate(needed):
                if later:
                    # Both ends of the unknown stage: needed in the earliest, freed after the
                    # latest. No real schedule is slower.
                    pipeline.offset_of[fifo, NEED, number] = offset
                    pipeline.offset_of[fifo, RELEASE, number] = min(offset + later, latest[number])
                else:
                    pipeline.offset_of[fifo, READ, number] = offset
        self._note_uncalibrated(
            uneven, f"less often in some iterations of {pipeline.reported.tag!r}"
        )
        pipeline.offsets = sorted(set(pipeline.offset_of.values()))

    # -- the items of a track -------------------------------------------------------------------------

    def _items_of(self, body: Body, rank: int) -> Track:
        """Return the items of a body that is no pipeline, in the track of a rank."""
        key = id(body), rank
        if key not in self._items:
            items: list[Item] = []
            for part in body:
                if isinstance(part, RepeatedIterations):
                    items.append(Repeat(part.count, self._items_of(part.pattern, rank)))
                else:
                    items += self._iteration_items(part, rank)
            self._items[key] = _joined(items)
        return self._items[key]

    def _iteration_items(self, iteration: Iteration, rank: int) -> Iterator[Item]:
        """Yield the items of an iteration of a body that is no pipeline."""
        for part in _parts(iteration):
            if not isinstance(part, LoopExecution):
                unpipelined = self._unpipelined[part]
                once = self._access_items(unpipelined, part, rank, unpipelined.reported.interval)
                yield from self._spaced(unpipelined, once, rank)
                continue
            pipeline = self._pipelines[_loop_key(part)]
            if pipeline is None:
                yield from self._items_of(part.iterations, rank)
            elif self._pipelined_iterations(part, pipeline.loop):
                yield from self._spaced(pipeline, self._nest_items(part, pipeline, rank), rank)

    def _spaced(self, pipeline: _Pipeline, items: Track, rank: int) -> Track:
        """Return the items of a pipeline with its offset before and the gap to the next loop after."""
        offset = pipeline.offsets[rank] if rank < len(pipeline.offsets) else 0
        gap = pipeline.reported.depth - 1 + LOOP_GAP - pipeline.reported.interval - offset
        return (offset, *items, gap)

    def _nest_items(self, execution: LoopExecution, pipeline: _Pipeline, rank: int) -> Track:
        """Return the items of a loop in the nest of a pipelined loop."""
        key = id(execution), rank
        if key not in self._items:
            is_pipelined = _loop_key(execution) == pipeline.loop
            items = self._body_items(
                execution.iterations, pipeline, rank, is_pipelined=is_pipelined
            )
            self._items[key] = _joined(items)
        return self._items[key]

    def _body_items(
        self, body: Body, pipeline: _Pipeline, rank: int, *, is_pipelined: bool
    ) -> Iterator[Item]:
        """Yield the items of the body of a loop in the nest of a pipelined loop."""
        interval = pipeline.reported.interval
        for part in body:
            if isinstance(part, RepeatedIterations):
                items = self._body_items(part.pattern, pipeline, rank, is_pipelined=is_pipelined)
                yield Repeat(part.count, tuple(items))
                continue
            if is_pipelined:
                yield from self._access_items(pipeline, tuple(_accesses(part)), rank, interval)
                continue
            # An access of an outer loop is in a stage of the next iteration of the pipelined loop;
            # after that loop, in a stage of its last iteration.
            back = 0
            for item in part:
                if isinstance(item, LoopExecution):
                    yield from self._nest_items(item, pipeline, rank)
                    back = interval if self._pipelined_iterations(item, pipeline.loop) else back
                else:
                    yield -back
                    yield from self._access_items(pipeline, (item,), rank, back)

    def _access_items(
        self, pipeline: _Pipeline, accesses: Accesses, rank: int, stages: int
    ) -> Track:
        """Return the accesses of an iteration in the stage of a track, and the gap to the next item."""
        if rank >= len(pipeline.offsets):
            return (stages,)
        offset = pipeline.offsets[rank]
        numbers: dict[tuple[int, bool], int] = {}
        event = []
        for access in accesses:
            key = access.fifo, access.is_write
            number = numbers[key] = numbers.get(key, -1) + 1
            for kind in (WRITE,) if access.is_write else (READ, NEED, RELEASE):
                if pipeline.offset_of.get((access.fifo, kind, number)) == offset:
                    event.append((access.fifo, kind))
        # More accesses of a FIFO than stages: several in one stage, as separate events.
        if len(set(event)) < len(event):
            return (*(Event((access,)) for access in event), stages)
        return (Event(tuple(event)), stages) if event else (stages,)


def _distinct(body: Body) -> list[tuple[Iteration, int]]:
    """Return the distinct iterations of a body, each with the number of its executions."""
    iterations: dict[int, Iteration] = {}  # equal iterations of a trace are one object
    totals: Counter[int] = Counter()

    def add(parts: Body, times: int) -> None:
        for part in parts:
            if isinstance(part, RepeatedIterations):
                add(part.pattern, times * part.count)
            else:
                iterations[id(part)] = part
                totals[id(part)] += times

    add(body, 1)
    return [(iteration, totals[key]) for key, iteration in iterations.items()]


def _parts(iteration: Iteration) -> Iterator[Accesses | LoopExecution]:
    """Yield the loops of an iteration, and the accesses before, between and after them."""
    accesses: list[Access] = []
    for item in iteration:
        if not isinstance(item, LoopExecution):
            accesses.append(item)
            continue
        if accesses:
            yield tuple(accesses)
            accesses = []
        yield item
    if accesses:
        yield tuple(accesses)


def _outer_accesses(execution: LoopExecution, pipelined: LoopKey) -> Iterator[Access]:
    """The accesses in the loops around the pipelined loop of a nest, each distinct iteration once."""
    if _loop_key(execution) == pipelined:
        return
    for iteration, _ in _distinct(execution.iterations):
        for item in iteration:
            if isinstance(item, LoopExecution):
                yield from _outer_accesses(item, pipelined)
            else:
                yield item


def _loop_key(loop: LoopExecution) -> LoopKey:
    return loop.label, loop.line, loop.function


def _accesses(iteration: Iteration) -> Iterator[Access]:
    """All accesses of an iteration, inner loops unrolled."""
    for item in iteration:
        if isinstance(item, LoopExecution):
            yield from _unrolled(item.iterations)
        else:
            yield item


def _unrolled(body: Body) -> Iterator[Access]:
    for part in body:
        if isinstance(part, RepeatedIterations):
            for _ in range(part.count):
                yield from _unrolled(part.pattern)
        else:
            yield from _accesses(part)


def stages_of(items: Sequence[Item]) -> int:
    """Return the number of stages of items."""
    return sum(
        item if isinstance(item, int) else item.times * stages_of(item.items)
        for item in items
        if not isinstance(item, Event)
    )


def _joined(items: Iterable[Item]) -> Track:
    """Return items with adjacent gaps added up and empty repetitions removed."""
    merged: list[Item] = []

    def add(item: Item) -> None:
        if isinstance(item, int) and merged and isinstance(before := merged[-1], int):
            item += before
            merged.pop()
        if item != 0:
            merged.append(item)

    for item in items:
        if not isinstance(item, Repeat):
            add(item)
            continue
        inner = _joined(item.items)
        if all(isinstance(part, int) for part in inner):
            add(item.times * stages_of(inner))
        elif item.times == 1:
            for part in inner:
                add(part)
        else:
            add(Repeat(item.times, inner))
    return tuple(merged)
