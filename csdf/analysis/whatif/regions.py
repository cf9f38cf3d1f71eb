"""The period as an exact function of two parameters of the durations, by regions.

Each cycle asks for a period that is a plane over the two parameters; the period is the highest of
them. In the region of a plane it is above all others known. Where the period at every corner of every
region is that of its plane, no plane is missing: between the corners the period is at least its plane
and, being convex, at most what the corners say, which is the plane again.

Source: Ghamarian, Geilen, Basten, Stuijk, DATE 2008 (divide and conquer over regions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from csdf.analysis.critical import CriticalCycle
from csdf.analysis.whatif.lines import CycleLine, LineSearch
from csdf.analysis.whatif.parameter import Parameter
from csdf.analysis.whatif.symbolic import symbolic_maximum
from csdf.analysis.whatif.varying import VaryingGraph
from csdf.errors import CsdfError
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.model.records import with_floats
from csdf.model.shown import Shown
from csdf.stopping import Budget

Point = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodRegion:
    """A convex polygon in which one cycle sets the period: (time + counts * values) / tokens.

    corners: in order round the polygon.
    """

    corners: tuple[Point, ...]
    time: Fraction
    counts: tuple[Fraction, ...]
    tokens: int
    cycle: CriticalCycle | None

    def period(self, first: Fraction, second: Fraction) -> Fraction:
        """Return what the cycle asks for at these values."""
        return (self.time + self.counts[0] * first + self.counts[1] * second) / self.tokens

    def to_json(self) -> dict[str, Any]:
        """Return the region as a JSON value; fractions as texts."""
        return {
            "corners": [[str(first), str(second)] for first, second in self.corners],
            "time": str(self.time),
            "counts": [str(count) for count in self.counts],
            "tokens": self.tokens,
            "cycle": None if self.cycle is None else self.cycle.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametricRegions(Shown):
    """The period as a function of two parameters: exact from `low` to `high` of both.

    evaluations: periods that were computed to find it.
    """

    parameters: tuple[Parameter, Parameter]
    low: Point
    high: Point
    regions: tuple[PeriodRegion, ...]
    evaluations: int

    def period(self, first: Exact, second: Exact) -> Fraction:
        """Return the exact period at these values. Raises CsdfError outside of what is known."""
        values = exact(first, "value"), exact(second, "value")
        for value, low, high in zip(values, self.low, self.high, strict=True):
            if not low <= value <= high:
                raise CsdfError(f"{value} is not between {low} and {high}")
        return max(region.period(*values) for region in self.regions)

    def to_sympy(self) -> Any:
        """Return the period as an expression of SymPy. Raises CsdfError where that is missing."""
        rows = [(one.time, one.counts, one.tokens) for one in self.regions]
        return symbolic_maximum([one.name for one in self.parameters], rows)

    def to_json(self) -> dict[str, Any]:
        """Return the function as a JSON value; fractions as texts."""
        return {
            "parameters": [one.name for one in self.parameters],
            "today": [str(one.today) for one in self.parameters],
            "low": [str(one) for one in self.low],
            "high": [str(one) for one in self.high],
            "regions": [one.to_json() for one in self.regions],
            "evaluations": self.evaluations,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each region."""
        return [
            {"time": one.time, "counts": one.counts, "tokens": one.tokens, "corners": one.corners,
             "actors": () if one.cycle is None else one.cycle.actors}
            for one in self.regions
        ]  # fmt: skip

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each region, as for a data frame: floats, and exact texts beside them."""
        return with_floats(self.rows(), "time", "counts", "corners")


def parametric_regions(
    graph: Graph,
    first: Parameter,
    second: Parameter,
    *,
    high: tuple[Exact, Exact],
    budget: Budget = None,
) -> ParametricRegions:
    """Return the period as an exact function of two parameters, from their least values to `high`.

    Raises InconsistentGraph; CsdfError for a graph that deadlocks, or where `high` is not above the
    least values; GaveUp where the budget, a stop or seconds, ends it.
    """
    low = (first.least, second.least)
    top = (exact(high[0], "high"), exact(high[1], "high"))
    for one, least, most in zip((first, second), low, top, strict=True):
        if most <= least:
            raise CsdfError(
                f"{one.name}: up to {most}; expected more than {least}, its least value"
            )
    search = LineSearch(VaryingGraph(graph, budget), [first, second])
    box = [low, (top[0], low[1]), top, (low[0], top[1])]
    planes = _all_planes(search, box)
    regions = [
        PeriodRegion(
            corners=tuple(corners), time=plane.time, counts=plane.counts, tokens=plane.tokens,
            cycle=search.cycle(plane),
        )
        for plane, corners in _polygons(planes, box)
    ]  # fmt: skip
    return ParametricRegions(
        parameters=(first, second), low=low, high=top, regions=tuple(regions),
        evaluations=search.evaluations,
    )  # fmt: skip


def _all_planes(search: LineSearch, box: Sequence[Point]) -> list[CycleLine]:
    """Every cycle that is the highest somewhere in the box."""
    planes: list[CycleLine] = []
    known: set[Point] = set()
    corners = list(box)
    while corners:
        for corner in corners:
            known.add(corner)
            found = search.line(*corner)
            if not any(found.is_same_function(plane) for plane in planes):
                planes.append(found)
        shapes = _polygons(planes, box)
        corners = sorted({one for _, shape in shapes for one in shape} - known)
    return planes


def _polygons(
    planes: Sequence[CycleLine], box: Sequence[Point]
) -> list[tuple[CycleLine, list[Point]]]:
    """The planes that are the highest somewhere, each with the polygon where it is."""
    found = []
    for plane in planes:
        corners = list(box)
        for other in planes:
            if other is not plane:
                corners = _part_above(corners, plane, other)
        if len(corners) > 2 and _has_area(corners):
            found.append((plane, corners))
    return found


def _part_above(corners: list[Point], plane: CycleLine, other: CycleLine) -> list[Point]:
    """The part of a convex polygon where the plane is not below the other."""
    heights = [plane.period(*one) - other.period(*one) for one in corners]
    kept: list[Point] = []
    for at, (corner, height) in enumerate(zip(corners, heights, strict=True)):
        before, before_height = corners[at - 1], heights[at - 1]
        if height * before_height < 0:
            share = before_height / (before_height - height)
            kept.append(
                (
                    before[0] + share * (corner[0] - before[0]),
                    before[1] + share * (corner[1] - before[1]),
                )
            )
        if height >= 0:
            kept.append(corner)
    return kept


def _has_area(corners: Sequence[Point]) -> bool:
    """Whether the corners do not all lie on one line."""
    (x, y), *others = corners
    turned = [(one - x) * (later - y) - (two - y) * (last - x)
              for (one, two), (last, later) in pairwise(others)]  # fmt: skip
    return any(turned)
