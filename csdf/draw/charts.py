"""Charts: the storage/throughput front, firings on processors, and the period over a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from csdf.analysis.capacity_steps import CapacitySteps
from csdf.analysis.cycle_lines import Parameter
from csdf.analysis.parametric import ParametricPeriod
from csdf.analysis.parametric_regions import ParametricRegions
from csdf.draw.front import plot_front
from csdf.draw.picture import named_ticks, rendered
from csdf.mapping.execution import MappedExecution
from csdf.model.schedule import Firing
from csdf.parameters.sweep import Sweep
from csdf.search.memory_cost import UNITS
from csdf.search.pareto import ParetoFront
from csdf.units import listed_up_to


def front_picture(name: str, front: ParetoFront, unit: str, suffix: str) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it.

    Size to the right, throughput upwards; points above the steps are proved impossible.
    Raises UnwritableFile for another format.
    """
    return rendered(_figure(name, front, unit), name, suffix)


def _figure(name: str, front: ParetoFront, unit: str) -> Figure:
    figure = Figure(figsize=(5.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    plot_front(axes, front)
    axes.set_title(f"{name}: storage against throughput")
    axes.set_xlabel(f"storage size ({UNITS.get(unit, unit)})")
    return figure


PERIOD = "period (time units)"
MOST_BARS = 3_000  # later firings are left out
MOST_NAMED = 20  # actors in the legend, one colour each
LEGEND_COLUMNS = 4


def gantt_picture(title: str, execution: MappedExecution, suffix: str) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it.

    Time to the right, a row for each processor and one for what runs on none. Raises UnwritableFile
    for another format.
    """
    return rendered(_gantt_figure(title, execution), title, suffix)


def schedule_picture(
    title: str, firings: Sequence[Firing], actors: Sequence[str], suffix: str
) -> str | bytes:
    """Return a schedule over time, a row for each actor; firings that overlap are darker.

    Raises UnwritableFile for a suffix that is no format of pictures.
    """
    shown = [firing for firing in firings if firing.end > firing.start][:MOST_BARS]
    figure = Figure(figsize=(5.6, 1.2 + 0.3 * len(actors)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel("time (time units)")
    for row, actor in enumerate(actors):
        mine = [firing for firing in shown if firing.actor == actor]
        axes.broken_barh(
            _spans(mine), (row - 0.38, 0.76), alpha=0.7, edgecolors="white", linewidth=0.5
        )
    axes.set_yticks(range(len(actors)), named_ticks(actors))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    return rendered(figure, title, suffix)


def _gantt_figure(title: str, execution: MappedExecution) -> Figure:
    cores = list(dict.fromkeys(execution.cores.values()))
    shown = [firing for firing in execution.firings if firing.end > firing.start][:MOST_BARS]
    is_free = any(firing.actor not in execution.cores for firing in shown)
    rows = [*cores, *(["transfers and others"] if is_free else [])]
    actors = list(dict.fromkeys(firing.actor for firing in shown))
    legend = 0.2 * -(-min(len(actors), MOST_NAMED) // LEGEND_COLUMNS)
    figure = Figure(figsize=(5.6, 1.4 + 0.45 * len(rows) + legend), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel("time (time units)")
    palette = colormaps["tab20"]
    for number, actor in enumerate(actors):
        mine = [firing for firing in shown if firing.actor == actor]
        row = rows.index(execution.cores.get(actor, rows[-1]))
        axes.broken_barh(
            _spans(mine),
            (row - 0.38, 0.76),
            facecolors=palette(number % palette.N),
            edgecolors="white",
            linewidth=0.5,
            label=actor if number < MOST_NAMED else None,
        )
    axes.set_yticks(range(len(rows)), named_ticks(rows))
    axes.invert_yaxis()
    axes.set_xlim(0, _complete_until(shown))
    figure.legend(loc="outside lower center", ncols=LEGEND_COLUMNS, fontsize=9, frameon=False)
    return figure


def _complete_until(firings: Sequence[Firing]) -> float:
    """Return the time before which no firing is left out: an actor's next one comes after its last."""
    last: dict[str, float] = {}
    for firing in firings:
        last[firing.actor] = max(last.get(firing.actor, 0.0), float(firing.end))
    return min(last.values(), default=1.0)


def _spans(firings: Sequence[Firing]) -> list[tuple[float, float]]:
    return [(float(firing.start), float(firing.end - firing.start)) for firing in firings]


COLOURS = ("#357", "#c63", "#393", "#838", "#993", "#399", "#933", "#555")
NAMES = 2  # maximum actors of a cycle that are named


def parametric_picture(
    name: str, found: ParametricPeriod | ParametricRegions | CapacitySteps, suffix: str
) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it."""
    figure = Figure(figsize=(5.4, 4.0), layout="constrained")
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
    pieces, today = found.segments, found.parameter.nominal
    last = max(pieces[-1].start, today)
    end = last + max(Fraction(1), (last - pieces[0].start) / 3)
    for number, piece in enumerate(pieces):
        stop = end if piece.end is None else piece.end
        axes.plot(
            [float(piece.start), float(stop)],
            [float(piece.period(piece.start)), float(piece.period(stop))],
            color=COLOURS[number % len(COLOURS)],
            linewidth=2,
            label=listed_up_to(() if piece.cycle is None else piece.cycle.actors, NAMES),
        )
    axes.axvline(float(today), color="#888", linestyle=":")
    axes.plot([float(today)], [float(found.period(today))], "o", color="#333", label="nominal")
    axes.set_xlabel(_axis(found.parameter))
    axes.set_ylabel(PERIOD)
    axes.set_title("period, and the cycle that sets it")
    axes.legend(fontsize=9)


def _axis(parameter: Parameter) -> str:
    """Return what a parameter changes: a time that is added, which is 0 today, or a factor."""
    if parameter.nominal:
        return f"factor of {parameter.name}"
    return f"time added to {parameter.name} (time units)"


def _draw_regions(axes: Axes, found: ParametricRegions) -> None:
    for number, region in enumerate(found.regions):
        x, y = ([float(corner[axis]) for corner in region.corners] for axis in (0, 1))
        colour = COLOURS[number % len(COLOURS)]
        label = listed_up_to(() if region.cycle is None else region.cycle.actors, NAMES)
        axes.fill(x, y, color=colour, alpha=0.3, label=label)
    first, second = found.parameters
    axes.plot([float(first.nominal)], [float(second.nominal)], "o", color="#333", label="nominal")
    axes.set_xlabel(_axis(first))
    axes.set_ylabel(_axis(second))
    axes.set_title("which cycle sets the period")
    axes.legend(fontsize=9)


def _draw_steps(axes: Axes, found: CapacitySteps) -> None:
    sizes = [step.capacity for step in found.steps]
    periods = [float(step.period) for step in found.steps]
    end = sizes[-1] + max(1, (sizes[-1] - sizes[0]) // 5)
    axes.step([*sizes, end], [*periods, periods[-1]], where="post", color=COLOURS[0])
    axes.set_xlabel(f"capacity of {found.channel} (tokens)")
    axes.set_ylabel(PERIOD)
    axes.set_title("period over capacity")


def sweep_picture(found: Sweep, suffix: str) -> str | bytes:
    """Return the period and the least storage over the values of the parameter that varies."""
    (name,) = (
        parameter
        for parameter in found.parameters
        if len({i.values[parameter] for i in found.instances}) > 1
    )
    figure = Figure(figsize=(5.4, 4.0), layout="constrained")
    rows = (
        (PERIOD, [(i.values[name], i.period) for i in found.instances]),
        ("least storage (tokens)", [(i.values[name], i.size) for i in found.instances]),
    )
    drawn = [(label, [(x, y) for x, y in points if y is not None]) for label, points in rows]
    drawn = [(label, points) for label, points in drawn if points] or [(PERIOD, [])]
    for index, (label, points) in enumerate(drawn):
        axes = figure.add_subplot(len(drawn), 1, index + 1)
        axes.plot(
            [float(x) for x, _ in points], [float(y) for _, y in points],
            "o-", color=COLOURS[index], markersize=3, linewidth=1,
        )  # fmt: skip
        axes.set_ylabel(label)
        axes.set_xlabel(name)
        if not index:
            axes.set_title(f"{found.name}: over {name}")
    return rendered(figure, found.name, suffix)
