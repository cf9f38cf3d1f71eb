"""Offsets for the buffers of a problem: the minimum peak, or a plan within a capacity.

An `in_place` pair, an input and the result that may overwrite it, may share an offset. A choice is a
set of pairs that do; the choices are searched round robin. Hints, as from an older plan, are followed
where that costs no byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice

from csdf.arguments import Bytes, byte_count, public
from csdf.errors import counted
from csdf.status import Reason, Status, Why, because, told
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of
from planners.arena.blocks import Blocks, Bound, blocks_of
from planners.arena.checker import check_plan
from planners.arena.orders import Greedy
from planners.arena.portfolio import Portfolio
from planners.arena.problem import Buffer, MemoryPlan, Pair, Problem

CHECKED = 2000  # buffers up to which every plan is checked
FOR_HINTS = 5  # orders that are tried to place the buffers without a hint
MOST_NAMED = 8  # buffers in a message
MOST_CHOICES = (
    64  # choices that are all searched; of more, two maximal choices, and that of no pair
)

Groups = tuple[tuple[str, ...], ...]  # sets of buffers that share an offset


class ArenaWhy(Why):
    """The reasons for the status of a plan for one arena."""

    AT_TIME = "live at step {start}: {buffers}: {least}{proof}"
    IN_TIME = "live in [{start}, {end}): {buffers}: {least}{proof}"
    NO_BUFFERS = "no buffer takes bytes"
    TOO_LARGE = "{evidence}; the capacity is {capacity}"
    FITS = "fits the capacity of {capacity}; a smaller plan was not looked for"
    NONE_FITS = "{end}; the best plan found needs {peak}"
    NO_SMALLER = "{steps} steps found no smaller arena"
    NO_CHOICE_LEFT = "no choice is left"
    NOT_EVERY_CHOICE = "not every choice of pairs in place was tried"


class Names(tuple[str, ...]):
    """Names of buffers; as text, the first MOST_NAMED and the number of the others."""

    def __str__(self) -> str:
        names = ", ".join(map(repr, self[:MOST_NAMED]))
        more = f" and {len(self) - MOST_NAMED} more" if len(self) > MOST_NAMED else ""
        return f"buffer{'s' if len(self) > 1 else ''} {names}{more}"


@public
def plan_arena(
    problem: Problem, *, capacity: Bytes | None = None, budget: Budget = None
) -> MemoryPlan:
    """Return a plan with the minimum peak; with a capacity, the first plan that fits.

    budget: a stop, or seconds; when it or Ctrl-C ends the search, the best plan so far is returned.
    Without a budget the search ends with a proof, whose time is not bounded.
    Raises InvalidPlan if fixed offsets contradict each other, GaveUp without a first plan.
    """
    limit = None if capacity is None else byte_count(capacity)
    return plan_and_end(problem, capacity=limit, stop=stop_of(budget))[0]


def bytes_so_far(name: str, progress: Progress) -> str:
    """Return a line on the progress of a search: the smallest arena so far, and the lower bound."""
    if progress.best is None:
        return f"{name}: searching offsets"
    return f"{name}: {progress.best} bytes found, lower bound {progress.lower_bound}"


def plan_and_end(
    problem: Problem, *, capacity: int | None, stop: Stop
) -> tuple[MemoryPlan, Reason | None]:
    """Return the plan of plan_arena, and the reason why the search ended early, or None."""
    search = _Allocation(problem, capacity)
    early: Reason | None = None
    try:
        while not search.is_done:
            stop.look(Progress(lower_bound=search.bound[1].peak, best=search.peak))
            stop.spend(search.step())
    except ENDS as end:
        early = reason_of(end)
        stop.interrupt_after(early)
    plan = with_hints(search.plan(early))
    if plan.has_offsets and len(problem.buffers) <= CHECKED:
        check_plan(plan)
    return plan, early


class _Allocation:
    """A search over all choices of pairs in place; each choice has a portfolio of searches."""

    def __init__(self, problem: Problem, capacity: int | None) -> None:
        check_fixed(problem)
        self._problem, self._capacity = problem, capacity
        groups, is_complete = choices(problem)
        self._blocks = [
            blocks for group in groups if (blocks := blocks_of(problem, group)).fixed_offsets_agree
        ]
        self._portfolios = [_portfolio_of(blocks, capacity) for blocks in self._blocks]
        self._best = min(self._portfolios, key=lambda portfolio: portfolio.peak)
        self._open = list(range(len(self._blocks)))
        # The choices that are left out have the bound of the relaxation.
        self._relaxed: tuple[Blocks, Bound] | None = None
        if not is_complete:
            blocks = blocks_of(relaxed(problem))
            self._relaxed = blocks, _portfolio_of(blocks, capacity).bound
        self._turn = 0
        self._drop_hopeless()

    @property
    def peak(self) -> int:
        return self._best.peak

    @property
    def bound(self) -> tuple[Blocks, Bound]:
        """The lower bound over all choices, with the blocks to whose numbers it refers."""
        if self._relaxed is not None:
            return self._relaxed
        bounds = [portfolio.bound for portfolio in self._portfolios]
        return min(zip(self._blocks, bounds, strict=True), key=lambda pair: pair[1].peak)

    @property
    def _fits(self) -> bool:
        return self._capacity is not None and self.peak <= self._capacity

    @property
    def is_done(self) -> bool:
        return self._fits or not self._open

    def step(self) -> int:
        """Search a slice for a better plan; return the effort in microseconds."""
        # Round robin over the choices of pairs: each proves or improves its own bound.
        number = self._open[self._turn % len(self._open)]
        self._turn += 1
        effort = self._portfolios[number].step(self._capacity)
        self._best = min(self._best, self._portfolios[number], key=lambda portfolio: portfolio.peak)
        self._drop_hopeless()
        return effort

    def _drop_hopeless(self) -> None:
        """Drop the choices whose lower bound excludes a better plan."""
        maximum = self.peak - 1 if self._capacity is None else self._capacity
        self._open = [
            number for number in self._open if self._portfolios[number].bound.peak <= maximum
        ]
        if self.bound[1].peak >= self.peak:
            self._open = []

    def plan(self, early: Reason | None) -> MemoryPlan:
        blocks, bound = self.bound
        capacity, status = self._capacity, Status.FEASIBLE
        if capacity is not None and bound.peak > capacity:
            status, evidence = Status.INFEASIBLE, _evidence(blocks, bound)
            reason = because(ArenaWhy.TOO_LARGE, evidence=evidence, capacity=capacity)
        elif capacity is not None and not self._fits:
            status, end = Status.UNKNOWN, early or because(ArenaWhy.NO_CHOICE_LEFT)
            reason = because(ArenaWhy.NONE_FITS, end=end, peak=counted(self.peak, "byte"))
        elif bound.peak == self.peak:
            status, reason = Status.OPTIMAL, _evidence(blocks, bound)
        elif self._fits:
            reason = because(ArenaWhy.FITS, capacity=capacity)
        else:
            reason = early or because(ArenaWhy.NOT_EVERY_CHOICE)
        offsets: dict[str, int] = {}
        if status != Status.INFEASIBLE:
            best, buffers = self._best.offsets, self._problem.buffers
            offsets = {b.name: best[b.name] if b.takes_bytes else b.offset or 0 for b in buffers}
        problem, peak = self._problem, bound.peak
        return MemoryPlan(
            problem=problem, offsets=offsets, lower_bound=peak, status=status, reason=reason
        )


def _evidence(blocks: Blocks, bound: Bound) -> Reason:
    """Return the buffers that prove the bound, and when they are live."""
    buffers = [buffer for number in bound.blocks for buffer in blocks.members[number]]
    if not buffers:
        return because(ArenaWhy.NO_BUFFERS)
    start, end = max(b.start for b in buffers), min(b.end for b in buffers)
    kind = ArenaWhy.AT_TIME
    if start >= end:
        kind = ArenaWhy.IN_TIME
        start, end = min(b.start for b in buffers), max(b.end for b in buffers)
    return because(
        kind,
        start=start,
        end=end,
        buffers=Names(buffer.name for buffer in buffers),
        least=counted(bound.peak, "byte"),
        proof=_proof(bound),
    )


def _proof(bound: Bound) -> str:
    """Return how a bound was proved, if it is not the sum of sizes."""
    if bound.by_search:
        return ", proved by search"
    return " in any order, with alignments and fixed offsets" if bound.is_stacked else ""


def _portfolio_of(blocks: Blocks, capacity: int | None) -> Portfolio:
    """Return a portfolio that begins with the best plan of the standard orders."""
    greedy = Greedy(blocks)
    best: list[int] = []
    for offsets in greedy.standard_plans():
        if not best or blocks.peak(offsets) < blocks.peak(best):
            best = offsets
        # For a large problem the portfolio tries the remaining orders, where the stop can end them.
        if blocks.is_large or (capacity is not None and blocks.peak(best) <= capacity):
            break
    return Portfolio(blocks, best)


def check_fixed(problem: Problem) -> None:
    """Raise InvalidPlan if two buffers with fixed offsets overlap."""
    offsets = {b.name: b.offset for b in problem.buffers if b.offset is not None}
    part = problem.part((b for b in problem.buffers if b.name in offsets), problem.name)
    status, reason = Status.FEASIBLE, told("fixed")
    plan = MemoryPlan(problem=part, offsets=offsets, lower_bound=0, status=status, reason=reason)
    check_plan(plan)


def with_hints(plan: MemoryPlan) -> MemoryPlan:
    """Return a plan with the same peak that follows hints: greedily, in the order of the buffers.

    A hint that collides with an earlier one is dropped. If the remaining buffers do not fit, the plan
    is returned unchanged.
    """
    problem, peak = plan.problem, plan.peak if plan.has_offsets else 0
    if not plan.has_offsets or all(b.hint is None or not b.takes_bytes for b in problem.buffers):
        return plan
    hinted = _with_hints_fixed(problem, peak)
    # The plan of the second problem is used if its peak is no higher.
    blocks = blocks_of(hinted)
    for offsets in (
        islice(Greedy(blocks).standard_plans(), FOR_HINTS) if blocks.fixed_offsets_agree else ()
    ):
        if blocks.peak(offsets) <= peak:
            pairs = zip(blocks.members, offsets, strict=True)
            offset_of = {buffer.name: offset * blocks.unit for (buffer,), offset in pairs}
            return replace(plan, offsets={**plan.offsets, **offset_of})
    return plan


def _with_hints_fixed(problem: Problem, peak: int) -> Problem:
    """Return the problem with each hint as a fixed offset, unless it collides or exceeds the peak."""
    blocks = blocks_of(problem)
    buffers = [buffer for (buffer,) in blocks.members]
    spans = {  # begin and end of the fixed and the hinted blocks, by number
        number: (buffer.offset, buffer.offset + buffer.size)
        for number, buffer in enumerate(buffers)
        if buffer.offset is not None
    }
    for number, buffer in enumerate(buffers):
        if buffer.hint is None or number in spans or buffer.hint + buffer.size > peak:
            continue
        begin, end = buffer.hint, buffer.hint + buffer.size
        neighbours = (spans[near] for near in blocks.neighbours(number) if near in spans)
        if all(end <= low or high <= begin for low, high in neighbours):
            spans[number] = begin, end
    fixed = {buffers[number].name: begin for number, (begin, _) in spans.items()}
    hinted = (replace(b, offset=fixed.get(b.name, b.offset)) for b in problem.buffers)
    return replace(problem, buffers=tuple(hinted))


def choices(problem: Problem) -> tuple[list[Groups], bool]:
    """Return the allowed choices as groups that share an offset, and whether the list is complete.

    Choices with many pairs first. A choice is not allowed if a group has two buffers that conflict and
    are no pair, or fixed offsets that contradict each other or an alignment.
    """
    pairs = [
        pair for pair in problem.in_place if all(b.takes_bytes for b in _by_name(problem, pair))
    ]
    subsets: list[tuple[int, ...]] = [()]
    # Subsets of an allowed choice are allowed, so pairs are added one by one to allowed choices.
    # Beyond the limit three choices are searched, and the bound comes from the relaxation.
    for number, pair in enumerate(pairs):
        subsets += [
            (*subset, number)
            for subset in subsets
            if _is_allowed(problem, _groups([*(pairs[k] for k in subset), pair]))
        ]
        if len(subsets) > MOST_CHOICES:
            maximal = _maximal(problem, pairs), _maximal(problem, pairs[::-1])
            return list(dict.fromkeys((*maximal, ()))), False
    subsets.sort(key=lambda subset: (-len(subset), subset))
    return list(dict.fromkeys(_groups([pairs[k] for k in subset]) for subset in subsets)), True


def _maximal(problem: Problem, pairs: Sequence[Pair]) -> Groups:
    """Return a maximal allowed choice, by adding the pairs greedily in this order."""
    chosen: list[Pair] = []
    for pair in pairs:
        if _is_allowed(problem, _groups([*chosen, pair])):
            chosen.append(pair)
    return _groups(chosen)


def relaxed(problem: Problem) -> Problem:
    """Return the relaxation in which `in_place` pairs may overlap; its bounds hold for the problem."""
    return replace(problem, may_overlap=problem.may_overlap + problem.in_place, in_place=())


def _groups(pairs: Sequence[Pair]) -> Groups:
    """Return the connected components of the pairs, each sorted."""
    groups: list[set[str]] = []
    for pair in pairs:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if not group & set(pair)]
        groups.append(set(pair).union(*touched))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _is_allowed(problem: Problem, groups: Groups) -> bool:
    allowed = {frozenset(pair) for pair in (*problem.in_place, *problem.may_overlap)}
    apart = {frozenset(pair) for pair in problem.conflicts}
    for group in groups:
        members = _by_name(problem, group)
        fixed = {buffer.offset for buffer in members if buffer.offset is not None}
        if len(fixed) > 1 or any(offset % b.alignment for offset in fixed for b in members):
            return False
        for first, second in combinations(members, 2):
            pair = frozenset((first.name, second.name))
            meets = first.start < second.end and second.start < first.end
            if pair not in allowed and (meets or pair in apart):
                return False
    return True


def _by_name(problem: Problem, names: Sequence[str]) -> list[Buffer]:
    wanted = set(names)
    return [buffer for buffer in problem.buffers if buffer.name in wanted]
