"""The final plan of an application: its arena, the offset of each buffer, and the firing order.

`deployment` checks the offsets of a chromosome. `streaming_plans` returns one plan for each network,
all in the same arena. A partition is a group, whose stages fire in the order of its schedule. Inside a
group, a tensor has rings: buffers that hold the latest rows. A tensor between two partitions is stored
whole; if both partitions may run at the same time, it is copied from one buffer to the next. Edges of
one tensor with the same offset are one buffer with several consumers.

An input or output outside of an application is stored whole in other memory. If the network has a
single input, it arrives row by row. A result that a ring holds whole at the end of the frame stays in
the arena; other results leave as they are produced.

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
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from cnn2csdf.network import Connection
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
    has only some partitions of a network, InvalidNetwork if a layer outside is neither an input nor an
    output.
    """
    application = planned.evaluator.application
    concurrent = concurrent_partitions(application)
    return tuple(
        _NetworkPlan(planned, number, element_bytes).plan(concurrent)
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


class _NetworkPlan:
    """Builder of the plan of one network of a deployment; its groups are the partitions."""

    def __init__(self, planned: Deployment, number: int, element_bytes: int | None) -> None:
        """Set the network, by its number. element_bytes: as in `streaming_plans`."""
        evaluator, plan, memory = self._planned = planned
        self._member = evaluator.application.members[number]
        self._network = network = self._member.network
        for name in sorted(self._member.outside):
            if not network.layer(name).is_end:
                raise InvalidNetwork(
                    f"network {network.name!r}: layer {name!r} is outside, but no input and no "
                    "output; a plan has all layers between them"
                )
        self._table = StageTable(network, element_bytes=element_bytes)
        self._partitions = [
            (index, partition)
            for index, (owner, partition) in enumerate(evaluator.application.partitions)
            if owner == number
        ]
        self._orders = [  # of each partition: the layer of each firing
            tuple(partition.layers[layer] for layer in plan.orders[index])
            for index, partition in self._partitions
        ]
        inputs = [layer.name for layer in network.inputs]
        is_only = len(inputs) == 1 and inputs[0] in self._orders[0]
        self._streamed_input = inputs[0] if is_only else None
        # Of each connection its buffer, or the copies of its tensor in a pipeline.
        self._copies: dict[Connection, list[EdgeBuffer]] = defaultdict(list)
        edges = [edge for edge in plan.edges if edge.member == number]
        for edge in edges:
            self._copies[edge.connection].append(edge)
        self._sizes = {buffer.name: buffer.size for buffer in memory.problem.buffers}
        # Edges of a tensor at one position of the arena are one ring with several consumers.
        edges_of_ring: dict[Hashable, list[EdgeBuffer]] = defaultdict(list)
        for edge in edges:
            position = memory.offsets[edge.name], self._sizes[edge.name], edge.stays[0].partition
            copy_name = edge.name if len(self._copies[edge.connection]) > 1 else ""
            edges_of_ring[edge.connection.producer, position, copy_name].append(edge)
        rings = [self._ring(shared) for shared in edges_of_ring.values()]
        self._arena_bytes = max((ring.offset + ring.size for ring in rings), default=0)
        self._rings = tuple(read_once(rings))
        # By the name of a result, the name of the ring in which the result stays.
        self._staying = dict(self._results_that_stay(edges_of_ring.values()))

    def _name(self, edge: EdgeBuffer) -> str:
        return edge.name.removeprefix(f"{self._member.name}: ")

    def _ring(self, edges: Sequence[EdgeBuffer]) -> StreamBuffer:
        """The buffer of edges of one tensor at one position of the arena."""
        edge, (first, _) = edges[0], self._partitions[0]
        return StreamBuffer(
            name=self._name(edge),
            kind=Kind.RING if all(same.inner is not None for same in edges) else Kind.WHOLE,
            tensor=edge.connection.producer,
            rows=self._sizes[edge.name] // self._planned.row_bytes(edge),
            size=self._sizes[edge.name],
            offset=self._planned.memory.offsets[edge.name],
            begin=edge.stays[0].partition - first,
            end=max(same.stays[-1].partition for same in edges) - first + 1,
            readers=tuple(dict.fromkeys(same.connection.consumer for same in edges)),
        )

    def _results_that_stay(
        self, edges_of_rings: Iterable[Sequence[EdgeBuffer]]
    ) -> Iterator[tuple[str, str]]:
        """Results whose rows are all in a ring at the end: names of output and ring.

        An output is a layer whose firings read the rows of a result. For a result that stays, `_group`
        and `_firings` omit them. An output of an input tensor, or in a group of outputs only, does not
        stay.
        """
        plan, (last, _) = self._planned.plan, self._partitions[-1]
        needed_last = {  # edges that the last firing of the network needs
            edge.name
            for edge, spans in zip(plan.edges, plan.spans, strict=True)
            if edge.stays[-1].partition == last and spans[-1][1] + 1 == len(plan.orders[last])
        }
        rings_to_the_end = {
            self._name(edges[0])
            for edges in edges_of_rings
            if any(edge.name in needed_last for edge in edges)
        }
        outputs = {layer.name for layer in self._network.outputs}
        orders = list(map(set, self._orders))
        # Without its outputs each of these groups still has a layer that fires.
        may_stay = {name for order in orders if order - outputs for name in order & outputs}
        for ring in self._rings:
            has_all = ring.size == self._table.tensor_bytes(ring.tensor)
            is_input = self._network.layer(ring.tensor).is_input
            if has_all and ring.name in rings_to_the_end and not is_input:
                for name in sorted(may_stay.intersection(ring.readers)):
                    yield name, ring.name

    def plan(self, concurrent: Mapping[str, str]) -> StreamingPlan:
        """Return the plan. concurrent: of partitions, as `concurrent_partitions` returns it."""
        groups = tuple(
            self._group(number, concurrent.get(partition.name))
            for number, (_, partition) in enumerate(self._partitions)
        )
        stages = [stage for group in groups for stage in group.stages]
        return StreamingPlan(
            network=self._network.name,
            element_bytes=self._table.element_bytes,
            groups=groups,
            buffers=tuple(self._buffers(groups)),
            arena_bytes=self._arena_bytes,
            multiply_accumulates=sum(self._table.geometry(stage).work for stage in stages),
        )

    def _group(self, number: int, concurrent: str | None) -> PlannedGroup:
        """The group of a partition, by its number within the network."""
        ring_names = {ring.name for ring in self._rings}
        fired = set(self._orders[number]) - set(self._staying)
        rows = self._rows(number)
        stages = [
            Stage(layers=(layer.name,), rows=rows[layer.name])
            for layer in self._network.layers
            if layer.name in fired and layer.name != self._streamed_input
        ]
        index, _ = self._partitions[number]
        transfers = (
            Transfer(source=self._name(source), target=self._name(target))
            for copies in self._copies.values()
            for source, target in pairwise(copies)
            if target.stays[0].partition == index and self._name(source) in ring_names
        )
        return PlannedGroup(
            stages=tuple(stages),
            streamed_input=self._streamed_input if self._streamed_input in fired else None,
            order=turns_of(list(self._firings(number))),
            transfers=tuple(transfers),
            concurrent=concurrent,
        )

    def _rows(self, number: int) -> dict[str, int]:
        """The rows that a firing of each layer of a partition computes."""
        index, partition = self._partitions[number]
        table, rows = self._planned.evaluator.models[index].table, self._planned.plan.rows[index]
        return {
            name: table.written(layer, rows[layer])[0]
            for layer, name in enumerate(partition.layers)
        }

    def _firings(self, number: int) -> Iterator[str]:
        """The layers that fire in a partition, in order; the streamed input fires once for each row.

        Example: an input of 5 rows in blocks of 2 fires 2, 2 and 1 times, where the order has it.
        """
        rows_of = self._rows(number)
        remaining = 0 if self._streamed_input is None else self._table.height(self._streamed_input)
        for name in self._orders[number]:
            if name == self._streamed_input:
                rows = min(rows_of[name], remaining)
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
                name="staging", kind=Kind.STAGING, tensor=result or "", begin=number, end=number + 1
            )

    def _external(self, groups: int) -> Iterator[StreamBuffer]:
        """Buffers in other memory: outputs whose rows leave, and outside inputs and outputs."""
        outside = self._member.outside
        for layer in self._network.outputs:
            if layer.name not in outside and layer.name not in self._staying:
                yield self._all_of(layer.name, layer.name, groups)
            elif layer.name in outside and outside.isdisjoint(layer.inputs):
                (tensor,) = layer.inputs
                yield self._all_of(f"{layer.name} outside", tensor, groups, (layer.name,))
        for layer in self._network.inputs:
            if layer.name in outside:
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
