"""Limits of the search for a front: a largest size, a number of points, a gap between periods."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from csdf.errors import CsdfError, GaveUp, counted
from csdf.model.exact import Exact, exact
from csdf.outcome import Why, because

FEW = 20  # points of a front without end, where nobody says how many


class FrontWhy(Why):
    """Why a front ends where it does."""

    POINTS = "ended after {points}, as asked"
    SIZE = "ended at size {size}, as asked"
    FEW = "ended after {points}"
    ENDLESS = "{end}; the front has no end: {why}"
    GAP = "proved within {gap}"


class Reached(GaveUp):
    """Not a failure: the front is known as far as it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The limits of a front: where it may end.

    max_size: no larger distribution is asked for. points: no more points are. gap: of two points
    whose periods differ by no more than this share, the faster one is not searched for.
    """

    max_size: int | None = None
    points: int | None = None
    gap: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.max_size is not None and self.max_size < 0:
            raise CsdfError(f"max_size {self.max_size}; expected at least 0")
        if self.points is not None and self.points < 1:
            raise CsdfError(f"{self.points} points; expected at least 1")
        if self.gap < 0:
            raise CsdfError(f"gap {self.gap}; expected at least 0")

    @property
    def is_limited(self) -> bool:
        """Whether somebody has said where the front is to end, however long it goes on."""
        return self.max_size is not None or self.points is not None

    @property
    def factor(self) -> Fraction:
        """How much longer a period may be than the least of its size."""
        return 1 + self.gap

    def look(self, points: int, lower_bound: int) -> None:
        """Raise Reached where that many proved points, or sizes up to the bound, are enough."""
        if self.points is not None and points >= self.points:
            raise Reached(because(FrontWhy.POINTS, points=counted(self.points, "point")))
        if self.max_size is not None and lower_bound > self.max_size:
            raise self.too_large()

    def too_large(self) -> Reached:
        """Return the end of a front at the largest size that is asked for."""
        return Reached(because(FrontWhy.SIZE, size=self.max_size))


def extent_of(max_size: int | None, points: int | None, gap: Exact) -> Extent:
    """Return the extent; a gap may be a text such as "5%". Raises CsdfError for what cannot be one."""
    if isinstance(gap, str) and gap.endswith("%"):
        return extent_of(max_size, points, exact(gap[:-1], "gap") / 100)
    return Extent(max_size=max_size, points=points, gap=exact(gap, "gap"))
