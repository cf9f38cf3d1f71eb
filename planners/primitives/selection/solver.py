"""The best selection within a limit, by the integer program."""

from __future__ import annotations

from planners.plan import GAVE_UP, INFEASIBLE, OPTIMAL
from planners.primitives.selection.fronts import Pair
from planners.primitives.selection.integer_program import Solution, fastest, smallest
from planners.primitives.selection.planning import (
    Demand,
    SelectionAnswer,
    proof,
    quick_answer,
    too_little,
)
from planners.primitives.selection.problem import MOST, Objective, SelectionProblem


def solved_selection(
    problem: SelectionProblem, demand: Demand, seconds: float | None = None
) -> SelectionAnswer:
    """Return the best selection by the integer program, within some seconds of the solver."""
    try:
        found = _solved(problem, demand, seconds)
    except KeyboardInterrupt:
        return quick_answer(problem, demand, "interrupted")
    if found.status == GAVE_UP:
        return quick_answer(problem, demand, "the budget of the solver is used up")
    if found.selection is None:
        least = _least(problem, demand, seconds)
        return SelectionAnswer(
            selection=None,
            status=INFEASIBLE,
            reason=too_little(demand, least),
            least=least,
        )
    is_proved = found.status == OPTIMAL
    return SelectionAnswer(
        selection=found.selection,
        status=found.status,
        reason=proof(demand) if is_proved else f"proved: none is below {found.bound}",
    )


def _solved(problem: SelectionProblem, demand: Demand, seconds: float | None) -> Solution:
    if demand.nanoseconds is not None:
        return smallest(problem, demand.objective, demand.nanoseconds, seconds=seconds)
    return fastest(problem, demand.objective, demand.memory, seconds=seconds)


def _least(problem: SelectionProblem, demand: Demand, seconds: float | None) -> int | None:
    """The least that a limit must allow; None if it was not found in time."""
    if demand.nanoseconds is not None:
        found = fastest(problem, demand.objective, seconds=seconds)
    else:
        found = smallest(problem, demand.objective, MOST, seconds=seconds)
    if found.selection is None or found.status != OPTIMAL:
        return None
    if demand.nanoseconds is not None:
        return found.selection.nanoseconds
    return found.selection.memory(demand.objective)


def solved_front(
    problem: SelectionProblem, objective: Objective, budgets: int, seconds: float | None = None
) -> tuple[Pair, ...]:
    """Return the best time at so many memories, evenly from the least to that of the fastest.

    Without what others improve on; only what was proved.
    """
    low = smallest(problem, objective, MOST, seconds=seconds).selection
    high = fastest(problem, objective, seconds=seconds).selection
    if low is None or high is None:
        return ()
    first, last = low.memory(objective), high.memory(objective)
    found: list[Pair] = []
    for step in range(budgets):
        memory = first + (last - first) * step // max(1, budgets - 1)
        solution = fastest(problem, objective, memory, seconds=seconds)
        if solution.selection is None or solution.status != OPTIMAL:
            continue
        time = solution.selection.nanoseconds
        if not found or time < found[-1].nanoseconds:
            found.append(Pair(time, solution.selection.memory(objective)))
    return tuple(found)
