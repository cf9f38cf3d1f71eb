"""Buffers in one bank of several: whether they fit, and where. Every set is planned once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from csdf.errors import GaveUp, InvalidPlan
from csdf.outcome import Status, Why, because
from csdf.stopping import Stop
from planners.arena.allocation import check_fixed, plan_and_end
from planners.plan import Bank, Buffer, MemoryPlan, Pair, Problem, most_alive

MOST_STEPS = 40  # steps of search for one set of buffers in one bank
MOST_PLANS = 2000  # that are made for one problem

Names = frozenset[str]


class ContentsWhy(Why):
    """Why buffers have no plan in one bank."""

    FIXED = "fixed offsets: {error}"
    MOST_PLANS = "{most} sets of buffers in a bank were tried, not all"
    ENDED = "the search for one choice of buffers ended"


class Contents:
    """Plans for sets of buffers of a problem in its banks.

    What ends the stop ends the work with it, by GaveUp or KeyboardInterrupt; so do MOST_PLANS.
    """

    def __init__(self, problem: Problem, stop: Stop) -> None:
        self._problem = problem
        self._stop = stop
        self._buffers = {buffer.name: buffer for buffer in problem.buffers}
        self._yielding = {name for pair in (*problem.shares, *problem.in_place) for name in pair}
        self._known: dict[tuple[str, Names], MemoryPlan] = {}

    def named(self, names: Iterable[str]) -> list[Buffer]:
        """Return the buffers of those names, in the order of the problem."""
        chosen = set(names)
        return [buffer for buffer in self._problem.buffers if buffer.name in chosen]

    def can_fit(self, bank: Bank, names: Names) -> bool | None:
        """Return whether the buffers fit into the bank; None if that stayed undecided."""
        if self._load(names) > bank.capacity:
            return False
        if self._fits_side_by_side(bank, names):
            return True
        if len(self._known) >= MOST_PLANS:
            raise GaveUp(because(ContentsWhy.MOST_PLANS, most=MOST_PLANS))
        status = self.plan(bank, names).status
        return None if status == Status.GAVE_UP else status != Status.INFEASIBLE

    def plan(self, bank: Bank, names: Names) -> MemoryPlan:
        """Return a plan within the capacity of the bank, or why there is none."""
        key = bank.name, names
        if key not in self._known:
            self._known[key] = self._planned(bank, names)
        return self._known[key]

    def _planned(self, bank: Bank, names: Names) -> MemoryPlan:
        part = _part(self._problem, bank, self.named(names))
        try:
            check_fixed(part)
        except InvalidPlan as error:
            return MemoryPlan(
                problem=part,
                lower_bound=0,
                status=Status.INFEASIBLE,
                reason=because(ContentsWhy.FIXED, error=str(error)),
            )
        steps = self._stop.part(steps=MOST_STEPS, reason=because(ContentsWhy.ENDED))
        found = plan_and_end(part, capacity=bank.capacity, stop=steps)
        self._stop.end_whole(found.end)
        return found.plan

    def _load(self, names: Names) -> int:
        """Return bytes that live at one time; what may lie over another buffer is not counted."""
        return most_alive(self._buffers[name] for name in names - self._yielding)

    def _fits_side_by_side(self, bank: Bank, names: Names) -> bool:
        """Whether each can have bytes of its own, so that nobody need search."""
        buffers = [self._buffers[name] for name in names]
        is_free = all(one.offset is None and one.alignment == 1 for one in buffers)
        return is_free and sum(one.size for one in buffers if one.takes_room) <= bank.capacity


def _part(problem: Problem, bank: Bank, buffers: list[Buffer]) -> Problem:
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
