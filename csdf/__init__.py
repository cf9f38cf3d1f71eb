"""Exact analysis of cyclo-static dataflow graphs.

    import csdf

    graph = csdf.read_graph("graph.xml")
    csdf.repetition_vector(graph)
    csdf.throughput(graph).period

This package loads names when they are first used, so that its import costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "1.4.0"  # the packaging reads it from here

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
    from csdf.analysis.cycle_lines import Parameter as Parameter
    from csdf.analysis.cycle_lines import added_time as added_time
    from csdf.analysis.cycle_lines import added_to_phase as added_to_phase
    from csdf.analysis.cycle_lines import time_scale as time_scale
    from csdf.analysis.expansion import hsdf as hsdf
    from csdf.analysis.expansion import merge_parallel_channels as merge_parallel_channels
    from csdf.analysis.expansion import unfold as unfold
    from csdf.analysis.latency import DependencyLatency as DependencyLatency
    from csdf.analysis.latency import dependency_latency as dependency_latency
    from csdf.analysis.latency import latency as latency
    from csdf.analysis.liveness import Deadlock as Deadlock
    from csdf.analysis.liveness import deadlock as deadlock
    from csdf.analysis.parametric import ParametricPeriod as ParametricPeriod
    from csdf.analysis.parametric import parametric_period as parametric_period
    from csdf.analysis.parametric_regions import ParametricRegions as ParametricRegions
    from csdf.analysis.parametric_regions import parametric_regions as parametric_regions
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
    from csdf.draw.front import plot_front as plot_front
    from csdf.errors import CsdfError as CsdfError
    from csdf.errors import Deadlocked as Deadlocked
    from csdf.errors import ExecutionError as ExecutionError
    from csdf.errors import GaveUp as GaveUp
    from csdf.errors import InconsistentGraph as InconsistentGraph
    from csdf.errors import InvalidArgument as InvalidArgument
    from csdf.errors import InvalidGraph as InvalidGraph
    from csdf.errors import InvalidNetwork as InvalidNetwork
    from csdf.errors import InvalidPlan as InvalidPlan
    from csdf.errors import InvalidSchedule as InvalidSchedule
    from csdf.errors import MissingFile as MissingFile
    from csdf.errors import NotRead as NotRead
    from csdf.errors import Suspicious as Suspicious
    from csdf.errors import UnreadableFile as UnreadableFile
    from csdf.errors import UnsupportedOperator as UnsupportedOperator
    from csdf.errors import UnwritableFile as UnwritableFile
    from csdf.generation import GraphShape as GraphShape
    from csdf.generation import MeanVariance as MeanVariance
    from csdf.generation import SampledShape as SampledShape
    from csdf.generation import random_graph as random_graph
    from csdf.generation import sampled_graph as sampled_graph
    from csdf.io.graph_files import read_graph as read_graph
    from csdf.io.graph_files import write_graph as write_graph
    from csdf.io.networkx_graphs import from_networkx as from_networkx
    from csdf.io.networkx_graphs import to_networkx as to_networkx
    from csdf.mapping.buffers import LeastBuffers as LeastBuffers
    from csdf.mapping.buffers import min_buffers as min_buffers
    from csdf.mapping.execution import MappedExecution as MappedExecution
    from csdf.mapping.execution import mapped_execution as mapped_execution
    from csdf.mapping.files import read_mapping as read_mapping
    from csdf.mapping.files import read_platform as read_platform
    from csdf.mapping.files import write_mapping as write_mapping
    from csdf.mapping.files import write_platform as write_platform
    from csdf.mapping.latency import OrderedLatency as OrderedLatency
    from csdf.mapping.latency import SourceLatency as SourceLatency
    from csdf.mapping.latency import ordered_latency as ordered_latency
    from csdf.mapping.latency import source_latency as source_latency
    from csdf.mapping.model import Buffer as Buffer
    from csdf.mapping.model import Connection as Connection
    from csdf.mapping.model import Core as Core
    from csdf.mapping.model import InvalidMapping as InvalidMapping
    from csdf.mapping.model import Mapping as Mapping
    from csdf.mapping.model import Platform as Platform
    from csdf.mapping.model import StaticOrder as StaticOrder
    from csdf.mapping.nsoc import MappedApplication as MappedApplication
    from csdf.mapping.nsoc import read_nsoc as read_nsoc
    from csdf.mapping.nsoc import write_nsoc as write_nsoc
    from csdf.mapping.search import BestMapping as BestMapping
    from csdf.mapping.search import FewestProcessors as FewestProcessors
    from csdf.mapping.search import best_mapping as best_mapping
    from csdf.mapping.search import fewest_processors as fewest_processors
    from csdf.mapping.throughput import MappedThroughput as MappedThroughput
    from csdf.mapping.throughput import mapped_throughput as mapped_throughput
    from csdf.model.builder import GraphBuilder as GraphBuilder
    from csdf.model.graph import Actor as Actor
    from csdf.model.graph import Channel as Channel
    from csdf.model.graph import Graph as Graph
    from csdf.model.schedule import Firing as Firing
    from csdf.model.schedule import PeriodicSchedule as PeriodicSchedule
    from csdf.parameters.builder import ParametricBuilder as ParametricBuilder
    from csdf.parameters.consistency import SymbolicRepetitions as SymbolicRepetitions
    from csdf.parameters.consistency import symbolic_repetitions as symbolic_repetitions
    from csdf.parameters.graph import ParametricGraph as ParametricGraph
    from csdf.parameters.graph import read_parametric_graph as read_parametric_graph
    from csdf.parameters.sweep import Sweep as Sweep
    from csdf.parameters.sweep import sweep as sweep
    from csdf.scenarios.expected import ExpectedThroughput as ExpectedThroughput
    from csdf.scenarios.expected import expected_throughput as expected_throughput
    from csdf.scenarios.files import read_scenarios as read_scenarios
    from csdf.scenarios.matrix import MaxPlusMatrix as MaxPlusMatrix
    from csdf.scenarios.matrix import matrix as matrix
    from csdf.scenarios.model import Scenario as Scenario
    from csdf.scenarios.model import ScenarioGraph as ScenarioGraph
    from csdf.scenarios.model import State as State
    from csdf.scenarios.throughput import ScenarioThroughput as ScenarioThroughput
    from csdf.scenarios.throughput import scenario_throughput as scenario_throughput
    from csdf.search.latency_storage import LatencyStorage as LatencyStorage
    from csdf.search.latency_storage import storage_for_latency as storage_for_latency
    from csdf.search.pareto import ParetoFront as ParetoFront
    from csdf.search.pareto import ParetoPoint as ParetoPoint
    from csdf.search.pareto import SmallestStorage as SmallestStorage
    from csdf.search.searched_graph import useful_growth as useful_growth
    from csdf.search.trade_off import pareto_front as pareto_front
    from csdf.search.trade_off import smallest_storage as smallest_storage
    from csdf.search.trade_off import sufficient_capacities as sufficient_capacities
    from csdf.search.variables import SearchSpace as SearchSpace
    from csdf.status import Reason as Reason
    from csdf.status import Status as Status
    from csdf.time_limit import Progress as Progress
    from csdf.time_limit import Stop as Stop
else:  # type checkers would take any name

    def __getattr__(name: str) -> Any:
        return import_module("csdf.public_names").named(__name__, name)


def __dir__() -> list[str]:
    names: list[str] = import_module("csdf.public_names").named(__name__, "__all__")
    return names
