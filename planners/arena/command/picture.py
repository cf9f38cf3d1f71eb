"""A memory plan as a picture: time across, bytes up, a rectangle for each buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from csdf.draw.picture import rendered
from planners.plan import live_bytes

COLOURS = ("#4878a8", "#e49444", "#6aa56e", "#b9769f", "#85b6b2", "#d1605e", "#e7ca60", "#a3785f")
UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))
LABEL_WIDTH = 0.010  # of the picture, for one letter
LABEL_HEIGHT = 0.028


class Box(NamedTuple):
    """A buffer in its place: times across, bytes up."""

    name: str
    start: int
    end: int
    offset: int
    size: int


def arena_picture(
    title: str, boxes: Sequence[Box], *, bound: int, capacity: int | None, suffix: str
) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it.

    Above the rectangles stand the bytes that live at each time, the bound on any plan, and the
    capacity if there is one. Raises UnwritableFile for another format.
    """
    return rendered(_figure(title, boxes, bound, capacity), title, suffix)


def _figure(title: str, boxes: Sequence[Box], bound: int, capacity: int | None) -> Figure:
    figure = Figure(figsize=(9.0, 5.2), layout="constrained")
    axes = figure.add_subplot()
    peak = max((box.offset + box.size for box in boxes), default=0)
    top = max(peak, bound, capacity or 0, 1) * 1.03
    begin = min((box.start for box in boxes), default=0)
    end = max((box.end for box in boxes), default=1)
    axes.set_xlim(begin, max(end, begin + 1))
    axes.set_ylim(0, top)
    _draw_boxes(axes, boxes, (end - begin) or 1, top)
    times, loads = _load(boxes)
    axes.step(times, loads, where="post", color="white", linewidth=3)
    axes.step(times, loads, where="post", color="#222", linewidth=1.3, label="live bytes")
    axes.axhline(bound, color="#c33", linewidth=1.3, label=f"no plan is below {bound}")
    if peak > bound:
        axes.axhline(peak, color="#357", linewidth=1.1, linestyle="--", label=f"peak {peak}")
    if capacity is not None:
        axes.axhline(capacity, color="#888", linestyle=":", label=f"capacity {capacity}")
    _scale_axes(axes, peak)
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _scale_axes(axes: Axes, peak: int) -> None:
    """Count bytes in a unit that fits them, and times in whole numbers."""
    unit, name = next(found for found in UNITS if peak >= 2 * found[0] or found[0] == 1)
    axes.yaxis.set_major_locator(_UnitLocator(unit))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
    axes.set_ylabel(f"offset ({name})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="x", style="plain")
    axes.set_xlabel("time")


class _UnitLocator(MaxNLocator):
    """Ticks at round numbers of a unit of bytes."""

    def __init__(self, unit: int) -> None:
        super().__init__(integer=True)
        self._unit = unit

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the ticks between two bounds, in bytes."""
        found = super().tick_values(vmin / self._unit, vmax / self._unit)
        return [self._unit * tick for tick in found]


def _draw_boxes(axes: Axes, boxes: Sequence[Box], width: int, top: float) -> None:
    """Draw the rectangles, neighbours in different colours, with names where they fit."""
    rectangles = [Rectangle((b.start, b.offset), b.end - b.start, b.size) for b in boxes]
    colours = [to_rgb(COLOURS[number % len(COLOURS)]) for number in range(len(boxes))]
    line = 0.6 if len(boxes) < 100 else 0.25
    axes.add_collection(
        PatchCollection(rectangles, facecolors=colours, edgecolors="white", linewidths=line)
    )
    for box in boxes:
        is_wide = (box.end - box.start) / width > LABEL_WIDTH * (len(box.name) + 1)
        if is_wide and box.size / top > LABEL_HEIGHT:
            axes.text(
                (box.start + box.end) / 2,
                box.offset + box.size / 2,
                box.name,
                ha="center",
                va="center",
                fontsize=7,
                color="white",
                clip_on=True,
                zorder=3,
            )


def _load(boxes: Sequence[Box]) -> tuple[list[int], list[int]]:
    """Return the times at which the live bytes change, and the bytes from then on."""
    load = live_bytes(boxes)
    return list(load), list(load.values())
