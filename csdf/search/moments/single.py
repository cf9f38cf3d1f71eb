"""Demands of one moment: a sum of capacities, each times its factor, that is at least a number.

Factors are prices of space. Whatever they are, some state of the moment has the least of the space in
use, weighted by them, and so much the capacities must have. That least is found exactly, in integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import NamedTuple

from csdf.search.moments.highs import priced
from csdf.search.moments.linear_bound import LinearProgram, priced_bound
from csdf.search.moments.states import add_states
from csdf.search.moments.windows import Firings, Moment, Window
from csdf.search.variables import Variable

UNIT = 720_720  # of factors: prices are often fractions with a small denominator
SCALE = 1 << 34  # of prices within the program, as integers
LEAST = 1e-6  # tokens that are lacking; less is rounding


class Demand(NamedTuple):
    """A sum of capacities, each times its factor, that is at least `least`."""

    terms: tuple[tuple[int, int], ...]  # position, factor
    least: int


class SingleMoment:
    """The states of one moment, if no capacity is above `room`. window: of the moment."""

    def __init__(
        self,
        firings: Firings,
        variables: Sequence[Variable],
        moment: Moment,
        room: Sequence[int],
        window: Window,
    ) -> None:
        self._lacking = len(variables)
        self._program = LinearProgram()
        for variable in variables:
            self._program.add_column(variable.weight, 0, None)
        states = add_states(self._program, firings, window, room)
        self._order = len(self._program.rows)
        self._uses = [
            states.use(one, moment) for one in firings.channels if one.variable is not None
        ]
        for use in self._uses:
            self._program.add_row([(use.variable, -1), *use.terms], -use.always)

    @classmethod
    def of(
        cls, firings: Firings, variables: Sequence[Variable], moment: Moment, room: Sequence[int]
    ) -> SingleMoment | None:
        """Return the states of a moment; None if there are none: nothing in this room is live."""
        window = firings.window(moment, room)
        return None if window is None else cls(firings, variables, moment, room, window)

    def demand(
        self, capacities: Sequence[float], seconds: float, look: Callable[[], None]
    ) -> Demand | None:
        """Return a demand that these capacities do not meet; None if none was found."""
        limits = [float(one) for one in self._program.limits]
        for row, use in enumerate(self._uses, self._order):
            limits[row] += capacities[use.variable]
        found = priced(self._program, limits, seconds, look)
        if found is None or found.cost < LEAST:
            return None
        order, room = found.prices[: self._order], found.prices[self._order :]
        factors = [round(price * UNIT) for price in room]
        return self._exact(factors, [int(price * UNIT * SCALE) for price in order])

    def _exact(self, factors: Sequence[int], prices: Sequence[int]) -> Demand | None:
        """The demand of these factors. prices: of the rows of order, times unit and scale."""
        weighted = LinearProgram()
        for most in self._program.most:
            weighted.add_column(0, 0, most or 0)  # nothing is lacking
        for terms in self._program.rows[: self._order]:
            weighted.add_row(terms, 0)
        always, by_variable = 0, dict[int, int]()
        for factor, use in zip(factors, self._uses, strict=True):
            if factor:
                always += factor * use.always
                by_variable[use.variable] = by_variable.get(use.variable, 0) + factor
                for column, tokens in use.terms:
                    weighted.costs[column] += factor * tokens
        least = priced_bound(weighted, prices, SCALE)
        return None if least is None or not by_variable else _reduced(by_variable, least + always)


def _reduced(factors: dict[int, int], least: int) -> Demand:
    shared = gcd(*factors.values())
    terms = tuple((place, factor // shared) for place, factor in sorted(factors.items()))
    return Demand(terms, -(-least // shared))
