"""How much of each tensor stays while the stages of a group fire, and how much comes and goes.

A result lies whole, or in a line; a strip is a ring, with room for all columns that are ever there.
A line only has room for the rows that outlive the next firing: a batch of rows that the next firing
reads, and for which the line has no room, is staged; when that firing has released what it used up,
the rest of the batch moves into the line. (A staged batch that the next firing does not read, because
nothing ever reads it, is dropped before.) A window of three rows so keeps two, and one staging place
serves all tensors of the group: at most two batches are staged at a time, the one that a firing
reads and the one that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from planners.streaming.firing import Firings, firing_order


class Keeping(Enum):
    """How the result of a stage is kept."""

    WHOLE = "whole"
    RING = "ring"
    LINE = "line"


class Kept(NamedTuple):
    """The rows that the firings of a group keep.

    rows: rows of each ring and line. passing: for each stage the most bytes that come and go with
    one of its firings: its strips, and the batches that it reads from and writes to the staging
    place.
    """

    rows: Mapping[str, int]
    passing: tuple[int, ...]


def kept_rows(
    stages: Sequence[Firings],
    row_bytes: Mapping[str, int],
    strips: Sequence[int],
    keeping: Mapping[str, Keeping],
) -> Kept:
    """Return what a frame keeps, fired in the order of firing_order.

    row_bytes: of each result; strips: bytes of the strips of each stage; keeping: of each result.
    """
    order = list(firing_order(stages))
    rows = _places(stages, order, keeping)
    return Kept(rows=rows, passing=_passing(stages, order, rows, row_bytes, strips))


def kept_places(stages: Sequence[Firings], keeping: Mapping[str, Keeping]) -> dict[str, int]:
    """Return the places of each ring and line along one axis: rows, or the columns of strips."""
    return _places(stages, list(firing_order(stages)), keeping)


def _places(
    stages: Sequence[Firings], order: Sequence[int], keeping: Mapping[str, Keeping]
) -> dict[str, int]:
    """All places that are ever there in a ring; in a line those that outlive the next firing."""
    counts = _Counts(stages)
    rows = {stage.result: 0 for stage in stages if keeping[stage.result] is not Keeping.WHOLE}
    waits: str | None = None  # result whose last batch is read by the next firing
    for event, place in enumerate(order):
        result = stages[place].result
        batch = counts.next_batch(place)
        if keeping[result] is Keeping.RING:
            rows[result] = max(rows[result], counts.alive(result) + batch)
        counts.fire(place)
        if waits is not None:
            rows[waits] = max(rows[waits], counts.alive(waits))
        waits = None
        if keeping[result] is Keeping.LINE:
            if event + 1 < len(order) and counts.reads(order[event + 1], result):
                waits = result
            else:
                rows[result] = max(rows[result], counts.alive(result))
    return rows


def _passing(
    stages: Sequence[Firings],
    order: Sequence[int],
    rows: Mapping[str, int],
    row_bytes: Mapping[str, int],
    strips: Sequence[int],
) -> tuple[int, ...]:
    """Bytes that come and go with the firings of each stage, where a line has no room."""
    counts = _Counts(stages)
    passing = [0] * len(stages)
    staged: tuple[str, int] | None = None  # what the firing before has staged: result, bytes
    for place in order:
        result = stages[place].result
        moving = strips[place]
        if staged is not None and counts.reads(place, staged[0]):
            moving += staged[1]
        batch = counts.next_batch(place)
        staged = None
        if result in rows and batch and counts.alive(result) + batch > rows[result]:
            staged = result, batch * row_bytes[result]
            moving += staged[1]
        passing[place] = max(passing[place], moving)
        counts.fire(place)
    return tuple(passing)


class _Counts:
    """Rows made and rows released of each result, as the stages fire."""

    def __init__(self, stages: Sequence[Firings]) -> None:
        self._stages = stages
        self._fired = [0] * len(stages)
        self._made = {stage.result: 0 for stage in stages}
        self._released: dict[str, dict[str, int]] = {stage.result: {} for stage in stages}
        for stage in stages:
            for reading in stage.readings:
                if reading.tensor in self._released:
                    self._released[reading.tensor][stage.result] = reading.first[0]

    def next_batch(self, place: int) -> int:
        """Rows that the next firing of a stage makes."""
        made, fired = self._stages[place].made, self._fired[place]
        return made[fired + 1] - made[fired]

    def reads(self, place: int, tensor: str) -> bool:
        """Whether a stage reads a tensor."""
        return any(reading.tensor == tensor for reading in self._stages[place].readings)

    def alive(self, tensor: str) -> int:
        """Rows of a tensor that are made and still needed."""
        made = self._made[tensor]
        return made - min(min(self._released[tensor].values(), default=made), made)

    def fire(self, place: int) -> None:
        """Count a firing."""
        stage = self._stages[place]
        self._fired[place] += 1
        self._made[stage.result] = stage.made[self._fired[place]]
        for reading in stage.readings:
            if reading.tensor in self._released:
                self._released[reading.tensor][stage.result] = reading.first[self._fired[place]]
