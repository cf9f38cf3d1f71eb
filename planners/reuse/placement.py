"""Buffers of a chromosome in one arena: whole buffers in sequence, or an offset for each tensor.

Takes the plan of a chromosome, with lifetimes in steps of its schedules; gives the offset of each edge
buffer, as Algorithm 8 (`whole_buffers`) or as planners.arena (`free_offsets`) places it. Partitions
follow one another on the axis of time, and a step of a schedule is a time. Buffers of partitions that
run in parallel conflict, though their times differ.

The edges of a producer have a buffer each, as published. If the buffers of two edges have the same
size, row r of the tensor has the same position in both, and the producer waits for both readers before
it overwrites a row. So one buffer, live for the longer of the two lifetimes, serves both edges, and no
plan with one buffer is larger than a plan with two. Copies in a pipeline have buffers of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from itertools import accumulate, combinations

from csdf.status import Status, Why, because
from csdf.time_limit import Budget
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.reuse.evaluation import Evaluator, ReusePlan


def offset_problem(evaluator: Evaluator, plan: ReusePlan) -> Problem:
    """Return the edge buffers of a plan, in bytes, with their lifetimes and conflicts."""
    begins = [0, *accumulate(len(order) for order in plan.orders)]
    buffers = []
    for edge, elements, spans in zip(plan.edges, plan.capacities, plan.spans, strict=True):
        first_step, _ = spans[0]
        _, last_step = spans[-1]
        buffers.append(
            Buffer(
                name=edge.name,
                size=elements * evaluator.costs.element_bytes,
                start=begins[edge.stays[0].partition] + first_step,
                end=begins[edge.stays[-1].partition] + last_step + 1,
                alignment=evaluator.bytes_of_element(edge),
            )
        )
    conflicts = tuple(
        (edge.name, plan.edges[second].name)
        for number, edge in enumerate(plan.edges)
        for second in range(number + 1, len(plan.edges))
        if evaluator.parallel[number] >> second & 1
    )
    return Problem(name=evaluator.application.name, buffers=tuple(buffers), conflicts=conflicts)


def tensor_problem(evaluator: Evaluator, plan: ReusePlan) -> tuple[Problem, Mapping[str, str]]:
    """Return the problem with one buffer for each stored tensor, and the buffer that stores each edge.

    The edges of a tensor share a buffer if they may. Names of buffers are names of edges.
    """
    problem = offset_problem(evaluator, plan)
    buffers = {buffer.name: buffer for buffer in problem.buffers}
    copies = Counter((edge.member, edge.connection) for edge in plan.edges)
    conflicting = {name for pair in problem.conflicts for name in pair}
    groups: dict[Hashable, list[str]] = defaultdict(list)  # of edges that may share a buffer
    for edge, buffer in zip(plan.edges, problem.buffers, strict=True):
        tensor = (edge.member, edge.connection.producer, buffer.size, buffer.start)
        is_only = copies[edge.member, edge.connection] == 1
        groups[tensor if is_only else edge.name].append(edge.name)
    buffer_of = dict.fromkeys(buffers, "")
    for same in groups.values():
        longest = max(same, key=lambda buffer_name: buffers[buffer_name].end)
        for name in same:
            buffer_of[name] = name if conflicting.intersection(same) else longest
    tensors = tuple(buffers[name] for name in dict.fromkeys(buffer_of.values()))
    conflicts = dict.fromkeys(
        (buffer_of[first], buffer_of[second]) for first, second in problem.conflicts
    )  # each pair once
    return replace(problem, buffers=tensors, conflicts=tuple(conflicts)), buffer_of


class PlacementWhy(Why):
    """The reason for the status of a plan that was not searched."""

    WHOLE_BUFFERS = "whole buffers that edges share, one after another"


def whole_buffers(evaluator: Evaluator, plan: ReusePlan) -> MemoryPlan:
    """Return the published plan: the shared buffers, in sequence."""
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
    """Return a plan in which each buffer of `tensor_problem` has an offset of its own.

    budget: ends the search with the best plan so far, as in planners.arena. If whole buffers need fewer
    bytes, they are returned.
    """
    tensors, buffer_of = tensor_problem(evaluator, plan)
    placed = plan_arena(tensors, budget=budget)
    edges_of = defaultdict(list)
    for edge, buffer in buffer_of.items():
        edges_of[buffer].append(edge)
    shares = tuple(pair for edges in edges_of.values() for pair in combinations(edges, 2))
    published = whole_buffers(evaluator, plan)
    memory = replace(
        placed,
        problem=replace(published.problem, may_overlap=shares),
        offsets={edge: placed.offsets[buffer] for edge, buffer in buffer_of.items()},
    )
    check_plan(memory)
    return memory if memory.peak <= published.peak else published
