"""The ways from one cut of a course to a later one, inside a group, and what each keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.weights import Array
from planners.streaming.course import Course
from planners.streaming.firing import Firings
from planners.streaming.lines import Keeping, kept_rows
from planners.streaming.overlap import Pace, pace_of
from planners.streaming.stages import Manner, Stage, StageTable, sums_over_rows

ROWS_AT_A_TIME = (1, 2, 4, 8, 16)  # of stages of several layers
LONGEST_STAGE = 10  # layers
PARTS = (2, 4, 8, 16)  # into which the channels of a stage are cut
MOST_ROWS_IN_PARTS = 2  # a firing
LONGEST_SECTION = 8  # layers between two cuts of which all partitions into stages are tried


WHOLE = 0  # rows a batch of a tensor that lies whole


class Move(NamedTuple):
    """Stages from the layer after one cut to the layer of a later cut."""

    begin: int  # numbers of cuts
    end: int
    stages: tuple[Stage, ...]

    @property
    def rows(self) -> int:
        """Result rows of the last stage a firing."""
        return self.stages[-1].rows


class MoveCost(NamedTuple):
    """The needs of a move.

    lines: bytes that stay for the whole group. passing: the most bytes that come and go with a
    firing of any but the last stage; last: with one of the last stage, its own batch aside.
    """

    lines: int
    passing: int
    last: int
    work: int


class Choices(NamedTuple):
    """The moves behind a cut as arrays, ordered by where they lead.

    keys: cuts and rows a batch they lead to; key: the number of that, end: the cut. lines and work:
    as in MoveCost. most: bytes that come and go where the group ends with the move, onward: where it
    goes on. result: bytes of the tensor at the end. left: the least work behind the end.
    """

    moves: tuple[Move, ...]
    keys: tuple[tuple[int, int], ...]
    key: Array
    end: Array
    lines: Array
    work: Array
    most: Array
    onward: Array
    result: Array
    left: Array


class Moves:
    """All moves of a course, and what they cost."""

    longest_stage = LONGEST_STAGE
    longest_section = LONGEST_SECTION

    def __init__(self, course: Course, table: StageTable, parts: Sequence[int] = ()) -> None:
        """Take the parts, beside one, into which the channels of a stage may be cut."""
        self.course = course
        self.table = table
        self._parts = parts
        self._left = _work_left(course)
        self._arrays: dict[tuple[int, int], Choices] = {}
        self._paces: dict[Move, Pace] = {}
        self._choices: dict[
            tuple[int, int], dict[tuple[int, int], list[tuple[MoveCost, Move]]]
        ] = {}

    def from_cut(self, begin: int, entry: int) -> Iterator[Move]:
        """Yield the moves that begin behind a cut whose tensor comes so many rows a batch."""
        course = self.course
        first = course.cuts[begin] + 1
        for end in range(begin + 1, len(course.cuts)):
            layers = course.layers[first : course.cuts[end] + 1]
            if len(layers) > self.longest_stage and end > begin + 1:
                return
            if len(layers) == 1 and sums_over_rows(course.network, course.network.layer(layers[0])):
                yield Move(begin, end, (Stage(layers=layers, manner=Manner.SUMS),))
            if entry == WHOLE and self.table.can_go_by_channels(layers):
                yield Move(begin, end, (Stage(layers=layers, manner=Manner.CHANNELS),))
            if self._is_stage(layers) and len(layers) <= self.longest_stage:
                for stage in self._stages(layers):
                    yield Move(begin, end, (stage,))
            if end == begin + 1 and len(layers) > 1:
                yield from self._partitions(begin, layers)

    def _stages(self, layers: tuple[str, ...]) -> Iterator[Stage]:
        """The rows a firing, and the parts, that are worth a try."""
        summing = self.table.summing_layer(layers) if self._parts else None
        for rows in self._batches(layers):
            yield Stage(layers=layers, rows=rows)
            if summing is not None and rows <= MOST_ROWS_IN_PARTS:
                channels = self.table.network.layer(layers[0]).shape.channels
                for parts in self._parts:
                    if parts <= channels:
                        yield Stage(layers=layers, rows=rows, parts=parts, summing=summing)

    def _is_stage(self, layers: Sequence[str]) -> bool:
        return not self.course.results & set(layers[:-1]) and self.table.can_be_stage(layers)

    def _batches(self, layers: Sequence[str]) -> Sequence[int]:
        """Rows a firing that are worth a try: a stage of one layer repeats nothing."""
        height = self.table.height(layers[-1])
        if len(layers) == 1 or height == 1:
            return (1,)
        return [rows for rows in ROWS_AT_A_TIME if rows < height] + [height]

    def _partitions(self, begin: int, layers: Sequence[str]) -> Iterator[Move]:
        """Stages that share a section between two cuts."""
        count = len(layers)
        many = range(count - 1) if count > self.longest_section else range(1, count)
        if count > self.longest_section:
            yield Move(begin, begin + 1, tuple(Stage(layers=(name,), rows=1) for name in layers))
            return
        for pieces in many:
            for bounds in combinations(range(1, count), pieces):
                runs = [
                    tuple(layers[one:two])
                    for one, two in zip((0, *bounds), (*bounds, count), strict=True)
                ]
                if all(self._is_stage(run) for run in runs):
                    yield from self._with_rows(begin, runs)

    def _with_rows(self, begin: int, runs: Sequence[tuple[str, ...]]) -> Iterator[Move]:
        """The same rows a firing in all stages of several layers of a section."""
        counts = sorted({rows for run in runs for rows in self._batches(run)})
        for rows in counts:
            stages = tuple(
                Stage(layers=run, rows=rows if rows in self._batches(run) else 1) for run in runs
            )
            if max(stage.rows for stage in stages) == rows:
                yield Move(begin, begin + 1, stages)
                if rows <= MOST_ROWS_IN_PARTS:
                    yield from self._in_parts(begin, stages)

    def _in_parts(self, begin: int, stages: Sequence[Stage]) -> Iterator[Move]:
        """The same parts in all stages of a section that can work so."""
        summing = [self.table.summing_layer(stage.layers) for stage in stages]
        if not any(summing):
            return
        for parts in self._parts:
            yield Move(
                begin,
                begin + 1,
                tuple(
                    stage if layer is None else replace(stage, parts=parts, summing=layer)
                    for stage, layer in zip(stages, summing, strict=True)
                ),
            )

    def choices(self, begin: int, entry: int) -> dict[tuple[int, int], list[tuple[MoveCost, Move]]]:
        """Return the moves behind a cut that no other improves on, by their end and batch.

        entry: rows a batch of the tensor at the cut, or WHOLE.
        """
        if (begin, entry) not in self._choices:
            found = defaultdict(list)
            for move in self.from_cut(begin, entry):
                found[move.end, move.rows].append((self.cost(move, entry), move))
            self._choices[begin, entry] = {key: _best(every) for key, every in found.items()}
        return self._choices[begin, entry]

    def whole_bytes(self, cut: int) -> int:
        """Bytes of the arena that the tensor at a cut takes where it lies whole."""
        return self.table.arena_bytes(self.course.at(cut))

    def arrays(self, begin: int, entry: int) -> Choices:
        """Return the choices behind a cut as arrays."""
        if (begin, entry) not in self._arrays:
            self._arrays[begin, entry] = self._as_arrays(self.choices(begin, entry))
        return self._arrays[begin, entry]

    def _as_arrays(self, choices: dict[tuple[int, int], list[tuple[MoveCost, Move]]]) -> Choices:
        keys = tuple(sorted(choices))
        every = [(key, *one) for key, place in enumerate(keys) for one in choices[place]]
        rows = []
        for key, cost, move in every:
            batch = move.rows * self.table.row_bytes(self.course.at(move.end))
            most = max(cost.passing, cost.last)
            onward = max(cost.passing, cost.last + batch)
            whole, left = self.whole_bytes(move.end), self._left[move.end]
            rows.append((key, move.end, cost.lines, cost.work, most, onward, whole, left))
        columns = np.array(rows, np.int64).reshape(-1, 8).T
        return Choices(tuple(move for _, _, move in every), keys, *columns)

    def cost(self, move: Move, entry: int) -> MoveCost:
        """Return what a move keeps: the tensor it begins with, and all up to its own result."""
        if len(move.stages) == 1:
            return self._single(move, entry)
        found = [self.table.geometry(stage) for stage in move.stages]
        firings = [one.firings for one in found]
        strips = [one.strip_bytes for one in found]
        source = self.course.at(move.begin)
        kept = {stage.result: Keeping.LINE for stage in move.stages}
        kept |= {name: Keeping.WHOLE for name in kept if name in self.course.results}
        result = move.stages[-1].result
        kept[result] = kept[""] = Keeping.WHOLE
        if entry != WHOLE:
            kept[source] = Keeping.LINE
            firings.insert(0, made_by_rows(source, self.table.height(source), entry))
            strips.insert(0, 0)
        sizes = {one.result: self.table.row_bytes(one.result) for one in firings}
        rows, passing = kept_rows(firings, sizes, strips, kept)
        return MoveCost(
            sum(count * sizes[name] for name, count in rows.items())
            + sum(one.accumulator for one in found)
            + self._beside(move),
            max(passing[:-1]),
            passing[-1],
            sum(one.work for one in found),
        )

    def _single(self, move: Move, entry: int) -> MoveCost:
        """The same for one stage, whose firings follow from the rows it needs alone."""
        found = self.table.geometry(move.stages[0])
        source = self.course.at(move.begin)
        beside = found.accumulator + self._beside(move)
        if entry == WHOLE:
            return MoveCost(beside, 0, found.strip_bytes, found.work)
        size = self.table.row_bytes(source)
        height = self.table.height(source)
        reading = found.firings.readings[0]
        line = staged = made = 0
        for upto, first, after in zip(reading.upto, reading.first, reading.first[1:], strict=False):
            if upto > made:
                made = min(-(-upto // entry) * entry, height)
                batch = made - (made - 1) // entry * entry
                line = max(line, made - batch - first, made - after)
                staged = max(staged, batch)
            else:
                line = max(line, made - after)
        return MoveCost(
            line * size + beside,
            staged * size,
            found.strip_bytes + staged * size,
            found.work,
        )

    def _beside(self, move: Move) -> int:
        """Bytes of tensors that lie whole beside the two ends of a move."""
        inside = {stage.result for stage in move.stages[:-1]}
        names = [
            *sorted(self.course.results & inside),
            *(self.course.others if move.begin == 0 else ()),
        ]
        return sum(self.table.arena_bytes(name) for name in names)

    def apart(self, section: int) -> tuple[Move, int]:
        """Return the layers between a cut and the next one after another, each whole, and the peak.

        The peak is in bytes, of all tensors that are alive while a layer works, the cut's included.
        """
        course, table = self.course, self.table
        first, upto = course.cuts[section] + 1, course.cuts[section + 1] + 1
        layers = course.layers[first:upto]
        last_read = {course.at(section): 0}
        for number, name in enumerate(layers):
            last_read[name] = len(layers) if name in course.results else number
            for source in course.network.layer(name).inputs:
                last_read[source] = max(last_read.get(source, 0), number)
        begun = {name: number for number, name in enumerate(layers)}
        peak = max(
            sum(
                table.arena_bytes(name)
                for name, end in last_read.items()
                if begun.get(name, 0) <= number <= end
            )
            for number in range(len(layers))
        )
        stages = tuple(Stage(layers=(name,), rows=table.height(name)) for name in layers)
        return Move(section, section + 1, stages), peak

    def pace(self, move: Move) -> Pace:
        """Return how far a move is with the tensor it begins with, firing by firing of its result."""
        if move not in self._paces:
            firings = [self.table.geometry(stage).firings for stage in move.stages]
            source = self.course.at(move.begin)
            self._paces[move] = pace_of(firings, source)
        return self._paces[move]


def _work_left(course: Course) -> tuple[int, ...]:
    """Multiply-accumulates behind each cut, nothing done twice."""
    network = course.network
    work = [
        multiply_accumulates(one, network.input_shapes(one))
        for one in map(network.layer, course.layers)
    ]
    return tuple(sum(work[place + 1 :]) for place in course.cuts)


def _best(every: list[tuple[MoveCost, Move]]) -> list[tuple[MoveCost, Move]]:
    """Return the moves that no other move equals or beats in all that counts."""
    kept: list[tuple[MoveCost, Move]] = []
    for cost, move in sorted(every, key=lambda one: (one[0], len(one[1].stages))):
        if not any(all(a <= b for a, b in zip(one, cost, strict=True)) for one, _ in kept):
            kept.append((cost, move))
    return kept


def made_by_rows(name: str, height: int, rows: int) -> Firings:
    """Return the firings of whatever brings a tensor some rows at a time."""
    return Firings(result=name, readings=(), made=(0, *range(rows, height, rows), height))


class OnceMoves(Moves):
    """The moves that compute nothing twice."""

    def from_cut(self, begin: int, entry: int) -> Iterator[Move]:
        """Yield the moves that begin behind a cut whose tensor comes so many rows a batch."""
        for move in super().from_cut(begin, entry):
            if not any(self.table.repeats(stage) for stage in move.stages):
                yield move


class PlainMoves(OnceMoves):
    """The moves of layers on their own, or in pairs, that compute nothing twice: a first answer."""

    longest_stage = 2
    longest_section = 1
