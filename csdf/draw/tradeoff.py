"""Memory against time as a picture: a front, a chosen point, and where other methods lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from csdf.draw.picture import rendered


class Place(NamedTuple):
    """A plan: bytes, and seconds for one frame of every network."""

    memory: int
    seconds: float
    label: str = ""


def tradeoff_picture(
    title: str,
    front: Sequence[Place],
    others: Sequence[Place],
    *,
    chosen: Place | None,
    bound: int,
    suffix: str,
) -> str | bytes:
    """Return the picture in the format of that suffix; bound: bytes that no plan is below.

    Raises UnwritableFile for another format.
    """
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel("memory (MB = 1,000,000 bytes)")
    axes.set_ylabel("time of a frame of every network (ms)")
    sizes = [place.memory / 1e6 for place in front]
    times = [place.seconds * 1e3 for place in front]
    outline = _outline(front)
    axes.step(*outline, where="post", color="#357", linewidth=1.2)
    axes.plot(sizes, times, "o", color="#357", markersize=3.5, label="front")
    for place in others:
        axes.plot(place.memory / 1e6, place.seconds * 1e3, "s", color="#888", markersize=5)
        axes.annotate(
            place.label,
            (place.memory / 1e6, place.seconds * 1e3),
            textcoords="offset points",
            xytext=(6, 4),
            fontsize=8,
        )
    if chosen is not None:
        axes.plot(
            chosen.memory / 1e6, chosen.seconds * 1e3, "o", color="#c33", markersize=8,
            fillstyle="none", markeredgewidth=2, label="chosen",
        )  # fmt: skip
    axes.axvline(bound / 1e6, color="#c33", linestyle=":", label="no plan has less")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8)
    return rendered(figure, title, suffix)


def _outline(front: Sequence[Place]) -> tuple[list[float], list[float]]:
    """Sizes and times of the places that no other one beats in both."""
    sizes: list[float] = []
    times: list[float] = []
    for place in sorted(front):
        if not times or place.seconds * 1e3 < times[-1]:
            sizes.append(place.memory / 1e6)
            times.append(place.seconds * 1e3)
    return sizes, times
