"""The storage/throughput front as a picture."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from csdf.draw.picture import rendered
from csdf.model.fifo_memory import UNITS
from csdf.search.pareto import ParetoFront


def front_picture(name: str, front: ParetoFront, unit: str, suffix: str) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it.

    Size to the right, throughput upwards; points above the steps are proved impossible.
    Raises UnwritableFile for another format.
    """
    return rendered(_figure(name, front, unit), name, suffix)


def _figure(name: str, front: ParetoFront, unit: str) -> Figure:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(f"{name}: storage against throughput")
    axes.set_xlabel(f"storage size ({UNITS.get(unit, unit)})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # there is no half of a token
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.set_ylabel("throughput (iterations per time unit)")
    points = [(point.size, float(point.throughput or 0)) for point in front.points]
    if not points:
        axes.text(0.5, 0.5, str(front.reason), ha="center", transform=axes.transAxes)
        return figure
    sizes, speeds = [size for size, _ in points], [speed for _, speed in points]
    end = sizes[-1] if front.is_complete else max(front.lower_bound, sizes[-1])
    margin = max(1.0, (end - sizes[0]) * 0.06)
    top = max(speeds) * 1.12
    outline_x = [sizes[0] - margin, sizes[0], *sizes, end + (margin if front.is_complete else 0)]
    outline_y = [0.0, 0.0, *speeds, speeds[-1]]
    axes.fill_between(
        outline_x, outline_y, top, step="post", color="#c33", alpha=0.10, label="impossible"
    )
    axes.fill_between(
        outline_x, 0, outline_y, step="post", color="#357", alpha=0.12, label="dominated"
    )
    axes.step(outline_x[1:], outline_y[1:], where="post", color="#357", linewidth=1.4)
    axes.plot(sizes, speeds, "o", color="#357", markersize=4, label="front")
    for place, (size, speed) in {0: points[0], len(points) - 1: points[-1]}.items():
        axes.annotate(
            f"({size}, period {front.points[place].period})",
            (size, speed),
            textcoords="offset points",
            xytext=(8, -12) if place == 0 else (-8, 8),
            ha="left" if place == 0 else "right",
            fontsize=8,
        )
    if not front.is_complete:
        axes.axvline(end, color="#888", linestyle=":", label="not searched beyond")
    axes.set_xlim(outline_x[0], end + margin)
    axes.set_ylim(0, top)
    axes.legend(loc="lower right", fontsize=8)
    return figure
