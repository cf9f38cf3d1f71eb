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
from typing import Any, NamedTuple

from csdf.kernels import firing_rows as kernel
from planners.streaming.firing import FiringGroup, Firings


class Keeping(Enum):
    """How the result of a stage is kept."""

    WHOLE = "whole"
    RING = "ring"
    LINE = "line"


KINDS = {Keeping.WHOLE: kernel.WHOLE, Keeping.RING: kernel.RING, Keeping.LINE: kernel.LINE}


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
    """Return what a frame keeps, fired in the order of planners.streaming.firing.

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
    return Kept(rows=_by_result(stages, keeping, rows), passing=tuple(passing[len(stages) :]))


def kept_places(stages: Sequence[Firings], keeping: Mapping[str, Keeping]) -> dict[str, int]:
    """Return the places of each ring and line along one axis: rows, or the columns of strips."""
    return _by_result(stages, keeping, _counted(FiringGroup(stages), stages, keeping)[1])


def _counted(
    group: FiringGroup, stages: Sequence[Firings], keeping: Mapping[str, Keeping]
) -> tuple[Any, Any]:
    """How each result is kept, and its places: all as the kernel has them."""
    kinds = group.backend.array([KINDS[keeping[stage.result]] for stage in stages])
    rows = group.backend.blank(len(stages))
    group.backend.kernel(kernel.count_rows)(group.group, group.order, group.total, kinds, rows)
    return kinds, rows


def _by_result(
    stages: Sequence[Firings], keeping: Mapping[str, Keeping], rows: Sequence[int]
) -> dict[str, int]:
    """The places of the results that do not lie whole."""
    return {
        stage.result: count
        for stage, count in zip(stages, rows, strict=True)
        if keeping[stage.result] is not Keeping.WHOLE
    }
