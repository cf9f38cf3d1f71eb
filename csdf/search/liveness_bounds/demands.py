"""Demands: linear constraints that all live capacities of a box meet, derived from moments.

A moment is the start of a certain firing. Suppose the firing can start with (3, 0) or with (1, 3)
tokens in the channels x and y. The factors 3 and 2 weigh both states by 9, so all live capacities meet
3x + 2y >= 9. Any nonnegative factors give a valid demand: its right-hand side is the minimum of the
weighted tokens over the states.

The factors are the dual prices of the linear program that finds by how much given capacities fall
short of every state. A column for each firing is 1 if the firing precedes the moment, and 0 if not.
Rows order each firing after the producers of its tokens. The firings that differ between states are
those of the window of the moment (`windows`). The minimum is then bounded exactly, in integers.

Source: Benders, Partitioning procedures for solving mixed-variables programming problems, Numerische
Mathematik 4, 1962: each moment is a subproblem, its demand is a cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from csdf.search.liveness_bounds.linear_programs import LinearProgram, bound_by_prices, solution_of
from csdf.search.liveness_bounds.windows import (
    CountedChannel,
    FiringWindow,
    IterationFirings,
    Moment,
)
from csdf.search.variables import Variable

# Dual prices become integers in this unit. They are often fractions with a small denominator, and
# 720,720 is divisible by all numbers up to 16.
UNIT = 720_720
SCALE = 1 << 34  # of the prices of the order rows, on top of UNIT
LEAST = 1e-6  # tokens: a smaller shortfall is a rounding error of the solver


class SumDemand(NamedTuple):
    """A demand: the sum of capacities, each times its factor, is at least `least`."""

    terms: tuple[tuple[int, int], ...]  # position, factor
    least: int


class MomentShortfall:
    """A linear program over the states of a moment: the tokens for which given capacities lack space.

    Columns: first, for each variable, the tokens that exceed its capacity; then the firings of the
    window. Rows: first the order of firings; then, for each channel, the space in use.
    room: the largest capacity of each variable.
    """

    def __init__(
        self,
        firings: IterationFirings,
        variables: Sequence[Variable],
        moment: Moment,
        room: Sequence[int],
        window: FiringWindow,
    ) -> None:
        self._program = LinearProgram()
        for variable in variables:
            self._program.add_column(variable.weight, 0, None)
        states = add_states(self._program, firings, window, room)
        self._order = len(self._program.rows)  # rows that order firings; those of uses follow
        self._uses = [
            states.use(channel, moment)
            for channel in firings.channels
            if channel.variable is not None
        ]
        for use in self._uses:
            self._program.add_row([(use.variable, -1), *use.terms], -use.constant)

    @classmethod
    def of(
        cls,
        firings: IterationFirings,
        variables: Sequence[Variable],
        moment: Moment,
        room: Sequence[int],
    ) -> MomentShortfall | None:
        """Return the program of a moment; None if no capacities up to `room` are live."""
        window = firings.window(moment, room)
        return None if window is None else cls(firings, variables, moment, room, window)

    def demand(
        self, capacities: Sequence[float], seconds: float, look: Callable[[], None]
    ) -> SumDemand | None:
        """Return a demand that these capacities violate; None if the solver proposes none."""
        limits = [float(limit) for limit in self._program.limits]
        for row, use in enumerate(self._uses, self._order):
            limits[row] += capacities[use.variable]
        solution = solution_of(self._program, limits, seconds, look)
        if solution is None or solution.cost < LEAST:
            return None
        prices_of_order, prices_of_uses = (
            solution.prices[: self._order],
            solution.prices[self._order :],
        )
        # Any nonnegative integers are valid factors: rounding costs strength, not correctness.
        factors = [round(price * UNIT) for price in prices_of_uses]
        return self._proved(factors, [int(price * UNIT * SCALE) for price in prices_of_order])

    def _proved(self, factors: Sequence[int], prices: Sequence[int]) -> SumDemand | None:
        """Return the demand with these factors for the uses of space, its right-hand side in integers.

        prices: of the rows that order firings, times UNIT and SCALE.
        """
        weighted = LinearProgram()
        # The program again, with the space in use as its cost. The columns of exceeding tokens, which
        # have no upper bound, are fixed to 0: they keep only the numbering of the columns.
        for maximum in self._program.most:
            weighted.add_column(0, 0, maximum or 0)
        for terms in self._program.rows[: self._order]:
            weighted.add_row(terms, 0)
        constant, by_variable = 0, dict[int, int]()
        for factor, use in zip(factors, self._uses, strict=True):
            if factor:
                constant += factor * use.constant
                by_variable[use.variable] = by_variable.get(use.variable, 0) + factor
                for column, tokens in use.terms:
                    weighted.costs[column] += factor * tokens
        minimum = bound_by_prices(weighted, prices, SCALE)
        if minimum is None or not by_variable:
            return None
        shared = gcd(*by_variable.values())
        terms = tuple((index, factor // shared) for index, factor in sorted(by_variable.items()))
        return SumDemand(terms, -(-(minimum + constant) // shared))


class SpaceUse(NamedTuple):
    """The tokens in the space of a variable: a constant, plus columns of firings times factors."""

    variable: int
    constant: int
    terms: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class States:
    """The states of a window. columns: for each actor, the column of firing n less n."""

    window: FiringWindow
    columns: Sequence[int]

    def use(self, channel: CountedChannel, moment: Moment) -> SpaceUse:
        """Return the space in use on a channel, including the space that the firing itself claims."""
        fewest = self.window.fewest
        starts = fewest[channel.consumer] + (channel.consumer == moment.actor)
        used = (
            channel.consumed[starts] - channel.produced[fewest[channel.producer]] - channel.tokens
        )
        terms = [
            *self._terms(channel.consumer, channel.consumed, 1),
            *self._terms(channel.producer, channel.produced, -1),
        ]
        return SpaceUse(channel.variable or 0, used, terms)

    def _terms(self, actor: int, counted: Sequence[int], sign: int) -> Iterator[tuple[int, int]]:
        """Yield the column of each firing of the window, and the tokens that it moves."""
        for firing in range(self.window.fewest[actor], self.window.most[actor]):
            if tokens := counted[firing + 1] - counted[firing]:
                yield self.columns[actor] + firing, sign * tokens


def add_states(
    program: LinearProgram, firings: IterationFirings, window: FiringWindow, room: Sequence[int]
) -> States:
    """Add columns for the states of a window, and rows for the order of firings.

    room: the largest capacity of each variable.
    """
    columns = []
    for low, high in zip(window.fewest, window.most, strict=True):
        columns.append(len(program.costs) - low)
        for firing in range(low, high):
            column = program.add_column(0, 0, 1)
            if firing > low:  # the previous firing of the actor precedes
                program.add_row([(column, 1), (column - 1, -1)], 0)
    states = States(window, columns)
    for channel in firings.channels:
        _add_order(program, channel, states, room)
    return states


def _add_order(
    program: LinearProgram, channel: CountedChannel, states: States, room: Sequence[int]
) -> None:
    """Require that each firing of the consumer follows the firings that produce its tokens."""
    fewest, maximum = states.window
    initial = channel.tokens_at_start(room)
    latest = fewest[channel.producer]
    for firing in range(fewest[channel.consumer], maximum[channel.consumer]):
        if channel.consumed[firing + 1] > channel.consumed[firing]:
            needed = bisect_left(channel.produced, channel.consumed[firing + 1] - initial)
            # A firing that needs no later producer is ordered by the earlier firings of its actor.
            if needed > latest:
                latest = needed
                after = states.columns[channel.consumer] + firing
                before = states.columns[channel.producer] + needed - 1
                program.add_row([(after, 1), (before, -1)], 0)
