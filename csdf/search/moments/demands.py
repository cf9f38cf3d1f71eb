"""Lower bounds from the tokens in the channels at one moment, whatever the order of firings.

The moment is the start of one firing. What it needs has been made before; what else has happened is
not known, but that no firing came before what it needs. In each state that is left, some space of each
channel is in use, and its capacity is at least that. For each moment a linear program chooses among
these states and mixtures of them; the capacities have to do for all moments. Its least cost is a
lower bound. Where capacities trade off against each other along a path, it is found at once; cuts
find it corner by corner.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, cycle, islice
from typing import NamedTuple

from csdf.model.indexed import IndexedGraph
from csdf.search.moments.linear_bound import LinearProgram, Relaxed
from csdf.search.variables import Variable


class Moment(NamedTuple):
    """The start of a firing of this actor, after so many firings of it."""

    actor: int
    firings: int


class _Channel(NamedTuple):
    """A channel between two actors. made, taken: tokens after each number of firings.

    variable: of a space that is searched; None if the initial tokens are what they are.
    """

    producer: int
    consumer: int
    tokens: int
    made: Sequence[int]
    taken: Sequence[int]
    variable: int | None


@dataclass(frozen=True, slots=True)
class _States:
    """Firings of each actor: at least, and at most, by the moment. columns: of firing 0 of each."""

    fewest: Sequence[int]
    most: Sequence[int]
    columns: Sequence[int]

    def terms(self, actor: int, counted: Sequence[int], sign: int) -> Iterator[tuple[int, int]]:
        """Yield what each firing that may have happened adds to a count of tokens."""
        for firing in range(self.fewest[actor], self.most[actor]):
            if tokens := counted[firing + 1] - counted[firing]:
                yield self.columns[actor] + firing, sign * tokens


class Moments:
    """An iteration of a graph, and the capacities that it demands at some moments.

    graph: the last channels are spaces that are searched, by variables `owners`, each with `occupied`
    tokens in its channel at first. cycles: of each actor. An iteration is enough: capacities are live
    if and only if all actors complete it, and they do without firing more often.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        variables: Sequence[Variable],
        *,
        owners: Sequence[int],
        occupied: Sequence[int],
        cycles: Sequence[int],
    ) -> None:
        self._variables = variables
        self._firings = [a * b for a, b in zip(cycles, graph.phases, strict=True)]
        first = len(graph.producer) - len(owners)
        tokens = [*graph.initial_tokens[:first], *(-one for one in occupied)]
        owner_of = [*([None] * first), *owners]
        self._channels = [
            self._channel(graph, one, tokens[one], owner_of[one])
            for one in range(len(graph.producer))
            if graph.producer[one] != graph.consumer[one]
        ]

    def _channel(
        self, graph: IndexedGraph, one: int, tokens: int, variable: int | None
    ) -> _Channel:
        def counted(actor: int, rates: Sequence[int], start: int) -> list[int]:
            phases = rates[start : start + graph.phases[actor]]
            return list(accumulate(islice(cycle(phases), self._firings[actor]), initial=0))

        producer, consumer = graph.producer[one], graph.consumer[one]
        made = counted(producer, graph.production, graph.production_start[one])
        taken = counted(consumer, graph.consumption, graph.consumption_start[one])
        return _Channel(producer, consumer, tokens, made, taken, variable)

    def relaxed(
        self,
        moments: Sequence[Moment],
        below: Sequence[int],
        seconds: float,
        look: Callable[[], None] = lambda: None,
    ) -> Relaxed | None:
        """Return a lower bound of the size of live capacities, and capacities near to it.

        It must be known that there are any. below: only the capacities up to these are looked at.
        None if no bound is found in that time. look: called meanwhile; may end the work by raising.
        """
        program = LinearProgram()
        for variable in self._variables:
            program.add_column(variable.weight, variable.least, None)
        for moment in moments:
            fewest = self._fewest(moment)
            states = self._states(program, fewest, self._most(moment, fewest, below))
            self._add(program, moment, states)
        solved: Callable[..., Relaxed | None] = import_module("csdf.search.moments.highs").solved
        return solved(program, seconds, look)

    def _fewest(self, moment: Moment) -> list[int]:
        """Firings of each actor that have come before the moment in any order."""
        fewest = [0] * len(self._firings)
        fewest[moment.actor] = moment.firings
        is_settled = False
        while not is_settled:
            is_settled = True
            for one in self._channels:
                if one.variable is None:
                    starts = fewest[one.consumer] + (one.consumer == moment.actor)
                    needed = bisect_left(one.made, one.taken[starts] - one.tokens)
                    if needed > fewest[one.producer]:
                        fewest[one.producer] = needed
                        is_settled = False
        return fewest

    def _most(self, moment: Moment, fewest: Sequence[int], below: Sequence[int]) -> list[int]:
        """Firings of each actor that may have come before the moment."""
        most = list(self._firings)
        most[moment.actor] = moment.firings
        is_settled = False
        while not is_settled:
            is_settled = True
            for one in self._channels:
                room = 0 if one.variable is None else below[one.variable]
                there = one.tokens + room + one.made[most[one.producer]]
                possible = max(fewest[one.consumer], bisect_right(one.taken, there) - 1)
                if possible < most[one.consumer]:
                    most[one.consumer] = possible
                    is_settled = False
        return most

    def _states(
        self, program: LinearProgram, fewest: Sequence[int], most: Sequence[int]
    ) -> _States:
        """Add a column for each firing that may have happened, in the order of the actor."""
        columns = []
        for low, high in zip(fewest, most, strict=True):
            columns.append(len(program.costs) - low)
            for firing in range(low, high):
                here = program.add_column(0, 0, 1)
                if firing > low:
                    program.add_row([(here, 1), (here - 1, -1)], 0)
        return _States(fewest, most, columns)

    def _add(self, program: LinearProgram, moment: Moment, states: _States) -> None:
        for one in self._channels:
            if one.variable is None:
                self._add_order(program, one, states)
            else:
                self._add_room(program, one, moment, states)

    def _add_order(self, program: LinearProgram, one: _Channel, states: _States) -> None:
        """Let each firing of the consumer come after those that make its tokens."""
        for firing in range(states.fewest[one.consumer], states.most[one.consumer]):
            needed = bisect_left(one.made, one.taken[firing + 1] - one.tokens)
            if one.taken[firing + 1] > one.taken[firing] and needed > states.fewest[one.producer]:
                after = states.columns[one.consumer] + firing
                before = states.columns[one.producer] + needed - 1
                program.add_row([(after, 1), (before, -1)], 0)

    def _add_room(
        self, program: LinearProgram, one: _Channel, moment: Moment, states: _States
    ) -> None:
        """Let the capacity be no less than the space in use, by the firing that starts as well."""
        starts = states.fewest[one.consumer] + (one.consumer == moment.actor)
        used = one.taken[starts] - one.made[states.fewest[one.producer]] - one.tokens
        terms = [
            *states.terms(one.consumer, one.taken, 1),
            *states.terms(one.producer, one.made, -1),
        ]
        program.add_row([(one.variable or 0, -1), *terms], -used)
