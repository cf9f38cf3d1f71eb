"""Storage search of one graph by names, decomposed into independent subproblems.

Two variables belong to the same part if a cut contains both; variables without a common cut so far
are in different parts. Each part is searched with the capacities of all other parts unlimited. No
sufficient distribution costs less on its channels, so the sum over the parts is a lower bound. If
the optima of all parts suffice together, they are the optimum. Otherwise a critical cycle names the
parts that it joins, and these are merged with all their cuts and bounds. The answer is therefore
exact for any initial partition; in the worst case one part remains. Example: the MP3 decoder by
blocks has two sides without a common cut. Two searches over 5 channels and one over 8 replace a search
over 18.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import islice, pairwise
from math import inf
from typing import TYPE_CHECKING

from csdf.errors import GaveUp
from csdf.log import Log
from csdf.model.graph import Graph
from csdf.search.evaluator import Evaluates, PeriodEvaluation
from csdf.search.exploration import Exploration, Known
from csdf.search.learned_bounds import InsufficientRegion, Sufficient
from csdf.search.least import narrowing
from csdf.search.liveness_bounds.live_bound import live_bounds
from csdf.search.pareto import ParetoPoint, SmallestStorage, StorageWhy, improving
from csdf.search.searched_graph import SearchedGraph
from csdf.search.sequential import SequentialRun, raised
from csdf.search.symmetry import Permutation, Symmetries, evened, within
from csdf.search.variables import Distribution, SearchSpace, Variable, size_of
from csdf.status import Reason, Status, because
from csdf.time_limit import ENDS, Progress, Stop

if TYPE_CHECKING:
    from csdf.search.cutting_planes import Bounds, CuttingPlanes

LOG = Log("csdf.search")

# Narrowing begins in addition to the search after ALONE evaluations, or after evaluations with
# LONG_WORK firings in total. Then each SHARE-th evaluation is for narrowing.
ALONE = 30
LONG_WORK = 1_000_000
SHARE = 4
# The minimum number of channels for cutting planes. A search of fewer channels proves most answers
# before a linear program pays.
PLANES_CHANNELS = 40
# The minimum number of channels for cutting planes before the first point of a front; with 80, fronts
# take longer.
FRONT_CHANNELS = 150
PLANES_WORK = 200_000  # firings evaluated before cutting planes: about the time of loading SciPy
PLANES_SHARE = 10  # variables for each evaluation of cutting planes in a step of the search
PATIENCE = 300  # evaluations before a search is decomposed into parts
# Bounds by markings (`live_bounds`) are computed after evaluations of MUCH_WORK firings in total, if an
# iteration has at most MOST_FIRINGS firings, and the best size is at least WIDE times the lower bound.
MUCH_WORK = 2_000_000
MOST_FIRINGS = 20_000
WIDE = Fraction(21, 20)
LEAST_EFFORT = 50  # evaluations after the stop, so that even a short search has an answer
# The outline of a large front: its number of periods, and the evaluations for each. With 1,000 actors,
# 22 evaluations reach the shortest period, and the others reduce the size. Three times as many reduce
# it by another 0.7%, in 6 s.
OUTLINE_PERIODS = 5
OUTLINE_EVALUATIONS = 40


class _Impatient(Exception):
    """Ends the search of the whole graph, which continues in parts."""


class _SmallestProved(Exception):
    """The present live capacities are proved to be minimal."""


class _TooLarge(Exception):
    """No sufficient distribution is within the limit."""


@dataclass(slots=True)
class _Asked:
    """A query: a test of sufficiency, a limit of the size, and the cutting planes for both.

    planes_after: number of evaluations after which cutting planes are used.
    """

    is_sufficient: Sufficient
    limit: int | None
    planes_after: int
    bounds: Iterator[Bounds] | None = None


class NamedSearch:
    """A storage exploration whose points have the channel names of the graph.

    only_live: periods only state whether a distribution is free of deadlock. During a long search for a
    single point, a sufficient distribution is narrowed in alternation with the search.
    """

    def __init__(
        self, graph: Graph, space: SearchSpace, stop: Stop, *, only_live: bool = False
    ) -> None:
        self._searched = SearchedGraph(graph, space)
        self._variables = self._searched.variables
        self._stop = stop
        self._evaluator = self._searched.evaluator(self._look, only_live=only_live)
        self._exploration: Exploration | PartedExploration = self._explored()
        self._may_part = True
        self._symmetries = Symmetries(self.bare, ())
        self.points: list[ParetoPoint] = []
        self._only_live = only_live
        self._start: Distribution | None = None  # live capacities
        # The run that found the live capacities, until a bound is computed from it.
        self._run: SequentialRun | None = None
        self._floor = 0  # no live capacities have a smaller size
        self._narrowing: Iterator[Distribution | None] | None = None
        self._narrowed: Distribution | None = None
        self._outlined: dict[Fraction, Distribution] = {}  # by the period that each one reaches
        self._turn = 0  # evaluations after which narrowing goes on
        self._planes: CuttingPlanes | None = None
        self._asked: _Asked | None = None

    @property
    def bare(self) -> Graph:
        """The graph with the capacities that are not searched, as channels."""
        return self._evaluator.bare

    @property
    def best_period(self) -> Fraction | None:
        """The period if all searched channels are unbounded; None for a deadlock."""
        nothing: tuple[None, ...] = (None,) * len(self._variables)
        return self._evaluator.evaluate(nothing).period

    def is_simply_live(self) -> bool:
        """See `CapacityEvaluator.is_simply_live`."""
        return self._evaluator.is_simply_live()

    def _explored(self) -> Exploration:
        return Exploration(self._evaluator, self._variables, self._between)

    def _between(self) -> None:
        """Look at the stop and the parts, and give narrowing its share of the evaluations."""
        self._look()
        is_large = len(self._variables) >= PLANES_CHANNELS
        if is_large and self._asked is not None and self.evaluations >= self._asked.planes_after:
            self._planes = self._planes or self._cutting_planes()
            self._step_planes(self._planes, self._asked)
        # Decomposition takes the cuts as evidence of independence,
        # so it waits until there are enough.
        if self.evaluations >= PATIENCE and self._may_part:
            self._may_part = False
            self._symmetries = Symmetries(self.bare, self._variables)
            parts = independent_parts(len(self._variables), self._exploration.known().joined)
            if len(parts) > 1 or self._symmetries.generators:
                raise _Impatient
        is_much = self.evaluations * self._evaluator.firings >= MUCH_WORK
        if self._run is not None and is_much and not self.points:
            self._bound_by_markings(self._run)
        # Interleaving: an early stop finds a sufficient distribution that is already narrowed.
        if self._narrowing is not None and self.evaluations >= self._turn:
            self._narrowed = next(self._narrowing, self._narrowed)
            self._turn = self.evaluations + SHARE

    def _patience_for_planes(self) -> int:
        """Return the number of evaluations after which cutting planes are worth their cost."""
        is_front = self._narrowing is None
        if is_front and (self.points or len(self._variables) < FRONT_CHANNELS):
            # Most points of a front need fewer evaluations after the previous point.
            return PATIENCE
        # The work of an evaluation: all firings once, and a candidate for each channel of a cut.
        return min(PATIENCE, PLANES_WORK // (self._evaluator.firings + len(self._variables) ** 2))

    def _cutting_planes(self) -> CuttingPlanes:
        def seconds() -> float:
            """Return the time limit of one linear program."""
            left = self._stop.seconds_of_all
            return inf if left is None else left

        # Imported here because it loads SciPy.
        planes: type[CuttingPlanes] = import_module("csdf.search.cutting_planes").CuttingPlanes
        return planes(self._evaluator, self._variables, seconds=seconds, look=self._look)

    def _step_planes(self, planes: CuttingPlanes, asked: _Asked) -> None:
        """Run cutting planes for their share of the evaluations; end if they settle the query."""
        if asked.bounds is None:
            self._narrowing = None
            asked.bounds = planes.bounds(asked.is_sufficient, self._narrowed or self._start)
        share = 1 + len(self._variables) // PLANES_SHARE
        for bounds in islice(asked.bounds, share):
            self._floor = max(self._floor, bounds.lower_bound)
            candidates = [
                capacities
                for capacities in (self._narrowed, bounds.capacities)
                if capacities is not None
            ]
            if candidates:
                self._narrowed = min(candidates, key=partial(size_of, self._variables))
                bound = max(self._exploration.lower_bound, self._floor)
                if size_of(self._variables, self._narrowed) == bound:
                    raise _SmallestProved
            if asked.limit is not None and self._floor > asked.limit:
                raise _TooLarge

    def _bound_by_markings(self, run: SequentialRun) -> None:
        """Compute, once, a lower bound and small live capacities from markings."""
        self._run, cycles = None, list(self._evaluator.cycles.values())
        size = partial(size_of, self._variables)
        if self._start is None or size(self._start) < WIDE * self._exploration.lower_bound:
            return
        stop = self._stop.part(as_whole=lambda _: self._progress)
        for bounds in live_bounds(run, self._variables, cycles, self._start, stop):
            self._floor, self._start = bounds.lower_bound, bounds.capacities
            if self._only_live:
                self._narrowing = None  # narrowed already
                self._narrowed = min(self._start, self._narrowed or self._start, key=size)
                if size(self._narrowed) == self.lower_bound - self._searched.fixed_size:
                    raise _SmallestProved
            self._look()

    def _look(self) -> None:
        self._stop.look(self._progress)

    @property
    def _progress(self) -> Progress:
        points = len(self.points)
        return Progress(done=self.evaluations, lower_bound=self.lower_bound, found=points)

    @property
    def lower_bound(self) -> int:
        """Lower bound of the size of all distributions that are not points."""
        return max(self._exploration.lower_bound, self._floor) + self._searched.fixed_size

    @property
    def proved_points(self) -> list[ParetoPoint]:
        """The points, without the last if an equally large distribution may be faster."""
        bound = self.lower_bound
        return [point for point in self.points if point.size < bound]

    @property
    def evaluations(self) -> int:
        """Distributions whose period was computed."""
        return self._evaluator.count

    @property
    def is_exhausted(self) -> bool:
        """Whether every distribution of any size was searched."""
        return self._exploration.is_exhausted

    @property
    def reason(self) -> Reason:
        """Why the search ended by itself."""
        is_full = self._exploration.is_full
        return because(StorageWhy.IS_FULL if is_full else StorageWhy.NO_MORE_POINTS)

    def in_units(self, period: Fraction | None) -> Fraction | None:
        """Return the period in the units of the user."""
        return self._searched.in_units(period)

    def refusal(self, is_sufficient: Sufficient) -> Reason:
        """Return the reason why no distribution suffices."""
        return self._searched.refusal(self.best_period, is_sufficient)

    def run_ahead(self) -> None:
        """Simulate an iteration to get live capacities and larger minimum capacities.

        Live capacities must exist. If the simulation takes too long, only the minimums are raised.
        """
        cycles = list(self._evaluator.cycles.values())
        stop = Stop(report=lambda _: self._look())
        run = SequentialRun(self._evaluator.bare, self._variables, cycles, stop)
        try:
            grown = run.grown([variable.least for variable in self._variables])
            copies = self._searched.space.copies
            if grown and (copies is None or self._evaluator.evaluate(grown).period is not None):
                self._start = grown
            is_moderate = self._evaluator.firings <= MOST_FIRINGS
            if self._start and is_moderate and copies is None:
                self._run = run
        except GaveUp:  # too many steps; or the stop, which then also ends the search here
            self._look()
        finally:
            self._variables = raised(self._variables, run.cuts)
            self._exploration = self._explored()

    def next_point(
        self, is_sufficient: Sufficient, max_size: int | None = None
    ) -> Distribution | None:
        """Return the cheapest sufficient distribution, None if there is none up to the size."""
        limit = None if max_size is None else max_size - self._searched.fixed_size
        planes_after = self.evaluations + self._patience_for_planes()
        self._asked = _Asked(is_sufficient, limit, planes_after)
        if self.points:
            self._narrowed = None  # sufficient only for earlier points
        while True:
            try:
                return self._exploration.cheapest(is_sufficient, limit)
            except _SmallestProved:
                return self._narrowed
            except _TooLarge:
                return None
            except _Impatient:
                before = self._exploration
                self._exploration = PartedExploration(
                    before, self._variables, self._between, self._symmetries
                )

    def only_point(self, is_sufficient: Sufficient) -> Distribution | None:
        """Return the result of `next_point`; if the search is ended, a sufficient distribution.

        A sufficient distribution must exist.
        """
        self.run_ahead()
        if not self._only_live:
            self._run = None  # a bound of live capacities is weak if a period is required
        if self._only_live and self._start is not None:
            self._narrowed = self._start
            if size_of(self._variables, self._start) == self._exploration.lower_bound:
                return self._start
        self._narrowing = narrowing(self._evaluator, self._variables, is_sufficient, self._start)
        self._turn = min(ALONE, LONG_WORK // self._evaluator.firings)
        return self.next_point(is_sufficient)

    def add(self, capacities: Sequence[int]) -> Fraction | None:
        """Store a distribution as a point; it replaces a slower point of equal size.

        Returns its period.
        """
        point, period = self._point(capacities)
        if self.points and self.points[-1].size == point.size:
            self.points.pop()
        self.points.append(point)
        bound, count = self.lower_bound, self.evaluations
        LOG.info("point %s: period %s; %s evaluated, bound %s", point.size, period, count, bound)
        return period

    def finished(self, point: ParetoPoint) -> ParetoPoint:
        """Return a point as it is listed in the front; subclasses compute further fields."""
        return point

    def named_point(self, capacities: Mapping[str, int], *, is_ended: bool) -> ParetoPoint:
        """Return the point of these capacities, by channel; without period if that takes too long.

        is_ended: the stop has ended the search, so it is not consulted here.
        """
        if is_ended:
            self._evaluator.hurry()
        return self._quick_point(self._searched.distribution(capacities))

    def outline(self) -> None:
        """Search capacities for periods between the period of the live capacities and the minimum.

        Used for graphs so large that the proof of the first point takes long.
        """
        start, best = self._start, self.best_period
        if start is None or not best or len(self._variables) < FRONT_CHANNELS:
            return
        slowest = self._evaluator.evaluate(start).period or best
        # The shortest period first: with the live capacities it bounds the front on both sides.
        for step in range(OUTLINE_PERIODS if best < slowest else 0):
            longest = best + (slowest - best) * step / OUTLINE_PERIODS
            bounds = self._cutting_planes().bounds(partial(_is_within, longest), start)
            for bound in islice(bounds, OUTLINE_EVALUATIONS):
                if bound.capacities is not None:
                    self._outlined[longest] = bound.capacities

    def unproved_points(self) -> list[ParetoPoint]:
        """Return reached points that no proved point dominates, but undiscovered points may.

        Smallest first, each faster than the preceding point. The first has no period if its computation
        takes too long.
        """
        self._evaluator.hurry()
        last = self.proved_points[-1:]
        live = [self._narrowed] if last else [self._start, self._narrowed]
        size = partial(size_of, self._variables)
        smallest = min(
            (capacities for capacities in live if capacities is not None), key=size, default=None
        )
        candidates = [] if smallest is None else [self._quick_point(smallest)]
        with suppress(*ENDS):
            for capacities in self._outlined.values():
                candidates.append(self._point(capacities)[0])
        candidates += self.points[len(self.proved_points) :]
        fastest = min((_period_of(point) for point in last), default=inf)
        points = improving(candidates, lambda point: (point.size, _period_of(point)))
        return [point for point in points if not last or _period_of(point) < fastest]

    def whole_iterations(self) -> dict[str, int]:
        """Return capacities, by channel, for which the graph is live if it is live without bounds.

        Each capacity is the initial tokens plus the tokens of one iteration. Then no firing of an
        iteration waits for space, and the iteration restores the tokens of each channel.
        """
        cycles = self._evaluator.cycles
        largest = [
            max(
                variable.least,
                *(
                    channel.initial_tokens + cycles[channel.producer] * sum(channel.production)
                    for channel in variable.channels
                ),
            )
            for variable in self._variables
        ]
        return self._searched.capacities(largest)

    def _quick_point(self, capacities: Sequence[int]) -> ParetoPoint:
        """Return the point of these capacities, without its period if that takes too long."""
        try:
            return self._point(capacities)[0]
        except ENDS:
            return self._searched.point(capacities, None)

    def _point(self, capacities: Sequence[int]) -> tuple[ParetoPoint, Fraction | None]:
        if self._only_live:  # the period is not requested
            return self._searched.point(capacities, None), None
        period = self._evaluator.evaluate(tuple(capacities)).period
        return self._searched.point(capacities, period), period

    def smallest(self, status: Status, reason: Reason) -> SmallestStorage:
        """Return the answer with the latest point."""
        return SmallestStorage(
            status=status,
            point=self.points[-1] if self.points else None,
            lower_bound=self.points[-1].size if status is Status.OPTIMAL else self.lower_bound,
            reason=reason,
            evaluations=self.evaluations,
        )

    def sufficient(self, is_sufficient: Sufficient) -> ParetoPoint | None:
        """Return a sufficient distribution in which no single capacity can be reduced."""
        narrowest = None
        for best in narrowing(self._evaluator, self._variables, is_sufficient):
            self._look()
            narrowest = best
        return None if narrowest is None else self._point(narrowest)[0]

    def narrowed(self, is_sufficient: Sufficient, reason: Reason) -> SmallestStorage:
        """Return the distribution narrowed during the search; without one, narrow one now."""
        narrowest, evaluator = self._narrowed, self._evaluator
        evaluator.hurry()
        if narrowest is None:
            end = evaluator.count + LEAST_EFFORT
            with suppress(*ENDS):  # a second interrupt, or no memory
                for best in narrowing(evaluator, self._variables, is_sufficient):
                    narrowest = best
                    if evaluator.count >= end:
                        break
        if narrowest is None:
            return self.smallest(Status.UNKNOWN, reason)
        self.add(narrowest)
        is_proved = self.points[-1].size == self.lower_bound
        return self.smallest(Status.OPTIMAL if is_proved else Status.FEASIBLE, reason)


def _is_within(longest: Fraction, period: Fraction | None) -> bool:
    """Whether a period is at most the limit."""
    return period is not None and period <= longest


def _period_of(point: ParetoPoint) -> Fraction | float:
    """Return the period of a point; infinite if it is unknown."""
    return inf if point.period is None else point.period


def independent_parts(variables: int, joined: Iterable[Collection[int]]) -> list[list[int]]:
    """Return the connected components of the positions of the variables; each set joins its members."""
    part = [[index] for index in range(variables)]
    for indices in joined:
        for first, index in pairwise(indices):
            if part[index] is not part[first]:
                small, large = sorted((part[index], part[first]), key=len)
                # Union by size: each position moves at most log2(variables) times.
                large += small
                for moved in small:
                    part[moved] = large
    distinct = {id(group): sorted(group) for group in part}
    return sorted(distinct.values())


class _PartEvaluator:
    """The evaluator restricted to some variables; all others are unlimited."""

    def __init__(self, whole: Evaluates, variables: int, indices: Sequence[int]) -> None:
        self._whole = whole
        self._variables = variables
        self._indices = indices
        self._position = {index: position for position, index in enumerate(indices)}

    @property
    def count(self) -> int:
        return self._whole.count

    @property
    def firings(self) -> int:
        return self._whole.firings

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        trial: list[int | None] = [None] * self._variables
        for index, capacity in zip(self._indices, capacities, strict=True):
            trial[index] = capacity
        evaluation = self._whole.evaluate(tuple(trial))
        return PeriodEvaluation(
            evaluation.period,
            tuple(self._position[index] for index in evaluation.holding),
            tuple(cycle.moved(self._position) for cycle in evaluation.cycles),
            tuple((self._position[index], minimum) for index, minimum in evaluation.deep),
        )


class _VariableClass:
    """A part that is searched once for all of its symmetric images.

    images: the positions of the searched variables, then the positions of each image, in equal order.
    """

    def __init__(
        self,
        evaluator: Evaluates,
        variables: Sequence[Variable],
        indices: Sequence[int],
        look: Callable[[], None],
        alike: Iterable[Permutation],
    ) -> None:
        self.images = [list(indices)]
        inner = (within(part, indices) for part in alike)
        self.exploration = Exploration(
            _PartEvaluator(evaluator, len(variables), indices),
            [variables[index] for index in indices],
            look,
            [part for part in inner if part is not None],
        )

    @property
    def lower_bound(self) -> int:
        """Lower bound on the cost of all images together."""
        return len(self.images) * self.exploration.lower_bound

    def learn(self, known: Known) -> None:
        """Learn the cuts and cycles within one image, given by positions of all variables."""
        for image in self.images:
            where = {index: position for position, index in enumerate(image)}
            for cut in known.cuts:
                if cut.limits.keys() <= where.keys():
                    limits = {where[index]: limit for index, limit in cut.limits.items()}
                    self.exploration.learn(InsufficientRegion(limits))
            for cycle in known.cycles:
                if cycle.places <= where.keys():
                    self.exploration.learn_cycle(cycle.moved(where))

    def known(self) -> Known:
        """Return the cuts and cycles of all images, by positions of all variables."""
        exploration = self.exploration
        return Known(
            [
                InsufficientRegion(
                    {image[position]: limit for position, limit in cut.limits.items()}
                )
                for image in self.images
                for cut in exploration.cuts
            ],
            [cycle.moved(image) for image in self.images for cycle in exploration.cycles],
        )


class PartedExploration:
    """An exploration decomposed into parts, with the queries of `Exploration`.

    before: the search whose cuts and lower bound are copied. Its tests of sufficiency were at most as
    strict as the next test.
    """

    def __init__(
        self,
        before: Exploration | PartedExploration,
        variables: Sequence[Variable],
        look: Callable[[], None],
        symmetries: Symmetries,
    ) -> None:
        self.evaluator: Evaluates = before.evaluator
        self._symmetries = symmetries
        self._alike = symmetries.generators
        self._variables = evened(variables, self._alike)
        self._look = look
        self._floor = before.lower_bound
        self._orbits = _orbits(len(variables), self._alike)
        self._parts: list[_VariableClass] = []
        knowledge = before.known()
        for indices in independent_parts(len(variables), knowledge.joined):
            self._take(indices, knowledge)

    def _take(self, indices: Sequence[int], known: Known) -> None:
        """Search these variables as a part, or as an image of a symmetric part."""
        part, image = self._symmetric_part(indices)
        if part is None:
            part = _VariableClass(self.evaluator, self._variables, indices, self._look, self._alike)
            self._parts.append(part)
        else:
            part.images.append(image)
        part.learn(known)

    def _symmetric_part(self, indices: Sequence[int]) -> tuple[_VariableClass | None, list[int]]:
        """Return a part that a symmetry maps to these variables, and its image; or None and []."""
        orbits = sorted(self._orbits[index] for index in indices)
        for part in self._parts if self._alike else ():
            self._look()
            if sorted(self._orbits[index] for index in part.images[0]) != orbits:
                continue
            permutation = self._symmetries.onto(part.images[0], indices)
            if permutation is not None:
                return part, [permutation[index] for index in part.images[0]]
        return None, []

    @property
    def lower_bound(self) -> int:
        """Lower bound of the cost of all distributions that are not returned yet."""
        return max(self._floor, sum(part.lower_bound for part in self._parts))

    @property
    def is_exhausted(self) -> bool:
        """Whether every distribution of any size was searched."""
        return any(part.exploration.is_exhausted for part in self._parts)

    @property
    def is_full(self) -> bool:
        """Whether the queue of a part has reached its memory limit."""
        return any(part.exploration.is_full for part in self._parts)

    def known(self) -> Known:
        """Return the cuts and cycles of all parts."""
        return _together(self._parts)

    def cheapest(
        self, is_sufficient: Sufficient, limit: int | None = None
    ) -> tuple[int, ...] | None:
        """Return the cheapest sufficient distribution; see `Exploration.cheapest`."""
        while True:
            joined = self._joined(is_sufficient, limit)
            if joined is None:
                return None
            evaluation = self.evaluator.evaluate(joined)
            if is_sufficient(evaluation.period):
                return joined
            cut = InsufficientRegion({index: joined[index] for index in evaluation.holding})
            self._learn(cut, Known([cut], list(evaluation.cycles)))

    def _joined(self, is_sufficient: Sufficient, limit: int | None) -> tuple[int, ...] | None:
        """Return the cheapest distributions of all parts, joined; None if a part exceeds its limit.

        The limit of a part is the limit less the lower bounds of the other parts.
        """
        capacities = [0] * len(self._variables)
        for part in self._parts:
            left = None
            if limit is not None:
                elsewhere = sum(
                    sibling.lower_bound for sibling in self._parts if sibling is not part
                )
                left = (limit - elsewhere) // len(part.images)
            cheapest = part.exploration.cheapest(is_sufficient, left)
            if cheapest is None:
                return None
            for image in part.images:
                for index, capacity in zip(image, cheapest, strict=True):
                    capacities[index] = capacity
        return tuple(capacities)

    def _learn(self, cut: InsufficientRegion, new: Known) -> None:
        """Add a cut and its cycles to the part that it touches; if it touches several, merge them."""
        touched = [
            (part, image)
            for part in self._parts
            for image in part.images
            if not cut.limits.keys().isdisjoint(image)
        ]
        if len(touched) == 1:
            touched[0][0].learn(new)
            return
        # Invariant: the bound never falls, although the joined part begins a new queue.
        self._floor = self.lower_bound
        before = _together(list({id(part): part for part, _ in touched}.values()))
        new = Known(before.cuts + new.cuts, before.cycles + new.cycles)
        for part, image in touched:
            part.images.remove(image)
        self._parts = [part for part in self._parts if part.images]
        self._take(sorted(index for _, image in touched for index in image), new)


def _orbits(variables: int, generators: Sequence[Permutation]) -> list[int]:
    """Return the number of the orbit of each variable: the set of its images under symmetries."""
    moves = [move for permutation in generators for move in enumerate(permutation)]
    orbit = [0] * variables
    for number, indices in enumerate(independent_parts(variables, moves)):
        for index in indices:
            orbit[index] = number
    return orbit


def _together(parts: Sequence[_VariableClass]) -> Known:
    """Return the cuts and demands of all parts, by positions of all variables."""
    knowledge = [part.known() for part in parts]
    return Known(
        [cut for source in knowledge for cut in source.cuts],
        [cycle for source in knowledge for cycle in source.cycles],
    )
