"""Durations that are linear in a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from csdf.errors import CsdfError, counted
from csdf.model.exact import Exact, exact
from csdf.model.graph import Actor, Graph, require_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number on which durations depend: each is as given, plus weight * (value - today).

    weights: of the phases of each actor that depends on it, at least 0, in the units of the user.
    today: the value at which the graph is as given; least: below it a duration would be negative.
    """

    name: str
    weights: Mapping[str, tuple[Fraction, ...]]
    today: Fraction
    least: Fraction

    def __post_init__(self) -> None:
        if any(weight < 0 for row in self.weights.values() for weight in row):
            raise CsdfError(f"parameter {self.name!r}: a weight is negative")
        if not any(weight for row in self.weights.values() for weight in row):
            raise CsdfError(f"parameter {self.name!r}: no duration depends on it")


def added_time(
    graph: Graph, weights: Mapping[str, Exact | Sequence[Exact]], *, name: str = ""
) -> Parameter:
    """Return the parameter x that adds weight * x to durations; it is 0 today.

    weights: for each actor one for all of its phases, or one for each phase.
    Raises InvalidGraph for an unknown actor, CsdfError for weights that do not fit.
    """
    require_graph(graph)
    found = {actor: _row(graph.actor(actor), given) for actor, given in weights.items()}
    least = max(
        (
            -graph.time_unit * time / weight
            for actor, row in found.items()
            for time, weight in zip(graph.actor(actor).durations, row, strict=True)
            if weight
        ),
        default=Fraction(0),
    )
    return Parameter(name=name or "+".join(found), weights=found, today=Fraction(0), least=least)


def added_to_phase(graph: Graph, actor: str, phase: int) -> Parameter:
    """Return the parameter that is added to one phase of an actor."""
    require_graph(graph)
    phases = graph.actor(actor).phases
    if not 0 <= phase < phases:
        raise CsdfError(f"actor {actor!r} has phases 0 to {phases - 1}; there is no {phase}")
    row = [int(one == phase) for one in range(phases)]
    return added_time(graph, {actor: row}, name=f"{actor}:{phase}")


def time_scale(graph: Graph, actors: Sequence[str], *, name: str = "") -> Parameter:
    """Return the factor by which all durations of the actors are multiplied; it is 1 today."""
    require_graph(graph)
    weights = {
        actor: tuple(graph.time_unit * time for time in graph.actor(actor).durations)
        for actor in actors
    }
    title = name or f"scale of {'+'.join(actors)}"
    return Parameter(name=title, weights=weights, today=Fraction(1), least=Fraction(0))


def _row(actor: Actor, given: Exact | Sequence[Exact]) -> tuple[Fraction, ...]:
    what = f"weight of actor {actor.name!r}:"
    if isinstance(given, str) or not isinstance(given, Sequence):
        return (exact(given, what),) * actor.phases
    if len(given) != actor.phases:
        raise CsdfError(
            f"actor {actor.name!r}: {counted(len(given), 'weight')}, but "
            f"{counted(actor.phases, 'phase')}; give one weight, or one for each phase"
        )
    return tuple(exact(one, what) for one in given)
