"""Answers of storage searches: Pareto points, fronts, the smallest storage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from typing import Any, ClassVar, Generic, TypeVar

from csdf.model.shown import Shown, Tabular
from csdf.status import Reason, Status, Why

Point = TypeVar("Point")


def improving(points: Iterable[Point], pair: Callable[[Point], tuple[Any, Any]]) -> list[Point]:
    """Return the Pareto-optimal points of pairs in which both numbers are to be small.

    In the order of the first number; of points with equal pairs the first.
    """
    kept: list[Point] = []
    lowest = None
    for point in sorted(points, key=pair):
        _, second = pair(point)
        if lowest is None or second < lowest:
            kept.append(point)
            lowest = second
    return kept


def thinned(front: Sequence[Point], most: int) -> list[Point]:
    """Return at most `most` points of a front at equal distances, the last among them, in order."""
    step = max(1, -(-len(front) // most))
    return [*reversed(front[::-step])]


PRUNED_EACH = 512  # chains to a place between two prunings of dominated chains

# The peak of a chain, its costs, and its links.
ChainLabel = tuple[int, tuple[int, ...], tuple[Point, ...]]


class ChainLabels(Generic[Point]):
    """Pareto fronts of chains of links from a first place to each place, by label setting.

    A place is any hashable value. The peak of a chain is the maximum over its links; costs add up. A
    dominated chain to a place is dropped: an extension of it is dominated too. The links that leave a
    place may depend on its front, so a search can compute them when it reaches the place.
    """

    def __init__(
        self,
        first: ChainLabel[Point],
        compared: int | None = None,
        *,
        begins: Iterable[Hashable] = (0,),
    ) -> None:
        """Set the chain to the first places. compared: as in front_of_chains. begins: these places."""
        self._compared = compared
        self._fronts = {place: [first] for place in begins}
        self._ending: dict[Hashable, list[tuple[ChainLabel[Point], Point]]] = {}

    def extend(
        self, begin: Hashable, end: Hashable, links: Sequence[tuple[int, tuple[int, ...], Point]]
    ) -> None:
        """Add links from a place with a known front, each with its peak and costs, before `at(end)`."""
        ending = self._ending.setdefault(end, [])
        count = len(ending)
        for before_peak, before_costs, path in self.at(begin):
            for peak, costs, link in links:
                total = tuple(map(add, before_costs, costs))
                ending.append(((max(before_peak, peak), total, path), link))
        if len(ending) // PRUNED_EACH > count // PRUNED_EACH:
            ending[:] = self._pruned(ending)

    def _pruned(
        self, ending: list[tuple[ChainLabel[Point], Point]]
    ) -> list[tuple[ChainLabel[Point], Point]]:
        """Return the undominated chains to a place, by increasing peak."""
        kept: list[tuple[ChainLabel[Point], Point]] = []
        for chain in sorted(ending, key=lambda chain: chain[0][:2]):
            if not kept or chain[0][1][: self._compared] < kept[-1][0][1][: self._compared]:
                kept.append(chain)
        return kept

    def at(self, place: Hashable) -> list[ChainLabel[Point]]:
        """Return the front of a place, by increasing peak; of equal chains the first remains."""
        if place not in self._fronts:
            self._fronts[place] = [
                (peak, costs, (*path, link))
                for (peak, costs, path), link in self._pruned(self._ending.pop(place, []))
            ]
        return self._fronts[place]


def front_of_chains(
    ending: Sequence[Sequence[tuple[int, int, tuple[int, ...], Point]]], compared: int | None = None
) -> list[ChainLabel[Point]]:
    """Return the Pareto front of the chains of links from the first place to the last: peaks and costs.

    ending: for each place the links that end there: (place where it begins, peak, costs, link). Costs
    compare as tuples; the first `compared` costs decide, the others choose between equal chains. By
    increasing peak; empty if no chain reaches the last place.
    """
    costs = (links[0][2] for links in ending if links)
    chains = ChainLabels[Point]((0, (0,) * len(next(costs, ())), ()), compared)
    for end, links in enumerate(ending):
        for begin, peak, cost, link in links:
            chains.extend(begin, end, [(peak, cost, link)])
        chains.at(end)
    return chains.at(max(len(ending) - 1, 0))


class StorageWhy(Why):
    """Why a search over storage distributions ended by itself."""

    NO_SMALLER = "no smaller storage suffices"
    EVERY_POINT = "every point was found and proved"
    NOTHING_SUFFICES = "no capacity of the searched channels suffices"
    IS_FULL = "the queue of candidates is full"
    NO_MORE_POINTS = "maximum number of points"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint(Shown):
    """A storage size, its minimum period, and capacities that reach both.

    The period is None only if it was not requested and its computation takes too long.
    """

    JSON: ClassVar[tuple[str, ...]] = ("size", "period", "throughput", "capacities")

    size: int
    period: Fraction | None  # in the units of the user
    capacities: Mapping[str, int]  # tokens

    @property
    def throughput(self) -> Fraction | None:
        """Iterations per time unit; None if unbounded."""
        return 1 / self.period if self.period else None

    def row(self) -> dict[str, Any]:
        """Return the point as an exact row: size, period, throughput, and a column for each channel."""
        row = {"size": self.size, "period": self.period, "throughput": self.throughput}
        return row | {f"capacity of {name}": value for name, value in self.capacities.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoFront(Tabular):
    """The Pareto front of storage size and period.

    points: by size; each is proved Pareto-optimal. is_complete: no point is missing, except for points
    that are at most the share `gap` faster than the listed point before them. In an incomplete front,
    points may be missing from size `lower_bound` on. reason: why the search ended. is_at_limit: whether
    it ended at a limit of the caller. best_period: of the graph without bounds; the last point of a
    complete front has it, except for the gap. unproved: of an incomplete front, further points by
    size, each faster than the point before it, but not proved Pareto-optimal. unit: of the sizes.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "points", "complete", "at_limit", "gap", "reason", "lower_bound", "best_period", "start",
        "unproved", "evaluations",
    )  # fmt: skip
    FLOATS: ClassVar[tuple[str, ...]] = ("period", "throughput")

    points: tuple[ParetoPoint, ...]
    is_complete: bool
    lower_bound: int
    best_period: Fraction | None
    reason: Reason
    evaluations: int
    gap: Fraction = Fraction(0)
    is_at_limit: bool = False
    unproved: tuple[ParetoPoint, ...] = ()
    unit: str = "tokens"

    @property
    def start(self) -> ParetoPoint | None:
        """The smallest live capacities of a front without proved points, or None."""
        return None if self.points else next(iter(self.unproved), None)

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each point."""
        return [point.row() for point in self.points]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestStorage(Shown):
    """The smallest storage that meets a requirement, or bounds of it.

    status: `optimal` and `infeasible` are proved; `feasible` has a gap; `unknown` has only the lower
    bound. point: None unless optimal or feasible. reason: why the search ended.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "size", "capacities", "period", "status", "reason", "lower_bound", "gap", "evaluations",
    )  # fmt: skip

    status: Status
    point: ParetoPoint | None
    lower_bound: int
    reason: Reason
    evaluations: int

    @property
    def size(self) -> int | None:
        """The size of the point; None without a point."""
        return None if self.point is None else self.point.size

    @property
    def period(self) -> Fraction | None:
        """The period of the point; None without a point, or if it is unknown."""
        return None if self.point is None else self.point.period

    @property
    def capacities(self) -> Mapping[str, int]:
        """The capacities of the point; empty without a point."""
        return {} if self.point is None else self.point.capacities

    @property
    def gap(self) -> Fraction | None:
        """The size less the lower bound, divided by the lower bound.

        None without a point, and for a size above a lower bound of 0.
        """
        if self.size is None or (self.size and not self.lower_bound):
            return None
        return Fraction(self.size - self.lower_bound, self.lower_bound or 1)
