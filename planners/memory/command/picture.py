"""RAM against MACs, for the methods that `csdf fit` knows; and a plan over time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnn2csdf.network import Network
from csdf.draw.picture import rendered
from csdf.units import bytes_in_words
from planners.arena.command.picture import Box, arena_picture
from planners.memory.answer import Fit
from planners.memory.command.lifetimes import firings_and_lives

LEAST_SPAN = Fraction(1, 10)  # of the axis of work, so that 1 alone is no magnified axis
NARROW = 4  # ends of the axis of RAM this far apart have all digits beside their marks
COLOURS = ("#357", "#c63", "#585", "#85a", "#999", "#a33")


def plan_picture(networks: Sequence[Network], fits: Sequence[Fit], suffix: str) -> str | bytes:
    """Return plans over time: the bytes of each buffer, while firings touch it.

    A frame of each network, one behind the other. Raises UnwritableFile for another format than that
    of a picture.
    """
    boxes: list[Box] = []
    for network, one in zip(networks, fits, strict=True):
        begin = max((box.end for box in boxes), default=0)
        for life in firings_and_lives(network, one.methods[0].plan)[1]:
            boxes.append(Box(*life)._replace(start=begin + life.start, end=begin + life.end))
    ram = max(one.methods[0].plan.arena_bytes for one in fits)
    names = ", ".join(one.network for one in fits)
    title = f"{names}: {ram} bytes over the firings of a frame"
    return arena_picture(
        title if len(fits) == 1 else f"{title} of each",
        boxes,
        bound=max(one.lower_bound for one in fits),
        capacity=fits[0].ram,
        suffix=suffix,
        across="firings of a frame",
    )


def _draw_ways(axes: Axes, found: Fit, colour: str) -> None:
    """Draw the ways of a network as dots, and the least work that fits as steps."""
    ways = sorted(found.methods, key=lambda way: way.ram_bytes)
    sizes = [way.ram_bytes / 1000 for way in ways]
    works = [float(way.mac_ratio) for way in ways]
    axes.plot(sizes, works, "o", color=colour, markersize=4, label=found.network, clip_on=False)
    best = list(accumulate(works, min))
    axes.step(sizes, best, where="post", color=colour, linewidth=1.2)


def _mark_sizes(axes: Axes) -> None:
    """Make the axis of RAM logarithmic, with numbers that are far enough from one another."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    digits = "123456789" if high < NARROW * low else "25"
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(
        lambda value, _: f"{value:g}" if f"{value:e}"[0] in digits else ""
    )
    axes.set_xlabel("RAM (kB = 1,000 bytes, log scale)")


def work_axis(works: Sequence[Fraction]) -> tuple[float, float]:
    """Return the ends of the axis of work: it begins with the least, below which there is none.

    That is 1, the network computed once, or 0 where nothing is multiplied.
    """
    least, most = min(Fraction(1), *works), max(works)
    return float(least), float(max(most + (most - least) / 20, least + LEAST_SPAN))


def fit_picture(fits: Sequence[Fit], suffix: str) -> str | bytes:
    """Return the picture: a line of trade-offs for each network, with its limit.

    Raises UnwritableFile for another format than that of a picture.
    """
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, one in enumerate(fits):
        _draw_ways(axes, one, COLOURS[number % len(COLOURS)])
    limits = [one.ram for one in fits if one.ram is not None]
    if limits:  # one option: the same for all
        label = f"--ram: {bytes_in_words(limits[0])}"
        axes.axvline(limits[0] / 1000, color="#777", linewidth=1.1, linestyle="--", label=label)
    axes.set_ylim(*work_axis([way.mac_ratio for one in fits for way in one.methods]))
    _mark_sizes(axes)
    axes.set_ylabel("MACs (1: the network computed once)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return rendered(figure, "RAM against MACs", suffix)
