"""Storage search of one graph by the names of its channels.

`NamedSearch` runs an exploration of distributions from the cheapest on, and gives shares of the
evaluations to what may end it earlier or leave an answer after an early stop: an iteration that is
simulated first (live capacities), narrowing of a sufficient distribution, cutting planes, and bounds by
markings. A long exploration is decomposed into parts (`parted_exploration`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from csdf.errors import GaveUp
from csdf.log import Log
from csdf.model.graph import Graph
from csdf.search.exploration import Exploration
from csdf.search.learned_bounds import Sufficient, fast_enough
from csdf.search.least import narrowing
from csdf.search.liveness_bounds.live_bound import live_bounds
from csdf.search.pareto import ParetoPoint, SmallestStorage, StorageWhy, improving
from csdf.search.parted_exploration import PartedExploration, independent_parts
from csdf.search.searched_graph import SearchedGraph
from csdf.search.sequential import SequentialRun, raised
from csdf.search.symmetry import Symmetries
from csdf.search.variables import Distribution, SearchSpace, size_of
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
# The minimum number of channels for cutting planes before the first point of a front; 80 is slower.
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
class _Query:
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
        self._may_decompose = True
        self._symmetries = Symmetries(self.bare, ())
        self.points: list[ParetoPoint] = []
        self._only_live = only_live
        # Live capacities by the simulation of an iteration, and this run until a bound is computed.
        self._live: Distribution | None = None
        self._live_run: SequentialRun | None = None
        self._floor = 0  # lower bound of the size, by markings or cutting planes
        # The smallest sufficient distribution so far, and the narrowing that reduces it next after
        # this number of evaluations.
        self._best: Distribution | None = None
        self._narrowing: Iterator[Distribution | None] | None = None
        self._next_narrowing = 0
        self._query: _Query | None = None
        self._planes: CuttingPlanes | None = None  # of all queries
        self._outlined: dict[Fraction, Distribution] = {}  # by the longest sufficient period

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
        return Exploration(self._evaluator, self._variables, self._share_evaluations)

    def _share_evaluations(self) -> None:
        """Look at the stop, and run each other method for its share of the evaluations."""
        self._look()
        self._step_planes()
        self._decompose()
        self._bound_by_markings()
        self._narrow()

    def _decompose(self) -> None:
        """Leave the search of the whole graph, once, if it has independent parts or symmetries."""
        # The cuts are the evidence of independence: decomposition waits for enough cuts.
        if self.evaluations < PATIENCE or not self._may_decompose:
            return
        self._may_decompose = False
        self._symmetries = Symmetries(self.bare, self._variables)
        parts = independent_parts(len(self._variables), self._exploration.known().joined)
        if len(parts) > 1 or self._symmetries.generators:
            raise _Impatient

    def _narrow(self) -> None:
        """Narrow a sufficient distribution by a step, so that an early stop finds it small."""
        if self._narrowing is not None and self.evaluations >= self._next_narrowing:
            self._best = next(self._narrowing, self._best)
            self._next_narrowing = self.evaluations + SHARE

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

    def _step_planes(self) -> None:
        """Run cutting planes for their share of the evaluations; end if they settle the query."""
        query, variables = self._query, len(self._variables)
        if query is None or variables < PLANES_CHANNELS or self.evaluations < query.planes_after:
            return
        if query.bounds is None:
            self._narrowing = None
            self._planes = self._planes or self._cutting_planes()
            query.bounds = self._planes.bounds(query.is_sufficient, self._best or self._live)
        for bounds in islice(query.bounds, 1 + variables // PLANES_SHARE):
            self._floor = max(self._floor, bounds.lower_bound)
            self._best = self._smallest_of(self._best, bounds.capacities)
            self._end_if_proved()
            if query.limit is not None and self._floor > query.limit:
                raise _TooLarge

    def _bound_by_markings(self) -> None:
        """Compute, once after much work, a lower bound and small live capacities from markings."""
        is_much = self.evaluations * self._evaluator.firings >= MUCH_WORK
        if self._live_run is None or not is_much or self.points:
            return
        run, self._live_run = self._live_run, None
        bound = WIDE * self._exploration.lower_bound
        if self._live is None or size_of(self._variables, self._live) < bound:
            return
        cycles = list(self._evaluator.cycles.values())
        stop = self._stop.part(as_whole=lambda _: self._progress)
        for bounds in live_bounds(run, self._variables, cycles, self._live, stop):
            self._floor, self._live = bounds.lower_bound, bounds.capacities
            if self._only_live:
                self._narrowing = None  # narrowed already
                self._best = self._smallest_of(self._live, self._best)
                self._end_if_proved()
            self._look()

    def _smallest_of(self, *distributions: Distribution | None) -> Distribution | None:
        """Return the first of the smallest distributions; None if all are None."""
        size = partial(size_of, self._variables)
        existing = (capacities for capacities in distributions if capacities is not None)
        return min(existing, key=size, default=None)

    def _end_if_proved(self) -> None:
        """End the query if the best distribution has the size of the lower bound."""
        bound = max(self._exploration.lower_bound, self._floor)
        if self._best is not None and size_of(self._variables, self._best) == bound:
            raise _SmallestProved

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
                self._live = grown
            is_moderate = self._evaluator.firings <= MOST_FIRINGS
            if self._live and is_moderate and copies is None:
                self._live_run = run
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
        self._query = _Query(is_sufficient, limit, planes_after)
        if self.points:
            self._best = None  # sufficient only for earlier points
        while True:
            try:
                return self._exploration.cheapest(is_sufficient, limit)
            except _SmallestProved:
                return self._best
            except _TooLarge:
                return None
            except _Impatient:
                before = self._exploration
                self._exploration = PartedExploration(
                    before, self._variables, self._share_evaluations, self._symmetries
                )

    def only_point(self, is_sufficient: Sufficient) -> Distribution | None:
        """Return the result of `next_point`; if the search is ended, a sufficient distribution.

        A sufficient distribution must exist.
        """
        self.run_ahead()
        if not self._only_live:
            self._live_run = None  # a bound of live capacities is weak if a period is required
        if self._only_live and self._live is not None:
            self._best = self._live
            if size_of(self._variables, self._live) == self._exploration.lower_bound:
                return self._live
        self._narrowing = narrowing(self._evaluator, self._variables, is_sufficient, self._live)
        self._next_narrowing = min(ALONE, LONG_WORK // self._evaluator.firings)
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
        start, best = self._live, self.best_period
        if start is None or not best or len(self._variables) < FRONT_CHANNELS:
            return
        slowest = self._evaluator.evaluate(start).period or best
        # The shortest period first: with the live capacities it bounds the front on both sides.
        for step in range(OUTLINE_PERIODS if best < slowest else 0):
            longest = best + (slowest - best) * step / OUTLINE_PERIODS
            bounds = self._cutting_planes().bounds(fast_enough(longest), start)
            for bound in islice(bounds, OUTLINE_EVALUATIONS):
                if bound.capacities is not None:
                    self._outlined[longest] = bound.capacities

    def unproved_points(self) -> list[ParetoPoint]:
        """Return reached points that no proved point dominates, but undiscovered points may.

        Smallest first, each faster than the one before. The first may have no period, in want of time.
        """
        self._evaluator.hurry()
        proved = self.proved_points
        smallest = self._smallest_of(None if proved else self._live, self._best)
        candidates = [] if smallest is None else [self._quick_point(smallest)]
        with suppress(*ENDS):
            for capacities in self._outlined.values():
                candidates.append(self._point(capacities)[0])
        candidates += self.points[len(proved) :]
        points = improving(candidates, lambda point: (point.size, _period_of(point)))
        if proved:
            points = [point for point in points if _period_of(point) < _period_of(proved[-1])]
        return points

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
        narrowest, evaluator = self._best, self._evaluator
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


def _period_of(point: ParetoPoint) -> Fraction | float:
    """Return the period of a point; infinite if it is unknown."""
    return inf if point.period is None else point.period
