"""The final plan of an application: its arena, the offset of each buffer, and the firing order.

`streaming_plans` returns one plan for each network, all in the same arena. A partition is a group,
whose stages fire in the order of its schedule. A tensor between two partitions is stored whole; if both
partitions may run at the same time, it is copied from one buffer to the next. Edges with the same
offset are one buffer with several consumers.

Execution order of the partitions of a network:

- All in one parallel set: a pipeline, each partition one frame after its predecessor. The pipeline is
  drained before another network runs, because that network may overwrite its double buffers. Pipelines
  of one parallel set run at the same time.
- Only some in a parallel set: in sequence. Other partitions share bytes with the double buffer between
  them, so the second frame starts after the first has ended.
- None in a parallel set: in sequence. The networks alternate frame by frame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple

from cnn2csdf.network import Connection
from csdf.errors import ExecutionError, InvalidPlan
from planners.arena.checker import check_plan
from planners.arena.problem import MemoryPlan
from planners.memory.ordered import OrderedPlan
from planners.plan.plan import (
    Kind,
    PlannedGroup,
    Stage,
    StreamBuffer,
    StreamingPlan,
    Transfer,
    Turns,
)
from planners.reuse.application import Application
from planners.reuse.edge_buffers import EdgeBuffer
from planners.reuse.evaluation import Evaluator, ReusePlan
from planners.reuse.placement import element_bytes as bytes_of_element
from planners.reuse.placement import offset_problem


class Deployment(NamedTuple):
    """A chromosome of an application, and offsets for its edge buffers in one arena."""

    evaluator: Evaluator
    plan: ReusePlan
    memory: MemoryPlan

    @property
    def memory_bytes(self) -> int:
        """Bytes of the arena and of the weights."""
        return self.evaluator.weights + self.memory.peak

    def row_bytes(self, edge: EdgeBuffer) -> int:
        """Return the bytes of a row of all maps of an edge; a tensor without rows is one row."""
        network = self.evaluator.application.members[edge.member].network
        row_elements = network.layer(edge.connection.producer).shape.row_elements
        return row_elements * bytes_of_element(self.evaluator, edge)


def deployment(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Deployment:
    """Return the final plan of a chromosome with the offsets of `memory`.

    Raises InvalidPlan if the checker rejects `memory`, or if `memory` has other buffers or lifetimes,
    or fewer conflicts.
    """
    check_plan(memory)
    problem, required = memory.problem, offset_problem(evaluator, plan)
    buffers, required_buffers = (
        {(buffer.name, buffer.size, buffer.start, buffer.end) for buffer in asked.buffers}
        for asked in (problem, required)
    )
    if buffers != required_buffers:
        raise InvalidPlan(f"{problem.name}: the buffers are not those of the chromosome")
    conflicts = {frozenset(pair) for pair in problem.conflicts}
    for pair in required.conflicts:
        if frozenset(pair) not in conflicts:
            raise InvalidPlan(f"{problem.name}: {pair} do not conflict; they run in parallel")
    edges = {edge.name: edge for edge in plan.edges}
    sizes = {buffer.name: buffer.size for buffer in problem.buffers}
    # Buffers may overlap if they hold the same rows of one tensor at the same offset.
    for pair in problem.may_overlap:
        tensors = {(edges[name].member, edges[name].connection.producer) for name in pair}
        extents = {(memory.offsets[name], sizes[name]) for name in pair}
        if len(tensors) > 1 or len(extents) > 1:
            raise InvalidPlan(f"{problem.name}: {pair} are used together, but share bytes")
    return Deployment(evaluator, plan, memory)


def streaming_plans(
    planned: Deployment, *, element_bytes: int | None = None
) -> tuple[StreamingPlan, ...]:
    """Return the plans of all networks of an application, in their order.

    element_bytes: of each element; None if each tensor has its own. The arena of a plan ends at the
    end of the highest buffer of its network. Raises ExecutionError if a parallel set joins networks but
    has only some partitions of a network.
    """
    application = planned.evaluator.application
    concurrent = concurrent_partitions(application)
    return tuple(
        _streaming_plan(planned, number, concurrent, element_bytes)
        for number in range(len(application.members))
    )


def concurrent_partitions(application: Application) -> dict[str, str]:
    """Return for each partition of a pipeline the names of all partitions that run at the same time.

    Raises ExecutionError if a set joins networks but has only some partitions of a network: tensors
    between these partitions may then overlap the buffers of the other network.
    """
    concurrent_names: dict[str, str] = {}
    for group in application.parallel:
        is_whole = True
        for member in application.members:
            partitions = {partition.name for partition in member.partitions}
            inside, outside = sorted(partitions & group), sorted(group - partitions)
            if inside and not partitions <= group:
                is_whole = False
                if outside:
                    raise ExecutionError(
                        f"partitions {inside} of network {member.name!r} run in parallel to "
                        f"{outside} of others, but not the whole of {member.name!r} does"
                    )
        if is_whole:
            names = [part.name for _, part in application.partitions if part.name in group]
            concurrent_names |= dict.fromkeys(names, ", ".join(names))
    return concurrent_names


def _streaming_plan(
    planned: Deployment, number: int, concurrent: Mapping[str, str], element_bytes: int | None
) -> StreamingPlan:
    """The plan of a network of a deployment; buffers of a tensor at one offset become one buffer."""
    evaluator, plan, memory = planned
    member = evaluator.application.members[number]
    partitions = [
        (index, partition)
        for index, (owner, partition) in enumerate(evaluator.application.partitions)
        if owner == number
    ]
    first = partitions[0][0]
    begins = [0, *accumulate(len(plan.orders[index]) for index, _ in partitions)]
    sizes = {buffer.name: buffer.size for buffer in memory.problem.buffers}
    last_of = {
        edge.name: begins[edge.stays[-1].partition - first] + spans[-1][1]
        for edge, spans in zip(plan.edges, plan.spans, strict=True)
        if edge.member == number
    }
    edges = [edge for edge in plan.edges if edge.member == number]
    copies: dict[Connection, list[EdgeBuffer]] = defaultdict(list)
    for edge in edges:
        copies[edge.connection].append(edge)
    together: dict[tuple[str, int, int, int, str], list[EdgeBuffer]] = defaultdict(list)
    for edge in edges:
        copy_name = edge.name if len(copies[edge.connection]) > 1 else ""
        place = memory.offsets[edge.name], sizes[edge.name], edge.stays[0].partition - first
        together[(edge.connection.producer, *place, copy_name)].append(edge)

    def name(edge: EdgeBuffer) -> str:
        return edge.name.removeprefix(f"{member.name}: ")

    rings = [
        StreamBuffer(
            name=name(same[0]),
            kind=Kind.RING if all(edge.inner is not None for edge in same) else Kind.WHOLE,
            tensor=producer,
            rows=size // planned.row_bytes(same[0]),
            size=size,
            offset=offset,
            begin=begin,
            end=max(edge.stays[-1].partition for edge in same) - first + 1,
            readers=tuple(dict.fromkeys(edge.connection.consumer for edge in same)),
        )
        for (producer, offset, size, begin, _), same in together.items()
    ]
    groups = tuple(
        PlannedGroup(
            stages=tuple(
                Stage(layers=(layer,), rows=evaluator.models[index].table.written(place, rows)[0])
                for place, (layer, rows) in enumerate(
                    zip(partition.layers, plan.rows[index], strict=True)
                )
            ),
            order=(
                Turns(
                    times=1,
                    results=tuple(partition.layers[layer] for layer in plan.orders[index]),
                ),
            ),
            transfers=tuple(
                Transfer(source=name(source), target=name(target))
                for copies_of_edge in copies.values()
                for source, target in pairwise(copies_of_edge)
                if target.stays[0].partition == index
            ),
            concurrent=concurrent.get(partition.name),
        )
        for index, partition in partitions
    )
    return OrderedPlan(
        member.network,
        rings,
        groups,
        last_firings={
            name(same[0]): max(last_of[edge.name] for edge in same) for same in together.values()
        },
        element_bytes=element_bytes,
        outside=member.outside,
    ).plan()
