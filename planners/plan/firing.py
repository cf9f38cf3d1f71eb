"""Demand-driven firing order of the stages of a group, from the demands of the last stage back.

A stage computes its result some rows at a time. It fires when the rows that it needs are available;
otherwise the stage that produces them fires first. So no stage runs ahead of its consumers, and line
buffers stay small. The order follows from the needed rows alone: the generated code derives it at run
time, with a counter for each stage. A plan may also contain an explicit order, run-length encoded as
turns (`turns_of`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cnn2csdf.weights import Array
from csdf.errors import InvalidPlan
from csdf.kernels import compile as compiler
from csdf.kernels import firing_rows as kernel
from csdf.kernels import ranges
from planners.plan.plan import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNeeds:
    """The rows of one tensor that each firing of a stage needs.

    upto: for each firing, one past the last row that it needs; non-decreasing. first: for each firing,
    the first row that this firing or a later firing needs; non-decreasing. Its last entry is for the
    time after the last firing: the number of rows.
    """

    tensor: str
    upto: tuple[int, ...]
    first: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFirings:
    """All firings of one stage.

    made: the number of available rows of the result after each number of firings, from 0 firings on.
    numbers: the concatenation of made and of upto and first of each reading.
    """

    result: str
    readings: tuple[RowNeeds, ...]
    made: tuple[int, ...]
    numbers: array[int] | list[int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        numbers_all = (
            list(self.made) if self.most_rows > compiler.INT64_SUM_LIMIT else array("q", self.made)
        )
        for reading in self.readings:
            numbers_all.extend(reading.upto)
            numbers_all.extend(reading.first)
        object.__setattr__(self, "numbers", numbers_all)

    @property
    def count(self) -> int:
        """Firings for one frame."""
        return len(self.made) - 1

    @property
    def most_rows(self) -> int:
        """The maximum number of rows of a tensor in these counts."""
        return max(
            self.made[-1],
            *(
                rows
                for reading in self.readings
                for rows in (*reading.upto[-1:], reading.first[-1])
            ),
            0,
        )


def made_by_rows(name: str, height: int, rows: int) -> StageFirings:
    """Return the firings of a source that delivers a tensor some rows at a time."""
    return StageFirings(result=name, readings=(), made=(0, *range(rows, height, rows), height))


class FiringGroup:
    """Stages that fire for one another, each after those whose results it reads.

    A tensor that no stage produces is available from the start. row_bytes, strips: their maxima over
    the stages, where bytes are counted as well; they bound the numbers of the kernel.
    """

    def __init__(
        self, stages: Sequence[StageFirings], *, row_bytes: int = 1, strips: int = 0
    ) -> None:
        self._stages = stages
        rows = max(stage.most_rows for stage in stages)
        largest = ranges.largest_in_firing_rows(rows, row_bytes, strips)
        self.backend = compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
        self._maker = {stage.result: place for place, stage in enumerate(stages)}
        self.group = self._group()
        self.total = 0
        self.order = self._order()

    def _group(self) -> Any:
        """The stages as the flat arrays of the kernel.

        By stage: count: firings; made: begin of its rows in `numbers`; reading: begin of its readings;
        reader: begin of its readers in `use`. By reading, stage after stage: maker: producer; user:
        consumer; upto, first: begins in `numbers` of the rows read per firing. use: readings by maker.
        """
        numbers = self.backend.array(())
        count, made, reading, maker, upto, first, user = [], [], [0], [], [], [], []
        for index, stage in enumerate(self._stages):
            begin = len(numbers)
            numbers.extend(stage.numbers)
            count.append(stage.count)
            made.append(begin)
            begin += len(stage.made)
            for needs in stage.readings:
                if needs.tensor in self._maker:
                    maker.append(self._maker[needs.tensor])
                    upto.append(begin)
                    first.append(begin + len(needs.upto))
                    user.append(index)
                begin += len(needs.upto) + len(needs.first)
            reading.append(len(maker))
        use = sorted(range(len(maker)), key=maker.__getitem__)
        reader = [0]
        for index in range(len(self._stages)):
            reader.append(reader[-1] + maker.count(index))
        make = self.backend.array
        fired = [0] * len(count)  # counted by the kernel
        users = tuple(map(make, (reader, use, user, fired)))
        columns = map(make, (count, made, reading, maker, upto, first))
        return self.backend.kernel(kernel.StageReadings)(
            self.backend.view(numbers), *columns, users
        )

    def _order(self) -> Any:
        order = self.backend.blank(sum(stage.count for stage in self._stages))
        self.total = self.backend.kernel(kernel.firing_order)(self.group, order)
        if self.total == kernel.STUCK:
            self._refuse(self.group.lacking)
        return order

    def _refuse(self, lacking: int) -> None:
        inner = (
            (stage, reading)
            for stage in self._stages
            for reading in stage.readings
            if reading.tensor in self._maker
        )
        stage, reading = list(inner)[lacking]
        raise InvalidPlan(
            f"stage {stage.result!r} needs up to {reading.upto[-1]} rows of {reading.tensor!r}, "
            "which has fewer"
        )


def firing_order(stages: Sequence[StageFirings]) -> Sequence[int]:
    """Return the positions of the stages in the order in which they fire, for one frame.

    Demand starts at the last stage that is not finished. A stage with missing input rows passes the
    demand to the producer of the first tensor that lacks rows. Raises InvalidPlan where a tensor never
    has the rows.
    """
    order: Sequence[int] = FiringGroup(stages).order
    return order


NOTHING = ""  # the result of a stage that only asks for others


def in_step(stages: Sequence[StageFirings]) -> list[StageFirings]:
    """Return the stages; with several end stages, followed by a virtual stage that reads them in step.

    An end stage is a stage that no other stage reads. The virtual stage demands about the same fraction
    of each end at any time. Without it the last end would demand all its rows first, and the tensors
    that it shares with the other ends would be kept whole.

    Example: for ends of 4 and 2 rows, the virtual stage fires 4 times and demands up to 1, 2, 3, 4 rows
    of the first end and 1, 1, 2, 2 rows of the second.
    """
    read = {reading.tensor for stage in stages for reading in stage.readings}
    ends = [stage for stage in stages if stage.result not in read]
    if len(ends) == 1:
        return list(stages)
    count = max(stage.made[-1] for stage in ends)
    readings = []
    for stage in ends:
        rows = stage.made[-1]
        upto = tuple(-(-rows * (number + 1) // count) for number in range(count))
        # Each firing waits for the rows up to `upto`, and keeps none of them.
        readings.append(RowNeeds(tensor=stage.result, upto=upto, first=(*upto, rows)))
    return [
        *stages,
        StageFirings(result=NOTHING, readings=tuple(readings), made=(0,) * (count + 1)),
    ]


def order_in_step(stages: Sequence[StageFirings]) -> list[int]:
    """Return the positions of the stages in the order in which they fire, all ends in step."""
    return [place for place in firing_order(in_step(stages)) if place < len(stages)]


LONGEST = 1024  # firings that are looked at as one turn
FEWEST = 4  # firings that turns are written for


def turns_of(results: Sequence[str]) -> tuple[Turns, ...]:
    """Return a firing sequence as turns: repeated blocks of consecutive firings, with their counts.

    Greedy from the first firing on: at each position the block whose immediate repetitions cover the
    most firings, the shortest of several.
    """
    result_numbers = {name: number for number, name in enumerate(dict.fromkeys(results))}
    numbers = np.array([result_numbers[name] for name in results], np.int64)
    turns: list[Turns] = []
    alone: list[str] = []  # firings that have not been found to repeat
    place = 0
    while place < len(results):
        length, times = _repeating(numbers[place:])
        if times == 1:
            alone.append(results[place])
            place += 1
            continue
        if alone:
            turns.append(Turns(times=1, results=tuple(alone)))
            alone = []
        turns.append(Turns(times=times, results=tuple(results[place : place + length])))
        place += length * times
    return (*turns, Turns(times=1, results=tuple(alone))) if alone else tuple(turns)


def _repeating(numbers: Array) -> tuple[int, int]:
    """The length and count of the repeated block at the start that covers the most numbers."""
    best, covered = (1, 1), FEWEST - 1
    for length in range(1, min(len(numbers) // 2, LONGEST) + 1):
        if numbers[length] != numbers[0]:
            continue
        differs = np.flatnonzero(numbers[length:] != numbers[:-length])
        same = int(differs[0]) if len(differs) else len(numbers) - length
        times = same // length + 1
        if times > 1 and times * length > covered:
            best, covered = (length, times), times * length
    return best
