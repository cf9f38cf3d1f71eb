"""The states that a graph may be in at one moment, and mixtures of them, as a linear program.

A column for each firing that may have happened says whether it has, or in what share of a mixture.
Firings come in the order that the tokens dictate, and the space, if no capacity is above its largest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from csdf.search.moments.linear_bound import LinearProgram
from csdf.search.moments.windows import Counted, Firings, Moment, Window


class Use(NamedTuple):
    """The space of a variable in use: `always`, and what columns add, each times its factor."""

    variable: int
    always: int
    terms: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class States:
    """The states of a window. columns: where firing 0 of each actor is or would be."""

    window: Window
    columns: Sequence[int]

    def use(self, one: Counted, moment: Moment) -> Use:
        """Return the space in use on a channel, by the firing that starts as well."""
        fewest = self.window.fewest
        starts = fewest[one.consumer] + (one.consumer == moment.actor)
        used = one.taken[starts] - one.made[fewest[one.producer]] - one.tokens
        terms = [
            *self._terms(one.consumer, one.taken, 1),
            *self._terms(one.producer, one.made, -1),
        ]
        return Use(one.variable or 0, used, terms)

    def _terms(self, actor: int, counted: Sequence[int], sign: int) -> Iterator[tuple[int, int]]:
        """Yield what each firing that may have happened adds to a count of tokens."""
        for firing in range(self.window.fewest[actor], self.window.most[actor]):
            if tokens := counted[firing + 1] - counted[firing]:
                yield self.columns[actor] + firing, sign * tokens


def add_states(
    program: LinearProgram, firings: Firings, window: Window, room: Sequence[int]
) -> States:
    """Add columns for the states of a window, and rows for the order of firings.

    room: the largest capacity of each variable.
    """
    columns = []
    for low, high in zip(window.fewest, window.most, strict=True):
        columns.append(len(program.costs) - low)
        for firing in range(low, high):
            here = program.add_column(0, 0, 1)
            if firing > low:
                program.add_row([(here, 1), (here - 1, -1)], 0)
    states = States(window, columns)
    for one in firings.channels:
        _add_order(program, one, states, one.there(room))
    return states


def _add_order(program: LinearProgram, one: Counted, states: States, there: int) -> None:
    """Let each firing of the consumer come after those that make its tokens."""
    fewest, most = states.window
    latest = fewest[one.producer]
    for firing in range(fewest[one.consumer], most[one.consumer]):
        if one.taken[firing + 1] > one.taken[firing]:
            needed = bisect_left(one.made, one.taken[firing + 1] - there)
            if needed > latest:  # what needs no more follows from the order of the consumer
                latest = needed
                after = states.columns[one.consumer] + firing
                before = states.columns[one.producer] + needed - 1
                program.add_row([(after, 1), (before, -1)], 0)
