"""The period over a parameter as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from csdf.analysis.whatif.capacity_steps import CapacitySteps
from csdf.analysis.whatif.parameter import Parameter
from csdf.analysis.whatif.parametric import ParametricPeriod
from csdf.analysis.whatif.regions import ParametricRegions
from csdf.draw.picture import rendered

COLOURS = ("#357", "#c63", "#393", "#838", "#993", "#399", "#933", "#555")
NAMES = 2  # most actors of a cycle that are named


def parametric_picture(
    name: str, found: ParametricPeriod | ParametricRegions | CapacitySteps, suffix: str
) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    if isinstance(found, ParametricPeriod):
        _draw_pieces(axes, found)
    elif isinstance(found, ParametricRegions):
        _draw_regions(axes, found)
    else:
        _draw_steps(axes, found)
    axes.set_title(f"{name}: {axes.get_title()}")
    return rendered(figure, name, suffix)


def _draw_pieces(axes: Axes, found: ParametricPeriod) -> None:
    pieces, today = found.pieces, found.parameter.today
    last = max(pieces[-1].start, today)
    end = last + max(Fraction(1), (last - pieces[0].start) / 3)
    for number, one in enumerate(pieces):
        stop = end if one.end is None else one.end
        axes.plot(
            [float(one.start), float(stop)],
            [float(one.period(one.start)), float(one.period(stop))],
            color=COLOURS[number % len(COLOURS)],
            linewidth=2,
            label=_named(() if one.cycle is None else one.cycle.actors),
        )
    axes.axvline(float(today), color="#888", linestyle=":")
    axes.plot([float(today)], [float(found.period(today))], "o", color="#333", label="today")
    axes.set_xlabel(_axis(found.parameter))
    axes.set_ylabel("period")
    axes.set_title("period, and the cycle that sets it")
    axes.legend(fontsize=8)


def _axis(parameter: Parameter) -> str:
    """Return what a parameter changes: a time that is added, which is 0 today, or a factor."""
    return f"{'factor of' if parameter.today else 'time added to'} {parameter.name}"


def _draw_regions(axes: Axes, found: ParametricRegions) -> None:
    for number, region in enumerate(found.regions):
        x, y = ([float(corner[axis]) for corner in region.corners] for axis in (0, 1))
        colour = COLOURS[number % len(COLOURS)]
        label = _named(() if region.cycle is None else region.cycle.actors)
        axes.fill(x, y, color=colour, alpha=0.3, label=label)
    first, second = found.parameters
    axes.plot([float(first.today)], [float(second.today)], "o", color="#333", label="today")
    axes.set_xlabel(_axis(first))
    axes.set_ylabel(_axis(second))
    axes.set_title("which cycle sets the period")
    axes.legend(fontsize=8)


def _draw_steps(axes: Axes, found: CapacitySteps) -> None:
    sizes = [one.capacity for one in found.steps]
    periods = [float(one.period) for one in found.steps]
    end = sizes[-1] + max(1, (sizes[-1] - sizes[0]) // 5)
    axes.step([*sizes, end], [*periods, periods[-1]], where="post", color=COLOURS[0])
    axes.set_xlabel(f"capacity of {found.channel}")
    axes.set_ylabel("period")
    axes.set_title("period over capacity")


def _named(actors: Sequence[str]) -> str:
    listed = ", ".join(actors[:NAMES])
    return listed if len(actors) <= NAMES else f"{listed} and {len(actors) - NAMES} more"
