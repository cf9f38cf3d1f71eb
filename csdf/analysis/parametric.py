"""Period as an exact function of one parameter of the durations: convex, of straight segments.

The ratio of each cycle is a line, and the period is the highest line. The lines that are critical at
the two ends of an interval are the period between them, unless a third line is above both at their
crossing; that line splits the interval.

Source: Ghamarian, Geilen, Basten, Stuijk, Parametric throughput analysis of synchronous data flow
graphs, DATE 2008 (divide and conquer); Eisner, Severance, JACM 23(4), 1976 (its number of steps).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from csdf.analysis.critical import CriticalCycle
from csdf.analysis.cycle_lines import CycleLine, LineSearch, Parameter, symbolic_maximum
from csdf.analysis.varying import VaryingGraph
from csdf.arguments import public
from csdf.errors import CsdfError
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.model.shown import Shown, Tabular
from csdf.status import Reason
from csdf.time_limit import ENDS, Budget, reason_of, stop_of


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
        segments_above = [
            segment for segment in self.segments if segment.end is None or segment.end > nominal
        ]
        growing = next((segment for segment in segments_above if segment.slope > 0), None)
        if growing is not None:
            is_later = growing.period(nominal) < now
            return max(Fraction(0), growing.start - nominal) if is_later else Fraction(0)
        if not self.is_complete:
            raise CsdfError(
                f"{self.parameter.name}: the period is known up to {self.segments[-1].end} only"
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
    # The period is convex and ends with the largest slope, so doubling ends in the last segment.
    while last.slopes[0] != slope:
        end = minimum + 2 * (end - minimum)
        last = search.line(end)
    segment_search = _SegmentSearch(search)
    last_end, reason = None, None
    try:
        segment_search.explore(minimum, search.line(minimum), end, last)
        segment_search.segments.append((end, last))
    except ENDS as ended:
        if not segment_search.segments:
            raise
        last_end, reason = (
            max(segment_search.explored, segment_search.segments[-1][0]),
            reason_of(ended),
        )
    lines = _joined(segment_search.segments)
    if len(lines) > 1 and lines[-1][0] == last_end:
        lines.pop()  # a segment without length
    ends = [*(start for start, _ in lines[1:]), last_end]
    segments = [
        LinearSegment(
            start=start, end=end_of_segment, time=line.time, count=line.counts[0],
            tokens=line.tokens, cycle=search.cycle(line),
        )
        for (start, line), end_of_segment in zip(lines, ends, strict=True)
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
    segment_search = _SegmentSearch(search)
    segment_search.explore(minimum, first, nominal, last)
    lines = _joined(segment_search.segments)
    (_, first_line), (start, last_line) = lines[0], lines[-1]
    return last_line, start, first_line


class _SegmentSearch:
    """Search of the segments of the period, from left to right.

    segments: start and line of each segment up to `explored`.
    """

    def __init__(self, search: LineSearch) -> None:
        self._search = search
        self.segments: list[tuple[Fraction, CycleLine]] = []
        self.explored = Fraction(0)

    def explore(self, low: Fraction, first: CycleLine, high: Fraction, last: CycleLine) -> None:
        """Compute the segments between two values, given the critical lines at both."""
        waiting = [(low, first, high, last)]
        while waiting:
            begin, left, end, right = waiting.pop()
            self.explored = begin
            # Convexity: where the left line holds at both ends it holds in between.
            if left.period(end) == right.period(end):
                self.segments.append((begin, left))
            elif right.period(begin) == left.period(begin):
                self.segments.append((begin, right))
            else:
                zero = Fraction(0)
                rise = left.period(zero) - right.period(zero)
                crossing = rise / (right.slopes[0] - left.slopes[0])
                # If no line is above the crossing, both lines meet there; else a new line splits the
                # interval.
                middle = self._search.line(crossing)
                if middle.period(crossing) == left.period(crossing):
                    self.segments += [(begin, left), (crossing, right)]
                else:
                    waiting += [(crossing, middle, end, right), (begin, left, crossing, middle)]


def _joined(segments: list[tuple[Fraction, CycleLine]]) -> list[tuple[Fraction, CycleLine]]:
    """Join consecutive segments of one function; of segments with equal starts the last remains."""
    joined: list[tuple[Fraction, CycleLine]] = []
    for start, line in segments:
        if joined and joined[-1][1].is_same_function(line):
            continue
        if joined and joined[-1][0] == start:
            joined.pop()
        joined.append((start, line))
    return joined
