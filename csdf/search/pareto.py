"""Results of searches over storage distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from csdf.model.shown import Shown, with_floats
from csdf.outcome import Reason, Status, Why


class StorageWhy(Why):
    """Why a search over storage distributions ended by itself."""

    NO_SMALLER = "no smaller storage suffices"
    EVERY_POINT = "every point was found and proved"
    NOTHING_SUFFICES = "no capacity of the searched channels suffices"
    IS_FULL = "the queue of candidates is full"
    NO_MORE_POINTS = "no more points"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint:
    """A storage size, the smallest period it allows, and capacities that reach it.

    The period is None only where none was asked for, and finding it takes too long.
    """

    size: int
    period: Fraction | None  # in the units of the user
    capacities: Mapping[str, int]  # tokens

    @property
    def throughput(self) -> Fraction | None:
        """Iterations per time unit; None if unbounded."""
        return 1 / self.period if self.period else None

    def to_json(self) -> dict[str, Any]:
        """Return the point as a JSON value; fractions as texts."""
        speed = self.throughput
        return {
            "size": self.size,
            "period": _text(self.period),
            "throughput": None if speed is None else str(speed),
            "capacities": dict(self.capacities),
        }

    def row(self) -> dict[str, Any]:
        """Return the point as an exact row: size, period, throughput, and a column for each channel."""
        found = {"size": self.size, "period": self.period, "throughput": self.throughput}
        return found | {f"capacity of {name}": value for name, value in self.capacities.items()}


def _text(period: Fraction | None) -> str | None:
    return None if period is None else str(period)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoFront(Shown):
    """The pairs of size and period that no other distribution improves on.

    points: by size; each is proved. is_complete: whether no point is missing, or none that is faster
    by more than the `gap`, a share of the period. If not, points may be missing from size
    `lower_bound` on, and `reason` says why the search ended; is_as_asked: whether that is where it
    was asked to end. best_period: of the graph without any bound; the last point of a complete front
    has it, but for the gap. start: where no point was proved, live capacities all the same, if there
    are any.
    """

    points: tuple[ParetoPoint, ...]
    is_complete: bool
    lower_bound: int
    best_period: Fraction | None
    reason: Reason
    evaluations: int
    gap: Fraction = Fraction(0)
    is_as_asked: bool = False
    start: ParetoPoint | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the front as a JSON value; fractions as texts."""
        best = self.best_period
        return {
            "points": [point.to_json() for point in self.points],
            "complete": self.is_complete,
            "as_asked": self.is_as_asked,
            "gap": str(self.gap),
            "reason": str(self.reason),
            "lower_bound": self.lower_bound,
            "best_period": None if best is None else str(best),
            "start": None if self.start is None else self.start.to_json(),
            "evaluations": self.evaluations,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each point."""
        return [point.row() for point in self.points]

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each point, as for a data frame: floats, and exact texts beside them."""
        return with_floats(self.rows(), "period", "throughput")


def relative_gap(point: ParetoPoint | None, lower_bound: int) -> Fraction | None:
    """Return how far the size of a point may be above the smallest, relative to the bound."""
    if point is None or not lower_bound:
        return None if point is None else Fraction(0)
    return Fraction(point.size - lower_bound, lower_bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestStorage(Shown):
    """The smallest storage that meets a requirement, or what is known about it.

    status: `optimal` and `infeasible` are proved; `feasible` comes with a gap; `unknown` with nothing
    but the lower bound. point: None unless optimal or feasible. reason: why.
    """

    status: Status
    point: ParetoPoint | None
    lower_bound: int
    reason: Reason
    evaluations: int

    @property
    def gap(self) -> Fraction | None:
        """How far the size may be above the smallest, relative to the lower bound."""
        return relative_gap(self.point, self.lower_bound)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        point = self.point
        return {
            "size": None if point is None else point.size,
            "capacities": {} if point is None else dict(point.capacities),
            "period": None if point is None else _text(point.period),
            "status": self.status.value,
            "reason": str(self.reason),
            "lower_bound": self.lower_bound,
            "gap": None if self.gap is None else str(self.gap),
            "evaluations": self.evaluations,
        }
