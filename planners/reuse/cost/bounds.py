"""A bound below all chromosomes of an application: what is in use together, whatever the parts.

When a layer fires for the first time, its inputs and outputs are in use, and so is every edge from a
layer that it has waited for to one that depends on it. Each needs at least the smallest buffer that it
has under any of the genes, between its two layers alone. Partitions that run in parallel add up. (For
the lifetimes of one chromosome `ReusePlan.live_load` is the bound, and larger; `searched_bound` of
`least_load` is larger too, for the buffers that the planner gives.)

The least that a partition has in use, where the parts of some of its layers are still open.

An edge has at least the rows that it holds under some choice of its block. It is in use when a layer
fires for the first time, if its producer has begun by then and its consumer has not ended: where that
follows from data, and from the room in buffers that are already fixed, it is so in every schedule.

Layers that have begun before another layer ends, in every schedule that the buffers allow.

Two things force a firing to come before another. Data: a phase waits for firings of the layers that it
reads. Room: where a buffer is small, its producer waits for firings of its consumer. So with small
buffers a layer far below begins before a layer above ends, whatever the order of turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.edge_buffers import EdgeBuffer, Residents, Stay
from planners.reuse.partition.block_storage import Block, block_rates, block_storage
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


Choices = tuple[tuple[int, ...], ...]
"""For each layer the rows of a part that are still open; one number where they are fixed."""

MOST_COMBINED = 64  # choices of a block of which all are tried; else those of two layers at a time


class ChoicesLeft:
    """The layers of a partition, and what they need at least for any choices that are open.

    shares_tensors: of the edges that leave a layer only the largest counts.
    """

    def __init__(
        self,
        model: PartitionModel,
        residents: Residents,
        genes: Sequence[int | None],
        *,
        shares_tensors: bool = False,
    ) -> None:
        self.model = model
        self._tensors = _tensors(residents, shares=shares_tensors)
        self._rows: dict[tuple[int, tuple[tuple[int, ...], ...]], tuple[int, ...]] = {}
        self._begun = [bits | 1 << layer for layer, bits in enumerate(model.waiting)]
        self.genes = [
            {model.table.part_rows(layer, gene): gene for gene in genes}
            for layer in range(len(model.table.layers))
        ]
        self.all_open: Choices = tuple(tuple(sorted(one)) for one in self.genes)

    def loads(self, choices: Choices) -> list[int]:
        """Return the elements that are in use at least when each layer fires for the first time."""
        least, fixed = self._edge_rows(choices)
        rows = [one[0] if len(one) == 1 else None for one in choices]
        not_ended = begun_before_end(self.model, rows, fixed)
        loads = [0] * len(choices)
        for tensor in self._tensors:
            sized = sorted(
                (self._elements(edge, least), self._in_use(stay, not_ended))
                for edge, stay in tensor
            )
            counted = 0
            for elements, layers in reversed(sized):
                for layer in _bits(layers & ~counted):
                    loads[layer] += elements
                counted |= layers
        return loads

    def _elements(self, edge: EdgeBuffer, rows: Sequence[int]) -> int:
        """Elements of a buffer; rows: of each edge within the partition. A cut edge is whole."""
        if edge.inner is None:
            return edge.elements
        return rows[edge.inner] * self.model.table.edges[edge.inner].row_elements

    def _in_use(self, stay: Stay, not_ended: Sequence[int]) -> int:
        """The layers, as bits, at whose first firing a buffer is in use."""
        layers = (1 << len(self._begun)) - 1
        if stay.first is not None:
            layers &= self._begun[stay.first]
        if stay.last is not None:
            layers &= not_ended[stay.last]
        return layers

    def _edge_rows(self, choices: Choices) -> tuple[list[int], list[int | None]]:
        """The rows that each edge has at least, and those of the blocks that are fixed."""
        least = [0] * len(self.model.table.edges)
        fixed: list[int | None] = [None] * len(least)
        for number, block in enumerate(self.model.blocks):
            own = tuple([choices[layer] for layer in block.layers])
            key = number, own
            rows = self._rows.get(key)
            if rows is None:
                rows = self._rows[key] = self._block_rows(number, own)
            for edge, count in zip(block.edges, rows, strict=True):
                least[edge] = count
            if all(len(one) == 1 for one in own):
                for edge, count in zip(block.edges, rows, strict=True):
                    fixed[edge] = count
        return least, fixed

    def _block_rows(self, number: int, choices: Choices) -> tuple[int, ...]:
        block = self.model.blocks[number]
        if prod(map(len, choices)) <= MOST_COMBINED:
            each = (self.model.storage(number, rows).capacities for rows in product(*choices))
            return tuple(map(min, zip(*each, strict=True)))
        return tuple(
            edge_rows(self.model, edge, choices[producer], choices[consumer])
            for edge, (producer, consumer) in zip(block.edges, block.ends, strict=True)
        )


def edge_rows(
    model: PartitionModel, number: int, producer_rows: Sequence[int], consumer_rows: Sequence[int]
) -> int:
    """Return the rows that an edge holds at least, between its two layers alone."""
    edge = model.table.edges[number]
    block = Block(edges=(number,), layers=(edge.producer, edge.consumer), ends=((0, 1),))
    return min(
        block_storage(block_rates(model.table, block, pair)).capacities[0]
        for pair in product(producer_rows, consumer_rows)
    )


def _tensors(residents: Residents, *, shares: bool) -> list[list[tuple[EdgeBuffer, Stay]]]:
    """The buffers that are counted together: those of one tensor, or each on its own."""
    found: dict[object, list[tuple[EdgeBuffer, Stay]]] = {}
    for number, (edge, stay) in residents.items():
        key = (edge.member, edge.connection.producer) if shares else number
        found.setdefault(key, []).append((edge, stay))
    return list(found.values())


def _bits(layers: int) -> Iterator[int]:
    while layers:
        lowest = layers & -layers
        yield lowest.bit_length() - 1
        layers ^= lowest


Rows = int | None
Forces = list[list[tuple[int, tuple[int, ...]]]]
"""For each layer pairs: another layer, and how often it has fired after each phase of the first."""
Ahead = dict[int, int]
"""How often layers have fired by the time a layer ends, but for itself and those it depends on."""


def begun_before_end(
    model: PartitionModel, rows: Sequence[Rows], capacities: Sequence[Rows]
) -> list[int]:
    """Return for each layer, as bits, the layers that have begun before it fires for the last time.

    rows: of the parts of each layer, None where they are not known. capacities: rows that each edge
    holds, None where they are not known. The layer itself counts as begun. What follows from the
    layers and edges that are known holds whatever the others are.
    """
    forces = _forces(model, rows, capacities)
    inputs: list[list[int]] = [[] for _ in rows]
    for edge in model.table.edges:
        inputs[edge.consumer].append(edge.producer)
    ahead: list[Ahead] = []
    for layer, count in enumerate(rows):
        ended = model.above[layer] | 1 << layer
        fired = _merged([ahead[one] for one in inputs[layer]], ended)
        if count is not None:
            phases = len(model.table.written(layer, count))
            _fire(fired, forces, layer, phases, ended)
        ahead.append(fired)
    return [_begun(model, layer, fired) for layer, fired in enumerate(ahead)]


def _merged(several: Sequence[Ahead], ended: int) -> Ahead:
    """The firings that any of them forces, but for those of layers that have ended, as bits."""
    merged: Ahead = {}
    for one in several:
        for layer, count in one.items():
            if not ended >> layer & 1 and count > merged.get(layer, 0):
                merged[layer] = count
    return merged


def _forces(model: PartitionModel, rows: Sequence[Rows], capacities: Sequence[Rows]) -> Forces:
    """The edges between layers that are known, by data and, where the buffer is known, by room."""
    forces: Forces = [[] for _ in rows]
    for number, edge in enumerate(model.table.edges):
        written, read = rows[edge.producer], rows[edge.consumer]
        if written is None or read is None:
            continue
        needed = model.table.needed(number, written, read)
        forces[edge.consumer].append((edge.producer, needed))
        capacity = capacities[number]
        if capacity is not None and capacity < edge.rows:
            room = model.table.room(number, written, read, capacity)
            forces[edge.producer].append((edge.consumer, room))
    return forces


def _fire(fired: Ahead, forces: Forces, layer: int, count: int, ended: int) -> None:
    """Let a layer have fired so often, and all others as often as that forces.

    ended: as bits, layers that have fired as often as they can; what follows from it is in `fired`.
    """
    changed = [(layer, count)]
    while changed:
        now, count = changed.pop()
        for other, firings in forces[now]:
            forced = firings[count - 1]
            if forced > fired.get(other, 0) and not ended >> other & 1:
                fired[other] = forced
                changed.append((other, forced))


def _begun(model: PartitionModel, layer: int, fired: Ahead) -> int:
    """The layers that have fired, and those whose data they and the last layer waited for."""
    bits = model.above[layer] | 1 << layer
    for other in fired:
        bits |= model.begun[other] | 1 << other
    return bits
