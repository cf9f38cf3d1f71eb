"""A memory plan as a picture: time across, bytes up, a rectangle for each buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from csdf.draw.picture import rendered

COLOURS = ("#4878a8", "#e49444", "#6aa56e", "#b9769f", "#85b6b2", "#d1605e", "#e7ca60", "#a3785f")
UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "bytes"))
# Points of names: the largest that fits. In a page that is 400 pixels wide 8 points are 8 pixels.
POINTS = (10.0, 9.0, 8.0)
LETTER, LINE = 0.6, 1.2  # width of a letter and height of a line, for each point of the font
AXES = (0.87, 0.75)  # shares of the figure that its axes take
TELLING = 0.5  # of the peak: weaker lower bounds are not drawn
MOST_COLOURED = 2000  # boxes of which neighbours have different colours: pairs are compared
LIGHT = 0.55  # luminance, of white 1, from which a colour has dark letters


class DrawnBuffer(NamedTuple):
    """A buffer as a rectangle: times from left to right, bytes upwards."""

    name: str
    start: int
    end: int
    offset: int
    size: int


def arena_picture(
    title: str,
    boxes: Sequence[DrawnBuffer],
    *,
    bound: int | None,
    capacity: int | None,
    suffix: str,
    across: str = "time (steps)",
) -> str | bytes:
    """Return the picture in the format of the suffix: png, pdf, svg, or a page with the picture.

    Lines show the bytes live at each time, the lower bound unless it is weak, and the capacity if it is
    set. across: title of the axis of times. Raises UnwritableFile for another format.
    """
    figure = Figure(figsize=(5.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    draw_arena(axes, boxes, bound=bound, capacity=capacity)
    axes.set_title(title)
    axes.set_xlabel(across)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return rendered(figure, title, suffix)


def draw_arena(
    axes: Axes,
    boxes: Sequence[DrawnBuffer],
    *,
    bound: int | None = None,
    capacity: int | None = None,
) -> None:
    """Draw rectangles, live bytes over time, and lines for peak, capacity and a bound that is near."""
    peak = max((box.offset + box.size for box in boxes), default=0)
    top = max(peak, bound or 0, capacity or 0, 1) * 1.03
    begin = min((box.start for box in boxes), default=0)
    end = max((box.end for box in boxes), default=1)
    axes.set_xlim(begin, max(end, begin + 1))
    axes.set_ylim(0, top)
    draw_boxes(axes, boxes, (end - begin) or 1, top)
    times, loads = _load(boxes)
    axes.step(times, loads, where="post", color="white", linewidth=3)
    axes.step(times, loads, where="post", color="#222", linewidth=1.3, label="live bytes")
    if bound is not None and bound >= TELLING * peak:
        axes.axhline(bound, color="#c33", linewidth=1.3, label=f"lower bound {bound} bytes")
    if peak > (bound or 0):
        axes.axhline(peak, color="#357", linewidth=1.1, linestyle="--", label=f"peak {peak} bytes")
    if capacity is not None:
        axes.axhline(capacity, color="#888", linestyle=":", label=f"capacity {capacity} bytes")
    unit, name = next(unit_row for unit_row in UNITS if peak >= 2 * unit_row[0] or unit_row[0] == 1)
    axes.yaxis.set_major_locator(_UnitLocator(unit))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
    axes.set_ylabel(f"offset ({name})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="x", style="plain")
    axes.spines[["top", "right"]].set_visible(False)


class _UnitLocator(MaxNLocator):
    """Ticks at round numbers of a unit of bytes."""

    def __init__(self, unit: int) -> None:
        super().__init__(integer=True)
        self._unit = unit

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the ticks between two bounds, in bytes."""
        ticks = super().tick_values(vmin / self._unit, vmax / self._unit)
        return [self._unit * tick for tick in ticks]


def draw_boxes(axes: Axes, boxes: Sequence[DrawnBuffer], width: int, top: float) -> None:
    """Draw rectangles in the colours of `_colours`, with names where they fit."""
    rectangles = [Rectangle((b.start, b.offset), b.end - b.start, b.size) for b in boxes]
    colours = [to_rgb(COLOURS[colour]) for colour in _colours(boxes)]
    line = 0.6 if len(boxes) < 100 else 0.25
    axes.add_collection(
        PatchCollection(rectangles, facecolors=colours, edgecolors="white", linewidths=line)
    )
    colour_of = dict(zip(boxes, colours, strict=True))
    for box, name, points in _labelled(boxes, _Letters.of(axes, width, top)):
        red, green, blue = colour_of[box]
        is_light = 0.3 * red + 0.59 * green + 0.11 * blue > LIGHT
        axes.text(
            (box.start + box.end) / 2,
            box.offset + box.size / 2,
            name,
            ha="center",
            va="center",
            fontsize=points,
            color="#111" if is_light else "white",
            # The line of live bytes ends at a name instead of crossing it.
            bbox={"facecolor": colour_of[box], "edgecolor": "none", "pad": 1},
            clip_on=True,
            zorder=3,
        )


def _colours(boxes: Sequence[DrawnBuffer]) -> list[int]:
    """Return the colour of each box, an index of COLOURS, by greedy colouring.

    The colours alternate. A box takes the next colour that no box before it has with which it shares
    an edge, or else its colour in turn. Of more than MOST_COLOURED boxes each takes its colour in turn.
    """
    if len(boxes) > MOST_COLOURED:
        return [number % len(COLOURS) for number in range(len(boxes))]
    begins = np.array([(box.start, box.offset) for box in boxes], dtype=float)
    ends = np.array([(box.end, box.offset + box.size) for box in boxes], dtype=float)
    colours = np.zeros(len(boxes), dtype=int)
    for number in range(len(boxes)):
        overlaps = np.minimum(ends[:number], ends[number]) - np.maximum(
            begins[:number], begins[number]
        )
        is_neighbour = (overlaps >= 0).all(axis=1) & (overlaps > 0).any(axis=1)
        taken = set(colours[:number][is_neighbour].tolist())
        in_turn = [(number + step) % len(COLOURS) for step in range(len(COLOURS))]
        colours[number] = next((colour for colour in in_turn if colour not in taken), in_turn[0])
    return colours.tolist()


class _Letters(NamedTuple):
    """Size of a letter of one point, in the units of the axes: across and up."""

    width: float
    height: float

    @classmethod
    def of(cls, axes: Axes, width: int, top: float) -> _Letters:
        """Return the size for axes that show these times and bytes."""
        figure, place = axes.get_figure(), axes.get_subplotspec()
        inches = figure.get_size_inches() if isinstance(figure, Figure) else (1.0, 1.0)
        rows = place.get_gridspec().nrows if place is not None else 1
        across, up = (72 * length * share for length, share in zip(inches, AXES, strict=True))
        return cls(LETTER * width / across, LINE * top * rows / up)


def _labelled(
    boxes: Sequence[DrawnBuffer], letters: _Letters
) -> list[tuple[DrawnBuffer, str, float]]:
    """Return boxes with a name and its points, the largest box first.

    A name fits into its box and touches no name of a larger box. A long name such as
    `block/conv line buffer` is replaced by its first word, or by the last part of that word.
    """
    kept: list[tuple[DrawnBuffer, str, float]] = []
    for box in sorted(boxes, key=lambda box: -box.size * (box.end - box.start)):
        word = box.name.partition(" ")[0]
        names = [
            box.name,
            word,
            *(f"…/{end}" for _, _, end in [word.rpartition("/")] if end != word),
        ]
        name, points = next(
            (
                (text, points)
                for text in names
                for points in POINTS
                if (len(text) + 1) * points * letters.width <= box.end - box.start
                and points * letters.height < box.size
            ),
            ("", 0.0),
        )
        if name and all(_is_apart((box, name, points), label, letters) for label in kept):
            kept.append((box, name, points))
    return kept


def _is_apart(
    label: tuple[DrawnBuffer, str, float],
    neighbour: tuple[DrawnBuffer, str, float],
    letters: _Letters,
) -> bool:
    """Whether the names in the middles of two boxes do not touch."""
    (box, name, points), (near, near_name, near_points) = label, neighbour
    across = abs(box.start + box.end - near.start - near.end) / 2
    up = abs(2 * box.offset + box.size - 2 * near.offset - near.size) / 2
    length = ((len(name) + 1) * points + (len(near_name) + 1) * near_points) / 2
    return across > letters.width * length or up > letters.height * (points + near_points) / 2


def _load(boxes: Sequence[DrawnBuffer]) -> tuple[list[int], list[int]]:
    """Return the times at which the live bytes change, and the bytes from then on.

    Bytes that several buffers share are counted once.
    """
    times = sorted({time for box in boxes for time in (box.start, box.end)})
    upwards = sorted(boxes, key=lambda box: box.offset)
    loads = []
    for time in times:
        load = reached = 0
        for box in upwards:
            if box.start <= time < box.end:
                end = box.offset + box.size
                load += max(0, end - max(box.offset, reached))
                reached = max(reached, end)
        loads.append(load)
    return times, loads
