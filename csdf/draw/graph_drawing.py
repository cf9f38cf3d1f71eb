"""Drawing of a graph as SVG: actors from left to right, its critical cycle in red.

`graph_svg` is a picture of its own, `graph_drawing` the same drawing within a page. Of a large graph
only an excerpt is drawn: actors on and around its critical cycle. `layered_layout` computes
positions in columns and rows; here they become pixels, and channels become curves with labels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby, takewhile
from pathlib import Path

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import Throughput
from csdf.draw.layered_layout import GraphLayout, Position, layout
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Html, element, joined
from csdf.errors import counted
from csdf.model.graph import Actor, Channel, Graph, SpaceName
from csdf.units import duration

# In pixels: from actor to actor, of an actor, and around all actors (more above, for self-loops).
COLUMN, ROW = 212.0, 70.0
WIDTH, HEIGHT = 136.0, 42.0
SIDES, ABOVE, BELOW = 38.0, 46.0, 30.0
LETTERS = 16  # of a name that fits
LEAST_CUT = 4  # letters: a head, two ellipses and a core
LABELLED = 36  # channels; with more, their rates are not written
CORNER = 8.0  # pixels of a round corner
PARALLEL = 9.0  # pixels between channels of the same two actors
MOST_RATES = 6  # groups of equal rates in a label
MOST_LETTERS = 9  # of the rates at both ends; there is no room for more
LETTER, ASCENT, DESCENT = (
    6.6,
    9.0,
    2.0,
)  # pixels of a label's letter: width, above and below its line
# Pixels by which a label is below its channel (negative: above), in the order of preference.
FIRST_BELOW, FIRST_ABOVE = (12, -4, 24, -16), (-4, 12, -16, 24)
TOKENS_BELOW, TOKENS_ABOVE = (13, -5, 25, -17), (-5, 13, -17, 25)

Point = tuple[float, float]  # pixels from the left and from the top


def graph_drawing(findings: GraphFindings, shown: Excerpt) -> Html:
    """Return the drawing of the actors and channels shown."""
    number = {name: index for index, name in enumerate(shown.actors)}
    edges = [(number[channel.producer], number[channel.consumer]) for channel in shown.channels]
    placed = layout(len(number), edges, [channel.initial_tokens > 0 for channel in shown.channels])
    critical = _critical_channels(findings)
    width = (placed.columns - 1) * COLUMN + WIDTH + 2 * SIDES
    height = (placed.rows - 1) * ROW + HEIGHT + ABOVE + BELOW
    return element(
        "svg",
        _arrowheads(),
        element("g", *_channels(shown.channels, placed, critical), class_="edges"),
        element("g", *_actors(findings, shown, placed), class_="nodes"),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        data_view=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        tabindex=0,
        class_="drawing",
        style=f"--drawn:{1.15 * height:.0f}px",  # the height that the page prefers
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
    """Return for each channel on the critical cycle whether its free space is on the cycle."""
    names = findings.critical_channels
    return dict.fromkeys(names, False) | {
        name.channel: True for name in names if isinstance(name, SpaceName)
    }


def _pixels(position: Position) -> Point:
    """Return the middle of an actor at this column and row."""
    column, row = position
    return SIDES + WIDTH / 2 + column * COLUMN, ABOVE + HEIGHT / 2 + row * ROW


def _actors(findings: GraphFindings, shown: Excerpt, placed: GraphLayout) -> Iterator[Html]:
    critical, time = set(findings.critical_actors), findings.time
    titles = cut_apart(shown.actors)
    for name, position in zip(shown.actors, placed.nodes, strict=True):
        x, y = _pixels(position)
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
    """Return the label of an actor: firings per iteration, and the time of a firing.

    In nanoseconds the longest firing; in other time units the shortest and the longest.
    """
    unit = findings.graph.time_unit
    low, high = min(actor.durations) * unit, max(actor.durations) * unit
    if findings.time == "ns":
        return f"{firings} \u00d7 {duration(high, 'ns', 3)}"
    times = f"{low}" if low == high else f"{low} to {high}"
    return f"{firings} \u00d7 {times}"


def actor_in_words(graph: Graph, actor: Actor, firings: int, time: str = "time units") -> str:
    """Return how often an actor fires, and how long."""
    low, high = min(actor.durations) * graph.time_unit, max(actor.durations) * graph.time_unit
    times = dict.fromkeys(duration(value, time) for value in (low, high))
    return (
        f"{counted(firings, 'firing')} per iteration, "
        f"{counted(actor.phases, 'phase')}, {' to '.join(times)} each"
    )


def _channels(
    channels: Sequence[Channel], placed: GraphLayout, critical: dict[str, bool]
) -> Iterator[Html]:
    """Yield the channels, the critical channels last, so that they are drawn above the others."""
    offsets = _offsets(channels)
    is_labelled = len(channels) - sum(channel.is_self_loop for channel in channels) <= LABELLED
    order = sorted(range(len(channels)), key=lambda index: channels[index].name in critical)
    labels = _Labels(_pixels(position) for position in placed.nodes)
    for index in order:
        channel = channels[index]
        points = [_pixels(position) for position in placed.bends[index]]
        path = (
            _loop(points[0])
            if channel.is_self_loop
            else _path(points, placed.columns, offsets[index])
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
    """Return the pixels by which each channel is drawn below the middle line of its two actors.

    Channels between the same two actors are spread around that line.
    """
    parallel: dict[frozenset[str], list[int]] = {}
    for index, channel in enumerate(channels):
        parallel.setdefault(frozenset((channel.producer, channel.consumer)), []).append(index)
    offsets = [0.0] * len(channels)
    for members in parallel.values():
        step = min(PARALLEL, (HEIGHT - 8) / len(members))
        for rank, index in enumerate(members):
            offsets[index] = (rank - (len(members) - 1) / 2) * step
    return offsets


def _loop(middle: Point) -> str:
    """Return the path of a self-loop above the actor with this middle."""
    x, y = middle[0], middle[1] - HEIGHT / 2
    swing = f"{x + 24:.1f} {y - 20:.1f} {x - 24:.1f} {y - 20:.1f}"
    return f"M{x + 10:.1f} {y:.1f}C{swing} {x - 10:.1f} {y:.1f}"


def _path(points: Sequence[Point], columns: int, offset: float) -> str:
    """Return the path of a channel, whose ends are at the sides of its actors.

    points: the middles of both actors, and the bends between them. Curves lead from column to column;
    straight lines lead around the ends of lines of the layout, outside the first and last column.
    """
    left, right = _pixels((0, 0))[0] - 1, _pixels((columns - 1, 0))[0] + 1
    shifted = [(x, y + offset) for x, y in points]
    begin, end = shifted[0], shifted[-1]
    shifted[0] = (begin[0] + _side(begin, shifted[1]) * WIDTH / 2, begin[1])
    shifted[-1] = (end[0] + _side(end, shifted[-2]) * (WIDTH / 2 + 2), end[1])
    pieces, corners = [f"M{shifted[0][0]:.1f} {shifted[0][1]:.1f}"], [shifted[0]]
    for (x, _), corner in zip(points[1:], shifted[1:], strict=True):
        corners.append(corner)
        if left <= x <= right:
            pieces.append(_curve(*corners) if len(corners) == 2 else _around(corners))
            corners = [corner]
    return "".join(pieces)


def _side(actor: Point, neighbour: Point) -> int:
    """Return the side at which an edge leaves an actor: 1 at the right, -1 at the left."""
    return 1 if neighbour[0] >= actor[0] else -1


def _curve(begin: Point, end: Point) -> str:
    """Return a curve that is horizontal at both ends; within a column it swings to the right."""
    (x, y), (end_x, end_y) = begin, end
    reach = (end_x - x) / 2
    middle = x + reach
    first, second = (middle, middle) if abs(reach) >= 1 else (x + 3 * CORNER, end_x + 3 * CORNER)
    return f"C{first:.1f} {y:.1f} {second:.1f} {end_y:.1f} {end_x:.1f} {end_y:.1f}"


def _around(corners: Sequence[Point]) -> str:
    """Return straight lines through these corners, which are rounded."""
    pieces = []
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        (x, y), (u, v) = _towards(corner, before), _towards(corner, after)
        pieces.append(f"L{x:.1f} {y:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {u:.1f} {v:.1f}")
    return "".join([*pieces, f"L{corners[-1][0]:.1f} {corners[-1][1]:.1f}"])


def _towards(corner: Point, target: Point) -> Point:
    """Return the point CORNER pixels from the corner towards the target, at most half the way."""
    dx, dy = target[0] - corner[0], target[1] - corner[1]
    share = min(CORNER / max(abs(dx), abs(dy), 1e-9), 0.5)
    return corner[0] + dx * share, corner[1] + dy * share


class _Labels:
    """Labels of channels: each avoids earlier labels and actors if one of its four rows is free."""

    def __init__(self, actors: Iterable[Point]) -> None:
        self._boxes = [  # left, top, right, bottom
            (x - WIDTH / 2, y - HEIGHT / 2, x + WIDTH / 2, y + HEIGHT / 2) for x, y in actors
        ]
        self._texts: set[tuple[float, float, int, str]] = set()

    def of_channel(
        self, channel: Channel, points: Sequence[Point], offset: float
    ) -> Iterator[Html]:
        """Yield production and consumption at the ends, initial tokens in the middle."""
        if channel.is_self_loop:
            return
        (x, y), (end_x, end_y) = points[0], points[-1]
        side, end_side = _side(points[0], points[1]), _side(points[-1], points[-2])
        production, consumption = rates(channel.production), rates(channel.consumption)
        is_plain = production == consumption == "1"
        if not is_plain and len(production + consumption) <= MOST_LETTERS:
            rows = FIRST_BELOW if offset > 0 else FIRST_ABOVE
            begin = x + side * (WIDTH / 2 + 4), y + offset
            yield from self._label(begin, rows, side, production)
            end = end_x + end_side * (WIDTH / 2 + 10), end_y + offset
            yield from self._label(end, rows, end_side, consumption)
        if channel.initial_tokens:
            middle, level = (x + end_x) / 2, (y + end_y) / 2
            if len(points) > 2:
                middle, level = points[len(points) // 2]
                if abs(y - end_y) > 2 * ROW:  # into another line of the layout
                    middle, level = end_x + end_side * (WIDTH / 2 + 22), end_y
            rows = TOKENS_ABOVE if offset < 0 else TOKENS_BELOW
            yield from self._label((middle, level + offset), rows, 0, f"● {channel.initial_tokens}")

    def _label(self, at: Point, rows: Sequence[int], side: int, text: str) -> Iterator[Html]:
        """Yield the label at its first free row; channels that meet share an equal label.

        side: 1 if the text is to the right of the point, -1 to the left, 0 centred. rows: pixels below
        the point.
        """
        if (*at, side, text) in self._texts:
            return
        self._texts.add((*at, side, text))
        width = LETTER * len(text)
        left = at[0] - width * (1 - side) / 2
        boxes = [(left, at[1] + row - ASCENT, left + width, at[1] + row + DESCENT) for row in rows]
        free = (index for index, box in enumerate(boxes) if not self._is_covered(box))
        index = next(free, 0)
        self._boxes.append(boxes[index])
        yield element(
            "text",
            text,
            x=f"{at[0]:.1f}",
            y=f"{at[1] + rows[index]:.1f}",
            text_anchor={1: "start", -1: "end", 0: "middle"}[side],
            class_="rate" if side else "tokens",
        )

    def _is_covered(self, box: tuple[float, float, float, float]) -> bool:
        left, top, right, bottom = box
        return any(
            left < end and begin < right and top < low and high < bottom
            for begin, high, end, low in self._boxes
        )


def _channel_in_words(channel: Channel, *, is_space: bool) -> str:
    """Return the hint of a channel. is_space: whether its free space is on the critical cycle."""
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
    """Return rates as SDF3 shortens them: `3*128,0`; equal rates of all phases as one number."""
    groups = [(value, len(list(same))) for value, same in groupby(values)]
    if len(groups) == 1:
        return str(values[0])
    written = [f"{count}*{value}" if count > 1 else str(value) for value, count in groups]
    if len(written) > MOST_RATES:
        written = [*written[:MOST_RATES], "…"]
    return ",".join(written)


def shortened(text: str, letters: int) -> str:
    """Return a text in at most this many letters: its beginning and end, where names often differ."""
    if len(text) <= letters:
        return text
    tail = max(letters // 2 - 1, 0)
    return f"{text[: letters - tail - 1]}…{text[len(text) - tail :]}"


def cut_apart(names: Sequence[str], letters: int = LETTERS) -> dict[str, str]:
    """Return each name in at most this many letters; names that would look alike, where they differ.

    Such names retain the core between their common prefix and suffix: `conv2d_block_7_depthwise` is
    `conv2d_b…7…hwise` if another name differs only in the 7. Names that still look alike are numbered:
    `…#1`.
    """
    short = _with_cores(names, letters)
    used = Counter(short.values())
    for name, text in short.items():
        if used[text] > 1:
            marks = (f"…#{number}" for number in count(1))
            numbered = (f"{text[: letters - len(mark)]}{mark}" for mark in marks)
            short[name] = next(candidate for candidate in numbered if candidate not in used)
            used[short[name]] = 1
    return short


def _with_cores(names: Sequence[str], letters: int) -> dict[str, str]:
    """Return each name shortened; of names that would look alike, the core in which they differ."""
    short = {name: shortened(name, letters) for name in names}
    alike: dict[str, list[str]] = {}
    for name in short:
        alike.setdefault(short[name], []).append(name)
    for same in alike.values():
        if len(same) == 1 or letters < LEAST_CUT:
            continue
        begin, end = (_common_prefix(texts) for texts in (same, [text[::-1] for text in same]))
        inner = {name: name[begin : max(begin, len(name) - end)] for name in same}
        tail = min(end, max(letters - 6, 0) // 2)
        cores = _with_cores(list(dict.fromkeys(inner.values())), max(letters - tail - 4, 1))
        for name, core in inner.items():
            room = max(letters - 2 - tail - len(cores[core]), 0)
            head = f"{name[: min(begin, room)]}…" if room < begin else name[:begin]
            short[name] = f"{head}{cores[core]}…{name[len(name) - tail :]}"
    return short


def _common_prefix(texts: Sequence[str]) -> int:
    """Return the letters that all texts share at the beginning."""
    # The first and the last in alphabetical order share no more than any two texts.
    pairs = zip(min(texts), max(texts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def legend(findings: GraphFindings) -> Html:
    """Return the meaning of the marks of the drawing."""
    marks = []
    if findings.critical_actors:
        limits = "blocks" if findings.blocked else "limits"
        marks.append((f"{limits} the graph", "key critical"))
    if any(_critical_channels(findings).values()):
        marks.append(("by its free space", "key space"))
    marks.append(("other channels", "key"))
    keys = [element("span", text, class_=kind) for text, kind in marks]
    unit = "" if findings.time == "ns" else f" ({findings.time})"
    keys.append(element("span", f"below a name: firings per iteration \u00d7 time of one{unit}"))
    return joined(keys)


MOST_ACTORS = 320  # of a graph that is drawn completely
EXCERPT = 120  # actors drawn of a larger graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Actors to draw, in the order of the graph, with the channels among them."""

    actors: tuple[str, ...]
    channels: tuple[Channel, ...]
    is_all: bool


def excerpt(graph: Graph, critical: Sequence[str]) -> Excerpt:
    """Return a small graph as it is; of a large graph, EXCERPT actors on and around the critical cycle.

    Of a longer critical cycle, only the first EXCERPT actors.
    """
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
    """Return EXCERPT actors: the first actors and the nearest to them, by breadth-first search."""
    neighbours: dict[str, list[str]] = {}
    for channel in graph.channels:
        neighbours.setdefault(channel.producer, []).append(channel.consumer)
        neighbours.setdefault(channel.consumer, []).append(channel.producer)
    reached = list(dict.fromkeys(first))[:EXCERPT]
    chosen = set(reached)
    for name in reached:  # the queue of the search, which grows
        for neighbour in neighbours.get(name, ()):
            if len(reached) < EXCERPT and neighbour not in chosen:
                chosen.add(neighbour)
                reached.append(neighbour)
    return chosen


STYLE = Path(__file__).with_name("report") / "assets" / "style.css"
COLOUR = re.compile(r"(--[\w-]+): (#\w+);")  # a variable of the style sheet
OF_DRAWINGS = re.compile(r"(?:svg text|svg \.|\.node|\.edge|\.arrow)(?!.*:hover).*")
VIEW = re.compile(r'data-view="0 0 (\d+) (\d+)"')


def graph_svg(graph: Graph, result: Throughput | None = None) -> str:
    """Return the graph as SVG. result: the answer whose critical cycle or deadlock is marked.

    Of a large graph, 120 actors on and around that cycle are drawn. Raises InconsistentGraph.
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
    """Return the rules of the report for drawings, in its light colours."""
    text = STYLE.read_text(encoding="utf-8")
    # The first rule sets the variables of the light theme.
    colours = dict(COLOUR.findall(text[: text.index("}")]))
    rules = "".join(line for line in text.splitlines() if OF_DRAWINGS.match(line))
    return re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], rules)
