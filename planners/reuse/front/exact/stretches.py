"""Stretches of a partition: what is in use in each, and how long it takes, on its own.

A gate is a layer that all other layers come before, or wait for. Where gates work as a whole a schedule
falls into stretches, from one such gate to the next, both included. What is in use in a stretch does
not depend on the parts of layers outside of it:

    All layers before a whole gate g have finished when g fires, and none behind it has begun. So an
    edge from before g to behind it holds its whole tensor, whatever the other genes; an edge up to
    g, or from g on, is whole too; and all other edges of a block are on one side of g. Neither side
    waits for the other, so the smallest buffers of the block are the smallest of each side. Steps
    within a stretch follow from its own waits alone.

It takes for granted that the smallest buffers of a block are the only ones of their size, and that
they were found (`block_storage` gives up after some effort). Time is a sum over layers in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from csdf.stopping import Stop
from planners.reuse.buffers.edge_buffers import Residents
from planners.reuse.buffers.sharing import largest_load
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.partition.evaluated_partition import LayerTimes

Gene = int | None
MOST_CHOICES = 32  # genes to try in one stretch


class Stretch(NamedTuple):
    """Genes from one whole gate to another, without those of the two gates.

    begin, end: places in the partition; begin is -1 before the first layer, end is the number of
    layers behind the last. load: elements in use at most. nanoseconds: of all layers between, and
    of the gate at the end.
    """

    begin: int
    end: int
    genes: tuple[Gene, ...]
    load: int
    nanoseconds: int


class Stretches(NamedTuple):
    """Stretches by their end, and whether all that matter are there."""

    ending: dict[int, list[Stretch]]
    is_complete: bool


class _PartTimes:
    """Nanoseconds of one frame in the layers of one partition, by place and rows of a part."""

    def __init__(self, evaluator: Evaluator, partition: int) -> None:
        member, one = list(evaluator.application.partitions)[partition]
        network = evaluator.application.members[member].network
        costs = evaluator.costs
        measured = costs.measured.get(evaluator.application.members[member].name)
        self._times = LayerTimes(network, costs.platform, costs.element_bytes, measured)
        self._names = one.layers
        self._heights = [network.layer(name).shape.rows for name in one.layers]

    def of(self, layer: int, rows: int) -> int:
        """Return the time of a layer; its height stands for the whole."""
        whole = rows == self._heights[layer]
        return self._times.nanoseconds(self._names[layer], None if whole else rows)


class _Ground:
    """A partition whose stretches are tried, each with everything outside of it whole."""

    def __init__(self, evaluator: Evaluator, partition: int, genes: Sequence[Gene]) -> None:
        self.model = evaluator.models[partition]
        self.layers = len(self.model.table.layers)
        self._residents: Residents = evaluator.residents[partition]
        self._times = _PartTimes(evaluator, partition)
        self.is_gate = [layer in self.model.gates for layer in range(self.layers)]
        self.heights = [layer.shape.rows for layer in self.model.table.layers]
        self.genes = [self._different(layer, genes) for layer in range(self.layers)]

    def _different(self, layer: int, genes: Sequence[Gene]) -> tuple[Gene, ...]:
        """The whole first, then one gene for each number of rows that the layer really has."""
        rows = {self.heights[layer]: None, **self._rows(layer, genes)}
        return tuple(rows.values())

    def _rows(self, layer: int, genes: Sequence[Gene]) -> dict[int, Gene]:
        found = {self.model.table.part_rows(layer, gene): gene for gene in genes}
        return {rows: gene for rows, gene in found.items() if rows != self.heights[layer]}

    def choices(self, begin: int, end: int) -> list[tuple[Gene, ...]]:
        """Genes of the layers of each stretch between two places: gates in it are never whole.

        The first layer, with nothing before it, ends no stretch: it may be whole.
        """
        return [
            self.genes[layer][1:] if self.is_gate[layer] and layer else self.genes[layer]
            for layer in range(begin + 1, end)
        ]

    def stretch(self, begin: int, end: int, genes: tuple[Gene, ...]) -> Stretch:
        before, behind = (None,) * (begin + 1), (None,) * (self.layers - end)
        rows = self.model.part_rows((*before, *genes, *behind))
        done = min(end + 1, self.layers)
        nanoseconds = sum(self._times.of(layer, rows[layer]) for layer in range(begin + 1, done))
        return Stretch(begin, end, genes, self._load(begin, end, rows), nanoseconds)

    def _load(self, begin: int, end: int, rows: tuple[int, ...]) -> int:
        capacities = self.model.capacities(self.model.storages(rows))
        steps = self.model.steps(rows, capacities)
        low = steps.first[begin] if begin >= 0 else 0
        high = steps.first[end] if end < self.layers else steps.total - 1
        edges = self.model.table.edges
        first, last, sizes = [], [], []
        for edge, stay in self._residents.values():
            start = 0 if stay.first is None else steps.first[stay.first]
            stop = steps.total - 1 if stay.last is None else steps.last[stay.last]
            if start <= high and stop >= low:
                first.append(max(start, low))
                last.append(min(stop, high))
                inner = edge.inner
                sizes.append(
                    edge.elements
                    if inner is None
                    else capacities[inner] * edges[inner].row_elements
                )
        return largest_load(first, last, sizes)


def stretches(
    evaluator: Evaluator,
    partition: int,
    genes: Sequence[Gene],
    *,
    floor: int,
    stop: Stop,
) -> Stretches:
    """Return the stretches of a partition for the genes given; the whole is always one of them.

    floor: elements that are in use somewhere in any case. Some gates within a stretch may be able to
    work as whole layers without more elements than the floor. Such a stretch is left out: with whole
    layers there the partition is faster and needs no more memory. Where a stretch has more than
    MOST_CHOICES genes to try, only choices with one gene for all its layers are tried.
    """
    ground = _Ground(evaluator, partition, genes)
    places = [-1, *(g for g in range(1, ground.layers) if ground.is_gate[g]), ground.layers]
    least: dict[tuple[int, int], int] = {}
    ending: dict[int, list[Stretch]] = {place: [] for place in places}
    is_complete = True
    for width in range(1, len(places)):
        for begin, end, between in _windows(places, width):
            stop.look()
            apart = min((max(least[begin, g], least[g, end]) for g in between), default=None)
            if apart is not None and apart <= floor:
                least[begin, end] = apart
                continue
            found, is_all = _tried(ground, begin, end)
            is_complete &= is_all
            ending[end] += found
            loads = [one.load for one in found] + ([] if apart is None else [apart])
            least[begin, end] = min(loads)
    return Stretches(ending, is_complete)


def _windows(places: Sequence[int], width: int) -> Iterator[tuple[int, int, Sequence[int]]]:
    for low in range(len(places) - width):
        yield places[low], places[low + width], places[low + 1 : low + width]


def _tried(ground: _Ground, begin: int, end: int) -> tuple[list[Stretch], bool]:
    """The stretches between two places, none of which is as large and as slow as another."""
    choices = ground.choices(begin, end)
    is_all = prod(map(len, choices)) <= MOST_CHOICES
    tried = product(*choices) if is_all else _uniform(choices)
    found = sorted(
        (ground.stretch(begin, end, genes) for genes in tried),
        key=lambda one: (one.load, one.nanoseconds),
    )
    kept: list[Stretch] = []
    for one in found:
        if not kept or one.nanoseconds < kept[-1].nanoseconds:
            kept.append(one)
    return kept, is_all


def _uniform(choices: Sequence[tuple[Gene, ...]]) -> Iterator[tuple[Gene, ...]]:
    """Return a gene for all layers that can take it; other layers take their own nearest gene."""
    wanted = dict.fromkeys(gene for some in choices for gene in some)
    seen = dict.fromkeys(
        tuple(gene if gene in some else some[-1] for some in choices)
        for gene in wanted
        if all(choices)
    )
    yield from seen
