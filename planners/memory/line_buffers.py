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

import numpy as np

from csdf.kernels import firing_rows as kernel
from planners.plan.firing import FiringGroup, StageFirings, firing_order


class Keeping(Enum):
    """Storage of the result of a stage, as the kernel numbers it."""

    WHOLE = kernel.WHOLE
    RING = kernel.RING
    LINE = kernel.LINE


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
    sizes = [row_bytes[stage.result] for stage in stages]
    group = FiringGroup(stages, row_bytes=max(sizes), strips=max(strips))
    kinds, rows = _kinds_and_rows(group, stages, keeping)
    # The kernel reads the bytes of strips in the first half, and writes transient bytes to the second.
    both = group.backend.array([*strips, *(0 for _ in stages)])
    count = group.backend.kernel(kernel.count_passing)
    row_sizes = group.backend.array(sizes)
    count(group.group, group.order, group.total, kinds, rows, row_sizes, both)
    return _by_result(stages, keeping, rows), tuple(both[len(stages) :])


def kept_places(stages: Sequence[StageFirings], keeping: Mapping[str, Keeping]) -> dict[str, int]:
    """Return the size of each ring and line buffer along one axis: rows, or columns of strips."""
    _, rows = _kinds_and_rows(FiringGroup(stages), stages, keeping)
    return _by_result(stages, keeping, rows)


def _kinds_and_rows(
    group: FiringGroup, stages: Sequence[StageFirings], keeping: Mapping[str, Keeping]
) -> tuple[Any, Any]:
    """The storage kind and the rows of each result, as the kernel encodes them."""
    kinds = group.backend.array([keeping[stage.result].value for stage in stages])
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
    """Rows of a source, and of the result of stages that read it, for each firing of the last stage.

    needed: rows of the source that have to arrive before the firing ends.
    dead: rows of the source that neither this firing nor any later firing reads.
    made: rows of the result after the firing.
    dead_after: dead rows of the source after 0, 1, ... firings.

    Example: a window of three rows with padding over a source of four rows has needed (2, 3, 4, 4),
    dead (0, 0, 1, 2), made (1, 2, 3, 4), and dead_after (0, 0, 1, 2, 4).
    """

    needed: tuple[int, ...]
    dead: tuple[int, ...]
    made: tuple[int, ...]
    dead_after: tuple[int, ...]


def firings_before_last(stages: Sequence[StageFirings]) -> list[list[int]]:
    """Return, for each stage, its firings before each firing of the last stage."""
    order = np.array(firing_order(stages), np.int64)
    positions = [np.flatnonzero(order == index) for index in range(len(stages))]
    return [np.searchsorted(of_stage, positions[-1]).tolist() for of_stage in positions]


def pace_of(stages: Sequence[StageFirings], source: str, fired: Sequence[list[int]]) -> Pace:
    """Return the pace of stages, at least one of which reads the source.

    fired: `firings_before_last` of the stages.
    """
    needed, dead, dead_after = [], [], []
    for stage, counts in zip(stages, fired, strict=True):
        for reading in stage.readings:
            if reading.tensor == source:
                # The last stage itself fires once between the rows before a firing and those after it.
                counts_after = [count + (stage is stages[-1]) for count in counts]
                upto = (0, *reading.upto)
                needed.append([upto[count] for count in counts_after])
                dead.append([reading.first[count] for count in counts])
                dead_after.append([reading.first[count] for count in counts_after])
    return Pace(
        needed=tuple(map(max, zip(*needed, strict=True))),
        dead=tuple(map(min, zip(*dead, strict=True))),
        made=stages[-1].made[1:],
        dead_after=(0, *map(min, zip(*dead_after, strict=True))),
    )


def least_lead(paces: Sequence[Pace], source_row: int, result_row: int) -> int:
    """Return the minimum of input offset minus result offset at which they may overlap.

    The result is below the input: when its rows are written, its end must not exceed the first byte of
    the input that this firing or a later one reads.

    paces: of the moves of the group; each move reads only the tensor that the preceding one produces.
    source_row, result_row: bytes of a row of the input and of the result.
    """
    dead, dead_after = paces[0].dead, paces[0].dead_after
    for pace, reader in pairwise(paces):
        # Before a firing of the reader, the moves up to this pace fire until its rows are made. The
        # rows of the input that are dead then are also dead in the firing of the reader.
        fired = _firings_until(pace.made, reader.needed)
        dead = tuple(map(dead_after.__getitem__, fired))
        dead_after = (0, *dead)
    result_ends = map(mul, paces[-1].made, repeat(result_row))
    dead_ends = map(mul, dead, repeat(source_row))
    lead: int = max(0, *map(sub, result_ends, dead_ends))
    return lead


# Pairs of moves: a group of ten moves has nine, most of them in many groups.
@lru_cache(maxsize=2**14)
def _firings_until(made: tuple[int, ...], needed: tuple[int, ...]) -> tuple[int, ...]:
    """Return, for each number of needed rows, the firings that make them.

    made: rows of the result after each firing. Example: made (2, 4, 5), needed (1, 3, 5): (1, 2, 3).
    """
    return tuple(bisect_left((0, *made), rows) for rows in needed)
