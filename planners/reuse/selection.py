"""Pareto front of plans by the bytes of one arena with offsets, and the point that becomes the plan.

The front of a search counts whole buffers. With offsets the points have another order, and the simplest
plans may win: all layers whole in one arena, as any runtime places them, and all layers by parts. They
are always candidates, in addition to the points of the search and the plan with the fewest live bytes.
The front that is printed and the choice count the same bytes, so the choice is on the front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import NamedTuple

from csdf.errors import InvalidNetwork
from csdf.time_limit import Budget, Stop, stop_of
from planners.arena.problem import loads
from planners.reuse.application import Application
from planners.reuse.evaluation import Evaluator
from planners.reuse.local_search import least_live
from planners.reuse.placement import tensor_places
from planners.reuse.problem import WHOLE, Point, genes_at, score, search_problem

SEED = 1  # of the climb for the least live bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Limits that a plan must meet. memory: bytes at most. throughput: frames a second, by network."""

    memory: int | None = None
    throughput: Mapping[str, Fraction] = field(default_factory=dict)

    def check_names(self, application: Application) -> None:
        """Raise InvalidNetwork if a network it speaks of does not exist."""
        names = [member.name for member in application.members]
        for name in self.throughput:
            if name not in names:
                raise InvalidNetwork(
                    f"application {application.name!r} has no network {name!r}; "
                    f"it has {', '.join(names)}"
                )

    def met_by(self, application: Application, points: Sequence[Point]) -> list[Point]:
        """Return the points that meet them, in whole buffers."""
        names = [member.name for member in application.members]
        nearest_points = []
        for point in points:
            periods = dict(zip(names, point.periods, strict=True))
            if self.memory is None or point.memory <= self.memory:
                if all(periods[name] * rate <= 1 for name, rate in self.throughput.items()):
                    nearest_points.append(point)
        return nearest_points


def uniform_points(evaluator: Evaluator, rows: Sequence[int]) -> tuple[Point, ...]:
    """Return the point of all layers whole, and for each other allele the point of all layers by it."""
    alleles = tuple(dict.fromkeys((WHOLE, *rows)))
    problem = search_problem(evaluator, alleles)
    chromosomes = [problem.fitted([allele] * len(problem.alleles)) for allele in alleles]
    return tuple(
        Point(chromosome=chromosome, score=score(evaluator, chromosome))
        for chromosome in chromosomes
    )


def least_points(evaluator: Evaluator, rows: Sequence[int], stop: Stop) -> tuple[Point, ...]:
    """Return the point with the least live bytes, which whole buffers need not show."""
    if stop.is_over():
        return ()
    problem = search_problem(evaluator, tuple(dict.fromkeys((WHOLE, *rows))))
    live = least_live(evaluator, problem, random=Random(SEED), stop=stop)
    return (Point(chromosome=live, score=score(evaluator, live)),)


class PlacedPoint(NamedTuple):
    """A point and the bytes that its plan needs: arena with offsets, and weights."""

    point: Point
    memory: int

    @property
    def objectives(self) -> tuple[Fraction, ...]:
        """Memory, and seconds a frame of each network; all are minimised."""
        return tuple(map(Fraction, (self.memory, *self.point.periods)))


def placed_front(
    evaluator: Evaluator,
    points: Sequence[Point],
    rows: Sequence[int],
    place: Callable[[Point], int],
    *,
    budget: Budget = None,
) -> tuple[PlacedPoint, ...]:
    """Return the Pareto front of the points by bytes with offsets and periods, by growing memory.

    rows: the alleles; all layers by one of them are candidates beside the points, and so is the plan
    with the least live bytes. place: the arena bytes of a point. A point is not placed where its live
    bytes, which no offsets are below, are dominated. budget: a stop, or seconds; when it ends only
    all layers by one allele are placed, and what was placed before.
    """
    stop = stop_of(budget)
    simple = uniform_points(evaluator, rows)
    nearest = sorted(points, key=lambda point: (point.memory, point.time))
    waiting = list({point.chromosome: point for point in (*simple, *nearest)}.values())
    waiting += [point for point in least_points(evaluator, rows, stop) if point not in waiting]
    front: list[PlacedPoint] = []
    for point in waiting:
        if point not in simple and stop.is_over():
            break
        tensors = tensor_places(evaluator, evaluator.plan(genes_at(point.chromosome))).tensors
        live = loads((buffer.start, buffer.end, buffer.size) for buffer in tensors.buffers)
        bound = PlacedPoint(point, evaluator.weights + max(live.values(), default=0))
        if any(_dominates(placed, bound) for placed in front):
            continue
        placed = PlacedPoint(point, evaluator.weights + place(point))
        if not any(_dominates(placed_point, placed) for placed_point in front):
            front = [
                placed_point for placed_point in front if not _dominates(placed, placed_point)
            ] + [placed]
    return tuple(sorted(front, key=lambda placed: placed.objectives))


def _dominates(first: PlacedPoint, second: PlacedPoint) -> bool:
    """Whether no objective of the first is larger; so of two equal points the earlier remains."""
    pairs = zip(first.objectives, second.objectives, strict=True)
    return all(mine <= theirs for mine, theirs in pairs)


def chosen_point(
    application: Application, front: Sequence[PlacedPoint], constraints: Constraints
) -> PlacedPoint | None:
    """Return the point of a placed front to take, None if none meets the constraints.

    Without a limit of memory the smallest that is fast enough; with a limit the fastest that fits,
    by the sum of the periods, since networks take turns. Of equal points the first.
    Source: Minakova and Stefanov, TODAES 28(1), 2022, section 5.4 (chapter 6 of the thesis): a
    solution that meets the constraints of the application.
    """
    only_speed, most = replace(constraints, memory=None), constraints.memory
    fast = [placed for placed in front if only_speed.met_by(application, [placed.point])]
    if most is None:
        return min(fast, key=lambda placed: (placed.memory, placed.point.time), default=None)
    fitting = [placed for placed in fast if placed.memory <= most]
    return min(fitting, key=lambda placed: (placed.point.time, placed.memory), default=None)
