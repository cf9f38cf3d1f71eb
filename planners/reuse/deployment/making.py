"""A chromosome with the places of its buffers becomes a deployment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from csdf.errors import InvalidPlan
from planners.check import check_plan
from planners.plan import Buffer, MemoryPlan, Problem
from planners.reuse.application.application import Partition
from planners.reuse.cost.evaluation import Evaluator, ReusePlan
from planners.reuse.cost.offset_problem import offset_problem
from planners.reuse.deployment.deployment import (
    Deployment,
    PlannedBuffer,
    PlannedFiring,
    PlannedPartition,
    PlannedStay,
)


def deployment(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Deployment:
    """Return the final plan of a chromosome whose buffers lie as `memory` says.

    Raises InvalidPlan if the judge refuses it, or if it was made for other buffers or lifetimes.
    """
    check_plan(memory)
    _require_problem(memory.problem, offset_problem(evaluator, plan))
    _require_one_tensor(plan, memory)
    application = evaluator.application
    return Deployment(
        name=application.name,
        status=memory.status,
        reason=memory.reason,
        arena_bytes=memory.peak,
        lower_bound=memory.lower_bound,
        weights=evaluator.weights,
        element_bytes=evaluator.costs.element_bytes,
        buffers=tuple(_buffers(evaluator, plan, memory)),
        partitions=tuple(
            PlannedPartition(
                name=partition.name,
                network=application.members[member].name,
                layers=partition.layers,
                firings=tuple(_firings(evaluator, plan, number)),
            )
            for number, (member, partition) in enumerate(application.partitions)
        ),
        parallel=tuple(tuple(sorted(group)) for group in application.parallel),
    )


def _require_problem(found: Problem, wanted: Problem) -> None:
    """The plan may keep apart more than it has to, but nothing less, and no shorter."""
    if _needs(found) != _needs(wanted):
        raise InvalidPlan(f"{found.name}: the buffers are not those of the chromosome")
    apart = {frozenset(pair) for pair in found.conflicts}
    for pair in wanted.conflicts:
        if frozenset(pair) not in apart:
            raise InvalidPlan(f"{found.name}: {pair} do not conflict; they run in parallel")


def _require_one_tensor(plan: ReusePlan, memory: MemoryPlan) -> None:
    """Edges that share bytes while both are in use keep the same rows in the same places."""
    edges = {edge.name: edge for edge in plan.edges}
    sizes = {buffer.name: buffer.size for buffer in memory.problem.buffers}
    for pair in memory.problem.shares:
        tensors = {(edges[one].member, edges[one].connection.producer) for one in pair}
        places = {(memory.offsets[one], sizes[one]) for one in pair}
        if len(tensors) > 1 or len(places) > 1:
            raise InvalidPlan(f"{memory.problem.name}: {pair} are used together, but share bytes")


def _needs(problem: Problem) -> set[tuple[str, int, int, int]]:
    return {(one.name, one.size, one.start, one.end) for one in problem.buffers}


def _buffers(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Iterator[PlannedBuffer]:
    partitions = [partition for _, partition in evaluator.application.partitions]
    sizes: dict[str, Buffer] = {buffer.name: buffer for buffer in memory.problem.buffers}
    over = {
        written
        for read, written in memory.problem.in_place
        if memory.offsets[read] == memory.offsets[written]
    }
    for edge, spans in zip(plan.edges, plan.spans, strict=True):
        member = evaluator.application.members[edge.member]
        layer = member.network.layer(edge.connection.producer)
        element = layer.element_bytes // evaluator.application.unit * evaluator.costs.element_bytes
        yield PlannedBuffer(
            name=edge.name,
            network=member.name,
            producer=edge.connection.producer,
            consumer=edge.connection.consumer,
            input=edge.connection.index,
            offset=memory.offsets[edge.name],
            size=sizes[edge.name].size,
            row_bytes=layer.shape.row_elements * element,
            stays=tuple(
                _stay(partitions[stay.partition], span)
                for stay, span in zip(edge.stays, spans, strict=True)
            ),
            in_place=edge.name in over,
        )


def _stay(partition: Partition, span: tuple[int, int]) -> PlannedStay:
    return PlannedStay(partition=partition.name, first=span[0], last=span[1])


def _firings(evaluator: Evaluator, plan: ReusePlan, partition: int) -> Iterator[PlannedFiring]:
    table = evaluator.models[partition].table
    ends = [table.written(layer, rows) for layer, rows in enumerate(plan.rows[partition])]
    fired: Counter[int] = Counter()
    for layer in plan.orders[partition]:
        phase = fired[layer]
        fired[layer] += 1
        first_row = ends[layer][phase - 1] if phase else 0
        yield PlannedFiring(layer, phase, first_row, ends[layer][phase])
