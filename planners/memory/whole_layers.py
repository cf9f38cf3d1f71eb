"""Plans of layers that work one after another, each whole: no search, offsets that are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planners.memory.making import plan_of
from planners.memory.search.chains import GroupWay, collecting
from planners.memory.search.moves import Move
from planners.streaming.course import Course
from planners.streaming.plan import StreamingPlan
from planners.streaming.stage import Stage
from planners.streaming.stages import StageTable


def whole_layers(
    course: Course, table: StageTable, offsets: Mapping[str, int], *, is_streamed: bool = False
) -> StreamingPlan:
    """Return the plan of layers that work one after another, each whole, at known offsets.

    is_streamed: the input comes row by row, and is collected before the first layer works.
    """
    begun = [collecting(table.arena_bytes(course.at(0)))] if is_streamed else []
    groups = begun + [
        GroupWay(0, 0, cut, cut + 1, (Move(cut, cut + 1, stages),), is_apart=True)
        for cut, stages in enumerate(_stages_apart(course, table))
    ]
    return plan_of(course, table, groups, is_streamed=is_streamed, offsets=offsets)


def _stages_apart(course: Course, table: StageTable) -> Iterator[tuple[Stage, ...]]:
    for before, end in zip(course.cuts, course.cuts[1:], strict=False):
        layers = course.layers[before + 1 : end + 1]
        yield tuple(Stage(layers=(name,), rows=table.height(name)) for name in layers)
