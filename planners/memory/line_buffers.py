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
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import pairwise, repeat
from operator import itemgetter, mul, sub
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
    kinds, rows = _counted(group, stages, keeping)
    make = group.backend.array
    sizes = make([row_bytes[stage.result] for stage in stages])
    passing = make([*strips, *(0 for _ in stages)])
    count = group.backend.kernel(kernel.count_passing)
    count(group.group, group.order, group.total, kinds, rows, sizes, passing)
    return _by_result(stages, keeping, rows), tuple(passing[len(stages) :])


def kept_places(stages: Sequence[StageFirings], keeping: Mapping[str, Keeping]) -> dict[str, int]:
    """Return the size of each ring and line buffer along one axis: rows, or columns of strips."""
    return _by_result(stages, keeping, _counted(FiringGroup(stages), stages, keeping)[1])


def _counted(
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
    """Progress of stages through the tensor that the first of them reads.

    For each firing of the last stage: needed, the rows that have arrived before it; dead, the rows
    that neither this firing nor any later one reads; and made, the rows of the result after it. over:
    dead rows after each firing, beginning with the state before the first.
    """

    needed: tuple[int, ...]
    dead: tuple[int, ...]
    made: tuple[int, ...]
    over: tuple[int, ...]


def pace_of(stages: Sequence[StageFirings], source: str) -> Pace:
    """Return the pace of stages in their firing order."""
    fired = [0] * len(stages)
    readers = [
        (place, reading)
        for place, stage in enumerate(stages)
        for reading in stage.readings
        if reading.tensor == source
    ]
    needed, dead, over = [0], [], [0]
    last = len(stages) - 1
    for place in firing_order(stages):
        for reader, reading in readers:
            if reader == place:
                needed[-1] = max(needed[-1], reading.upto[fired[place]])
        if place == last:
            dead.append(min(reading.first[fired[reader]] for reader, reading in readers))
            needed.append(needed[-1])
        fired[place] += 1
        if place == last:
            over.append(min(reading.first[fired[reader]] for reader, reading in readers))
    return Pace(tuple(needed[:-1]), tuple(dead), stages[last].made[1:], tuple(over))


def least_lead(paces: Sequence[Pace], source_row: int, result_row: int) -> int:
    """Return the minimum of input offset minus result offset at which they may overlap.

    paces: of the moves of the group; each move reads only the tensor that the preceding one produces.
    The result is below the input: when its rows are written, its end must not exceed the first byte of
    the input that this firing or a later one reads. source_row, result_row: bytes of a row.
    """
    dead, over = paces[0].dead, paces[0].over
    for before, pace in pairwise(paces):
        dead = _rows_at(before.made, pace.needed)(over)
        over = (0, *dead)
    tops = map(mul, paces[-1].made, repeat(result_row))
    bottoms = map(mul, dead, repeat(source_row))
    lead: int = max(0, *map(sub, tops, bottoms))
    return lead


@lru_cache(
    maxsize=2**14
)  # pairs of moves; a group of ten moves has nine, most of them in many groups
def _rows_at(made: tuple[int, ...], needed: tuple[int, ...]) -> Callable[..., tuple[int, ...]]:
    """Return a function that selects, from values after each firing, those at which rows are complete.

    made: rows of a tensor after each firing; needed: rows of it, as its reader fires.
    """
    firings = [bisect_left((0, *made), rows) for rows in needed]
    if len(firings) == 1:
        return itemgetter(slice(firings[0], firings[0] + 1))
    return itemgetter(*firings)
