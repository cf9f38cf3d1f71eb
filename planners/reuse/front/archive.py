"""Every point met that no other dominates.

Who dominates whom, by integer ranks: exact numbers decide, arrays count.

Source: Deb, Pratap, Agarwal, Meyarivan, A fast and elitist multiobjective genetic algorithm: NSGA-II,
IEEE Trans. Evolutionary Computation 6(2), 2002.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from planners.reuse.front.problem import Number, Point, Score


class Archive:
    """The front so far, by constraint domination; of equal objectives the first point stays."""

    def __init__(self, points: Iterable[Point] = (), least_violation: Number | None = None) -> None:
        self.points = tuple(points)  # in the order they were met
        self.least_violation = least_violation

    def add(self, points: Sequence[Point]) -> None:
        """Take what no other point dominates; points that violate a constraint never stay."""
        for point in points:
            violation = point.score.violation
            if self.least_violation is None or violation < self.least_violation:
                self.least_violation = violation
        feasible = [point for point in points if not point.score.violation]
        if feasible:
            self._merge(feasible)

    def by_objectives(self) -> tuple[Point, ...]:
        """Return the points in ascending order of the objectives."""
        return tuple(
            sorted(self.points, key=lambda point: [(rounded(v), v) for v in point.score.objectives])
        )

    def _merge(self, feasible: list[Point]) -> None:
        everything = [*self.points, *feasible]
        ranks = ranks_of([point.score.objectives for point in everything])
        known = len(self.points)
        fresh = ranks[known:]
        places = np.arange(len(everything))
        below = at_most(fresh, ranks)  # (fresh, everything)
        equal = below & at_most(ranks, fresh).T
        later = places[known:, None] < places[None, :]
        drops = np.zeros(len(everything), dtype=bool)
        drops |= (below & (~equal | later)).any(axis=0)
        drops[known:] |= at_most(ranks[:known], fresh).any(axis=0)
        self.points = tuple(everything[place] for place in np.flatnonzero(~drops))


Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]


def rounded(value: Number) -> float:
    """Return the nearest float. Rounding is monotone: of different floats the order is exact."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def integer_ranks(values: Sequence[Number]) -> list[int]:
    """Return for each value the number of smaller different ones."""
    keys = [(rounded(value), value) for value in values]
    ranks = [0] * len(values)
    rank = 0
    previous = None
    for place in sorted(range(len(keys)), key=keys.__getitem__):
        rank += previous is not None and keys[place] != previous
        previous = keys[place]
        ranks[place] = rank
    return ranks


def ranks_of(objectives: Sequence[Sequence[Number]]) -> Integers:
    """Return the ranks of values within each objective, (values, objectives)."""
    return np.array([integer_ranks(column) for column in zip(*objectives, strict=True)]).T


def at_most(some: Integers, others: Integers) -> Truths:
    """Return whether `some[i]` is nowhere above `others[j]`, (len(some), len(others))."""
    result = some[:, None, 0] <= others[None, :, 0]
    for objective in range(1, some.shape[1]):
        result &= some[:, None, objective] <= others[None, :, objective]
    return result


def constrained_domination(scores: Sequence[Score]) -> Truths:
    """Return whether score i constrained-dominates score j, (scores, scores).

    Source: Deb et al. 2002, section VI, Definition 1.
    """
    ranks = ranks_of([score.objectives for score in scores])
    below = at_most(ranks, ranks)
    dominates = below & ~below.T
    violations = np.array(integer_ranks([0, *(score.violation for score in scores)])[1:])
    is_feasible = violations == 0
    dominates &= is_feasible[:, None] & is_feasible[None, :]
    dominates |= violations[:, None] < violations[None, :]
    return dominates


def sorted_fronts(dominates: Truths, wanted: int) -> list[list[int]]:
    """Return the first fronts, as many as hold the wanted number of scores or more.

    Source: Deb et al. 2002, section III.A: fast-non-dominated-sort.
    """
    dominators = dominates.sum(axis=0)
    fronts: list[list[int]] = []
    found = 0
    while found < wanted:
        front = np.flatnonzero(dominators == 0)
        dominators -= dominates[front].sum(axis=0)
        dominators[front] = -1
        fronts.append(front.tolist())
        found += len(front)
    return fronts


def crowding_distances(objectives: Sequence[Sequence[Number]]) -> list[float]:
    """Return how far the neighbours of each value are, infinite at both ends of an objective.

    Rounded: it only chooses among scores of which none dominates another.
    Source: Deb et al. 2002, section III.B: crowding-distance-assignment.
    """
    distances = [0.0] * len(objectives)
    for column in zip(*objectives, strict=True):
        positions = _positions(column)
        order = sorted(range(len(column)), key=positions.__getitem__)
        distances[order[0]] = distances[order[-1]] = inf
        for before, middle, after in zip(order, order[1:], order[2:], strict=False):
            distances[middle] += positions[after] - positions[before]
    return distances


def _positions(column: Sequence[Number]) -> list[float]:
    """Return where each value lies between the least, 0, and the greatest, 1."""
    least = min(column, key=_exact)
    extent = max(column, key=_exact) - least
    if not extent:
        return [0.0] * len(column)
    return [float((value - least) / extent) for value in column]


def _exact(value: Number) -> tuple[float, Number]:
    return rounded(value), value


def survivors(scores: Sequence[Score], wanted: int) -> list[int]:
    """Return the best scores by front and crowding, best first; ties by number.

    Source: Deb et al. 2002, section III.C: the crowded-comparison operator and the main loop.
    """
    order: list[int] = []
    for front in sorted_fronts(constrained_domination(scores), min(wanted, len(scores))):
        distances = crowding_distances([scores[member].objectives for member in front])
        places = sorted(range(len(front)), key=lambda place: -distances[place])
        order += [front[place] for place in places]
    return order[:wanted]
