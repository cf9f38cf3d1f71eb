"""The complete storage/throughput front, and the smallest storage for one requirement."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from csdf.analysis.liveness import deadlock
from csdf.errors import CsdfError, GaveUp
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.outcome import Status, because
from csdf.search.blocks import live_blocks
from csdf.search.exploration import Sufficient
from csdf.search.extent import extent_of
from csdf.search.front_search import FrontSearch
from csdf.search.named_search import NamedSearch
from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage, StorageWhy
from csdf.search.variables import Choice
from csdf.stopping import ENDS, Budget, Progress, Stop, reason_of, stop_of

EVERYTHING = Choice()


def pareto_front(
    graph: Graph,
    choice: Choice = EVERYTHING,
    *,
    budget: Budget = None,
    max_size: int | None = None,
    points: int | None = None,
    gap: Exact = 0,
) -> ParetoFront:
    """Return all pairs of storage size and period that cannot be improved on.

    Points are found by increasing size, each proved when it is found; the last has the period of
    the unbounded graph. Where nothing limits the unbounded graph (period 0) the front has no end:
    its first 20 points are given, unless `max_size` or `points` say where it is to end, and the
    reason says why there is no end.
    budget: a stop, or seconds; it ends the search with what is known, as Ctrl-C does.
    max_size, points: no larger size, no more points are asked for. gap: a share such as "5%" or
    "1/20"; up to the last point no size has a period that is shorter than listed by more than it.
    Raises InconsistentGraph, InvalidGraph, CsdfError as the arguments deserve.
    Source: Stuijk, Geilen, Basten, IEEE Trans. Computers 57(10), 2008.
    """
    return FrontSearch(graph, choice, stop_of(budget), extent_of(max_size, points, gap)).front()


def smallest_storage(
    graph: Graph,
    choice: Choice = EVERYTHING,
    *,
    period: Exact | None = None,
    budget: Budget = None,
) -> SmallestStorage:
    """Return the smallest storage without deadlock, or with at most the given period.

    period: in the units of the user. budget: a stop, or seconds. If it ends the search, or Ctrl-C does,
    the smallest sufficient distribution found by narrowing one channel after the other is returned,
    with its gap.
    Raises InconsistentGraph, InvalidGraph, CsdfError as the arguments deserve.
    """
    if period is None and choice.copies is None:
        return _smallest_live(graph, choice, stop_of(budget))
    required = None if period is None else _required(period)
    return _smallest_fast(graph, choice, required, stop_of(budget))


def _required(period: Exact) -> Fraction:
    """The period that a user asks for. Raises CsdfError unless it is exact and above zero."""
    number = exact(period, "period")
    if number <= 0:
        raise CsdfError(f"period {period}; expected more than 0")
    return number


def _smallest_live(graph: Graph, choice: Choice, stop: Stop) -> SmallestStorage:
    """The smallest storage without deadlock, block by block; how long firings take is no matter."""
    search = NamedSearch(graph, choice, stop)
    try:
        if not _is_live(search, stop):
            return search.smallest(Status.INFEASIBLE, search.refusal(_fast_enough(None)))
    except ENDS as end:
        return search.smallest(Status.GAVE_UP, reason_of(end))
    pieces: list[SmallestStorage] = []
    bound = done = 0
    for block in _untimed_blocks(graph, choice):
        rest = _behind(stop, bound, done)
        pieces.append(_smallest_fast(block, _part_of(choice, block), None, rest))
        bound, done = bound + pieces[-1].lower_bound, done + pieces[-1].evaluations
    capacities = search.whole_iterations()  # what no piece has narrowed
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
    """Whether the graph runs with the capacities that are not searched."""
    at_begin = Progress(done=0, lower_bound=search.lower_bound)
    with suppress(GaveUp):
        if search.is_simply_live():
            return True
    try:
        return deadlock(search.bare, budget=stop.part(as_whole=lambda _: at_begin)) is None
    except GaveUp:  # too many steps, unless it was the stop, which then ends this too
        stop.look(at_begin)
        return search.best_period is not None


def _behind(stop: Stop, bound: int, done: int) -> Stop:
    """The stop of one piece, with the bound and the evaluations of the pieces before it."""

    def as_whole(piece: Progress) -> Progress:
        return Progress(done=done + (piece.done or 0), lower_bound=bound + (piece.lower_bound or 0))

    return stop.part(as_whole=as_whole)


def _untimed_blocks(graph: Graph, choice: Choice) -> list[Graph]:
    """Pieces that are searched one by one, every firing of one time unit.

    A self-loop that counts would count in every piece that has its actor; then there is one piece.
    """
    actors = tuple(
        replace(actor, durations=(1,) * actor.phases, processors=()) for actor in graph.actors
    )
    untimed = replace(graph, actors=actors, origin=None)
    counted = {*(choice.fixed or {}), *(name for group in choice.shared for name in group)}
    if choice.with_self_loops or any(graph.channel(name).is_self_loop for name in counted):
        return [untimed]
    return live_blocks(untimed, choice.shared)


def _part_of(choice: Choice, block: Graph) -> Choice:
    """Return the part of the choice that is about the channels of one piece."""
    names = {channel.name for channel in block.channels}
    return replace(
        choice,
        fixed={name: size for name, size in (choice.fixed or {}).items() if name in names},
        excluded=[name for name in choice.excluded if name in names],
        shared=[group for group in choice.shared if names.issuperset(group)],
    )


def _smallest_fast(
    graph: Graph, choice: Choice, period: Fraction | None, stop: Stop
) -> SmallestStorage:
    search = NamedSearch(graph, choice, stop, only_live=period is None)
    required = None if period is None else period / graph.time_unit
    try:
        is_possible = _fast_enough(required)(search.best_period)
    except ENDS as end:
        return search.smallest(Status.GAVE_UP, reason_of(end))
    if not is_possible:
        return search.smallest(Status.INFEASIBLE, search.refusal(_fast_enough(required)))
    try:
        found = search.only_point(_fast_enough(required))
    except ENDS as end:
        return search.narrowed(_fast_enough(required), reason_of(end))
    if found is None and not search.is_exhausted:
        return search.narrowed(_fast_enough(required), search.reason)
    if found is None:
        return search.smallest(Status.INFEASIBLE, because(StorageWhy.NOTHING_SUFFICES))
    search.add(found)
    return search.smallest(Status.OPTIMAL, because(StorageWhy.NO_SMALLER))


def _fast_enough(required: Fraction | None) -> Sufficient:
    return lambda period: period is not None and (required is None or period <= required)


def sufficient_capacities(
    graph: Graph, choice: Choice = EVERYTHING, *, period: Exact | None = None, budget: Budget = None
) -> ParetoPoint | None:
    """Return capacities beyond which nothing improves: none can be less, all others being equal.

    They reach the given period, by default that of the graph without bounds. Found by narrowing, in a
    few evaluations a channel; `smallest_storage` may find a smaller sum. None if there are none.
    Raises GaveUp where `budget` ends the work.
    """
    search = NamedSearch(graph, choice, stop_of(budget))
    required = search.best_period if period is None else _required(period) / graph.time_unit
    if search.best_period is None or not required or search.best_period > required:
        return None
    return search.sufficient(_fast_enough(required))
