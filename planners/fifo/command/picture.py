"""Bits of all FIFOs against the rate of a design, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.figure import Figure

from csdf.draw.picture import rendered
from planners.fifo.sizing import Sizing

HERTZ = 10**6  # of a megahertz


def front_picture(
    name: str, points: Sequence[Sizing], labels: Sequence[str], megahertz: Fraction, suffix: str
) -> str | bytes:
    """Return the picture: bits to the right, frames per second upwards, proved bounds as bars.

    Raises UnwritableFile for another format than that of a picture.
    """
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    bits = [point.bits for point in points]
    speeds = [float(megahertz * HERTZ / (point.period or 1)) for point in points]
    axes.step(bits, speeds, where="post", color="#357", linewidth=1.3)
    for point, speed in zip(points, speeds, strict=True):
        axes.plot([point.lower_bound, point.bits], [speed, speed], color="#999", linewidth=1)
    axes.plot(bits, speeds, "o", color="#357", markersize=4, label="found")
    axes.plot([], [], color="#999", label="down to the proved bound")
    axes.set_xlabel("bits in all FIFOs")
    axes.set_ylabel(f"frames per second at {megahertz} MHz")
    axes.set_title(f"{name}: {labels[-1]}" if labels else name, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return rendered(figure, "bits against rate", suffix)
