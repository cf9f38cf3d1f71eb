"""Pareto front of storage and throughput on axes of Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csdf.arguments import public
from csdf.search.pareto import ParetoFront

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICK_STEPS = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]


@public
def plot_front(axes: Axes, front: ParetoFront) -> None:
    """Draw a front on axes of Matplotlib: storage size to the right, throughput upwards.

    Points above the steps are proved impossible.
    """
    axes.set_xlabel("storage size (tokens)")
    # There is no half of a token. The steps are those of MaxNLocator, which is not imported so that
    # `from csdf import *` works without Matplotlib.
    axes.locator_params(axis="x", integer=True, nbins=10, steps=TICK_STEPS)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.set_ylabel("throughput (iterations per time unit)")
    points = [(point.size, float(point.throughput or 0)) for point in front.points]
    if not points:
        axes.text(0.5, 0.5, str(front.reason), ha="center", transform=axes.transAxes)
        return
    sizes, speeds = [size for size, _ in points], [speed for _, speed in points]
    end = sizes[-1] if front.is_complete else max(front.lower_bound, sizes[-1])
    margin = max(1.0, (end - sizes[0]) * 0.06)
    top = max(speeds) * 1.12
    outline_x = [sizes[0] - margin, sizes[0], *sizes, end + (margin if front.is_complete else 0)]
    outline_y = [0.0, 0.0, *speeds, speeds[-1]]
    region = axes.fill_between(
        outline_x, outline_y, top, step="post", color="#c33", alpha=0.16, label="impossible"
    )
    # Hatched, so that both regions differ without colours, too.
    region.set(facecolor="none", hatch="//", linewidth=0)
    axes.fill_between(
        outline_x, 0, outline_y, step="post", color="#357", alpha=0.12, label="dominated"
    )
    axes.step(outline_x[1:], outline_y[1:], where="post", color="#357", linewidth=1.4)
    axes.plot(sizes, speeds, "o", color="#357", markersize=4, label="front")
    for index, (size, speed) in {0: points[0], len(points) - 1: points[-1]}.items():
        axes.annotate(
            f"({size}, period {front.points[index].period})",
            (size, speed),
            textcoords="offset points",
            xytext=(8, -12) if index == 0 else (-8, 8),
            ha="left" if index == 0 else "right",
            fontsize=9,
        )
    if not front.is_complete:
        axes.axvline(end, color="#888", linestyle=":", label="not searched beyond")
    axes.set_xlim(outline_x[0], end + margin)
    axes.set_ylim(0, top)
    axes.legend(loc="lower right", fontsize=9)
