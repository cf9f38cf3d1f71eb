"""The complete storage/throughput front, and the smallest storage for one requirement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from csdf.errors import CsdfError, GaveUp
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.search.blocks import live_blocks
from csdf.search.evaluator import Evaluator
from csdf.search.exploration import Exploration, Sufficient
from csdf.search.narrowing import sufficient_distribution
from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage
from csdf.search.refusals import refusal
from csdf.search.variables import Choice, prepared

EVERYTHING = Choice()
LEAST_EFFORT = 50  # distributions to evaluate after the end of a search, to have any answer


class Progress(NamedTuple):
    """How far a search has come."""

    points: int
    lower_bound: int  # size below which nothing is missing
    evaluations: int


Watch = Callable[[Progress], None]


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
    search = _Search(graph, choice, watch)
    best: Fraction | None = None
    reason = "every point was found and proved"
    is_complete = search.best_period is None
    try:
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
    return ParetoFront(
        points=tuple(search.points if is_complete else search.proved_points),
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
    search = _Search(graph, choice, watch)
    if search.best_period is None:
        return search.smallest("infeasible", search.refusal(_fast_enough(None)))
    pieces: list[SmallestStorage] = []
    bound = done = 0
    for block in _untimed_blocks(graph, choice):
        look = _looking_behind(watch, bound, done)
        pieces.append(_smallest_fast(block, _part_of(choice, block), None, look))
        bound, done = bound + pieces[-1].lower_bound, done + pieces[-1].evaluations
        if pieces[-1].point is None:
            return replace(pieces[-1], lower_bound=sum(piece.lower_bound for piece in pieces))
    capacities = {
        name: capacity
        for piece in pieces
        if piece.point is not None
        for name, capacity in piece.point.capacities.items()
    }
    weakest = next((piece for piece in pieces if piece.status != "optimal"), None)
    return SmallestStorage(
        status="optimal" if weakest is None else weakest.status,
        point=search.named_point(capacities),
        lower_bound=sum(piece.lower_bound for piece in pieces),
        reason="no smaller storage suffices" if weakest is None else weakest.reason,
        evaluations=sum(piece.evaluations for piece in pieces),
    )


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
    search = _Search(graph, choice, watch)
    required = None if period is None else period / graph.time_unit
    if not _fast_enough(required)(search.best_period):
        return search.smallest("infeasible", search.refusal(_fast_enough(required)))
    try:
        found = search.next_point(_fast_enough(required))
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
    search = _Search(graph, choice, lambda _: None)
    required = search.best_period if period is None else _required(period) / graph.time_unit
    if search.best_period is None or not required or search.best_period > required:
        return None
    return search.sufficient(_fast_enough(required))


class _Search:
    """One exploration, its points by the names of the graph."""

    def __init__(self, graph: Graph, choice: Choice, watch: Watch) -> None:
        bare, self._variables, self._fixed_size = prepared(graph, choice)
        self._fixed = dict(choice.fixed or {})
        self._graph, self._choice = graph, choice
        self._watch = watch
        self._evaluator = Evaluator(bare, self._variables, with_self_loops=choice.with_self_loops)
        self._exploration = Exploration(self._evaluator, self._variables, self._look)
        self.points: list[ParetoPoint] = []
        nothing: tuple[None, ...] = (None,) * len(self._variables)
        self.best_period = self._evaluator.evaluate(nothing).period

    def _look(self) -> None:
        self._watch(Progress(len(self.points), self.lower_bound, self.evaluations))

    @property
    def lower_bound(self) -> int:
        return self._exploration.lower_bound + self._fixed_size

    @property
    def proved_points(self) -> list[ParetoPoint]:
        """Without the last point if a faster one may have its size."""
        return [point for point in self.points if point.size < self.lower_bound]

    @property
    def evaluations(self) -> int:
        return self._evaluator.count

    @property
    def is_exhausted(self) -> bool:
        return self._exploration.is_exhausted

    @property
    def reason(self) -> str:
        return "the queue of candidates is full" if self._exploration.is_full else "no more points"

    def in_units(self, period: Fraction | None) -> Fraction | None:
        return None if period is None else period * self._graph.time_unit

    def refusal(self, is_sufficient: Sufficient) -> str:
        return refusal(self._graph, self._choice, self.best_period, is_sufficient)

    def next_point(self, is_sufficient: Sufficient) -> tuple[int, ...] | None:
        return self._exploration.cheapest(is_sufficient)

    def add(self, capacities: Sequence[int]) -> Fraction | None:
        """Take the distribution as a point, instead of a slower one of equal size; its period."""
        point, period = self._point(capacities)
        if self.points and self.points[-1].size == point.size:
            self.points.pop()
        self.points.append(point)
        return period

    def named_point(self, capacities: Mapping[str, int]) -> ParetoPoint:
        """Return the point of these capacities, by channel."""
        first = [variable.channels[0].name for variable in self._variables]
        return self._point([capacities[name] for name in first])[0]

    def _point(self, capacities: Sequence[int]) -> tuple[ParetoPoint, Fraction | None]:
        period = self._evaluator.evaluate(tuple(capacities)).period
        named = dict(self._fixed)
        for variable, capacity in zip(self._variables, capacities, strict=True):
            named |= {channel.name: capacity for channel in variable.channels}
        point = ParetoPoint(
            size=self._exploration.size(capacities) + self._fixed_size,
            period=self.in_units(period) or Fraction(0),
            capacities=named,
        )
        return point, period

    def smallest(self, status: str, reason: str) -> SmallestStorage:
        return SmallestStorage(
            status=status,
            point=self.points[-1] if self.points else None,
            lower_bound=self.points[-1].size if status == "optimal" else self.lower_bound,
            reason=reason,
            evaluations=self.evaluations,
        )

    def sufficient(self, is_sufficient: Sufficient) -> ParetoPoint | None:
        found = sufficient_distribution(self._evaluator, self._variables, is_sufficient, None)
        return None if found is None else self._point(found)[0]

    def narrowed(self, is_sufficient: Sufficient, reason: str) -> SmallestStorage:
        """A sufficient distribution, narrowed with a quarter of the work that was done before."""
        effort = self.evaluations // 4 + LEAST_EFFORT
        try:
            found = sufficient_distribution(self._evaluator, self._variables, is_sufficient, effort)
        except KeyboardInterrupt:  # not even the time for that
            found = None
        if found is None:
            return self.smallest("gave up", reason)
        self.add(found)
        is_proved = self.points[-1].size == self.lower_bound
        return self.smallest("optimal" if is_proved else "feasible", reason)
