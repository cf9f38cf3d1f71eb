"""Parameters on which durations depend, and the ratios of cycles as linear functions of them.

A cycle of firings that takes `time` and spans `tokens` iterations allows no period below time / tokens.
A parameter adds to the time of a cycle its value times the weights of the firings, so the ratio is
linear in all parameters: a `CycleLine`. The period is the maximum of these functions over all cycles,
and a `LineSearch` computes a cycle that attains it at chosen values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from operator import mul
from typing import Any

from csdf.analysis.critical import CriticalCycle
from csdf.analysis.varying import Critical, VaryingGraph
from csdf.arguments import Natural, public
from csdf.errors import CsdfError, Deadlocked, counted
from csdf.model.exact import Exact, exact
from csdf.model.graph import Actor, Graph
from csdf.time_limit import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number on which durations depend: duration in the graph + weight * (value - nominal).

    weights: of the phases of each actor that depends on it, at least 0, in units of the user. nominal:
    the value in the graph itself. minimum: below it a duration would be negative.
    """

    name: str
    weights: Mapping[str, tuple[Fraction, ...]]
    nominal: Fraction
    minimum: Fraction

    def __post_init__(self) -> None:
        if any(weight < 0 for row in self.weights.values() for weight in row):
            raise CsdfError(f"parameter {self.name!r}: a weight is negative")
        if not any(weight for row in self.weights.values() for weight in row):
            raise CsdfError(f"parameter {self.name!r}: no duration depends on it")


@public
def added_time(
    graph: Graph, weights: Mapping[str, Exact | Sequence[Exact]], *, name: str = ""
) -> Parameter:
    """Return the parameter x that adds weight * x to durations; its nominal value is 0.

    weights: for each actor, either one weight for all of its phases or a weight for each phase.
    Raises InvalidGraph for an unknown actor, CsdfError for weights that do not fit.
    """
    rows = {actor: _row(graph.actor(actor), row_weights) for actor, row_weights in weights.items()}
    minimum = max(
        (
            -graph.time_unit * time / weight
            for actor, row in rows.items()
            for time, weight in zip(graph.actor(actor).durations, row, strict=True)
            if weight
        ),
        default=Fraction(0),
    )
    return Parameter(
        name=name or "+".join(rows), weights=rows, nominal=Fraction(0), minimum=minimum
    )


@public
def added_to_phase(graph: Graph, actor: str, phase: Natural) -> Parameter:
    """Return the parameter that is added to one phase of an actor."""
    phases = graph.actor(actor).phases
    if not 0 <= phase < phases:
        raise CsdfError(f"actor {actor!r} has phases 0 to {phases - 1}; there is no {phase}")
    row = [int(position == phase) for position in range(phases)]
    return added_time(graph, {actor: row}, name=f"{actor}:{phase}")


@public
def time_scale(graph: Graph, actors: Sequence[str], *, name: str = "") -> Parameter:
    """Return the factor by which all durations of the actors are multiplied; its nominal value is 1."""
    weights = {
        actor: tuple(graph.time_unit * time for time in graph.actor(actor).durations)
        for actor in actors
    }
    title = name or f"scale of {'+'.join(actors)}"
    return Parameter(name=title, weights=weights, nominal=Fraction(1), minimum=Fraction(0))


def _row(actor: Actor, given: Exact | Sequence[Exact]) -> tuple[Fraction, ...]:
    what = f"weight of actor {actor.name!r}:"
    if isinstance(given, str) or not isinstance(given, Sequence):
        return (exact(given, what),) * actor.phases
    if len(given) != actor.phases:
        raise CsdfError(
            f"actor {actor.name!r}: {counted(len(given), 'weight')}, but "
            f"{counted(actor.phases, 'phase')}; give one weight, or one for each phase"
        )
    return tuple(exact(weight, what) for weight in given)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleLine:
    """The ratio of one cycle: (time + sum of count * parameter) / tokens.

    time: of its firings if all parameters are 0. counts: total weight of each parameter in its firings.
    critical: the evaluation that found the cycle.
    """

    time: Fraction
    counts: tuple[Fraction, ...]
    tokens: int
    critical: Critical

    def period(self, *values: Fraction) -> Fraction:
        """Return the ratio at these values of the parameters."""
        return sum(map(Fraction.__mul__, self.counts, values), self.time) / self.tokens

    @property
    def slopes(self) -> tuple[Fraction, ...]:
        """The derivatives by each parameter."""
        return tuple(count / self.tokens for count in self.counts)

    def is_same_function(self, other: CycleLine) -> bool:
        """Whether both are equal everywhere."""
        zero = (Fraction(0),) * len(self.counts)
        return self.slopes == other.slopes and self.period(*zero) == other.period(*zero)


class LineSearch:
    """Evaluates the period of a graph at values of its parameters, with a critical cycle.

    Raises Deadlocked, and the exceptions of the stop.
    """

    def __init__(
        self, graph: VaryingGraph, parameters: Sequence[Parameter], stop: Stop | None = None
    ) -> None:
        self._graph = graph
        self._stop = Stop() if stop is None else stop
        self.evaluations = 0
        self._nominal = [parameter.nominal for parameter in parameters]
        # Nonzero weights of each parameter, by the position of the duration among all durations.
        self._weights = [
            {
                graph.numbers.duration_start[graph.number[actor]] + phase: weight
                for actor, row in parameter.weights.items()
                for phase, weight in enumerate(row)
                if weight
            }
            for parameter in parameters
        ]

    def line(self, *values: Fraction) -> CycleLine:
        """Return a critical cycle at these values."""
        self._stop.look()
        longer: dict[int, Fraction] = {}
        for value, nominal, weights in zip(values, self._nominal, self._weights, strict=True):
            for index, weight in weights.items() if value != nominal else ():
                longer[index] = longer.get(index, Fraction(0)) + weight * (value - nominal)
        self.evaluations += 1
        critical = self._graph.critical(longer) if longer else self._graph.as_given
        return self._line_of(critical, values)

    def last_slope(self) -> Fraction:
        """Return the slope of the period for large values of the only parameter."""
        return self._graph.only(self._weights[0]).period or Fraction(0)

    def cycle(self, line: CycleLine) -> CriticalCycle | None:
        """Return the cycle by the names of the graph, with its time at the evaluated values."""
        return self._graph.named(line.critical)

    def _line_of(self, critical: Critical, values: Sequence[Fraction]) -> CycleLine:
        """Return a cycle that is critical at these values, with its ratio for all values."""
        if critical.period is None:
            raise Deadlocked("the graph deadlocks; it has no period, whatever its durations are")
        tokens = Fraction(1)
        if critical.component is not None and critical.circuit is not None:
            tokens = critical.circuit.height / critical.component.repeats
        durations = self._graph.duration_indices(critical)
        # Time and tokens are multiplied by this number, which makes the tokens an integer.
        scale = tokens.denominator
        counts = tuple(
            scale * sum((weights[index] for index in durations if index in weights), Fraction(0))
            for weights in self._weights
        )
        time_of_parameters = sum(map(mul, counts, values), Fraction(0))
        return CycleLine(
            time=scale * critical.time - time_of_parameters,
            counts=counts,
            tokens=tokens.numerator,
            critical=critical,
        )


def symbolic_maximum(
    names: Sequence[str], rows: Sequence[tuple[Fraction, Sequence[Fraction], int]]
) -> Any:
    """Return the largest of (time + counts * symbols) / tokens as an expression of SymPy.

    The symbols are real and have the names of the parameters.
    """
    if find_spec("sympy") is None:
        raise CsdfError("to_sympy() needs SymPy: pip install sympy")
    sympy = import_module("sympy")
    symbols = [sympy.Symbol(name, real=True) for name in names]
    lines = []
    for time, counts, tokens in rows:
        time, *counts = (
            sympy.Rational(number.numerator, number.denominator) for number in (time, *counts)
        )
        lines.append(sum(map(mul, counts, symbols), time) / tokens)
    return sympy.Max(*lines)
