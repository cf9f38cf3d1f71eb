"""Cycles of a graph as linear functions of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from csdf.analysis.critical import CriticalCycle, named_cycle
from csdf.analysis.whatif.parameter import Parameter
from csdf.analysis.whatif.varying import Critical, VaryingGraph
from csdf.errors import Deadlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleLine:
    """The period that one cycle asks for: (time + sum of count * parameter) / tokens.

    time: what its firings take where all parameters are 0. counts: how often they take each
    parameter. critical: where it was found.
    """

    time: Fraction
    counts: tuple[Fraction, ...]
    tokens: int
    critical: Critical

    def period(self, *values: Fraction) -> Fraction:
        """Return the period it asks for at these values of the parameters."""
        counted = sum(
            (count * value for count, value in zip(self.counts, values, strict=True)), Fraction(0)
        )
        return (self.time + counted) / self.tokens

    @property
    def slopes(self) -> tuple[Fraction, ...]:
        """By how much the period grows with each parameter."""
        return tuple(count / self.tokens for count in self.counts)

    def is_same_function(self, other: CycleLine) -> bool:
        """Whether both are equal everywhere."""
        zero = (Fraction(0),) * len(self.counts)
        return self.slopes == other.slopes and self.period(*zero) == other.period(*zero)


class LineSearch:
    """The period of a graph at values of its parameters, each time with a cycle that asks for it.

    Raises Deadlocked.
    """

    def __init__(self, graph: VaryingGraph, parameters: Sequence[Parameter]) -> None:
        self._graph = graph
        self.evaluations = 0
        self._today = [parameter.today for parameter in parameters]
        self._weights = [self._spread(parameter) for parameter in parameters]

    def _spread(self, parameter: Parameter) -> dict[int, Fraction]:
        """The weights that are not zero, by the place of the duration among all."""
        return {
            self._graph.place(self._graph.number[actor], phase): weight
            for actor, row in parameter.weights.items()
            for phase, weight in enumerate(row)
            if weight
        }

    def line(self, *values: Fraction) -> CycleLine:
        """Return a cycle that sets the period at these values."""
        longer: dict[int, Fraction] = {}
        for value, today, weights in zip(values, self._today, self._weights, strict=True):
            for place, weight in weights.items() if value != today else ():
                longer[place] = longer.get(place, Fraction(0)) + weight * (value - today)
        self.evaluations += 1
        critical = self._graph.critical(longer) if longer else self._graph.as_given
        return self._line_of(critical, values)

    def last_slope(self) -> Fraction:
        """Return how much the period grows with the only parameter when that is very large."""
        return self._graph.only(self._weights[0]).period or Fraction(0)

    def cycle(self, line: CycleLine) -> CriticalCycle | None:
        """Return the cycle by the names of the graph, its time where it was found; None for none."""
        critical = line.critical
        if critical.component is None or critical.circuit is None:
            return None
        numbers = self._graph.numbers
        return named_cycle(numbers, critical.component, critical.circuit, critical.time)

    def _line_of(self, critical: Critical, values: Sequence[Fraction]) -> CycleLine:
        if critical.period is None:
            raise Deadlocked("the graph deadlocks; it has no period, whatever its durations are")
        if critical.component is None or critical.circuit is None:
            nothing = (Fraction(0),) * len(self._weights)
            return CycleLine(time=Fraction(0), counts=nothing, tokens=1, critical=critical)
        places = self._graph.places(critical.component, critical.circuit)
        tokens = critical.circuit.height / critical.component.repeats
        rounds = tokens.denominator
        counts = tuple(
            rounds * sum((row[at] for at in places if at in row), Fraction(0))
            for row in self._weights
        )
        shared = sum(
            (count * value for count, value in zip(counts, values, strict=True)), Fraction(0)
        )
        return CycleLine(
            time=rounds * critical.time - shared,
            counts=counts,
            tokens=tokens.numerator,
            critical=critical,
        )
