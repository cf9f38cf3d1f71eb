"""Exact front of live bytes against the time of each network: shortest paths over separators.

The peak of live bytes is a lower bound on any plan with a chromosome's lifetimes, and usually equals
the arena with offsets (`planners.arena`). Live bytes decompose, unlike the sum of whole buffers:

    of a partition     the largest load of its segments; times add up
    in parallel        loads add up; within a network the slowest partition decides
    in sequence  the largest load decides; times of one network add up

So all partitions may be as fast as they can be below one limit, and a limit has one best chromosome.
For a limit the fastest parts of a partition are a shortest path over its separators, along segments
that need no more. Exact for the genes tried, where the segments are complete and no two networks run in
parallel: then one may be faster only if the other is slower, and only the chromosomes that are best for
their sum are found.

A separator is a layer that each other layer precedes or follows in every order. Where separators are
executed whole a schedule falls into segments, from one such separator to the next, both included. What
is live in a segment does not depend on the parts of layers outside of it:

    All layers before a whole separator s have finished when s fires, and none after it has begun. So
    an edge from before s to after it holds its whole tensor, whatever the other genes; an edge up to
    s, or from s on, is whole too; and all other edges of a block are on one side of s. Neither side
    waits for the other, so the smallest buffers of the block are the smallest of each side. Steps
    within a segment follow from its own waits alone.

It takes for granted that the smallest buffers of a block are the only ones of their size, and that
they were found (`block_storage` gives up after some effort). Time is a sum over layers in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from csdf.search.pareto import front_of_chains, improving
from csdf.time_limit import Budget, Stop, stop_of
from planners.reuse.application import Genes
from planners.reuse.bounds import memory_bound
from planners.reuse.edge_buffers import largest_load
from planners.reuse.evaluation import Evaluator
from planners.reuse.partition import PartitionModel

Gene = int | None
MOST_CHOICES = 32  # genes to try in one segment


class LoadPoint(NamedTuple):
    """The fastest genes of some partitions, in their order, that need no more than a load.

    load: elements. nanoseconds: of one frame; where partitions are pipelined, of the slowest.
    """

    load: int
    nanoseconds: int
    genes: tuple[Genes, ...]


class LoadFront(NamedTuple):
    """Chromosomes from the largest load to the smallest, each faster than those after it.

    is_exact: whether no chromosome of the genes tried has a smaller load in the same time.
    """

    chromosomes: tuple[Genes, ...]
    loads: tuple[int, ...]  # elements
    is_exact: bool


def load_front(
    evaluator: Evaluator, genes: Sequence[Gene] = (1,), *, budget: Budget = None
) -> LoadFront:
    """Return the front of load against time for the genes given, and the whole.

    Raises GaveUp where `budget` ends it. O(separators^2) segments for each partition.
    """
    stop = stop_of(budget)
    application = evaluator.application
    floor = (memory_bound(evaluator, (None, *genes)) - evaluator.weights) // (
        evaluator.costs.element_bytes
    )
    searched = [
        segments(model, genes, floor=floor if group is None else 0, stop=stop)
        for model, group in zip(evaluator.models, evaluator.groups, strict=True)
    ]
    fronts = [
        [
            # None for each separator between two segments.
            LoadPoint(load, time, (tuple([gene for part in path for gene in (*part, None)][:-1]),))
            for load, (time,), path in front_of_chains(ending)
        ]
        for ending, _ in searched
    ]
    joined = []
    for first, *rest in evaluator.units:
        front = fronts[first]
        for second in rest:  # loads add up, the slowest decides
            both = (
                LoadPoint(
                    point.load + also.load,
                    max(point.nanoseconds, also.nanoseconds),
                    point.genes + also.genes,
                )
                for point, also in product(front, fronts[second])
            )
            # Pareto filter after each partition: dominated combinations cannot become optimal
            # later.
            front = improving(both, lambda point: point[:2])
        joined.append(front[::-1])  # from the largest load on
    chosen: dict[tuple[LoadPoint, ...], None] = {}
    # The largest load decides in sequence, so below each limit every unit takes its fastest point.
    for limit in sorted({point.load for front in joined for point in front}, reverse=True):
        within = [next((point for point in front if point.load <= limit), None) for front in joined]
        points = tuple(point for point in within if point is not None)
        if len(points) == len(joined):
            chosen[points] = None
    chromosomes = []
    for points in chosen:
        chromosome: list[Gene] = [None] * len(application.layers)
        for unit, point in zip(evaluator.units, points, strict=True):
            for number, point_genes in zip(unit, point.genes, strict=True):
                for place, gene in zip(evaluator.gene_places[number], point_genes, strict=True):
                    chromosome[place] = gene
        chromosomes.append(tuple(chromosome))
    pairs = zip(evaluator.groups, application.partitions, strict=True)
    networks = Counter(group for group, _ in {(group, pair[0]) for group, pair in pairs})
    del networks[None]  # these take turns
    return LoadFront(
        chromosomes=tuple(chromosomes),
        loads=tuple(max(segment.load for segment in point) for point in chosen),
        is_exact=all(is_complete for _, is_complete in searched)
        and max(networks.values(), default=1) == 1,
    )


# A segment, as a link of a chain: the number of the separator where it begins, its live elements at
# most, the nanoseconds of all layers between its separators and of the one at its end, and the genes
# of the layers between.
Segment = tuple[int, int, tuple[int], tuple[Gene, ...]]


def segments(
    model: PartitionModel, genes: Sequence[Gene], *, floor: int, stop: Stop
) -> tuple[list[list[Segment]], bool]:
    """Return the segments of a partition for the genes given, by the number of their last separator.

    The whole is always one of the genes. Separator 0 is before the first layer, the last one after the
    last layer.

    floor: elements that are live somewhere in any case. Some separators within a segment may be able to
    work as whole layers without more elements than the floor. Such a segment is left out where it
    cannot be faster, even with each of its layers as fast as it can be. Where a segment has more than
    MOST_CHOICES genes to try, only choices with one gene for all its layers are tried.
    """
    layers = len(model.heights)
    separators = [separator for separator in model.separators if separator]
    places = [-1, *separators, layers]
    inner: list[tuple[Gene, ...]] = []  # the whole, then one gene for each number of rows
    quickest = []
    for layer, height in enumerate(model.heights):
        rows = {model.table.part_rows(layer, gene): gene for gene in genes}
        rows.pop(height, None)
        # The first layer, with nothing before it, ends no segment: it may be whole. Others are not.
        inner.append((*rows.values(),) if layer in separators else (None, *rows.values()))
        times = (model.nanoseconds(layer, _rows(model, layer, gene)) for gene in inner[-1])
        quickest.append(min(times, default=0))
    fastest: dict[tuple[int, int], int] = {}  # of those that need no more than the floor
    ending: list[list[Segment]] = [[] for _ in places]
    is_complete = True
    for width in range(1, len(places)):
        for low in range(len(places) - width):
            begin, end = places[low], places[low + width]
            stop.look()
            between = places[low + 1 : low + width]
            halves = [((begin, middle), (middle, end)) for middle in between]
            apart = [
                fastest[left] + fastest[right]
                for left, right in halves
                if left in fastest and right in fastest
            ]
            if apart:
                fastest[begin, end] = min(apart)
                last = 0 if end == layers else model.nanoseconds(end, _rows(model, end, None))
                # Dominated: a whole separator in between is as fast as this segment could be at
                # best, and needs no more.
                if min(apart) <= sum(quickest[begin + 1 : end]) + last:
                    continue
            choices = inner[begin + 1 : end]
            # The number of choices grows exponentially with the layers of a segment.
            is_all = prod(map(len, choices)) <= MOST_CHOICES
            is_complete &= is_all
            tried = product(*choices) if is_all else _uniform(choices)
            costs = ((*_load_and_time(model, begin, end, choice), choice) for choice in tried)
            best = improving(costs, lambda cost: cost[:2])
            ending[low + width] += [(low, load, (time,), choice) for load, time, choice in best]
            low_times = [time for load, time, _ in best if load <= floor] + apart
            if low_times:
                fastest[begin, end] = min(low_times)
    return ending, is_complete


def _rows(model: PartitionModel, layer: int, gene: Gene) -> int:
    """The rows of a part of a layer."""
    return model.heights[layer] if gene is None else model.table.part_rows(layer, gene)


def _load_and_time(
    model: PartitionModel, begin: int, end: int, genes: tuple[Gene, ...]
) -> tuple[int, int]:
    """Live elements and nanoseconds of a segment with everything outside of it whole.

    begin, end: positions of its separators; -1 before the first layer, the number of layers behind
    the last.
    """
    layers, edges = len(model.heights), model.table.edges
    # Layers outside are whole: what is live inside does not depend on them.
    rows = model.part_rows((*(None,) * (begin + 1), *genes, *(None,) * (layers - end)))
    done = range(begin + 1, min(end + 1, layers))
    capacities = model.capacities(model.storages(rows))
    steps = model.steps(rows, capacities)
    low = steps.first[begin] if begin >= 0 else 0
    high = steps.first[end] if end < layers else steps.total - 1
    live = []
    for edge, stay in model.residents.values():
        start, stop = steps.span(stay)
        if start <= high and stop >= low:
            inner = edge.inner
            size = edge.elements if inner is None else capacities[inner] * edges[inner].row_elements
            live.append((max(start, low), min(stop, high), size))
    load = largest_load(*zip(*live, strict=True)) if live else 0
    return load, sum(model.nanoseconds(layer, rows[layer]) for layer in done)


def _uniform(choices: Sequence[tuple[Gene, ...]]) -> Iterator[tuple[Gene, ...]]:
    """A gene for all layers that can take it; other layers get their nearest gene."""
    if all(choices):
        wanted = dict.fromkeys(gene for choice in choices for gene in choice)
        yield from dict.fromkeys(
            tuple(gene if gene in choice else choice[-1] for choice in choices) for gene in wanted
        )
