"""Memory planning of ExecuTorch: a function for its MemoryPlanningAlgorithmSuite.

    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
    from executorch.exir.passes import MemoryPlanningPass
    from planners.integrations.executorch import memory_planning

    suite = MemoryPlanningAlgorithmSuite([greedy, memory_planning])
    MemoryPlanningPass(memory_planning_algo=suite)

ExecuTorch collects the tensors that it wants placed; inputs, outputs and state that are allocated
elsewhere are not among them. The plan of its `greedy` comes first, and checks the tensors; memory by
memory it is replaced by a smaller plan, where the search finds one.

Source: ExecuTorch 1.5.1, exir/memory_planning.py, MemoryPlanningAlgorithmSuite and apply_algo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult, greedy
from executorch.exir.tensor import TensorSpec
from torch.export.exported_program import ExportGraphSignature
from torch.fx import GraphModule

from csdf.errors import GaveUp, InvalidPlan
from csdf.status import Status
from csdf.time_limit import Budget, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.banks import plan_banks
from planners.arena.problem import Bank, Buffer, MemoryPlan, Problem

SECONDS = 10  # budget of a graph; the plans of all graphs tried were proved within one


def memory_planning(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: GraphModule,
    graph_signature: ExportGraphSignature,
    extra_padding: int = 0,
    *,
    budget: Budget = SECONDS,
    capacities: Mapping[int, int] | None = None,
) -> MemoryAlgoResult:
    """Return offsets in each memory: with the least bytes, or the best plan when the budget ends.

    No memory is larger than with `greedy`. A tensor lies in the memory of its `mem_id`, by default 1.
    capacities: bytes of memories by `mem_id`, the preferred one first. Then a tensor without a
    `mem_id` may lie in any of them, and each of them holds its tensors. Give both by
    functools.partial. What submodules of control flow plan for themselves stays reserved.

    Raises InvalidPlan where the capacities are proved too small, GaveUp where that stayed undecided.
    """
    tensors = list(specs)
    result = greedy(alignment, tensors, graph_module, graph_signature, extra_padding)
    placed, stop = result.spec_dict, stop_of(budget)
    used = {spec_result.mem_id for spec_result in placed.values()} | set(capacities or ())
    reserved = [*(getattr(graph_module, "input_mem_buffer_sizes", None) or ())]
    reserved += [0] * (1 + max(used, default=1) - len(reserved))
    buffers = {  # those with a storage_base lie in another tensor, at a place that is given
        str(number): Buffer(
            name=str(number),
            size=spec.allocated_memory,
            start=spec.lifetime[0],
            end=spec.lifetime[1] + 1,
            alignment=alignment,
            bank=None if spec.mem_id is None else str(spec.mem_id),
        )
        for number, spec in enumerate(tensors)
        if spec.storage_base is None
    }
    plans: dict[int, MemoryPlan] = {}
    if capacities:
        room = {
            mem_id: size - reserved[mem_id] - extra_padding for mem_id, size in capacities.items()
        }
        plans = _within(room, buffers.values(), budget=stop)
        result.bufsizes = [0] * len(reserved)
        for mem_id, plan in plans.items():
            for name in plan.offsets:
                placed[tensors[int(name)]].mem_id = mem_id
    result.bufsizes += reserved[len(result.bufsizes) :]
    for mem_id in used:
        held = [
            replace(buffer, bank=None)
            for name, buffer in buffers.items()
            if placed[tensors[int(name)]].mem_id == mem_id
        ]
        plan = plan_arena(Problem(name=f"memory {mem_id}", buffers=tuple(held)), budget=stop)
        if mem_id in plans:
            plan = min(plan, plans[mem_id], key=lambda candidate: candidate.peak)
        size = reserved[mem_id] + plan.peak + extra_padding
        if held and (mem_id in plans or size < result.bufsizes[mem_id]):
            result.bufsizes[mem_id] = size
            for name, offset in plan.offsets.items():
                place = SpecAllocResult(mem_id, 0, reserved[mem_id] + offset)
                placed[tensors[int(name)]] = place
    for spec in tensors:
        base, inside = spec, 0
        while base.storage_base is not None:
            base, inside = base.storage_base, inside + base.storage_base_offset
        if base is not spec:
            base_result = placed[base]
            offset = base_result.mem_offset + inside
            placed[spec] = SpecAllocResult(base_result.mem_id, base_result.mem_obj_id, offset)
    return result


def _within(
    room: Mapping[int, int], buffers: Iterable[Buffer], *, budget: Budget
) -> dict[int, MemoryPlan]:
    """Return a plan for each memory that fits its room.

    Raises InvalidPlan where none fits, and where a buffer wants a memory without a capacity.
    """
    for mem_id, size in room.items():
        if mem_id < 1 or size < 0:
            raise InvalidPlan(
                f"memory {mem_id}: {size} bytes are left of its capacity; expected a mem_id of at "
                "least 1, and room beside what is reserved"
            )
    banks = tuple(Bank(name=str(mem_id), capacity=size) for mem_id, size in room.items())
    problem = Problem(name="memories", buffers=tuple(buffers), banks=banks)
    bank_plan = plan_banks(problem, budget=budget)
    if bank_plan.status is Status.INFEASIBLE:
        raise InvalidPlan(f"the tensors do not fit into the capacities: {bank_plan.reason}")
    if not bank_plan.plans:
        raise GaveUp(bank_plan.reason)
    return {int(name): plan for name, plan in bank_plan.plans.items()}
