"""Assignment of buffers to several memory banks, by exhaustive or best-first search, and offsets.

A buffer may name its bank; all other buffers are free. Without access costs, a depth-first search over
the free buffers finds an assignment that fits (`BankSearch`). With access costs, a best-first search
over two banks minimises the total cost (`CostSearch`). Both use the plans of `Contents`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil

from csdf.arguments import public
from csdf.errors import GaveUp, InvalidPlan
from csdf.status import Reason, Status, Why, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.arena.allocation import check_fixed, plan_and_end, plan_arena
from planners.arena.problem import Bank, Buffer, MemoryPlan, Problem, loads

# Limits of the search, beyond which the status is `unknown`.
MOST_STEPS = 40  # steps of the search for offsets of one set of buffers in one bank
MOST_PLANS = 2000  # sets of buffers of one problem that are planned
MOST_CHOSEN = 64  # buffers that name no bank
MOST_CHOICES = 100_000  # choices of a bank for a buffer

Names = frozenset[str]  # of a set of buffers
Filling = tuple[Names, ...]  # the buffers in each bank, in the order of the banks

# Of a node of `CostSearch`: instead of the index of a time, if no time has too many live bytes.
ALL_FIT = -1
# Instead of the bound and the time, if too many live bytes are decided to be in the cheaper bank.
NO_NODE = (2**62, -2)


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
    COST = "accesses cost {cost}; no choice of banks costs less than {bound}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BankPlan:
    """A plan for each bank that fits its capacity, by name in the order of the banks.

    plans: empty unless the status is `feasible` or `optimal`. lower_bound: bytes in all banks
    together. cost: of all accesses, where banks have costs; no choice costs less than cost_bound.
    """

    problem: Problem
    plans: dict[str, MemoryPlan]
    lower_bound: int
    status: Status
    reason: Reason
    cost: int | None = None
    cost_bound: int | None = None


@public
def plan_banks(problem: Problem, *, budget: Budget = None) -> BankPlan:
    """Return a bank, and an offset in it, for each buffer.

    A heuristic fills the banks in their order: the largest buffers that do not fit into a bank go to
    the next. If it fails, all choices of banks are searched within the limits of this module, so
    `infeasible` is a proof. `infeasible` is also proved if the sum of the capacities, or the bank that
    buffers name, is too small. Beyond the limits, or if `budget` or Ctrl-C ends the search, the status
    is `unknown`.

    If one of two banks has a higher cost of an access, the choice of minimum cost is searched, best
    first: `optimal`, or the best choice by the end of the search with a lower bound on the cost.

    Raises InvalidPlan for a problem without banks, and for access costs in more than two banks.
    """
    if not problem.banks:
        raise InvalidPlan(f"{problem.name}: has no banks")
    # Relaxation to one arena of the total capacity, without alignments: if it is infeasible, the
    # problem is infeasible.
    total_capacity = sum(bank.capacity for bank in problem.banks)
    buffers = (
        replace(buffer, bank=None, offset=None, alignment=1, hint=None)
        for buffer in problem.buffers
    )
    relaxation = replace(problem, buffers=tuple(buffers), banks=())
    bound = plan_arena(relaxation, capacity=total_capacity, budget=Stop(steps=0))
    plans: dict[str, MemoryPlan] = {}
    status, reason = bound.status, bound.reason
    if status != Status.INFEASIBLE and len({bank.cost for bank in problem.banks}) > 1:
        return _cheapest(problem, stop_of(budget), bound.lower_bound)
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
    """Return status, reason and plans; free buffers without bytes or lifetime are in the first bank."""
    contents = Contents(problem, stop)
    start = tuple(
        frozenset(buffer.name for buffer in problem.buffers if buffer.bank == bank.name)
        for bank in problem.banks
    )
    for bank, names in zip(problem.banks, start, strict=True):
        plan = contents.plan(bank, names)
        if plan.status in (Status.INFEASIBLE, Status.UNKNOWN):
            return plan.status, because(BankWhy.IN_BANK, bank=bank.name, reason=plan.reason), {}
    filling = _filled_in_order(problem, contents, start)
    if filling is None:
        search = BankSearch(problem, contents, stop)
        filling = search.filled(start)
        if filling is None and search.is_decided:
            return Status.INFEASIBLE, because(BankWhy.NONE_FITS), {}
    if filling is None:
        return Status.UNKNOWN, because(BankWhy.UNDECIDED), {}
    empty = {
        buffer.name for buffer in problem.buffers if buffer.bank is None and not buffer.takes_bytes
    }
    first, *later = filling
    plans: dict[str, MemoryPlan] = {}
    for bank, names in zip(problem.banks, (first | empty, *later), strict=True):
        plans[bank.name] = plan = contents.plan(bank, names)
        if not plan.has_offsets or plan.status == Status.UNKNOWN:
            reason = because(BankWhy.IN_BANK, bank=bank.name, reason=plan.reason)
            return Status.UNKNOWN, reason, {}
    return Status.FEASIBLE, because(BankWhy.EVERY_BANK_FITS), plans


def _cheapest(problem: Problem, stop: Stop, lower_bound: int) -> BankPlan:
    """Return the plan with the smallest cost of accesses by the end of the search."""
    if len(problem.banks) != 2:
        raise InvalidPlan(
            f"{problem.name}: costs of accesses in {len(problem.banks)} banks; expected two banks"
        )
    search = CostSearch(problem, Contents(problem, stop), stop)
    status, reason = Status.UNKNOWN, because(BankWhy.UNDECIDED)
    try:
        search.run()
        if search.is_exact:
            status, reason = Status.INFEASIBLE, because(BankWhy.NONE_FITS)
    except ENDS as end:
        reason = because(BankWhy.NONE_KNOWN, end=reason_of(end))
    if search.plans:
        status = Status.OPTIMAL if search.cost == search.bound else Status.FEASIBLE
        reason = because(BankWhy.COST, cost=search.cost, bound=search.bound)
    return BankPlan(
        problem=problem,
        plans={name: replace(plan, reason=reason) for name, plan in search.plans.items()},
        lower_bound=lower_bound,
        status=status,
        reason=reason,
        cost=search.cost if search.plans else None,
        cost_bound=search.bound,
    )


def _filled_in_order(problem: Problem, contents: Contents, start: Filling) -> Filling | None:
    """Fill the banks in their order; None if buffers remain after the last bank.

    Each bank gets all remaining buffers; while they do not fit, the largest buffer is left for the next
    bank. start: the buffers that name each bank.
    """
    remaining = frozenset(buffer.name for buffer in problem.buffers if _is_free(buffer))
    filling: list[Names] = []
    for bank, named in zip(problem.banks, start, strict=True):
        buffers = [buffer for buffer in contents.named(remaining) if buffer.size <= bank.capacity]
        while buffers and not contents.can_fit(bank, named | {buffer.name for buffer in buffers}):
            buffers.remove(max(buffers, key=lambda buffer: buffer.size))
        chosen = frozenset(buffer.name for buffer in buffers)
        filling.append(named | chosen)
        remaining -= chosen
    return None if remaining else tuple(filling)


def _is_free(buffer: Buffer) -> bool:
    """Whether the buffer takes bytes and names no bank."""
    return buffer.takes_bytes and buffer.bank is None


class Contents:
    """Plans for sets of buffers of a problem in its banks; every set is planned once for each bank.

    Raises GaveUp or KeyboardInterrupt if the stop ends, GaveUp also after MOST_PLANS.
    """

    def __init__(self, problem: Problem, stop: Stop) -> None:
        self._problem = problem
        self._stop = stop
        self._overlapping = {  # buffers that may overlap another buffer
            name for pair in (*problem.may_overlap, *problem.in_place) for name in pair
        }
        self._plans: dict[tuple[str, Names], MemoryPlan] = {}

    def named(self, names: Iterable[str]) -> list[Buffer]:
        """Return the buffers of those names, in the order of the problem."""
        chosen = set(names)
        return [buffer for buffer in self._problem.buffers if buffer.name in chosen]

    def counts(self, buffer: Buffer) -> bool:
        """Whether the bytes count towards the load: no other buffer may overlap them."""
        return buffer.takes_bytes and buffer.name not in self._overlapping

    def can_fit(self, bank: Bank, names: Names) -> bool | None:
        """Return whether the buffers fit into the bank; None if the search does not decide it."""
        buffers = self.named(names)
        # Buffers that may overlap another buffer do not add to the load.
        lives = [(b.start, b.end, b.size) for b in buffers if self.counts(b)]
        # The load at a time is a lower bound on every plan: above the capacity no search is needed.
        if max(loads(lives).values(), default=0) > bank.capacity:
            return False
        is_unrestricted = all(b.offset is None and b.alignment == 1 for b in buffers)
        total = sum(buffer.size for buffer in buffers if buffer.takes_bytes)
        if is_unrestricted and total <= bank.capacity:
            return True  # the buffers fit one after another: no search
        if len(self._plans) >= MOST_PLANS and (bank.name, names) not in self._plans:
            raise GaveUp(because(BankWhy.MOST_PLANS, most=MOST_PLANS))
        status = self.plan(bank, names).status
        return None if status == Status.UNKNOWN else status != Status.INFEASIBLE

    def plan(self, bank: Bank, names: Names) -> MemoryPlan:
        """Return a plan within the capacity of the bank, or a plan without offsets and its reason."""
        key = bank.name, names
        if key not in self._plans:
            self._plans[key] = self._planned(bank, names)
        return self._plans[key]

    def _planned(self, bank: Bank, names: Names) -> MemoryPlan:
        buffers = (replace(buffer, bank=None) for buffer in self.named(names))
        part = self._problem.part(buffers, f"{self._problem.name} in {bank.name}")
        try:
            check_fixed(part)
        except InvalidPlan as error:
            reason = because(BankWhy.FIXED, error=str(error))
            status = Status.INFEASIBLE
            return MemoryPlan(problem=part, lower_bound=0, status=status, reason=reason)
        # A budget in steps, not seconds: which sets are decided must not depend on the machine.
        steps = self._stop.part(steps=MOST_STEPS, reason=because(BankWhy.ENDED))
        plan, end = plan_and_end(part, capacity=bank.capacity, stop=steps)
        self._stop.end_whole(end)
        return plan


class BankSearch:
    """Depth-first search over all choices of a bank for each buffer that takes bytes and names none.

    Buffers are assigned by decreasing size, each to the banks in their order. Symmetry breaking: of
    choices that differ only by an exchange of equal buffers, or of equal empty banks, one is searched.
    Raises GaveUp beyond MOST_CHOSEN or MOST_CHOICES.
    """

    def __init__(self, problem: Problem, contents: Contents, stop: Stop) -> None:
        self._banks = problem.banks
        self._contents = contents
        self._stop = stop
        self._free = sorted((b for b in problem.buffers if _is_free(b)), key=_rank)
        if len(self._free) > MOST_CHOSEN:
            raise GaveUp(because(BankWhy.TOO_MANY, buffers=len(self._free)))
        pairs = (*problem.conflicts, *problem.may_overlap, *problem.in_place)
        self._paired = {name for pair in pairs for name in pair}
        self._choices = 0
        # Whether the search decided so far for every set of buffers if it fits its bank.
        self.is_decided = True

    def filled(self, filling: Filling, number: int = 0, before: int = 0) -> Filling | None:
        """Return the first choice that fits; None if there is none, which is a proof if `is_decided`.

        filling: the buffers that are assigned: those that name their bank, and the free buffers before
        this number. before: index of the bank of the last free buffer.
        """
        if number == len(self._free):
            return filling
        for bank in self._banks_for(filling, number, before):
            self._choices += 1
            if self._choices > MOST_CHOICES:
                raise GaveUp(because(BankWhy.MOST_CHOICES, most=MOST_CHOICES))
            self._stop.look()
            names = filling[bank] | {self._free[number].name}
            fits = self._contents.can_fit(self._banks[bank], names)
            self.is_decided &= fits is not None
            if fits:
                extended = (*filling[:bank], names, *filling[bank + 1 :])
                complete = self.filled(extended, number + 1, bank)
                if complete is not None:
                    return complete
        return None

    def _banks_for(self, filling: Filling, number: int, before: int) -> Iterator[int]:
        """Indices of the banks to try for a buffer; of empty banks with one capacity only the first.

        A buffer that is interchangeable with its predecessor begins at the bank of the predecessor.
        """
        first, previous, current = 0, self._free[number - 1], self._free[number]
        is_paired = not self._paired.isdisjoint((previous.name, current.name))
        if number > 0 and not is_paired:
            # Symmetry breaking: of two interchangeable buffers the later one goes into the same
            # bank or a later bank.
            renamed = replace(previous, name=current.name, hint=None)
            first = before if renamed == replace(current, hint=None) else 0
        empty: set[int] = set()
        for index, capacity in enumerate(bank.capacity for bank in self._banks):
            if not filling[index]:
                # Empty banks of one capacity are interchangeable.
                if capacity in empty:
                    continue
                empty.add(capacity)
            if index >= first:
                yield index


class CostSearch:
    """Best-first branch and bound: which buffers are in the cheaper of two banks, at minimum cost.

    A buffer is inside if it is in the cheaper bank, and outside if it is in the dearer bank. A node
    decides this for a set of buffers. Its bound starts with all undecided buffers inside. At each time
    the live bytes beyond the capacity have to move outside; the minimum extra cost is a knapsack,
    bounded by its relaxation to fractions of buffers. The bounds of times that have no undecided buffer
    in common add up. If the bytes at all times fit, but no offsets do, an undecided buffer has to move
    outside: the node has a child for each.

    cost, bound: of all accesses, of the best choice and of every choice; plans: of the best choice.
    """

    def __init__(self, problem: Problem, contents: Contents, stop: Stop) -> None:
        self._banks = sorted(problem.banks, key=lambda bank: bank.cost)
        self._contents, self._stop = contents, stop
        cheap, dear = self._banks
        self._named = [
            frozenset(buffer.name for buffer in problem.buffers if buffer.bank == bank.name)
            for bank in self._banks
        ]
        self._free = {buffer.name: buffer for buffer in problem.buffers if buffer.bank is None}
        self._extra = {
            name: buffer.accesses * (dear.cost - cheap.cost) for name, buffer in self._free.items()
        }
        costs = {bank.name: bank.cost for bank in self._banks}
        self._base = sum(
            buffer.accesses * costs[buffer.bank or cheap.name] for buffer in problem.buffers
        )
        inside = [buffer for buffer in problem.buffers if buffer.bank in (None, cheap.name)]
        # The load is largest at the start of a lifetime: other times need no bound.
        times = sorted({buffer.start for buffer in inside if buffer.takes_bytes})
        self._live = [
            [
                buffer
                for buffer in inside
                if buffer.start <= time < buffer.end and contents.counts(buffer)
            ]
            for time in times
        ]
        self.plans: dict[str, MemoryPlan] = {}
        self.cost, self.bound = 0, self._base
        self.is_exact = True  # so far, whether every set of buffers was decided

    def run(self) -> None:
        """Search until the bound is reached or no node is left. Raises GaveUp after MOST_CHOICES."""
        self._dive()
        nothing: Names = frozenset()
        # A node: extra cost, index of a time, number of the node, buffers inside, buffers outside.
        nodes = [(*self._bounded(nothing, nothing), 0, nothing, nothing)]
        if nodes[0][:2] == NO_NODE:
            return
        count = 0
        while nodes:
            bound, at, _, inside, outside = heappop(nodes)
            self.bound = max(self.bound, self._base + bound) if self.is_exact else self.bound
            if self.plans and self._base + bound >= self.cost:
                self.bound = self.cost if self.is_exact else self.bound
                return
            self._stop.look()
            if count > MOST_CHOICES:
                raise GaveUp(because(BankWhy.MOST_CHOICES, most=MOST_CHOICES))
            for child in self._children(at, inside, outside):
                bounded = self._bounded(*child)
                if bounded != NO_NODE:
                    count += 1
                    heappush(nodes, (*bounded, count, *child))
        if self.plans and self.is_exact:
            self.bound = self.cost

    def _children(self, at: int, inside: Names, outside: Names) -> list[tuple[Names, Names]]:
        """Return the children of a node: sets of buffers inside, and outside.

        at: index of a time at which too many bytes are live; its largest undecided buffer is decided
        next. If it is ALL_FIT, a plan with all undecided buffers inside is tried first.
        """
        if at != ALL_FIT:
            undecided = [
                buffer for buffer in self._live[at] if self._is_undecided(buffer, inside, outside)
            ]
            name = max(undecided, key=lambda buffer: (buffer.size, buffer.name)).name
            return [(inside, outside | {name}), (inside | {name}, outside)]
        dear, named = self._banks[1], self._named[1]
        if self._record(outside) or self._contents.can_fit(dear, named | outside) is False:
            return []  # no child has fewer buffers in the dearer bank
        undecided_names = sorted(name for name in self._free if name not in inside | outside)
        # All other choices move an undecided buffer outside. Child k fixes the first k inside and the
        # next outside: the children are disjoint and complete.
        return [
            (inside | frozenset(undecided_names[:number]), outside | {name})
            for number, name in enumerate(undecided_names)
        ]

    def _record(self, outside: Names) -> bool:
        """Keep the plans of a choice that fits if it is the cheapest; return whether it fits.

        outside: all buffers without a named bank that are outside.
        """
        cost = self._base + sum(self._extra[name] for name in outside)
        chosen = self._named[0] | (self._free.keys() - outside), self._named[1] | outside
        for bank, names in zip(self._banks, chosen, strict=True):
            fits = self._contents.can_fit(bank, names)
            if not fits:
                self.is_exact &= fits is not None
                return False
        plans = {
            bank.name: self._contents.plan(bank, names)
            for bank, names in zip(self._banks, chosen, strict=True)
        }
        if not all(plan.has_offsets and plan.status != Status.UNKNOWN for plan in plans.values()):
            self.is_exact = False
            return False
        if not self.plans or cost < self.cost:
            self.plans, self.cost = plans, cost
        return True

    def _is_undecided(self, buffer: Buffer, inside: Names, outside: Names) -> bool:
        return buffer.bank is None and buffer.name not in inside | outside

    def _bounded(self, inside: Names, outside: Names) -> tuple[int, int]:
        """Return a bound on the extra cost of a node, and the index of the time that costs most.

        The time is ALL_FIT if the bytes at all times fit. NO_NODE if the undecided buffers cannot free
        enough bytes at a time.
        """
        bounds: list[
            tuple[int, int, Names]
        ] = []  # minus the extra cost, index of a time, its buffers
        for at, live in enumerate(self._live):
            excess = sum(buffer.size for buffer in live if buffer.name not in outside)
            excess -= self._banks[0].capacity
            if excess <= 0:
                continue
            # Dantzig's bound of the knapsack: items by extra cost per byte, a fraction of the last.
            extra = Fraction(0)
            items = [buffer for buffer in live if self._is_undecided(buffer, inside, outside)]
            for buffer in sorted(items, key=self._extra_per_byte):
                moved = min(buffer.size, excess)
                extra += self._extra_per_byte(buffer) * moved
                excess -= moved
            if excess:
                return NO_NODE
            bounds.append((-ceil(extra), at, frozenset(buffer.name for buffer in items)))
        # Greedy packing of disjoint times: their extra costs concern different buffers, so they add up.
        bounds.sort(key=lambda bound: bound[:2])
        total, counted = sum(self._extra[name] for name in outside), set[str]()
        for negative_extra, _, names in bounds:
            if counted.isdisjoint(names):
                total -= negative_extra
                counted |= names
        return total, bounds[0][1] if bounds else ALL_FIT

    def _extra_per_byte(self, buffer: Buffer) -> Fraction:
        return Fraction(self._extra[buffer.name], buffer.size)

    def _dive(self) -> None:
        """Record a first choice: buffers move outside by extra cost per byte until all others fit."""
        is_exact = self.is_exact
        outside: Names = frozenset()
        order = sorted(
            (buffer for buffer in self._free.values() if buffer.takes_bytes),
            key=lambda buffer: (self._extra_per_byte(buffer), buffer.name),
        )
        while not self._record(outside):
            _, at = self._bounded(frozenset(), outside)
            # ALL_FIT and the time of NO_NODE are negative: then any buffer may move.
            candidates = (buffer.name for buffer in order if at < 0 or buffer in self._live[at])
            name = next((name for name in candidates if name not in outside), None)
            if name is None:
                break
            outside |= {name}
        self.is_exact = is_exact  # the search examines all choices itself


def _rank(buffer: Buffer) -> tuple[int, ...]:
    """Return a sort key: by decreasing size, with equal buffers adjacent."""
    fixed = -1 if buffer.offset is None else buffer.offset
    return (-buffer.size, buffer.start - buffer.end, buffer.start, buffer.alignment, fixed)
