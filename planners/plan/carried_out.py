"""The checker of plans, with the network that a plan works on: with the copies of layers it has twice.

Copies of layers are made here, by the planners' code. The checker compares the network with copies
layer by layer with the network of the user, with code of its own (planners.plan.copied_layers).
"""

from __future__ import annotations

from functools import lru_cache

from cnn2csdf.network import Network
from csdf.arguments import public
from planners.plan.checker import require_plan
from planners.plan.plan import StreamingPlan
from planners.plan.rematerialisation import worked_network


@public
def require_carried_out(network: Network, plan: StreamingPlan) -> None:
    """Raise InvalidPlan, naming the layer or buffer, unless the plan works this network.

    Every byte that is read is checked, which for large networks takes a while: bytes of all tensors.
    """
    _check(network, plan)


# A plan is checked where it is found or read, and again where C of it is written.
@lru_cache(maxsize=8)
def _check(network: Network, plan: StreamingPlan) -> None:
    require_plan(network, worked_network(network, plan.rematerialised), plan)
