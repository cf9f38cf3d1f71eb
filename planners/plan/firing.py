"""Demand-driven firing order of the stages of a group, from the demands of the last stage back.

A stage makes its result some rows at a time. It fires when the rows that it needs are available;
otherwise the stage that produces them fires first. So no stage works ahead of those after it, and
little is kept. The order follows from the needs alone: the generated code finds it anew as it runs,
with a counter for each stage. A plan may also give an order of its own: written as turns, and carried
out here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
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
    """Which rows of one tensor each firing of a stage needs, of rows counted from the first.

    upto: one past the last row that has to be there, for each firing; it never falls. first: the
    first row that this firing or a later one needs, for each firing and, as the last entry, after
    the last firing (all rows, then); it never falls either.
    """

    tensor: str
    upto: tuple[int, ...]
    first: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFirings:
    """All firings of one stage.

    made: rows of the result that are there after this many firings, from 0 firings on. numbers: made,
    then upto and first of each reading, one behind the other.
    """

    result: str
    readings: tuple[RowNeeds, ...]
    made: tuple[int, ...]
    numbers: array[int] | list[int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        numbers_all = list(self.made) if self.most_rows > compiler.SAFE else array("q", self.made)
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
        """The most rows of a tensor that are ever counted."""
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
    """Return the firings of whatever brings a tensor some rows at a time."""
    return StageFirings(result=name, readings=(), made=(0, *range(rows, height, rows), height))


class FiringGroup:
    """Stages that fire for one another, each after those whose results it reads.

    A tensor that no stage makes is available from the start. row_bytes, strips: the most of a stage,
    where bytes are to be counted too.
    """

    def __init__(
        self, stages: Sequence[StageFirings], *, row_bytes: int = 1, strips: int = 0
    ) -> None:
        self._stages = stages
        rows = max(stage.most_rows for stage in stages)
        largest = ranges.firing_rows(rows, row_bytes, strips)
        self.backend = compiler.backend(fits=largest <= compiler.SAFE)
        self._maker = {stage.result: place for place, stage in enumerate(stages)}
        self.group = self._group()
        self.total = 0
        self.order = self._order()

    def _group(self) -> Any:
        """The stages as the kernel takes them."""
        numbers = self.backend.array(())
        count, made, reading, maker, upto, first, user = [], [], [0], [], [], [], []
        for place, stage in enumerate(self._stages):
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
                    user.append(place)
                begin += len(needs.upto) + len(needs.first)
            reading.append(len(maker))
        use = sorted(range(len(maker)), key=maker.__getitem__)
        reader = [0]
        for place in range(len(self._stages)):
            reader.append(reader[-1] + maker.count(place))
        make = self.backend.array
        users = tuple(map(make, (reader, use, user, [0] * len(count))))
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

    The last stage that is not done asks; a stage whose needed rows are missing asks the maker of
    the first tensor that lacks rows. Raises InvalidPlan where a tensor never has the rows.
    """
    order: Sequence[int] = FiringGroup(stages).order
    return order


NOTHING = ""  # the result of a stage that only asks for others


def in_step(stages: Sequence[StageFirings]) -> list[StageFirings]:
    """Return stages, and behind several that no other reads one that asks for all of them in step.

    So that each has made about the same part of its result at any time: the last alone would ask
    for its own rows first, and what others need of the same tensors would wait as a whole.
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
    """Return firings as turns: wherever some firings repeat at once, those that cover the most.

    Greedy from the first firing on; of turns that cover as many firings the shortest.
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
    """The length and the times of what repeats from the first number on, and covers the most."""
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


def results_in_order(order: Sequence[Turns]) -> Iterator[str]:
    """Yield the results of the stages that fire, one firing after the other."""
    for turns in order:
        for _ in range(turns.times):
            yield from turns.results
