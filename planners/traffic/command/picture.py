"""DRAM traffic as pictures: bars of layers and groups, and lines over the size of the buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from csdf.draw.picture import axis_unit, named_ticks, rendered
from planners.traffic.command.main import TITLES

COLOURS = {"input": "#357", "weights": "#9ab", "output": "#c63", "halo": "#a33"}
LINES = {"none": "#c63", "pairs": "#585", "groups": "#357"}


class TrafficBar(NamedTuple):
    """Bytes that one layer or group moves, and the least it could."""

    name: str
    input: int
    weights: int
    output: int
    halo: int
    bound: int


def bars_picture(title: str, bars: Sequence[TrafficBar], suffix: str) -> str | bytes:
    """Return a bar for each layer or group, with its lower bound.

    Raises UnwritableFile for another format.
    """
    figure = Figure(figsize=(5.4, 1.8 + 0.24 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(bars))
    low = [0.0] * len(bars)
    for kind, colour in COLOURS.items():
        sizes = [getattr(bar, kind) / 1e6 for bar in bars]
        if any(sizes):
            axes.barh(places, sizes, left=low, color=colour, label=kind, height=0.7)
        low = [at + more for at, more in zip(low, sizes, strict=True)]
    bounds = [bar.bound / 1e6 for bar in bars]
    axes.plot(bounds, places, "|", color="#000", markersize=7, label="lower bound")
    axes.set_yticks(places, named_ticks(bar.name for bar in bars), fontsize=9)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, max((*low, *bounds)) * 1.05)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("DRAM traffic (MB = 1,000,000 bytes)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return rendered(figure, title, suffix)


def sweep_picture(
    title: str, buffers: Sequence[int], series: Mapping[str, Sequence[int]], bound: int, suffix: str
) -> str | bytes:
    """Return the traffic over the buffer, a line for each --fusion, above the lower bound.

    Raises UnwritableFile for another format.
    """
    figure = Figure(figsize=(5.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    unit = axis_unit(max(max(sizes) for sizes in series.values()))
    for fusion, sizes in series.items():
        axes.plot(
            [size / 1024 for size in buffers],
            [size / unit.bytes for size in sizes],
            "o-",
            markersize=3.5,
            linewidth=1.4,
            color=LINES[fusion],
            label=TITLES[fusion],
        )
    axes.axhline(
        bound / unit.bytes, color="#777", linewidth=1.1, linestyle="--", label="lower bound"
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks([size / 1024 for size in buffers])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, max(max(sizes) for sizes in series.values()) / unit.bytes * 1.08)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("buffer (KiB, log scale)")
    axes.set_ylabel(f"DRAM traffic ({unit})")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return rendered(figure, title, suffix)
