"""Results of searches over storage distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint:
    """A storage size, the smallest period it allows, and capacities that reach it."""

    size: int
    period: Fraction  # in the units of the user
    capacities: Mapping[str, int]  # tokens

    @property
    def throughput(self) -> Fraction | None:
        """Iterations per time unit; None if unbounded."""
        return 1 / self.period if self.period else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoFront:
    """The pairs of size and period that no other distribution improves on.

    points: by size; each is proved. is_complete: whether no point is missing. If not, points may be
    missing from size `lower_bound` on, and `reason` says why the search ended. best_period: of the
    graph without any bound; the last point of a complete front has it.
    """

    points: tuple[ParetoPoint, ...]
    is_complete: bool
    lower_bound: int
    best_period: Fraction | None
    reason: str
    evaluations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestStorage:
    """The smallest storage that meets a requirement, or what is known about it.

    status: `optimal` and `infeasible` are proved; `feasible` comes with a gap; `gave up` with nothing
    but the lower bound. point: None unless optimal or feasible. reason: why, in words.
    """

    status: str
    point: ParetoPoint | None
    lower_bound: int
    reason: str
    evaluations: int

    @property
    def gap(self) -> Fraction | None:
        """How far the size may be above the smallest, relative to the lower bound."""
        if self.point is None or not self.lower_bound:
            return None if self.point is None else Fraction(0)
        return Fraction(self.point.size - self.lower_bound, self.lower_bound)
