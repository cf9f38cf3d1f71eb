"""Which chromosome becomes the plan, by what it needs with offsets in one arena.

The front of a search counts whole buffers. With offsets another order holds, and the simplest plans may
win: all layers whole in one arena, as any runtime lays them, and all layers by parts. They are always
candidates, beside those points of the front that are nearest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from csdf.errors import GaveUp
from planners.arena.allocation import Progress, plan_arena
from planners.plan import Problem
from planners.reuse.beyond.beyond_search import fitted
from planners.reuse.evaluation import Evaluator
from planners.reuse.evolution.problem import Point
from planners.reuse.search_problem import WHOLE, score, search_problem
from planners.reuse.selection import Demands, selected
from planners.reuse.tensor_places import tensor_places

MOST_ARENAS = 20  # points of a front whose arenas are looked at
PATIENCE = 100  # looks at the search for offsets of one candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A point with offsets. arena: bytes found in some looks; bound: no offsets need less."""

    point: Point
    problem: Problem
    arena: int
    bound: int

    @property
    def time(self) -> Fraction:
        """Seconds of a frame of every network, one after another."""
        return Fraction(sum(self.point.score.objectives[1:]))


def uniform_points(evaluator: Evaluator, rows: Sequence[int]) -> tuple[Point, ...]:
    """Return the point of all layers whole, and for each other allele that of all layers by it."""
    alleles = tuple(dict.fromkeys((WHOLE, *rows)))
    problem = search_problem(evaluator, alleles)
    chromosomes = [fitted(problem, [one] * len(problem.alleles)) for one in alleles]
    return tuple(Point(chromosome=one, score=score(evaluator, one)) for one in chromosomes)


def smallest(
    evaluator: Evaluator, points: Sequence[Point], rows: Sequence[int], demands: Demands
) -> Point | None:
    """Return the point with the smallest arena of those that are fast enough; None if none is.

    rows: the alleles; all layers by one of them are looked at beside the points. What `demands` say of
    memory is not asked.
    """
    best: _Candidate | None = None
    nearest = sorted(_fast(evaluator, points, demands), key=_memory)[:MOST_ARENAS]
    simple = _fast(evaluator, uniform_points(evaluator, rows), demands)
    for found in sorted(_candidates(evaluator, (*nearest, *simple)), key=lambda one: one.bound):
        if best is not None and found.bound >= best.arena:
            break
        refined = _looked_at(found, PATIENCE)
        if best is None or refined.arena < best.arena:
            best = refined
    return None if best is None else best.point


def fastest(
    evaluator: Evaluator, points: Sequence[Point], rows: Sequence[int], demands: Demands
) -> Point | None:
    """Return the fastest point that fits the memory of the demands with offsets; None if none does.

    Of points whose whole buffers are too large only the nearest are looked at, and those of `rows`.
    """
    memory = demands.memory or 0
    room = memory - evaluator.weights
    safe = selected(evaluator.application, points, demands)
    above = [one for one in _fast(evaluator, points, demands) if _memory(one) > memory]
    simple = _fast(evaluator, uniform_points(evaluator, rows), demands)
    chosen = (*sorted(above, key=_memory)[:MOST_ARENAS], *simple, *([safe] if safe else []))
    for found in sorted(_candidates(evaluator, chosen), key=lambda one: (one.time, one.arena)):
        if found.bound <= room and _looked_at(found, PATIENCE).arena <= room:
            return found.point
    return safe


def _memory(point: Point) -> int | Fraction:
    return point.score.objectives[0]


def _fast(evaluator: Evaluator, points: Sequence[Point], demands: Demands) -> list[Point]:
    """The points that reach every throughput demanded."""
    only_speed = replace(demands, memory=None)
    return [one for one in points if selected(evaluator.application, [one], only_speed)]


def _candidates(evaluator: Evaluator, points: Sequence[Point]) -> Iterator[_Candidate]:
    """Each chromosome once, with the arena of a first look."""
    for point in {one.chromosome: one for one in points}.values():
        plan = evaluator.plan(tuple(allele or None for allele in point.chromosome))
        problem = tensor_places(evaluator, plan).tensors
        unseen = _Candidate(point=point, problem=problem, arena=0, bound=0)
        yield _looked_at(unseen, 1)


def _looked_at(candidate: _Candidate, looks: int) -> _Candidate:
    """The candidate with the arena that so many looks find."""
    left = iter(range(looks))

    def watch(_: Progress) -> None:
        if next(left, None) is None:
            raise GaveUp(f"{looks} looks")

    memory = plan_arena(candidate.problem, watch=watch)
    return replace(candidate, arena=memory.peak, bound=memory.lower_bound)
