"""Linear programs in integers, solved by HiGHS; what it proves is computed again in integers.

A solver in floating point gives a price for each row. Whatever the prices are, if none is negative,
the rows weighted by them give a bound in integers, a little lower if the prices are a little off.

The solver works in its own thread, without Python's lock: so Ctrl-C, a budget that is used up and a
stop that another thread ends are answered at once, and not when the solver is done. The solver gets a
time limit, and a later answer is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from scipy.optimize import linprog
from scipy.sparse import csr_array

SLICE = 0.1  # seconds between two looks at the stop
SCALE = 1 << 64  # of prices as integers
ROUNDING = 1e-6  # share taken off each price, so that no column is charged more than it costs


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

    def add_column(self, cost: int, minimum: int, maximum: int | None) -> int:
        """Add a column; return its number."""
        self.costs.append(cost)
        self.least.append(minimum)
        self.most.append(maximum)
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


def bound_by_prices(program: LinearProgram, prices: Sequence[int], scale: int) -> int | None:
    """Return a lower bound of the costs, rounded up; None if these prices say nothing.

    prices: of the rows, none negative, times the scale.
    """
    reduced_costs = [cost * scale for cost in program.costs]
    total = 0
    for terms, limit, price in zip(program.rows, program.limits, prices, strict=True):
        if price:
            # Weak duality: limits times prices plus the reduced costs at the bounds of the columns.
            total -= price * limit
            for column, factor in terms:
                reduced_costs[column] += price * factor
    for cost, minimum, maximum in zip(reduced_costs, program.least, program.most, strict=True):
        if cost < 0 and maximum is None:
            return None
        total += cost * (minimum if cost >= 0 or maximum is None else maximum)
    return -(-total // scale)


class Solution(NamedTuple):
    """The least cost of a program, prices of its rows, and its columns, as the solver found them."""

    cost: float
    prices: Sequence[float]
    columns: Sequence[float]


def solved(program: LinearProgram, seconds: float, look: Callable[[], None]) -> Relaxed | None:
    """Return a lower bound of the cost, None if the solver finds nothing in that time.

    look: called again and again meanwhile; may end the work by raising.
    """
    solution = solution_of(program, program.limits, seconds, look)
    if solution is None:
        return None
    # Slightly smaller prices keep reduced costs of basic
    # columns nonnegative despite rounding errors.
    prices = [int(price * (1 - ROUNDING) * SCALE) for price in solution.prices]
    bound = bound_by_prices(program, prices, SCALE)
    return None if bound is None else Relaxed(lower_bound=bound, columns=solution.columns)


def solution_of(
    program: LinearProgram, limits: Sequence[float], seconds: float, look: Callable[[], None]
) -> Solution | None:
    """Return what the solver finds with these limits of the rows, None if nothing in that time."""
    results: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_solve, args=(program, limits, seconds, results), daemon=True).start()
    result = None
    while result is None:
        look()
        with suppress(Empty):
            result = results.get(timeout=SLICE)
    if isinstance(result, BaseException):
        raise result
    if result.status != 0:
        return None
    prices = [max(0.0, -price) for price in result.ineqlin.marginals]
    return Solution(result.fun, prices, result.x.tolist())


def _solve(
    program: LinearProgram, limits: Sequence[float], seconds: float, results: SimpleQueue[Any]
) -> None:
    """Put the solver's answer, or its error, into the queue."""
    entries = [
        (factor, row, column) for row, terms in enumerate(program.rows) for column, factor in terms
    ]
    factors, rows, columns = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(program.rows), len(program.costs))
    try:
        solution = linprog(
            program.costs,
            A_ub=csr_array((factors, (rows, columns)), shape=shape),
            b_ub=limits,
            bounds=list(zip(program.least, program.most, strict=True)),
            method="highs",
            options={"time_limit": seconds},
        )
    except BaseException as error:  # noqa: BLE001 - raised again by who waits for the answer
        solution = error
    results.put(solution)
