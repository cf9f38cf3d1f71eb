"""Several memories: which buffer lies in which bank, and where in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from csdf.errors import GaveUp, InvalidPlan
from planners.arena.allocation import Progress, Watch, plan_arena
from planners.arena.bank_contents import Contents, Names
from planners.arena.bank_search import BankSearch, Filling, is_free
from planners.plan import FEASIBLE, GAVE_UP, INFEASIBLE, Bank, Buffer, MemoryPlan, Problem


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
    """Give each buffer a bank and a place in it.

    First the banks are filled in their order: what does not fit into one goes on to the next, the
    largest first. That is a heuristic. Where it fails, all choices of banks are searched, in limits
    that `bank_search` and `bank_contents` name; then `infeasible` is proved. It also is where all
    capacities together, or those of the banks that buffers name, are too small. Beyond the limits,
    or where the watch ends the search, the status is `gave up`.

    Raises InvalidPlan for a problem without banks.
    """
    if not problem.banks:
        raise InvalidPlan(f"{problem.name}: has no banks")
    together = sum(bank.capacity for bank in problem.banks)
    everything = replace(problem, buffers=tuple(map(_anywhere, problem.buffers)), banks=())
    bound = plan_arena(everything, capacity=together, watch=_end_at_once)
    plans: dict[str, MemoryPlan] = {}
    status, reason = bound.status, bound.reason
    if status != INFEASIBLE:
        try:
            status, reason, plans = _planned(problem, watch)
        except (GaveUp, KeyboardInterrupt) as end:
            early = str(end) or "interrupted"
            status, reason = GAVE_UP, f"{early}; no choice of banks that fits is known"
    return BankPlan(
        problem=problem, plans=plans, lower_bound=bound.lower_bound, status=status, reason=reason
    )


def _planned(problem: Problem, watch: Watch) -> tuple[str, str, dict[str, MemoryPlan]]:
    """Return status, reason and plans."""
    contents = Contents(problem, watch)
    start = tuple(_named_for(problem, bank) for bank in problem.banks)
    for bank, names in zip(problem.banks, start, strict=True):
        plan = contents.plan(bank, names)
        if plan.status in (INFEASIBLE, GAVE_UP):
            return plan.status, f"bank {bank.name!r}: {plan.reason}", {}
    filling = _filled_in_turn(problem, contents, start)
    if filling is None:
        search = BankSearch(problem, contents, watch)
        filling = search.filling(start)
        if filling is None and search.is_decided:
            return INFEASIBLE, "all choices of a bank for each buffer were searched; none fits", {}
    if filling is None:
        return GAVE_UP, "whether some buffers fit into a bank together stayed undecided", {}
    plans = _plans(problem, contents, filling)
    for name, plan in plans.items():
        if not plan.has_offsets or plan.status == GAVE_UP:
            return GAVE_UP, f"bank {name!r}: {plan.reason}", {}
    return FEASIBLE, "every bank fits", plans


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


def _end_at_once(_: Progress) -> None:
    raise GaveUp("only the bound is wanted")
