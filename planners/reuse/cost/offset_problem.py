"""The buffers of a chromosome as a problem for offsets in one arena, instead of whole buffers.

Partitions stand one after another on the axis of time, a step of a schedule is a time. What is in use
in partitions that run in parallel conflicts, though it stands at different times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from cnn2csdf.network import Network
from planners.plan import Buffer, Pair, Problem
from planners.reuse.buffers.edge_buffers import EdgeBuffer
from planners.reuse.cost.evaluation import Evaluator, ReusePlan
from planners.streaming.at_work.intact import ELEMENT_BY_ELEMENT


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
