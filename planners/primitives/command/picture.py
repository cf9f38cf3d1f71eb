"""Selections of primitives as pictures: time over memory, with the choices of other methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, SymmetricalLogLocator

from csdf.draw.picture import rendered
from planners.primitives.selection.problem import Pair

MARKS = ("s", "^", "v", "D", "P", "X", "<", ">", "*", "p", "h", "d")
COLOURS = ("#585", "#85a", "#3aa", "#a63", "#777", "#a33", "#558", "#9a3", "#b59", "#38c", "#444")
LINEAR_PART = 1e-3  # of the largest size: below it, down to no bytes, the axis is linear


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A trade-off of time and memory. greedy: pairs of the greedy choice at increasing budgets."""

    title: str
    front: Sequence[Pair]
    greedy: Sequence[Pair] = ()
    baselines: Sequence[tuple[str, Pair]] = ()
    limit: int | None = None  # bytes
    chosen: Pair | None = None


def primitives_picture(title: str, panels: Sequence[Panel], *, suffix: str) -> str | bytes:
    """Return the panels, one below the other, in the format of the suffix.

    Both axes are logarithmic; the axis of memory is linear up to LINEAR_PART of the largest memory. A
    front is a step function: the time at each budget. Raises UnwritableFile for another format.
    """
    figure = Figure(figsize=(5.4, 1.2 + 3.7 * len(panels)), layout="constrained")
    figure.suptitle(title, fontsize=11)
    names = list(dict.fromkeys(name for panel in panels for name, _ in panel.baselines))
    grid = figure.subplots(len(panels), 1, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=True):
        _draw(axes, panel, names)
        axes.set_xlabel(f"memory (MB = 1,000,000 bytes), {axes.get_xlabel()}", fontsize=9)
        axes.set_ylabel("time of a frame (ms), log scale", fontsize=9)
    shown: dict[str, Artist] = {}
    for axes in grid.flat:
        shown |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(
        list(shown.values()), list(shown), loc="outside lower center", ncols=3, frameon=False,
        fontsize=9,
    )  # fmt: skip
    return rendered(figure, title, suffix)


def _draw(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    axes.set_title(panel.title, fontsize=9)
    points = [*panel.front, *panel.greedy, *(point for _, point in panel.baselines)]
    largest = max((point.memory for point in points), default=1) / 1e6 or 1.0
    linear = largest * LINEAR_PART
    axes.set_xscale("symlog", linthresh=linear)
    axes.set_yscale("log")
    end = largest * 1.3
    _steps(axes, panel.front, end, color="#357", linewidth=1.6, label="front")
    _steps(axes, panel.greedy, end, color="#c63", linewidth=1.2, linestyle="--", label="greedy")
    for name, point in panel.baselines:
        number = names.index(name)
        axes.plot(
            point.memory / 1e6, point.nanoseconds / 1e6, MARKS[number % len(MARKS)],
            color=COLOURS[number % len(COLOURS)], markersize=5, linestyle="", label=name,
        )  # fmt: skip
    if panel.limit is not None:
        axes.axvline(panel.limit / 1e6, color="#777", linestyle=":", label="budget")
    if panel.chosen is not None:
        axes.plot(
            panel.chosen.memory / 1e6, panel.chosen.nanoseconds / 1e6, "o", color="#c33",
            markersize=9, fillstyle="none", markeredgewidth=2, linestyle="", label="chosen",
        )  # fmt: skip
    low = min(point.memory for point in points) / 1e6
    times = [point.nanoseconds / 1e6 for point in points]
    axes.set_xlim(low * 0.9, end)
    axes.set_xlabel("log scale" if low >= linear else f"log scale from {linear:.2g} on")
    axes.xaxis.set_minor_locator(
        SymmetricalLogLocator(base=10, linthresh=end * LINEAR_PART, subs=range(2, 10))
    )
    _label(axes.xaxis, low, end)
    _label(axes.yaxis, min(times), max(times))
    axes.tick_params(which="both", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _steps(axes: Axes, points: Sequence[Pair], end: float, **style: Any) -> None:
    if points:
        sizes = [point.memory / 1e6 for point in points]
        times = [point.nanoseconds / 1e6 for point in points]
        axes.step([*sizes, end], [*times, times[-1]], where="post", **style)


def _label(axis: Axis, low: float, high: float) -> None:
    """Label an axis with plain numbers; the wider its range, the fewer."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if high < 4 * low:
        axis.set_major_locator(MaxNLocator(5))
        axis.set_minor_locator(NullLocator())
        return
    labelled = "23468" if high < 20 * low else "25" if high < 500 * low else ""
    axis.set_minor_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in labelled else "")
    )
