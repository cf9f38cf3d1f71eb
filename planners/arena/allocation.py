"""Offsets for the buffers of a problem: the least peak, or any within a capacity.

A plan like an older one: hints are followed where that costs no byte.

Choice of pairs of buffers at the same offset, where a layer may compute in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from csdf.arguments import Bytes, byte_count, public
from csdf.errors import counted
from csdf.status import Reason, Status, Why, because, told
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of
from planners.arena.blocks import Blocks, blocks_of
from planners.arena.bounds import Bound
from planners.arena.checker import check_plan
from planners.arena.greedy import Greedy
from planners.arena.portfolio import MOST_EXACT, Portfolio
from planners.arena.problem import Buffer, MemoryPlan, Pair, Problem

CHECKED = 2000  # buffers up to which every plan is shown to the checker
MOST_NAMED = 8  # buffers in a message


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
    """Names of buffers; as text, the first of them and how many more."""

    def __str__(self) -> str:
        names = ", ".join(map(repr, self[:MOST_NAMED]))
        more = f" and {len(self) - MOST_NAMED} more" if len(self) > MOST_NAMED else ""
        return f"buffer{'s' if len(self) > 1 else ''} {names}{more}"


@public
def plan_arena(
    problem: Problem, *, capacity: Bytes | None = None, budget: Budget = None
) -> MemoryPlan:
    """Return a plan with the least peak; with a capacity, the first plan that fits.

    budget: a stop, or seconds; it ends the search with the best plan so far, as Ctrl-C does. Without it
    the search lasts until its end, which may be far.
    Raises InvalidPlan where fixed offsets contradict each other, GaveUp where there is no first plan.
    """
    limit = None if capacity is None else byte_count(capacity)
    return plan_and_end(problem, capacity=limit, stop=stop_of(budget)).plan


class PlanAndEnd(NamedTuple):
    """A plan, and what ended the search for it early; None if it came to its end."""

    plan: MemoryPlan
    end: Reason | None


def plan_and_end(problem: Problem, *, capacity: int | None, stop: Stop) -> PlanAndEnd:
    """Return what plan_arena returns, and what ended it."""
    search = _Allocation(problem, capacity)
    early: Reason | None = None
    try:
        while not search.is_done:
            stop.look(Progress(lower_bound=search.lower_bound, best=search.peak))
            search.step()
    except ENDS as end:
        early = reason_of(end)
    plan = with_hints(search.plan(early))
    if plan.has_offsets and len(problem.buffers) <= CHECKED:
        check_plan(plan)
    return PlanAndEnd(plan, early)


class _Allocation:
    """A search over all choices of pairs in place, with what each choice has found and proved."""

    def __init__(self, problem: Problem, capacity: int | None) -> None:
        check_fixed(problem)
        self._problem = problem
        self._capacity = capacity
        groups, self._is_complete = choices(problem)
        self._blocks = [blocks for one in groups if (blocks := blocks_of(problem, one)).can_be]
        self._portfolios = [_started(blocks, capacity) for blocks in self._blocks]
        self._best = min(self._portfolios, key=lambda one: one.peak)
        self._open = list(range(len(self._blocks)))
        self._relaxed = Bound(0, ())
        self._relaxed_blocks = self._blocks[0]
        if not self._is_complete:
            self._relaxed_blocks = blocks_of(relaxed(problem))
            self._relaxed = _started(self._relaxed_blocks, capacity).bound
        self._turn = 0
        self._close()

    @property
    def peak(self) -> int:
        return self._best.peak

    @property
    def lower_bound(self) -> int:
        return self._bound()[1].peak

    def _bound(self) -> tuple[Blocks, Bound]:
        """Return what no choice can be below, and the blocks that it speaks of."""
        if not self._is_complete:
            return self._relaxed_blocks, self._relaxed
        bounds = [one.bound for one in self._portfolios]
        place = min(range(len(bounds)), key=lambda number: bounds[number].peak)
        return self._blocks[place], bounds[place]

    @property
    def _fits(self) -> bool:
        return self._capacity is not None and self.peak <= self._capacity

    @property
    def is_done(self) -> bool:
        return self._fits or not self._open

    def step(self) -> None:
        number = self._open[self._turn % len(self._open)]
        self._turn += 1
        self._portfolios[number].step(self._capacity)
        self._best = min(self._best, self._portfolios[number], key=lambda one: one.peak)
        self._close()

    def _close(self) -> None:
        """Forget the choices that cannot lead to anything better."""
        most = self.peak - 1 if self._capacity is None else self._capacity
        self._open = [one for one in self._open if self._portfolios[one].bound.peak <= most]
        if self.lower_bound >= self.peak:
            self._open = []

    def plan(self, early: Reason | None) -> MemoryPlan:
        bound = self.lower_bound
        status = self._status(bound)
        resting = {b.name: b.offset or 0 for b in self._problem.buffers if not b.takes_bytes}
        offsets = {} if status == Status.INFEASIBLE else resting | self._best.offsets
        order = [buffer.name for buffer in self._problem.buffers]
        return MemoryPlan(
            problem=self._problem,
            offsets={name: offsets[name] for name in order} if offsets else {},
            lower_bound=bound,
            status=status,
            reason=self._reason(status, early),
        )

    def _status(self, bound: int) -> Status:
        if self._capacity is not None and bound > self._capacity:
            return Status.INFEASIBLE
        if self._capacity is not None and not self._fits:
            return Status.UNKNOWN
        return Status.OPTIMAL if bound == self.peak else Status.FEASIBLE

    def _reason(self, status: Status, early: Reason | None) -> Reason:
        if status is Status.INFEASIBLE:
            return because(ArenaWhy.TOO_LARGE, evidence=self._evidence(), capacity=self._capacity)
        if status is Status.OPTIMAL:
            return self._evidence()
        if status is Status.UNKNOWN:
            why = early or because(ArenaWhy.NO_CHOICE_LEFT)
            return because(ArenaWhy.NONE_FITS, end=why, peak=counted(self.peak, "byte"))
        if self._fits:
            return because(ArenaWhy.FITS, capacity=self._capacity)
        return early or because(ArenaWhy.NOT_EVERY_CHOICE)

    def _evidence(self) -> Reason:
        """Say which buffers need so much, and when."""
        blocks, bound = self._bound()
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
            proof=", proved by search" if bound.by_search else "",
        )


def _started(blocks: Blocks, capacity: int | None) -> Portfolio:
    """Return a portfolio that begins with the best plan of the usual orders."""
    greedy = Greedy(blocks)
    best: list[int] = []
    for offsets in greedy.standard_plans():
        if not best or blocks.peak(offsets) < blocks.peak(best):
            best = offsets
        if len(blocks) > MOST_EXACT or (capacity is not None and blocks.peak(best) <= capacity):
            break  # a large problem gets the others one by one, under the eyes of the stop
    return Portfolio(blocks, greedy, best)


def check_fixed(problem: Problem) -> None:
    """Raise InvalidPlan if two buffers with fixed offsets are in each other's way."""
    fixed = tuple(buffer for buffer in problem.buffers if buffer.offset is not None)
    names = {buffer.name for buffer in fixed}
    pairs = {
        what: tuple(pair for pair in getattr(problem, what) if names.issuperset(pair))
        for what in ("conflicts", "may_overlap", "in_place")
    }
    part = Problem(name=problem.name, buffers=fixed, **pairs)
    offsets = {buffer.name: buffer.offset for buffer in fixed if buffer.offset is not None}
    check_plan(
        MemoryPlan(
            problem=part,
            offsets=offsets,
            lower_bound=0,
            status=Status.FEASIBLE,
            reason=told("fixed"),
        )
    )


def with_hints(plan: MemoryPlan) -> MemoryPlan:
    """Return a plan with the same peak in which as many hints as possible are followed.

    Hints are taken in the order of the buffers and dropped where they collide; the plan stays as it
    is if the other buffers do not find room around what is hinted.
    """
    buffers = plan.problem.buffers
    if not plan.has_offsets or all(b.hint is None or not b.takes_bytes for b in buffers):
        return plan
    blocks = blocks_of(_hinted(plan.problem, plan.peak))
    if not blocks.can_be:
        return plan
    for offsets in Greedy(blocks).standard_plans():
        if blocks.peak(offsets) <= plan.peak:
            return replace(plan, offsets={**plan.offsets, **_in_bytes(blocks, offsets)})
    return plan


def _hinted(problem: Problem, peak: int) -> Problem:
    """Return the problem with hints as fixed offsets, without those that collide or end too high."""
    plain = blocks_of(problem)
    number_of = {members[0].name: number for number, members in enumerate(plain.members)}
    taken: dict[int, tuple[int, int]] = {}  # from where to where, by number
    for number, (buffer,) in enumerate(plain.members):
        if buffer.offset is not None:
            taken[number] = buffer.offset, buffer.offset + buffer.size
    for number, (buffer,) in enumerate(plain.members):
        if buffer.hint is None or number in taken or buffer.hint + buffer.size > peak:
            continue
        begin, end = buffer.hint, buffer.hint + buffer.size
        near = (taken[other] for other in plain.neighbours(number) if other in taken)
        if all(end <= low or high <= begin for low, high in near):
            taken[number] = begin, end
    buffers = tuple(
        replace(buffer, offset=taken[number_of[buffer.name]][0])
        if number_of.get(buffer.name) in taken
        else buffer
        for buffer in problem.buffers
    )
    return replace(problem, buffers=buffers)


def _in_bytes(blocks: Blocks, offsets: list[int]) -> dict[str, int]:
    return {
        members[0].name: at * blocks.unit
        for members, at in zip(blocks.members, offsets, strict=True)
    }


MOST_PAIRS = 6  # of which all choices are tried; beyond, all pairs together or none

Groups = tuple[tuple[str, ...], ...]


def choices(problem: Problem) -> tuple[list[Groups], bool]:
    """Return choices of groups that share an offset, and whether these are all there are.

    Many pairs first. A choice is left out if a group of it holds two buffers that conflict and are
    no pair, or that a fixed offset does not suit.
    """
    pairs = [pair for pair in problem.in_place if _may_merge(problem, pair)]
    counts = range(len(pairs), -1, -1)
    if len(pairs) > MOST_PAIRS:
        return [_greedily_grouped(problem, pairs), ()], False
    found = {
        groups: None
        for count in counts
        for chosen in combinations(pairs, count)
        if (groups := _groups(chosen)) is not None and _is_allowed(problem, groups)
    }
    return list(found), True


def relaxed(problem: Problem) -> Problem:
    """Return the problem with pairs that do not conflict at all; its bounds hold for both."""
    return replace(problem, may_overlap=problem.may_overlap + problem.in_place, in_place=())


def _greedily_grouped(problem: Problem, pairs: Sequence[Pair]) -> Groups:
    """Return the groups of as many pairs as go together, taken one after another."""
    chosen: list[Pair] = []
    for pair in pairs:
        if _is_allowed(problem, _groups([*chosen, pair])):
            chosen.append(pair)
    return _groups(chosen)


def _groups(pairs: Sequence[Pair]) -> Groups:
    """Return what the pairs connect, each group sorted."""
    groups: list[set[str]] = []
    for pair in pairs:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if not group & set(pair)]
        groups.append(set(pair).union(*touched))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _may_merge(problem: Problem, pair: Pair) -> bool:
    found = _by_name(problem, pair)
    return all(buffer.takes_bytes for buffer in found)


def _is_allowed(problem: Problem, groups: Groups) -> bool:
    allowed = {frozenset(pair) for pair in (*problem.in_place, *problem.may_overlap)}
    apart = {frozenset(pair) for pair in problem.conflicts}
    for group in groups:
        members = _by_name(problem, group)
        fixed = {buffer.offset for buffer in members if buffer.offset is not None}
        if len(fixed) > 1 or any(place % b.alignment for place in fixed for b in members):
            return False
        for one, other in combinations(members, 2):
            pair = frozenset((one.name, other.name))
            meets = one.start < other.end and other.start < one.end
            if pair not in allowed and (meets or pair in apart):
                return False
    return True


def _by_name(problem: Problem, names: Sequence[str]) -> list[Buffer]:
    wanted = set(names)
    return [buffer for buffer in problem.buffers if buffer.name in wanted]
