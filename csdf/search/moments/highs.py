"""Linear programs, solved by HiGHS. What it proves is computed again in integers.

The solver works in a thread beside, without Python's lock: so Ctrl-C, a budget that is used up and a
stop that somebody ends are answered at once, and not when the solver is done. It is told its time, and
what it finds after that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from scipy.optimize import linprog
from scipy.sparse import csr_array

from csdf.search.moments.linear_bound import LinearProgram, Relaxed, priced_bound

SLICE = 0.1  # seconds between two looks at the stop
SCALE = 1 << 64  # of prices as integers
ROUNDING = 1e-6  # share taken off each price, so that no column is charged more than it costs


class Priced(NamedTuple):
    """The least cost of a program, prices of its rows, and its columns, as the solver found them."""

    cost: float
    prices: Sequence[float]
    columns: Sequence[float]


def solved(program: LinearProgram, seconds: float, look: Callable[[], None]) -> Relaxed | None:
    """Return a lower bound of the cost, None if the solver finds nothing in that time.

    look: called again and again meanwhile; may end the work by raising.
    """
    found = priced(program, program.limits, seconds, look)
    if found is None:
        return None
    prices = [int(price * (1 - ROUNDING) * SCALE) for price in found.prices]
    bound = priced_bound(program, prices, SCALE)
    return None if bound is None else Relaxed(lower_bound=bound, columns=found.columns)


def priced(
    program: LinearProgram, limits: Sequence[float], seconds: float, look: Callable[[], None]
) -> Priced | None:
    """Return what the solver finds with these limits of the rows, None if nothing in that time."""
    results: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_solve, args=(program, limits, seconds, results), daemon=True).start()
    found = _awaited(results, look)
    if isinstance(found, BaseException):
        raise found
    if found.status != 0:
        return None
    prices = [max(0.0, -price) for price in found.ineqlin.marginals]
    return Priced(found.fun, prices, found.x.tolist())


def _awaited(results: SimpleQueue[Any], look: Callable[[], None]) -> Any:
    """The first result, as soon as there is one."""
    while True:
        look()
        try:
            return results.get(timeout=SLICE)
        except Empty:
            continue


def _solve(
    program: LinearProgram, limits: Sequence[float], seconds: float, results: SimpleQueue[Any]
) -> None:
    """Put the solver's answer, or its error, into the queue."""
    try:
        found = linprog(
            program.costs,
            A_ub=_matrix(program),
            b_ub=limits,
            bounds=list(zip(program.least, program.most, strict=True)),
            method="highs",
            options={"time_limit": seconds},
        )
    except BaseException as error:  # noqa: BLE001 - raised again by who waits for the answer
        found = error
    results.put(found)


def _matrix(program: LinearProgram) -> csr_array:
    entries = [
        (factor, row, column) for row, terms in enumerate(program.rows) for column, factor in terms
    ]
    factors, rows, columns = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(program.rows), len(program.costs))
    return csr_array((factors, (rows, columns)), shape=shape)
