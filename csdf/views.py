"""Tables and pictures with which notebooks show values of this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from csdf.analysis.capacity_steps import CapacitySteps
from csdf.analysis.latency import DependencyLatency
from csdf.analysis.liveness import Deadlock
from csdf.analysis.parametric import ParametricPeriod, ParametricRegions
from csdf.analysis.self_timed import SelfTimedExecution
from csdf.analysis.sensitivity import Sensitivity
from csdf.analysis.statistics import Statistics
from csdf.analysis.throughput import Throughput, throughput
from csdf.draw.graph_drawing import graph_svg
from csdf.errors import counted
from csdf.mapping.search import BestMapping
from csdf.mapping.throughput import MappedThroughput
from csdf.model.graph import Graph
from csdf.model.schedule import Firing, PeriodicSchedule
from csdf.model.shown import drawn, html
from csdf.notebook import Box, facts, front_picture, in_words, lanes_picture, table
from csdf.scenarios.throughput import ScenarioThroughput
from csdf.search.pareto import ParetoFront, SmallestStorage

DRAWING = 10.0  # seconds for the critical cycle


@html.register
def _periodic_schedule(value: PeriodicSchedule) -> str:
    """Return period and starts as tables."""
    head = facts("periodic schedule", {"period": value.period})
    return head + table("first starts", value.rows())


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
    state = "complete" if value.is_complete else "incomplete"
    head = f"{counted(len(value.points), 'point')}, {state}: {value.reason}"
    places = [(point.size, point.period or 0) for point in value.points]
    picture = front_picture(places, across="size", up="period")
    return picture + table(head, value.rows())


@html.register
def _smallest_storage(value: SmallestStorage) -> str:
    """Return the answer as a table."""
    known: dict[str, object] = {"at least": value.lower_bound}
    if value.point is not None:
        known |= {"size": value.point.size, "period": value.point.period}
        known |= {"capacities": value.point.capacities}
    return facts(f"{value.status}: {value.reason}", known)


@html.register
def _self_timed_execution(value: SelfTimedExecution) -> str:
    """Return the firings over time and what is known of them."""
    if value.deadlock is not None:
        return _deadlock(value.deadlock)
    known = {
        "iterations": value.iterations,
        "transient": value.transient,
        "steady": value.steady,
        "period": value.period,
        "peaks": value.peaks,
    }
    return _firings_picture(value.firings) + facts("self-timed execution", known)


@html.register
def _statistics(value: Statistics) -> str:
    """Return the figures as a table."""
    shown = {name.replace("_", " "): number for name, number in asdict(value).items()}
    return facts("statistics", shown)


@html.register
def _deadlock(value: Deadlock) -> str:
    """Return who waits for whom as a table."""
    return table("deadlock: each waits for the next, the last for the first", value.to_json())


@html.register
def _throughput(value: Throughput) -> str:
    """Return the answer as a table."""
    if value.deadlock is not None:
        return _deadlock(value.deadlock)
    found: dict[str, object] = {"period": value.period, "throughput": value.throughput}
    if value.critical_cycle is not None:
        cycle = value.critical_cycle
        found |= {"critical cycle": cycle.actors, "over": cycle.channels}
        found |= {"time on the cycle": cycle.time, "iterations on it": cycle.tokens}
    return facts("throughput", found)


@html.register
def _sensitivity(value: Sensitivity) -> str:
    """Return a row for each actor and phase, and one for each channel where more would help."""
    if value.deadlock is not None:
        return _deadlock(value.deadlock)
    state = "" if value.is_complete else f", incomplete: {value.reason}"
    rows = [
        {
            "actor": one.actor,
            "phase": "all" if one.phase is None else one.phase,
            "slack": "without limit" if one.slack is None else one.slack,
            "gain": one.gain,
            "until": one.until,
            "least period": one.least_period,
        }
        for one in value.actors
    ]
    helps = [asdict(one) for one in value.channels if one.period != value.period]
    found = table(f"sensitivity, period {in_words(value.period)}{state}", rows)
    return found + (table("channels of which more helps", helps) if helps else "")


@html.register
def _parametric_period(value: ParametricPeriod) -> str:
    """Return the pieces as a table."""
    return table(f"period over {value.parameter.name}", value.rows())


@html.register
def _parametric_regions(value: ParametricRegions) -> str:
    """Return the regions as a table."""
    names = " and ".join(one.name for one in value.parameters)
    return table(f"period over {names}", value.rows())


@html.register
def _capacity_steps(value: CapacitySteps) -> str:
    """Return the steps as a table."""
    state = "" if value.is_complete else ", incomplete"
    return table(f"period over the capacity of {value.channel}{state}", value.rows())


@html.register
def _mapped_throughput(value: MappedThroughput) -> str:
    """Return period, limit and use of each processor as tables."""
    if value.deadlock is not None:
        return facts("mapped throughput", {"deadlock": value.deadlock})
    found: dict[str, object] = {"period": value.period}
    if value.critical_cycle is not None:
        found |= {"critical cycle": value.critical_cycle.actors}
    rows = [{"processor": core, "works": part} for core, part in value.utilization.items()]
    return facts("mapped throughput", found) + table("processors", rows)


@html.register
def _best_mapping(value: BestMapping) -> str:
    """Return the mapping with its proof as tables."""
    known = {"period": value.period, "at least": value.lower_bound, "gap": value.gap}
    rows = [
        {"processor": core, "first": order.prefix, "then for ever": order.periodic,
         "works": value.found.utilization.get(core)}
        for core, order in value.mapping.orders.items()
    ]  # fmt: skip
    return facts(f"mapping, {value.status}", known) + table("static orders", rows)


@html.register
def _scenario_throughput(value: ScenarioThroughput) -> str:
    """Return the worst run and the scenarios alone as tables."""
    found: dict[str, object] = {
        "period": value.period,
        "throughput": value.throughput,
        "slowest run": value.critical_scenarios,
        "over the states": value.critical_states,
    }
    rows = [{"scenario": name, "period alone": period} for name, period in value.alone.items()]
    return facts("guaranteed throughput", found) + table("scenarios", rows)


@html.register
def _dependency_latency(value: DependencyLatency) -> str:
    """Return the latencies as a table."""
    shown = {name.replace("_", " "): number for name, number in asdict(value).items()}
    return facts("latency by dependency", shown)


def _firings_picture(firings: Sequence[Firing]) -> str:
    """Return firings over time as an SVG element, a lane for each actor."""
    lanes = list(dict.fromkeys(sorted(one.actor for one in firings)))
    boxes = [
        Box(
            f"{one.actor} {one.index} (phase {one.phase})",
            one.start,
            one.end,
            lanes.index(one.actor),
            lanes.index(one.actor) + 1,
            one.phase,
        )
        for one in firings
    ]
    return lanes_picture(lanes, boxes, across="time")
