"""A lower bound for every point of a front: no chromosome as fast as the point is below it.

At least as much as is in use at once is needed, in whole buffers or with offsets. The front of loads is
exact where no two networks run in parallel and segments have few layers. Then a chromosome as fast as
the point has a load no smaller than that of some chromosome of the front that is as fast as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planners.reuse.bounds import memory_bound
from planners.reuse.evaluation import Evaluator
from planners.reuse.load_front import load_front
from planners.reuse.problem import Number, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedPoint:
    """A point, and the bytes that no chromosome of its problem needs less than if it is as fast."""

    point: Point
    lower_bound: int


def bounded_points(
    evaluator: Evaluator, rows: Sequence[int], points: Sequence[Point]
) -> tuple[BoundedPoint, ...]:
    """Return the points with their bounds; the first objective is memory, the others are periods.

    rows: of the parts that a layer may have instead of the whole.
    """
    least = memory_bound(evaluator, (None, *rows))
    unit = evaluator.costs.element_bytes
    # Bytes of weights and load, and the periods, of each chromosome of the front.
    loads = [
        (evaluator.weights + unit * load, evaluator.evaluate(genes)[1:])
        for load, genes in load_front(evaluator, rows)
    ]
    return tuple(
        BoundedPoint(point=point, lower_bound=max(least, _bound(point, loads))) for point in points
    )


def _bound(point: Point, loads: Sequence[tuple[int, tuple[Number, ...]]]) -> int:
    """The least load that is as fast as the point; nothing if no front is exact."""
    limits = point.score[1:]
    return min(
        (
            load
            for load, periods in loads
            if all(own <= limit for own, limit in zip(periods, limits, strict=True))
        ),
        default=0,
    )
