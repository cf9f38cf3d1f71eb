"""The best selection within a limit, by the integer program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from csdf.outcome import Status, Why, because
from csdf.stopping import Budget, Stop, reason_of, stop_of
from planners.primitives.selection.fronts import Pair
from planners.primitives.selection.integer_program import (
    Solution,
    fastest,
    smallest,
)
from planners.primitives.selection.objective import Objective
from planners.primitives.selection.planning import (
    Demand,
    SelectionAnswer,
    proof,
    quick_answer,
    too_little,
)
from planners.primitives.selection.problem import MOST, SelectionProblem


class ProgramWhy(Why):
    """Why the solver has no proof that its selection is the best."""

    BUDGET = "the budget of the solver is used up"
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
    if found.status == Status.GAVE_UP:
        return quick_answer(problem, demand, because(ProgramWhy.BUDGET))
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

    Without what others improve on; only what was proved, within the budget and before an interrupt.
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
