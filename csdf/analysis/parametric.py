"""Parametric throughput: the period as an exact function of one or two parameters of the durations.

The ratio of a cycle is linear in the parameters, and the period is the maximum of these ratios: it is
convex and piecewise linear. With one parameter, each cycle is a line. The lines that are critical at
the two ends of an interval are the period between them, unless a third line is above both at their
crossing. With two parameters, each cycle is a plane, the highest in its region. No plane is missing if
the period at every corner of every region equals the height of the plane there: within the region the
period is at least the plane and, being convex, at most the interpolation of the corners, which is the
plane.

Source: Ghamarian, Geilen, Basten, Stuijk, Parametric throughput analysis of synchronous data flow
graphs, DATE 2008 (divide and conquer); Eisner, Severance, JACM 23(4), 1976 (its number of steps).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from operator import mul
from typing import Any, ClassVar

from csdf.analysis.critical import CriticalCycle
from csdf.analysis.varying import Critical, VaryingGraph
from csdf.arguments import Natural, public
from csdf.errors import CsdfError, Deadlocked, counted
from csdf.model.exact import Exact, exact
from csdf.model.graph import Actor, Graph
from csdf.model.shown import Shown, Tabular
from csdf.status import Reason
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearSegment(Shown):
    """The period from `start` to `end`: (time + count * x) / tokens, and its critical cycle.

    end: None for the last segment, which is unbounded.
    """

    JSON: ClassVar[tuple[str, ...]] = ("from=start", "to=end", "time", "count", "tokens", "cycle")

    start: Fraction
    end: Fraction | None
    time: Fraction
    count: Fraction
    tokens: int
    cycle: CriticalCycle | None

    def period(self, value: Exact) -> Fraction:
        """Return the period at this value of the parameter."""
        return (self.time + self.count * exact(value, "value")) / self.tokens

    @property
    def slope(self) -> Fraction:
        """The derivative of the period by the parameter."""
        return self.count / self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametricPeriod(Tabular):
    """The period as a function of a parameter: convex, of straight segments, exact from `minimum` on.

    evaluations: number of periods computed. is_complete: whether the last segment is unbounded; if not,
    `reason` says why the computation stopped there.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "parameter=name", "nominal", "segments", "complete", "reason", "evaluations",
    )  # fmt: skip
    FLOATS: ClassVar[tuple[str, ...]] = ("from", "to", "slope", "period")

    parameter: Parameter
    segments: tuple[LinearSegment, ...]
    evaluations: int
    reason: Reason | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the period is known for all values of the parameter."""
        return self.segments[-1].end is None

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.parameter.name

    @property
    def nominal(self) -> Fraction:
        """The value of the parameter in the graph itself."""
        return self.parameter.nominal

    def segment(self, value: Exact) -> LinearSegment:
        """Return the segment that contains this value; of two, the segment that begins there."""
        number = exact(value, "value")
        if number < self.segments[0].start:
            raise CsdfError(f"{self.parameter.name}: {number} is below {self.segments[0].start}")
        end = self.segments[-1].end
        if end is not None and number > end:
            raise CsdfError(
                f"{self.parameter.name}: {number} is above {end}, the last value computed"
            )
        return next(segment for segment in reversed(self.segments) if segment.start <= number)

    def period(self, value: Exact) -> Fraction:
        """Return the exact period at this value. Raises CsdfError below the first segment."""
        return self.segment(value).period(value)

    @property
    def slack(self) -> Fraction | None:
        """Growth of the parameter from nominal until the period grows; None if it never grows.

        Raises CsdfError if the computation stopped before that.
        """
        nominal = self.parameter.nominal
        now = self.period(nominal)
        binding_cycles = [
            segment for segment in self.segments if segment.end is None or segment.end > nominal
        ]
        for segment in binding_cycles:
            if segment.slope > 0:
                return (
                    max(Fraction(0), segment.start - nominal)
                    if segment.period(nominal) < now
                    else Fraction(0)
                )
        if not self.is_complete:
            raise CsdfError(
                f"{self.parameter.name}: the period is known up to {binding_cycles[-1].end} only"
            )
        return None

    def to_sympy(self) -> Any:
        """Return the period as an expression of SymPy. Raises CsdfError where that is missing."""
        rows = [(segment.time, [segment.count], segment.tokens) for segment in self.segments]
        return symbolic_maximum([self.parameter.name], rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each segment."""
        return [
            {
                "from": segment.start,
                "to": segment.end,
                "slope": segment.slope,
                "period": segment.period(segment.start),
                "actors": () if segment.cycle is None else segment.cycle.actors,
            }
            for segment in self.segments
        ]


@public
def parametric_period(
    graph: Graph,
    parameter: Parameter,
    *,
    budget: Budget = None,
) -> ParametricPeriod:
    """Return the period as an exact function of the parameter, from its least value to infinity.

    With n segments it takes about 2 n + log(range) computations of a period. budget: a stop, or
    seconds; if it or Ctrl-C ends the computation, the first segments are returned. Raises
    InconsistentGraph; CsdfError for a graph that deadlocks; GaveUp if no segment is known.
    """
    stop = stop_of(budget)
    search = LineSearch(VaryingGraph(graph, stop), [parameter], stop)
    minimum = parameter.minimum
    end = max(parameter.nominal, minimum) + 1
    slope = search.last_slope()
    last = search.line(end)
    # The period is convex and ends with the largest slope:
    # doubling finds a value in the last segment.
    while last.slopes[0] != slope:
        end = minimum + 2 * (end - minimum)
        last = search.line(end)
    pieces = _Pieces(search)
    pieces_end, reason = None, None
    try:
        pieces.explore(minimum, search.line(minimum), end, last)
        pieces.known.append((end, last))
    except ENDS as ended:
        if not pieces.known:
            raise
        pieces_end, reason = max(pieces.explored, pieces.known[-1][0]), reason_of(ended)
    pieces_of_line = _joined(pieces.known)
    if len(pieces_of_line) > 1 and pieces_of_line[-1][0] == pieces_end:
        pieces_of_line.pop()
    ends = [*(start for start, _ in pieces_of_line[1:]), pieces_end]
    segments = [
        LinearSegment(
            start=start, end=end_of_piece, time=line.time, count=line.counts[0],
            tokens=line.tokens, cycle=search.cycle(line),
        )
        for (start, line), end_of_piece in zip(pieces_of_line, ends, strict=True)
    ]  # fmt: skip
    return ParametricPeriod(
        parameter=parameter, segments=tuple(segments), evaluations=search.evaluations, reason=reason
    )


def line_below_nominal(
    search: LineSearch, parameter: Parameter
) -> tuple[CycleLine, Fraction, CycleLine]:
    """Return the line left of the nominal value, its start, and the line at the minimum value."""
    minimum, nominal = parameter.minimum, parameter.nominal
    first, last = search.line(minimum), search.line(nominal)
    pieces = _Pieces(search)
    pieces.explore(minimum, first, nominal, last)
    pieces_of_line = _joined(pieces.known)
    return pieces_of_line[-1][1], pieces_of_line[-1][0], pieces_of_line[0][1]


class _Pieces:
    """The segments of a function of one parameter, computed from left to right.

    known: start and line of each segment up to `explored`.
    """

    def __init__(self, search: LineSearch) -> None:
        self._search = search
        self.known: list[tuple[Fraction, CycleLine]] = []
        self.explored = Fraction(0)

    def explore(self, low: Fraction, first: CycleLine, high: Fraction, last: CycleLine) -> None:
        """Compute the segments between two values, given the critical lines at both."""
        waiting = [(low, first, high, last)]
        while waiting:
            begin, left, end, right = waiting.pop()
            self.explored = begin
            # Convexity: where the left line holds at both ends it holds in between.
            if left.period(end) == right.period(end):
                self.known.append((begin, left))
            elif right.period(begin) == left.period(begin):
                self.known.append((begin, right))
            else:
                zero = Fraction(0)
                rise = left.period(zero) - right.period(zero)
                # Newton-like step: if no line is above the crossing of the two lines, both meet
                # there; else a new line splits the interval.
                meeting = rise / (right.slopes[0] - left.slopes[0])
                middle = self._search.line(meeting)
                if middle.period(meeting) == left.period(meeting):
                    self.known += [(begin, left), (meeting, right)]
                else:
                    waiting += [(meeting, middle, end, right), (begin, left, meeting, middle)]


def _joined(found: list[tuple[Fraction, CycleLine]]) -> list[tuple[Fraction, CycleLine]]:
    """Join consecutive segments of one function; of segments with equal starts the last remains."""
    joined: list[tuple[Fraction, CycleLine]] = []
    for start, line in found:
        if joined and joined[-1][1].is_same_function(line):
            continue
        if joined and joined[-1][0] == start:
            joined.pop()
        joined.append((start, line))
    return joined


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleLine:
    """The ratio of one cycle: (time + sum of count * parameter) / tokens.

    time: of its firings if all parameters are 0. counts: total weight of each parameter in its firings.
    critical: the evaluation that found the cycle.
    """

    time: Fraction
    counts: tuple[Fraction, ...]
    tokens: int
    critical: Critical

    def period(self, *values: Fraction) -> Fraction:
        """Return the ratio at these values of the parameters."""
        return sum(map(Fraction.__mul__, self.counts, values), self.time) / self.tokens

    @property
    def slopes(self) -> tuple[Fraction, ...]:
        """The derivatives by each parameter."""
        return tuple(count / self.tokens for count in self.counts)

    def is_same_function(self, other: CycleLine) -> bool:
        """Whether both are equal everywhere."""
        zero = (Fraction(0),) * len(self.counts)
        return self.slopes == other.slopes and self.period(*zero) == other.period(*zero)


class LineSearch:
    """Evaluates the period of a graph at values of its parameters, with a critical cycle.

    Raises Deadlocked, and the exceptions of the stop.
    """

    def __init__(
        self, graph: VaryingGraph, parameters: Sequence[Parameter], stop: Stop | None = None
    ) -> None:
        self._graph = graph
        self._stop = Stop() if stop is None else stop
        self.evaluations = 0
        self._nominal = [parameter.nominal for parameter in parameters]
        # Nonzero weights of each parameter, by the position of the duration among all durations.
        self._weights = [
            {
                graph.numbers.duration_start[graph.number[actor]] + phase: weight
                for actor, row in parameter.weights.items()
                for phase, weight in enumerate(row)
                if weight
            }
            for parameter in parameters
        ]

    def line(self, *values: Fraction) -> CycleLine:
        """Return a critical cycle at these values."""
        self._stop.look()
        longer: dict[int, Fraction] = {}
        for value, nominal, weights in zip(values, self._nominal, self._weights, strict=True):
            for index, weight in weights.items() if value != nominal else ():
                longer[index] = longer.get(index, Fraction(0)) + weight * (value - nominal)
        self.evaluations += 1
        critical = self._graph.critical(longer) if longer else self._graph.as_given
        return self._line_of(critical, values)

    def last_slope(self) -> Fraction:
        """Return the slope of the period for large values of the only parameter."""
        return self._graph.only(self._weights[0]).period or Fraction(0)

    def cycle(self, line: CycleLine) -> CriticalCycle | None:
        """Return the cycle by the names of the graph, with its time at the evaluated values."""
        return self._graph.named(line.critical)

    def _line_of(self, critical: Critical, values: Sequence[Fraction]) -> CycleLine:
        if critical.period is None:
            raise Deadlocked("the graph deadlocks; it has no period, whatever its durations are")
        tokens = Fraction(1)
        if critical.component is not None and critical.circuit is not None:
            tokens = critical.circuit.height / critical.component.repeats
        places, rounds = self._graph.places(critical), tokens.denominator
        counts = tuple(
            rounds * sum((row[at] for at in places if at in row), Fraction(0))
            for row in self._weights
        )
        shared = sum(map(mul, counts, values), Fraction(0))
        return CycleLine(
            time=rounds * critical.time - shared,
            counts=counts,
            tokens=tokens.numerator,
            critical=critical,
        )


def symbolic_maximum(
    names: Sequence[str], rows: Sequence[tuple[Fraction, Sequence[Fraction], int]]
) -> Any:
    """Return the largest of (time + counts * symbols) / tokens as an expression of SymPy.

    The symbols are real and have the names of the parameters.
    """
    if find_spec("sympy") is None:
        raise CsdfError("to_sympy() needs SymPy: pip install sympy")
    sympy = import_module("sympy")
    symbols = [sympy.Symbol(name, real=True) for name in names]
    lines = []
    for time, counts, tokens in rows:
        time, *counts = (
            sympy.Rational(number.numerator, number.denominator) for number in (time, *counts)
        )
        lines.append(sum(map(mul, counts, symbols), time) / tokens)
    return sympy.Max(*lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number on which durations depend: duration in the graph + weight * (value - nominal).

    weights: of the phases of each actor that depends on it, at least 0, in units of the user. nominal:
    the value in the graph itself. minimum: below it a duration would be negative.
    """

    name: str
    weights: Mapping[str, tuple[Fraction, ...]]
    nominal: Fraction
    minimum: Fraction

    def __post_init__(self) -> None:
        if any(weight < 0 for row in self.weights.values() for weight in row):
            raise CsdfError(f"parameter {self.name!r}: a weight is negative")
        if not any(weight for row in self.weights.values() for weight in row):
            raise CsdfError(f"parameter {self.name!r}: no duration depends on it")


@public
def added_time(
    graph: Graph, weights: Mapping[str, Exact | Sequence[Exact]], *, name: str = ""
) -> Parameter:
    """Return the parameter x that adds weight * x to durations; its nominal value is 0.

    weights: for each actor, either one weight for all of its phases or a weight for each phase.
    Raises InvalidGraph for an unknown actor, CsdfError for weights that do not fit.
    """
    rows = {actor: _row(graph.actor(actor), row_weights) for actor, row_weights in weights.items()}
    minimum = max(
        (
            -graph.time_unit * time / weight
            for actor, row in rows.items()
            for time, weight in zip(graph.actor(actor).durations, row, strict=True)
            if weight
        ),
        default=Fraction(0),
    )
    return Parameter(
        name=name or "+".join(rows), weights=rows, nominal=Fraction(0), minimum=minimum
    )


@public
def added_to_phase(graph: Graph, actor: str, phase: Natural) -> Parameter:
    """Return the parameter that is added to one phase of an actor."""
    phases = graph.actor(actor).phases
    if not 0 <= phase < phases:
        raise CsdfError(f"actor {actor!r} has phases 0 to {phases - 1}; there is no {phase}")
    row = [int(position == phase) for position in range(phases)]
    return added_time(graph, {actor: row}, name=f"{actor}:{phase}")


@public
def time_scale(graph: Graph, actors: Sequence[str], *, name: str = "") -> Parameter:
    """Return the factor by which all durations of the actors are multiplied; its nominal value is 1."""
    weights = {
        actor: tuple(graph.time_unit * time for time in graph.actor(actor).durations)
        for actor in actors
    }
    title = name or f"scale of {'+'.join(actors)}"
    return Parameter(name=title, weights=weights, nominal=Fraction(1), minimum=Fraction(0))


def _row(actor: Actor, given: Exact | Sequence[Exact]) -> tuple[Fraction, ...]:
    what = f"weight of actor {actor.name!r}:"
    if isinstance(given, str) or not isinstance(given, Sequence):
        return (exact(given, what),) * actor.phases
    if len(given) != actor.phases:
        raise CsdfError(
            f"actor {actor.name!r}: {counted(len(given), 'weight')}, but "
            f"{counted(actor.phases, 'phase')}; give one weight, or one for each phase"
        )
    return tuple(exact(weight, what) for weight in given)
