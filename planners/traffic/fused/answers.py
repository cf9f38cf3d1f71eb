"""Answers of a search for the least traffic of a group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from planners.traffic.fused.accounting import Moved
from planners.traffic.fused.schedule import FusedSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedTraffic:
    """A schedule of a group with what it moves and holds, in bytes.

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
        """Bytes between buffer and DRAM."""
        return self.moved.total

    @property
    def gap(self) -> Fraction:
        """How far the traffic is above the bound: (found - bound) / bound."""
        return Fraction(self.total - self.bound, self.bound)

    def to_json(self) -> dict[str, Any]:
        """Return how the group runs, and what it makes twice, as a JSON value."""
        schedule = self.schedule
        return {
            "parts": list(schedule.parts),
            "columns_first": schedule.columns_first,
            "borders": [border.value for border in schedule.borders],
            "input_borders": [border.value for border in schedule.input_borders],
            "hold": schedule.hold.value,
            "kept_weights": list(schedule.kept_elements),
            "multiply_accumulates": self.operations,
            "redundant_multiply_accumulates": self.operations - self.necessary,
        }
