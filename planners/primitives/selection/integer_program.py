"""Selection by an integer program, solved by HiGHS.

HiGHS computes in floating point and lets a constraint be missed by a millionth: of a limit of
billions of bytes that is more than a byte, and what it prunes for a selection that is one byte too
large is lost. So a limit is given to it digit by digit, in numbers so small that a millionth decides
nothing. What it returns is evaluated in integers; what it proves is weakened by what it may be off.
That nothing is within a limit is decided exactly, without it: if it says so of a limit that can be met,
it is asked again in other digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from csdf.outcome import Status
from csdf.stopping import Budget, Stop, stop_of
from planners.primitives.profile import LayerProfile
from planners.primitives.selection.formulation import (
    BinaryVariable,
    Limit,
    Program,
    SumBetween,
    formulated,
    variables_of,
)
from planners.primitives.selection.objective import Objective
from planners.primitives.selection.problem import Selection, SelectionProblem
from planners.primitives.selection.quiet import quiet_output
from planners.primitives.selection.trade_off import trade_off

MOST_CUTS = 100  # of selections that rounding let pass a limit
COST_BITS = 26  # of the largest cost that the solver sees; beyond, it loses its footing
DIGIT_BITS = (10, 8, 12)  # of a digit of a limit; the first, and where that fails the next
GAP = 2e-6  # of a bound as the solver sees it: it ends when that is all there is
ROUNDING = 0.01  # of a bound in whole units, computed in floating point
CANNOT_BE = 2  # status of scipy's milp


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The findings of the solver.

    status: "optimal" and "infeasible" are proved; bound: nothing that is looked for can be less,
    in the units of what is minimised; None if nothing was proved.
    """

    selection: Selection | None
    status: Status
    bound: int | None


def fastest(
    problem: SelectionProblem,
    objective: Objective,
    memory: int | None = None,
    *,
    budget: Budget = None,
) -> Solution:
    """Return the selection of least time whose memory is within a limit, if there is one."""
    if objective is Objective.WORKSPACE:
        variables = variables_of(problem, objective, most=memory)
        return _solved(
            problem, objective, variables, "nanoseconds", limit=None, stop=stop_of(budget)
        )
    variables = variables_of(problem, objective)
    limit = None if memory is None else Limit("memory", memory)
    return _solved(problem, objective, variables, "nanoseconds", limit=limit, stop=stop_of(budget))


def smallest(
    problem: SelectionProblem,
    objective: Objective,
    nanoseconds: int,
    *,
    budget: Budget = None,
) -> Solution:
    """Return the selection of least memory whose time is within a limit, if there is one.

    The largest workspace is looked for by halving the sizes that there are.
    """
    stop = stop_of(budget)
    if objective is Objective.NETWORK:
        variables = variables_of(problem, objective)
        limit = Limit("nanoseconds", nanoseconds)
        return _solved(problem, objective, variables, "memory", limit=limit, stop=stop)
    sizes = sorted({one.memory for one in variables_of(problem, objective)})
    low, high = 0, len(sizes)  # smaller ones than sizes[low] do not do, sizes[high] does
    best, ended = None, False
    while low < high:
        middle = (low + high) // 2
        found = fastest(problem, objective, sizes[middle], budget=stop)
        ended |= found.status in (Status.FEASIBLE, Status.GAVE_UP)
        if found.selection is not None and found.selection.nanoseconds <= nanoseconds:
            high, best = middle, found.selection
        else:
            low = middle + 1
    if best is None:
        return Solution(
            selection=None, status=Status.GAVE_UP if ended else Status.INFEASIBLE, bound=None
        )
    bound = None if ended else best.memory(objective)
    return Solution(
        selection=best, status=Status.FEASIBLE if ended else Status.OPTIMAL, bound=bound
    )


def _solved(
    problem: SelectionProblem,
    objective: Objective,
    variables: Sequence[BinaryVariable],
    what: str,
    *,
    limit: Limit | None,
    stop: Stop,
) -> Solution:
    """Minimise a cost under a limit on the other, until what is found keeps the limit exactly."""
    program = formulated(problem, variables, what, limit)
    if program is None or (limit is not None and limit.most < _least(problem, objective, limit)):
        return Solution(selection=None, status=Status.INFEASIBLE, bound=None)
    digits = iter(DIGIT_BITS)
    bits = next(digits)
    for _ in range(MOST_CUTS):
        seconds = stop.seconds_left
        if seconds == 0 or stop.is_over():
            break
        result, scale = _run(program, seconds, bits)
        if result.x is None and result.status != CANNOT_BE:
            break
        if result.x is None and limit is None:
            return Solution(selection=None, status=Status.INFEASIBLE, bound=None)
        if result.x is None:
            bits = next(digits, 0)
            if not bits:
                break
            continue
        places = [
            place
            for place, one in enumerate(program.variables)
            if one.candidate is not None and result.x[place] > 0.5
        ]
        selection = _selection(problem, program, places)
        if limit is None or _amount(selection, objective, limit.what) <= limit.most:
            bound = program.least + ceil(result.mip_dual_bound * scale - max(ROUNDING, GAP * scale))
            found = _amount(selection, objective, what)
            is_proved = result.status == 0 and bound >= found
            return Solution(
                selection=selection,
                status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
                bound=min(bound, found),
            )
        program.rows.append(SumBetween(dict.fromkeys(places, 1), -inf, len(places) - 1))
    return Solution(selection=None, status=Status.GAVE_UP, bound=None)


def _least(problem: SelectionProblem, objective: Objective, limit: Limit) -> int:
    """The least of what is limited, exactly: a front whose pairs have nothing else is one pair."""
    is_memory = limit.what == "memory"
    candidates = tuple(
        tuple(
            replace(one, nanoseconds=0)
            if is_memory
            else replace(one, workspace_bytes=0, parameter_bytes=0)
            for one in found
        )
        for found in problem.candidates
    )
    links = tuple(
        replace(
            link,
            map_bytes=link.map_bytes if is_memory else 0,
            changes=tuple(
                replace(one, nanoseconds=0) if is_memory else replace(one, workspace_bytes=0)
                for one in link.changes
            ),
        )
        for link in problem.links
    )
    found = trade_off(replace(problem, candidates=candidates, links=links), objective).smallest
    return found.memory if is_memory else found.nanoseconds


def _amount(selection: Selection, objective: Objective, what: str) -> int:
    return selection.memory(objective) if what == "memory" else selection.nanoseconds


def _run(program: Program, seconds: float | None, bits: int) -> tuple[Any, int]:
    """Return what the solver says, and in how many units of cost."""
    costs = _scale(program.costs, COST_BITS)
    most = [1] * len(program.costs)
    rows = [digit for row in program.rows for digit in _digits(row, most, bits)]
    places = [(number, place) for number, row in enumerate(rows) for place in row.factors]
    factors = [float(one) for row in rows for one in row.factors.values()]
    across, along = zip(*places, strict=True)
    options = {"mip_rel_gap": 0.0} | ({} if seconds is None else {"time_limit": seconds})
    with quiet_output():  # HiGHS prints a line of its own where it repairs a selection
        result = milp(
            np.asarray(program.costs + [0] * (len(most) - len(program.costs)), float) / costs,
            constraints=LinearConstraint(
                csr_array((factors, (across, along)), shape=(len(rows), len(most))),
                [row.low for row in rows],
                [row.high for row in rows],
            ),
            integrality=np.ones(len(most)),  # of links too: then there is less to repair
            bounds=Bounds(0, most),
            options=options,
        )
    return result, costs


def _digits(row: SumBetween, most: list[int], bits: int) -> Iterator[SumBetween]:
    """Yield a sum of whole numbers within a limit, one digit of them after the other.

    A carry, a new variable from 0 to its entry in `most`, says how much the lower digits add to the
    next: of factors f = h D + l and a limit H D + L, the sum of l is at most L + carry D, and that of
    h, with the carry, at most H. O(digits) rows.
    """
    base = 1 << bits
    while row.low == -inf and max(row.factors.values(), default=0) >= base:
        above, limit = divmod(int(row.high), base)
        low = {place: one % base for place, one in row.factors.items() if one % base}
        high = {place: one // base for place, one in row.factors.items() if one >= base}
        carry = len(most)
        most.append(sum(one * most[place] for place, one in low.items()) // base + 1)
        yield SumBetween(low | {carry: -base}, -inf, limit)
        row = SumBetween(high | {carry: 1}, -inf, above)
    yield row


def _scale(factors: Iterable[int], bits: int) -> int:
    """A power of two by which factors are divided for the solver: exact in floating point."""
    return 1 << max(0, max(factors, default=0).bit_length() - bits)


def _selection(problem: SelectionProblem, program: Program, places: Iterable[int]) -> Selection:
    chosen: dict[int, LayerProfile] = {}
    for place in places:
        candidate = program.variables[place].candidate
        if candidate is not None:
            chosen[program.variables[place].of] = candidate
    return Selection(
        problem=problem, chosen=tuple(chosen[number] for number in range(len(problem.layers)))
    )
