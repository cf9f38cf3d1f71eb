"""Pictures beside the tables with which notebooks show graphs, fronts and executions."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from csdf.analysis.self_timed import SelfTimedExecution
from csdf.analysis.sensitivity import Sensitivity
from csdf.analysis.throughput import Throughput, throughput
from csdf.draw.graph_drawing import graph_svg
from csdf.errors import GaveUp, InconsistentGraph, counted
from csdf.model.graph import Graph
from csdf.model.schedule import PeriodicSchedule
from csdf.model.shown import Shown, drawn, html
from csdf.notebook import facts, facts_and_rows, svg, table
from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage

DRAWING = 10.0  # seconds for the critical cycle
GLANCE = 1.0  # seconds, where a graph is the value of a cell
MOST_COLUMNS = 8  # channels of a front with a column each
TIME = "time units"
UNITS = {
    **dict.fromkeys(("period", "time", "min_period", "starts", "recurrence", "slack"), TIME),
    "throughput": "iterations per time unit",
}

html.register(Shown, facts_and_rows)
for kind in (Throughput, Sensitivity, PeriodicSchedule, SmallestStorage):
    html.register(kind, partial(facts_and_rows, units=UNITS))


@html.register
def _graph(value: Graph) -> str:
    """Return the graph with its critical cycle in red, and a short table.

    A graph whose picture or period is not found within a second is shown by its actors and channels.
    """
    size = {"actors": len(value.actors), "channels": len(value.channels)}
    try:
        answer = throughput(value, budget=GLANCE)
        picture = graph_svg(value, answer)
    except (GaveUp, InconsistentGraph, OverflowError):
        return _actors_and_channels(value)
    facts_of_graph: dict[str, object] = {f"period ({TIME})": answer.period}
    if value.time_unit != 1:
        facts_of_graph["times"] = f"in units of {value.time_unit}"
    if answer.deadlock is not None:
        facts_of_graph = {"deadlock": " -> ".join(step.actor for step in answer.deadlock.cycle)}
    elif answer.critical_cycle is not None:
        facts_of_graph["critical cycle"] = answer.critical_cycle.actors
    return picture + facts(f"{value.name}: {value.kind}", size | facts_of_graph)


def _actors_and_channels(value: Graph) -> str:
    unit = "" if value.time_unit == 1 else f", times in units of {value.time_unit}"
    head = f"{value.name}: {value.kind}, {counted(len(value.actors), 'actor')}{unit}"
    actors = [{"actor": actor.name, "durations": actor.durations} for actor in value.actors]
    return table(head, actors) + table(counted(len(value.channels), "channel"), value.to_records())


@drawn.register
def _graph_picture(value: Graph) -> str:
    """Return the graph with its critical cycle in red."""
    return graph_svg(value, throughput(value, budget=DRAWING))


@html.register
def _pareto_front(value: ParetoFront) -> str:
    """Return the points as picture and tables; as tables alone where a speed is no float above 0."""
    is_drawn = value.points and all(float(point.throughput or 0) for point in value.points)
    picture = ""
    if is_drawn:
        charts = import_module("csdf.draw.charts")  # with Matplotlib, which is slow to import
        picture = svg(charts.front_picture, "front", value, value.unit)
    entries = {
        "complete": value.is_complete,
        "reason": value.reason,
        f"lower bound ({value.unit})": value.lower_bound,
        f"min. period ({TIME})": value.best_period,
        "distributions evaluated": value.evaluations,
    }
    points = [_point(point, value.unit) for point in value.points]
    return picture + facts("Pareto front", entries) + (table("points", points) if points else "")


def _point(point: ParetoPoint, unit: str) -> dict[str, object]:
    """Return a point as a row of a table; many capacities share a cell."""
    row: dict[str, object] = {
        f"size ({unit})": point.size,
        f"period ({TIME})": point.period,
        "throughput (iterations per time unit)": point.throughput,
    }
    if len(point.capacities) > MOST_COLUMNS:
        return row | {"capacities (tokens)": point.capacities}
    return row | {f"{name} (tokens)": tokens for name, tokens in point.capacities.items()}


@html.register
def _self_timed_execution(value: SelfTimedExecution) -> str:
    """Return the firings over time, a row for each actor, and what is known of them."""
    if value.deadlock is not None:
        return facts_and_rows(value)
    charts = import_module("csdf.draw.charts")
    actors = sorted({firing.actor for firing in value.firings})
    picture = svg(charts.schedule_picture, "self-timed execution", value.firings, actors)
    return picture + facts_and_rows(value)
