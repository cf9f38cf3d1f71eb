"""Memory planners for CNN inference on small devices.

    import planners

    buffers = (planners.Buffer(name="a", size=64, start=0, end=2),)
    plan = planners.plan_arena(planners.Problem(name="net", buffers=buffers))
    plan.peak, plan.offsets

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planners.arena.allocation import plan_arena
    from planners.arena.banks import plan_banks
    from planners.check import check_plan
    from planners.fusion.chains import chain_of
    from planners.fusion.choices import Terms
    from planners.fusion.execution import run_fused
    from planners.fusion.planning import best_plan
    from planners.fusion.plans import FusionAnswer, FusionPlan
    from planners.parts_memory import (
        MemoryComparison,
        NetworkMemory,
        memory_comparison,
        network_memory,
    )
    from planners.plan import Bank, Buffer, MemoryPlan, Problem
    from planners.reuse.applications.application import Application, undivided
    from planners.reuse.applications.application_files import read_application

_HOMES = {
    "Application": "planners.reuse.applications.application",
    "Bank": "planners.plan",
    "Buffer": "planners.plan",
    "FusionAnswer": "planners.fusion.plans",
    "FusionPlan": "planners.fusion.plans",
    "MemoryComparison": "planners.parts_memory",
    "MemoryPlan": "planners.plan",
    "NetworkMemory": "planners.parts_memory",
    "Problem": "planners.plan",
    "Terms": "planners.fusion.choices",
    "best_plan": "planners.fusion.planning",
    "chain_of": "planners.fusion.chains",
    "check_plan": "planners.check",
    "memory_comparison": "planners.parts_memory",
    "network_memory": "planners.parts_memory",
    "plan_arena": "planners.arena.allocation",
    "plan_banks": "planners.arena.banks",
    "read_application": "planners.reuse.applications.application_files",
    "run_fused": "planners.fusion.execution",
    "undivided": "planners.reuse.applications.application",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'planners' has no name {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
