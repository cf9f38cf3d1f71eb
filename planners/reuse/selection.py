"""Choice of the point of a front that becomes the plan, by what it needs with offsets in one arena.

The front of a search counts whole buffers. With offsets another order holds, and the simplest plans may
win: all layers whole in one arena, as any runtime lays them, and all layers by parts. They are always
candidates, beside those points of the front that are nearest, and the plan with the least live bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import NamedTuple

from csdf.errors import InvalidNetwork
from csdf.time_limit import Budget, Stop, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.problem import Problem
from planners.reuse.application import Application
from planners.reuse.evaluation import Evaluator
from planners.reuse.local_search import least_live
from planners.reuse.placement import tensor_places
from planners.reuse.problem import WHOLE, Point, genes_at, score, search_problem

MOST_ARENAS = 20  # points of a front whose arenas are looked at
SEED = 1  # of the climb for the least live bytes
MOST_STEPS = 100  # of the search for offsets of one candidate


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
        found = []
        for point in points:
            periods = dict(zip(names, point.periods, strict=True))
            if self.memory is None or point.memory <= self.memory:
                if all(periods[name] * rate <= 1 for name, rate in self.throughput.items()):
                    found.append(point)
        return found


def selected(
    application: Application, points: Sequence[Point], constraints: Constraints
) -> Point | None:
    """Return the point to take in whole buffers, None if none meets the constraints.

    Without a limit of memory the smallest that is fast enough; with one the fastest that fits, by
    the sum of the periods, since networks take turns. Of equal ones the first.
    Source: Minakova and Stefanov, TODAES 28(1), 2022, section 5.4 (chapter 6 of the thesis): a
    solution that meets the constraints of the application.
    """
    fitting = constraints.met_by(application, points)
    if constraints.memory is None:
        return min(fitting, key=lambda one: (one.memory, one.time), default=None)
    return min(fitting, key=lambda one: (one.time, one.memory), default=None)


def uniform_points(evaluator: Evaluator, rows: Sequence[int]) -> tuple[Point, ...]:
    """Return the point of all layers whole, and for each other allele that of all layers by it."""
    alleles = tuple(dict.fromkeys((WHOLE, *rows)))
    problem = search_problem(evaluator, alleles)
    chromosomes = [problem.fitted([one] * len(problem.alleles)) for one in alleles]
    return tuple(Point(chromosome=one, score=score(evaluator, one)) for one in chromosomes)


def least_points(evaluator: Evaluator, rows: Sequence[int], stop: Stop) -> tuple[Point, ...]:
    """Return the point with the least live bytes, which whole buffers need not show."""
    if stop.is_over():
        return ()
    problem = search_problem(evaluator, tuple(dict.fromkeys((WHOLE, *rows))))
    found = least_live(evaluator, problem, random=Random(SEED), stop=stop)
    return (Point(chromosome=found, score=score(evaluator, found)),)


class _Candidate(NamedTuple):
    """A point with offsets. arena: bytes found in some steps; bound: no offsets need less."""

    point: Point
    problem: Problem
    arena: int
    bound: int

    def looked_at(self, steps: int, stop: Stop) -> _Candidate:
        """Return the candidate with the arena that so many steps find."""
        memory = plan_arena(self.problem, budget=stop.part(steps=steps))
        return self._replace(arena=memory.peak, bound=memory.lower_bound)


def smallest(
    evaluator: Evaluator,
    points: Sequence[Point],
    rows: Sequence[int],
    constraints: Constraints,
    *,
    budget: Budget = None,
) -> Point | None:
    """Return the point of the smallest arena among those fast enough, of equal ones the fastest.

    None if none is fast enough; what the constraints say of memory is not asked. rows: the alleles; all
    layers by one of them are looked at beside the points. budget: a stop, or seconds; it ends the
    search with the best by then.
    """
    stop = stop_of(budget)
    only_speed = replace(constraints, memory=None)
    nearest = sorted(only_speed.met_by(evaluator.application, points), key=lambda one: one.memory)
    least = only_speed.met_by(evaluator.application, least_points(evaluator, rows, stop))
    candidates = _candidates(evaluator, [*least, *nearest[:MOST_ARENAS]], rows, only_speed, stop)
    best: _Candidate | None = None
    for found in sorted(candidates, key=lambda one: (one.bound, one.point.time)):
        if best is not None and found.bound >= best.arena:
            break
        refined = found.looked_at(MOST_STEPS, stop)
        if best is None or refined.arena < best.arena:
            best = refined
    return None if best is None else best.point


def fastest(
    evaluator: Evaluator,
    points: Sequence[Point],
    rows: Sequence[int],
    constraints: Constraints,
    *,
    budget: Budget = None,
) -> Point | None:
    """Return the fastest point that fits the memory with offsets; None if none does.

    Of points whose whole buffers are too large only the nearest are looked at, and those of `rows`.
    budget: as in `smallest`.
    """
    stop = stop_of(budget)
    memory = constraints.memory or 0
    room = memory - evaluator.weights
    safe = selected(evaluator.application, points, constraints)
    only_speed = replace(constraints, memory=None)
    fast = only_speed.met_by(evaluator.application, points)
    above = sorted((one for one in fast if one.memory > memory), key=lambda one: one.memory)
    least = only_speed.met_by(evaluator.application, least_points(evaluator, rows, stop))
    nearest = [*([safe] if safe else []), *above[:MOST_ARENAS], *least]
    candidates = _candidates(evaluator, nearest, rows, only_speed, stop)
    for found in sorted(candidates, key=lambda one: (one.point.time, one.arena)):
        if found.bound <= room and found.looked_at(MOST_STEPS, stop).arena <= room:
            return found.point
    return safe


def _candidates(
    evaluator: Evaluator,
    nearest: Sequence[Point],
    rows: Sequence[int],
    only_speed: Constraints,
    stop: Stop,
) -> Iterator[_Candidate]:
    """Each chromosome once, with the arena of a first look; the simple ones even without time."""
    simple = only_speed.met_by(evaluator.application, uniform_points(evaluator, rows))
    for point in {one.chromosome: one for one in (*simple, *nearest)}.values():
        if point not in simple and stop.is_over():
            return
        plan = evaluator.plan(genes_at(point.chromosome))
        problem = tensor_places(evaluator, plan).tensors
        yield _Candidate(point, problem, 0, 0).looked_at(1, stop)
