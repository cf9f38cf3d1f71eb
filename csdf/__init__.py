"""Exact analysis of cyclo-static dataflow graphs.

    import csdf

    graph = csdf.read_graph("graph.xml")
    csdf.repetition_vector(graph)
    csdf.throughput(graph).period

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as `typing` has it, which would take longest of all that is loaded here

if TYPE_CHECKING:
    from typing import Any

    from csdf.analysis.abstraction.actors import merge_actors
    from csdf.analysis.abstraction.phases import FasterGraph, faster_graph, slower_graph
    from csdf.analysis.bounded import limit_concurrency, with_capacities
    from csdf.analysis.concurrency import without_auto_concurrency
    from csdf.analysis.consistency import repetition_vector
    from csdf.analysis.critical import CriticalCycle
    from csdf.analysis.expansion import hsdf, merge_parallel_channels, unfold
    from csdf.analysis.judge import check_periodic_schedule, check_schedule
    from csdf.analysis.latencies.behind_source import SourceLatency, source_latency
    from csdf.analysis.latencies.by_dependency import DependencyLatency, dependency_latency
    from csdf.analysis.latencies.by_iteration import latency
    from csdf.analysis.latencies.under_orders import OrderedLatency, ordered_latency
    from csdf.analysis.liveness import Deadlock, deadlock
    from csdf.analysis.mapping.execution import MappedExecution, mapped_execution
    from csdf.analysis.mapping.throughput import MappedThroughput, mapped_throughput
    from csdf.analysis.scenarios.throughput import ScenarioThroughput, scenario_throughput
    from csdf.analysis.schedules import (
        periodic_schedule,
        periodic_throughput,
        strictly_periodic_schedule,
    )
    from csdf.analysis.self_timed import SelfTimedExecution, self_timed_execution
    from csdf.analysis.statistics import Statistics, statistics
    from csdf.analysis.throughput import Throughput, throughput
    from csdf.analysis.whatif.capacity_steps import CapacitySteps, capacity_steps
    from csdf.analysis.whatif.parameter import Parameter, added_time, added_to_phase, time_scale
    from csdf.analysis.whatif.parametric import ParametricPeriod, parametric_period
    from csdf.analysis.whatif.regions import ParametricRegions, parametric_regions
    from csdf.analysis.whatif.sensitivity import (
        ActorSensitivity,
        ChannelSensitivity,
        Sensitivity,
        sensitivity,
    )
    from csdf.errors import CsdfError, GaveUp, InconsistentGraph, InvalidGraph
    from csdf.generation.random_graphs import random_graph
    from csdf.generation.sampled_graphs import SampledShape, sampled_graph
    from csdf.generation.shape import GraphShape
    from csdf.generation.spread import Spread
    from csdf.io.graph_files import read_graph, write_graph
    from csdf.io.mapping.files import read_mapping, read_platform, write_mapping, write_platform
    from csdf.io.mapping.nsoc import MappedApplication, read_nsoc
    from csdf.io.mapping.nsoc_writer import write_nsoc
    from csdf.io.scenarios.files import read_scenarios
    from csdf.model.builder import GraphBuilder
    from csdf.model.graph import Actor, Channel, Graph
    from csdf.model.mapping import (
        Buffer,
        Connection,
        Core,
        InvalidMapping,
        Mapping,
        Platform,
        StaticOrder,
    )
    from csdf.model.scenarios import Scenario, ScenarioGraph, State
    from csdf.model.schedule import Firing, PeriodicSchedule
    from csdf.outcome import Reason, Status
    from csdf.search.latency_storage import LatencyStorage, storage_for_latency
    from csdf.search.mapping.buffers import LeastBuffers, least_buffers
    from csdf.search.mapping.fewest import FewestProcessors, fewest_processors
    from csdf.search.mapping.search import BestMapping, best_mapping
    from csdf.search.pareto import ParetoFront, ParetoPoint, SmallestStorage
    from csdf.search.trade_off import pareto_front, smallest_storage, sufficient_capacities
    from csdf.search.variables import Choice
    from csdf.stopping import Progress, Stop

_HOMES = {
    "Actor": "csdf.model.graph",
    "ActorSensitivity": "csdf.analysis.whatif.sensitivity",
    "BestMapping": "csdf.search.mapping.search",
    "Buffer": "csdf.model.mapping",
    "CapacitySteps": "csdf.analysis.whatif.capacity_steps",
    "Channel": "csdf.model.graph",
    "ChannelSensitivity": "csdf.analysis.whatif.sensitivity",
    "Choice": "csdf.search.variables",
    "Connection": "csdf.model.mapping",
    "Core": "csdf.model.mapping",
    "CriticalCycle": "csdf.analysis.critical",
    "CsdfError": "csdf.errors",
    "Deadlock": "csdf.analysis.liveness",
    "DependencyLatency": "csdf.analysis.latencies.by_dependency",
    "FasterGraph": "csdf.analysis.abstraction.phases",
    "FewestProcessors": "csdf.search.mapping.fewest",
    "Firing": "csdf.model.schedule",
    "GaveUp": "csdf.errors",
    "Graph": "csdf.model.graph",
    "GraphBuilder": "csdf.model.builder",
    "GraphShape": "csdf.generation.shape",
    "InconsistentGraph": "csdf.errors",
    "InvalidGraph": "csdf.errors",
    "InvalidMapping": "csdf.model.mapping",
    "LatencyStorage": "csdf.search.latency_storage",
    "LeastBuffers": "csdf.search.mapping.buffers",
    "MappedApplication": "csdf.io.mapping.nsoc",
    "MappedExecution": "csdf.analysis.mapping.execution",
    "MappedThroughput": "csdf.analysis.mapping.throughput",
    "Mapping": "csdf.model.mapping",
    "OrderedLatency": "csdf.analysis.latencies.under_orders",
    "Parameter": "csdf.analysis.whatif.parameter",
    "ParametricPeriod": "csdf.analysis.whatif.parametric",
    "ParametricRegions": "csdf.analysis.whatif.regions",
    "ParetoFront": "csdf.search.pareto",
    "ParetoPoint": "csdf.search.pareto",
    "PeriodicSchedule": "csdf.model.schedule",
    "Platform": "csdf.model.mapping",
    "Progress": "csdf.stopping",
    "Reason": "csdf.outcome",
    "SampledShape": "csdf.generation.sampled_graphs",
    "Scenario": "csdf.model.scenarios",
    "ScenarioGraph": "csdf.model.scenarios",
    "ScenarioThroughput": "csdf.analysis.scenarios.throughput",
    "SelfTimedExecution": "csdf.analysis.self_timed",
    "Sensitivity": "csdf.analysis.whatif.sensitivity",
    "SmallestStorage": "csdf.search.pareto",
    "SourceLatency": "csdf.analysis.latencies.behind_source",
    "Spread": "csdf.generation.spread",
    "State": "csdf.model.scenarios",
    "StaticOrder": "csdf.model.mapping",
    "Statistics": "csdf.analysis.statistics",
    "Status": "csdf.outcome",
    "Stop": "csdf.stopping",
    "Throughput": "csdf.analysis.throughput",
    "added_time": "csdf.analysis.whatif.parameter",
    "added_to_phase": "csdf.analysis.whatif.parameter",
    "best_mapping": "csdf.search.mapping.search",
    "capacity_steps": "csdf.analysis.whatif.capacity_steps",
    "check_periodic_schedule": "csdf.analysis.judge",
    "check_schedule": "csdf.analysis.judge",
    "deadlock": "csdf.analysis.liveness",
    "dependency_latency": "csdf.analysis.latencies.by_dependency",
    "faster_graph": "csdf.analysis.abstraction.phases",
    "fewest_processors": "csdf.search.mapping.fewest",
    "hsdf": "csdf.analysis.expansion",
    "latency": "csdf.analysis.latencies.by_iteration",
    "least_buffers": "csdf.search.mapping.buffers",
    "limit_concurrency": "csdf.analysis.bounded",
    "mapped_execution": "csdf.analysis.mapping.execution",
    "mapped_throughput": "csdf.analysis.mapping.throughput",
    "merge_actors": "csdf.analysis.abstraction.actors",
    "merge_parallel_channels": "csdf.analysis.expansion",
    "ordered_latency": "csdf.analysis.latencies.under_orders",
    "parametric_period": "csdf.analysis.whatif.parametric",
    "parametric_regions": "csdf.analysis.whatif.regions",
    "pareto_front": "csdf.search.trade_off",
    "periodic_schedule": "csdf.analysis.schedules",
    "periodic_throughput": "csdf.analysis.schedules",
    "random_graph": "csdf.generation.random_graphs",
    "read_graph": "csdf.io.graph_files",
    "read_mapping": "csdf.io.mapping.files",
    "read_nsoc": "csdf.io.mapping.nsoc",
    "read_platform": "csdf.io.mapping.files",
    "read_scenarios": "csdf.io.scenarios.files",
    "repetition_vector": "csdf.analysis.consistency",
    "sampled_graph": "csdf.generation.sampled_graphs",
    "scenario_throughput": "csdf.analysis.scenarios.throughput",
    "self_timed_execution": "csdf.analysis.self_timed",
    "sensitivity": "csdf.analysis.whatif.sensitivity",
    "slower_graph": "csdf.analysis.abstraction.phases",
    "smallest_storage": "csdf.search.trade_off",
    "source_latency": "csdf.analysis.latencies.behind_source",
    "statistics": "csdf.analysis.statistics",
    "storage_for_latency": "csdf.search.latency_storage",
    "strictly_periodic_schedule": "csdf.analysis.schedules",
    "sufficient_capacities": "csdf.search.trade_off",
    "throughput": "csdf.analysis.throughput",
    "time_scale": "csdf.analysis.whatif.parameter",
    "unfold": "csdf.analysis.expansion",
    "with_capacities": "csdf.analysis.bounded",
    "without_auto_concurrency": "csdf.analysis.concurrency",
    "write_graph": "csdf.io.graph_files",
    "write_mapping": "csdf.io.mapping.files",
    "write_nsoc": "csdf.io.mapping.nsoc_writer",
    "write_platform": "csdf.io.mapping.files",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("csdf.cli.main").VERSION
    if name not in _HOMES:
        raise AttributeError(f"module 'csdf' has no name {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
