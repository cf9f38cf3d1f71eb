"""Layered layout of a directed graph: positions of its nodes and bends of its edges.

The method of Sugiyama, Tagawa and Toda has four steps. Cycles are opened at edges with initial tokens,
so that every edge leads to a later node (`linear_order`). Each node has a layer, a column of the
drawing (`layers_of`); an edge that passes layers has a bend on each. The order within a layer reduces
crossings by barycentres (`ordered_layers`), and each vertex is placed near its neighbours (`rows_of`).

A long drawing is then folded like a text (`_folded`): its columns form lines, one below the other. An
edge into another line leads around the ends of both lines, in a lane between them.

Nodes and bends are called vertices, with one numbering: nodes first. Positions are (column, row) from
the upper left; a node is one row high.

Source: Sugiyama, Tagawa, Toda, Methods for visual understanding of hierarchical system structures, IEEE
Trans. SMC 11(2), 1981.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from math import log

SWEEPS = 8  # over all layers, in each direction
MOST_BENDS = 6000  # of all edges; above it, edges have no bends and are drawn straight
SHORTEST_LINE = 6  # columns: at most so many layers are never folded
BEND_HEIGHT = 0.35  # rows between edges that pass a layer
SHAPE = 0.9  # columns for each row of a folded drawing
# Rows between two lines: LINE_GAP, and LANE for each of at most MOST_LANES edges between them.
LINE_GAP = 1.2
LANE = 0.12
MOST_LANES = 10
LINE_BELOW = 0.5  # rows from the last actors of a line to its first lane
SIDE = 0.36  # columns from the outermost actors to the nearest edge around them
SIDE_WIDTH = 0.07  # columns from the nearest to the farthest of these edges

Edge = tuple[int, int]  # source and target: nodes, or vertices on neighbouring layers
Position = tuple[float, float]  # column, row


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """Positions of nodes and edges, and the size of the drawing in columns and rows.

    bends: for each edge the positions from its source to its target, both included; the node twice for
    a self-loop. An edge into another line has bends beyond the outermost columns.
    """

    nodes: tuple[Position, ...]
    bends: tuple[tuple[Position, ...], ...]
    columns: int
    rows: float


def layout(nodes: int, edges: Sequence[Edge], feedback: Sequence[bool]) -> GraphLayout:
    """Return a layout of this many nodes; the same input gives the same layout.

    feedback: whether each edge holds initial tokens; a cycle is opened there first.
    """
    order = linear_order(nodes, edges, feedback)
    forward = [edge if order[edge[0]] <= order[edge[1]] else edge[::-1] for edge in edges]
    layer = layers_of(nodes, [edge for edge in forward if edge[0] != edge[1]], order)
    chains = _add_bends(forward, layer)
    layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for vertex, number in enumerate(layer):
        layers[number].append(vertex)
    pieces = [
        (left, right)
        for chain in chains
        for left, right in pairwise(chain)
        if layer[right] == layer[left] + 1
    ]
    neighbours = Neighbours(len(layer), pieces)
    ordered = ordered_layers(layers, neighbours, SWEEPS)
    heights = [1.0] * nodes + [BEND_HEIGHT] * (len(layer) - nodes)
    rows = rows_of(ordered, neighbours, heights, SWEEPS)
    folded = _folded(ordered, layer, rows, pieces)
    bends = [tuple(_with_returns(folded, chain)) for chain in chains]
    return GraphLayout(
        nodes=tuple(folded.positions[:nodes]),
        bends=tuple(
            bend if ends == edge else bend[::-1]
            for bend, ends, edge in zip(bends, forward, edges, strict=True)
        ),
        columns=folded.columns,
        rows=folded.rows,
    )


def linear_order(nodes: int, edges: Sequence[Edge], feedback: Sequence[bool]) -> list[int]:
    """Return the position of each node in an order in which few edges lead back.

    A node follows the sources of its edges. If all remaining nodes are on or after cycles, the next
    node is the node with the fewest missing sources without initial tokens: in a live graph usually
    none. Ties by number. O(edges log nodes).
    """
    followers: list[list[tuple[int, bool]]] = [[] for _ in range(nodes)]
    missing = [[0, 0] for _ in range(nodes)]  # sources of edges without and with tokens
    for (source, target), has_tokens in zip(edges, feedback, strict=True):
        if source != target:
            followers[source].append((target, has_tokens))
            missing[target][has_tokens] += 1
    waiting = [(*missing[node], node) for node in range(nodes)]
    heapify(waiting)
    position = [-1] * nodes
    count = 0
    while waiting:
        *missing_then, node = heappop(waiting)
        if position[node] >= 0 or missing_then != missing[node]:
            continue  # outdated: a later entry has the present numbers
        position[node] = count
        count += 1
        for target, has_tokens in followers[node]:
            if position[target] < 0:
                missing[target][has_tokens] -= 1
                heappush(waiting, (*missing[target], target))
    return position


def layers_of(nodes: int, edges: Sequence[Edge], order: Sequence[int]) -> list[int]:
    """Return the layer of each node; each edge leads to a later layer.

    edges: each to a later node of the order. Layers are as early as possible; only a node without
    incoming edges is moved to the layer just before its first target.
    """
    followers: list[list[int]] = [[] for _ in range(nodes)]
    has_source = [False] * nodes
    for source, target in edges:
        followers[source].append(target)
        has_source[target] = True
    layer = [0] * nodes
    for node in sorted(range(nodes), key=order.__getitem__):
        for target in followers[node]:
            layer[target] = max(layer[target], layer[node] + 1)
    for node in range(nodes):
        if not has_source[node] and followers[node]:
            layer[node] = min(layer[target] for target in followers[node]) - 1
    return layer


def _add_bends(edges: Sequence[Edge], layer: list[int]) -> list[list[int]]:
    """Return for each edge its vertices, with a new bend on every layer that it passes.

    The layers of the new bends are appended to `layer`.
    """
    passed = sum(max(0, layer[target] - layer[source] - 1) for source, target in edges)
    chains = []
    for source, target in edges:
        if passed > MOST_BENDS or source == target:
            chains.append([source, target])
            continue
        first = len(layer)
        layer.extend(range(layer[source] + 1, layer[target]))
        chains.append([source, *range(first, len(layer)), target])
    return chains


class Neighbours:
    """The neighbours of each vertex on the layer before and on the layer after it."""

    def __init__(self, vertices: int, pieces: Sequence[Edge]) -> None:
        self.before: list[list[int]] = [[] for _ in range(vertices)]
        self.after: list[list[int]] = [[] for _ in range(vertices)]
        for source, target in pieces:
            self.after[source].append(target)
            self.before[target].append(source)


def ordered_layers(
    layers: Sequence[Sequence[int]], neighbours: Neighbours, sweeps: int
) -> list[list[int]]:
    """Return the vertices of each layer in the order with the fewest crossings of all sweeps.

    A sweep leads from the first layer to the last and back. Each vertex moves to the barycentre, the
    mean position of its neighbours on the layer that was ordered before.
    """
    present = [list(layer) for layer in layers]
    best, fewest = [list(layer) for layer in present], _crossings(present, neighbours)
    for sweep in range(sweeps):
        if not fewest:
            break
        for number in range(1, len(present)):
            _sort(present[number], present[number - 1], neighbours.before)
        for number in range(len(present) - 2, -1, -1):
            _sort(present[number], present[number + 1], neighbours.after)
        crossings = _crossings(present, neighbours)
        # Of equally many crossings, barycentres give shorter edges than the order of the graph.
        if crossings < fewest or (crossings == fewest and not sweep):
            best, fewest = [list(layer) for layer in present], crossings
    return best


def _sort(layer: list[int], fixed: Sequence[int], neighbours: Sequence[Sequence[int]]) -> None:
    """Sort a layer by the barycentres of its vertices' neighbours on the fixed layer."""
    position = {vertex: number for number, vertex in enumerate(fixed)}
    present = {vertex: number for number, vertex in enumerate(layer)}
    layer.sort(
        key=lambda vertex: _mean(
            [position[neighbour] for neighbour in neighbours[vertex]], default=present[vertex]
        )
    )


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _crossings(layers: Sequence[Sequence[int]], neighbours: Neighbours) -> int:
    """Return the number of pairs of edges between two layers that cross.

    Edges sorted by their sources cross where their targets are inverted; inversions are counted by
    insertion of the targets into a sorted list.
    """
    total = 0
    for layer, following in pairwise(layers):
        position = {vertex: number for number, vertex in enumerate(following)}
        seen: list[int] = []
        for vertex in layer:
            targets = sorted(position[neighbour] for neighbour in neighbours.after[vertex])
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
    """Return the row of each vertex: near its neighbours, in the order of its layer.

    heights: rows that each vertex occupies, half above and half below its row; vertices of a layer do
    not overlap.
    """
    row = [0.0] * len(heights)
    for layer in layers:
        top = 0.0
        for vertex in layer:
            row[vertex] = top + heights[vertex] / 2
            top += heights[vertex]
    forward, backward = (layers, neighbours.before), (layers[::-1], neighbours.after)
    for swept, near in (forward, backward) * sweeps:
        for layer in swept:
            wished = [
                _mean([row[neighbour] for neighbour in near[vertex]], default=row[vertex])
                for vertex in layer
            ]
            for vertex, placed in zip(layer, _spread(layer, wished, heights), strict=True):
                row[vertex] = placed
    return row


def _spread(layer: Sequence[int], wished: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return rows without overlaps, with the least sum of squared distances from the wished rows.

    Pool adjacent violators: vertices that would overlap form a block, packed, at their mean. The row of
    a vertex is the row of the first vertex, if all were one block, plus its distance from it.
    """
    distances: list[float] = []  # of each vertex from the first one, if all are packed
    for number, vertex in enumerate(layer):
        gap = (heights[layer[number - 1]] + heights[vertex]) / 2 if number else 0.0
        distances.append((distances[-1] if distances else 0.0) + gap)
    blocks: list[tuple[float, int]] = []  # wished row of the first vertex, in the mean; vertices
    for row, distance in zip(wished, distances, strict=True):
        mean, count = row - distance, 1
        while blocks and blocks[-1][0] >= mean:
            mean_above, count_above = blocks.pop()
            mean = (mean * count + mean_above * count_above) / (count + count_above)
            count += count_above
        blocks.append((mean, count))
    firsts = [mean for mean, count in blocks for _ in range(count)]
    return [first + distance for first, distance in zip(firsts, distances, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoldedLayout:
    """Positions of all vertices in a drawing of this size.

    lanes: for each piece of an edge into another line, the row of its lane, and its rank among these
    lanes as a number between 0 (the uppermost) and 1.
    """

    positions: list[Position]
    columns: int
    rows: float
    lanes: dict[Edge, tuple[float, float]]


def _folded(
    layers: Sequence[Sequence[int]],
    layer: Sequence[int],
    rows: Sequence[float],
    pieces: Sequence[Edge],
) -> _FoldedLayout:
    """Fold the layers into lines of the length that brings the drawing nearest to SHAPE.

    layers: the vertices of each layer; layer, rows: of each vertex, before folding.
    """
    spans = [
        (min(rows[vertex] for vertex in vertices), max(rows[vertex] for vertex in vertices))
        for vertices in layers
    ]
    lengths = range(min(SHORTEST_LINE, len(spans)), len(spans) + 1)
    per_line = min(lengths, key=lambda length: abs(log(length / _height(spans, length) / SHAPE)))
    lines = [spans[begin : begin + per_line] for begin in range(0, len(spans), per_line)]
    tops = [min(low for low, _ in line) for line in lines]
    heights = [max(high for _, high in line) - top for line, top in zip(lines, tops, strict=True)]
    crossing: list[list[Edge]] = [[] for _ in lines]  # pieces from each line to the next
    for piece in pieces:
        line, next_line = (layer[vertex] // per_line for vertex in piece)
        if line != next_line:
            crossing[line].append(piece)
    gaps = [LINE_GAP + LANE * min(len(leaving), MOST_LANES) for leaving in crossing]
    begins = [0.0, *accumulate(map(float.__add__, heights, gaps))]
    positions = []
    for vertex, number in enumerate(layer):
        line, column = divmod(number, per_line)
        positions.append((float(column), begins[line] + rows[vertex] - tops[line]))
    lanes = {}
    for line, leaving in enumerate(crossing):
        # The lower an edge leaves its line, the higher its lane, so that few edges cross.
        ordered = sorted(set(leaving), key=lambda piece: (-rows[piece[0]], piece))
        for rank, piece in enumerate(ordered):
            share = (rank + 0.5) / len(ordered)
            row = begins[line] + heights[line] + LINE_BELOW + share * (gaps[line] - LINE_GAP)
            lanes[piece] = (row, share)
    height = begins[-1] - gaps[-1] + 1 if gaps else 1.0
    return _FoldedLayout(positions=positions, columns=per_line, rows=height, lanes=lanes)


def _height(spans: Sequence[tuple[float, float]], per_line: int) -> float:
    """Return the rows of all lines together, without lanes. spans: first and last row of each layer."""
    height = 0.0
    for begin in range(0, len(spans), per_line):
        line = spans[begin : begin + per_line]
        height += max(high for _, high in line) - min(low for low, _ in line) + 1 + LINE_GAP
    return height


def _with_returns(folded: _FoldedLayout, chain: Sequence[int]) -> Iterator[Position]:
    """Yield the positions of an edge's vertices, and of its corners around the ends of lines."""
    yield folded.positions[chain[0]]
    for piece in pairwise(chain):
        begin, end = (folded.positions[vertex] for vertex in piece)
        if piece in folded.lanes:
            row, share = folded.lanes[piece]
            right, left = begin[0] + SIDE + share * SIDE_WIDTH, end[0] - SIDE - share * SIDE_WIDTH
            yield from ((right, begin[1]), (right, row), (left, row), (left, end[1]))
        yield end
