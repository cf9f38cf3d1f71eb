"""Places for the actors of a graph in a drawing: layers, order within them, and folded lines.

Layers run from left to right; where there are many they are folded like the lines of a text.
Source: Sugiyama, Tagawa, Toda, Methods for visual understanding of hierarchical system structures,
IEEE Trans. SMC 11(2), 1981, with barycentres for the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import log

from csdf.draw.report.drawing.layers import Edge, layers_of, linear_order
from csdf.draw.report.drawing.ordering import Neighbours, ordered_layers, rows_of

SWEEPS = 8  # over all layers, in each direction
MOST_BENDS = 6000  # places where edges pass a layer; beyond them edges are drawn straight
LONGEST_LINE = 9  # layers that are never folded
BEND_HEIGHT = 0.35  # rows between edges that pass a layer
LINE_GAP = 1.2  # rows between two lines, and
LANE = 0.12  # more for each edge that leads from one to the next,
MOST_LANES = 10  # up to so many
LINE_BELOW = 0.5  # rows from the last actors of a line to its first lane
SIDE = 0.36  # columns from the outermost actors to the first edge beside them,
SIDE_WIDTH = 0.07  # and to the last

Place = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Places of nodes and edges, counted in columns and rows from the upper left.

    bends: for each edge the places from its producer to its consumer, both included; two equal ones
    for a self-loop. An edge into another line has places beyond the outermost columns, from where it
    goes straight across and down.
    """

    places: tuple[Place, ...]
    bends: tuple[tuple[Place, ...], ...]
    columns: int
    rows: float


def layout(
    nodes: int, edges: Sequence[Edge], feedback: Sequence[bool], *, shape: float = 0.9
) -> Layout:
    """Return a layout; with many layers of about the given shape, columns to rows.

    feedback: which edges hold initial tokens; a cycle is opened there first. Same input, same layout.
    """
    order = linear_order(nodes, edges, feedback)
    forward = [edge if order[edge[0]] <= order[edge[1]] else edge[::-1] for edge in edges]
    layer = layers_of(nodes, [edge for edge in forward if edge[0] != edge[1]], order)
    chains = _chains(forward, layer)
    layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for vertex, number in enumerate(layer):
        layers[number].append(vertex)
    pieces = [piece for chain in chains for piece in pairwise(chain)]
    near = [(one, other) for one, other in pieces if layer[other] == layer[one] + 1]
    neighbours = Neighbours(len(layer), near)
    ordered = ordered_layers(layers, neighbours, SWEEPS)
    heights = [1.0] * nodes + [BEND_HEIGHT] * (len(layer) - nodes)
    rows = rows_of(ordered, neighbours, heights, SWEEPS)
    folded = _folded(ordered, layer, rows, near, shape)
    bends = [tuple(_with_returns(folded, chain)) for chain in chains]
    return Layout(
        places=tuple(folded.places[:nodes]),
        bends=tuple(
            bend if one == edge else bend[::-1]
            for bend, one, edge in zip(bends, forward, edges, strict=True)
        ),
        columns=folded.columns,
        rows=folded.rows,
    )


def _chains(edges: Sequence[Edge], layer: list[int]) -> list[list[int]]:
    """Give each edge a bend on every layer that it passes; adds the layers of these bends."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """Places of all vertices; for each piece from one line to the next how far it is along its lane."""

    places: list[Place]
    columns: int
    rows: float
    lanes: dict[Edge, tuple[float, float]]  # row, and the share of the room for lanes


def _with_returns(lines: _Lines, chain: Sequence[int]) -> Iterator[Place]:
    """The places of a chain; from one line to the next around the ends of both."""
    yield lines.places[chain[0]]
    for piece in pairwise(chain):
        begin, end = (lines.places[vertex] for vertex in piece)
        if piece in lines.lanes:
            row, share = lines.lanes[piece]
            right, left = begin[0] + SIDE + share * SIDE_WIDTH, end[0] - SIDE - share * SIDE_WIDTH
            yield from ((right, begin[1]), (right, row), (left, row), (left, end[1]))
        yield end


def _folded(
    layers: Sequence[Sequence[int]],
    layer: Sequence[int],
    rows: Sequence[float],
    pieces: Sequence[Edge],
    shape: float,
) -> _Lines:
    """Put so many layers on a line that the drawing has about the shape."""
    spans = [
        (min(rows[vertex] for vertex in one), max(rows[vertex] for vertex in one))
        for one in layers
    ]  # fmt: skip
    lengths = range(min(LONGEST_LINE, len(spans)), len(spans) + 1)
    per_line = min(lengths, key=lambda length: abs(log(length / _height(spans, length) / shape)))
    lines = [spans[begin : begin + per_line] for begin in range(0, len(spans), per_line)]
    tops = [min(low for low, _ in line) for line in lines]
    crossing: list[list[Edge]] = [[] for _ in lines]
    for piece in pieces:
        if layer[piece[0]] // per_line != layer[piece[1]] // per_line:
            crossing[layer[piece[0]] // per_line].append(piece)
    gaps = [LINE_GAP + LANE * min(len(found), MOST_LANES) for found in crossing]
    bottoms = [max(high for _, high in line) - top for line, top in zip(lines, tops, strict=True)]
    depths = [bottom + gap for bottom, gap in zip(bottoms, gaps, strict=True)]
    begins = [0.0, *accumulate(depths)]
    places = []
    for vertex, number in enumerate(layer):
        line, column = divmod(number, per_line)
        places.append((float(column), begins[line] + rows[vertex] - tops[line]))
    lanes = {}
    for line, found in enumerate(crossing):
        for share, piece in _lanes(found, rows):
            row = begins[line] + bottoms[line] + LINE_BELOW + share * (gaps[line] - LINE_GAP)
            lanes[piece] = (row, share)
    height = begins[-1] - gaps[-1] + 1 if gaps else 1.0
    return _Lines(places=places, columns=per_line, rows=height, lanes=lanes)


def _lanes(crossing: Sequence[Edge], rows: Sequence[float]) -> Iterator[tuple[float, Edge]]:
    """Lanes one below the other: the lower an edge leaves, the higher its lane, so that few cross."""
    order = sorted(set(crossing), key=lambda piece: (-rows[piece[0]], piece))
    for place, piece in enumerate(order):
        yield (place + 0.5) / len(order), piece


def _height(spans: Sequence[tuple[float, float]], per_line: int) -> float:
    """Rows of all lines together."""
    height = 0.0
    for begin in range(0, len(spans), per_line):
        line = spans[begin : begin + per_line]
        height += max(high for _, high in line) - min(low for low, _ in line) + 1 + LINE_GAP
    return height
