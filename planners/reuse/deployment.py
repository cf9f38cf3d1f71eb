"""The final plan of an application: an arena, a position in it for each buffer, and what fires when.

In the form of all plans it is one plan for each network, all in the same arena. A partition is a group,
whose stages fire in the order of its schedule. A tensor that one partition makes and another reads is
stored whole; where both may work at the same time it is handed over from one buffer to another. Edges
that lie in one place are one buffer with several readers.

Networks take turns: frame by frame, where their partitions take turns too. A network all of whose
partitions are in one parallel set is a pipeline, each partition a frame behind the one before, which is
drained before another network has its turn, since that may write over its double buffers. Pipelines of
one set work at the same time. Where a set has only some of the partitions of a network these run in
sequence too: other partitions share bytes with the double buffer between them, so no second frame may
start before the first ends.
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

    layer: int  # its place among the layers of the partition
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
    """Bytes for what one layer writes for another, in the schedule of the partitions it stays in.

    input: which of the consumer's inputs it is, counted from 0. Several buffers of one connection
    are its copies in a pipeline, in their order; each is copied to the next when the last partition
    that it stays in has finished a frame. in_place: its producer writes it over what it reads.
    row_bytes: of one row of all maps; what is no stack of maps is a single row.
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
        """How many rows it keeps: row r of a frame lies in place r % rows."""
        return self.size // self.row_bytes

    @property
    def connection(self) -> tuple[str, str, str, int]:
        """Its connection, which copies in a pipeline have in common."""
        return self.network, self.producer, self.consumer, self.input


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All that it takes to run an application in one memory. Sizes and offsets in bytes.

    status, reason, lower_bound: of the arena, as in planners.arena.problem. weights: bytes in no
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
    """Return the final plan of a chromosome whose buffers lie as `memory` says.

    Raises InvalidPlan if the checker refuses it, or if it was made for other buffers or lifetimes.
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
    """The plan may keep apart more than it has to, but nothing less, and no shorter."""
    offsets_problem, wanted = memory.problem, offset_problem(evaluator, plan)
    either = [
        {(buffer.name, buffer.size, buffer.start, buffer.end) for buffer in problem.buffers}
        for problem in (offsets_problem, wanted)
    ]
    if either[0] != either[1]:
        raise InvalidPlan(f"{offsets_problem.name}: the buffers are not those of the chromosome")
    apart = {frozenset(pair) for pair in offsets_problem.conflicts}
    for pair in wanted.conflicts:
        if frozenset(pair) not in apart:
            raise InvalidPlan(
                f"{offsets_problem.name}: {pair} do not conflict; they run in parallel"
            )
    edges = {edge.name: edge for edge in plan.edges}
    sizes = {buffer.name: buffer.size for buffer in offsets_problem.buffers}
    for pair in offsets_problem.may_overlap:  # the same rows of one tensor in the same places
        tensors = {
            (edges[edge_number].member, edges[edge_number].connection.producer)
            for edge_number in pair
        }
        places = {(memory.offsets[edge_number], sizes[edge_number]) for edge_number in pair}
        if len(tensors) > 1 or len(places) > 1:
            raise InvalidPlan(f"{offsets_problem.name}: {pair} are used together, but share bytes")


def _buffers(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Iterator[PlannedBuffer]:
    partitions = [partition.name for _, partition in evaluator.application.partitions]
    sizes = {buffer.name: buffer.size for buffer in memory.problem.buffers}
    over = {
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
            in_place=edge.name in over,
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
    application: Application, found: Deployment, *, element_bytes: int | None = None
) -> tuple[StreamingPlan, ...]:
    """Return the plans of all networks of an application, in their order.

    element_bytes: of every element; None where each tensor has its own. The arena of a plan ends where
    the last buffer of its network ends. Raises ExecutionError where the networks of a parallel set do
    not work at the same time as a whole.
    """
    concurrent = concurrent_partitions(found)
    return tuple(
        _streaming_plan(member, found, concurrent, element_bytes) for member in application.members
    )


def concurrent_partitions(found: Deployment) -> dict[str, str]:
    """Return for each partition that may work at the same time as others the names of all of them.

    Raises ExecutionError where a set joins different networks but not the whole of each: what one
    hands from partition to partition may then lie under the buffers of the other.
    """
    networks: dict[str, set[str]] = defaultdict(set)
    for partition in found.partitions:
        networks[partition.network].add(partition.name)
    words: dict[str, str] = {}
    for group in map(set, found.parallel):
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
            names = [partition.name for partition in found.partitions if partition.name in group]
            words |= dict.fromkeys(names, ", ".join(names))
    return words


def _streaming_plan(
    member: ApplicationNetwork,
    found: Deployment,
    concurrent: Mapping[str, str],
    element_bytes: int | None,
) -> StreamingPlan:
    """The plan of a network of a deployment; its buffers in one place are one buffer."""
    partitions = [partition for partition in found.partitions if partition.network == member.name]
    number = {partition.name: place for place, partition in enumerate(partitions)}
    home = {
        layer: place for place, partition in enumerate(partitions) for layer in partition.layers
    }
    begins = [0, *accumulate(len(partition.firings) for partition in partitions)]
    buffers = [buffer for buffer in found.buffers if buffer.network == member.name]
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
    for (producer, offset, size, begin, _), same in together.items():
        ends = [copy.stays[-1] for copy in same]
        is_whole = any(home[producer] != home[copy.consumer] for copy in same)
        ring = StreamBuffer(
            name=name(same[0]),
            kind=Kind.WHOLE if is_whole else Kind.RING,
            tensor=producer,
            rows=same[0].rows,
            size=size,
            offset=offset,
            begin=begin,
            end=max(number[stay.partition] for stay in ends) + 1,
            readers=tuple(dict.fromkeys(copy.consumer for copy in same)),
        )
        rings.append(ring)
        last_firings[ring.name] = max(begins[number[stay.partition]] + stay.last for stay in ends)
    groups = tuple(
        GroupInOrder(
            order=tuple(partition.layers[firing.layer] for firing in partition.firings),
            transfers=tuple(
                Transfer(source=name(source), target=name(target))
                for copy in copies.values()
                for source, target in pairwise(copy)
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
        rows={  # of a part of each layer: those of its first firing
            partition.layers[firing.layer]: firing.end_row - firing.first_row
            for partition in partitions
            for firing in partition.firings
            if firing.phase == 0
        },
        last_firings=last_firings,
        element_bytes=element_bytes,
        outside=member.outside,
    )
