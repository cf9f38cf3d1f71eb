"""Several memories: which buffer lies in which bank, by exhaustive search, and where in it."""

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
    """Give each buffer a bank and an offset in it.

    First the banks are filled in their order: what does not fit into one goes on to the next, the
    largest first. That is a heuristic. Where it fails, all choices of banks are searched, in limits
    that the constants of this module name; then `infeasible` is proved. It also is where all
    capacities together, or those of the banks that buffers name, are too small. Beyond the limits,
    or where `budget` or Ctrl-C ends the search, the status is `unknown`.

    Where one of two banks has a higher cost of an access, the choice with the least cost is searched,
    best first: `optimal`, or, with a bound, the best by the end of the search.

    Raises InvalidPlan for a problem without banks, and for costs of more than two.
    """
    if not problem.banks:
        raise InvalidPlan(f"{problem.name}: has no banks")
    # Relaxation: all banks joined into one arena without alignments; what does not fit there fits
    # nowhere.
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
    """Return status, reason and plans; what takes no room lies in the first bank."""
    contents = Contents(problem, stop)
    start = tuple(
        frozenset(buffer.name for buffer in problem.buffers if buffer.bank == bank.name)
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
    """Return the plan with the least cost of accesses that was found."""
    if len(problem.banks) != 2:
        raise InvalidPlan(
            f"{problem.name}: costs of accesses in {len(problem.banks)} banks; expected two banks"
        )
    search = CostSearch(problem, Contents(problem, stop), stop)
    try:
        search.run()
        reason = because(BankWhy.NONE_FITS)
    except ENDS as end:
        reason = because(BankWhy.NONE_KNOWN, end=reason_of(end))
    status = Status.INFEASIBLE if search.is_exact else Status.UNKNOWN
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


def _filled_in_turn(problem: Problem, contents: Contents, start: Filling) -> Filling | None:
    """Put into each bank what is left and fits; None if something is left at the end.

    Of a bank the largest leaves until the others fit.
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

    def counts(self, buffer: Buffer) -> bool:
        """Whether the bytes count towards the load: no other buffer may overlap them."""
        return buffer.takes_bytes and buffer.name not in self._yielding

    def can_fit(self, bank: Bank, names: Names) -> bool | None:
        """Return whether the buffers fit into the bank; None if that stayed undecided."""
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
            first = (
                before if replace(previous, name=current.name, hint=current.hint) == current else 0
            )
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
    """The choice of buffers for the cheaper of two banks with the least cost, best first.

    A node has buffers that are decided: inside the cheaper bank, or outside. Its bound lets undecided
    buffers lie inside, but takes out of the bytes alive at each time those beyond the
    capacity, where an access frees the most bytes: a knapsack whose items may be cut. Such losses at
    times that share no buffer add up. Where all loads fit, but no offsets do, some undecided buffer
    has to go: there is a node for each.
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
        """Search until the bound is reached, no node is left, or MOST_CHOICES raise GaveUp."""
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
        """The nodes below a node: sets of buffers inside the cheaper bank, and outside of it.

        at: index of a time at which too many bytes are live; its largest undecided buffer is decided.
        -1 if all loads fit: then a plan with all undecided buffers inside is tried first.
        """
        if at >= 0:
            undecided = [
                buffer for buffer in self._alive[at] if self._is_open(buffer, inside, outside)
            ]
            name = max(undecided, key=lambda buffer: (buffer.size, buffer.name)).name
            return [(inside, outside | {name}), (inside | {name}, outside)]
        if self._taken(outside):
            return []
        left = sorted(name for name in self._free if name not in inside | outside)
        # Every other choice moves some undecided buffer out. Child k keeps the first k inside and
        # moves the next out: disjoint and complete.
        return [
            (inside | frozenset(left[:number]), outside | {name})
            for number, name in enumerate(left)
        ]

    def _taken(self, outside: Names) -> bool:
        """Take a choice if it fits both banks."""
        cost = self._base + sum(self._extra[name] for name in outside)
        chosen = self._named[0] | (self._free.keys() - outside), self._named[1] | outside
        for bank, names in zip(self._banks, chosen, strict=True):
            fits = self._contents.can_fit(bank, names)
            if not fits:
                # Moving more buffers there cannot help, and moving fewer is not searched: no proof
                # then.
                is_dear = bank is self._banks[1]
                self.is_exact &= fits is not None and not is_dear
                return False
        plans = [self._contents.plan(*both) for both in zip(self._banks, chosen, strict=True)]
        if all(plan.has_offsets and plan.status != Status.UNKNOWN for plan in plans):
            if not self.plans or cost < self.cost:
                both = zip(self._banks, plans, strict=True)
                self.plans, self.cost = {bank.name: plan for bank, plan in both}, cost
        return bool(self.plans)

    def _is_open(self, one: Buffer, inside: Names, outside: Names) -> bool:
        return one.bank is None and one.name not in inside and one.name not in outside

    def _bounded(self, inside: Names, outside: Names) -> tuple[int, int]:
        """The bound of a node, and the number of the time that sets it: -1 where all loads fit."""
        losses: list[tuple[int, int, Names]] = []
        for number, alive in enumerate(self._alive):
            over = sum(buffer.size for buffer in alive if buffer.name not in outside)
            over -= self._banks[0].capacity
            if over <= 0:
                continue
            # Dantzig's bound of the knapsack: items by accesses a byte, the last item cut.
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
        at = losses[0][1] if losses else -1
        return total + sum(self._extra[name] for name in outside), at

    def _dive(self) -> None:
        """Take a first choice: out go those with the fewest accesses a byte, until all fits."""
        is_exact = self.is_exact
        outside: Names = frozenset()
        order = sorted(
            (buffer for buffer in self._free.values() if buffer.takes_bytes),
            key=lambda buffer: (Fraction(self._extra[buffer.name], buffer.size), buffer.name),
        )
        while not self._taken(outside):
            _, at = self._bounded(frozenset(), outside)
            alive = order if at < 0 else [buffer for buffer in order if buffer in self._alive[at]]
            left = [buffer.name for buffer in alive if buffer.name not in outside]
            if not left:
                break
            outside |= {left[0]}
        self.is_exact = is_exact  # the search looks at all choices itself


NO_NODE = (2**62, -2)  # of a node with more bytes inside than fit


def _rank(buffer: Buffer) -> tuple[int, ...]:
    """The largest first, equal ones in sequence."""
    fixed = -1 if buffer.offset is None else buffer.offset
    return (-buffer.size, buffer.start - buffer.end, buffer.start, buffer.alignment, fixed)
