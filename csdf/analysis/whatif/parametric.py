"""The period as an exact function of one parameter of the durations.

Every cycle of the graph asks for a period that is linear in the parameter; the period is the largest
of these, so it is convex and made of straight pieces. Two cycles that are critical at both ends of an
interval either are the whole truth between them, or meet where a third one is above both.

Source: Ghamarian, Geilen, Basten, Stuijk, Parametric throughput analysis of synchronous data flow
graphs, DATE 2008 (divide and conquer); Eisner, Severance, JACM 23(4), 1976 (its number of steps).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearPiece:
    """The period from `start` to `end`: (time + count * x) / tokens, and the cycle that asks for it.

    end: None for a piece that goes on for ever.
    """

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
        """By how much the period grows with the parameter."""
        return self.count / self.tokens

    def to_json(self) -> dict[str, Any]:
        """Return the piece as a JSON value; fractions as texts."""
        return {
            "from": str(self.start),
            "to": None if self.end is None else str(self.end),
            "time": str(self.time),
            "count": str(self.count),
            "tokens": self.tokens,
            "cycle": None if self.cycle is None else self.cycle.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametricPeriod(Shown):
    """The period as a function of a parameter: convex, of straight pieces, exact from `least` on.

    evaluations: periods that were computed to find it.
    """

    parameter: Parameter
    pieces: tuple[LinearPiece, ...]
    evaluations: int

    def piece(self, value: Exact) -> LinearPiece:
        """Return the piece that holds at this value; of two, the one that begins there."""
        number = exact(value, "value")
        if number < self.pieces[0].start:
            raise CsdfError(f"{self.parameter.name}: {number} is below {self.pieces[0].start}")
        return next(one for one in reversed(self.pieces) if one.start <= number)

    def period(self, value: Exact) -> Fraction:
        """Return the exact period at this value. Raises CsdfError below the first piece."""
        return self.piece(value).period(value)

    @property
    def slack(self) -> Fraction | None:
        """How far the parameter may grow from today until the period grows; None: for ever."""
        today = self.parameter.today
        now = self.period(today)
        kept = [one for one in self.pieces if one.end is None or one.end > today]
        for one in kept:
            if one.slope > 0:
                return (
                    max(Fraction(0), one.start - today) if one.period(today) < now else Fraction(0)
                )
        return None

    def to_sympy(self) -> Any:
        """Return the period as an expression of SymPy. Raises CsdfError where that is missing."""
        rows = [(one.time, [one.count], one.tokens) for one in self.pieces]
        return symbolic_maximum([self.parameter.name], rows)

    def to_json(self) -> dict[str, Any]:
        """Return the function as a JSON value; fractions as texts."""
        return {
            "parameter": self.parameter.name,
            "today": str(self.parameter.today),
            "pieces": [one.to_json() for one in self.pieces],
            "evaluations": self.evaluations,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each piece."""
        return [
            {"from": one.start, "to": one.end, "slope": one.slope, "period": one.period(one.start),
             "actors": () if one.cycle is None else one.cycle.actors}
            for one in self.pieces
        ]  # fmt: skip

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each piece, as for a data frame: floats, and exact texts beside them."""
        return with_floats(self.rows(), "from", "to", "slope", "period")


def parametric_period(
    graph: Graph,
    parameter: Parameter,
    *,
    budget: Budget = None,
) -> ParametricPeriod:
    """Return the period as an exact function of the parameter, from its least value to infinity.

    With n pieces it takes about 2 n + log(range) computations of a period.
    Raises InconsistentGraph; CsdfError for a graph that deadlocks; GaveUp where the
    budget, a stop or seconds, ends it.
    """
    search = LineSearch(VaryingGraph(graph, budget), [parameter])
    least = parameter.least
    end = max(parameter.today, least) + 1
    slope = search.last_slope()
    last = search.line(end)
    while last.slopes[0] != slope:
        end = least + 2 * (end - least)
        last = search.line(end)
    found = [*_between(search, least, search.line(least), end, last), (end, last)]
    return ParametricPeriod(
        parameter=parameter,
        pieces=_pieces(search, _joined(found), None),
        evaluations=search.evaluations,
    )


def line_below_today(
    search: LineSearch, parameter: Parameter
) -> tuple[CycleLine, Fraction, CycleLine]:
    """Return the line left of today, where it begins, and the line at the least value."""
    least, today = parameter.least, parameter.today
    first, last = search.line(least), search.line(today)
    found = _joined(_between(search, least, first, today, last))
    return found[-1][1], found[-1][0], found[0][1]


def _between(
    search: LineSearch, low: Fraction, first: CycleLine, high: Fraction, last: CycleLine
) -> list[tuple[Fraction, CycleLine]]:
    """The pieces from `low` to `high`, each with where it begins; both ends' lines are critical."""
    found: list[tuple[Fraction, CycleLine]] = []
    waiting = [(low, first, high, last)]
    while waiting:
        begin, left, end, right = waiting.pop()
        if left.period(end) == right.period(end):
            found.append((begin, left))
        elif right.period(begin) == left.period(begin):
            found.append((begin, right))
        else:
            meeting = _meeting(left, right)
            middle = search.line(meeting)
            if middle.period(meeting) == left.period(meeting):
                found += [(begin, left), (meeting, right)]
            else:
                waiting += [(meeting, middle, end, right), (begin, left, meeting, middle)]
    return found


def _meeting(left: CycleLine, right: CycleLine) -> Fraction:
    """Return the value at which two lines of different slopes are equal."""
    zero = Fraction(0)
    return (left.period(zero) - right.period(zero)) / (right.slopes[0] - left.slopes[0])


def _joined(found: list[tuple[Fraction, CycleLine]]) -> list[tuple[Fraction, CycleLine]]:
    """The pieces, those of one function as one; of those that begin at one place the last."""
    kept: list[tuple[Fraction, CycleLine]] = []
    for start, line in found:
        if kept and kept[-1][1].is_same_function(line):
            continue
        if kept and kept[-1][0] == start:
            kept.pop()
        kept.append((start, line))
    return kept


def _pieces(
    search: LineSearch, found: list[tuple[Fraction, CycleLine]], end: Fraction | None
) -> tuple[LinearPiece, ...]:
    ends = [*(start for start, _ in found[1:]), end]
    return tuple(
        LinearPiece(
            start=start, end=stop, time=line.time, count=line.counts[0], tokens=line.tokens,
            cycle=search.cycle(line),
        )
        for (start, line), stop in zip(found, ends, strict=True)
    )  # fmt: skip
