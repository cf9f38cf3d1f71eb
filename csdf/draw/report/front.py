"""The storage/throughput front as data for the page, and what it says in words."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from csdf.draw.report.markup import Html, element
from csdf.errors import counted
from csdf.search.pareto import ParetoFront, ParetoPoint
from csdf.words import exact, percent, size

MOST_TABLED = 200  # points listed in the table under the picture


def front_data(front: ParetoFront, unit: str) -> dict[str, Any]:
    """Return the front for the scripts; capacities as changes from the point before."""
    names = list(front.points[0].capacities) if front.points else []
    return {
        "unit": unit,
        "names": names,
        "complete": front.is_complete,
        "lower": front.lower_bound,
        "best": _speed(front.best_period) if front.best_period else None,
        "points": [
            {
                "s": point.size,
                "p": exact(point.period or 0),
                "y": _speed(point.period or Fraction(0)),
                "r": _relative(point, front),
                "d": _changes(point, before, names),
            }
            for point, before in zip(front.points, (None, *front.points), strict=False)
        ],
    }


def step_data(front: ParetoFront) -> list[dict[str, Any]]:
    """Return sizes and throughputs alone, for steps without capacities."""
    return [{"s": point.size, "y": _speed(point.period or Fraction(0))} for point in front.points]


def _speed(period: Fraction) -> float | None:
    """Throughput for the height of a point; None where it is unbounded or beyond a float."""
    try:
        return float(1 / period) if period else None
    except OverflowError:
        return None


def _relative(point: ParetoPoint, front: ParetoFront) -> str | None:
    if not front.best_period or not point.period:
        return None
    return percent(front.best_period / point.period)


def _changes(point: ParetoPoint, before: ParetoPoint | None, names: list[str]) -> dict[int, int]:
    return {
        number: point.capacities[name]
        for number, name in enumerate(names)
        if before is None or before.capacities[name] != point.capacities[name]
    }


def status_in_words(front: ParetoFront, unit: str) -> str:
    """Return whether the front is complete, and if not, from where on something may be missing."""
    count = counted(len(front.points), "point")
    if front.is_complete:
        return f"Complete: {count}, every one found and proved; none is missing."
    if front.best_period is None:
        return f"No point: {front.reason}."
    return (
        f"Incomplete: {count} proved so far; points may be missing from "
        f"{size(front.lower_bound, unit)} on ({front.reason})."
    )


def front_table(front: ParetoFront, unit: str) -> Html:
    """Return size, period and throughput of the points as a table that needs no script."""
    head = element(
        "tr",
        *(
            element("th", title, scope="col", class_="number")
            for title in (f"size ({unit})", "period", "of the fastest")
        ),
    )
    body = element("tbody", *_rows(front))
    return element("table", element("thead", head), body, class_="plain")


def _rows(front: ParetoFront) -> Iterator[Html]:
    for point in front.points[:MOST_TABLED]:
        yield element(
            "tr",
            element("td", point.size, class_="number"),
            element("td", exact(point.period or 0), class_="number"),
            element("td", _relative(point, front) or "", class_="number"),
        )


def best_buy(front: ParetoFront) -> tuple[ParetoPoint, ParetoPoint] | None:
    """Return the step of the front that gains most throughput for each unit of storage."""
    steps = [
        (one, other)
        for one, other in zip(front.points, front.points[1:], strict=False)
        if one.throughput is not None and other.throughput is not None
    ]
    return max(steps, key=_gain, default=None)


def _gain(step: tuple[ParetoPoint, ParetoPoint]) -> Fraction:
    one, other = step
    return ((other.throughput or 0) - (one.throughput or 0)) / Fraction(other.size - one.size)
