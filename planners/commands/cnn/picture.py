"""Memory of networks as bars: layer by layer and row by row, separate and in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from csdf.draw.picture import axis_unit, named_ticks, rendered


class MemoryBar(NamedTuple):
    """Bytes of one network by one method."""

    network: str
    label: str
    parameters: int
    buffers: int


def memory_picture(bars: Sequence[MemoryBar], suffix: str) -> str | bytes:
    """Return the picture in the format of that suffix: a bar each, buffers upon parameters.

    Raises UnwritableFile for another format.
    """
    return rendered(_figure(bars), "memory of networks", suffix)


def _figure(bars: Sequence[MemoryBar]) -> Figure:
    figure = Figure(figsize=(5.4, 1.2 + 0.42 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(bars))
    unit = axis_unit(max(bar.parameters + bar.buffers for bar in bars))
    parameters = [bar.parameters / unit.bytes for bar in bars]
    buffers = [bar.buffers / unit.bytes for bar in bars]
    axes.barh(places, parameters, color="#9ab", label="parameters")
    axes.barh(places, buffers, left=parameters, color="#357", label="buffers")
    for index, (low, more) in enumerate(zip(parameters, buffers, strict=True)):
        text = f" {low + more:.4g} ({more:.3g} in buffers)"
        axes.text(low + more, index, text, va="center", fontsize=9)
    axes.set_yticks(places, named_ticks(f"{bar.network}\n{bar.label}" for bar in bars), fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, max(low + more for low, more in zip(parameters, buffers, strict=True)) * 1.8)
    axes.set_xlabel(f"memory ({unit})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9)
    return figure
