"""Several memories: which buffer lies in which bank, by exhaustive search, and where in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from csdf.arguments import public
from csdf.errors import GaveUp, InvalidPlan
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.allocation import check_fixed, plan_and_end, plan_arena
from planners.arena.problem import Bank, Buffer, MemoryPlan, Problem, loads

MOST_STEPS = 40  # steps of search for one set of buffers in one bank
MOST_PLANS = 2000  # that are made for one problem
MOST_CHOSEN = 64  # buffers without a bank up to which choices are searched
MOST_CHOICES = 100_000  # of a bank for a buffer, after which the search gives up

Names = frozenset[str]
Filling = tuple[Names, ...]  # the buffers in each bank, in the order of the banks


class BankWhy(Why):
    """The reasons for the status of a plan for several banks, and of one bank."""

    EVERY_BANK_FITS = "every bank fits"
    IN_BANK = "bank {bank!r}: {reason}"
    NONE_FITS = "all choices of a bank for each buffer were searched; none fits"
    UNDECIDED = "whether some buffers fit into a bank together stayed undecided"
    NONE_KNOWN = "{end}; no choice of banks that fits is known"
    FIXED = "fixed offsets: {error}"
    MOST_PLANS = "{most} sets of buffers in a bank were tried, not all"
    ENDED = "the search for one choice of buffers ended"
    TOO_MANY = "{buffers} buffers are too many to search all choices of banks"
    MOST_CHOICES = "{most} choices of banks were tried, not all"


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


@public
def plan_banks(problem: Problem, *, budget: Budget = None) -> BankPlan:
    """Give each buffer a bank and a place in it.

    First the banks are filled in their order: what does not fit into one goes on to the next, the
    largest first. That is a heuristic. Where it fails, all choices of banks are searched, in limits
    that the constants of this module name; then `infeasible` is proved. It also is where all
    capacities together, or those of the banks that buffers name, are too small. Beyond the limits,
    or where `budget` or Ctrl-C ends the search, the status is `unknown`.

    Raises InvalidPlan for a problem without banks.
    """
    if not problem.banks:
        raise InvalidPlan(f"{problem.name}: has no banks")
    together = sum(bank.capacity for bank in problem.banks)
    anywhere = (
        replace(one, bank=None, offset=None, alignment=1, hint=None) for one in problem.buffers
    )
    everything = replace(problem, buffers=tuple(anywhere), banks=())
    bound = plan_arena(everything, capacity=together, budget=Stop(steps=0))
    plans: dict[str, MemoryPlan] = {}
    status, reason = bound.status, bound.reason
    if status != Status.INFEASIBLE:
        try:
            status, reason, plans = _planned(problem, stop_of(budget))
        except ENDS as end:
            status = Status.UNKNOWN
            reason = because(BankWhy.NONE_KNOWN, end=reason_of(end))
    return BankPlan(
        problem=problem, plans=plans, lower_bound=bound.lower_bound, status=status, reason=reason
    )


def _planned(problem: Problem, stop: Stop) -> tuple[Status, Reason, dict[str, MemoryPlan]]:
    """Return status, reason and plans; what takes no room lies in the first bank."""
    contents = Contents(problem, stop)
    start = tuple(
        frozenset(one.name for one in problem.buffers if one.bank == bank.name)
        for bank in problem.banks
    )
    for bank, names in zip(problem.banks, start, strict=True):
        plan = contents.plan(bank, names)
        if plan.status in (Status.INFEASIBLE, Status.UNKNOWN):
            return plan.status, because(BankWhy.IN_BANK, bank=bank.name, reason=plan.reason), {}
    filling = _filled_in_turn(problem, contents, start)
    if filling is None:
        search = BankSearch(problem, contents, stop)
        filling = search.filling(start)
        if filling is None and search.is_decided:
            return Status.INFEASIBLE, because(BankWhy.NONE_FITS), {}
    if filling is None:
        return Status.UNKNOWN, because(BankWhy.UNDECIDED), {}
    resting = {one.name for one in problem.buffers if one.bank is None and not one.takes_bytes}
    first, *others = filling
    plans: dict[str, MemoryPlan] = {}
    for bank, names in zip(problem.banks, (first | resting, *others), strict=True):
        plans[bank.name] = plan = contents.plan(bank, names)
        if not plan.has_offsets or plan.status == Status.UNKNOWN:
            return (
                Status.UNKNOWN,
                because(BankWhy.IN_BANK, bank=bank.name, reason=plan.reason),
                {},
            )
    return Status.FEASIBLE, because(BankWhy.EVERY_BANK_FITS), plans


def _filled_in_turn(problem: Problem, contents: Contents, start: Filling) -> Filling | None:
    """Put into each bank what is left and fits; None if something is left at the end.

    Of a bank the largest leaves until the others fit.
    """
    left = frozenset(one.name for one in problem.buffers if _is_free(one))
    filling: list[Names] = []
    for bank, named in zip(problem.banks, start, strict=True):
        staying = [one for one in contents.named(left) if one.size <= bank.capacity]
        while staying and not contents.can_fit(bank, named | {one.name for one in staying}):
            staying.remove(max(staying, key=lambda buffer: buffer.size))
        chosen = frozenset(one.name for one in staying)
        filling.append(named | chosen)
        left -= chosen
    return None if left else tuple(filling)


def _is_free(buffer: Buffer) -> bool:
    """Whether the buffer takes room and names no bank."""
    return buffer.takes_bytes and buffer.bank is None


class Contents:
    """Plans for sets of buffers of a problem in its banks; every set is planned once.

    What ends the stop ends the work with it, by GaveUp or KeyboardInterrupt; so do MOST_PLANS.
    """

    def __init__(self, problem: Problem, stop: Stop) -> None:
        self._problem = problem
        self._stop = stop
        self._yielding = {
            name for pair in (*problem.may_overlap, *problem.in_place) for name in pair
        }
        self._known: dict[tuple[str, Names], MemoryPlan] = {}

    def named(self, names: Iterable[str]) -> list[Buffer]:
        """Return the buffers of those names, in the order of the problem."""
        chosen = set(names)
        return [buffer for buffer in self._problem.buffers if buffer.name in chosen]

    def can_fit(self, bank: Bank, names: Names) -> bool | None:
        """Return whether the buffers fit into the bank; None if that stayed undecided."""
        buffers = self.named(names)  # what may lie over another buffer is not counted as alive
        lives = [(b.start, b.end, b.size) for b in buffers if b.name not in self._yielding]
        if max(loads(lives).values(), default=0) > bank.capacity:
            return False
        is_free = all(one.offset is None and one.alignment == 1 for one in buffers)
        if is_free and sum(one.size for one in buffers if one.takes_bytes) <= bank.capacity:
            return True  # each can have bytes of its own, so that nobody need search
        if len(self._known) >= MOST_PLANS:
            raise GaveUp(because(BankWhy.MOST_PLANS, most=MOST_PLANS))
        status = self.plan(bank, names).status
        return None if status == Status.UNKNOWN else status != Status.INFEASIBLE

    def plan(self, bank: Bank, names: Names) -> MemoryPlan:
        """Return a plan within the capacity of the bank, or why there is none."""
        key = bank.name, names
        if key not in self._known:
            self._known[key] = self._planned(bank, names)
        return self._known[key]

    def _planned(self, bank: Bank, names: Names) -> MemoryPlan:
        buffers = (replace(buffer, bank=None) for buffer in self.named(names))
        part = self._problem.part(buffers, f"{self._problem.name} in {bank.name}")
        try:
            check_fixed(part)
        except InvalidPlan as error:
            reason = because(BankWhy.FIXED, error=str(error))
            status = Status.INFEASIBLE
            return MemoryPlan(problem=part, lower_bound=0, status=status, reason=reason)
        steps = self._stop.part(steps=MOST_STEPS, reason=because(BankWhy.ENDED))
        plan, end = plan_and_end(part, capacity=bank.capacity, stop=steps)
        self._stop.end_whole(end)
        return plan


class BankSearch:
    """A search over all choices of a bank for each buffer that takes room and names none.

    The largest buffer is placed first, in the first bank that takes it. Choices that differ in
    buffers or empty banks that are alike are tried once.
    """

    def __init__(self, problem: Problem, contents: Contents, stop: Stop) -> None:
        self._banks = problem.banks
        self._contents = contents
        self._stop = stop
        self._free = sorted((b for b in problem.buffers if _is_free(b)), key=_rank)
        pairs = (*problem.conflicts, *problem.may_overlap, *problem.in_place)
        self._paired = {name for pair in pairs for name in pair}
        self._choices = 0
        self.is_decided = True  # so far, whether every set of buffers fits its bank

    def filling(self, start: Filling) -> Filling | None:
        """Return the first choice that fits, begun with what names its bank; None if there is none.

        None is a proof if is_decided. Raises GaveUp beyond MOST_CHOSEN buffers or MOST_CHOICES.
        """
        if len(self._free) > MOST_CHOSEN:
            raise GaveUp(because(BankWhy.TOO_MANY, buffers=len(self._free)))
        return self._filled(start, 0, 0)

    def _filled(self, filling: Filling, number: int, before: int) -> Filling | None:
        """Place the free buffers from this number on; before: the bank of the one before it."""
        if number == len(self._free):
            return filling
        for bank in self._banks_for(filling, number, before):
            self._choices += 1
            if self._choices > MOST_CHOICES:
                raise GaveUp(because(BankWhy.MOST_CHOICES, most=MOST_CHOICES))
            self._stop.look()
            larger = filling[bank] | {self._free[number].name}
            fits = self._contents.can_fit(self._banks[bank], larger)
            self.is_decided &= fits is not None
            if fits:
                with_it = (*filling[:bank], larger, *filling[bank + 1 :])
                found = self._filled(with_it, number + 1, bank)
                if found is not None:
                    return found
        return None

    def _banks_for(self, filling: Filling, number: int, before: int) -> Iterator[int]:
        """The numbers of banks to try: one of several empty ones of a capacity, none twice.

        A buffer that may change places with the one before it in every plan begins at its bank.
        """
        first, one, other = 0, self._free[number - 1], self._free[number]
        is_paired = not self._paired.isdisjoint((one.name, other.name))
        if number > 0 and not is_paired:
            first = before if replace(one, name=other.name, hint=other.hint) == other else 0
        empty: set[int] = set()
        for bank, capacity in enumerate(one.capacity for one in self._banks):
            if not filling[bank]:
                if capacity in empty:
                    continue
                empty.add(capacity)
            if bank >= first:
                yield bank


def _rank(buffer: Buffer) -> tuple[int, ...]:
    """The largest first, those alike one after the other."""
    fixed = -1 if buffer.offset is None else buffer.offset
    return (-buffer.size, buffer.start - buffer.end, buffer.start, buffer.alignment, fixed)
