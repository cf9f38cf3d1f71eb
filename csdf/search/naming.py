"""Distributions by the names of the channels, their periods in the units of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from csdf.model.graph import Graph
from csdf.search.narrowing import Distribution
from csdf.search.pareto import ParetoPoint
from csdf.search.variables import Choice, Variable


class Naming:
    """The channels behind the variables of a search, and those that keep a given capacity.

    fixed_size: of all capacities that are given.
    """

    def __init__(
        self, graph: Graph, choice: Choice, variables: Sequence[Variable], fixed_size: int
    ) -> None:
        self._unit = graph.time_unit
        self._fixed = dict(choice.fixed or {})
        self._variables = tuple(variables)
        self._fixed_size = fixed_size

    def in_units(self, period: Fraction | None) -> Fraction | None:
        """Return the period in the units of the user."""
        return None if period is None else period * self._unit

    def capacities(self, distribution: Sequence[int]) -> dict[str, int]:
        """Return the capacity of each channel that is searched or given."""
        named = dict(self._fixed)
        for variable, capacity in zip(self._variables, distribution, strict=True):
            named |= {channel.name: capacity for channel in variable.channels}
        return named

    def distribution(self, capacities: Mapping[str, int]) -> Distribution:
        """Return the capacities of the variables, in their order."""
        return tuple(capacities[variable.channels[0].name] for variable in self._variables)

    def point(self, distribution: Sequence[int], period: Fraction | None) -> ParetoPoint:
        """Return the point of a distribution; its period comes in time units of the graph."""
        size = sum(
            capacity * variable.weight
            for capacity, variable in zip(distribution, self._variables, strict=True)
        )
        return ParetoPoint(
            size=size + self._fixed_size,
            period=self.in_units(period),
            capacities=self.capacities(distribution),
        )
