"""Linear programs in integers, and lower bounds of them that hold exactly.

A solver in floating point gives a price for each row. Whatever the prices are, if none is negative,
the rows weighted by them give a bound in integers. Prices that are a little off give a bound that is
a little lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class LinearProgram:
    """Columns of at least `least` and at most `most`, None for no limit, that minimise their costs.

    rows: each a sum of columns times integers, at most the limit of the row.
    """

    costs: list[int] = field(default_factory=list)
    least: list[int] = field(default_factory=list)
    most: list[int | None] = field(default_factory=list)
    rows: list[Sequence[tuple[int, int]]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def add_column(self, cost: int, least: int, most: int | None) -> int:
        """Add a column; return its number."""
        self.costs.append(cost)
        self.least.append(least)
        self.most.append(most)
        return len(self.costs) - 1

    def add_row(self, terms: Sequence[tuple[int, int]], limit: int) -> None:
        """Let the sum of these columns, each times its factor, be at most the limit."""
        self.rows.append(terms)
        self.limits.append(limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """A lower bound in integers, exact, and the columns as the solver found them, which are not."""

    lower_bound: int
    columns: Sequence[float]


def priced_bound(program: LinearProgram, prices: Sequence[int], scale: int) -> int | None:
    """Return what the costs are at least, rounded up; None if these prices say nothing.

    prices: of the rows, none negative, times the scale.
    """
    left = [cost * scale for cost in program.costs]
    total = 0
    for terms, limit, price in zip(program.rows, program.limits, prices, strict=True):
        if price:
            total -= price * limit
            for column, factor in terms:
                left[column] += price * factor
    for cost, least, most in zip(left, program.least, program.most, strict=True):
        if cost < 0 and most is None:
            return None
        total += cost * (least if cost >= 0 or most is None else most)
    return -(-total // scale)
