"""The buffers of a chromosome as a problem for offsets in one arena, instead of whole buffers.

Partitions stand one after another on the axis of time, a step of a schedule is a time. What is in use
in partitions that run in parallel conflicts, though it stands at different times.

Edges that carry one tensor to several readers, in one place: nobody keeps a tensor twice.

The edges of a producer have a buffer each, as published. Where two of them keep as many elements, row
r of the tensor lies in the same place of both, and their producer waits for both before it writes over
it. So they may lie on one another, for as long as the one that is needed longest. A plan in which they
do is never larger than one in which they do not. Copies in a pipeline stay apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, combinations
from typing import NamedTuple

from cnn2csdf.network import Network
from planners.arena.problem import Buffer, MemoryPlan, Pair, Problem
from planners.plan.executor import ELEMENT_BY_ELEMENT
from planners.reuse.cost.evaluation import Evaluator, ReusePlan
from planners.reuse.edge_buffers import EdgeBuffer


def offset_problem(evaluator: Evaluator, plan: ReusePlan) -> Problem:
    """Return the edge buffers of a plan, in bytes, with their lifetimes and conflicts."""
    begins = [0, *accumulate(len(order) for order in plan.orders)]
    unit = evaluator.costs.element_bytes
    buffers = tuple(
        Buffer(
            name=edge.name,
            size=elements * unit,
            start=begins[edge.stays[0].partition] + spans[0][0],
            end=begins[edge.stays[-1].partition] + spans[-1][1] + 1,
            alignment=unit * _units(evaluator, edge),
        )
        for edge, elements, spans in zip(plan.edges, plan.capacities, plan.spans, strict=True)
    )
    return Problem(
        name=evaluator.application.name,
        buffers=buffers,
        conflicts=tuple(_parallel_pairs(plan.edges, evaluator.parallel)),
    )


def _units(evaluator: Evaluator, edge: EdgeBuffer) -> int:
    """Units of an element of the edge."""
    application = evaluator.application
    layer = application.members[edge.member].network.layer(edge.connection.producer)
    return layer.element_bytes // application.unit


def _parallel_pairs(edges: Sequence[EdgeBuffer], parallel: Sequence[int]) -> Iterator[Pair]:
    for number, edge in enumerate(edges):
        for other in range(number + 1, len(edges)):
            if parallel[number] >> other & 1:
                yield edge.name, edges[other].name


def elementwise_in_place(evaluator: Evaluator, plan: ReusePlan, problem: Problem) -> Problem:
    """Return the problem in which a layer may write over what it reads.

    For layers that work element by element, as a whole, on tensors of one size, and write one edge.
    """
    pairs = tuple(
        pair
        for number, (_, partition) in enumerate(evaluator.application.partitions)
        for place in range(len(partition.layers))
        for pair in _pairs_of(evaluator, plan, number, place)
    )
    return replace(problem, in_place=pairs)


def _pairs_of(evaluator: Evaluator, plan: ReusePlan, partition: int, layer: int) -> Iterator[Pair]:
    """The edges that a layer reads, each with the one that it writes."""
    model = evaluator.models[partition]
    own = model.table.layers[layer]
    is_whole = plan.rows[partition][layer] == own.shape.rows
    if not is_whole or not isinstance(own.operator, ELEMENT_BY_ELEMENT):
        return
    here = [one for one in evaluator.residents[partition].values() if one[0].inner is not None]
    read = [edge for edge, stay in here if stay.last == layer]
    written = [edge for edge, stay in here if stay.first == layer]
    network = evaluator.application.members[written[0].member].network if written else None
    if network is None or _written_edges(network, own.name) > 1:
        return
    for edge in read:
        if edge.elements == written[0].elements:
            yield edge.name, written[0].name


def _written_edges(network: Network, layer: str) -> int:
    return len(network.consumers[layer])


class TensorPlaces(NamedTuple):
    """The problem with one buffer for each tensor kept, and the buffer that stands for each edge."""

    edges: Problem
    tensors: Problem
    place_of: Mapping[str, str]

    def of_edges(self, memory: MemoryPlan) -> MemoryPlan:
        """Return the plan of the tensors as one of all edges: those of a tensor share its place."""
        return replace(
            memory,
            problem=replace(self.edges, shares=tuple(self._pairs())),
            offsets={edge: memory.offsets[place] for edge, place in self.place_of.items()},
        )

    def _pairs(self) -> Sequence[tuple[str, str]]:
        edges = defaultdict(list)
        for edge, place in self.place_of.items():
            edges[place].append(edge)
        return [pair for same in edges.values() for pair in combinations(same, 2)]


def tensor_places(evaluator: Evaluator, plan: ReusePlan) -> TensorPlaces:
    """Return the edge buffers of a plan, those of one tensor in one place where they may be."""
    problem = offset_problem(evaluator, plan)
    buffers = {buffer.name: buffer for buffer in problem.buffers}
    longest = {
        name: max(same, key=lambda one: buffers[one].end)
        for same in _same_tensors(plan, problem)
        for name in same
    }
    place_of = {name: longest[name] for name in buffers}
    tensors = tuple(buffers[name] for name in dict.fromkeys(place_of.values()))
    conflicts = dict.fromkeys(
        (place_of[one], place_of[other]) for one, other in problem.conflicts
    )  # each pair once
    return TensorPlaces(
        edges=problem,
        tensors=replace(problem, buffers=tensors, conflicts=tuple(conflicts)),
        place_of=place_of,
    )


def _same_tensors(plan: ReusePlan, problem: Problem) -> list[list[str]]:
    """Names of edges that may share a place; most stand alone."""
    copies = Counter((edge.member, edge.channel) for edge in plan.edges)
    found: dict[Hashable, list[Buffer]] = defaultdict(list)
    for edge, buffer in zip(plan.edges, problem.buffers, strict=True):
        is_only = copies[edge.member, edge.channel] == 1
        tensor = (edge.member, edge.connection.producer, buffer.size, buffer.start)
        found[tensor if is_only else edge.name].append(buffer)
    apart = {name for pair in problem.conflicts for name in pair}
    groups = []
    for same in found.values():
        names = [buffer.name for buffer in same]
        groups += [[name] for name in names] if apart.intersection(names) else [names]
    return groups
