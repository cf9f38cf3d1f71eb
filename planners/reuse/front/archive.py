"""Every point met that no other dominates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from planners.reuse.front.nsga2.domination import at_most, ranks_of, rounded
from planners.reuse.front.problem import Number, Point


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
