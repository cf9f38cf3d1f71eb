"""Firings over time, a row for each processor."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import colormaps
from matplotlib.figure import Figure

from csdf.analysis.mapping.execution import MappedExecution
from csdf.draw.picture import named_ticks, rendered
from csdf.model.schedule import Firing

MOST_BARS = 3_000  # later firings are left out
MOST_NAMED = 20  # actors in the legend, one colour each


def gantt_picture(title: str, execution: MappedExecution, suffix: str) -> str | bytes:
    """Return the picture in the format of that suffix: png, pdf, svg, or a page that holds it.

    Time to the right, a row for each processor and one for what runs on none. Raises UnwritableFile
    for another format.
    """
    return rendered(_figure(title, execution), title, suffix)


def schedule_picture(
    title: str, firings: Sequence[Firing], actors: Sequence[str], suffix: str
) -> str | bytes:
    """Return a schedule over time, a row for each actor; firings that overlap are darker.

    Raises UnwritableFile for a suffix that is no format of pictures.
    """
    shown = [one for one in firings if one.end > one.start][:MOST_BARS]
    figure = Figure(figsize=(8, 1.2 + 0.3 * len(actors)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel("time (units of the graph)")
    for row, actor in enumerate(actors):
        mine = [one for one in shown if one.actor == actor]
        axes.broken_barh(
            _spans(mine), (row - 0.38, 0.76), alpha=0.7, edgecolors="white", linewidth=0.5
        )
    axes.set_yticks(range(len(actors)), named_ticks(actors))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    return rendered(figure, title, suffix)


def _figure(title: str, execution: MappedExecution) -> Figure:
    cores = list(dict.fromkeys(execution.cores.values()))
    shown = [one for one in execution.firings if one.end > one.start][:MOST_BARS]
    is_free = any(one.actor not in execution.cores for one in shown)
    rows = [*cores, *(["transfers and others"] if is_free else [])]
    figure = Figure(figsize=(8, 1.4 + 0.45 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel("time")
    actors = list(dict.fromkeys(one.actor for one in shown))
    palette = colormaps["tab20"]
    for number, actor in enumerate(actors):
        mine = [one for one in shown if one.actor == actor]
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
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    return figure


def _complete_until(firings: Sequence[Firing]) -> float:
    """Return the time before which no firing is left out: an actor's next one comes after its last."""
    last: dict[str, float] = {}
    for one in firings:
        last[one.actor] = max(last.get(one.actor, 0.0), float(one.end))
    return min(last.values(), default=1.0)


def _spans(firings: Sequence[Firing]) -> list[tuple[float, float]]:
    return [(float(one.start), float(one.end - one.start)) for one in firings]
