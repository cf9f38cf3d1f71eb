"""The complete storage/throughput front, and the smallest storage for one requirement."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from csdf.analysis.liveness import deadlock
from csdf.errors import CsdfError, GaveUp
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.search.blocks import live_blocks
from csdf.search.exploration import Sufficient
from csdf.search.named_search import NamedSearch, Watch
from csdf.search.named_search import Progress as Progress
from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage
from csdf.search.variables import Choice

EVERYTHING = Choice()


def pareto_front(
    graph: Graph, choice: Choice = EVERYTHING, *, watch: Watch = lambda _: None
) -> ParetoFront:
    """Return all pairs of storage size and period that cannot be improved on.

    Points are found by increasing size, each proved when it is found; the last has the period of
    the unbounded graph. Where nothing limits the unbounded graph (period 0), or where the searched
    capacities alone decide for ever, the front has no end: let `watch` end it.
    watch: called now and then; GaveUp or KeyboardInterrupt from it end the search with what is known.
    Raises InconsistentGraph, InvalidGraph, CsdfError as the arguments deserve.
    Source: Stuijk, Geilen, Basten, IEEE Trans. Computers 57(10), 2008.
    """
    search = NamedSearch(graph, choice, watch)
    best: Fraction | None = None
    reason = "every point was found and proved"
    is_complete = search.best_period is None
    try:
        if not is_complete:
            search.run_ahead()
        while not is_complete:
            found = search.next_point(_better_than(best))
            if found is None:
                is_complete, reason = search.is_exhausted, search.reason
                break
            best = search.add(found)
            is_complete = best == search.best_period
    except (GaveUp, KeyboardInterrupt) as end:
        reason = str(end) or "interrupted"
    if search.best_period is None:
        reason = search.refusal(_better_than(None))
    points = search.points if is_complete else search.proved_points
    return ParetoFront(
        points=tuple(points),
        start=None if points or is_complete else search.started_point(),
        is_complete=is_complete,
        lower_bound=search.lower_bound,
        best_period=search.in_units(search.best_period),
        reason=reason,
        evaluations=search.evaluations,
    )


def smallest_storage(
    graph: Graph,
    choice: Choice = EVERYTHING,
    *,
    period: Exact | None = None,
    watch: Watch = lambda _: None,
) -> SmallestStorage:
    """Return the smallest storage without deadlock, or with at most the given period.

    period: in the units of the user. If the search is ended by `watch`, the smallest sufficient
    distribution found by narrowing one channel after the other is returned, with its gap.
    Raises InconsistentGraph, InvalidGraph, CsdfError as the arguments deserve.
    """
    if period is None:
        return _smallest_live(graph, choice, watch)
    return _smallest_fast(graph, choice, _required(period), watch)


def _required(period: Exact) -> Fraction:
    """The period that a user asks for. Raises CsdfError unless it is exact and above zero."""
    number = exact(period, "period")
    if number <= 0:
        raise CsdfError(f"period {period}; expected more than 0")
    return number


def _smallest_live(graph: Graph, choice: Choice, watch: Watch) -> SmallestStorage:
    """The smallest storage without deadlock, block by block; how long firings take is no matter."""
    search = NamedSearch(graph, choice, watch)
    try:
        if not _is_live(search, watch):
            return search.smallest("infeasible", search.refusal(_fast_enough(None)))
    except (GaveUp, KeyboardInterrupt) as end:
        return search.smallest("gave up", str(end) or "interrupted")
    pieces: list[SmallestStorage] = []
    bound = done = 0
    for block in _untimed_blocks(graph, choice):
        look = _looking_behind(watch, bound, done)
        pieces.append(_smallest_fast(block, _part_of(choice, block), None, look))
        bound, done = bound + pieces[-1].lower_bound, done + pieces[-1].evaluations
    capacities = search.whole_iterations()  # what no piece has narrowed
    for piece in pieces:
        capacities |= {} if piece.point is None else piece.point.capacities
    weakest = next((piece for piece in pieces if piece.status != "optimal"), None)
    return SmallestStorage(
        status="optimal" if weakest is None else "feasible",
        point=search.named_point(capacities, is_ended=weakest is not None),
        lower_bound=sum(piece.lower_bound for piece in pieces),
        reason="no smaller storage suffices" if weakest is None else weakest.reason,
        evaluations=sum(piece.evaluations for piece in pieces),
    )


def _is_live(search: NamedSearch, watch: Watch) -> bool:
    """Whether the graph runs with the capacities that are not searched."""

    def look() -> None:
        watch(Progress(0, search.lower_bound, 0))

    with suppress(GaveUp):
        if search.is_simply_live():
            return True
    try:
        return deadlock(search.bare, watch=look) is None
    except GaveUp:  # too many steps, unless it was the watch, which then ends this too
        look()
        return search.best_period is not None


def _looking_behind(watch: Watch, bound: int, done: int) -> Watch:
    """The watch over one piece, with the bound and the evaluations of those before it."""
    return lambda progress: watch(
        Progress(0, bound + progress.lower_bound, done + progress.evaluations)
    )


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
    """What the choice says about the channels of one piece."""
    names = {channel.name for channel in block.channels}
    return replace(
        choice,
        fixed={name: size for name, size in (choice.fixed or {}).items() if name in names},
        excluded=[name for name in choice.excluded if name in names],
        shared=[group for group in choice.shared if names.issuperset(group)],
    )


def _smallest_fast(
    graph: Graph, choice: Choice, period: Fraction | None, watch: Watch
) -> SmallestStorage:
    search = NamedSearch(graph, choice, watch, only_live=period is None)
    required = None if period is None else period / graph.time_unit
    try:
        is_possible = _fast_enough(required)(search.best_period)
    except (GaveUp, KeyboardInterrupt) as end:
        return search.smallest("gave up", str(end) or "interrupted")
    if not is_possible:
        return search.smallest("infeasible", search.refusal(_fast_enough(required)))
    try:
        found = search.only_point(_fast_enough(required))
    except (GaveUp, KeyboardInterrupt) as end:
        return search.narrowed(_fast_enough(required), str(end) or "interrupted")
    if found is None and not search.is_exhausted:
        return search.narrowed(_fast_enough(required), search.reason)
    if found is None:
        return search.smallest("infeasible", "no capacity of the searched channels suffices")
    search.add(found)
    return search.smallest("optimal", "no smaller storage suffices")


def _fast_enough(required: Fraction | None) -> Sufficient:
    return lambda period: period is not None and (required is None or period <= required)


def _better_than(best: Fraction | None) -> Sufficient:
    return lambda period: period is not None and (best is None or period < best)


def sufficient_capacities(
    graph: Graph, choice: Choice = EVERYTHING, *, period: Exact | None = None
) -> ParetoPoint | None:
    """Return capacities beyond which nothing improves: none can be less, all others being equal.

    They reach the given period, by default that of the graph without bounds. Found by narrowing, in a
    few evaluations a channel; `smallest_storage` may find a smaller sum. None if there are none.
    """
    search = NamedSearch(graph, choice, lambda _: None)
    required = search.best_period if period is None else _required(period) / graph.time_unit
    if search.best_period is None or not required or search.best_period > required:
        return None
    return search.sufficient(_fast_enough(required))
