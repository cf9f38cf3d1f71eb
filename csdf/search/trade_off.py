"""Pareto front of storage size and throughput, and the smallest storage for one period."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from csdf.analysis.bound_channels import why_unlimited
from csdf.analysis.liveness import deadlock
from csdf.arguments import Natural, Positive, public
from csdf.errors import GaveUp, InvalidArgument, counted
from csdf.model.exact import Exact, exact, exact_above_zero
from csdf.model.graph import Graph
from csdf.search.biconnected import live_blocks
from csdf.search.learned_bounds import Sufficient, fast_enough
from csdf.search.named_search import NamedSearch
from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage, StorageWhy
from csdf.search.variables import SearchSpace
from csdf.status import Status, Why, because
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of

EVERYTHING = SearchSpace()


@public
def pareto_front(
    graph: Graph,
    space: SearchSpace = EVERYTHING,
    *,
    budget: Budget = None,
    max_size: Natural | None = None,
    points: Positive | None = None,
    gap: Exact = 0,
) -> ParetoFront:
    """Return the Pareto front of storage size and period.

    Points are found and proved by increasing size; the last has the period of the unbounded graph.
    If the unbounded graph has period 0, the front is infinite: its first 20 points are returned
    unless `max_size` or `points` limit it, and the reason says so. budget: a stop, or seconds; as
    Ctrl-C does, it ends the search with the points so far. max_size, points: limits of the size and
    the number of points. gap: a share such as "5%" or "1/20"; every listed point is on the front,
    and an omitted point is faster than the listed point before it by at most this share.

    Raises InconsistentGraph, InvalidGraph or CsdfError for invalid arguments. Source: Stuijk,
    Geilen, Basten, IEEE Trans. Computers 57(10), 2008.
    """
    extent = extent_of(max_size, points, gap)
    return FrontSearch(
        graph,
        extent,
        stop_of(budget),
        lambda stop: NamedSearch(graph, space, stop),
        unit=space.unit,
    ).front()


@public
def smallest_storage(
    graph: Graph,
    space: SearchSpace = EVERYTHING,
    *,
    period: Exact | None = None,
    budget: Budget = None,
) -> SmallestStorage:
    """Return the smallest storage without deadlock, or with at most the given period.

    period: in the units of the user. budget: a stop, or seconds. If it or Ctrl-C ends the search, the
    smallest sufficient distribution so far is returned, with its gap.

    Raises InconsistentGraph, InvalidGraph or CsdfError for invalid arguments.
    """
    if period is None and space.copies is None:
        return _smallest_live(graph, space, stop_of(budget))
    required = None if period is None else exact_above_zero(period, "period")
    return _smallest_fast(graph, space, required, stop_of(budget))


def _smallest_live(graph: Graph, space: SearchSpace, stop: Stop) -> SmallestStorage:
    """Return the smallest storage without deadlock, block by block; durations do not matter."""
    search = NamedSearch(graph, space, stop)
    try:
        if not _is_live(search, stop):
            return search.smallest(Status.INFEASIBLE, search.refusal(fast_enough(None)))
    except ENDS as end:
        return search.smallest(Status.UNKNOWN, reason_of(end))
    pieces: list[SmallestStorage] = []
    # Each piece reports progress on top of the bound and evaluations of the pieces before.
    bound = done = 0
    for block in _untimed_blocks(graph, space):
        stop_of_piece = _after(stop, bound, done)
        pieces.append(_smallest_fast(block, _part_of(space, block), None, stop_of_piece))
        bound, done = bound + pieces[-1].lower_bound, done + pieces[-1].evaluations
    # Channels outside all pieces get room for a whole iteration, so that they never block.
    capacities = search.whole_iterations()
    for piece in pieces:
        capacities |= {} if piece.point is None else piece.point.capacities
    weakest = next((piece for piece in pieces if piece.status != Status.OPTIMAL), None)
    return SmallestStorage(
        status=Status.OPTIMAL if weakest is None else Status.FEASIBLE,
        point=search.named_point(capacities, is_ended=weakest is not None),
        lower_bound=sum(piece.lower_bound for piece in pieces),
        reason=because(StorageWhy.NO_SMALLER) if weakest is None else weakest.reason,
        evaluations=sum(piece.evaluations for piece in pieces),
    )


def _is_live(search: NamedSearch, stop: Stop) -> bool:
    """Whether the graph is live with the capacities that are not searched."""
    at_begin = Progress(done=0, lower_bound=search.lower_bound)
    with suppress(GaveUp):
        if search.is_simply_live():
            return True
    try:
        return deadlock(search.bare, budget=stop.part(as_whole=lambda _: at_begin)) is None
    except GaveUp:  # too many steps; or the stop, which then also ends the search here
        stop.look(at_begin)
        return search.best_period is not None


def _after(stop: Stop, bound: int, done: int) -> Stop:
    """Return the stop of a block; the bound and evaluations of preceding blocks enter its progress."""

    def as_whole(piece: Progress) -> Progress:
        return Progress(done=done + (piece.done or 0), lower_bound=bound + (piece.lower_bound or 0))

    return stop.part(as_whole=as_whole)


def _untimed_blocks(graph: Graph, space: SearchSpace) -> list[Graph]:
    """Return blocks that are searched separately, with a duration of one for every firing.

    A self-loop with a capacity belongs to every block of its actor, which makes them one block.
    """
    actors = tuple(
        replace(actor, durations=(1,) * actor.phases, processors=()) for actor in graph.actors
    )
    untimed = replace(graph, actors=actors, origin=None)
    counted_channels = {*(space.fixed or {}), *(name for group in space.shared for name in group)}
    if space.with_self_loops or any(graph.channel(name).is_self_loop for name in counted_channels):
        return [untimed]
    return live_blocks(untimed, space.shared)


def _part_of(space: SearchSpace, block: Graph) -> SearchSpace:
    """Return the part of the search space that belongs to the channels of one block."""
    names = {channel.name for channel in block.channels}
    return replace(
        space,
        fixed={name: size for name, size in (space.fixed or {}).items() if name in names},
        excluded=[name for name in space.excluded if name in names],
        shared=[group for group in space.shared if names.issuperset(group)],
    )


def _smallest_fast(
    graph: Graph, space: SearchSpace, period: Fraction | None, stop: Stop
) -> SmallestStorage:
    search = NamedSearch(graph, space, stop, only_live=period is None)
    required = None if period is None else period / graph.time_unit
    try:
        is_possible = fast_enough(required)(search.best_period)
    except ENDS as end:
        return search.smallest(Status.UNKNOWN, reason_of(end))
    if not is_possible:
        return search.smallest(Status.INFEASIBLE, search.refusal(fast_enough(required)))
    try:
        # The search for a single point, with a narrowed answer at hand when the budget ends.
        point = search.only_point(fast_enough(required))
    except ENDS as end:
        # Feasible: the smallest sufficient distribution found by narrowing.
        return search.narrowed(fast_enough(required), reason_of(end))
    if point is None and not search.is_exhausted:
        return search.narrowed(fast_enough(required), search.reason)
    if point is None:
        return search.smallest(Status.INFEASIBLE, because(StorageWhy.NOTHING_SUFFICES))
    search.add(point)
    return search.smallest(Status.OPTIMAL, because(StorageWhy.NO_SMALLER))


@public
def sufficient_capacities(
    graph: Graph,
    space: SearchSpace = EVERYTHING,
    *,
    period: Exact | None = None,
    budget: Budget = None,
) -> ParetoPoint | None:
    """Return capacities that reach a period, in which no single capacity can be reduced.

    period: by default the period of the graph without bounds. The capacities are found by
    narrowing, in a few evaluations per channel; `smallest_storage` may find a smaller sum. None if
    no capacities reach the period. Raises GaveUp if `budget` ends the search.
    """
    search = NamedSearch(graph, space, stop_of(budget))
    required = search.best_period
    if period is not None:
        required = exact_above_zero(period, "period") / graph.time_unit
    if search.best_period is None or required is None or search.best_period > required:
        return None
    # All live capacities reach period 0, or none: more space adds tokens to a cycle, but no time.
    point = search.sufficient(fast_enough(required or None))
    return None if point is None or (not required and point.period) else point


class FrontSearch:
    """Search for the Pareto front of a graph, up to the requested extent.

    search: returns the search for the points, given its stop. unit: unit of the sizes.
    """

    def __init__(
        self,
        graph: Graph,
        extent: Extent,
        stop: Stop,
        search: Callable[[Stop], NamedSearch],
        *,
        unit: str,
    ) -> None:
        self._graph, self._extent, self._unit = graph, extent, unit
        self._is_endless = False
        self._search = search(stop.part(report=self._look))

    def front(self) -> ParetoFront:
        """Return the points that are known when the search ends.

        Raises GaveUp where the period without bounds is not known until then.
        """
        search, gap = self._search, self._extent.gap
        best, is_complete, is_at_limit = search.best_period, False, False
        reason = because(FrontWhy.GAP, gap=gap) if gap else because(StorageWhy.EVERY_POINT)
        try:
            if best is None:
                is_complete, reason = True, search.refusal(_better_than(None, Fraction(1)))
            else:
                # A sequential execution raises the lower bounds before the first point.
                search.run_ahead()
                if not self._extent.is_limited:
                    # Large graphs: sufficient distributions for a few periods between the extremes,
                    # which are listed as unproved points if the search ends early.
                    search.outline()
                is_complete = self._follow()
                reason = reason if is_complete else search.reason
        except ENDS as end:
            reason = reason_of(end)
            is_at_limit = isinstance(end, Reached) and self._extent.is_limited
        if self._is_endless:
            reason = because(FrontWhy.ENDLESS, end=reason, why=why_unlimited(self._graph))
        largest = self._extent.max_size
        points = search.points if is_complete else search.proved_points
        is_ended = is_complete or self._is_endless or (is_at_limit and bool(points))
        return ParetoFront(
            points=tuple(
                search.finished(point)
                for point in points
                if largest is None or point.size <= largest
            ),
            is_complete=is_complete,
            lower_bound=search.lower_bound,
            best_period=search.in_units(best),
            reason=reason,
            evaluations=search.evaluations,
            gap=gap,
            is_at_limit=is_at_limit,
            unproved=() if is_ended else tuple(search.unproved_points()),
            unit=self._unit,
        )

    def _follow(self) -> bool:
        """Find all points; return whether the last point is as fast as the graph without bounds."""
        search, factor = self._search, self._extent.factor
        best: Fraction | None = None
        while True:
            point = search.next_point(_better_than(best, factor))
            if point is None:
                return search.is_exhausted
            best = search.add(point)
            if self._extent.gap:
                best = self._fastest_of_size(search.points[-1].size, best)
            if best is not None and best <= factor * (search.best_period or 0):
                largest = self._extent.max_size
                if largest is not None and search.points[-1].size > largest:
                    raise self._extent.too_large()
                return True
            self._is_endless = not search.best_period

    def _fastest_of_size(self, size: int, period: Fraction | None) -> Fraction | None:
        """Replace the latest point by the fastest of its size; return its period.

        With a gap, the search stops at the first period that is short enough.
        """
        search = self._search
        while True:
            # With a gap the first point of a size need not be its fastest.
            faster = search.next_point(_better_than(period, Fraction(1)), size)
            if faster is None:
                return period
            period = search.add(faster)

    def _look(self, progress: Progress) -> None:
        """End the search if the requested part is complete; an infinite front ends after 20 points."""
        proved = len(self._search.proved_points) if progress.found else 0
        self._extent.look(proved, progress.lower_bound or 0)
        if self._is_endless and not self._extent.is_limited and proved >= FEW:
            raise Reached(because(FrontWhy.FEW, points=counted(FEW, "point")))


def _better_than(best: Fraction | None, factor: Fraction) -> Sufficient:
    return lambda period: period is not None and (best is None or period * factor < best)


FEW = 20  # points of an infinite front, unless the caller limits it


class FrontWhy(Why):
    """The reasons for the end of a front."""

    POINTS = "stopped at the limit of {points}"
    SIZE = "stopped at the limit of size {size}"
    FEW = "ended after {points}"
    ENDLESS = "{end}; the front has no end: {why}"
    GAP = "a left-out point is faster than the listed point before it by at most {gap}"


class Reached(GaveUp):
    """Ends the search when the requested part of the front is complete; no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The requested part of a front.

    max_size: maximum size of a distribution. points: maximum number of points. gap: maximum share
    by which an omitted point is faster than the listed point before it.
    """

    max_size: int | None = None
    points: int | None = None
    gap: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.gap < 0:
            raise InvalidArgument(f"gap {self.gap}; expected at least 0")

    @property
    def is_limited(self) -> bool:
        """Whether the caller limited the size or the number of points."""
        return self.max_size is not None or self.points is not None

    @property
    def factor(self) -> Fraction:
        """Return the largest ratio of a listed period to the minimum period of its size."""
        return 1 + self.gap

    def look(self, points: int, lower_bound: int) -> None:
        """Raise Reached if this number of proved points, or this lower bound, reaches a limit."""
        if self.points is not None and points >= self.points:
            raise Reached(because(FrontWhy.POINTS, points=counted(self.points, "point")))
        if self.max_size is not None and lower_bound > self.max_size:
            raise self.too_large()

    def too_large(self) -> Reached:
        """Return the exception that ends a front at its size limit."""
        return Reached(because(FrontWhy.SIZE, size=self.max_size))


def extent_of(max_size: int | None, points: int | None, gap: Exact) -> Extent:
    """Return the extent; a gap may be a string such as "5%". Raises InvalidArgument."""
    is_percent = isinstance(gap, str) and gap.endswith("%")
    try:
        share = exact(str(gap)[:-1] if is_percent else gap, "gap", InvalidArgument)
    except InvalidArgument as error:
        raise InvalidArgument(f"{error}; expected a text such as '10%' or '1/10'") from None
    share = share / 100 if is_percent else share
    if not is_percent and share > 1:
        raise InvalidArgument(
            f"gap {share} is a share of {100 * share}%; expected at most 1, or a text such as '10%'"
        )
    return Extent(max_size=max_size, points=points, gap=share)
