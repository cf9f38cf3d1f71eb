"""RAM against work, for the ways that `csdf fit` knows; and a plan over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from cnn2csdf.network import Network
from csdf.draw.picture import rendered
from planners.arena.command.picture import Box, arena_picture
from planners.streaming.given.lifetimes import lifetimes
from planners.streaming.ways import Fit

COLOURS = ("#357", "#c63", "#585", "#85a", "#999", "#a33")


def plan_picture(networks: Sequence[Network], fits: Sequence[Fit], suffix: str) -> str | bytes:
    """Return plans over time: the bytes of each buffer, while firings touch it.

    A frame of each network, one behind the other. Raises UnwritableFile for another format than that
    of a picture.
    """
    boxes: list[Box] = []
    for network, one in zip(networks, fits, strict=True):
        begin = max((box.end for box in boxes), default=0)
        for life in lifetimes(network, one.ways[0].plan):
            boxes.append(Box(*life)._replace(start=begin + life.start, end=begin + life.end))
    ram = max(one.ways[0].plan.arena_bytes for one in fits)
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


def fit_picture(fits: Sequence[Fit], suffix: str) -> str | bytes:
    """Return the picture: a line of trade-offs for each network, with its limit.

    Raises UnwritableFile for another format than that of a picture.
    """
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, one in enumerate(fits):
        colour = COLOURS[number % len(COLOURS)]
        ways = sorted(one.ways, key=lambda way: way.ram_bytes)
        sizes = [way.ram_bytes / 1000 for way in ways]
        works = [float(way.work) for way in ways]
        axes.plot(sizes, works, "o", color=colour, markersize=4, label=one.network)
        best: list[float] = []
        for work in works:
            best.append(min(work, best[-1]) if best else work)
        axes.step(sizes, best, where="post", color=colour, linewidth=1.2)
        if one.ram is not None:
            axes.axvline(one.ram / 1000, color="#777", linewidth=1.1, linestyle="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    axes.set_xlabel("RAM (kB = 1,000 bytes, log scale)")
    axes.set_ylabel("work, of the network computed once")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return rendered(figure, "RAM against work", suffix)
