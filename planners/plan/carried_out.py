"""Check of a plan on the network that it executes: the user's network with copies of recomputed layers.

Plans of a search pass this check before a plan file or C of them is written. The copies are made by
the code of the planners; the checker compares the network with copies layer by layer with the
network of the user, by code of its own (planners.rewrites.copied_layers).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cnn2csdf.network import Network
from csdf.arguments import public
from csdf.errors import InternalError, InvalidPlan
from planners.plan.checker import require_apart, require_plan
from planners.plan.plan import StreamingPlan
from planners.plan.text import format_plans
from planners.rewrites.rematerialisation import executed_network


@public
def require_carried_out(network: Network, plan: StreamingPlan) -> None:
    """Raise InvalidPlan, naming the layer or buffer, unless the plan works this network.

    Every byte that is read is checked, which for large networks takes a while: bytes of all
    tensors.
    """
    _check(network, plan)


# A plan is checked where it is found or read, and again where C of it is written.
@lru_cache(maxsize=8)
def _check(network: Network, plan: StreamingPlan) -> None:
    require_plan(network, executed_network(network, plan.rematerialised), plan)


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
