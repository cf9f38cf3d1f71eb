"""Lines over a common axis as a picture: predictions, measurements, fronts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from csdf.draw.picture import named_ticks, rendered

COLOURS = ("#357", "#c63", "#585", "#85a", "#999", "#a33", "#3aa")


@dataclass(frozen=True, slots=True)
class PlottedPoints:
    """Points of one kind. style: "line", "dashed", "points" alone, or "steps" of a front.

    colour: a number; by default each line has its own.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "line"
    colour: int | None = None


def lines_picture(
    title: str,
    lines: Sequence[PlottedPoints],
    *,
    across: str,
    up: str,
    ticks: Sequence[str] = (),
    suffix: str,
) -> str | bytes:
    """Return the picture in the format of that suffix. ticks: names for x = 0, 1, ... ."""
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10)
    for number, line in enumerate(lines):
        colour = number if line.colour is None else line.colour
        _draw(axes, line, COLOURS[colour % len(COLOURS)])
    if ticks:
        axes.set_xticks(range(len(ticks)), named_ticks(ticks), fontsize=9)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_ylim(0, max(value for line in lines for value in line.y) * 1.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return rendered(figure, title, suffix)


def _draw(axes: Axes, line: PlottedPoints, colour: str) -> None:
    match line.style:
        case "steps":
            axes.step(line.x, line.y, where="post", color=colour, linewidth=1.2)
            axes.plot(line.x, line.y, "o", color=colour, markersize=3, label=line.label)
        case "points":
            axes.plot(line.x, line.y, "o", color=colour, markersize=5, label=line.label)
        case "dashed":
            axes.plot(line.x, line.y, "--", color=colour, linewidth=1.2, label=line.label)
        case _:
            axes.plot(line.x, line.y, "-", color=colour, linewidth=1.4, label=line.label)
