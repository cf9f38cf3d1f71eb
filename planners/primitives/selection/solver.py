"""Selection of primitives as an integer linear program, solved by HiGHS and checked in integers.

Each layer has a binary variable per candidate, without candidates that another of the same layouts
dominates. Each link has a binary variable per pair of layouts at its ends: the sum over the pairs
with a layout equals the sum over the candidates that write (or read) it. The program therefore
grows with the layouts, not with pairs of primitives. On a tree without a limit its relaxation is
integral.

HiGHS computes in floating point and tolerates a violation of 1e-6 of a constraint. For a limit of
billions of bytes that is more than a byte, and it may prune valid selections for one that is a byte
too large. So each limit is stated digit by digit, in numbers so small that the tolerance decides
nothing. Example: with digits of 10 bits, 5000 n <= 12000 becomes 904 n <= 736 + 1024 c and 4 n + c
<= 11, with a carry c. Solutions are evaluated in integers, and proved bounds are weakened by the
tolerance. Infeasibility is decided exactly, without HiGHS; if HiGHS rejects a feasible limit, the
program is solved again with other digits.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from csdf.status import Status, because
from csdf.time_limit import Budget, Stop, reason_of, stop_of
from planners.primitives.profile import LayerProfile
from planners.primitives.selection.planning import (
    Constraint,
    SelectionAnswer,
    SelectionWhy,
    proved_answer,
    quick_answer,
)
from planners.primitives.selection.problem import MOST, Objective, Pair, Selection, SelectionProblem
from planners.primitives.selection.trade_off import trade_off

MOST_CUTS = 100  # selections that rounding let pass a limit, each then excluded by a constraint
COST_BITS = 26  # of the largest scaled cost; with larger costs HiGHS is numerically unstable
DIGIT_BITS = (10, 8, 12)  # of a digit of a limit; the next if HiGHS rejects a feasible limit
GAP = 2e-6  # scaled cost by which the bound of HiGHS may be too high
ROUNDING = 0.01  # nanoseconds or bytes by which a bound in floating point may be too high
INFEASIBLE = 2  # status of scipy's milp
STANDARD_OUTPUT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A selection with its proof.

    status: "optimal" and "infeasible" are proved. bound: lower bound in the units of the objective;
    None if nothing was proved.
    """

    selection: Selection | None
    status: Status
    bound: int | None


class BinaryVariable(NamedTuple):
    """A candidate of a layer, or a link with the layouts at its ends."""

    of: int  # number of the layer or of the link
    source: str
    target: str
    nanoseconds: int
    memory: int
    candidate: LayerProfile | None  # None for a link


class SumBetween(NamedTuple):
    """A sum of variables with a lower and an upper limit."""

    factors: Mapping[int, int]
    low: float
    high: float


def solved_selection(
    problem: SelectionProblem, constraint: Constraint, budget: Budget = None
) -> SelectionAnswer:
    """Return the best selection by the integer program, within a budget.

    budget: a stop, or seconds. If it ends the solver, the answer is the best of the solver's
    selection and some heuristic selections.
    """
    stop, objective, nanoseconds = stop_of(budget), constraint.objective, constraint.nanoseconds
    try:
        if nanoseconds is not None:
            solved = smallest(problem, objective, nanoseconds, budget=stop)
        else:
            solved = fastest(problem, objective, constraint.memory, budget=stop)
    except KeyboardInterrupt as end:
        return quick_answer(problem, constraint, reason_of(end))
    if solved.status == Status.UNKNOWN:
        return quick_answer(problem, constraint, because(SelectionWhy.SOLVER_ENDED))
    if solved.selection is None:
        # The smallest feasible limit, for the message, if the time suffices.
        if nanoseconds is not None:
            best, limited = fastest(problem, objective, budget=stop), "nanoseconds"
        else:
            best, limited = smallest(problem, objective, MOST, budget=stop), "memory"
        minimum = None
        if best.selection is not None and best.status == Status.OPTIMAL:
            minimum = getattr(best.selection.pair(objective), limited)
        return proved_answer(constraint, None, minimum)
    if solved.status == Status.OPTIMAL:
        return proved_answer(constraint, solved.selection, None)
    quick = quick_answer(problem, constraint, because(SelectionWhy.BOUND, bound=solved.bound))
    cost = constraint.cost(solved.selection)
    if quick.selection is not None and constraint.cost(quick.selection) < cost:
        return quick
    return replace(quick, selection=solved.selection, status=solved.status)


def solved_front(
    problem: SelectionProblem, objective: Objective, budgets: int, budget: Budget = None
) -> tuple[Pair, ...]:
    """Return the minimum time at this number of memory limits, from the minimum memory to the fastest.

    Only proved points are returned, within the time limit; dominated points are left out.
    """
    stop, pairs = stop_of(budget), list[Pair]()
    with suppress(KeyboardInterrupt):
        low = smallest(problem, objective, MOST, budget=stop).selection
        high = fastest(problem, objective, budget=stop).selection
        if low is None or high is None:
            return ()
        first, last = low.memory(objective), high.memory(objective)
        for step in range(budgets):
            memory = first + (last - first) * step // max(1, budgets - 1)
            best = fastest(problem, objective, memory, budget=stop)
            if best.selection is not None and best.status == Status.OPTIMAL:
                pair = best.selection.pair(objective)
                if not pairs or pair.nanoseconds < pairs[-1].nanoseconds:
                    pairs.append(pair)
    return tuple(pairs)


def fastest(
    problem: SelectionProblem,
    objective: Objective,
    memory: int | None = None,
    *,
    budget: Budget = None,
) -> Solution:
    """Return the fastest selection whose memory is within a limit, or None."""
    is_sum = objective is Objective.NETWORK
    variables = variables_of(problem, objective, most=None if is_sum else memory)
    limit = memory if is_sum else None
    return _solved(problem, objective, variables, "nanoseconds", limit=limit, stop=stop_of(budget))


def smallest(
    problem: SelectionProblem, objective: Objective, nanoseconds: int, *, budget: Budget = None
) -> Solution:
    """Return the selection of minimum memory whose time is within a limit, if it exists.

    The largest workspace is found by bisection over the workspace sizes of the candidates.
    """
    stop = stop_of(budget)
    variables = variables_of(problem, objective)
    if objective is Objective.NETWORK:
        return _solved(problem, objective, variables, "memory", limit=nanoseconds, stop=stop)
    sizes = sorted({variable.memory for variable in variables})
    # Invariant: every size before sizes[low] is too small, sizes[high] is large enough.
    low, high = 0, len(sizes)
    best, ended = None, False
    while low < high:
        middle = (low + high) // 2
        solved = fastest(problem, objective, sizes[middle], budget=stop)
        ended |= solved.status in (Status.FEASIBLE, Status.UNKNOWN)
        if solved.selection is not None and solved.selection.nanoseconds <= nanoseconds:
            high, best = middle, solved.selection
        else:
            low = middle + 1
    if best is None:
        status = Status.UNKNOWN if ended else Status.INFEASIBLE
        return Solution(selection=None, status=status, bound=None)
    status = Status.FEASIBLE if ended else Status.OPTIMAL
    bound = None if ended else best.memory(objective)
    return Solution(selection=best, status=status, bound=bound)


def variables_of(
    problem: SelectionProblem, objective: Objective, *, most: int | None = None
) -> list[BinaryVariable]:
    """Return all variables; with `most`, only candidates of at most this many bytes.

    Candidates that another candidate of the same layouts dominates are left out.
    """
    variables: list[BinaryVariable] = []
    for number, candidates in enumerate(problem.candidates):
        minimum: dict[tuple[str, str], int] = {}
        for candidate in sorted(
            candidates, key=lambda candidate: (objective.of_layer(candidate), candidate.nanoseconds)
        ):
            ends = candidate.variant.layouts
            if ends not in minimum or candidate.nanoseconds < minimum[ends]:
                minimum[ends] = candidate.nanoseconds
                memory = objective.of_layer(candidate)
                variables.append(
                    BinaryVariable(number, *ends, candidate.nanoseconds, memory, candidate)
                )
    for number, link in enumerate(problem.links):
        for source in problem.output_layouts(link.producer):
            for target in problem.input_layouts(link.consumer):
                change = link.change(source, target)
                time = 0 if change is None else change.nanoseconds
                memory = 0 if change is None else objective.of_change(link, change)
                variables.append(BinaryVariable(number, source, target, time, memory, None))
    return [variable for variable in variables if most is None or variable.memory <= most]


def _solved(
    problem: SelectionProblem,
    objective: Objective,
    variables: Sequence[BinaryVariable],
    minimised: str,
    *,
    limit: int | None,
    stop: Stop,
) -> Solution:
    """Minimise one cost under a limit on the other, until the selection satisfies the limit exactly.

    minimised: a field of Pair, "nanoseconds" or "memory"; limit: of the other field.
    """
    limited = "memory" if minimised == "nanoseconds" else "nanoseconds"
    infeasible = Solution(selection=None, status=Status.INFEASIBLE, bound=None)
    chosen_from = {variable.of for variable in variables if variable.candidate is not None}
    if len(chosen_from) < len(problem.layers):
        return infeasible
    rows = _rows(problem, variables)
    costs, minimum = _costs(variables, minimised)
    if limit is not None:
        limited_costs, needed = _costs(variables, limited)
        if limit < max(needed, _least_cost(problem, objective, limited)):
            return infeasible
        factors = {index: cost for index, cost in enumerate(limited_costs) if cost}
        rows.append(SumBetween(factors, -inf, limit - needed))
    scale = 1 << max(0, max(costs, default=0).bit_length() - COST_BITS)  # exact in floating point
    digits = iter(DIGIT_BITS)
    bits = next(digits)
    for _ in range(MOST_CUTS):
        seconds = stop.seconds_left
        if seconds == 0 or stop.is_over():
            break
        result = _run(costs, scale, rows, seconds, bits)
        if result.x is None:
            if result.status == INFEASIBLE and limit is None:
                return infeasible
            bits = next(digits, 0) if result.status == INFEASIBLE else 0
            if not bits:
                break
            continue
        chosen: dict[int, LayerProfile] = {}
        chosen_indices = []
        for index, variable in enumerate(variables):
            if variable.candidate is not None and result.x[index] > 0.5:
                chosen[variable.of] = variable.candidate
                chosen_indices.append(index)
        selection = Selection(
            problem=problem, chosen=tuple(chosen[number] for number in range(len(problem.layers)))
        )
        pair = selection.pair(objective)
        if limit is None or getattr(pair, limited) <= limit:
            bound = minimum + ceil(result.mip_dual_bound * scale - max(ROUNDING, GAP * scale))
            cost: int = getattr(pair, minimised)
            is_proved = result.status == 0 and bound >= cost
            return Solution(
                selection=selection,
                status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
                bound=min(bound, cost),
            )
        # The limit was exceeded within the tolerance of HiGHS: exclude this selection.
        rows.append(SumBetween(dict.fromkeys(chosen_indices, 1), -inf, len(chosen_indices) - 1))
    return Solution(selection=None, status=Status.UNKNOWN, bound=None)


def _least_cost(problem: SelectionProblem, objective: Objective, field: str) -> int:
    """Return the exact minimum of a field of Pair, from the front without the other cost."""
    is_memory = field == "memory"
    free: dict[str, Any] = {"nanoseconds": 0} if is_memory else {"workspace_bytes": 0}
    weightless = free if is_memory else free | {"parameter_bytes": 0}
    candidates = (
        tuple(replace(option, **weightless) for option in candidate)
        for candidate in problem.candidates
    )
    links = (
        replace(
            link,
            map_bytes=link.map_bytes if is_memory else 0,
            changes=tuple(replace(change, **free) for change in link.changes),
        )
        for link in problem.links
    )
    part = replace(problem, candidates=tuple(candidates), links=tuple(links))
    least: int = getattr(trade_off(part, objective).smallest, field)
    return least


def _rows(problem: SelectionProblem, variables: Sequence[BinaryVariable]) -> list[SumBetween]:
    """Return the constraints: one candidate per layer; each end of a link has its layout."""
    layers: dict[int, dict[int, int]] = {number: {} for number in range(len(problem.layers))}
    ends: dict[tuple[int, str, str], dict[int, int]] = {}  # link, which end, layout
    links_of: list[list[tuple[int, str]]] = [[] for _ in problem.layers]
    for end in ("source", "target"):
        for number, link in enumerate(problem.links):
            layer = link.producer if end == "source" else link.consumer
            links_of[layer].append((number, end))
    for index, variable in enumerate(variables):
        if variable.candidate is None:
            ends.setdefault((variable.of, "source", variable.source), {})[index] = 1
            ends.setdefault((variable.of, "target", variable.target), {})[index] = 1
            continue
        layers[variable.of][index] = 1
        for number, end in links_of[variable.of]:
            layout = variable.target if end == "source" else variable.source
            ends.setdefault((number, end, layout), {})[index] = -1
    return [
        *(SumBetween(factors, 1, 1) for factors in layers.values()),
        *(SumBetween(factors, 0, 0) for factors in ends.values()),
    ]


def _costs(variables: Sequence[BinaryVariable], field: str) -> tuple[list[int], int]:
    """Return each variable's cost above the minimum of its layer, and the sum of the minima.

    A candidate of each layer is always selected; small numbers lose less in floating point.
    """
    costs = [int(getattr(variable, field)) for variable in variables]
    minimum: dict[int, int] = {}
    for variable, cost in zip(variables, costs, strict=True):
        if variable.candidate is not None:
            minimum[variable.of] = min(cost, minimum.get(variable.of, cost))
    beyond = [
        cost if variable.candidate is None else cost - minimum[variable.of]
        for variable, cost in zip(variables, costs, strict=True)
    ]
    return beyond, sum(minimum.values())


def _run(
    costs: Sequence[int], scale: int, rows: Sequence[SumBetween], seconds: float | None, bits: int
) -> Any:
    """Return the result of the solver for these rows, with limits in digits of this many bits."""
    maximum = [1] * len(costs)
    parts = [digit for row in rows for digit in _digits(row, maximum, bits)]
    places = [(number, index) for number, row in enumerate(parts) for index in row.factors]
    factors = [float(factor) for row in parts for factor in row.factors.values()]
    options = {"mip_rel_gap": 0.0} | ({} if seconds is None else {"time_limit": seconds})
    with quiet_output():  # HiGHS prints a line of its own where it repairs a selection
        return milp(
            np.asarray([*costs, *[0] * (len(maximum) - len(costs))], float) / scale,
            constraints=LinearConstraint(
                csr_array(
                    (factors, tuple(zip(*places, strict=True))), shape=(len(parts), len(maximum))
                ),
                [row.low for row in parts],
                [row.high for row in parts],
            ),
            integrality=np.ones(len(maximum)),  # of links too: then there is less to repair
            bounds=Bounds(0, maximum),
            options=options,
        )


def _digits(row: SumBetween, maximum: list[int], bits: int) -> Iterator[SumBetween]:
    """Yield the rows of a sum of integers within a limit, one digit after the other.

    A carry, a new variable from 0 to its entry in `maximum`, transfers the lower digits to the
    next. For factors f = h D + l and a limit H D + L, the sum of l is at most L + carry D, and the
    sum of h plus the carry at most H. O(digits) rows.
    """
    base = 1 << bits
    while row.low == -inf and max(row.factors.values(), default=0) >= base:
        above, limit = divmod(int(row.high), base)
        low = {index: factor % base for index, factor in row.factors.items() if factor % base}
        high = {index: factor // base for index, factor in row.factors.items() if factor >= base}
        carry = len(maximum)
        maximum.append(sum(factor * maximum[index] for index, factor in low.items()) // base + 1)
        yield SumBetween(low | {carry: -base}, -inf, limit)
        row = SumBetween(high | {carry: 1}, -inf, above)
    yield row


@contextmanager
def quiet_output() -> Iterator[None]:
    """Drop what is written to standard output within the block, by C too; of the whole process."""
    flush = ctypes.pythonapi.fflush if os.name == "posix" else lambda _: None  # Windows: elsewhere
    flush(None)  # what C has printed so far
    saved_output = os.dup(STANDARD_OUTPUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, STANDARD_OUTPUT)
        yield
    finally:
        flush(None)
        os.dup2(saved_output, STANDARD_OUTPUT)
        os.close(saved_output)
        os.close(nowhere)
