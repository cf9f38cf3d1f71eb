"""Check that a periodic schedule fits into memory, before it is made."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.analysis.period.periodic import PeriodicProblem
from csdf.errors import GaveUp
from csdf.outcome import Why, because

LARGEST_SCHEDULE = 10_000_000  # about 6 GB
LARGEST_PLAIN_SCHEDULE = 200_000  # where 64 bits do not hold the heights: some ten seconds


class RoomWhy(Why):
    """Why no periodic schedule is made."""

    TOO_LARGE = "the next periodic schedule has {firings} firings; at most {most}"


def require_room(problem: PeriodicProblem, copies: Sequence[int]) -> None:
    """Raise GaveUp if a schedule with so many copies of each actor is too large."""
    nodes = problem.nodes(copies)
    if nodes <= LARGEST_PLAIN_SCHEDULE:
        return
    most = LARGEST_SCHEDULE if problem.fits(copies) else LARGEST_PLAIN_SCHEDULE
    if nodes > most:
        raise GaveUp(because(RoomWhy.TOO_LARGE, firings=nodes, most=most))
