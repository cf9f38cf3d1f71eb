"""Self-timed executions to draw: as many iterations as a page can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from operator import gt

from csdf.analysis.bounded import bound_channels, with_capacities
from csdf.analysis.execution import first_starts, repeated
from csdf.analysis.steady import SteadyState, recurrence
from csdf.cli.frame.long_work import shown
from csdf.draw.report.findings import Run
from csdf.draw.report.timeline import LARGEST_TIME
from csdf.errors import GaveUp
from csdf.model.graph import Graph
from csdf.model.indexed import IndexedGraph, indexed
from csdf.stopping import Stop

MOST_FIRINGS = 30_000  # of a run on the page
MOST_ACTORS = 2000  # rows of a schedule
MOST_ITERATIONS = 300  # iterations to wait for a state that recurs
ITERATIONS = 4  # shown where none recurs


def refusal(graph: Graph, repetitions: Mapping[str, int]) -> str | None:
    """Return why no schedule of the graph can be drawn; None if one can."""
    firings = sum(repetitions.values())
    if firings > MOST_FIRINGS:
        return f"one iteration has {firings} firings; the page draws at most {MOST_FIRINGS}"
    if len(graph.actors) > MOST_ACTORS:
        return (
            f"the graph has {len(graph.actors)} actors; the page draws at most {MOST_ACTORS} rows"
        )
    return None


def executed(
    graph: Graph,
    repetitions: Mapping[str, int],
    *,
    title: str,
    capacities: Mapping[str, int],
    stop: Stop,
) -> Run:
    """Return the transient part and two rounds of the steady part, or as much as there is room for.

    Raises GaveUp where times leave what a browser can count, or where the stop ends the run before
    anything is known.
    """
    bounded = with_capacities(graph, capacities)
    numbers, firings = indexed(bound_channels(bounded)), list(repetitions.values())
    found = _recurrence(numbers, firings, stop)
    wanted = ITERATIONS if found is None else found.transient + found.iterations
    listed = min(wanted, MOST_FIRINGS // sum(firings))
    part = stop.part(share=0.5, report=shown(f"executing {graph.name}"))
    starts = first_starts(numbers, repetitions, listed, budget=part)
    run = Run(
        title=title,
        graph=bounded,
        repetitions=repetitions,
        starts=starts,
        iterations=listed,
        transient=None if found is None else found.transient,
        steady=None if found is None else found.iterations,
        cycle=None if found is None else found.time,
        end=_last_end(bounded, starts),
    )
    if run.end > LARGEST_TIME:
        raise GaveUp(f"times pass {LARGEST_TIME}, the largest that a browser counts exactly")
    return _continued(run) if found is not None and listed == wanted and found.time else run


def _last_end(graph: Graph, starts: Mapping[str, tuple[int, ...]]) -> int:
    return max(
        start + actor.durations[index % actor.phases]
        for actor in graph.actors
        for index, start in enumerate(starts[actor.name])
    )


def _continued(run: Run) -> Run:
    """Repeat the steady part of every actor up to one time, so that none ends before the others."""
    settled, cycle = run.settled or 0, run.cycle or 1
    for rounds in (2, 1):
        end = settled + rounds * cycle
        starts = {
            name: tuple(takewhile(partial(gt, end), _endless(run, name))) for name in run.starts
        }
        if sum(map(len, starts.values())) <= MOST_FIRINGS:
            return replace(run, starts=starts, end=end)
    return run


def _endless(run: Run, name: str) -> Iterator[int]:
    """The start times of an actor, for ever."""
    transient = run.repetitions[name] * (run.transient or 0)
    return repeated(run.starts[name], transient=transient, period=run.cycle or 1)


def _recurrence(graph: IndexedGraph, firings: list[int], stop: Stop) -> SteadyState | None:
    """The steady part, or None where no state was seen again in time."""
    try:
        part = stop.part(share=0.4, report=shown("waiting for a state to recur"))
        return recurrence(graph, firings, limit=MOST_ITERATIONS, budget=part)
    except GaveUp:
        return None
