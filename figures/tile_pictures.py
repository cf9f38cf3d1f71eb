"""Tiles on feature maps as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from csdf.draw.picture import rendered
from figures.line_pictures import COLOURS


@dataclass(frozen=True, slots=True)
class TiledMap:
    """A feature map with what some tiles hold of it: top, bottom, left, right."""

    name: str
    height: int
    width: int
    tiles: Sequence[tuple[int, int, int, int]]


def tiles_picture(title: str, maps: Sequence[TiledMap], suffix: str) -> str | bytes:
    """Return maps, two in a row, with the rectangles that tiles hold of them.

    Raises UnwritableFile for another format.
    """
    rows = -(-len(maps) // 2)
    figure = Figure(figsize=(5.4, 0.4 + 2.7 * rows), layout="constrained")
    figure.suptitle(title, fontsize=10)
    for axes, one in zip(figure.subplots(rows, 2).flat, maps, strict=True):
        axes.set_title(f"{one.name}: {one.height}x{one.width}", fontsize=9)
        axes.set_xlim(0, one.width)
        axes.set_ylim(one.height, 0)
        axes.set_aspect("equal")
        axes.tick_params(labelsize=9)
        for number, (top, bottom, left, right) in enumerate(one.tiles):
            colour = COLOURS[number % len(COLOURS)]
            place = (left, top), right - left, bottom - top
            axes.add_patch(Rectangle(*place, facecolor=colour, alpha=0.35))
            axes.add_patch(Rectangle(*place, fill=False, edgecolor=colour, linewidth=1.2))
    return rendered(figure, title, suffix)
