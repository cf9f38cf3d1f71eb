"""Several memories: which buffer lies in which bank, and where in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from csdf.errors import InvalidPlan
from csdf.outcome import Reason, Status, Why, because
from csdf.stopping import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.allocation import plan_arena
from planners.arena.bank_contents import Contents, Names
from planners.arena.bank_search import BankSearch, Filling, is_free
from planners.plan import Bank, Buffer, MemoryPlan, Problem


class BankWhy(Why):
    """The reasons for the status of a plan for several banks."""

    EVERY_BANK_FITS = "every bank fits"
    IN_BANK = "bank {bank!r}: {reason}"
    NONE_FITS = "all choices of a bank for each buffer were searched; none fits"
    UNDECIDED = "whether some buffers fit into a bank together stayed undecided"
    NONE_KNOWN = "{end}; no choice of banks that fits is known"


@dataclass(frozen=True, slots=True, kw_only=True)
class BankPlan:
    """A plan for each bank that fits its capacity, by name in the order of the banks.

    plans: empty unless the status is `feasible`. lower_bound: bytes in all banks together.
    """

    problem: Problem
    plans: dict[str, MemoryPlan]
    lower_bound: int
    status: Status
    reason: Reason


def plan_banks(problem: Problem, *, budget: Budget = None) -> BankPlan:
    """Give each buffer a bank and a place in it.

    First the banks are filled in their order: what does not fit into one goes on to the next, the
    largest first. That is a heuristic. Where it fails, all choices of banks are searched, in limits
    that `bank_search` and `bank_contents` name; then `infeasible` is proved. It also is where all
    capacities together, or those of the banks that buffers name, are too small. Beyond the limits,
    or where `budget` or Ctrl-C ends the search, the status is `gave up`.

    Raises InvalidPlan for a problem without banks.
    """
    if not problem.banks:
        raise InvalidPlan(f"{problem.name}: has no banks")
    together = sum(bank.capacity for bank in problem.banks)
    everything = replace(problem, buffers=tuple(map(_anywhere, problem.buffers)), banks=())
    bound = plan_arena(everything, capacity=together, budget=Stop(steps=0))
    plans: dict[str, MemoryPlan] = {}
    status, reason = bound.status, bound.reason
    if status != Status.INFEASIBLE:
        try:
            status, reason, plans = _planned(problem, stop_of(budget))
        except ENDS as end:
            status = Status.GAVE_UP
            reason = because(BankWhy.NONE_KNOWN, end=reason_of(end))
    return BankPlan(
        problem=problem, plans=plans, lower_bound=bound.lower_bound, status=status, reason=reason
    )


def _planned(problem: Problem, stop: Stop) -> tuple[Status, Reason, dict[str, MemoryPlan]]:
    """Return status, reason and plans."""
    contents = Contents(problem, stop)
    start = tuple(_named_for(problem, bank) for bank in problem.banks)
    for bank, names in zip(problem.banks, start, strict=True):
        plan = contents.plan(bank, names)
        if plan.status in (Status.INFEASIBLE, Status.GAVE_UP):
            return plan.status, because(BankWhy.IN_BANK, bank=bank.name, reason=plan.reason), {}
    filling = _filled_in_turn(problem, contents, start)
    if filling is None:
        search = BankSearch(problem, contents, stop)
        filling = search.filling(start)
        if filling is None and search.is_decided:
            return Status.INFEASIBLE, because(BankWhy.NONE_FITS), {}
    if filling is None:
        return Status.GAVE_UP, because(BankWhy.UNDECIDED), {}
    plans = _plans(problem, contents, filling)
    for name, plan in plans.items():
        if not plan.has_offsets or plan.status == Status.GAVE_UP:
            return Status.GAVE_UP, because(BankWhy.IN_BANK, bank=name, reason=plan.reason), {}
    return Status.FEASIBLE, because(BankWhy.EVERY_BANK_FITS), plans


def _plans(problem: Problem, contents: Contents, filling: Filling) -> dict[str, MemoryPlan]:
    """Return the plans of the banks; what takes no room lies in the first bank."""
    resting = {one.name for one in problem.buffers if one.bank is None and not one.takes_room}
    first, *others = filling
    whole = (first | resting, *others)
    return {
        bank.name: contents.plan(bank, names)
        for bank, names in zip(problem.banks, whole, strict=True)
    }


def _named_for(problem: Problem, bank: Bank) -> Names:
    return frozenset(one.name for one in problem.buffers if one.bank == bank.name)


def _filled_in_turn(problem: Problem, contents: Contents, start: Filling) -> Filling | None:
    """Put into each bank what is left and fits; None if something is left at the end."""
    left = frozenset(one.name for one in problem.buffers if is_free(one))
    filling: list[Names] = []
    for bank, named in zip(problem.banks, start, strict=True):
        chosen = _staying(contents, bank, named, left)
        filling.append(named | chosen)
        left -= chosen
    return None if left else tuple(filling)


def _staying(contents: Contents, bank: Bank, named: Names, left: Names) -> Names:
    """Return those that stay in the bank when the largest leaves until the others fit."""
    movable = [one for one in contents.named(left) if one.size <= bank.capacity]
    while movable and not contents.can_fit(bank, named | {one.name for one in movable}):
        movable.remove(max(movable, key=lambda buffer: buffer.size))
    return frozenset(one.name for one in movable)


def _anywhere(buffer: Buffer) -> Buffer:
    return replace(buffer, bank=None, offset=None, alignment=1, hint=None)
