"""Why no storage distribution meets a requirement: for the graph itself, or for given capacities."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from csdf.model.graph import Channel, Graph
from csdf.search.bounds import least_capacity
from csdf.search.evaluator import Evaluator
from csdf.search.exploration import Sufficient
from csdf.search.variables import Choice


def refusal(graph: Graph, choice: Choice, best: Fraction | None, is_sufficient: Sufficient) -> str:
    """Return in words why even `best` is not sufficient.

    best: the period with the capacities that the choice keeps and no others, None for a deadlock.
    Where it would suffice without these too, they are named, and what they would need at least.
    """
    kept = _kept(graph, choice)
    if kept:
        unbounded = _unbounded_period(graph)
        if is_sufficient(unbounded):
            listed = " and ".join(f"{one.name!r} at {one.capacity}" for one in kept)
            does = _does(best, graph.time_unit)
            return f"with {listed}, and no other bound, the graph {does}{_needs(kept)}"
        best = unbounded
    return f"even without bounds the graph {_does(best, graph.time_unit)}"


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


def _does(period: Fraction | None, time_unit: Fraction) -> str:
    return "deadlocks" if period is None else f"has period {period * time_unit}"


def _needs(kept: list[Channel]) -> str:
    """What channels need at least that have less: no distribution at all runs with so little."""
    least = [(one, least_capacity(one)) for one in kept]
    short = [
        f"{one.name!r} needs at least {need}" for one, need in least if need > (one.capacity or 0)
    ]
    return f"; {' and '.join(short)}" if short else ""
