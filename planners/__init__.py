"""Memory planners for CNN inference on small devices.

    import planners

    buffers = (planners.Buffer(name="a", size=64, start=0, end=2),)
    plan = planners.plan_arena(planners.Problem(name="net", buffers=buffers))
    plan.peak, plan.offsets

This package loads names when they are first used, so that its import costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from csdf import __version__ as __version__

if TYPE_CHECKING:
    from planners.arena.allocation import plan_arena as plan_arena
    from planners.arena.banks import plan_banks as plan_banks
    from planners.arena.checker import check_plan as check_plan
    from planners.arena.problem import Bank as Bank
    from planners.arena.problem import Buffer as Buffer
    from planners.arena.problem import MemoryPlan as MemoryPlan
    from planners.arena.problem import Problem as Problem
    from planners.code.library import Library as Library
    from planners.code.library import write_library as write_library
    from planners.code.several import Libraries as Libraries
    from planners.code.several import Member as Member
    from planners.code.several import write_libraries as write_libraries
    from planners.fusion.groups import Terms as Terms
    from planners.fusion.planning import FusionAnswer as FusionAnswer
    from planners.fusion.planning import FusionPlan as FusionPlan
    from planners.fusion.planning import best_plan as best_plan
    from planners.memory.alternatives import fit_with_alternatives as fit_with_alternatives
    from planners.memory.answer import SEARCHED as SEARCHED
    from planners.memory.answer import Fit as Fit
    from planners.memory.answer import FitMethod as FitMethod
    from planners.memory.command.picture import plot_fit as plot_fit
    from planners.memory.command.picture import plot_plan as plot_plan
    from planners.memory.fit import fit as fit
    from planners.memory.order import chain_of as chain_of
    from planners.memory.plain_plans import MemoryComparison as MemoryComparison
    from planners.memory.plain_plans import memory_comparison as memory_comparison
    from planners.memory.plain_plans import whole_arena as whole_arena
    from planners.memory.plan_runs import run_frames as run_frames
    from planners.memory.plan_runs import run_plan as run_plan
    from planners.memory.several_networks import with_states_apart as with_states_apart
    from planners.order.firings import firing_graph as firing_graph
    from planners.order.lifetimes import tensor_lifetimes as tensor_lifetimes
    from planners.order.order_plan import OrderPlan as OrderPlan
    from planners.order.problem import OrderProblem as OrderProblem
    from planners.order.problem import ReusePrice as ReusePrice
    from planners.order.problem import Step as Step
    from planners.order.problem import StepAlternative as StepAlternative
    from planners.order.reuse import PricedOrder as PricedOrder
    from planners.order.reuse import plan_reuse as plan_reuse
    from planners.order.search import plan_order as plan_order
    from planners.order.training import training_graph as training_graph
    from planners.plan.carried_out import require_carried_out as require_carried_out
    from planners.plan.plan import Memory as Memory
    from planners.plan.plan import StreamingPlan as StreamingPlan
    from planners.plan.ram import RamBeside as RamBeside
    from planners.plan.text import read_plan as read_plan
    from planners.plan.text import read_plans as read_plans
    from planners.plan.text import write_plan as write_plan
    from planners.primitives.profile import read_profile as read_profile
    from planners.primitives.profile import write_profile as write_profile
    from planners.primitives.profiling import profile_network as profile_network
    from planners.primitives.selection.planning import Constraint as Constraint
    from planners.primitives.selection.planning import best_selection as best_selection
    from planners.primitives.selection.problem import Objective as Objective
    from planners.primitives.selection.problem import selection_problem as selection_problem
    from planners.primitives.selection.trade_off import trade_off as trade_off
    from planners.published.samos import NetworkMemory as NetworkMemory
    from planners.published.samos import network_memory as network_memory
    from planners.reuse.application import Application as Application
    from planners.reuse.application import read_application as read_application
    from planners.reuse.application import single_partition as single_partition
    from planners.traffic.convolution import convolution_of as convolution_of
    from planners.traffic.layer_text import layers_from_text as layers_from_text
    from planners.traffic.network_traffic import NetworkSearch as NetworkSearch
    from planners.traffic.one_layer import minimum_traffic as minimum_traffic
else:  # type checkers would take any name

    def __getattr__(name: str) -> Any:
        return import_module("csdf.public_names").named(__name__, name)


def __dir__() -> list[str]:
    names: list[str] = import_module("csdf.public_names").named(__name__, "__all__")
    return names
