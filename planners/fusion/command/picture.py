"""Pareto front of memory and time as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from csdf.draw.picture import axis_unit, log_across, rendered


def front_picture(
    title: str,
    points: Sequence[tuple[int, int]],
    *,
    across: str,
    up: str = "time (ms)",
    label: str = "front",
    marks: Mapping[str, int | None] | None = None,
    suffix: str,
) -> str | bytes:
    """Return the picture of a front in the format of that suffix; the axis of bytes is logarithmic.

    points: bytes and nanoseconds. across, up: what the axes show. label: name of the front in the
    legend. marks: bytes of vertical lines, by name; None draws no line, and keeps the styles of the
    other lines. Raises UnwritableFile for another format.
    """
    unit = axis_unit(max((size for size, _ in points), default=0))
    sizes = [size / unit.bytes for size, _ in points]
    times = [nanoseconds / 10**6 for _, nanoseconds in points]
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10)
    axes.step(sizes, times, where="post", color="#357", linewidth=1.2)
    axes.plot(sizes, times, "o", color="#357", markersize=3, label=label)
    for number, (name, size) in enumerate((marks or {}).items()):
        style = ("--", ":")[number % 2]
        if size is not None:
            axes.axvline(
                size / unit.bytes, color="#777", linewidth=1.1, linestyle=style, label=name
            )
    axes.set_xlabel(f"{across} ({unit}), log scale")
    axes.set_ylabel(up)
    log_across(axes)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return rendered(figure, title, suffix)
