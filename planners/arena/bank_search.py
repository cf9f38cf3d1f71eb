"""Assignment of buffers to memory banks by exhaustive search, one buffer after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from csdf.errors import GaveUp
from csdf.outcome import Why, because
from csdf.stopping import Stop
from planners.arena.bank_contents import Contents, Names
from planners.plan import Buffer, Problem

MOST_CHOSEN = 64  # buffers without a bank up to which choices are searched
MOST_CHOICES = 100_000  # of a bank for a buffer, after which the search gives up

Filling = tuple[Names, ...]  # the buffers in each bank, in the order of the banks


class ChoiceWhy(Why):
    """Why not every choice of a bank for each buffer is searched."""

    TOO_MANY = "{buffers} buffers are too many to search all choices of banks"
    MOST_CHOICES = "{most} choices of banks were tried, not all"


class BankSearch:
    """A search over all choices of a bank for each buffer that takes room and names none.

    The largest buffer is placed first, in the first bank that takes it. Choices that differ in
    buffers or empty banks that are alike are tried once.
    """

    def __init__(self, problem: Problem, contents: Contents, stop: Stop) -> None:
        self._banks = problem.banks
        self._contents = contents
        self._stop = stop
        self._free = sorted((b for b in problem.buffers if is_free(b)), key=_rank)
        pairs = (*problem.conflicts, *problem.shares, *problem.in_place)
        self._paired = {name for pair in pairs for name in pair}
        self._choices = 0
        self.is_decided = True  # so far, whether every set of buffers fits its bank

    def filling(self, start: Filling) -> Filling | None:
        """Return the first choice that fits, begun with what names its bank; None if there is none.

        None is a proof if is_decided. Raises GaveUp beyond MOST_CHOSEN buffers or MOST_CHOICES.
        """
        if len(self._free) > MOST_CHOSEN:
            raise GaveUp(because(ChoiceWhy.TOO_MANY, buffers=len(self._free)))
        return self._filled(start, 0, 0)

    def _filled(self, filling: Filling, number: int, before: int) -> Filling | None:
        """Place the free buffers from this number on; before: the bank of the one before it."""
        if number == len(self._free):
            return filling
        for bank in self._banks_for(filling, number, before):
            self._count()
            larger = _with(filling, bank, self._free[number].name)
            fits = self._contents.can_fit(self._banks[bank], larger[bank])
            self.is_decided &= fits is not None
            if fits and (found := self._filled(larger, number + 1, bank)) is not None:
                return found
        return None

    def _banks_for(self, filling: Filling, number: int, before: int) -> Iterator[int]:
        """The numbers of banks to try: one of several empty ones of a capacity, none twice."""
        first = before if number > 0 and self._are_alike(number - 1, number) else 0
        empty: set[int] = set()
        for bank, capacity in enumerate(one.capacity for one in self._banks):
            if not filling[bank]:
                if capacity in empty:
                    continue
                empty.add(capacity)
            if bank >= first:
                yield bank

    def _are_alike(self, one: int, other: int) -> bool:
        """Whether two buffers may change places in every plan."""
        first, second = self._free[one], self._free[other]
        is_paired = first.name in self._paired or second.name in self._paired
        return not is_paired and replace(first, name=second.name, hint=second.hint) == second

    def _count(self) -> None:
        self._choices += 1
        if self._choices > MOST_CHOICES:
            raise GaveUp(because(ChoiceWhy.MOST_CHOICES, most=MOST_CHOICES))
        self._stop.look()


def is_free(buffer: Buffer) -> bool:
    """Whether the buffer takes room and names no bank."""
    return buffer.takes_room and buffer.bank is None


def _rank(buffer: Buffer) -> tuple[int, ...]:
    """The largest first, those alike one after the other."""
    fixed = -1 if buffer.offset is None else buffer.offset
    return (-buffer.size, buffer.start - buffer.end, buffer.start, buffer.alignment, fixed)


def _with(filling: Filling, bank: int, name: str) -> Filling:
    return (*filling[:bank], filling[bank] | {name}, *filling[bank + 1 :])
