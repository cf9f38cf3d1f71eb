"""Line-buffer and staging sizes of the tensors of a group, from its firing order.

A result is stored whole or in a line buffer; a strip is a ring with room for all columns that are live
at any time. A line buffer only has room for the rows that outlive the next firing. A batch of rows
that the next firing reads, and for which the line buffer has no room, is staged. When that firing has
released the rows that it used up, the rest of the batch moves into the line buffer. (A staged batch
that no firing ever reads is dropped before the next firing.)

A window of three rows therefore keeps two, and one staging buffer serves all tensors of the group: at
most two batches are staged at a time, the one that a firing reads and the one that it produces. The
module also computes how far the result of a group may overlap its input, as input rows die.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import pairwise, repeat
from operator import mul, sub
from typing import Any, NamedTuple

from csdf.kernels import firing_rows as kernel
from planners.plan.firing import FiringGroup, StageFirings, firing_order


class Keeping(Enum):
    """Storage of the result of a stage."""

    WHOLE = "whole"
    RING = "ring"
    LINE = "line"


KINDS = {Keeping.WHOLE: kernel.WHOLE, Keeping.RING: kernel.RING, Keeping.LINE: kernel.LINE}


KeptRows = tuple[dict[str, int], tuple[int, ...]]
"""Rows of each ring and line buffer of a group; transient bytes of the firings of each stage, at most.

Transient are the strips of a firing, and the batches that it reads from and writes to the staging
buffer.
"""


def kept_rows(
    stages: Sequence[StageFirings],
    row_bytes: Mapping[str, int],
    strips: Sequence[int],
    keeping: Mapping[str, Keeping],
) -> KeptRows:
    """Return the rows and transient bytes of a frame, fired in the order of planners.plan.firing.

    row_bytes: of each result; strips: bytes of the strips of each stage; keeping: of each result.
    """
    most_bytes = max(row_bytes[stage.result] for stage in stages)
    group = FiringGroup(stages, row_bytes=most_bytes, strips=max(strips))
    kinds, rows = _kinds_and_rows(group, stages, keeping)
    make = group.backend.array
    sizes = make([row_bytes[stage.result] for stage in stages])
    # The kernel reads the bytes of strips in the first half, and writes transient bytes to the second.
    strips_and_transient = make([*strips, *(0 for _ in stages)])
    count = group.backend.kernel(kernel.count_passing)
    count(group.group, group.order, group.total, kinds, rows, sizes, strips_and_transient)
    return _by_result(stages, keeping, rows), tuple(strips_and_transient[len(stages) :])


def kept_places(stages: Sequence[StageFirings], keeping: Mapping[str, Keeping]) -> dict[str, int]:
    """Return the size of each ring and line buffer along one axis: rows, or columns of strips."""
    return _by_result(stages, keeping, _kinds_and_rows(FiringGroup(stages), stages, keeping)[1])


def _kinds_and_rows(
    group: FiringGroup, stages: Sequence[StageFirings], keeping: Mapping[str, Keeping]
) -> tuple[Any, Any]:
    """The storage kind and the rows of each result, as the kernel encodes them."""
    kinds = group.backend.array([KINDS[keeping[stage.result]] for stage in stages])
    rows = group.backend.blank(len(stages))
    group.backend.kernel(kernel.count_rows)(group.group, group.order, group.total, kinds, rows)
    return kinds, rows


def _by_result(
    stages: Sequence[StageFirings], keeping: Mapping[str, Keeping], rows: Sequence[int]
) -> dict[str, int]:
    """The rows of the results that are not stored whole."""
    return {
        stage.result: count
        for stage, count in zip(stages, rows, strict=True)
        if keeping[stage.result] is not Keeping.WHOLE
    }


class Pace(NamedTuple):
    """Progress of stages through the tensor that the first of them reads, their source.

    needed: rows of the source that have arrived before each firing of the last stage. dead: rows of
    the source that neither this firing nor any later firing reads. made: rows of the result after each
    firing. dead_after: dead rows after 0, 1, ... firings of the last stage.

    Example: a window of three rows with padding over a source of four rows has needed (2, 3, 4, 4),
    dead (0, 0, 1, 2), made (1, 2, 3, 4), and dead_after (0, 0, 1, 2, 4).
    """

    needed: tuple[int, ...]
    dead: tuple[int, ...]
    made: tuple[int, ...]
    dead_after: tuple[int, ...]


def pace_of(stages: Sequence[StageFirings], source: str) -> Pace:
    """Return the pace of stages in their firing order."""
    fired = [0] * len(stages)
    readers = [
        (index, reading)
        for index, stage in enumerate(stages)
        for reading in stage.readings
        if reading.tensor == source
    ]
    needed, dead, dead_after = [], [], [0]
    arrived, last = 0, len(stages) - 1
    for index in firing_order(stages):
        for reader, reading in readers:
            if reader == index:
                arrived = max(arrived, reading.upto[fired[index]])
        if index == last:
            needed.append(arrived)
            dead.append(min(reading.first[fired[reader]] for reader, reading in readers))
        fired[index] += 1
        if index == last:
            dead_after.append(min(reading.first[fired[reader]] for reader, reading in readers))
    return Pace(tuple(needed), tuple(dead), stages[last].made[1:], tuple(dead_after))


def least_lead(paces: Sequence[Pace], source_row: int, result_row: int) -> int:
    """Return the minimum of input offset minus result offset at which they may overlap.

    paces: of the moves of the group; each move reads only the tensor that the preceding one produces.
    The result is below the input: when its rows are written, its end must not exceed the first byte of
    the input that this firing or a later one reads. source_row, result_row: bytes of a row.
    """
    dead, dead_after = paces[0].dead, paces[0].dead_after
    for before, pace in pairwise(paces):
        # A firing of this move finds the source as the firings of the preceding moves have left it.
        dead = tuple(map(dead_after.__getitem__, _firings_before(before.made, pace.needed)))
        dead_after = (0, *dead)
    result_ends = map(mul, paces[-1].made, repeat(result_row))
    dead_ends = map(mul, dead, repeat(source_row))
    lead: int = max(0, *map(sub, result_ends, dead_ends))
    return lead


# Pairs of moves: a group of ten moves has nine, most of them in many groups.
@lru_cache(maxsize=2**14)
def _firings_before(made: tuple[int, ...], needed: tuple[int, ...]) -> tuple[int, ...]:
    """Return the firings of a stage that precede each firing of the reader of its result.

    made: rows of the result after each firing. needed: rows of it before each firing of the reader.
    """
    return tuple(bisect_left((0, *made), rows) for rows in needed)
