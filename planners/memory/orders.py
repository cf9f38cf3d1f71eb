"""Networks with their layers in another order of execution, one with a lower peak of whole tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from cnn2csdf.network import Network
from cnn2csdf.operators import Input, Output
from csdf.time_limit import Stop
from planners.memory.plain_plans import whole_tensors
from planners.order.problem import OrderProblem, Step, peak_of
from planners.order.search import plan_order

FILE_ORDER = "file"
SEARCHED_ORDER = "search"
ORDERS = (SEARCHED_ORDER, FILE_ORDER)


def with_lower_peak(
    network: Network, *, element_bytes: int | None, external: frozenset[str], stop: Stop
) -> Network | None:
    """Return the network in an order of a lower peak than that of its layers; None where none is found.

    The peak is of whole tensors, without those in external memory. The order depends on the names
    of the layers, and not on their order in the network.
    """
    steps = [one for one in network.layers if not isinstance(one.operator, Input | Output)]
    if all(first.name in second.inputs for first, second in pairwise(steps)):
        return None  # each layer reads the one before: there is no other order
    lifetimes = whole_tensors(network, element_bytes=element_bytes, external=external)
    sizes = dict.fromkeys(sorted(one.name for one in network.layers), 0)
    sizes |= {buffer.name: buffer.size for buffer in lifetimes.buffers}
    for layer in network.outputs:
        del sizes[layer.name]
    graph = OrderProblem(
        name=network.name,
        sizes=sizes,
        steps=tuple(
            Step(name=one.name, reads=tuple(dict.fromkeys(one.inputs)), writes=(one.name,))
            for one in sorted(steps, key=lambda one: one.name)
        ),
        outputs=tuple(sorted({source for one in network.outputs for source in one.inputs})),
    )
    plan = plan_order(graph, budget=stop)
    if plan.peak >= peak_of(graph, [one.name for one in steps]):
        return None
    return in_order(network, plan.order)


def in_order(network: Network, order: Sequence[str]) -> Network:
    """Return the network with its layers in this order, between its inputs and its outputs."""
    inputs = [one for one in network.layers if isinstance(one.operator, Input)]
    outputs = [one for one in network.layers if isinstance(one.operator, Output)]
    return replace(network, layers=(*inputs, *map(network.layer, order), *outputs))
