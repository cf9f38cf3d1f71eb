"""Assignment of buffers to several memory banks, by exhaustive or best-first search, and offsets."""

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
    # Relaxation: one arena of all capacities, without alignments. Without a plan there is none.
    together = sum(bank.capacity for bank in problem.banks)
    anywhere = (
        replace(buffer, bank=None, offset=None, alignment=1, hint=None)
        for buffer in problem.buffers
    )
    everything = replace(problem, buffers=tuple(anywhere), banks=())
    bound = plan_arena(everything, capacity=together, budget=Stop(steps=0))
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
    """Return status, reason and plans; buffers without bytes or lifetime are in the first bank."""
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
        filling = search.filling(start)
        if filling is None and search.is_decided:
            return Status.INFEASIBLE, because(BankWhy.NONE_FITS), {}
    if filling is None:
        return Status.UNKNOWN, because(BankWhy.UNDECIDED), {}
    resting = {
        buffer.name for buffer in problem.buffers if buffer.bank is None and not buffer.takes_bytes
    }
    first, *later = filling
    plans: dict[str, MemoryPlan] = {}
    for bank, names in zip(problem.banks, (first | resting, *later), strict=True):
        plans[bank.name] = plan = contents.plan(bank, names)
        if not plan.has_offsets or plan.status == Status.UNKNOWN:
            return (
                Status.UNKNOWN,
                because(BankWhy.IN_BANK, bank=bank.name, reason=plan.reason),
                {},
            )
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
    """Fill the banks in their order; None if buffers are left at the end.

    Each bank gets all buffers that are left, without the largest ones that have to go for it to fit.
    """
    left = frozenset(buffer.name for buffer in problem.buffers if _is_free(buffer))
    filling: list[Names] = []
    for bank, named in zip(problem.banks, start, strict=True):
        staying = [buffer for buffer in contents.named(left) if buffer.size <= bank.capacity]
        while staying and not contents.can_fit(bank, named | {buffer.name for buffer in staying}):
            staying.remove(max(staying, key=lambda buffer: buffer.size))
        chosen = frozenset(buffer.name for buffer in staying)
        filling.append(named | chosen)
        left -= chosen
    return None if left else tuple(filling)


def _is_free(buffer: Buffer) -> bool:
    """Whether the buffer takes bytes and names no bank."""
    return buffer.takes_bytes and buffer.bank is None


class Contents:
    """Plans for sets of buffers of a problem in its banks; every set is planned once.

    Raises GaveUp or KeyboardInterrupt if the stop ends, GaveUp also after MOST_PLANS.
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

    def counts(self, buffer: Buffer) -> bool:
        """Whether the bytes count towards the load: no other buffer may overlap them."""
        return buffer.takes_bytes and buffer.name not in self._yielding

    def can_fit(self, bank: Bank, names: Names) -> bool | None:
        """Return whether the buffers fit into the bank; None if the search does not decide it."""
        buffers = self.named(names)
        # Buffers that may overlap another buffer do not add to the load.
        lives = [(b.start, b.end, b.size) for b in buffers if b.name not in self._yielding]
        # The load at one time is a lower bound of any plan: such sets need no search.
        if max(loads(lives).values(), default=0) > bank.capacity:
            return False
        is_free = all(buffer.offset is None and buffer.alignment == 1 for buffer in buffers)
        if (
            is_free
            and sum(buffer.size for buffer in buffers if buffer.takes_bytes) <= bank.capacity
        ):
            return True  # the buffers fit one after another: no search
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
        # A budget in steps, not seconds: which sets are decided must not depend on the machine.
        steps = self._stop.part(steps=MOST_STEPS, reason=because(BankWhy.ENDED))
        plan, end = plan_and_end(part, capacity=bank.capacity, stop=steps)
        self._stop.end_whole(end)
        return plan


class BankSearch:
    """Depth-first search over all choices of a bank for each buffer that takes bytes and names none.

    Buffers are assigned by decreasing size, each to the banks in their order. Symmetry breaking: of
    choices that differ only by an exchange of equal buffers, or of equal empty banks, one is searched.
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
        """Return the first choice that fits; None if there is none, a proof if `is_decided`.

        start: the buffers that name their bank. Raises GaveUp beyond MOST_CHOSEN or MOST_CHOICES.
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
                assignment = self._filled(with_it, number + 1, bank)
                if assignment is not None:
                    return assignment
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

    A node decides a set of buffers: inside the cheaper bank, or outside. The bound starts with all
    undecided buffers inside. At each time the live bytes beyond the capacity have to move outside; the
    minimum extra cost is a knapsack, bounded by its relaxation to fractions of buffers. The bounds of
    times that have no undecided buffer in common add up. If all loads fit, but no offsets do, at
    least one undecided buffer has to move outside: the node has a child for each.
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
        times = sorted({buffer.start for buffer in inside if buffer.takes_bytes})
        self._alive = [
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
            for near, far in self._children(at, inside, outside):
                below = self._bounded(near, far)
                if below != NO_NODE:
                    count += 1
                    heappush(nodes, (*below, count, near, far))
        if self.plans and self.is_exact:
            self.bound = self.cost

    def _children(self, at: int, inside: Names, outside: Names) -> list[tuple[Names, Names]]:
        """The children of a node: sets of buffers inside the cheaper bank, and outside.

        at: index of a time at which too many bytes are live; its largest undecided buffer is decided
        next. ALL_FIT if all loads fit: then a plan with all undecided buffers inside is tried first.
        """
        if at != ALL_FIT:
            undecided = [
                buffer for buffer in self._alive[at] if self._is_open(buffer, inside, outside)
            ]
            name = max(undecided, key=lambda buffer: (buffer.size, buffer.name)).name
            return [(inside, outside | {name}), (inside | {name}, outside)]
        dear, named = self._banks[1], self._named[1]
        if self._taken(outside) or self._contents.can_fit(dear, named | outside) is False:
            return []  # no child has fewer buffers in the dearer bank
        left = sorted(name for name in self._free if name not in inside | outside)
        # All other choices move an undecided buffer outside. Child k fixes the first k inside and the
        # next outside: the children are disjoint and complete.
        return [
            (inside | frozenset(left[:number]), outside | {name})
            for number, name in enumerate(left)
        ]

    def _taken(self, outside: Names) -> bool:
        """Record a choice if it fits both banks; return whether any choice is recorded so far."""
        cost = self._base + sum(self._extra[name] for name in outside)
        chosen = self._named[0] | (self._free.keys() - outside), self._named[1] | outside
        for bank, names in zip(self._banks, chosen, strict=True):
            fits = self._contents.can_fit(bank, names)
            if not fits:
                self.is_exact &= fits is not None
                return False
        plans = [self._contents.plan(*both) for both in zip(self._banks, chosen, strict=True)]
        if all(plan.has_offsets and plan.status != Status.UNKNOWN for plan in plans):
            if not self.plans or cost < self.cost:
                both = zip(self._banks, plans, strict=True)
                self.plans, self.cost = {bank.name: plan for bank, plan in both}, cost
        return bool(self.plans)

    def _is_open(self, buffer: Buffer, inside: Names, outside: Names) -> bool:
        return buffer.bank is None and buffer.name not in inside | outside

    def _bounded(self, inside: Names, outside: Names) -> tuple[int, int]:
        """The bound of a node, and the index of the time with the largest loss, or ALL_FIT."""
        losses: list[tuple[int, int, Names]] = []
        for number, alive in enumerate(self._alive):
            over = sum(buffer.size for buffer in alive if buffer.name not in outside)
            over -= self._banks[0].capacity
            if over <= 0:
                continue
            # Dantzig's bound of the knapsack: items by extra cost per byte, a fraction of the last.
            loss = Fraction(0)
            items = [buffer for buffer in alive if self._is_open(buffer, inside, outside)]
            for buffer in sorted(
                items, key=lambda buffer: Fraction(self._extra[buffer.name], buffer.size)
            ):
                part = min(buffer.size, over)
                loss += Fraction(self._extra[buffer.name] * part, buffer.size)
                over -= part
                if not over:
                    break
            if over:
                return NO_NODE
            losses.append((ceil(loss), number, frozenset(buffer.name for buffer in items)))
        # Greedy packing of disjoint times: their losses concern different buffers, so they add up.
        losses.sort(key=lambda loss: (-loss[0], loss[1]))
        total, counted = 0, set[str]()
        for bound, _, names in losses:
            if counted.isdisjoint(names):
                total += bound
                counted |= names
        at = losses[0][1] if losses else ALL_FIT
        return total + sum(self._extra[name] for name in outside), at

    def _dive(self) -> None:
        """Record a first choice: buffers move outside by increasing cost per byte until all fit."""
        is_exact = self.is_exact
        outside: Names = frozenset()
        order = sorted(
            (buffer for buffer in self._free.values() if buffer.takes_bytes),
            key=lambda buffer: (Fraction(self._extra[buffer.name], buffer.size), buffer.name),
        )
        while not self._taken(outside):
            _, at = self._bounded(frozenset(), outside)
            alive = order
            if at >= 0:  # a time; ALL_FIT and the time of NO_NODE are negative
                alive = [buffer for buffer in order if buffer in self._alive[at]]
            left = [buffer.name for buffer in alive if buffer.name not in outside]
            if not left:
                break
            outside |= {left[0]}
        self.is_exact = is_exact  # the search examines all choices itself


ALL_FIT = -1  # instead of the index of a time
NO_NODE = (2**62, -2)  # the bound and the time of a node with more decided bytes inside than fit


def _rank(buffer: Buffer) -> tuple[int, ...]:
    """A sort key: decreasing size; equal buffers are adjacent."""
    fixed = -1 if buffer.offset is None else buffer.offset
    return (-buffer.size, buffer.start - buffer.end, buffer.start, buffer.alignment, fixed)
