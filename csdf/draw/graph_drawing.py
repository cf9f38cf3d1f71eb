"""A graph as SVG, with its critical cycle marked.

Places for the actors of a graph in a drawing: layers, order within them, and folded lines. Layers
run from left to right; where there are many they are folded like the lines of a text. Source:
Sugiyama, Tagawa, Toda, Methods for visual understanding of hierarchical system structures, IEEE
Trans. SMC 11(2), 1981, with barycentres for the order. Layers of a drawing: cycles opened where
tokens wait, and every edge leading on. The order of what stands on one layer, so that few edges
cross, and the row of each. The part of a large graph that is drawn: its critical cycle and what
surrounds it. A graph as a picture of its own: actors from left to right, its critical cycle in red.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate, groupby, pairwise, takewhile
from math import log
from pathlib import Path

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import Throughput
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Html, element, joined
from csdf.errors import counted
from csdf.model.graph import Actor, Channel, Graph
from csdf.units import duration

COLUMN, ROW = 212.0, 70.0  # pixels from place to place
WIDTH, HEIGHT = 136.0, 42.0  # of an actor
MARGIN = 26.0
LETTERS = 16  # of a name that fits
LABELLED = 36  # most channels with their rates beside them
CORNER = 8.0  # pixels that a round corner takes
PARALLEL = 9.0  # pixels between channels of the same two actors
MOST_RATES = 6  # groups of equal rates in a label
MOST_LETTERS = 9  # of the rates at both ends; there is no room for more
LETTER, ASCENT, DESCENT = 6.6, 9.0, 2.0  # pixels of a label's letter: width, and about its baseline


def graph_drawing(findings: GraphFindings, shown: Excerpt) -> Html:
    """Return the drawing of the actors and channels shown."""
    number = {name: index for index, name in enumerate(shown.actors)}
    edges = [(number[channel.producer], number[channel.consumer]) for channel in shown.channels]
    positions = layout(
        len(number), edges, [channel.initial_tokens > 0 for channel in shown.channels]
    )
    critical = _critical_channels(findings)
    width = (positions.columns - 1) * COLUMN + WIDTH + 2 * MARGIN + 24
    height = (positions.rows - 1) * ROW + HEIGHT + 2 * MARGIN + 24
    return element(
        "svg",
        _arrowheads(),
        element("g", *_channels(shown.channels, positions, critical), class_="edges"),
        element("g", *_actors(findings, shown, positions), class_="nodes"),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        data_view=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        tabindex=0,
        class_="drawing",
        style=f"--drawn:{1.15 * height:.0f}px",
        aria_label=f"drawing of {findings.graph.name}; arrow keys move it, plus and minus zoom",
    )


def _arrowheads() -> Html:
    """An arrow head for channels, and another for channels of the critical cycle."""
    return element(
        "defs",
        *(
            element(
                "marker",
                element("path", d="M0 0L8 4L0 8z", class_=name),
                id=name, viewBox="0 0 8 8", refX=7, refY=4, markerWidth=8, markerHeight=8,
                markerUnits="userSpaceOnUse", orient="auto",
            )
            for name in ("arrow", "arrow-critical")
        ),
    )  # fmt: skip


def _critical_channels(findings: GraphFindings) -> dict[str, bool]:
    """The channels of the critical cycle; whether it is their free space that is on it."""
    names = set(findings.critical_channels)
    edges: dict[str, bool] = {}
    before = ""
    channel_names = {channel.name for channel in findings.graph.channels}
    for channel in bound_channels(findings.graph).channels:
        if channel.name in channel_names:
            before = channel.name
        if channel.name in names:
            edges[before] = edges.get(before, False) or channel.name not in channel_names
    return edges


def _at(position: Place) -> Place:
    return MARGIN + WIDTH / 2 + position[0] * COLUMN + 12, MARGIN + HEIGHT / 2 + position[
        1
    ] * ROW + 20


def _actors(findings: GraphFindings, shown: Excerpt, positions: NodePositions) -> Iterator[Html]:
    critical, time = set(findings.critical_actors), findings.time
    titles = cut_apart(shown.actors)
    for name, position in zip(shown.actors, positions.places, strict=True):
        x, y = _at(position)
        actor = findings.graph.actor(name)
        firings = findings.repetitions[name]
        yield element(
            "g",
            element("title", f"{name}: {actor_in_words(findings.graph, actor, firings, time)}"),
            element("rect", x=-WIDTH / 2, y=-HEIGHT / 2, width=WIDTH, height=HEIGHT, rx=7),
            element("text", titles[name], y=-3, class_="name"),
            element(
                "text",
                shortened(_work(findings, actor, firings), LETTERS + 4),
                y=13,
                class_="detail",
            ),
            transform=f"translate({x:.1f} {y:.1f})",
            class_="node critical" if name in critical else "node",
            data_name=name,
        )


def _work(findings: GraphFindings, actor: Actor, firings: int) -> str:
    """How often and how long it fires."""
    low, high = min(actor.durations), max(actor.durations)
    if findings.time == "ns":
        unit = findings.graph.time_unit
        return f"{firings} \u00d7 {duration(high * unit, 'ns', 3)}"
    times = f"{low}" if low == high else f"{low} to {high}"
    return f"{firings} \u00d7 {times}"


def actor_in_words(graph: Graph, actor: Actor, firings: int, time: str = "time units") -> str:
    """Return how often an actor fires, and how long."""
    low, high = min(actor.durations) * graph.time_unit, max(actor.durations) * graph.time_unit
    ends = dict.fromkeys(duration(height, time) for height in (low, high))
    return (
        f"{counted(firings, 'firing')} per iteration, "
        f"{counted(actor.phases, 'phase')}, {' to '.join(ends)} each"
    )


def _channels(
    channels: Sequence[Channel], positions: NodePositions, critical: dict[str, bool]
) -> Iterator[Html]:
    """The critical channels last, so that they are drawn above all other channels."""
    offsets = _offsets(channels)
    is_labelled = len(channels) - sum(channel.is_self_loop for channel in channels) <= LABELLED
    order = sorted(range(len(channels)), key=lambda index: channels[index].name in critical)
    labels = _Labels(_at(position) for position in positions.places)
    for index in order:
        channel = channels[index]
        points = [_at(position) for position in positions.bends[index]]
        path = (
            _loop(points[0]) if channel.is_self_loop else _path(points, positions, offsets[index])
        )
        kind = "edge"
        if channel.name in critical:
            kind = "edge critical space" if critical[channel.name] else "edge critical"
        head = "arrow-critical" if channel.name in critical else "arrow"
        yield element(
            "g",
            element(
                "title", _channel_in_words(channel, is_space=critical.get(channel.name, False))
            ),
            element("path", d=path, class_="hit"),
            element("path", d=path, class_="line", marker_end=f"url(#{head})"),
            *(labels.of_channel(channel, points, offsets[index]) if is_labelled else ()),
            class_=f"{kind} loop" if channel.is_self_loop else kind,
            data_from=channel.producer,
            data_to=channel.consumer,
        )


def _offsets(channels: Sequence[Channel]) -> list[float]:
    """How far each channel stands off the middle, where several join the same two actors."""
    keys = [tuple(sorted((channel.producer, channel.consumer))) for channel in channels]
    order = sorted(range(len(channels)), key=lambda index: keys[index])
    offsets = [0.0] * len(channels)
    for _, group in groupby(order, key=lambda index: keys[index]):
        members = list(group)
        step = min(PARALLEL, (HEIGHT - 8) / max(len(members), 1))
        for rank, index in enumerate(members):
            offsets[index] = (rank - (len(members) - 1) / 2) * step
    return offsets


def _loop(position: Place) -> str:
    x, y = position[0], position[1] - HEIGHT / 2
    swing = f"{x + 24:.1f} {y - 20:.1f} {x - 24:.1f} {y - 20:.1f}"
    return f"M{x + 10:.1f} {y:.1f}C{swing} {x - 10:.1f} {y:.1f}"


def _path(points: Sequence[Place], positions: NodePositions, offset: float) -> str:
    """A line through the places that leaves and reaches actors at their sides.

    Curves lead from column to column, straight lines around the ends of the lines of actors.
    """
    left = _at((0, 0))[0] - 1
    right = _at((positions.columns - 1, 0))[0] + 1
    shifted = [(x, y + offset) for x, y in points]
    begin, end = shifted[0], shifted[-1]
    shifted[0] = (begin[0] + _side(begin, shifted[1]) * WIDTH / 2, begin[1])
    shifted[-1] = (end[0] + _side(end, shifted[-2]) * (WIDTH / 2 + 2), end[1])
    pieces, corners = [f"M{shifted[0][0]:.1f} {shifted[0][1]:.1f}"], [shifted[0]]
    for number, position in enumerate(shifted[1:], 1):
        corners.append(position)
        if left <= points[number][0] <= right:
            pieces.append(_curve(*corners) if len(corners) == 2 else _around(corners))
            corners = [position]
    return "".join(pieces)


def _side(one: Place, other: Place) -> int:
    """The side on which an edge leaves an actor: 1 at the right, -1 at the left."""
    return 1 if other[0] >= one[0] else -1


def _curve(begin: Place, end: Place) -> str:
    """Level at both ends."""
    reach = (end[0] - begin[0]) / 2
    if abs(reach) < 1:
        reach = CORNER * 3
        return (
            f"C{begin[0] + reach:.1f} {begin[1]:.1f} {end[0] + reach:.1f} {end[1]:.1f} "
            f"{end[0]:.1f} {end[1]:.1f}"
        )
    middle = begin[0] + reach
    return f"C{middle:.1f} {begin[1]:.1f} {middle:.1f} {end[1]:.1f} {end[0]:.1f} {end[1]:.1f}"


def _around(corners: Sequence[Place]) -> str:
    """Straight lines with round corners."""
    pieces = []
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        (x, y), (u, v) = _towards(corner, before), _towards(corner, after)
        pieces.append(f"L{x:.1f} {y:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {u:.1f} {v:.1f}")
    return "".join([*pieces, f"L{corners[-1][0]:.1f} {corners[-1][1]:.1f}"])


def _towards(corner: Place, other: Place) -> Place:
    """A point near the corner in the direction of the other corner."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    share = min(CORNER / max(abs(dx), abs(dy), 1e-9), 0.5)
    return corner[0] + dx * share, corner[1] + dy * share


class _Labels:
    """Labels of channels: none covers another label or an actor where a free row is near."""

    def __init__(self, actors: Iterable[Place]) -> None:
        self._boxes = [
            (x - WIDTH / 2, y - HEIGHT / 2, x + WIDTH / 2, y + HEIGHT / 2) for x, y in actors
        ]
        self._texts: set[tuple[float, float, int, str]] = set()

    def of_channel(
        self, channel: Channel, points: Sequence[Place], offset: float
    ) -> Iterator[Html]:
        """Yield production and consumption at the ends, initial tokens in the middle."""
        if channel.is_self_loop:
            return
        (x, y), (end_x, end_y) = points[0], points[-1]
        side = 1 if points[1][0] >= x else -1
        near = 1 if points[-2][0] > end_x else -1
        production, consumption = rates(channel.production), rates(channel.consumption)
        rises = (12, -4, 24, -16) if offset > 0 else (-4, 12, -16, 24)  # below the lower of two
        if production + consumption != "11" and len(production + consumption) <= MOST_LETTERS:
            begin = x + side * (WIDTH / 2 + 4), y + offset
            yield from self._label(begin, rises, side, production)
            end = end_x + near * (WIDTH / 2 + 10), end_y + offset
            yield from self._label(end, rises, near, consumption)
        if channel.initial_tokens:
            middle, level = (x + end_x) / 2, (y + end_y) / 2
            if len(points) > 2:
                middle, level = points[len(points) // 2]
                if abs(y - end_y) > 2 * ROW:  # into another line
                    middle, level = end_x + near * (WIDTH / 2 + 22), end_y
            rises = (-5, 13, -17, 25) if offset < 0 else (13, -5, 25, -17)
            yield from self._label(
                (middle, level + offset), rises, 0, f"● {channel.initial_tokens}"
            )

    def _label(self, at: Place, rises: Sequence[int], side: int, text: str) -> Iterator[Html]:
        """Yield the label at its first free row; channels that meet share an equal label."""
        if (*at, side, text) in self._texts:
            return
        self._texts.add((*at, side, text))
        width = LETTER * len(text)
        left = at[0] - width * (1 - side) / 2
        boxes = [
            (left, at[1] + rise - ASCENT, left + width, at[1] + rise + DESCENT) for rise in rises
        ]
        free = (index for index, box in enumerate(boxes) if not any(self._overlapping(box)))
        index = next(free, 0)
        self._boxes.append(boxes[index])
        anchor = ("middle", "start", "end")[side]
        yield element(
            "text",
            text,
            x=f"{at[0]:.1f}",
            y=f"{at[1] + rises[index]:.1f}",
            text_anchor=anchor,
            class_="rate" if side else "tokens",
        )

    def _overlapping(self, box: tuple[float, float, float, float]) -> Iterator[bool]:
        left, top, right, bottom = box
        for a, b, c, d in self._boxes:
            yield left < c and a < right and top < d and b < bottom


def _channel_in_words(channel: Channel, *, is_space: bool) -> str:
    facts = [
        f"{channel.name}: from {channel.producer} ({rates(channel.production)}) "
        f"to {channel.consumer} ({rates(channel.consumption)})"
    ]
    if channel.initial_tokens:
        facts.append(counted(channel.initial_tokens, "initial token"))
    if channel.capacity is not None:
        facts.append(f"capacity {channel.capacity}")
    if is_space:
        facts.append("its free space is on the critical cycle")
    return ", ".join(facts)


def rates(values: Sequence[int]) -> str:
    """Return rates as SDF3 shortens them: 3*128,0."""
    groups = [(value, len(list(same))) for value, same in groupby(values)]
    written = [f"{count}*{value}" if count > 1 else str(value) for value, count in groups]
    if len(set(values)) == 1:
        written = [str(values[0])]
    if len(written) > MOST_RATES:
        written = [*written[:MOST_RATES], "…"]
    return ",".join(written)


def shortened(text: str, letters: int) -> str:
    """The beginning and the end of a name that is too long, since names often differ there."""
    if len(text) <= letters:
        return text
    tail = letters // 2 - 1
    return f"{text[: letters - tail - 1]}…{text[-tail:]}"


def cut_apart(names: Sequence[str], letters: int = LETTERS) -> dict[str, str]:
    """Return each name in at most this many letters; names that would look alike, where they differ."""
    short = {name: shortened(name, letters) for name in names}
    alike: dict[str, list[str]] = {}
    for name in short:
        alike.setdefault(short[name], []).append(name)
    for same in alike.values():
        if len(same) == 1:
            continue
        begin, end = (
            sum(
                1
                for _ in takewhile(
                    lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)
                )
            )
            for texts in (same, [text[::-1] for text in same])
        )
        inner = {name: name[begin : max(begin, len(name) - end)] for name in same}
        tail = min(end, letters // 3)
        cores = cut_apart(list(dict.fromkeys(inner.values())), max(letters - tail - 4, 1))
        for name, core in inner.items():
            room = max(letters - 2 - tail - len(cores[core]), 0)
            head = f"{name[: min(begin, room)]}…" if room < begin else name[:begin]
            short[name] = f"{head}{cores[core]}…{name[len(name) - tail :]}"
    return short


def legend(findings: GraphFindings) -> Html:
    """Return what the marks of the drawing mean."""
    blocked = findings.result is not None and findings.result.deadlock is not None
    marks = []
    if findings.critical_actors:
        marks.append(("blocks the graph" if blocked else "limits the graph", "key critical"))
    if any(_critical_channels(findings).values()):
        marks.append(("by its free space", "key space"))
    marks.append(("other channels", "key"))
    keys = [element("span", text, class_=kind) for text, kind in marks]
    unit = "" if findings.time == "ns" else f" ({findings.time})"
    keys.append(element("span", f"below a name: firings per iteration \u00d7 time of one{unit}"))
    return joined(keys)


SWEEPS = 8  # over all layers, in each direction
MOST_BENDS = 6000  # places where edges pass a layer; beyond them edges are drawn straight
LONGEST_LINE = 6  # layers that are never folded
BEND_HEIGHT = 0.35  # rows between edges that pass a layer
# Rows between two lines: LINE_GAP, and LANE for each of at most MOST_LANES edges between them.
LINE_GAP = 1.2
LANE = 0.12
MOST_LANES = 10
LINE_BELOW = 0.5  # rows from the last actors of a line to its first lane
SIDE = 0.36  # columns from the outermost actors to the nearest edge around them
SIDE_WIDTH = 0.07  # columns from the nearest to the farthest of these edges

Place = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePositions:
    """Positions of nodes and edges, counted in columns and rows from the upper left.

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
) -> NodePositions:
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
    near = [(upper, lower) for upper, lower in pieces if layer[lower] == layer[upper] + 1]
    neighbours = Neighbours(len(layer), near)
    ordered = ordered_layers(layers, neighbours, SWEEPS)
    heights = [1.0] * nodes + [BEND_HEIGHT] * (len(layer) - nodes)
    rows = rows_of(ordered, neighbours, heights, SWEEPS)
    folded = _folded(ordered, layer, rows, near, shape)
    bends = [tuple(_with_returns(folded, chain)) for chain in chains]
    return NodePositions(
        places=tuple(folded.places[:nodes]),
        bends=tuple(
            bend if ends == edge else bend[::-1]
            for bend, ends, edge in zip(bends, forward, edges, strict=True)
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
    """Positions of all vertices; for each piece from line to line how far it is along its lane."""

    places: list[Place]
    columns: int
    rows: float
    lanes: dict[Edge, tuple[float, float]]  # row, and the share of the room for lanes


def _with_returns(lines: _Lines, chain: Sequence[int]) -> Iterator[Place]:
    """The positions of a chain; from one line to the next around the ends of both."""
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
    """Put this many layers on a line that the drawing has about the shape."""
    spans = [
        (min(rows[vertex] for vertex in layer), max(rows[vertex] for vertex in layer))
        for layer in layers
    ]  # fmt: skip
    lengths = range(min(LONGEST_LINE, len(spans)), len(spans) + 1)
    per_line = min(lengths, key=lambda length: abs(log(length / _height(spans, length) / shape)))
    lines = [spans[begin : begin + per_line] for begin in range(0, len(spans), per_line)]
    tops = [min(low for low, _ in line) for line in lines]
    crossing: list[list[Edge]] = [[] for _ in lines]
    for piece in pieces:
        if layer[piece[0]] // per_line != layer[piece[1]] // per_line:
            crossing[layer[piece[0]] // per_line].append(piece)
    gaps = [LINE_GAP + LANE * min(len(pieces_between), MOST_LANES) for pieces_between in crossing]
    bottoms = [max(high for _, high in line) - top for line, top in zip(lines, tops, strict=True)]
    depths = [bottom + gap for bottom, gap in zip(bottoms, gaps, strict=True)]
    begins = [0.0, *accumulate(depths)]
    positions = []
    for vertex, number in enumerate(layer):
        line, column = divmod(number, per_line)
        positions.append((float(column), begins[line] + rows[vertex] - tops[line]))
    lanes = {}
    for line, pieces_between in enumerate(crossing):
        for share, piece in _lanes(pieces_between, rows):
            row = begins[line] + bottoms[line] + LINE_BELOW + share * (gaps[line] - LINE_GAP)
            lanes[piece] = (row, share)
    height = begins[-1] - gaps[-1] + 1 if gaps else 1.0
    return _Lines(places=positions, columns=per_line, rows=height, lanes=lanes)


def _lanes(crossing: Sequence[Edge], rows: Sequence[float]) -> Iterator[tuple[float, Edge]]:
    """Lanes one below the other: the lower an edge leaves, the higher its lane, so that few cross."""
    order = sorted(set(crossing), key=lambda piece: (-rows[piece[0]], piece))
    for position, piece in enumerate(order):
        yield (position + 0.5) / len(order), piece


def _height(spans: Sequence[tuple[float, float]], per_line: int) -> float:
    """Rows of all lines together."""
    height = 0.0
    for begin in range(0, len(spans), per_line):
        line = spans[begin : begin + per_line]
        height += max(high for _, high in line) - min(low for low, _ in line) + 1 + LINE_GAP
    return height


Edge = tuple[int, int]


def linear_order(nodes: int, edges: Sequence[Edge], feedback: Sequence[bool]) -> list[int]:
    """Return for each node its position in an order in which few edges lead back.

    A node comes after those it depends on. Where all wait for one another, the one comes next that
    lacks the fewest edges without initial tokens: in a live graph it usually lacks none. Ties by
    number. O(edges log nodes).
    """
    followers: list[list[tuple[int, bool]]] = [[] for _ in range(nodes)]
    lacking = [[0, 0] for _ in range(nodes)]  # edges without and with tokens
    for (source, target), has_tokens in zip(edges, feedback, strict=True):
        if source != target:
            followers[source].append((target, has_tokens))
            lacking[target][has_tokens] += 1
    waiting = [(*lacking[node], node) for node in range(nodes)]
    heapify(waiting)
    position = [-1] * nodes
    count = 0
    while waiting:
        *seen, node = heappop(waiting)
        if position[node] >= 0 or seen != lacking[node]:
            continue  # an entry from before it lacked less
        position[node] = count
        count += 1
        for target, has_tokens in followers[node]:
            if position[target] < 0:
                lacking[target][has_tokens] -= 1
                heappush(waiting, (*lacking[target], target))
    return position


def layers_of(nodes: int, edges: Sequence[Edge], order: Sequence[int]) -> list[int]:
    """Return the layer of each node; every edge, which must lead on in the order, goes to a later one.

    As early as possible, but a node that nothing leads to stands just before what it leads to.
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

    A vertex moves to the mean position of its neighbours on the layer that was ordered before.
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
    position = {vertex: number for number, vertex in enumerate(fixed)}
    rank = {vertex: number for number, vertex in enumerate(layer)}

    def mean(vertex: int) -> float:
        positions = [position[neighbour] for neighbour in neighbours[vertex]]
        return sum(positions) / len(positions) if positions else rank[vertex]

    layer.sort(key=mean)


def _crossings(layers: Sequence[Sequence[int]], neighbours: Neighbours) -> int:
    """Count pairs of edges between two layers that cross: inversions, by insertion."""
    total = 0
    for layer, following in pairwise(layers):
        position = {vertex: number for number, vertex in enumerate(following)}
        seen: list[int] = []
        for vertex in layer:
            targets = sorted(position[neighbour] for neighbour in neighbours.behind[vertex])
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
            for vertex, position in zip(layer, _spread(layer, wished, heights), strict=True):
                row[vertex] = position
    return row


def _mean_row(vertex: int, near: Sequence[Sequence[int]], row: Sequence[float]) -> float:
    positions = [row[neighbour] for neighbour in near[vertex]]
    return sum(positions) / len(positions) if positions else row[vertex]


def _spread(layer: Sequence[int], wished: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return positions in order, far enough apart, with the least sum of squares from those wished.

    Neighbours that are too near become a block at their mean (pool adjacent violators).
    """
    below: list[float] = []  # distance of each vertex from the first one, if all were packed
    for number, vertex in enumerate(layer):
        gap = (heights[layer[number - 1]] + heights[vertex]) / 2 if number else 0.0
        below.append((below[-1] if below else 0.0) + gap)
    blocks: list[tuple[float, int]] = []  # mean of what is wished for the first one, and how many
    for position, distance in zip(wished, below, strict=True):
        mean, count = position - distance, 1
        while blocks and blocks[-1][0] >= mean:
            above, size = blocks.pop()
            mean = (mean * count + above * size) / (count + size)
            count += size
        blocks.append((mean, count))
    firsts = [mean for mean, count in blocks for _ in range(count)]
    return [first + distance for first, distance in zip(firsts, below, strict=True)]


MOST_ACTORS = 320  # of a graph that is drawn completely
EXCERPT = 120  # actors drawn of a larger graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Actors to draw, in the order of the graph, with the channels among them."""

    actors: tuple[str, ...]
    channels: tuple[Channel, ...]
    is_all: bool


def excerpt(graph: Graph, critical: Sequence[str]) -> Excerpt:
    """Return a small graph as it is; of a large graph, the critical actors and their neighbours."""
    names = [actor.name for actor in graph.actors]
    if len(names) <= MOST_ACTORS and len(graph.channels) <= 4 * MOST_ACTORS:
        return Excerpt(actors=tuple(names), channels=graph.channels, is_all=True)
    chosen = _nearest(graph, critical or names[:1])
    return Excerpt(
        actors=tuple(name for name in names if name in chosen),
        channels=tuple(
            channel for channel in graph.channels if {channel.producer, channel.consumer} <= chosen
        )[: 4 * MOST_ACTORS],
        is_all=False,
    )


def _nearest(graph: Graph, first: Sequence[str]) -> set[str]:
    """Go on from the first actors to their neighbours until there are enough."""
    neighbours: dict[str, list[str]] = {}
    for channel in graph.channels:
        neighbours.setdefault(channel.producer, []).append(channel.consumer)
        neighbours.setdefault(channel.consumer, []).append(channel.producer)
    reached = list(dict.fromkeys(first))[:EXCERPT]
    reachable = set(reached)
    for name in reached:
        for neighbour in neighbours.get(name, ()):
            if len(reached) >= EXCERPT:
                return reachable
            if neighbour not in reachable:
                reachable.add(neighbour)
                reached.append(neighbour)
    return reachable


STYLE = Path(__file__).with_name("report") / "assets" / "style.css"
COLOUR = re.compile(r"(--[\w-]+): (#\w+);")
OF_DRAWINGS = re.compile(r"(?:svg text|svg \.|\.node|\.edge|\.arrow)(?!.*:hover).*")
VIEW = re.compile(r'data-view="0 0 (\d+) (\d+)"')


def graph_svg(graph: Graph, result: Throughput | None = None) -> str:
    """Return the graph as SVG. result: whose critical cycle, or deadlock, is marked.

    Of a large graph the actors on and around that cycle are drawn. Raises InconsistentGraph.
    """
    findings = GraphFindings(
        graph=graph, repetitions=repetition_vector(graph), result=result, left_out={}
    )
    drawn = graph_drawing(findings, excerpt(graph, findings.critical_actors))
    width, height = VIEW.search(drawn).groups()  # type: ignore[union-attr]
    inside = drawn[drawn.index(">") + 1 :]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{_style()}</style>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{inside}\n'
    )


def _style() -> str:
    """The rules of the report for drawings, in its light colours."""
    text = STYLE.read_text(encoding="utf-8")
    colours = dict(COLOUR.findall(text[: text.index("}")]))
    rules = "".join(line for line in text.splitlines() if OF_DRAWINGS.match(line))
    return re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], rules)
