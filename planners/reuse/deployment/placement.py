"""Places for the buffers of a chromosome, found in two ways; both are shown to the judge."""

from __future__ import annotations

from itertools import accumulate

from csdf.outcome import Status, Why, because
from csdf.stopping import Budget
from planners.arena.allocation import plan_arena
from planners.check import check_plan
from planners.plan import MemoryPlan
from planners.reuse.cost.evaluation import Evaluator, ReusePlan
from planners.reuse.cost.offset_problem import offset_problem
from planners.reuse.cost.tensor_places import tensor_places


class PlacementWhy(Why):
    """The reason for the status of a plan that was not searched."""

    WHOLE_BUFFERS = "whole buffers that edges share, one after another"


def whole_buffers(evaluator: Evaluator, plan: ReusePlan) -> MemoryPlan:
    """Return the published plan: the shared buffers, one after another."""
    unit = evaluator.costs.element_bytes
    begins = accumulate((buffer.size for buffer in plan.shared), initial=0)
    offsets = {
        plan.edges[edge].name: begin * unit
        for begin, buffer in zip(begins, plan.shared, strict=False)
        for edge in buffer.edges
    }
    memory = MemoryPlan(
        problem=offset_problem(evaluator, plan),
        offsets=offsets,
        lower_bound=plan.live_load * unit,
        status=Status.OPTIMAL if plan.live_load == plan.elements else Status.FEASIBLE,
        reason=because(PlacementWhy.WHOLE_BUFFERS),
    )
    check_plan(memory)
    return memory


def free_offsets(evaluator: Evaluator, plan: ReusePlan, *, budget: Budget = None) -> MemoryPlan:
    """Return a plan in which each tensor that is kept has an offset of its own.

    Edges that carry one tensor to several readers share its place where they may. budget: ends the
    search with the best plan so far, as in planners.arena. Where that needs more bytes than whole
    buffers, the answer is whole buffers.
    """
    places = tensor_places(evaluator, plan)
    memory = places.of_edges(plan_arena(places.tensors, budget=budget))
    check_plan(memory)
    published = whole_buffers(evaluator, plan)
    return memory if memory.peak <= published.peak else published
