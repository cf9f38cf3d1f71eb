"""A bound below all chromosomes of an application: what is in use together, whatever the parts.

When a layer fires for the first time, its inputs and outputs are in use, and so is every edge from a
layer that it has waited for to one that depends on it. Each needs at least the smallest buffer that it
has under any of the genes, between its two layers alone. Partitions that run in parallel add up. (For
the lifetimes of one chromosome `ReusePlan.live_load` is the bound, and larger; `searched_bound` of
`least_load` is larger too, for the buffers that the planner gives.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from planners.reuse.cost.choices_left import edge_rows
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.edge_buffers import Residents
from planners.reuse.partition.partition_model import PartitionModel

PUBLISHED_GENES = (1, None)

Tensor = tuple[int, str]  # number of the network, and the layer that writes it
Needed = Callable[[Sequence[tuple[Tensor, int]]], int]  # elements of all edges in use together


def memory_bound(evaluator: Evaluator, genes: Sequence[int | None] = PUBLISHED_GENES) -> int:
    """Return bytes of weights and buffers that no chromosome of these genes is below.

    It holds for whole buffers and for offsets, for any schedule, as long as an edge is in use from
    the first firing of its producer to the last of its consumer.
    """
    return _bound(evaluator, genes, _in_all)


def tensor_bound(evaluator: Evaluator, genes: Sequence[int | None] = PUBLISHED_GENES) -> int:
    """Return bytes that no chromosome is below, also where readers of a tensor share its place.

    As `memory_bound`, but of the edges that leave a layer only the largest counts.
    """
    return _bound(evaluator, genes, _largest_of_each)


def _bound(evaluator: Evaluator, genes: Sequence[int | None], needed: Needed) -> int:
    loads = [
        max(_loads(model, _least_elements(model, genes), residents, needed))
        for model, residents in zip(evaluator.models, evaluator.residents, strict=True)
    ]
    return evaluator.weights + evaluator.costs.element_bytes * evaluator.together(loads)


def _in_all(sizes: Sequence[tuple[Tensor, int]]) -> int:
    return sum(elements for _, elements in sizes)


def _largest_of_each(sizes: Sequence[tuple[Tensor, int]]) -> int:
    largest: dict[Tensor, int] = {}
    for tensor, elements in sizes:
        largest[tensor] = max(elements, largest.get(tensor, 0))
    return sum(largest.values())


def _least_elements(model: PartitionModel, genes: Sequence[int | None]) -> list[int]:
    """For each inner edge the smallest buffer over the genes of its two layers."""
    table = model.table
    choices = [
        sorted({table.part_rows(layer, gene) for gene in genes})
        for layer in range(len(table.layers))
    ]
    return [
        edge_rows(model, number, choices[edge.producer], choices[edge.consumer]) * edge.row_elements
        for number, edge in enumerate(table.edges)
    ]


def _loads(
    model: PartitionModel,
    least: Sequence[int],
    residents: Residents,
    needed: Needed,
) -> Iterator[int]:
    """Elements in use when each layer fires for the first time."""
    for layer in range(len(model.table.layers)):
        before = model.begun[layer] | 1 << layer
        behind = model.below[layer] | 1 << layer
        yield needed(
            [
                (
                    (edge.member, edge.connection.producer),
                    edge.elements if edge.inner is None else least[edge.inner],
                )
                for edge, stay in residents.values()
                if (stay.first is None or before >> stay.first & 1)
                and (stay.last is None or behind >> stay.last & 1)
            ]
        )
