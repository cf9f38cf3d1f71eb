"""Why no storage distribution meets a requirement: for the graph itself, or for given capacities."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from csdf.errors import counted
from csdf.model.graph import Channel, Graph
from csdf.outcome import Reason, Why, because
from csdf.search.evaluator import Evaluator
from csdf.search.exploration import Sufficient
from csdf.search.variables import Choice, least_capacity


class GraphWhy(Why):
    """Why no storage distribution meets a requirement."""

    DEADLOCKS = "even without bounds the graph deadlocks"
    IS_SLOW = "even without bounds the graph has period {period}"
    NOT_PERIODIC = "no schedule repeats {copies} of each actor; others may still exist"
    PERIODIC_IS_SLOW = (
        "schedules that repeat {copies} of each actor have period {period}; others may be faster"
    )
    KEPT_DEADLOCKS = "with {kept}, and no other bound, the graph deadlocks{short}"
    KEPT_IS_SLOW = "with {kept}, and no other bound, the graph has period {period}{short}"


class Capacities(tuple[tuple[str, int], ...]):
    """Channels with the capacities they have; as text, a part of a sentence."""

    def __str__(self) -> str:
        return " and ".join(f"{name!r} at {capacity}" for name, capacity in self)


class Needs(tuple[tuple[str, int], ...]):
    """Channels with the least capacities they need; as text, the end of a sentence."""

    def __str__(self) -> str:
        needs = " and ".join(f"{name!r} needs at least {need}" for name, need in self)
        return f"; {needs}" if needs else ""


def refusal(
    graph: Graph, choice: Choice, best: Fraction | None, is_sufficient: Sufficient
) -> Reason:
    """Return why even `best` is not sufficient.

    best: the period with the capacities that the choice keeps and no others, None for a deadlock.
    Where it would suffice without these too, they are named, and what they would need at least.
    """
    if choice.copies is not None:
        copies = counted(choice.copies, "cycle")
        if best is None:
            return because(GraphWhy.NOT_PERIODIC, copies=copies)
        return because(GraphWhy.PERIODIC_IS_SLOW, copies=copies, period=best * graph.time_unit)
    kept = _kept(graph, choice)
    if kept:
        unbounded = _unbounded_period(graph)
        if is_sufficient(unbounded):
            return _of_kept(kept, best, graph.time_unit)
        best = unbounded
    if best is None:
        return because(GraphWhy.DEADLOCKS)
    return because(GraphWhy.IS_SLOW, period=best * graph.time_unit)


def _of_kept(kept: list[Channel], best: Fraction | None, time_unit: Fraction) -> Reason:
    """Return what the graph does with the capacities that are kept, as values of the reason."""
    values = {
        "kept": Capacities((one.name, one.capacity or 0) for one in kept),
        "short": _short(kept),
    }
    if best is None:
        return because(GraphWhy.KEPT_DEADLOCKS, **values)
    return because(GraphWhy.KEPT_IS_SLOW, period=best * time_unit, **values)


def _kept(graph: Graph, choice: Choice) -> list[Channel]:
    """The channels with a capacity that is not searched: fixed, or the graph's own."""
    fixed = choice.fixed or {}
    given = [
        replace(graph.channel(name), capacity=fixed.get(name, graph.channel(name).capacity))
        for name in (*fixed, *choice.excluded)
    ]
    return [
        one
        for one in given
        if one.capacity is not None and (choice.with_self_loops or not one.is_self_loop)
    ]


def _unbounded_period(graph: Graph) -> Fraction | None:
    free = tuple(replace(channel, capacity=None) for channel in graph.channels)
    return Evaluator(replace(graph, channels=free, origin=None), ()).evaluate(()).period


def _short(kept: list[Channel]) -> Needs:
    """Return the least needs of channels that have less: no distribution at all runs with so little."""
    least = [(one, least_capacity(one)) for one in kept]
    return Needs((one.name, need) for one, need in least if need > (one.capacity or 0))
