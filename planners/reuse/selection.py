"""Pareto front of plans by the bytes of one arena with offsets, and the point that becomes the plan.

Takes the points of a search and the constraints; gives the front of placed points (`placed_front`) and
the point of the front to execute (`chosen_point`).

The front of a search counts whole buffers. With offsets the points have another order, and the simplest
plans may win: all layers whole in one arena, as any runtime places them, and all layers by parts. They
are always candidates, in addition to the points of the search and the plan with the fewest live bytes.
The front that is printed and the choice count the same bytes, so the choice is on the front. A placed
point is a point whose memory is that of its plan with offsets: the arena and the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random

from csdf.errors import InvalidNetwork
from csdf.time_limit import Budget, Stop, stop_of
from planners.arena.problem import loads
from planners.reuse.application import WHOLE, Application, Chromosome
from planners.reuse.evaluation import Evaluator
from planners.reuse.hill_climbing import least_live
from planners.reuse.placement import tensor_problem
from planners.reuse.problem import (
    Point,
    scored,
    search_problem,
)

SEED = 1  # of the climb for the least live bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Limits that a plan must meet.

    memory: maximum bytes of buffers and weights. throughput: minimum frames per second, by network.
    """

    memory: int | None = None
    throughput: Mapping[str, Fraction] = field(default_factory=dict)

    def check_names(self, application: Application) -> None:
        """Raise InvalidNetwork for a throughput of a network that does not exist."""
        names = [member.name for member in application.members]
        for name in self.throughput:
            if name not in names:
                raise InvalidNetwork(
                    f"application {application.name!r} has no network {name!r}; "
                    f"it has {', '.join(names)}"
                )

    def met_by(self, application: Application, points: Sequence[Point]) -> list[Point]:
        """Return the points that meet the limits, by the memory of the points."""
        rates = [self.throughput.get(member.name, 0) for member in application.members]
        return [
            point
            for point in points
            if (self.memory is None or point.memory <= self.memory)
            and all(time * rate <= 1 for time, rate in zip(point.periods, rates, strict=True))
        ]


def uniform_points(evaluator: Evaluator, rows: Sequence[int]) -> tuple[Point, ...]:
    """Return the point of all layers whole, and for each other allele the point of all layers by it."""
    alleles = tuple(dict.fromkeys((WHOLE, *rows)))
    problem = search_problem(evaluator, alleles)
    chromosomes = (problem.fitted([allele] * len(problem.alleles)) for allele in alleles)
    return tuple(scored(evaluator, chromosome) for chromosome in chromosomes)


def least_points(evaluator: Evaluator, rows: Sequence[int], stop: Stop) -> tuple[Point, ...]:
    """Return the point with the least live bytes, which whole buffers need not show."""
    if stop.is_over():
        return ()
    problem = search_problem(evaluator, tuple(dict.fromkeys((WHOLE, *rows))))
    live = least_live(evaluator, problem, random=Random(SEED), stop=stop)
    return (scored(evaluator, live),)


def placed_front(
    evaluator: Evaluator,
    points: Sequence[Point],
    rows: Sequence[int],
    place: Callable[[Chromosome], int],
    *,
    budget: Budget = None,
) -> tuple[Point, ...]:
    """Return the Pareto front of the points as placed points, by growing memory.

    rows: the alleles; candidates in addition to the points are the uniform points and the point with
    the fewest live bytes. place: the arena bytes of a chromosome. A point is not placed if its live
    bytes, a lower bound for all offsets, are dominated. budget: a stop, or seconds; at its end the
    uniform points are placed, and the points before.
    """
    stop = stop_of(budget)
    uniform = uniform_points(evaluator, rows)
    by_memory = sorted(points, key=lambda point: (point.memory, point.time))
    candidates = list({point.chromosome: point for point in (*uniform, *by_memory)}.values())
    candidates += [
        point for point in least_points(evaluator, rows, stop) if point not in candidates
    ]
    front: list[Point] = []
    for point in candidates:
        if point not in uniform and stop.is_over():
            break
        tensors, _ = tensor_problem(evaluator, evaluator.plan(point.chromosome))
        live = loads((buffer.start, buffer.end, buffer.size) for buffer in tensors.buffers)
        bound = _with_arena(evaluator, point, max(live.values(), default=0))
        if any(_dominates(placed, bound) for placed in front):
            continue
        new = _with_arena(evaluator, point, place(point.chromosome))
        if not any(_dominates(placed, new) for placed in front):
            front = [placed for placed in front if not _dominates(new, placed)] + [new]
    return tuple(sorted(front, key=lambda placed: placed.score))


def _with_arena(evaluator: Evaluator, point: Point, arena_bytes: int) -> Point:
    """The point with the memory of an arena of this many bytes, and of the weights."""
    return replace(point, score=(evaluator.weights + arena_bytes, *point.periods))


def _dominates(first: Point, second: Point) -> bool:
    """Whether no objective of the first is larger; so of two equal points the earlier remains."""
    return all(left <= right for left, right in zip(first.score, second.score, strict=True))


def chosen_point(
    application: Application, front: Sequence[Point], constraints: Constraints
) -> Point | None:
    """Return the point of a placed front to take, None if none meets the constraints.

    front: placed points. Without a limit of memory the smallest that is fast enough is taken; with a
    limit the fastest that fits, by the sum of the periods, since networks take turns. Of equal points
    the first.
    Source: Minakova and Stefanov, TODAES 28(1), 2022, section 5.4 (chapter 6 of the thesis): a
    solution that meets the constraints of the application.
    """
    fitting = constraints.met_by(application, front)
    if constraints.memory is None:
        return min(fitting, key=lambda point: (point.memory, point.time), default=None)
    return min(fitting, key=lambda point: (point.time, point.memory), default=None)
