"""Exact analysis of cyclo-static dataflow graphs.

    import csdf

    graph = csdf.read_graph("graph.xml")
    csdf.repetition_vector(graph)
    csdf.throughput(graph).period

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"  # the packaging reads it from here

TYPE_CHECKING = False  # as `typing` has it, which would take longest of all that is loaded here

if TYPE_CHECKING:
    from typing import Any

    from csdf.analysis.abstraction import FasterGraph as FasterGraph
    from csdf.analysis.abstraction import faster_graph as faster_graph
    from csdf.analysis.abstraction import merge_actors as merge_actors
    from csdf.analysis.abstraction import slower_graph as slower_graph
    from csdf.analysis.bound_channels import limit_concurrency as limit_concurrency
    from csdf.analysis.bound_channels import with_capacities as with_capacities
    from csdf.analysis.bound_channels import without_auto_concurrency as without_auto_concurrency
    from csdf.analysis.capacity_steps import CapacitySteps as CapacitySteps
    from csdf.analysis.capacity_steps import capacity_steps as capacity_steps
    from csdf.analysis.consistency import repetition_vector as repetition_vector
    from csdf.analysis.critical import CriticalCycle as CriticalCycle
    from csdf.analysis.expansion import hsdf as hsdf
    from csdf.analysis.expansion import merge_parallel_channels as merge_parallel_channels
    from csdf.analysis.expansion import unfold as unfold
    from csdf.analysis.latency import DependencyLatency as DependencyLatency
    from csdf.analysis.latency import OrderedLatency as OrderedLatency
    from csdf.analysis.latency import SourceLatency as SourceLatency
    from csdf.analysis.latency import dependency_latency as dependency_latency
    from csdf.analysis.latency import latency as latency
    from csdf.analysis.latency import ordered_latency as ordered_latency
    from csdf.analysis.latency import source_latency as source_latency
    from csdf.analysis.liveness import Deadlock as Deadlock
    from csdf.analysis.liveness import deadlock as deadlock
    from csdf.analysis.mapping.execution import MappedExecution as MappedExecution
    from csdf.analysis.mapping.execution import mapped_execution as mapped_execution
    from csdf.analysis.mapping.throughput import MappedThroughput as MappedThroughput
    from csdf.analysis.mapping.throughput import mapped_throughput as mapped_throughput
    from csdf.analysis.parametric import Parameter as Parameter
    from csdf.analysis.parametric import ParametricPeriod as ParametricPeriod
    from csdf.analysis.parametric import ParametricRegions as ParametricRegions
    from csdf.analysis.parametric import added_time as added_time
    from csdf.analysis.parametric import added_to_phase as added_to_phase
    from csdf.analysis.parametric import parametric_period as parametric_period
    from csdf.analysis.parametric import parametric_regions as parametric_regions
    from csdf.analysis.parametric import time_scale as time_scale
    from csdf.analysis.scenarios import ScenarioThroughput as ScenarioThroughput
    from csdf.analysis.scenarios import scenario_throughput as scenario_throughput
    from csdf.analysis.schedule_checker import check_periodic_schedule as check_periodic_schedule
    from csdf.analysis.schedule_checker import check_schedule as check_schedule
    from csdf.analysis.schedules import periodic_schedule as periodic_schedule
    from csdf.analysis.schedules import periodic_throughput as periodic_throughput
    from csdf.analysis.schedules import strictly_periodic_schedule as strictly_periodic_schedule
    from csdf.analysis.self_timed import SelfTimedExecution as SelfTimedExecution
    from csdf.analysis.self_timed import self_timed_execution as self_timed_execution
    from csdf.analysis.sensitivity import ActorSensitivity as ActorSensitivity
    from csdf.analysis.sensitivity import ChannelSensitivity as ChannelSensitivity
    from csdf.analysis.sensitivity import Sensitivity as Sensitivity
    from csdf.analysis.sensitivity import sensitivity as sensitivity
    from csdf.analysis.statistics import Statistics as Statistics
    from csdf.analysis.statistics import statistics as statistics
    from csdf.analysis.throughput import Throughput as Throughput
    from csdf.analysis.throughput import throughput as throughput
    from csdf.errors import CsdfError as CsdfError
    from csdf.errors import GaveUp as GaveUp
    from csdf.errors import InconsistentGraph as InconsistentGraph
    from csdf.errors import InvalidGraph as InvalidGraph
    from csdf.generation import GraphShape as GraphShape
    from csdf.generation import SampledShape as SampledShape
    from csdf.generation import Spread as Spread
    from csdf.generation import random_graph as random_graph
    from csdf.generation import sampled_graph as sampled_graph
    from csdf.io.graph_files import read_graph as read_graph
    from csdf.io.graph_files import write_graph as write_graph
    from csdf.io.mapping.files import read_mapping as read_mapping
    from csdf.io.mapping.files import read_platform as read_platform
    from csdf.io.mapping.files import write_mapping as write_mapping
    from csdf.io.mapping.files import write_platform as write_platform
    from csdf.io.mapping.nsoc import MappedApplication as MappedApplication
    from csdf.io.mapping.nsoc import read_nsoc as read_nsoc
    from csdf.io.mapping.nsoc import write_nsoc as write_nsoc
    from csdf.io.networkx_graphs import from_networkx as from_networkx
    from csdf.io.networkx_graphs import to_networkx as to_networkx
    from csdf.io.scenarios.files import read_scenarios as read_scenarios
    from csdf.model.builder import GraphBuilder as GraphBuilder
    from csdf.model.graph import Actor as Actor
    from csdf.model.graph import Channel as Channel
    from csdf.model.graph import Graph as Graph
    from csdf.model.mapping import Buffer as Buffer
    from csdf.model.mapping import Connection as Connection
    from csdf.model.mapping import Core as Core
    from csdf.model.mapping import InvalidMapping as InvalidMapping
    from csdf.model.mapping import Mapping as Mapping
    from csdf.model.mapping import Platform as Platform
    from csdf.model.mapping import StaticOrder as StaticOrder
    from csdf.model.scenarios import Scenario as Scenario
    from csdf.model.scenarios import ScenarioGraph as ScenarioGraph
    from csdf.model.scenarios import State as State
    from csdf.model.schedule import Firing as Firing
    from csdf.model.schedule import PeriodicSchedule as PeriodicSchedule
    from csdf.outcome import Reason as Reason
    from csdf.outcome import Status as Status
    from csdf.search.latency_storage import LatencyStorage as LatencyStorage
    from csdf.search.latency_storage import storage_for_latency as storage_for_latency
    from csdf.search.mapping.buffers import LeastBuffers as LeastBuffers
    from csdf.search.mapping.buffers import least_buffers as least_buffers
    from csdf.search.mapping.fewest import FewestProcessors as FewestProcessors
    from csdf.search.mapping.fewest import fewest_processors as fewest_processors
    from csdf.search.mapping.search import BestMapping as BestMapping
    from csdf.search.mapping.search import best_mapping as best_mapping
    from csdf.search.pareto import ParetoFront as ParetoFront
    from csdf.search.pareto import ParetoPoint as ParetoPoint
    from csdf.search.pareto import SmallestStorage as SmallestStorage
    from csdf.search.trade_off import pareto_front as pareto_front
    from csdf.search.trade_off import smallest_storage as smallest_storage
    from csdf.search.trade_off import sufficient_capacities as sufficient_capacities
    from csdf.search.variables import Choice as Choice
    from csdf.time_limit import Progress as Progress
    from csdf.time_limit import Stop as Stop

_HOMES = {
    "Actor": "csdf.model.graph",
    "ActorSensitivity": "csdf.analysis.sensitivity",
    "BestMapping": "csdf.search.mapping.search",
    "Buffer": "csdf.model.mapping",
    "CapacitySteps": "csdf.analysis.capacity_steps",
    "Channel": "csdf.model.graph",
    "ChannelSensitivity": "csdf.analysis.sensitivity",
    "Choice": "csdf.search.variables",
    "Connection": "csdf.model.mapping",
    "Core": "csdf.model.mapping",
    "CriticalCycle": "csdf.analysis.critical",
    "CsdfError": "csdf.errors",
    "Deadlock": "csdf.analysis.liveness",
    "DependencyLatency": "csdf.analysis.latency",
    "FasterGraph": "csdf.analysis.abstraction",
    "FewestProcessors": "csdf.search.mapping.fewest",
    "Firing": "csdf.model.schedule",
    "GaveUp": "csdf.errors",
    "Graph": "csdf.model.graph",
    "GraphBuilder": "csdf.model.builder",
    "GraphShape": "csdf.generation",
    "InconsistentGraph": "csdf.errors",
    "InvalidGraph": "csdf.errors",
    "InvalidMapping": "csdf.model.mapping",
    "LatencyStorage": "csdf.search.latency_storage",
    "LeastBuffers": "csdf.search.mapping.buffers",
    "MappedApplication": "csdf.io.mapping.nsoc",
    "MappedExecution": "csdf.analysis.mapping.execution",
    "MappedThroughput": "csdf.analysis.mapping.throughput",
    "Mapping": "csdf.model.mapping",
    "OrderedLatency": "csdf.analysis.latency",
    "Parameter": "csdf.analysis.parametric",
    "ParametricPeriod": "csdf.analysis.parametric",
    "ParametricRegions": "csdf.analysis.parametric",
    "ParetoFront": "csdf.search.pareto",
    "ParetoPoint": "csdf.search.pareto",
    "PeriodicSchedule": "csdf.model.schedule",
    "Platform": "csdf.model.mapping",
    "Progress": "csdf.time_limit",
    "Reason": "csdf.outcome",
    "SampledShape": "csdf.generation",
    "Scenario": "csdf.model.scenarios",
    "ScenarioGraph": "csdf.model.scenarios",
    "ScenarioThroughput": "csdf.analysis.scenarios",
    "SelfTimedExecution": "csdf.analysis.self_timed",
    "Sensitivity": "csdf.analysis.sensitivity",
    "SmallestStorage": "csdf.search.pareto",
    "SourceLatency": "csdf.analysis.latency",
    "Spread": "csdf.generation",
    "State": "csdf.model.scenarios",
    "StaticOrder": "csdf.model.mapping",
    "Statistics": "csdf.analysis.statistics",
    "Status": "csdf.outcome",
    "Stop": "csdf.time_limit",
    "Throughput": "csdf.analysis.throughput",
    "added_time": "csdf.analysis.parametric",
    "added_to_phase": "csdf.analysis.parametric",
    "best_mapping": "csdf.search.mapping.search",
    "capacity_steps": "csdf.analysis.capacity_steps",
    "check_periodic_schedule": "csdf.analysis.schedule_checker",
    "check_schedule": "csdf.analysis.schedule_checker",
    "deadlock": "csdf.analysis.liveness",
    "dependency_latency": "csdf.analysis.latency",
    "faster_graph": "csdf.analysis.abstraction",
    "fewest_processors": "csdf.search.mapping.fewest",
    "from_networkx": "csdf.io.networkx_graphs",
    "hsdf": "csdf.analysis.expansion",
    "latency": "csdf.analysis.latency",
    "least_buffers": "csdf.search.mapping.buffers",
    "limit_concurrency": "csdf.analysis.bound_channels",
    "mapped_execution": "csdf.analysis.mapping.execution",
    "mapped_throughput": "csdf.analysis.mapping.throughput",
    "merge_actors": "csdf.analysis.abstraction",
    "merge_parallel_channels": "csdf.analysis.expansion",
    "ordered_latency": "csdf.analysis.latency",
    "parametric_period": "csdf.analysis.parametric",
    "parametric_regions": "csdf.analysis.parametric",
    "pareto_front": "csdf.search.trade_off",
    "periodic_schedule": "csdf.analysis.schedules",
    "periodic_throughput": "csdf.analysis.schedules",
    "random_graph": "csdf.generation",
    "read_graph": "csdf.io.graph_files",
    "read_mapping": "csdf.io.mapping.files",
    "read_nsoc": "csdf.io.mapping.nsoc",
    "read_platform": "csdf.io.mapping.files",
    "read_scenarios": "csdf.io.scenarios.files",
    "repetition_vector": "csdf.analysis.consistency",
    "sampled_graph": "csdf.generation",
    "scenario_throughput": "csdf.analysis.scenarios",
    "self_timed_execution": "csdf.analysis.self_timed",
    "sensitivity": "csdf.analysis.sensitivity",
    "slower_graph": "csdf.analysis.abstraction",
    "smallest_storage": "csdf.search.trade_off",
    "source_latency": "csdf.analysis.latency",
    "statistics": "csdf.analysis.statistics",
    "storage_for_latency": "csdf.search.latency_storage",
    "strictly_periodic_schedule": "csdf.analysis.schedules",
    "sufficient_capacities": "csdf.search.trade_off",
    "throughput": "csdf.analysis.throughput",
    "time_scale": "csdf.analysis.parametric",
    "to_networkx": "csdf.io.networkx_graphs",
    "unfold": "csdf.analysis.expansion",
    "with_capacities": "csdf.analysis.bound_channels",
    "without_auto_concurrency": "csdf.analysis.bound_channels",
    "write_graph": "csdf.io.graph_files",
    "write_mapping": "csdf.io.mapping.files",
    "write_nsoc": "csdf.io.mapping.nsoc",
    "write_platform": "csdf.io.mapping.files",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'csdf' has no name {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
