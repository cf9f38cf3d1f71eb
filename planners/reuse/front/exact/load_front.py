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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from csdf.stopping import Budget, stop_of
from planners.reuse.application.application import Genes
from planners.reuse.cost.bounds import memory_bound
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.front.exact.stretches import Gene, Stretch, Stretches, stretches


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
