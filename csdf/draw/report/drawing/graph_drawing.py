"""A graph as SVG, with its bottleneck marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from csdf.analysis.bounded import bound_channels
from csdf.draw.report.drawing.excerpt import Excerpt
from csdf.draw.report.drawing.layout import Layout, Place, layout
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Html, element, joined
from csdf.errors import counted
from csdf.model.graph import Actor, Channel, Graph

COLUMN, ROW = 212.0, 70.0  # pixels from place to place
WIDTH, HEIGHT = 136.0, 42.0  # of an actor
MARGIN = 26.0
LETTERS = 17  # of a name that fits
LABELLED = 36  # most channels with their rates beside them
CORNER = 8.0  # pixels that a round corner takes
PARALLEL = 9.0  # pixels between channels of the same two actors
MOST_RATES = 6  # groups of equal rates in a label
MOST_LETTERS = 9  # of the rates at both ends; there is no room for more


def graph_drawing(findings: GraphFindings, shown: Excerpt) -> Html:
    """Return the drawing of the actors and channels shown."""
    number = {name: index for index, name in enumerate(shown.actors)}
    edges = [(number[one.producer], number[one.consumer]) for one in shown.channels]
    places = layout(len(number), edges, [one.initial_tokens > 0 for one in shown.channels])
    critical = _critical_channels(findings)
    width = (places.columns - 1) * COLUMN + WIDTH + 2 * MARGIN + 24
    height = (places.rows - 1) * ROW + HEIGHT + 2 * MARGIN + 24
    return element(
        "svg",
        _arrowheads(),
        element("g", *_channels(shown.channels, places, critical), class_="edges"),
        element("g", *_actors(findings, shown, places), class_="nodes"),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        data_view=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        tabindex=0,
        class_="drawing",
        style=f"--drawn:{1.15 * height:.0f}px",
        aria_label=f"drawing of {findings.graph.name}; arrow keys move it, plus and minus zoom",
    )


def _arrowheads() -> Html:
    """An arrow head for channels, and another for channels of the bottleneck."""
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
    """The channels of the bottleneck; whether it is their free space that is on it."""
    names = set(findings.critical_channels)
    found: dict[str, bool] = {}
    before = ""
    known = {channel.name for channel in findings.graph.channels}
    for channel in bound_channels(findings.graph).channels:
        if channel.name in known:
            before = channel.name
        if channel.name in names:
            found[before] = found.get(before, False) or channel.name not in known
    return found


def _at(place: Place) -> Place:
    return MARGIN + WIDTH / 2 + place[0] * COLUMN + 12, MARGIN + HEIGHT / 2 + place[1] * ROW + 20


def _actors(findings: GraphFindings, shown: Excerpt, places: Layout) -> Iterator[Html]:
    critical = set(findings.critical_actors)
    for name, place in zip(shown.actors, places.places, strict=True):
        x, y = _at(place)
        actor = findings.graph.actor(name)
        firings = findings.repetitions[name]
        yield element(
            "g",
            element("title", f"{name}: {actor_in_words(findings.graph, actor, firings)}"),
            element("rect", x=-WIDTH / 2, y=-HEIGHT / 2, width=WIDTH, height=HEIGHT, rx=7),
            element("text", _cut(name, LETTERS), y=-3, class_="name"),
            element("text", _cut(_work(actor, firings), LETTERS + 4), y=13, class_="detail"),
            transform=f"translate({x:.1f} {y:.1f})",
            class_="node critical" if name in critical else "node",
            data_name=name,
        )


def _work(actor: Actor, firings: int) -> str:
    """How often and how long it fires."""
    low, high = min(actor.durations), max(actor.durations)
    times = f"{low}" if low == high else f"{low} to {high}"
    return f"{firings} \u00d7 {times}"


def actor_in_words(graph: Graph, actor: Actor, firings: int) -> str:
    """Return how often an actor fires, and how long."""
    low, high = min(actor.durations) * graph.time_unit, max(actor.durations) * graph.time_unit
    time = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"{counted(firings, 'firing')} an iteration, "
        f"{counted(actor.phases, 'phase')}, {time} time units each"
    )


def _channels(
    channels: Sequence[Channel], places: Layout, critical: dict[str, bool]
) -> Iterator[Html]:
    """The critical channels last, so that they are drawn above all other channels."""
    offsets = _offsets(channels)
    is_labelled = len(channels) - sum(one.is_self_loop for one in channels) <= LABELLED
    order = sorted(range(len(channels)), key=lambda index: channels[index].name in critical)
    for index in order:
        channel = channels[index]
        points = [_at(place) for place in places.bends[index]]
        path = _loop(points[0]) if channel.is_self_loop else _path(points, places, offsets[index])
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
            *(_labels(channel, points, offsets[index]) if is_labelled else ()),
            class_=f"{kind} loop" if channel.is_self_loop else kind,
            data_from=channel.producer,
            data_to=channel.consumer,
        )


def _offsets(channels: Sequence[Channel]) -> list[float]:
    """How far each channel stands off the middle, where several join the same two actors."""
    keys = [tuple(sorted((one.producer, one.consumer))) for one in channels]
    order = sorted(range(len(channels)), key=lambda index: keys[index])
    offsets = [0.0] * len(channels)
    for _, group in groupby(order, key=lambda index: keys[index]):
        members = list(group)
        step = min(PARALLEL, (HEIGHT - 8) / max(len(members), 1))
        for rank, index in enumerate(members):
            offsets[index] = (rank - (len(members) - 1) / 2) * step
    return offsets


def _loop(place: Place) -> str:
    x, y = place[0], place[1] - HEIGHT / 2
    swing = f"{x + 24:.1f} {y - 20:.1f} {x - 24:.1f} {y - 20:.1f}"
    return f"M{x + 10:.1f} {y:.1f}C{swing} {x - 10:.1f} {y:.1f}"


def _path(points: Sequence[Place], places: Layout, offset: float) -> str:
    """A line through the places that leaves and reaches actors at their sides.

    Curves lead from column to column, straight lines around the ends of the lines of actors.
    """
    left = _at((0, 0))[0] - 1
    right = _at((places.columns - 1, 0))[0] + 1
    shifted = [(x, y + offset) for x, y in points]
    begin, end = shifted[0], shifted[-1]
    shifted[0] = (begin[0] + _side(begin, shifted[1]) * WIDTH / 2, begin[1])
    shifted[-1] = (end[0] + _side(end, shifted[-2]) * (WIDTH / 2 + 2), end[1])
    pieces, corners = [f"M{shifted[0][0]:.1f} {shifted[0][1]:.1f}"], [shifted[0]]
    for number, place in enumerate(shifted[1:], 1):
        corners.append(place)
        if left <= points[number][0] <= right:
            pieces.append(_curve(*corners) if len(corners) == 2 else _around(corners))
            corners = [place]
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
    """A place near the corner on the way to the other."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    share = min(CORNER / max(abs(dx), abs(dy), 1e-9), 0.5)
    return corner[0] + dx * share, corner[1] + dy * share


def _labels(channel: Channel, points: Sequence[Place], offset: float) -> Iterator[Html]:
    """Production and consumption at the ends, initial tokens in the middle."""
    if channel.is_self_loop:
        return
    (x, y), (end_x, end_y) = points[0], points[-1]
    side = 1 if points[1][0] >= x else -1
    near = 1 if points[-2][0] > end_x else -1
    made, taken = rates(channel.production), rates(channel.consumption)
    rise = 12 if offset > 0 else -4  # below the lower of two channels, above the upper
    if made + taken != "11" and len(made + taken) <= MOST_LETTERS:
        yield _label(x + side * (WIDTH / 2 + 4), y + offset + rise, side, made)
        yield _label(end_x + near * (WIDTH / 2 + 10), end_y + offset + rise, near, taken)
    if channel.initial_tokens:
        middle, level = (x + end_x) / 2, (y + end_y) / 2
        if abs(y - end_y) > 2 * ROW and len(points) > 2:  # into another line
            middle, level = end_x + near * (WIDTH / 2 + 22), end_y
        beside = level + offset + (-5 if offset < 0 else 13)
        text = f"● {channel.initial_tokens}"
        yield element("text", text, x=f"{middle:.1f}", y=f"{beside:.1f}", class_="tokens")


def _label(x: float, y: float, side: int, text: str) -> Html:
    anchor = "start" if side > 0 else "end"
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_="rate")


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


def _cut(text: str, letters: int) -> str:
    """The beginning and the end of a name that is too long, since names often differ there."""
    if len(text) <= letters:
        return text
    tail = letters // 2 - 1
    return f"{text[: letters - tail - 1]}…{text[-tail:]}"


def legend(findings: GraphFindings) -> Html:
    """Return what the marks of the drawing mean."""
    blocked = findings.result is not None and findings.result.deadlock is not None
    marks = []
    if findings.critical_actors:
        marks.append(("blocks the graph" if blocked else "limits the graph", "key critical"))
    if any(_critical_channels(findings).values()):
        marks.append(("by its free space", "key space"))
    marks.append(("other channels", "key"))
    return joined(element("span", text, class_=kind) for text, kind in marks)
