"""Everything a page says about a graph, within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from csdf.analysis.concurrency import why_unlimited
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import Throughput, throughput
from csdf.cli.frame.long_work import limited_part
from csdf.cli.reporting.executing import executed, refusal
from csdf.draw.report.findings import FasterActor, GraphFindings, Run
from csdf.errors import GaveUp, counted
from csdf.model.graph import Graph
from csdf.search.pareto import ParetoFront, SmallestStorage
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import Choice
from csdf.stopping import Progress, Stop
from csdf.words import size

MOST_FASTER = 4  # actors that are tried twice as fast
MOST_SEARCHED = 20_000  # channels of a graph whose storage is searched


def graph_findings(
    graph: Graph,
    stop: Stop,
    *,
    unit: str = "tokens",
    time: str = "time units",
    smallest: SmallestStorage | None = None,
) -> GraphFindings:
    """Return what was found out; smallest: the smallest storage where that is known already.

    Raises InconsistentGraph.
    """
    repetitions = repetition_vector(graph)
    left_out: dict[str, str] = {}
    bounds: tuple[Fraction | None, Fraction | None] = (None, None)
    result, ended = None, None
    try:
        with limited_part(stop, 0.4, f"the period of {graph.name}") as part:
            result = throughput(graph, budget=part)
    except GaveUp as end:
        bounds, ended = (end.low, end.high), end.reason
    found = GraphFindings(
        graph=graph, repetitions=repetitions, result=result, period_bounds=bounds,
        unit=unit, time=time, smallest=smallest, left_out=left_out,
    )  # fmt: skip
    if result is None:
        reason = f"{ended} before the period was found"
        left_out |= {"schedule": reason, "front": reason}
        return found
    if result.deadlock is not None:
        return found
    found = replace(found, faster=tuple(_faster(graph, result, stop)))
    found = _with_storage(found, stop, left_out)
    return replace(found, runs=tuple(_runs(found, stop, left_out)))


def _faster(graph: Graph, result: Throughput, stop: Stop) -> Iterator[FasterActor]:
    """Return what the graph would do with each of the critical actors twice as fast."""
    cycle = result.critical_cycle
    for name in cycle.actors[:MOST_FASTER] if cycle is not None else ():
        try:
            with limited_part(stop, 0.1, f"{graph.name} with a faster {name}") as part:
                faster = throughput(_twice_as_fast(graph, name), budget=part)
        except GaveUp:
            return
        limit = faster.critical_cycle.actors if faster.critical_cycle is not None else ()
        yield FasterActor(actor=name, period=faster.period or Fraction(0), actors=limit)


def _twice_as_fast(graph: Graph, name: str) -> Graph:
    """Half the durations of one actor, in a time unit of half the length."""
    actors = tuple(
        actor
        if actor.name == name
        else replace(actor, durations=tuple(2 * time for time in actor.durations), processors=())
        for actor in graph.actors
    )
    return replace(graph, actors=actors, time_unit=graph.time_unit / 2, origin=None)


def _with_storage(found: GraphFindings, stop: Stop, left_out: dict[str, str]) -> GraphFindings:
    """Add the smallest storage and the front, as far as they are found."""
    graph, choice = found.graph, Choice(unit=found.unit)
    if len(graph.channels) > MOST_SEARCHED:
        channels = counted(len(graph.channels), "channel")
        reason = f"the storage of {channels} is searched by csdf buffers only"
        left_out |= {"smallest": f"smallest buffers: {reason}", "front": reason}
        return found
    smallest = found.smallest or _smallest(graph, choice, stop, left_out)
    front = None
    if found.result is not None and not found.result.period:
        left_out["front"] = (
            f"nothing limits the unbounded graph, so that the front has no end: {why_unlimited(graph)}"
        )
    else:
        front = _front(graph, choice, stop, left_out)
    return replace(found, smallest=smallest, front=front)


def _smallest(
    graph: Graph, choice: Choice, stop: Stop, left_out: dict[str, str]
) -> SmallestStorage | None:
    found, reason = None, ""
    try:
        with limited_part(stop, 0.3, _smallest_in_words) as part:
            found = smallest_storage(graph, choice, budget=part)
    except GaveUp as end:
        reason = str(end)
    if found is not None and found.point is not None:
        return found
    left_out["smallest"] = f"smallest buffers: {reason if found is None else found.reason}"
    return found


def _front(
    graph: Graph, choice: Choice, stop: Stop, left_out: dict[str, str]
) -> ParetoFront | None:
    try:
        with limited_part(stop, 0.55, _front_in_words) as part:
            return pareto_front(graph, choice, budget=part)
    except GaveUp as end:
        left_out["front"] = str(end)
    return None


def _smallest_in_words(progress: Progress) -> str:
    return (
        f"smallest buffers: at least {progress.lower_bound}, "
        f"{counted(progress.done or 0, 'distribution')} evaluated"
    )


def _front_in_words(progress: Progress) -> str:
    return (
        f"front: {counted(progress.found, 'point')}, "
        f"nothing missing below size {progress.lower_bound}, "
        f"{counted(progress.done or 0, 'distribution')} evaluated"
    )


def _runs(found: GraphFindings, stop: Stop, left_out: dict[str, str]) -> Iterator[Run]:
    """Executions in the capacities of the file, at full speed, and in the smallest buffers."""
    reason = refusal(found.graph, found.repetitions)
    if reason is not None:
        left_out["schedule"] = reason
        return
    for title, capacities in _distributions(found):
        try:
            with limited_part(stop, 0.6, f"executing {found.graph.name}") as part:
                run = executed(
                    found.graph,
                    found.repetitions,
                    title=title,
                    capacities=capacities,
                    stop=part,
                )
        except GaveUp as end:
            left_out["schedule"] = f"{title}: {end}"
            continue
        yield run


def _distributions(found: GraphFindings) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Capacities worth a look, each once, with what they are."""
    front, smallest = found.front, found.smallest
    own = any(one.capacity is not None and not one.is_self_loop for one in found.graph.channels)
    seen: list[tuple[dict[str, int], str]] = []
    has_front = front is not None and bool(front.points)
    has_smallest = smallest is not None and smallest.point is not None
    if own or not (has_front or has_smallest):
        seen.append(({}, "as given"))
    if front is not None and front.points:
        point = front.points[-1]
        what = "full speed" if front.is_complete else "fastest proved"
        seen.append((dict(point.capacities), f"{what}, {size(point.size, found.unit)}"))
    if smallest is not None and smallest.point is not None:
        point = smallest.point
        seen.append((dict(point.capacities), f"smallest, {size(point.size, found.unit)}"))
    for number, (capacities, title) in enumerate(seen):
        if capacities not in [other for other, _ in seen[:number]]:
            yield title, capacities
