"""The best selection within a limit, with what is proved of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from csdf.errors import GaveUp, InvalidPlan
from planners.plan import FEASIBLE, GAVE_UP, INFEASIBLE, OPTIMAL
from planners.primitives.selection.baselines import greedy
from planners.primitives.selection.elimination import Look
from planners.primitives.selection.problem import (
    MOST,
    Objective,
    Selection,
    SelectionProblem,
)
from planners.primitives.selection.trade_off import TradeOff, trade_off


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Least time within a memory in bytes, or least memory within a time; else least time."""

    objective: Objective
    memory: int | None = None
    nanoseconds: int | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and self.nanoseconds is not None:
            raise InvalidPlan("limits on both memory and time; limit one, the other is minimised")

    def is_met_by(self, selection: Selection) -> bool:
        """Whether a selection is within the limit."""
        if self.memory is not None:
            return selection.memory(self.objective) <= self.memory
        return self.nanoseconds is None or selection.nanoseconds <= self.nanoseconds

    def cost(self, selection: Selection) -> tuple[int, int]:
        """What is minimised, then the other."""
        costs = selection.nanoseconds, selection.memory(self.objective)
        return costs if self.nanoseconds is None else costs[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionAnswer:
    """The answer to a demand.

    status: "optimal" and "infeasible" are proved. least: what the limited quantity is at least, in
    its units; None where it is not known. front: of all selections, where it was asked for or came
    with the answer.
    """

    selection: Selection | None
    status: str
    reason: str
    least: int | None = None
    front: TradeOff | None = None


def best_selection(
    problem: SelectionProblem, demand: Demand, look: Look = lambda: None
) -> SelectionAnswer:
    """Return the best selection by dynamic programming, exactly, and the whole front.

    look: called now and then; GaveUp or KeyboardInterrupt from it end the work with the best of
    some quick selections.
    """
    try:
        front = trade_off(problem, demand.objective, look)
    except (GaveUp, KeyboardInterrupt) as end:
        return quick_answer(problem, demand, str(end) or "interrupted")
    if demand.nanoseconds is not None:
        goal, least = front.within_time(demand.nanoseconds), front.fastest.nanoseconds
    else:
        goal = front.fastest if demand.memory is None else front.within_memory(demand.memory)
        least = front.smallest.memory
    if goal is None:
        return SelectionAnswer(
            selection=None,
            status=INFEASIBLE,
            reason=too_little(demand, least),
            least=least,
            front=front,
        )
    return SelectionAnswer(
        selection=front.selection(goal),
        status=OPTIMAL,
        reason=proof(demand),
        least=least,
        front=front,
    )


def quick_answer(problem: SelectionProblem, demand: Demand, reason: str) -> SelectionAnswer:
    """Return the best of some quick selections, for a search that ended for that reason."""
    found = [one for one in _quick_selections(problem, demand) if demand.is_met_by(one)]
    best = min(found, key=demand.cost, default=None)
    return SelectionAnswer(
        selection=best, status=GAVE_UP if best is None else FEASIBLE, reason=reason
    )


def _quick_selections(problem: SelectionProblem, demand: Demand) -> Iterator[Selection]:
    """Greedily with the memory; each layer the fastest; each layer the smallest."""
    found = greedy(problem, demand.objective, MOST if demand.memory is None else demand.memory)
    if found is not None:
        yield found
    yield Selection(
        problem=problem,
        chosen=tuple(min(one, key=lambda each: each.nanoseconds) for one in problem.candidates),
    )
    yield Selection(
        problem=problem,
        chosen=tuple(min(one, key=demand.objective.of_layer) for one in problem.candidates),
    )


def too_little(demand: Demand, least: int | None) -> str:
    """Return why nothing is within a limit, and the least that would do, where it is known."""
    if least is None:
        return "nothing is within the limit; the least that would do was not found in time"
    if demand.nanoseconds is not None:
        return f"no selection takes less than {least / 1e6:.4g} ms ({least} ns)"
    return f"no selection needs less than {least} bytes"


def proof(demand: Demand) -> str:
    """Return what is proved of the best selection."""
    what = "smaller" if demand.nanoseconds is not None else "faster"
    return f"none within the limit is {what}"
