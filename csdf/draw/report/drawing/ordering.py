"""The order of what stands on one layer, so that few edges cross, and the row of each."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

Edge = tuple[int, int]


class Neighbours:
    """The neighbours of each vertex on the layer before and on the layer behind."""

    def __init__(self, vertices: int, pieces: Sequence[Edge]) -> None:
        self.before: list[list[int]] = [[] for _ in range(vertices)]
        self.behind: list[list[int]] = [[] for _ in range(vertices)]
        for source, target in pieces:
            self.behind[source].append(target)
            self.before[target].append(source)


def ordered_layers(
    layers: Sequence[Sequence[int]], neighbours: Neighbours, sweeps: int
) -> list[list[int]]:
    """Return the layers, each in the best order that sweeping to and fro has found.

    A vertex moves to the mean place of its neighbours on the layer that was ordered before.
    """
    now = [list(layer) for layer in layers]
    best, fewest = [list(layer) for layer in now], _crossings(now, neighbours)
    for sweep in range(sweeps):
        if not fewest:
            break
        for number in range(1, len(now)):
            _sort(now[number], now[number - 1], neighbours.before)
        for number in range(len(now) - 2, -1, -1):
            _sort(now[number], now[number + 1], neighbours.behind)
        crossings = _crossings(now, neighbours)
        if crossings < fewest or not sweep:
            best, fewest = [list(layer) for layer in now], min(crossings, fewest)
    return best


def _sort(layer: list[int], fixed: Sequence[int], neighbours: Sequence[Sequence[int]]) -> None:
    place = {vertex: number for number, vertex in enumerate(fixed)}
    own = {vertex: number for number, vertex in enumerate(layer)}

    def mean(vertex: int) -> float:
        places = [place[other] for other in neighbours[vertex]]
        return sum(places) / len(places) if places else own[vertex]

    layer.sort(key=mean)


def _crossings(layers: Sequence[Sequence[int]], neighbours: Neighbours) -> int:
    """Count pairs of edges between two layers that cross: inversions, by insertion."""
    total = 0
    for layer, following in pairwise(layers):
        place = {vertex: number for number, vertex in enumerate(following)}
        seen: list[int] = []
        for vertex in layer:
            targets = sorted(place[other] for other in neighbours.behind[vertex])
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total


def rows_of(
    layers: Sequence[Sequence[int]],
    neighbours: Neighbours,
    heights: Sequence[float],
    sweeps: int,
) -> list[float]:
    """Return the row of each vertex: near its neighbours, in order, and never two in one place.

    heights: of each vertex, in rows; what stands above one another keeps half of both away.
    """
    row = [0.0] * len(heights)
    for layer in layers:
        top = 0.0
        for vertex in layer:
            row[vertex] = top + heights[vertex] / 2
            top += heights[vertex]
    for sweep in range(2 * sweeps):
        to_right = sweep % 2 == 0
        sides = (neighbours.before, neighbours.behind)
        for layer in layers if to_right else reversed(layers):
            near = sides[0] if to_right else sides[1]
            wished = [_mean_row(vertex, near, row) for vertex in layer]
            for vertex, place in zip(layer, _spread(layer, wished, heights), strict=True):
                row[vertex] = place
    return row


def _mean_row(vertex: int, near: Sequence[Sequence[int]], row: Sequence[float]) -> float:
    places = [row[other] for other in near[vertex]]
    return sum(places) / len(places) if places else row[vertex]


def _spread(layer: Sequence[int], wished: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return places in order, far enough apart, with the least sum of squares from those wished.

    Neighbours that are too near become a block at their mean (pool adjacent violators).
    """
    below: list[float] = []  # distance of each vertex from the first one, if all were packed
    for number, vertex in enumerate(layer):
        gap = (heights[layer[number - 1]] + heights[vertex]) / 2 if number else 0.0
        below.append((below[-1] if below else 0.0) + gap)
    blocks: list[tuple[float, int]] = []  # mean of what is wished for the first one, and how many
    for place, distance in zip(wished, below, strict=True):
        mean, count = place - distance, 1
        while blocks and blocks[-1][0] >= mean:
            other, others = blocks.pop()
            mean = (mean * count + other * others) / (count + others)
            count += others
        blocks.append((mean, count))
    firsts = [mean for mean, count in blocks for _ in range(count)]
    return [first + distance for first, distance in zip(firsts, below, strict=True)]
