"""Which chromosome becomes the plan, by what it needs with offsets in one arena.

The front of a search counts whole buffers. With offsets another order holds, and the simplest plans may
win: all layers whole in one arena, as any runtime lays them, and all layers by parts. They are always
candidates, beside those points of the front that are nearest, and the plan with the least in use
together.

Which point of a front to take: the rule of the methodology, with the limits of its user.

Source: Minakova and Stefanov, TODAES 28(1), 2022, section 5.4 (chapter 6 of the thesis): a solution
that meets the constraints of the application.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from random import Random

from csdf.errors import InvalidNetwork
from csdf.time_limit import Budget, Stop, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.problem import Problem
from planners.reuse.application.application import Application
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.cost.offset_problem import tensor_places
from planners.reuse.front.guided.beyond_search import fitted, least_in_use
from planners.reuse.front.problem import Point
from planners.reuse.front.search_problem import WHOLE, score, search_problem

MOST_ARENAS = 20  # points of a front whose arenas are looked at
SEED = 1  # of the climb for the least in use together
MOST_STEPS = 100  # of the search for offsets of one candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A point with offsets. arena: bytes found in some steps; bound: no offsets need less."""

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


def least_points(evaluator: Evaluator, rows: Sequence[int], stop: Stop) -> tuple[Point, ...]:
    """Return the point with the least in use together, which whole buffers need not show."""
    problem = search_problem(evaluator, tuple(dict.fromkeys((WHOLE, *rows))))
    if stop.is_over():
        return ()
    found = least_in_use(evaluator, problem, random=Random(SEED), stop=stop)
    return (Point(chromosome=found, score=score(evaluator, found)),)


def smallest(
    evaluator: Evaluator,
    points: Sequence[Point],
    rows: Sequence[int],
    demands: Demands,
    *,
    budget: Budget = None,
) -> Point | None:
    """Return the point of the smallest arena among those fast enough, of equal ones the fastest.

    None if none is fast enough; what `demands` say of memory is not asked. rows: the alleles; all
    layers by one of them are looked at beside the points. budget: a stop, or seconds; it ends the
    search with the best by then.
    """
    stop = stop_of(budget)
    best: _Candidate | None = None
    nearest = sorted(_fast(evaluator, points, demands), key=_memory)[:MOST_ARENAS]
    simple = _fast(evaluator, uniform_points(evaluator, rows), demands)
    nearest = [*_fast(evaluator, least_points(evaluator, rows, stop), demands), *nearest]
    candidates = list(_candidates(evaluator, simple, nearest, stop))
    for found in sorted(candidates, key=lambda one: (one.bound, one.time)):
        if best is not None and found.bound >= best.arena:
            break
        refined = _looked_at(found, MOST_STEPS, stop)
        if best is None or refined.arena < best.arena:
            best = refined
    return None if best is None else best.point


def fastest(
    evaluator: Evaluator,
    points: Sequence[Point],
    rows: Sequence[int],
    demands: Demands,
    *,
    budget: Budget = None,
) -> Point | None:
    """Return the fastest point that fits the memory of the demands with offsets; None if none does.

    Of points whose whole buffers are too large only the nearest are looked at, and those of `rows`.
    budget: as in `smallest`.
    """
    stop = stop_of(budget)
    memory = demands.memory or 0
    room = memory - evaluator.weights
    safe = selected(evaluator.application, points, demands)
    above = [one for one in _fast(evaluator, points, demands) if _memory(one) > memory]
    nearest = [*([safe] if safe else []), *sorted(above, key=_memory)[:MOST_ARENAS]]
    simple = _fast(evaluator, uniform_points(evaluator, rows), demands)
    nearest += _fast(evaluator, least_points(evaluator, rows, stop), demands)
    candidates = list(_candidates(evaluator, simple, nearest, stop))
    for found in sorted(candidates, key=lambda one: (one.time, one.arena)):
        if found.bound <= room and _looked_at(found, MOST_STEPS, stop).arena <= room:
            return found.point
    return safe


def _memory(point: Point) -> int | Fraction:
    return point.score.objectives[0]


def _fast(evaluator: Evaluator, points: Sequence[Point], demands: Demands) -> list[Point]:
    """The points that reach every throughput demanded."""
    only_speed = replace(demands, memory=None)
    return [one for one in points if selected(evaluator.application, [one], only_speed)]


def _candidates(
    evaluator: Evaluator, simple: Sequence[Point], nearest: Sequence[Point], stop: Stop
) -> Iterator[_Candidate]:
    """Each chromosome once, with the arena of a first look; the simple ones even without time."""
    for point in {one.chromosome: one for one in (*simple, *nearest)}.values():
        if point not in simple and stop.is_over():
            return
        plan = evaluator.plan(tuple(allele or None for allele in point.chromosome))
        problem = tensor_places(evaluator, plan).tensors
        unseen = _Candidate(point=point, problem=problem, arena=0, bound=0)
        yield _looked_at(unseen, 1, stop)


def _looked_at(candidate: _Candidate, steps: int, stop: Stop) -> _Candidate:
    """The candidate with the arena that so many steps find."""
    memory = plan_arena(candidate.problem, budget=stop.part(steps=steps))
    return replace(candidate, arena=memory.peak, bound=memory.lower_bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The demands on a plan. memory: bytes at most. throughput: frames a second, by network."""

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


def selected(application: Application, points: Sequence[Point], demands: Demands) -> Point | None:
    """Return the point to take, None if none meets the demands.

    Without a limit of memory the smallest that is fast enough; with one the fastest that fits, by
    the sum of the periods, since networks take turns. Of equal ones the first.
    """
    names = [member.name for member in application.members]
    fitting = [point for point in points if _meets(names, point, demands)]
    if not fitting:
        return None
    if demands.memory is None:
        return min(fitting, key=lambda point: (_memory(point), _time(point)))
    return min(fitting, key=lambda point: (_time(point), _memory(point)))


class Chosen(Enum):
    """By which step of Algorithm 9 a point was taken."""

    AT_ONCE = "all layers whole, with Algorithm 8's buffers, meet the memory: nothing was searched"
    LEAST_FEASIBLE = "the least memory of all that meet the demands"
    LEAST = "nothing found meets the demands; the least memory of all, as the algorithm says"


def selected_as_published(
    application: Application, whole: Point, points: Sequence[Point], demands: Demands
) -> tuple[Point, Chosen]:
    """Return the point that Algorithm 9 takes, and by which step; there always is one.

    whole: all layers whole, which is taken without a look at throughput where its memory is enough.
    Else the least memory of the points that meet the demands, or of all points if none does. Table
    6.6 of the thesis has rows that were chosen in another way: see `selected`.
    """
    if demands.memory is not None and _memory(whole) <= demands.memory:
        return whole, Chosen.AT_ONCE
    names = [member.name for member in application.members]
    feasible = [point for point in points if _meets(names, point, demands)]
    step = Chosen.LEAST_FEASIBLE if feasible else Chosen.LEAST
    return min(feasible or points, key=lambda point: (_memory(point), _time(point))), step


def _meets(names: Sequence[str], point: Point, demands: Demands) -> bool:
    if demands.memory is not None and _memory(point) > demands.memory:
        return False
    periods = dict(zip(names, point.score.objectives[1:], strict=True))
    return all(periods[name] * rate <= 1 for name, rate in demands.throughput.items())


def _time(point: Point) -> int | Fraction:
    return sum(point.score.objectives[1:], start=Fraction(0))
