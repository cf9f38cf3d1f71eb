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

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from csdf.errors import ExecutionError, InvalidPlan
from csdf.status import Reason, Status
from planners.arena.checker import check_plan
from planners.arena.problem import MemoryPlan
from planners.memory.ordered import GroupInOrder, in_order
from planners.plan.plan import Kind, StreamBuffer, StreamingPlan, Transfer
from planners.reuse.application import Application, ApplicationNetwork
from planners.reuse.evaluation import Evaluator, ReusePlan
from planners.reuse.placement import element_bytes as bytes_of_element
from planners.reuse.placement import offset_problem


class PlannedFiring(NamedTuple):
    """A part of a layer: output rows [first_row, end_row) of one frame."""

    layer: int  # its index among the layers of the partition
    phase: int
    first_row: int
    end_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """A partition with its schedule: a step is one firing, and all of them are one frame."""

    name: str
    network: str
    layers: tuple[str, ...]
    firings: tuple[PlannedFiring, ...]


class PlannedStay(NamedTuple):
    """Steps of a partition, both included, in which a buffer is in use."""

    partition: str
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBuffer:
    """A buffer between the producer and the consumer of a connection.

    input: index of the consumer's input. stays: steps in which the buffer is in use, by partition.
    Several buffers of one connection are its copies in a pipeline, in their order; each is copied to
    the next when the last partition of its stays has finished a frame. in_place: the producer
    overwrites its own input. row_bytes: of one row of all maps; a tensor without rows is one row.
    """

    name: str
    network: str
    producer: str
    consumer: str
    input: int
    offset: int
    size: int
    row_bytes: int
    stays: tuple[PlannedStay, ...]
    in_place: bool = False

    @property
    def rows(self) -> int:
        """Rows that fit into the ring buffer: row r of a frame has index r % rows."""
        return self.size // self.row_bytes

    @property
    def connection(self) -> tuple[str, str, str, int]:
        """The connection, the same for all its copies in a pipeline."""
        return self.network, self.producer, self.consumer, self.input


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Buffers, schedules and parallel sets of an application in one memory. Sizes in bytes.

    status, reason, lower_bound: of the arena, as in planners.arena.problem. weights: bytes outside the
    arena. parallel: sets of partitions that run at the same time.
    """

    name: str
    status: Status
    reason: Reason
    arena_bytes: int
    lower_bound: int
    weights: int
    element_bytes: int
    buffers: tuple[PlannedBuffer, ...]
    partitions: tuple[PlannedPartition, ...]
    parallel: tuple[tuple[str, ...], ...]


def deployment(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Deployment:
    """Return the final plan of a chromosome with the offsets of `memory`.

    Raises InvalidPlan if the checker rejects `memory`, or if `memory` has other buffers or lifetimes.
    """
    check_plan(memory)
    _require_made_for(evaluator, plan, memory)
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


def _require_made_for(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> None:
    """Require the buffers and lifetimes of the chromosome, and at least its conflicts."""
    offsets_problem, required = memory.problem, offset_problem(evaluator, plan)
    buffers, required_buffers = (
        {(buffer.name, buffer.size, buffer.start, buffer.end) for buffer in problem.buffers}
        for problem in (offsets_problem, required)
    )
    if buffers != required_buffers:
        raise InvalidPlan(f"{offsets_problem.name}: the buffers are not those of the chromosome")
    conflicts = {frozenset(pair) for pair in offsets_problem.conflicts}
    for pair in required.conflicts:
        if frozenset(pair) not in conflicts:
            raise InvalidPlan(
                f"{offsets_problem.name}: {pair} do not conflict; they run in parallel"
            )
    edges = {edge.name: edge for edge in plan.edges}
    sizes = {buffer.name: buffer.size for buffer in offsets_problem.buffers}
    # Buffers may overlap if they hold the same rows of one tensor at the same offset.
    for pair in offsets_problem.may_overlap:
        tensors = {(edges[name].member, edges[name].connection.producer) for name in pair}
        extents = {(memory.offsets[name], sizes[name]) for name in pair}
        if len(tensors) > 1 or len(extents) > 1:
            raise InvalidPlan(f"{offsets_problem.name}: {pair} are used together, but share bytes")


def _buffers(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Iterator[PlannedBuffer]:
    partitions = [partition.name for _, partition in evaluator.application.partitions]
    sizes = {buffer.name: buffer.size for buffer in memory.problem.buffers}
    in_place = {
        written
        for read, written in memory.problem.in_place
        if memory.offsets[read] == memory.offsets[written]
    }
    for edge, spans in zip(plan.edges, plan.spans, strict=True):
        member = evaluator.application.members[edge.member]
        row_elements = member.network.layer(edge.connection.producer).shape.row_elements
        yield PlannedBuffer(
            name=edge.name,
            network=member.name,
            producer=edge.connection.producer,
            consumer=edge.connection.consumer,
            input=edge.connection.index,
            offset=memory.offsets[edge.name],
            size=sizes[edge.name],
            row_bytes=row_elements * bytes_of_element(evaluator, edge),
            stays=tuple(
                PlannedStay(partitions[stay.partition], *span)
                for stay, span in zip(edge.stays, spans, strict=True)
            ),
            in_place=edge.name in in_place,
        )


def _firings(evaluator: Evaluator, plan: ReusePlan, partition: int) -> Iterator[PlannedFiring]:
    table = evaluator.models[partition].table
    ends = [table.written(layer, rows) for layer, rows in enumerate(plan.rows[partition])]
    fired: Counter[int] = Counter()
    for layer in plan.orders[partition]:
        phase = fired[layer]
        fired[layer] += 1
        yield PlannedFiring(layer, phase, (0, *ends[layer])[phase], ends[layer][phase])


def streaming_plans(
    application: Application, planned: Deployment, *, element_bytes: int | None = None
) -> tuple[StreamingPlan, ...]:
    """Return the plans of all networks of an application, in their order.

    element_bytes: of each element; None if each tensor has its own. The arena of a plan ends at the
    end of the highest buffer of its network. Raises ExecutionError if a parallel set joins networks but
    has only some partitions of a network.
    """
    concurrent = concurrent_partitions(planned)
    return tuple(
        _streaming_plan(member, planned, concurrent, element_bytes)
        for member in application.members
    )


def concurrent_partitions(planned: Deployment) -> dict[str, str]:
    """Return for each partition of a pipeline the names of all partitions that run at the same time.

    Raises ExecutionError if a set joins networks but has only some partitions of a network: tensors
    between these partitions may then overlap the buffers of the other network.
    """
    networks: dict[str, set[str]] = defaultdict(set)
    for partition in planned.partitions:
        networks[partition.network].add(partition.name)
    concurrent_names: dict[str, str] = {}
    for group in map(set, planned.parallel):
        partly = [
            name
            for name, partitions_of in networks.items()
            if partitions_of & group and not partitions_of <= group
        ]
        for network in partly:
            inside, outside = sorted(networks[network] & group), sorted(group - networks[network])
            if outside:
                raise ExecutionError(
                    f"partitions {inside} of network {network!r} run in parallel to "
                    f"{outside} of others, but not the whole of {network!r} does"
                )
        if not partly:
            names = [partition.name for partition in planned.partitions if partition.name in group]
            concurrent_names |= dict.fromkeys(names, ", ".join(names))
    return concurrent_names


def _streaming_plan(
    member: ApplicationNetwork,
    planned: Deployment,
    concurrent: Mapping[str, str],
    element_bytes: int | None,
) -> StreamingPlan:
    """The plan of a network of a deployment; buffers of a tensor at one offset become one buffer."""
    partitions = [partition for partition in planned.partitions if partition.network == member.name]
    number = {partition.name: index for index, partition in enumerate(partitions)}
    home = {
        layer: index for index, partition in enumerate(partitions) for layer in partition.layers
    }
    begins = [0, *accumulate(len(partition.firings) for partition in partitions)]
    buffers = [buffer for buffer in planned.buffers if buffer.network == member.name]
    copies: dict[tuple[str, str, str, int], list[PlannedBuffer]] = defaultdict(list)
    for buffer in buffers:
        copies[buffer.connection].append(buffer)
    together: dict[tuple[str, int, int, int, str], list[PlannedBuffer]] = defaultdict(list)
    for buffer in buffers:
        copy_name = buffer.name if len(copies[buffer.connection]) > 1 else ""
        begin = number[buffer.stays[0].partition]
        together[buffer.producer, buffer.offset, buffer.size, begin, copy_name].append(buffer)

    def name(buffer: PlannedBuffer) -> str:
        return buffer.name.removeprefix(f"{member.name}: ")

    rings: list[StreamBuffer] = []
    last_firings: dict[str, int] = {}
    for (producer, offset, size, begin, _), edges in together.items():
        ends = [edge.stays[-1] for edge in edges]
        is_whole = any(home[producer] != home[edge.consumer] for edge in edges)
        ring = StreamBuffer(
            name=name(edges[0]),
            kind=Kind.WHOLE if is_whole else Kind.RING,
            tensor=producer,
            rows=edges[0].rows,
            size=size,
            offset=offset,
            begin=begin,
            end=max(number[stay.partition] for stay in ends) + 1,
            readers=tuple(dict.fromkeys(edge.consumer for edge in edges)),
        )
        rings.append(ring)
        last_firings[ring.name] = max(begins[number[stay.partition]] + stay.last for stay in ends)
    groups = tuple(
        GroupInOrder(
            order=tuple(partition.layers[firing.layer] for firing in partition.firings),
            transfers=tuple(
                Transfer(source=name(source), target=name(target))
                for copies_of_edge in copies.values()
                for source, target in pairwise(copies_of_edge)
                if target.stays[0].partition == partition.name
            ),
            concurrent=concurrent.get(partition.name),
        )
        for partition in partitions
    )
    return in_order(
        member.network,
        rings,
        groups,
        rows={  # of each layer: the output rows of its first firing
            partition.layers[firing.layer]: firing.end_row - firing.first_row
            for partition in partitions
            for firing in partition.firings
            if firing.phase == 0
        },
        last_firings=last_firings,
        element_bytes=element_bytes,
        outside=member.outside,
    )
