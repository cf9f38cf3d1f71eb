"""The best selection within a limit, by the integer program."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from planners.plan import GAVE_UP, INFEASIBLE, OPTIMAL
from planners.primitives.selection.fronts import Pair
from planners.primitives.selection.integer_program import (
    SecondsLeft,
    Solution,
    fastest,
    smallest,
)
from planners.primitives.selection.planning import (
    Demand,
    SelectionAnswer,
    proof,
    quick_answer,
    too_little,
)
from planners.primitives.selection.problem import MOST, Objective, SelectionProblem


def seconds_left(budget: float | None) -> SecondsLeft:
    """Return how to ask for what is left of a budget (seconds) that begins now; None: no limit."""
    end = None if budget is None else time.monotonic() + budget
    return lambda: None if end is None else end - time.monotonic()


def solved_selection(
    problem: SelectionProblem, demand: Demand, left: SecondsLeft = lambda: None
) -> SelectionAnswer:
    """Return the best selection by the integer program, within the seconds left.

    If they end it, the best of what the solver found and of some quick selections.
    """
    try:
        found = _solved(problem, demand, left)
    except KeyboardInterrupt:
        return quick_answer(problem, demand, "interrupted")
    if found.status == GAVE_UP:
        return quick_answer(problem, demand, "the budget of the solver is used up")
    if found.selection is None:
        least = _least(problem, demand, left)
        return SelectionAnswer(
            selection=None,
            status=INFEASIBLE,
            reason=too_little(demand, least),
            least=least,
        )
    if found.status == OPTIMAL:
        return SelectionAnswer(selection=found.selection, status=OPTIMAL, reason=proof(demand))
    quick = quick_answer(problem, demand, f"proved: none is below {found.bound}")
    if quick.selection is not None and demand.cost(quick.selection) < demand.cost(found.selection):
        return quick
    return replace(quick, selection=found.selection, status=found.status)


def _solved(problem: SelectionProblem, demand: Demand, left: SecondsLeft) -> Solution:
    if demand.nanoseconds is not None:
        return smallest(problem, demand.objective, demand.nanoseconds, left=left)
    return fastest(problem, demand.objective, demand.memory, left=left)


def _least(problem: SelectionProblem, demand: Demand, left: SecondsLeft) -> int | None:
    """The least that a limit must allow; None if it was not found in time."""
    if demand.nanoseconds is not None:
        found = fastest(problem, demand.objective, left=left)
    else:
        found = smallest(problem, demand.objective, MOST, left=left)
    if found.selection is None or found.status != OPTIMAL:
        return None
    if demand.nanoseconds is not None:
        return found.selection.nanoseconds
    return found.selection.memory(demand.objective)


def solved_front(
    problem: SelectionProblem, objective: Objective, budgets: int, left: SecondsLeft = lambda: None
) -> tuple[Pair, ...]:
    """Return the best time at so many memories, evenly from the least to that of the fastest.

    Without what others improve on; only what was proved, in the time left and before an interrupt.
    """
    found: list[Pair] = []
    with suppress(KeyboardInterrupt):
        for pair in _proved(problem, objective, budgets, left):
            if not found or pair.nanoseconds < found[-1].nanoseconds:
                found.append(pair)
    return tuple(found)


def _proved(
    problem: SelectionProblem, objective: Objective, budgets: int, left: SecondsLeft
) -> Iterator[Pair]:
    """The fastest selection at each memory where it is proved."""
    low = smallest(problem, objective, MOST, left=left).selection
    high = fastest(problem, objective, left=left).selection
    if low is None or high is None:
        return
    first, last = low.memory(objective), high.memory(objective)
    for step in range(budgets):
        memory = first + (last - first) * step // max(1, budgets - 1)
        solution = fastest(problem, objective, memory, left=left)
        if solution.selection is not None and solution.status == OPTIMAL:
            yield Pair(solution.selection.nanoseconds, solution.selection.memory(objective))
