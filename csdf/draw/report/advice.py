"""Sentences on what limits a graph and what would change it, and its storage/throughput front."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from csdf.analysis.bound_channels import unlimited_actors, why_unlimited
from csdf.analysis.critical import CriticalCycle
from csdf.analysis.liveness import Deadlock
from csdf.draw.report.findings import FasterActor, GraphFindings
from csdf.draw.report.markup import Html, element
from csdf.errors import counted
from csdf.model.graph import Graph, SpaceName
from csdf.search.pareto import ParetoFront, ParetoPoint
from csdf.status import Status
from csdf.units import duration, exact, listed, percent, size

MOST_WAITING = 30  # of a cycle that blocks itself


def headline(findings: GraphFindings) -> str:
    """Return the one sentence to read first."""
    result = findings.result
    if result is None:
        low, high = findings.period_bounds
        if low is None:
            return "The period was not found within the time limit."
        above = "" if high is None else f", upper bound {exact(high)}"
        return f"The period was not found within the time limit: lower bound {exact(low)}{above}."
    if result.deadlock is not None:
        names = tuple(firing.actor for firing in result.deadlock.cycle)
        if len(names) == 1:
            return f"The graph deadlocks: {listed(names)} waits for itself and can never go on."
        return f"The graph deadlocks: {listed(names)} wait for one another and can never go on."
    if not result.period or result.critical_cycle is None:
        return (
            "Nothing limits this graph: none of its cycles takes time, so its period is 0 "
            f"({why_unlimited(findings.graph)}{_switch(findings.graph)})."
        )
    iteration = "frame" if findings.time == "ns" else "iteration"
    return (
        f"One {iteration} takes {duration(result.period, findings.time)} in the long run, and no "
        f"schedule is faster: {_limit(result.critical_cycle)}."
    )


def _switch(graph: Graph) -> str:
    """Return a sentence on what would limit the graph; empty if nothing would."""
    with_switch = "; with --no-auto-concurrency one firing of an actor at a time goes on"
    return with_switch if unlimited_actors(graph) else ""


def _limit(cycle: CriticalCycle) -> str:
    if len(cycle.actors) == 1:
        return f"{listed(cycle.actors)} is always busy"
    return f"the cycle of {listed(cycle.actors)} takes that long"


def limits(findings: GraphFindings) -> list[str]:
    """Return what the critical cycle consists of."""
    cycle = findings.result.critical_cycle if findings.result is not None else None
    if cycle is None:
        return []
    over = listed(tuple(_channel(name) for name in cycle.channels))
    sentences = [
        f"The critical cycle leads over {over}: firings of {duration(cycle.time, findings.time)} "
        f"follow one another in {counted(cycle.tokens, 'iteration')}."
    ]
    if len(cycle.actors) == 1 and len(cycle.channels) == 1:
        name = cycle.actors[0]
        count = findings.repetitions[name]
        sentence = "Only faster or overlapping firings of this actor shorten the period."
        if name in _useless(findings):
            sentence = (
                "Other cycles allow no less: only all of them together give a shorter period."
            )
        sentences.append(
            f"“{name}” fires {counted(count, 'time')} per iteration; its self-loop allows no more at "
            f"once. {sentence}"
        )
    return sentences


def _channel(name: str) -> str:
    return f"the free space of {name.channel}" if isinstance(name, SpaceName) else name


def changes(findings: GraphFindings) -> list[str]:
    """Return what to change, and what that gives."""
    return [*_faster(findings), *_more_space(findings), *_storage(findings)]


def _useless(findings: GraphFindings) -> list[str]:
    """Return the actors that do not change the period if one of them alone is faster."""
    period = findings.result.period if findings.result is not None else None
    return [actor.actor for actor in findings.faster if actor.period == period]


def _faster(findings: GraphFindings) -> Iterator[str]:
    period = findings.result.period if findings.result is not None else None
    useless = _useless(findings)
    if useless:
        alone = "" if len(useless) == 1 else ", one alone,"
        yield (
            f"{listed(useless)} twice as fast{alone} would change nothing: "
            "another cycle allows no less."
        )
    for actor in findings.faster:
        if not period or actor.period == period:
            continue
        limit = f"; {_next_limit(actor, findings)}" if actor.actors else ""
        yield (
            f"If “{actor.actor}” were twice as fast, the period would be "
            f"{_period(findings, actor.period)}, {percent(actor.period / period)} of now{limit}."
        )


def _next_limit(faster: FasterActor, findings: GraphFindings) -> str:
    """Return the limit of the graph when an actor is faster."""
    if set(faster.actors) != set(findings.critical_actors):
        return f"then the critical cycle is {listed(faster.actors)}"
    return "the critical cycle stays the same"


def _period(findings: GraphFindings, value: Fraction | int) -> str:
    """Return a period, with its unit if it is in nanoseconds."""
    return duration(value, "ns") if findings.time == "ns" else exact(value)


def _more_space(findings: GraphFindings) -> Iterator[str]:
    names = [name.channel for name in findings.critical_channels if isinstance(name, SpaceName)]
    if names and findings.result is not None and findings.result.deadlock is None:
        yield f"The graph waits for room on {listed(names)}: a larger capacity there may help."


def _storage(findings: GraphFindings) -> Iterator[str]:
    unit, smallest, front = findings.unit, findings.smallest, findings.front
    if smallest is not None and smallest.point is not None:
        storage, bound = size(smallest.point.size, unit), size(smallest.lower_bound, unit)
        period = smallest.point.period
        then = "" if period is None else f" The period is then {_period(findings, period)}."
        if smallest.status is Status.OPTIMAL:
            yield f"It needs {storage} of buffers to run at all.{then}"
        else:
            yield f"It runs in {storage} of buffers; no less than {bound} is possible.{then}"
    if front is None or len(front.points) < 2:
        return
    buy = best_buy(front)
    if buy is not None and len(front.points) > 2:
        smaller, larger = buy
        yield (
            f"The best buy: from {size(smaller.size, unit)} to {size(larger.size, unit)} "
            f"the period falls from {_period(findings, smaller.period or 0)} to "
            f"{_period(findings, larger.period or 0)}."
        )
    if front.is_complete:
        yield _full_speed(front.points[0].size, front.points[-1].size, unit)


def _full_speed(minimum: int, maximum: int, unit: str) -> str:
    more = (
        percent(Fraction(maximum - minimum, minimum)) if minimum else size(maximum - minimum, unit)
    )
    return (
        f"Full speed needs {size(maximum, unit)}, {more} more than the smallest; "
        "whatever is larger buys nothing."
    )


def waiting(blocked: Deadlock) -> list[str]:
    """Return who waits for whom on the cycle of a deadlock."""
    sentences = []
    for firing in blocked.cycle[:MOST_WAITING]:
        where = f"{counted(firing.needed, 'token')} on “{firing.channel}”"
        if isinstance(firing.channel, SpaceName):
            where = f"room for {firing.needed} on “{firing.channel.channel}”"
        sentences.append(
            f"“{firing.actor}” needs {where} and finds {firing.tokens}; it waits for "
            f"“{firing.producer}”. With {firing.needed - firing.tokens} more it could fire once."
        )
    if len(blocked.cycle) > MOST_WAITING:
        sentences.append(f"and {len(blocked.cycle) - MOST_WAITING} more.")
    return sentences


MOST_TABLED = 200  # points listed in the table under the picture


def front_data(front: ParetoFront, unit: str) -> dict[str, Any]:
    """Return the front for the scripts; capacities as changes from the point before.

    Of each point: s the size, p the period as text, y the throughput, r its share of the largest
    throughput, d the changed capacities, by the index of the channel in `names`.
    """
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
    """Return the points of a front with size and throughput alone."""
    return [{"s": point.size, "y": _speed(point.period or Fraction(0))} for point in front.points]


def _speed(period: Fraction) -> float | None:
    """Return the throughput as a float; None where it is unbounded or too large for a float."""
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


def front_table(front: ParetoFront, unit: str, time: str) -> Html:
    """Return size, period and throughput of the points as a table that needs no script."""
    head = element(
        "tr",
        *(
            element("th", title, scope="col", class_="number")
            for title in (f"size ({unit})", f"period ({time})", "of the fastest")
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
        (smaller, larger)
        for smaller, larger in zip(front.points, front.points[1:], strict=False)
        if smaller.throughput is not None and larger.throughput is not None
    ]
    return max(steps, key=_gain, default=None)


def _gain(step: tuple[ParetoPoint, ParetoPoint]) -> Fraction:
    smaller, larger = step
    return ((larger.throughput or 0) - (smaller.throughput or 0)) / Fraction(
        larger.size - smaller.size
    )
