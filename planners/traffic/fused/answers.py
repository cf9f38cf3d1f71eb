"""What a search for the least traffic of a group answers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from planners.traffic.fused.accounting import Moved
from planners.traffic.fused.schedule import FusedSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedTraffic:
    """A schedule of a group with what it moves and holds, in elements.

    held: the most that must find room at a time. bound: what every schedule of the group moves, as
    one or in groups, with a buffer of any size. operations, necessary: products it makes, and those
    of the layers on their own.
    """

    schedule: FusedSchedule
    moved: Moved
    held: int
    bound: int
    operations: int
    necessary: int

    @property
    def total(self) -> int:
        """Elements between buffer and DRAM."""
        return self.moved.total

    @property
    def gap(self) -> Fraction:
        """How far the traffic is above the bound: (found - bound) / bound."""
        return Fraction(self.total - self.bound, self.bound)
