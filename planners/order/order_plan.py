"""An order of execution with its peak, a lower bound, and the reason of its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from csdf.status import Reason, Status, Why, because
from planners.order.problem import OrderProblem


class OrderWhy(Why):
    """The reasons for the status of an order."""

    CUT = "every order has a step that needs at least {bound} bytes"
    EXHAUSTED = "no order needs fewer bytes (search complete)"
    NO_STEP = "there is no step"
    TIMED = "the search of all orders within the positions is complete"
    SELECTED = "the search of all alternatives is complete"
    PRICE = "no order takes fewer than {bound} bytes; not all were searched for a lower price"
    FITS = "no step is repeated within {bytes} bytes"
    KNAPSACK = (
        "the tensors that the steps after some step read are retained or repeated at this price"
    )
    REPEATED = "the search of all schedules with repeated steps is complete"
    REPEATS = "not all schedules were searched; within {bytes} bytes each costs at least {price}"
    STATES = "no more states are stored; no order takes fewer than {bound} bytes"
    ENDED = "{end}; no order takes fewer than {bound} bytes"


def not_all_searched(end: Reason | None, bound: int) -> Reason:
    """Return the reason of an order that is not proved optimal. end: why its search ended early."""
    if end is None:
        return because(OrderWhy.STATES, bound=bound)
    return because(OrderWhy.ENDED, end=end, bound=bound)


@dataclass(frozen=True, kw_only=True)
class OrderPlan:
    """An order of all steps, its peak, and a lower bound on the peak of every order.

    file_peak: of the order of the file, its steps moved after their predecessors; with positions, of
    the order by deadlines. problem: with the chosen alternatives alone. alternatives: the number of the
    alternative of each step that has some, from 0. repeated: the step of each run after its first, in
    order; each run is a step of the problem. price: of alternatives or repeated steps, in all.
    """

    problem: OrderProblem
    order: tuple[str, ...]
    peak: int
    lower_bound: int
    file_peak: int
    status: Status
    reason: Reason
    alternatives: Mapping[str, int] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    price: int = 0

    @property
    def gap(self) -> int:
        """Bytes between the peak and the lower bound."""
        return self.peak - self.lower_bound

    def to_json(self) -> dict[str, Any]:
        """Return the order as a JSON value; with alternatives, repetition and price if it has them."""
        choice: dict[str, Any] = {}
        if self.alternatives:
            choice["alternatives"] = dict(self.alternatives)
        if self.repeated:
            choice["repeated"] = list(self.repeated)
        if choice:
            choice["price"] = self.price
        return {
            "steps": len(self.order),
            "file_peak": self.file_peak,
            "peak": self.peak,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "status": str(self.status),
            "reason": str(self.reason),
            "order": list(self.order),
            **choice,
        }
