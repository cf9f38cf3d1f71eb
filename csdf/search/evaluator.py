"""The period of one graph under many storage distributions, and which channels hold it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from csdf.analysis.bounded import bound_channels
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.periodic import PeriodicProblem, PeriodicSolution
from csdf.analysis.schedule_room import require_room
from csdf.model.graph import Graph
from csdf.model.indexed import indexed
from csdf.model.space import space_channel
from csdf.search.variables import Variable


class Evaluation(NamedTuple):
    """What a distribution does: its period, None for a deadlock, and one reason why it is no less.

    holding: positions of the variables whose lack of space lies on the critical cycle. As long as none
    of them gets more, no distribution has a smaller period.
    """

    period: Fraction | None
    holding: tuple[int, ...]


class Evaluator:
    """A graph whose capacities are chosen again and again.

    Capacities are tuples in the order of the variables, None for one without a bound. Channels that
    belong to no variable keep what the graph says, self-loops only where they are bounded at all.
    Evaluations are exact, and remembered.
    """

    def __init__(
        self, graph: Graph, variables: Sequence[Variable], *, with_self_loops: bool = False
    ) -> None:
        self.count = 0
        self._groups = [variable.channels for variable in variables]
        names = {channel.name for group in self._groups for channel in group}
        unbounded = tuple(
            replace(channel, capacity=None) if channel.name in names else channel
            for channel in graph.channels
        )
        self._bare = bound_channels(
            replace(graph, channels=unbounded), with_self_loops=with_self_loops
        )
        self._cycles = list(cycle_vector(graph).values())
        self._systems: dict[tuple[int, ...], _System] = {}
        self._known: dict[tuple[int | None, ...], Evaluation] = {}

    @property
    def firings(self) -> int:
        """Firings of one iteration: a measure of what an evaluation costs."""
        return sum(
            count * actor.phases
            for count, actor in zip(self._cycles, self._bare.actors, strict=True)
        )

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        """Return the exact period under these capacities and what holds it back."""
        known = self._known.get(capacities)
        if known is None:
            self.count += 1
            bounded = tuple(i for i, capacity in enumerate(capacities) if capacity is not None)
            if bounded not in self._systems:
                self._systems[bounded] = self._system(bounded)
            known = self._known[capacities] = self._systems[bounded].evaluate(capacities)
        return known

    def _system(self, bounded: tuple[int, ...]) -> _System:
        """The graph with a space channel for each bounded channel, behind all other channels.

        Of two reasons for one start the first channel is named, and one that is not space is the
        better reason.
        """
        owners = [place for place in bounded for _ in self._groups[place]]
        channels = [channel for place in bounded for channel in self._groups[place]]
        spaces = tuple(
            space_channel(channel, channel.initial_tokens, f"{channel.name} (searched space)")
            for channel in channels
        )
        numbers = indexed(replace(self._bare, channels=self._bare.channels + spaces))
        occupied = [channel.initial_tokens for channel in channels]
        return _System(PeriodicProblem(numbers, self._cycles), owners, occupied)


class _System:
    """The constraints for one set of bounded channels, refined as far as was needed.

    owners: the variable of each searched space; occupied: the initial tokens of its channel.
    """

    def __init__(
        self, problem: PeriodicProblem, owners: Sequence[int], occupied: Sequence[int]
    ) -> None:
        self._problem = problem
        self._owners = owners
        self._occupied = occupied
        self._tokens = list(problem.graph.initial_tokens)
        self._first = len(self._tokens) - len(owners)
        self._copies = [1] * len(problem.cycles)
        self._has_zero_times = 0 in problem.graph.duration

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        """Return the exact period under these capacities and what holds it back."""
        self._tokens[self._first :] = [
            (capacities[owner] or 0) - occupied
            for owner, occupied in zip(self._owners, self._occupied, strict=True)
        ]
        solution = self._refined(unit_times=True) if self._has_zero_times else None
        if solution is None or solution.period is not None:
            solution = self._refined(unit_times=False)
        holding = {
            self._owners[channel - self._first]
            for channel in solution.circuit.channels
            if channel >= self._first
        }
        return Evaluation(solution.period, tuple(sorted(holding)))

    def _refined(self, *, unit_times: bool) -> PeriodicSolution:
        """Refine until exact; with unit times only whether there is a schedule has to be known."""
        while True:
            require_room(self._problem, self._copies)
            solution = self._problem.solve(self._copies, tokens=self._tokens, unit_times=unit_times)
            if solution.is_exact or (unit_times and solution.period is not None):
                return solution
            self._copies = self._problem.refined(solution)
