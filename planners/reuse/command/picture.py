"""Memory against time as a picture: a front, a chosen point, and the points of other methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure

from csdf.draw.picture import axis_unit, rendered
from csdf.search.pareto import improving

MARKERS = "sDv^<>"  # of other methods, one each
BEHIND = "faster for one network only"  # of a front, but for all networks no trade-off
MARGIN = 0.08  # of the range, on both sides


MemoryTime = tuple[int, float]
"""A plan: bytes, and seconds for one frame of every network."""


def tradeoff_picture(
    title: str,
    front: Sequence[MemoryTime],
    other_methods: Mapping[str, MemoryTime],
    *,
    chosen: MemoryTime | None,
    bound: int,
    suffix: str,
) -> str | bytes:
    """Return the picture in the format of that suffix.

    bound: a lower bound on the bytes of every plan. Raises UnwritableFile for another format.
    """
    plans = [*front, *other_methods.values()]
    unit = axis_unit(max(memory for memory, _ in plans))
    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(f"memory ({unit})")
    axes.set_ylabel("time of a frame of every network (ms)")
    outline = improving(front, lambda plan: plan)  # best in memory or in time
    axes.step(*_axis_values(outline, unit.bytes), where="post", color="#357", linewidth=1.2)
    behind = [plan for plan in front if plan not in outline]
    for points, style, label in ((outline, "full", "front"), (behind, "none", BEHIND)):
        if points:
            axes.plot(
                *_axis_values(points, unit.bytes), "o", color="#357", markersize=3.5,
                fillstyle=style, linestyle="", label=label,
            )  # fmt: skip
    for (label, plan), marker in zip(other_methods.items(), cycle(MARKERS), strict=False):
        values = _axis_values([plan], unit.bytes)
        axes.plot(*values, marker, color="#888", markersize=5, label=label, linestyle="")
    if chosen is not None:
        axes.plot(
            *_axis_values([chosen], unit.bytes), "o", color="#c33", markersize=8,
            fillstyle="none", markeredgewidth=2, label="chosen, one arena",
        )  # fmt: skip
    axes.axvline(bound / unit.bytes, color="#c33", linestyle=":", label="no plan has less")
    shown = plans if chosen is None else [*plans, chosen]
    axes.set_xlim(_limits([bound / unit.bytes, *_axis_values(shown, unit.bytes)[0]]))
    axes.set_ylim(_limits(_axis_values(shown, unit.bytes)[1]))
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return rendered(figure, title, suffix)


def _axis_values(plans: Sequence[MemoryTime], unit: int) -> tuple[list[float], list[float]]:
    """Sizes in the unit, times in milliseconds."""
    return [memory / unit for memory, _ in plans], [seconds * 1e3 for _, seconds in plans]


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis with all values, not at its edge; from 0 where that is not far away."""
    least, most = min(values), max(values)
    margin = MARGIN * (most - least or most or 1)
    return (0.0 if least < most / 4 else least - margin), most + margin
