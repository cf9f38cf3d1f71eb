"""The best selection within a limit, with what is proved of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, reason_of
from planners.primitives.selection.baselines import in_order
from planners.primitives.selection.objective import Objective
from planners.primitives.selection.problem import MOST, Selection, SelectionProblem
from planners.primitives.selection.trade_off import TradeOff, trade_off


class SelectionWhy(Why):
    """The reasons for the answer to a demand."""

    NONE_FASTER = "none within the limit is faster"
    NONE_SMALLER = "none within the limit is smaller"
    TIME = "no selection takes less than {milliseconds:.4g} ms ({nanoseconds} ns)"
    MEMORY = "no selection needs less than {least} bytes"
    LEAST_UNKNOWN = "nothing is within the limit; the least that would do was not found in time"


@public
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
        """Return the objective that is minimised first, then the second one."""
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
    status: Status
    reason: Reason
    least: int | None = None
    front: TradeOff | None = None


@public
def best_selection(
    problem: SelectionProblem, demand: Demand, budget: Budget = None
) -> SelectionAnswer:
    """Return the best selection by dynamic programming, exactly, and the whole front.

    budget: a stop, or seconds; it ends the work with the best of some quick selections, as Ctrl-C does.
    """
    try:
        front = trade_off(problem, demand.objective, budget)
    except ENDS as end:
        return quick_answer(problem, demand, reason_of(end))
    if demand.nanoseconds is not None:
        goal, least = front.within_time(demand.nanoseconds), front.fastest.nanoseconds
    else:
        goal = front.fastest if demand.memory is None else front.within_memory(demand.memory)
        least = front.smallest.memory
    if goal is None:
        return SelectionAnswer(
            selection=None,
            status=Status.INFEASIBLE,
            reason=too_little(demand, least),
            least=least,
            front=front,
        )
    return SelectionAnswer(
        selection=front.selection(goal),
        status=Status.OPTIMAL,
        reason=proof(demand),
        least=least,
        front=front,
    )


def quick_answer(problem: SelectionProblem, demand: Demand, reason: Reason) -> SelectionAnswer:
    """Return the best of some quick selections, for a search that ended for that reason."""
    found = [one for one in _quick_selections(problem, demand) if demand.is_met_by(one)]
    best = min(found, key=demand.cost, default=None)
    return SelectionAnswer(
        selection=best, status=Status.UNKNOWN if best is None else Status.FEASIBLE, reason=reason
    )


def _quick_selections(problem: SelectionProblem, demand: Demand) -> Iterator[Selection]:
    """Layer after layer within the memory; each layer the fastest; each layer the smallest."""
    found = in_order(problem, demand.objective, MOST if demand.memory is None else demand.memory)
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


def too_little(demand: Demand, least: int | None) -> Reason:
    """Return why nothing is within a limit, and the least that would do, where it is known."""
    if least is None:
        return because(SelectionWhy.LEAST_UNKNOWN)
    if demand.nanoseconds is not None:
        return because(SelectionWhy.TIME, milliseconds=least / 1e6, nanoseconds=least)
    return because(SelectionWhy.MEMORY, least=least)


def proof(demand: Demand) -> Reason:
    """Return what is proved of the best selection."""
    is_in_time = demand.nanoseconds is not None
    return because(SelectionWhy.NONE_SMALLER if is_in_time else SelectionWhy.NONE_FASTER)
