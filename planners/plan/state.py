"""Variables of a network in a plan: when the rows for the next frame are taken over."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.rings import rings_of
from planners.plan.plan import StreamingPlan


class TakeOver(NamedTuple):
    """Behind a group the last rows of a tensor become those of a variable.

    A window of a ring is a tensor of its first rows, which the variable has, and of new ones.
    """

    group: int
    variable: str  # layer that gives it
    source: str


def take_overs(network: Network, plan: StreamingPlan) -> tuple[TakeOver, ...]:
    """Return for each variable when it is taken over: behind its last reader, in that order."""
    made = {
        name: number
        for number, group in enumerate(plan.groups)
        for stage in group.stages
        for name in stage.layers
    }
    windows, consumers = rings_of(network), network.consumers
    takeovers = []
    for previous, following in network.variables:
        source = following.inputs[0]
        if source in windows:
            names = [*consumers[source], windows[source].new]
        else:
            names = [*consumers[previous.name], source]
        group = max((made[name] for name in names if name in made), default=0)
        takeovers.append(TakeOver(group, previous.name, source))
    return tuple(sorted(takeovers, key=lambda takeover: takeover.group))


def state_bytes(network: Network, layer: Layer) -> int:
    """Return the bytes that a layer itself keeps from frame to frame."""
    kept = layer.operator.kept(network.input_shapes(layer)).values()
    return sum(prod(variable.dims) * variable.element.bytes for variable in kept)
