"""Several memories: which buffer lies in which bank, and where in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from csdf.errors import GaveUp, InvalidPlan
from planners.arena.allocation import Progress, Watch, plan_arena
from planners.plan import FEASIBLE, GAVE_UP, INFEASIBLE, Bank, Buffer, MemoryPlan, Pair, Problem

PATIENCE = 40  # steps of search for one choice of buffers, before one of them moves on


@dataclass(frozen=True, slots=True, kw_only=True)
class BankPlan:
    """A plan for each bank that fits its capacity, by name in the order of the banks.

    plans: empty unless the status is `feasible`. lower_bound: bytes in all banks together.
    """

    problem: Problem
    plans: dict[str, MemoryPlan]
    lower_bound: int
    status: str
    reason: str


def plan_banks(problem: Problem, *, watch: Watch = lambda _: None) -> BankPlan:
    """Fill the banks in their order; what does not fit into one goes on to the next.

    A heuristic: which buffers stay is decided by size, the largest of those that are too many moves
    on. Infeasible is said only where it is proved: by all capacities together, or for the buffers
    that name their bank. Raises InvalidPlan for a problem without banks.
    """
    if not problem.banks:
        raise InvalidPlan(f"{problem.name}: has no banks")
    together = sum(bank.capacity for bank in problem.banks)
    everything = replace(problem, buffers=tuple(map(_anywhere, problem.buffers)), banks=())
    bound = plan_arena(everything, capacity=together, watch=_end_at_once)
    plans: dict[str, MemoryPlan] = {}
    status, reason = FEASIBLE, "every bank fits"
    left = list(problem.buffers)
    if bound.status == INFEASIBLE:
        status, reason = INFEASIBLE, bound.reason
    for bank in problem.banks if status == FEASIBLE else ():
        plan = _filled(problem, bank, left, watch)
        plans[bank.name] = plan
        left = [buffer for buffer in left if buffer.name not in plan.offsets]
        if plan.status in (INFEASIBLE, GAVE_UP):
            status, reason = plan.status, f"bank {bank.name!r}: {plan.reason}"
            break
    if status == FEASIBLE and left:
        status, reason = GAVE_UP, f"buffer {left[0].name!r} is left over after the last bank"
    return BankPlan(
        problem=problem,
        plans=plans if status == FEASIBLE else {},
        lower_bound=bound.lower_bound,
        status=status,
        reason=reason,
    )


def _filled(problem: Problem, bank: Bank, left: Sequence[Buffer], watch: Watch) -> MemoryPlan:
    """Return a plan for those that must lie in the bank and as many others as are found to fit."""
    chosen = [buffer for buffer in left if buffer.bank in (None, bank.name)]
    while True:
        plan = plan_arena(_part(problem, bank, chosen), capacity=bank.capacity, watch=_some(watch))
        movable = [buffer for buffer in chosen if buffer.bank is None and buffer.takes_room]
        if plan.status not in (INFEASIBLE, GAVE_UP) or not movable:
            return plan
        too_large = [buffer for buffer in movable if buffer.size > bank.capacity]
        leaving = too_large or [max(movable, key=lambda buffer: buffer.size)]
        chosen = [buffer for buffer in chosen if buffer not in leaving]


def _part(problem: Problem, bank: Bank, buffers: Sequence[Buffer]) -> Problem:
    names = {buffer.name for buffer in buffers}

    def among(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(pair for pair in pairs if names.issuperset(pair))

    return Problem(
        name=f"{problem.name} in {bank.name}",
        buffers=tuple(replace(buffer, bank=None) for buffer in buffers),
        conflicts=among(problem.conflicts),
        shares=among(problem.shares),
        in_place=among(problem.in_place),
    )


def _anywhere(buffer: Buffer) -> Buffer:
    return replace(buffer, bank=None, offset=None, alignment=1, hint=None)


def _end_at_once(_: Progress) -> None:
    raise GaveUp("only the bound is wanted")


def _some(watch: Watch) -> Watch:
    """Return the watch with an end after some steps."""
    steps = iter(range(PATIENCE))

    def look(progress: Progress) -> None:
        watch(progress)
        if next(steps, None) is None:
            raise GaveUp("the search for one choice of buffers ended")

    return look
