"""Plots of bars below each other, as a picture."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from csdf.draw.picture import rendered

COLOURS = ("#357", "#c63", "#585", "#85a", "#3aa", "#777", "#a33")
WIDTH = 0.8  # of all bars of one name
MOST_LETTERS = 48  # of names along an axis that are not turned


class Bars(NamedTuple):
    """A plot: for each name along the axis the height of each kind; None where there is no bar.

    missing: is written where a name has no bar at all.
    """

    title: str
    up: str
    names: Sequence[str]
    heights: Mapping[str, Sequence[float | None]]
    missing: str = ""


def bars_picture(title: str, plots: Sequence[Bars]) -> str:
    """Return the plots below each other as SVG."""
    figure = Figure(figsize=(5.4, 1.2 + 2.5 * len(plots)), layout="constrained")
    figure.suptitle(title, fontsize=11)
    grid = figure.subplots(len(plots), 1, squeeze=False)
    for axes, one in zip(grid.flat, plots, strict=True):
        _draw(axes, one)
    handles, labels = grid[0][0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return str(rendered(figure, title, "svg"))


def _draw(axes: Axes, one: Bars) -> None:
    axes.set_title(one.title, fontsize=9)
    axes.set_ylabel(one.up, fontsize=9)
    width = WIDTH / len(one.heights)
    for number, (kind, heights) in enumerate(one.heights.items()):
        places = [place + (number + 0.5) * width - WIDTH / 2 for place in range(len(one.names))]
        found = [height or 0 for height in heights]
        axes.bar(places, found, width * 0.95, label=kind, color=COLOURS[number % len(COLOURS)])
    for place, heights in enumerate(zip(*one.heights.values(), strict=True)):
        if all(height is None for height in heights):
            axes.text(place, 0, one.missing, fontsize=9, color="#777", ha="center", va="bottom")
    axes.set_xticks(
        range(len(one.names)),
        one.names,
        fontsize=9,
        rotation=90 * (len("".join(one.names)) > MOST_LETTERS),
    )
    axes.tick_params(axis="y", labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
