"""Period as an exact function of two parameters of the durations: convex polygons, a plane for each.

The ratio of each cycle is a plane over the two parameters, and the period is the highest plane. The
planes found so far divide the box of values into polygons. The period is computed at every corner; a
cycle with a larger ratio there is a new plane. No plane is missing if the period at every corner equals
the height of the plane there: within a region the period is at least the plane and, being convex, at
most the interpolation of the corners, which is the plane.

Source: Ghamarian, Geilen, Basten, Stuijk, Parametric throughput analysis of synchronous data flow
graphs, DATE 2008 (divide and conquer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from csdf.analysis.critical import CriticalCycle
from csdf.analysis.cycle_lines import CycleLine, LineSearch, Parameter, symbolic_maximum
from csdf.analysis.varying import VaryingGraph
from csdf.arguments import public
from csdf.errors import CsdfError
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.model.shown import Shown, Tabular
from csdf.time_limit import Budget, stop_of

Point = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodRegion(Shown):
    """A convex polygon in which one cycle sets the period: (time + counts * values) / tokens.

    corners: in order round the polygon.
    """

    corners: tuple[Point, ...]
    time: Fraction
    counts: tuple[Fraction, ...]
    tokens: int
    cycle: CriticalCycle | None

    def period(self, first: Fraction, second: Fraction) -> Fraction:
        """Return the ratio of the cycle at these values."""
        return (self.time + self.counts[0] * first + self.counts[1] * second) / self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametricRegions(Tabular):
    """The period as a function of two parameters: exact from `low` to `high` of both.

    evaluations: number of periods computed.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "parameters=names", "nominal", "low", "high", "regions", "evaluations",
    )  # fmt: skip
    FLOATS: ClassVar[tuple[str, ...]] = ("time", "counts", "corners")

    parameters: tuple[Parameter, Parameter]
    low: Point
    high: Point
    regions: tuple[PeriodRegion, ...]
    evaluations: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def nominal(self) -> tuple[Fraction, ...]:
        """The values of the parameters in the graph itself."""
        return tuple(parameter.nominal for parameter in self.parameters)

    def period(self, first: Exact, second: Exact) -> Fraction:
        """Return the exact period at these values. Raises CsdfError outside of `low` and `high`."""
        values = exact(first, "value"), exact(second, "value")
        for value, low, high in zip(values, self.low, self.high, strict=True):
            if not low <= value <= high:
                raise CsdfError(f"{value} is not between {low} and {high}")
        return max(region.period(*values) for region in self.regions)

    def to_sympy(self) -> Any:
        """Return the period as an expression of SymPy. Raises CsdfError where that is missing."""
        rows = [(region.time, region.counts, region.tokens) for region in self.regions]
        return symbolic_maximum([parameter.name for parameter in self.parameters], rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each region."""
        return [
            {
                "time": region.time,
                "counts": region.counts,
                "tokens": region.tokens,
                "corners": region.corners,
                "actors": () if region.cycle is None else region.cycle.actors,
            }
            for region in self.regions
        ]


@public
def parametric_regions(
    graph: Graph,
    first: Parameter,
    second: Parameter,
    *,
    high: tuple[Exact, Exact],
    budget: Budget = None,
) -> ParametricRegions:
    """Return the period as an exact function of two parameters, from their minimums to `high`.

    Raises InconsistentGraph; CsdfError for a graph that deadlocks, or for `high` not above the
    minimums; GaveUp if the budget, a stop or seconds, ends the computation.
    """
    low = (first.minimum, second.minimum)
    top = (exact(high[0], "high"), exact(high[1], "high"))
    for parameter, minimum, maximum in zip((first, second), low, top, strict=True):
        if maximum <= minimum:
            raise CsdfError(
                f"{parameter.name}: up to {maximum}; expected more than {minimum}, its minimum"
            )
    stop = stop_of(budget)
    search = LineSearch(VaryingGraph(graph, stop), [first, second], stop)
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
    """Return the planes that are the highest somewhere in the box."""
    planes: list[CycleLine] = []
    seen: set[Point] = set()
    corners = list(box)
    while corners:
        for corner in corners:
            seen.add(corner)
            line = search.line(*corner)
            if not any(line.is_same_function(plane) for plane in planes):
                planes.append(line)
        shapes = _polygons(planes, box)
        corners = sorted({corner for _, shape in shapes for corner in shape} - seen)
    return planes


def _polygons(
    planes: Sequence[CycleLine], box: Sequence[Point]
) -> list[tuple[CycleLine, list[Point]]]:
    """Return the planes that are the highest somewhere, each with the polygon of its region."""
    plane_parts = []
    for plane in planes:
        corners = list(box)
        for neighbour in planes:
            if neighbour is not plane:
                corners = _part_above(corners, plane, neighbour)
        if len(corners) > 2 and _has_area(corners):
            plane_parts.append((plane, corners))
    return plane_parts


def _part_above(corners: list[Point], plane: CycleLine, neighbour: CycleLine) -> list[Point]:
    """Clip a convex polygon to the part where the plane is not below its neighbour."""
    heights = [plane.period(*corner) - neighbour.period(*corner) for corner in corners]
    corners_above: list[Point] = []
    for at, (corner, height) in enumerate(zip(corners, heights, strict=True)):
        before, before_height = corners[at - 1], heights[at - 1]
        if height * before_height < 0:
            share = before_height / (before_height - height)
            corners_above.append(
                (
                    before[0] + share * (corner[0] - before[0]),
                    before[1] + share * (corner[1] - before[1]),
                )
            )
        if height >= 0:
            corners_above.append(corner)
    return corners_above


def _has_area(corners: Sequence[Point]) -> bool:
    """Whether the corners are not collinear."""
    (x, y), *rest = corners
    # Cross products of neighbouring corners, seen from the first corner.
    cross_products = [
        (px - x) * (qy - y) - (py - y) * (qx - x) for (px, py), (qx, qy) in pairwise(rest)
    ]
    return any(cross_products)
