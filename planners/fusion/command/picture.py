"""Fused tiles as pictures: memory and time over configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from csdf.draw.picture import log_across, named_ticks, rendered

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
    scale: float = 1.0,
    ticks: Sequence[str] = (),
    marks: Mapping[str, float | None] | None = None,
    log_x: bool = False,
    suffix: str,
) -> str | bytes:
    """Return the picture in the format of that suffix.

    scale: what the unit of the horizontal axis is in units of x. ticks: names for x = 0, 1, ... .
    marks: vertical lines. log_x: logarithmic x axis; y need not start at 0. Raises
    UnwritableFile for another format.
    """
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10)
    for number, line in enumerate(lines):
        colour = number if line.colour is None else line.colour
        _draw(axes, line, COLOURS[colour % len(COLOURS)], scale)
    for number, (label, place) in enumerate((marks or {}).items()):
        if place is not None:
            style = ("--", ":")[number % 2]
            axes.axvline(place / scale, color="#777", linewidth=1.1, linestyle=style, label=label)
    if ticks:
        axes.set_xticks(range(len(ticks)), named_ticks(ticks), fontsize=9)
    axes.set_xlabel(f"{across}, log scale" if log_x else across)
    axes.set_ylabel(up)
    _scale(axes, [value for line in lines for value in line.y], log_x=log_x)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return rendered(figure, title, suffix)


def _scale(axes: Axes, values: Sequence[float], *, log_x: bool) -> None:
    if not log_x:
        axes.set_ylim(0, max(values, default=1) * 1.08)
        return
    log_across(axes)


def _draw(axes: Axes, line: PlottedPoints, colour: str, scale: float) -> None:
    x = [value / scale for value in line.x]
    match line.style:
        case "steps":
            axes.step(x, line.y, where="post", color=colour, linewidth=1.2)
            axes.plot(x, line.y, "o", color=colour, markersize=3, label=line.label)
        case "points":
            axes.plot(x, line.y, "o", color=colour, markersize=5, label=line.label)
        case "dashed":
            axes.plot(x, line.y, "--", color=colour, linewidth=1.2, label=line.label)
        case _:
            axes.plot(x, line.y, "-", color=colour, linewidth=1.4, label=line.label)
