"""The parts of one generation: waiting, with a worker, or answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil

from planners.reuse.front.problem import Chromosome, Score

SHARE = Fraction(2, 3)  # of the chromosomes that are left, in one part for each worker
FIRST_SHARE = Fraction(1, 16)  # the same in the first generation, where workers learn most
MANY = 8  # chromosomes for each worker; fewer are one part each, as a part costs a message


def part_sizes(count: int, workers: int, share: Fraction = SHARE) -> list[int]:
    """Return how many chromosomes each part has: in each round a share of what is left.

    Each worker gets a part of each round. Whoever is done early goes on with smaller and smaller
    parts, so that all workers end at about the same time; the number of parts, which are messages,
    grows with the logarithm of the count only.
    Source: Hummel, Schonberg and Flynn, Factoring: a method for scheduling parallel loops,
    Communications of the ACM 35(8), 1992.
    """
    sizes: list[int] = []
    while count:
        here = share if sizes or count >= MANY * workers else 1
        size = ceil(count * here / workers)
        for _ in range(workers):
            sizes.append(min(size, count))
            count -= sizes[-1]
    return [size for size in sizes if size]


def parts_of(
    chromosomes: Sequence[Chromosome], workers: int, share: Fraction = SHARE
) -> list[list[Chromosome]]:
    """Return the chromosomes in parts, in order, the largest first."""
    borders = accumulate(part_sizes(len(chromosomes), workers, share), initial=0)
    return [list(chromosomes[begin:end]) for begin, end in pairwise(borders)]


class Parts:
    """The parts of one generation, and the scores that came so far."""

    def __init__(self, chromosomes: Sequence[Chromosome], workers: int, share: Fraction) -> None:
        self._parts = parts_of(chromosomes, workers, share)
        self._waiting = deque(range(len(self._parts)))
        self._answers: dict[int, list[Score]] = {}
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether every score was returned."""
        return self._next == len(self._parts)

    @property
    def are_waiting(self) -> bool:
        """Whether a part has no worker."""
        return bool(self._waiting)

    def begin(self) -> tuple[int, list[Chromosome]]:
        """Return the number of the next part, and its chromosomes."""
        number = self._waiting.popleft()
        return number, self._parts[number]

    def lose(self, number: int) -> None:
        """Let a part wait again, as the first one."""
        self._waiting.appendleft(number)

    def answer(self, number: int, scores: list[Score]) -> None:
        """Note the scores of a part."""
        self._answers[number] = scores

    def in_order(self) -> Iterator[Score]:
        """Yield the scores whose turn it is."""
        while self._next in self._answers:
            yield from self._answers.pop(self._next)
            self._next += 1
