"""Pictures beside the tables with which notebooks show graphs, fronts and executions."""

from __future__ import annotations

from csdf.analysis.self_timed import SelfTimedExecution
from csdf.analysis.throughput import throughput
from csdf.draw.graph_drawing import graph_svg
from csdf.errors import counted
from csdf.model.graph import Graph
from csdf.model.shown import Shown, drawn, html
from csdf.notebook import Box, facts_and_rows, front_picture, lanes_picture, table
from csdf.search.pareto import ParetoFront

DRAWING = 10.0  # seconds for the critical cycle

html.register(Shown, facts_and_rows)


@html.register
def _graph(value: Graph) -> str:
    """Return actors and channels as tables."""
    unit = "" if value.time_unit == 1 else f", times in units of {value.time_unit}"
    head = f"{value.name}: {value.kind}, {counted(len(value.actors), 'actor')}{unit}"
    actors = [{"actor": one.name, "durations": one.durations} for one in value.actors]
    return table(head, actors) + table(counted(len(value.channels), "channel"), value.to_records())


@drawn.register
def _graph_picture(value: Graph) -> str:
    """Return the graph with its critical cycle in red."""
    return graph_svg(value, throughput(value, budget=DRAWING))


@html.register
def _pareto_front(value: ParetoFront) -> str:
    """Return the points as picture and table."""
    places = [(point.size, point.period or 0) for point in value.points]
    return front_picture(places, across="size", up="period") + facts_and_rows(value)


@html.register
def _self_timed_execution(value: SelfTimedExecution) -> str:
    """Return the firings over time, a lane for each actor, and what is known of them."""
    lanes = sorted({one.actor for one in value.firings})
    boxes = [
        Box(
            f"{one.actor} {one.index} (phase {one.phase})",
            one.start,
            one.end,
            lanes.index(one.actor),
            lanes.index(one.actor) + 1,
            one.phase,
        )
        for one in value.firings
    ]
    picture = lanes_picture(lanes, boxes, across="time") if value.deadlock is None else ""
    return picture + facts_and_rows(value)
