"""Linear programs, solved by HiGHS. What it proves is computed again in integers."""

from __future__ import annotations

from scipy.optimize import linprog
from scipy.sparse import csr_array

from csdf.search.moments.linear_bound import LinearProgram, Relaxed, priced_bound

SCALE = 1 << 34  # of prices as integers
ROUNDING = 1e-6  # share taken off each price, so that no column is charged more than it costs


def solved(program: LinearProgram, seconds: float) -> Relaxed | None:
    """Return a lower bound of the cost, None if the solver finds nothing in that time."""
    found = linprog(
        program.costs,
        A_ub=_matrix(program),
        b_ub=program.limits,
        bounds=list(zip(program.least, program.most, strict=True)),
        method="highs",
        options={"time_limit": seconds},
    )
    if found.status != 0:
        return None
    prices = [int(max(0.0, -price) * (1 - ROUNDING) * SCALE) for price in found.ineqlin.marginals]
    bound = priced_bound(program, prices, SCALE)
    return None if bound is None else Relaxed(lower_bound=bound, columns=found.x.tolist())


def _matrix(program: LinearProgram) -> csr_array:
    entries = [
        (factor, row, column) for row, terms in enumerate(program.rows) for column, factor in terms
    ]
    factors, rows, columns = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(program.rows), len(program.costs))
    return csr_array((factors, (rows, columns)), shape=shape)
