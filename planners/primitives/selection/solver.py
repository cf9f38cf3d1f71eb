"""The best selection within a limit, by the integer program.

Selection by an integer program, solved by HiGHS.

HiGHS computes in floating point and lets a constraint be missed by a millionth: of a limit of
billions of bytes that is more than a byte, and what it prunes for a selection that is one byte too
large is lost. So a limit is given to it digit by digit, in numbers so small that a millionth decides
nothing. What it returns is evaluated in integers; what it proves is weakened by what it may be off.
That nothing is within a limit is decided exactly, without it: if it says so of a limit that can be met,
it is asked again in other digits.

Selection as an integer program, in whole numbers.

A binary variable for each candidate that no other of the same layouts improves on, and one for each
pair of layouts at the ends of a link: of those, as many go from (or to) a layout as candidates
write (or read) it. So the program grows with layouts, not with pairs of primitives, and on a tree
without a limit its relaxation is integral already.

Standard output kept free of what a library in C prints there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from csdf.status import Status, Why, because
from csdf.time_limit import Budget, Stop, reason_of, stop_of
from planners.primitives.profile import LayerProfile
from planners.primitives.selection.fronts import Pair
from planners.primitives.selection.objective import Link, Objective
from planners.primitives.selection.planning import (
    Demand,
    SelectionAnswer,
    proof,
    quick_answer,
    too_little,
)
from planners.primitives.selection.problem import MOST, Selection, SelectionProblem
from planners.primitives.selection.trade_off import trade_off


class ProgramWhy(Why):
    """Why the solver has no proof that its selection is the best."""

    TIME_LIMIT = "the time limit of the solver is reached"
    BOUND = "proved: none is below {bound}"


def solved_selection(
    problem: SelectionProblem, demand: Demand, budget: Budget = None
) -> SelectionAnswer:
    """Return the best selection by the integer program, within a budget.

    budget: a stop, or seconds. If it ends the solver, the answer is the best of what the solver found
    and of some quick selections.
    """
    stop = stop_of(budget)
    try:
        found = _solved(problem, demand, stop)
    except KeyboardInterrupt as end:
        return quick_answer(problem, demand, reason_of(end))
    if found.status == Status.UNKNOWN:
        return quick_answer(problem, demand, because(ProgramWhy.TIME_LIMIT))
    if found.selection is None:
        least = _least(problem, demand, stop)
        return SelectionAnswer(
            selection=None,
            status=Status.INFEASIBLE,
            reason=too_little(demand, least),
            least=least,
        )
    if found.status == Status.OPTIMAL:
        return SelectionAnswer(
            selection=found.selection, status=Status.OPTIMAL, reason=proof(demand)
        )
    quick = quick_answer(problem, demand, because(ProgramWhy.BOUND, bound=found.bound))
    if quick.selection is not None and demand.cost(quick.selection) < demand.cost(found.selection):
        return quick
    return replace(quick, selection=found.selection, status=found.status)


def _solved(problem: SelectionProblem, demand: Demand, stop: Stop) -> Solution:
    if demand.nanoseconds is not None:
        return smallest(problem, demand.objective, demand.nanoseconds, budget=stop)
    return fastest(problem, demand.objective, demand.memory, budget=stop)


def _least(problem: SelectionProblem, demand: Demand, stop: Stop) -> int | None:
    """The least that a limit must allow; None if it was not found in time."""
    if demand.nanoseconds is not None:
        found = fastest(problem, demand.objective, budget=stop)
    else:
        found = smallest(problem, demand.objective, MOST, budget=stop)
    if found.selection is None or found.status != Status.OPTIMAL:
        return None
    if demand.nanoseconds is not None:
        return found.selection.nanoseconds
    return found.selection.memory(demand.objective)


def solved_front(
    problem: SelectionProblem, objective: Objective, budgets: int, budget: Budget = None
) -> tuple[Pair, ...]:
    """Return the best time at so many memories, evenly from the least to that of the fastest.

    Without what others improve on; only what was proved, within the time limit and before an interrupt.
    """
    found: list[Pair] = []
    with suppress(KeyboardInterrupt):
        for pair in _proved(problem, objective, budgets, stop_of(budget)):
            if not found or pair.nanoseconds < found[-1].nanoseconds:
                found.append(pair)
    return tuple(found)


def _proved(
    problem: SelectionProblem, objective: Objective, budgets: int, stop: Stop
) -> Iterator[Pair]:
    """The fastest selection at each memory where it is proved."""
    low = smallest(problem, objective, MOST, budget=stop).selection
    high = fastest(problem, objective, budget=stop).selection
    if low is None or high is None:
        return
    first, last = low.memory(objective), high.memory(objective)
    for step in range(budgets):
        memory = first + (last - first) * step // max(1, budgets - 1)
        solution = fastest(problem, objective, memory, budget=stop)
        if solution.selection is not None and solution.status == Status.OPTIMAL:
            yield Pair(solution.selection.nanoseconds, solution.selection.memory(objective))


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
        return _solved_program(
            problem, objective, variables, "nanoseconds", limit=None, stop=stop_of(budget)
        )
    variables = variables_of(problem, objective)
    limit = None if memory is None else Limit("memory", memory)
    return _solved_program(
        problem, objective, variables, "nanoseconds", limit=limit, stop=stop_of(budget)
    )


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
        return _solved_program(problem, objective, variables, "memory", limit=limit, stop=stop)
    sizes = sorted({one.memory for one in variables_of(problem, objective)})
    low, high = 0, len(sizes)  # smaller ones than sizes[low] do not do, sizes[high] does
    best, ended = None, False
    while low < high:
        middle = (low + high) // 2
        found = fastest(problem, objective, sizes[middle], budget=stop)
        ended |= found.status in (Status.FEASIBLE, Status.UNKNOWN)
        if found.selection is not None and found.selection.nanoseconds <= nanoseconds:
            high, best = middle, found.selection
        else:
            low = middle + 1
    if best is None:
        return Solution(
            selection=None, status=Status.UNKNOWN if ended else Status.INFEASIBLE, bound=None
        )
    bound = None if ended else best.memory(objective)
    return Solution(
        selection=best, status=Status.FEASIBLE if ended else Status.OPTIMAL, bound=bound
    )


def _solved_program(
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
    if program is None or (
        limit is not None and limit.most < _least_cost(problem, objective, limit)
    ):
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
    return Solution(selection=None, status=Status.UNKNOWN, bound=None)


def _least_cost(problem: SelectionProblem, objective: Objective, limit: Limit) -> int:
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


class BinaryVariable(NamedTuple):
    """A candidate of a layer, or a link with the layouts at its ends."""

    of: int  # number of the layer or of the link
    source: str
    target: str
    nanoseconds: int
    memory: int
    candidate: LayerProfile | None  # None for a link


class Limit(NamedTuple):
    """The most of what is not minimised, "nanoseconds" or "memory"."""

    what: str
    most: int


class SumBetween(NamedTuple):
    """A sum of variables that lies between two numbers."""

    factors: Mapping[int, int]
    low: float
    high: float


class Program(NamedTuple):
    """Variables with costs beyond the least of each layer, the sum of the least, and constraints."""

    variables: tuple[BinaryVariable, ...]
    costs: list[int]
    least: int
    rows: list[SumBetween]


def formulated(
    problem: SelectionProblem, variables: Sequence[BinaryVariable], what: str, limit: Limit | None
) -> Program | None:
    """Return what minimises a cost under a limit on the other; None where nothing can be.

    what: "nanoseconds" or "memory".
    """
    chosen_from = {one.of for one in variables if one.candidate is not None}
    if len(chosen_from) < len(problem.layers):
        return None
    rows = _rows(problem, variables)
    costs, least = _costs(variables, what)
    if limit is not None:
        limited, needed = _costs(variables, limit.what)
        if limit.most < needed:
            return None
        factors = {place: cost for place, cost in enumerate(limited) if cost}
        rows.append(SumBetween(factors, -inf, limit.most - needed))
    return Program(tuple(variables), costs, least, rows)


def variables_of(
    problem: SelectionProblem, objective: Objective, *, most: int | None = None
) -> list[BinaryVariable]:
    """Return all variables; with `most`, those of at most so many bytes."""
    found = [
        BinaryVariable(
            number, one.input_layout, one.output_layout, one.nanoseconds, memory, candidate=one
        )
        for number, candidates in enumerate(problem.candidates)
        for one, memory in _useful(candidates, objective)
    ]
    for number, link in enumerate(problem.links):
        found += _ends(problem, objective, number, link)
    return [one for one in found if most is None or one.memory <= most]


def _useful(
    candidates: Iterable[LayerProfile], objective: Objective
) -> list[tuple[LayerProfile, int]]:
    """Candidates that no other of the same layouts improves on, with their memory."""
    least: dict[tuple[str, str], int] = {}
    kept = []
    for one in sorted(candidates, key=lambda one: (objective.of_layer(one), one.nanoseconds)):
        ends = one.input_layout, one.output_layout
        if ends not in least or one.nanoseconds < least[ends]:
            least[ends] = one.nanoseconds
            kept.append((one, objective.of_layer(one)))
    return kept


def _ends(
    problem: SelectionProblem, objective: Objective, number: int, link: Link
) -> list[BinaryVariable]:
    found = []
    for source in problem.output_layouts(link.producer):
        for target in problem.input_layouts(link.consumer):
            change = link.change(source, target)
            time = 0 if change is None else change.nanoseconds
            memory = 0 if change is None else objective.of_change(link, change)
            found.append(BinaryVariable(number, source, target, time, memory, candidate=None))
    return found


def _rows(problem: SelectionProblem, variables: Sequence[BinaryVariable]) -> list[SumBetween]:
    """Demand a single candidate for each layer; at each end of a link, the layout of its layer."""
    layers: dict[int, dict[int, int]] = {number: {} for number in range(len(problem.layers))}
    ends: dict[tuple[int, str, str], dict[int, int]] = {}  # link, which end, layout
    writing, reading = _links_of(problem)
    for place, one in enumerate(variables):
        if one.candidate is None:
            ends.setdefault((one.of, "source", one.source), {})[place] = 1
            ends.setdefault((one.of, "target", one.target), {})[place] = 1
            continue
        layers[one.of][place] = 1
        for number in writing[one.of]:
            ends.setdefault((number, "source", one.target), {})[place] = -1
        for number in reading[one.of]:
            ends.setdefault((number, "target", one.source), {})[place] = -1
    return [
        *(SumBetween(factors, 1, 1) for factors in layers.values()),
        *(SumBetween(factors, 0, 0) for factors in ends.values()),
    ]


def _links_of(problem: SelectionProblem) -> tuple[list[list[int]], list[list[int]]]:
    """For each layer, the numbers of the links that it writes to, and of those that it reads."""
    writing: list[list[int]] = [[] for _ in problem.layers]
    reading: list[list[int]] = [[] for _ in problem.layers]
    for number, link in enumerate(problem.links):
        writing[link.producer].append(number)
        reading[link.consumer].append(number)
    return writing, reading


def _costs(variables: Sequence[BinaryVariable], what: str) -> tuple[list[int], int]:
    """Return the cost of each variable beyond the least of its layer, and the sum of the least.

    One candidate of each layer is there in any case; small numbers lose less in floating point.
    """
    least: dict[int, int] = {}
    for one in variables:
        if one.candidate is not None:
            cost = int(getattr(one, what))
            least[one.of] = min(cost, least.get(one.of, cost))
    beyond = [
        int(getattr(one, what)) - (0 if one.candidate is None else least[one.of])
        for one in variables
    ]
    return beyond, sum(least.values())


STANDARD_OUTPUT = 1


@contextmanager
def quiet_output() -> Iterator[None]:
    """Drop what is written to standard output within the block, by C too; of the whole process."""
    _flush()
    kept = os.dup(STANDARD_OUTPUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, STANDARD_OUTPUT)
        yield
    finally:
        _flush()
        os.dup2(kept, STANDARD_OUTPUT)
        os.close(kept)
        os.close(nowhere)


def _flush() -> None:
    """Let C write what it has printed so far; Windows keeps its buffers elsewhere."""
    if os.name == "posix":
        ctypes.pythonapi.fflush(None)
