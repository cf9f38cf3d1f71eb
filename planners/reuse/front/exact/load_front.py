"""The exact front of what is in use at once against the time of each network.

What is in use at once is the least that any plan with a chromosome's lifetimes needs, and mostly what
offsets in one arena need (`planners.arena`). It decomposes, which the sum of whole buffers does not:

    of a partition     the largest load of its stretches; times add up
    in parallel        loads add up; within a network the slowest partition decides
    one after another  the largest load decides; times of one network add up

So all partitions may be as fast as they can be below one limit, and a limit has one best chromosome.
For a limit the fastest parts of a partition are a shortest path over its gates, along stretches that
need no more. Exact for the genes tried, where the stretches are complete and no two networks run in
parallel: then one may be faster only if the other is slower, and only the chromosomes that are best
for their sum are found.

Stretches of a partition: what is in use in each, and how long it takes, on its own.

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

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from csdf.time_limit import Budget, Stop, stop_of
from planners.reuse.application.application import Genes
from planners.reuse.cost.bounds import memory_bound
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.edge_buffers import Residents, largest_load
from planners.reuse.partition.evaluated_partition import LayerTimes


class LoadPoint(NamedTuple):
    """The fastest genes of some partitions, in their order, that need no more than a load.

    load: elements. nanoseconds: of one frame; where partitions are pipelined, of the slowest.
    """

    load: int
    nanoseconds: int
    genes: tuple[Genes, ...]


class LoadFront(NamedTuple):
    """Chromosomes from the largest load to the smallest, each faster than those behind it.

    genes: what was tried, beside the whole. is_exact: whether no chromosome of these genes has a
    smaller load in the same time.
    """

    genes: tuple[Gene, ...]
    chromosomes: tuple[Genes, ...]
    loads: tuple[int, ...]  # elements
    is_exact: bool

    def covers(self, genes: Sequence[Gene]) -> bool:
        """Whether nothing else was to be tried."""
        return set(genes) <= {None, *self.genes}


def load_front(
    evaluator: Evaluator, genes: Sequence[Gene] = (1,), *, budget: Budget = None
) -> LoadFront:
    """Return the front of load against time for the genes given, and the whole.

    Raises GaveUp where `budget` ends it. O(gates^2) stretches for each partition.
    """
    stop = stop_of(budget)
    floor = (memory_bound(evaluator, (None, *genes)) - evaluator.weights) // (
        evaluator.costs.element_bytes
    )
    found = [
        stretches(evaluator, number, genes, floor=floor if group is None else 0, stop=stop)
        for number, group in enumerate(evaluator.groups)
    ]
    fronts = [partition_front(one) for one in found]
    units = list(_units(evaluator.groups))
    joined = [_in_parallel([fronts[number] for number in unit]) for unit in units]
    limits = sorted({point.load for front in joined for point in front}, reverse=True)
    chosen = {_below(joined, limit): None for limit in limits}
    chosen.pop(None, None)
    points = [points for points in chosen if points is not None]
    return LoadFront(
        genes=tuple(genes),
        chromosomes=tuple(_chromosome(evaluator, units, point) for point in points),
        loads=tuple(max(one.load for one in point) for point in points),
        is_exact=all(one.is_complete for one in found) and not _mixes_networks(evaluator),
    )


def partition_front(found: Stretches) -> list[LoadPoint]:
    """Return the front of one partition, from the largest load to the smallest."""
    front: list[LoadPoint] = []
    limit = None
    while path := _fastest(found.ending, limit):
        load = max(one.load for one in path)
        nanoseconds = sum(one.nanoseconds for one in path)
        front.append(LoadPoint(load, nanoseconds, (_genes(path),)))
        limit = load - 1
    return _undominated(front)


def _fastest(ending: dict[int, list[Stretch]], limit: int | None) -> list[Stretch]:
    """The fastest stretches one after another within the limit; nothing if there are none."""
    best: dict[int, tuple[int, int]] = {-1: (0, 0)}  # nanoseconds, and the largest load on the way
    come: dict[int, Stretch] = {}
    for place in sorted(ending):
        for one in ending[place]:
            if one.begin in best and (limit is None or one.load <= limit):
                time, load = best[one.begin]
                candidate = (time + one.nanoseconds, max(load, one.load))
                if place not in best or candidate < best[place]:
                    best[place], come[place] = candidate, one
    return _path(come, max(ending))


def _path(come: dict[int, Stretch], end: int) -> list[Stretch]:
    path: list[Stretch] = []
    while end in come:
        path.append(come[end])
        end = come[end].begin
    return path[::-1] if path and end == -1 else []


def _genes(path: Sequence[Stretch]) -> Genes:
    """The genes between gates, and None for each gate."""
    genes: list[Gene] = []
    for one in path:
        genes += [*one.genes, None]
    return tuple(genes[:-1])


def _in_parallel(fronts: Sequence[list[LoadPoint]]) -> list[LoadPoint]:
    """The front of what runs at the same time: loads add up, the slowest decides."""
    joined = list(fronts[0])
    for other in fronts[1:]:
        joined = _undominated(
            [
                LoadPoint(
                    one.load + also.load,
                    max(one.nanoseconds, also.nanoseconds),
                    one.genes + also.genes,
                )
                for one, also in product(joined, other)
            ]
        )
    return joined


def _undominated(points: list[LoadPoint]) -> list[LoadPoint]:
    """The points from the largest load to the smallest, each faster than those behind it."""
    kept: list[LoadPoint] = []
    for point in sorted(points, key=lambda one: (one.load, one.nanoseconds)):
        if not kept or point.nanoseconds < kept[-1].nanoseconds:
            kept.append(point)
    return kept[::-1]


def _below(fronts: Sequence[list[LoadPoint]], limit: int) -> tuple[LoadPoint, ...] | None:
    """The fastest point of each front within the limit; None if one has none."""
    chosen = [next((one for one in front if one.load <= limit), None) for front in fronts]
    points = tuple(one for one in chosen if one is not None)
    return points if len(points) == len(fronts) else None


def _units(groups: Sequence[int | None]) -> Iterator[tuple[int, ...]]:
    """Partitions that run at the same time, together; the others alone."""
    for number, group in enumerate(groups):
        if group is None:
            yield (number,)
        elif groups.index(group) == number:
            yield tuple(other for other, same in enumerate(groups) if same == group)


def _chromosome(
    evaluator: Evaluator, units: Sequence[tuple[int, ...]], points: Sequence[LoadPoint]
) -> Genes:
    """The genes of all layers, in the order of the application."""
    application = evaluator.application
    chosen: dict[tuple[str, str], Gene] = {}
    partitions = list(application.partitions)
    for unit, point in zip(units, points, strict=True):
        for number, genes in zip(unit, point.genes, strict=True):
            member, partition = partitions[number]
            name = application.members[member].name
            chosen.update(
                ((name, layer), gene) for layer, gene in zip(partition.layers, genes, strict=True)
            )
    return tuple(chosen[layer] for layer in application.layers)


def _mixes_networks(evaluator: Evaluator) -> bool:
    """Whether partitions of different networks run in parallel."""
    pairs = {
        (group, member)
        for group, (member, _) in zip(
            evaluator.groups, evaluator.application.partitions, strict=True
        )
        if group is not None
    }
    return max(Counter(group for group, _ in pairs).values(), default=1) > 1


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
