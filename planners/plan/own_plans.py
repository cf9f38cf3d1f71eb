"""Plans that this program found pass the checker before a plan file or C of them is written."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf.network import Network
from csdf.errors import InternalError, InvalidPlan
from planners.plan.carried_out import require_carried_out
from planners.plan.checker import require_apart
from planners.plan.plan import StreamingPlan
from planners.plan.text import format_plans


def require_own(plans: Sequence[tuple[Network, StreamingPlan]]) -> None:
    """Raise InternalError unless the checker accepts the plans found for networks in one arena."""
    names = ", ".join(repr(network.name) for network, _ in plans)
    try:
        for network, plan in plans:
            require_carried_out(network, plan)
        require_apart([plan for _, plan in plans])
    except InvalidPlan as error:
        raise InternalError(f"the plan found for {names} is refused: {error}") from None


def format_own_plans(plans: Sequence[tuple[Network, StreamingPlan]]) -> str:
    """Return the document of plans found for networks in one arena.

    Raises InternalError where the checker refuses one of them.
    """
    require_own(plans)
    return format_plans([plan for _, plan in plans])
