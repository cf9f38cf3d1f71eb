"""The final plan of an application: its arena, the offset of each buffer, and the firing order.

`deployment` checks the offsets of a chromosome. `streaming_plans` returns one plan for each network,
all in the same arena; `OrderedPlan` builds it. A partition is a group, whose stages fire in the order
of its schedule. Inside a group, a tensor has rings: buffers that hold the latest rows. A tensor between
two partitions is stored whole; if both partitions may run at the same time, it is copied from one
buffer to the next. Edges of one tensor with the same offset are one buffer with several consumers.

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
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from cnn2csdf.network import Connection, Network
from csdf.errors import ExecutionError, InvalidNetwork, InvalidPlan
from planners.arena.checker import check_plan
from planners.arena.problem import MemoryPlan
from planners.memory.build import external_offsets
from planners.memory.stages import StageTable
from planners.plan.firing import turns_of
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
        return row_elements * self.evaluator.bytes_of_element(edge)


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
    """The plan of a network of a deployment. number: of the network; concurrent: of partitions."""
    evaluator, plan, memory = planned
    member = evaluator.application.members[number]
    partitions = [
        (index, partition)
        for index, (owner, partition) in enumerate(evaluator.application.partitions)
        if owner == number
    ]
    first, _ = partitions[0]
    # The number of the first firing of each partition, counted over the partitions of the network.
    begins = [0, *accumulate(len(plan.orders[index]) for index, _ in partitions)]
    sizes = {buffer.name: buffer.size for buffer in memory.problem.buffers}
    last_firings: dict[str, int] = {}  # of the consumer of each edge
    copies: dict[Connection, list[EdgeBuffer]] = defaultdict(list)
    for edge, spans in zip(plan.edges, plan.spans, strict=True):
        if edge.member == number:
            copies[edge.connection].append(edge)
            _, last_step = spans[-1]
            last_firings[edge.name] = begins[edge.stays[-1].partition - first] + last_step
    # Edges of a tensor at one position of the arena are one ring with several consumers.
    edges_of_ring: dict[Hashable, list[EdgeBuffer]] = defaultdict(list)
    for edge in (edge for edge in plan.edges if edge.member == number):
        position = memory.offsets[edge.name], sizes[edge.name], edge.stays[0].partition
        copy_name = edge.name if len(copies[edge.connection]) > 1 else ""
        edges_of_ring[edge.connection.producer, position, copy_name].append(edge)

    def name(edge: EdgeBuffer) -> str:
        return edge.name.removeprefix(f"{member.name}: ")

    rings = [
        StreamBuffer(
            name=name(edge),
            kind=Kind.RING if all(same.inner is not None for same in shared) else Kind.WHOLE,
            tensor=edge.connection.producer,
            rows=sizes[edge.name] // planned.row_bytes(edge),
            size=sizes[edge.name],
            offset=memory.offsets[edge.name],
            begin=edge.stays[0].partition - first,
            end=max(same.stays[-1].partition for same in shared) - first + 1,
            readers=tuple(dict.fromkeys(same.connection.consumer for same in shared)),
        )
        for shared in edges_of_ring.values()
        for edge in shared[:1]
    ]
    groups = []
    for index, partition in partitions:
        table, layers = evaluator.models[index].table, partition.layers
        stages = (
            Stage(layers=(layer,), rows=table.written(layer_number, rows)[0])
            for layer_number, (layer, rows) in enumerate(zip(layers, plan.rows[index], strict=True))
        )
        results = tuple(layers[layer_number] for layer_number in plan.orders[index])
        transfers = (
            Transfer(source=name(source), target=name(target))
            for copies_of_edge in copies.values()
            for source, target in pairwise(copies_of_edge)
            if target.stays[0].partition == index
        )
        groups.append(
            PlannedGroup(
                stages=tuple(stages),
                order=(Turns(times=1, results=results),),
                transfers=tuple(transfers),
                concurrent=concurrent.get(partition.name),
            )
        )
    return OrderedPlan(
        member.network,
        rings,
        groups,
        last_firings={
            name(shared[0]): max(last_firings[edge.name] for edge in shared)
            for shared in edges_of_ring.values()
        },
        element_bytes=element_bytes,
        outside=member.outside,
    ).plan()


def read_once(rings: Sequence[StreamBuffer]) -> Iterator[StreamBuffer]:
    """Yield rings such that a layer with several rings of a tensor reads only the largest.

    The largest ring holds all rows that the layer needs: rows are written to all rings simultaneously,
    and a row is freed only after all its reads. A ring without remaining readers is omitted.
    """
    largest: dict[tuple[str, str, int], StreamBuffer] = {}
    for ring in rings:
        for reader in ring.readers:
            largest_ring = largest.get((ring.tensor, reader, ring.begin))
            if largest_ring is None or ring.size > largest_ring.size:
                largest[ring.tensor, reader, ring.begin] = ring
    for ring in rings:
        readers = tuple(
            reader for reader in ring.readers if largest[ring.tensor, reader, ring.begin] is ring
        )
        if readers:
            yield replace(ring, readers=readers)


class OrderedPlan:
    """Builder of the plan of a network whose groups fire in a given order.

    If the network has one input, it arrives row by row. Results that a ring holds whole until the end
    stay in the arena; others leave as they are produced.
    """

    def __init__(
        self,
        network: Network,
        rings: Sequence[StreamBuffer],
        groups: Sequence[PlannedGroup],
        *,
        last_firings: Mapping[str, int],
        element_bytes: int | None,
        outside: frozenset[str] = frozenset(),
    ) -> None:
        """Set rings and groups.

        rings: buffers for the rows of a tensor that `readers` read, within a group; of kind WHOLE, for
            all rows, from group `begin` to before group `end`.
        groups: each with a stage for each layer that fires, inputs and outputs included, and an order.
            Transfers are copies between rings, by name.
        last_firings: for each ring the last firing that needs it, counted over all groups.
        outside: inputs and outputs that are stored whole in other memory, and do not fire.

        Raises InvalidNetwork if a layer outside is neither an input nor an output.
        """
        for name in sorted(outside):
            if not network.layer(name).is_end:
                raise InvalidNetwork(
                    f"network {network.name!r}: layer {name!r} is outside, but no input and no "
                    "output; a plan has all layers between them"
                )
        self._network, self._groups = network, groups
        self._orders = [tuple(group.firings) for group in groups]
        self._rows = {stage.result: stage.rows for group in groups for stage in group.stages}
        self._outside_names, self._last_firings = outside, last_firings
        self._table = StageTable(network, element_bytes=element_bytes)
        inputs = [layer.name for layer in network.inputs]
        is_only = len(inputs) == 1 and inputs[0] in self._orders[0]
        self._streamed_input = inputs[0] if is_only else None
        self._arena_bytes = max((ring.offset + ring.size for ring in rings), default=0)
        self._rings = tuple(read_once(rings))
        self._staying = dict(self._results_that_stay())  # the ring of each result, by name

    def _results_that_stay(self) -> Iterator[tuple[str, str]]:
        """Results whose rows are all in a ring at the end: names of output and ring.

        An output is a layer whose firings read the rows of a result. For a result that stays, `_group`
        and `_firings` omit them. An output of an input tensor, or in a group of outputs only, does not
        stay.
        """
        last = sum(map(len, self._orders)) - 1
        outputs = {layer.name for layer in self._network.outputs}
        orders = list(map(set, self._orders))
        # Without its outputs each of these groups still has a layer that fires.
        may_stay = {name for order in orders if order - outputs for name in order & outputs}
        for ring in self._rings:
            height = self._table.height(ring.tensor)
            has_all = ring.size == height * self._table.row_bytes(ring.tensor)
            is_input = self._network.layer(ring.tensor).is_input
            for layer in self._network.outputs:
                if layer.name in may_stay.intersection(ring.readers) and has_all:
                    if self._last_firings[ring.name] == last and not is_input:
                        yield layer.name, ring.name

    def plan(self) -> StreamingPlan:
        """Return the plan."""
        groups = tuple(self._group(number) for number in range(len(self._groups)))
        stages = [stage for group in groups for stage in group.stages]
        return StreamingPlan(
            network=self._network.name,
            element_bytes=self._table.element_bytes,
            groups=groups,
            buffers=tuple(self._buffers(groups)),
            arena_bytes=self._arena_bytes,
            multiply_accumulates=sum(self._table.geometry(stage).work for stage in stages),
        )

    def _group(self, number: int) -> PlannedGroup:
        group = self._groups[number]
        ring_names = {ring.name for ring in self._rings}
        fired = set(self._orders[number]) - set(self._staying)
        stages = [
            Stage(layers=(layer.name,), rows=self._rows[layer.name])
            for layer in self._network.layers
            if layer.name in fired and layer.name != self._streamed_input
        ]
        return replace(
            group,
            stages=tuple(stages),
            streamed_input=self._streamed_input if self._streamed_input in fired else None,
            order=turns_of(list(self._firings(self._orders[number]))),
            transfers=tuple(
                transfer for transfer in group.transfers if transfer.source in ring_names
            ),
        )

    def _firings(self, order: Sequence[str]) -> Iterator[str]:
        """The layers that fire, in order; the streamed input fires once for each row.

        Example: an input of 5 rows in blocks of 2 fires 2, 2 and 1 times, where the order has it.
        """
        remaining = 0 if self._streamed_input is None else self._table.height(self._streamed_input)
        for name in order:
            if name == self._streamed_input:
                rows = min(self._rows[name], remaining)
                remaining -= rows
                yield from (name for _ in range(rows))
            elif name not in self._staying:
                yield name

    def _buffers(self, groups: Sequence[PlannedGroup]) -> Iterator[StreamBuffer]:
        staying = set(self._staying.values())
        external = list(self._external(len(groups)))
        rings = sorted(
            self._rings, key=lambda ring: (ring.name not in staying, ring.kind is not Kind.WHOLE)
        )
        # Readers are named only where a tensor has several buffers.
        copies = Counter(buffer.tensor for buffer in [*rings, *external])
        offsets = external_offsets(self._arena_bytes, external)
        for buffer in external:
            readers = buffer.readers if copies[buffer.tensor] > 1 else ()
            yield replace(buffer, offset=offsets[buffer.name], readers=readers)
        for ring in rings:
            is_staying = ring.name in staying
            yield replace(
                ring,
                kind=Kind.WHOLE if is_staying else ring.kind,
                rows=ring.size // self._table.row_bytes(ring.tensor),
                end=len(groups) if is_staying else ring.end,
                readers=ring.readers if copies[ring.tensor] > 1 else (),
            )
        for number, group in enumerate(groups):
            # The executor looks up a staging buffer in each group; here it has 0 bytes.
            result = group.stages[-1].result if group.stages else group.streamed_input
            yield StreamBuffer(
                name="staging",
                kind=Kind.STAGING,
                tensor=result or "",
                begin=number,
                end=number + 1,
            )

    def _external(self, groups: int) -> Iterator[StreamBuffer]:
        """Buffers in other memory: outputs whose rows leave, and outside inputs and outputs."""
        for layer in self._network.outputs:
            if layer.name in self._outside_names:
                (tensor,) = layer.inputs
                if tensor not in self._outside_names:
                    yield self._all_of(f"{layer.name} outside", tensor, groups, (layer.name,))
            elif layer.name not in self._staying:
                yield self._all_of(layer.name, layer.name, groups)
        for layer in self._network.inputs:
            if layer.name in self._outside_names:
                yield self._all_of(layer.name, layer.name, groups)

    def _all_of(
        self, name: str, tensor: str, groups: int, readers: tuple[str, ...] = ()
    ) -> StreamBuffer:
        return StreamBuffer(
            name=name,
            kind=Kind.EXTERNAL,
            tensor=tensor,
            rows=self._table.height(tensor),
            size=self._table.tensor_bytes(tensor),
            begin=0,
            end=groups,
            readers=readers,
        )
