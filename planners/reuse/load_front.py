"""Exact Pareto front of live bytes against the time of each network: shortest paths over separators.

The load of a chromosome is its peak of live elements. The peak of live bytes is a lower bound on any
plan with the lifetimes of a chromosome, and usually equals the arena with offsets (`planners.arena`).
Live bytes decompose, unlike the sum of whole buffers:

    of a partition     the largest load of its segments; times add up
    in parallel        loads add up; within a network the slowest partition decides
    in sequence        the largest load decides; times of one network add up

So below a limit on the load each partition may be as fast as possible, and one chromosome is best. The
fastest genes of a partition are a shortest path over its separators, along segments with loads below
the limit. The front is exact for the genes tried if all genes of each segment are tried and no two
networks run in parallel. Otherwise a network may be faster at the expense of a parallel network, and
only the chromosomes with the minimum of their slowest time are in the front.

A separator is a layer that each other layer precedes or follows in every order. A schedule falls into
segments, from a separator that is executed whole to the next, both included. The live bytes of a
segment do not depend on the genes of layers outside of it:

    All layers before a whole separator s have finished when s fires, and no layer after it has begun.
    So an edge that passes s, ends at s or begins at s holds its whole tensor, whatever the other genes,
    and each other edge of a block is on one side of s. Neither side waits for the other, so the
    smallest buffers of the block are the smallest of each side. Steps within a segment follow from the
    waits of its own layers.

Two assumptions: the smallest buffers of a block are unique in size, and `block_storage`, which limits
its effort, has computed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import prod
from typing import NamedTuple

from csdf.search.pareto import front_of_chains, improving
from csdf.time_limit import Budget, Stop, stop_of
from planners.reuse.application import WHOLE, Chromosome
from planners.reuse.bounds import memory_bound
from planners.reuse.edge_buffers import largest_load
from planners.reuse.evaluation import Evaluator
from planners.reuse.partition import PartitionModel

MOST_CHOICES = 32  # combinations of genes that are tried in one segment


class LoadPoint(NamedTuple):
    """The fastest genes of parallel partitions, one tuple for each, within a load.

    load: live elements. nanoseconds: of a frame in the slowest of the partitions.
    """

    load: int
    nanoseconds: int
    genes: tuple[Chromosome, ...]


def load_front(
    evaluator: Evaluator, genes: Sequence[int] = (1,), *, budget: Budget = None
) -> list[tuple[int, Chromosome]]:
    """Return the front of load against time for these genes and WHOLE.

    Each point is a load, in elements, and a chromosome. The loads descend; each chromosome is faster
    than those after it. Raises GaveUp where `budget` ends it. O(separators^2) segments for each
    partition.
    """
    stop = stop_of(budget)
    floor = (memory_bound(evaluator, (WHOLE, *genes)) - evaluator.weights) // (
        evaluator.costs.element_bytes
    )
    fronts = [
        _partition_front(segments(model, genes, floor=floor if group is None else 0, stop=stop))
        for model, group in zip(evaluator.models, evaluator.groups, strict=True)
    ]
    units = [_front_in_parallel([fronts[number] for number in unit]) for unit in evaluator.units]
    return [
        (max(point.load for point in points), _chromosome(evaluator, points))
        for points in _front_in_sequence(units)
    ]


def _partition_front(ending: list[list[Segment]]) -> list[LoadPoint]:
    """The front of a partition by increasing load. ending: its segments by their last separator."""
    return [
        # A separator between two segments is whole: its gene is WHOLE.
        LoadPoint(load, time, (tuple([gene for part in path for gene in (*part, WHOLE)][:-1]),))
        for load, (time,), path in front_of_chains(ending)
    ]


def _front_in_parallel(fronts: Sequence[list[LoadPoint]]) -> list[LoadPoint]:
    """The front of partitions that run in parallel: loads add up, the slowest partition decides."""
    front, *remaining = fronts
    for next_front in remaining:
        both = (
            LoadPoint(
                point.load + added.load,
                max(point.nanoseconds, added.nanoseconds),
                point.genes + added.genes,
            )
            for point, added in product(front, next_front)
        )
        # A dominated combination stays dominated with any point of a further partition.
        front = improving(both, lambda point: point[:2])
    return front


def _front_in_sequence(fronts: Sequence[list[LoadPoint]]) -> list[tuple[LoadPoint, ...]]:
    """The front of units that run in sequence, by decreasing load: a point of each unit.

    The largest load decides, so within a limit the fastest point of each unit is best, which is the
    last point of its front within the limit.
    """
    chosen: dict[tuple[LoadPoint, ...], None] = {}
    for limit in sorted({point.load for front in fronts for point in front}, reverse=True):
        within = [[point for point in front if point.load <= limit] for front in fronts]
        if all(within):
            chosen[tuple(points[-1] for points in within)] = None
    return list(chosen)


def _chromosome(evaluator: Evaluator, points: Sequence[LoadPoint]) -> Chromosome:
    """The genes of all layers of an application. points: one for each unit."""
    chromosome: list[int] = [WHOLE] * len(evaluator.application.layers)
    for unit, point in zip(evaluator.units, points, strict=True):
        for number, genes in zip(unit, point.genes, strict=True):
            for position, gene in zip(evaluator.gene_places[number], genes, strict=True):
                chromosome[position] = gene
    return tuple(chromosome)


Segment = tuple[int, int, tuple[int], Chromosome]
"""A link of a chain: number of its first separator, peak of live elements, nanoseconds of the layers
after this separator up to and including its last separator, genes of the layers between the two."""


def segments(
    model: PartitionModel, genes: Sequence[int], *, floor: int, stop: Stop
) -> list[list[Segment]]:
    """Return the segments of a partition, by the number of their last separator.

    Separator 0 is before the first layer, the last separator after the last layer. A layer between two
    separators may have each of the genes, or be executed whole.

    floor: a lower bound on the peak of live elements of every chromosome. A segment is left out if a
    whole separator splits it into two that need at most the floor, and that are as fast as the segment
    with each layer at its minimum time. For more than MOST_CHOICES combinations of the genes in a
    segment only those with one gene for all layers are tried.
    """
    layers = len(model.heights)
    separators = [separator for separator in model.separators if separator]
    borders = [-1, *separators, layers]
    genes_of_layers = []
    minimum_times = []
    for layer, height in enumerate(model.heights):
        by_rows = {model.table.part_rows(layer, gene): gene for gene in genes}
        by_rows.pop(height, None)
        # Inside a segment a separator is not whole: the segments before and after it cover that case.
        # The first layer, which no layer precedes, ends no segment, and may be whole.
        whole = () if layer in separators else (WHOLE,)
        genes_of_layers.append((*whole, *by_rows.values()))
        rows = (model.table.part_rows(layer, gene) for gene in genes_of_layers[-1])
        minimum_times.append(min((model.nanoseconds(layer, count) for count in rows), default=0))
    # Minimum time between two borders, with a load of at most the floor.
    times_at_floor: dict[tuple[int, int], int] = {}
    ending: list[list[Segment]] = [[] for _ in borders]
    # Shorter segments first, since a segment is compared with its splits.
    pairs = combinations(range(len(borders)), 2)
    for _, first, last in sorted((last - first, first, last) for first, last in pairs):
        begin, end = borders[first], borders[last]
        stop.look()
        split_times = [
            times_at_floor[begin, border] + times_at_floor[border, end]
            for border in borders[first + 1 : last]
            if (begin, border) in times_at_floor and (border, end) in times_at_floor
        ]
        if split_times:
            times_at_floor[begin, end] = min(split_times)
            end_time = 0 if end == layers else model.nanoseconds(end, model.heights[end])
            if min(split_times) <= sum(minimum_times[begin + 1 : end]) + end_time:
                continue
        choices = genes_of_layers[begin + 1 : end]
        # The number of combinations grows exponentially with the layers of a segment.
        is_all = prod(map(len, choices)) <= MOST_CHOICES
        tried = product(*choices) if is_all else _uniform(choices)
        costs = ((*_load_and_time(model, begin, end, choice), choice) for choice in tried)
        front = improving(costs, lambda cost: cost[:2])
        ending[last] += [(first, load, (time,), choice) for load, time, choice in front]
        if low_times := [time for load, time, _ in front if load <= floor] + split_times:
            times_at_floor[begin, end] = min(low_times)
    return ending


def _load_and_time(
    model: PartitionModel, begin: int, end: int, genes: Chromosome
) -> tuple[int, int]:
    """Live elements and nanoseconds of a segment, without the time of its first separator.

    begin, end: the layers that are its separators; -1 is before the first layer, the number of layers
    after the last. genes: of the layers between.
    """
    layers, edges = len(model.heights), model.table.edges
    # Layers outside are whole: the elements that are live inside do not depend on them.
    rows = model.part_rows((*(WHOLE,) * (begin + 1), *genes, *(WHOLE,) * (layers - end)))
    timed = range(begin + 1, min(end + 1, layers))
    capacities = model.capacities(rows)
    steps = model.steps(rows, capacities)
    # The segment begins and ends with the only step of a whole separator.
    first_step = steps.first[begin] if begin >= 0 else 0
    last_step = steps.first[end] if end < layers else steps.total - 1
    live = []
    for edge, stay in model.residents.values():
        start, stop = steps.span(stay)
        if start <= last_step and stop >= first_step:
            inner = edge.inner
            size = edge.elements if inner is None else capacities[inner] * edges[inner].row_elements
            live.append((max(start, first_step), min(stop, last_step), size))
    return largest_load(live), sum(model.nanoseconds(layer, rows[layer]) for layer in timed)


def _uniform(choices: Sequence[Chromosome]) -> Iterator[Chromosome]:
    """Genes with one gene for all layers that have it; other layers have their last gene."""
    if all(choices):
        wanted = dict.fromkeys(gene for choice in choices for gene in choice)
        yield from dict.fromkeys(
            tuple(gene if gene in choice else choice[-1] for choice in choices) for gene in wanted
        )
