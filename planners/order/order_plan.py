"""An order of execution with its peak, a lower bound, and the reason of its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from csdf.status import Reason, Status, Why
from planners.order.problem import OrderProblem


class OrderWhy(Why):
    """The reasons for the status of an order."""

    CUT = "each order has a step of {bound} bytes: the least over all sets of steps before it"
    EXHAUSTED = "the search for an order of fewer bytes is complete"
    NO_STEP = "there is no step"
    TIMED = "the search of all orders within the positions is complete"
    SELECTED = "the search of all alternatives is complete"
    PRICE = "no order takes fewer than {bound} bytes; not all were searched for a lower price"
    STATES = "no more states are stored; no order takes fewer than {bound} bytes"
    ENDED = "{end}; no order takes fewer than {bound} bytes"


@dataclass(frozen=True, kw_only=True)
class OrderPlan:
    """An order of all steps, its peak, and bytes that no order is below.

    file_peak: of the order of the file, its steps moved after their predecessors; with positions, of
    the order by deadlines. problem: with the chosen alternatives alone. alternatives: the number of the
    alternative of each step that has some, from 0. price: the sum of their prices.
    """

    problem: OrderProblem
    order: tuple[str, ...]
    peak: int
    lower_bound: int
    file_peak: int
    status: Status
    reason: Reason
    alternatives: Mapping[str, int] = field(default_factory=dict)
    price: int = 0

    @property
    def gap(self) -> int:
        """Bytes between the peak and the lower bound."""
        return self.peak - self.lower_bound

    def to_json(self) -> dict[str, Any]:
        """Return the order as a JSON value; alternatives and price only where steps have some."""
        choice = {"alternatives": dict(self.alternatives), "price": self.price}
        return {
            "steps": len(self.order),
            "file_peak": self.file_peak,
            "peak": self.peak,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "status": str(self.status),
            "reason": str(self.reason),
            "order": list(self.order),
            **(choice if self.alternatives else {}),
        }
