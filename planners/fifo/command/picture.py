"""The cost of all FIFOs against the rate of a design, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from csdf.draw.picture import rendered
from csdf.status import Status
from csdf.units import rate_in_words
from planners.fifo.sizing import Sizing

HERTZ = 10**6  # in a megahertz
PROVED, OPEN = "proved the smallest", "found, down to the proved bound"


def front_picture(
    name: str, points: Sequence[Sizing], unit: str, megahertz: Fraction, suffix: str
) -> str | bytes:
    """Return the picture: the cost to the right, frames per second upwards, proved bounds as bars.

    unit: of the cost, in the plural. Raises UnwritableFile for a format other than pictures.
    """
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    costs = [point.cost for point in points]
    speeds = [float(megahertz * HERTZ / (point.period or 1)) for point in points]
    axes.step(costs, speeds, where="post", color="#357", linewidth=1.3)
    for point, speed in zip(points, speeds, strict=True):
        if is_open := point.status is not Status.OPTIMAL:
            axes.plot([point.lower_bound, point.cost], [speed, speed], color="#999", linewidth=1)
        axes.plot(
            [point.cost], [speed], "o", color="#357", markersize=4, mfc="white" if is_open else "#357",
            label=OPEN if is_open else PROVED,
        )  # fmt: skip
    axes.set_xlabel(f"{unit} in all FIFOs")
    axes.set_ylabel(f"frames per second at {megahertz} MHz")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.yaxis.set_major_formatter(lambda value, _: rate_in_words(Fraction(value)))
    axes.set_title(f"{name}: memory of FIFOs against rate", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    kinds = dict(zip(labels, handles, strict=True))  # each kind of point once
    axes.legend(kinds.values(), kinds.keys(), frameon=False, fontsize=9, loc="upper left")
    return rendered(figure, f"{unit} against rate", suffix)
