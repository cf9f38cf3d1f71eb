"""What lies together in one bank of several: whether it fits, and where. Every set is planned once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from csdf.errors import GaveUp, InvalidPlan
from planners.arena.allocation import Progress, Watch, check_fixed, plan_and_end
from planners.plan import GAVE_UP, INFEASIBLE, Bank, Buffer, MemoryPlan, Pair, Problem, most_alive

PATIENCE = 40  # steps of search for one set of buffers in one bank
MOST_PLANS = 2000  # that are made for one problem

Names = frozenset[str]


class Contents:
    """Plans for sets of buffers of a problem in its banks.

    What ends the watch ends the work with it, by GaveUp or KeyboardInterrupt; so do MOST_PLANS.
    """

    def __init__(self, problem: Problem, watch: Watch) -> None:
        self._problem = problem
        self._watch = watch
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
            raise GaveUp(f"{MOST_PLANS} sets of buffers in a bank were tried, not all")
        status = self.plan(bank, names).status
        return None if status == GAVE_UP else status != INFEASIBLE

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
                problem=part, lower_bound=0, status=INFEASIBLE, reason=f"fixed offsets: {error}"
            )
        found = plan_and_end(part, capacity=bank.capacity, watch=_patient(self._watch))
        if found.end is not None and not isinstance(found.end, _OutOfPatience):
            raise found.end
        return found.plan

    def _load(self, names: Names) -> int:
        """Return bytes that live at one time; what may lie over another buffer is not counted."""
        return most_alive(self._buffers[name] for name in names - self._yielding)

    def _fits_side_by_side(self, bank: Bank, names: Names) -> bool:
        """Whether each can have bytes of its own, so that nobody need search."""
        buffers = [self._buffers[name] for name in names]
        is_free = all(one.offset is None and one.alignment == 1 for one in buffers)
        return is_free and sum(one.size for one in buffers if one.takes_room) <= bank.capacity


class _OutOfPatience(GaveUp):
    """The end of the search for one set of buffers; others may still be tried."""


def _patient(watch: Watch) -> Watch:
    """Return the watch with an end after some steps."""
    steps = iter(range(PATIENCE))

    def look(progress: Progress) -> None:
        watch(progress)
        if next(steps, None) is None:
            raise _OutOfPatience("the search for one choice of buffers ended")

    return look


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
