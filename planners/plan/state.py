"""State of a network in a plan: after which group each variable is updated for the next frame."""

from __future__ import annotations

from math import prod

from cnn2csdf.network import Layer, Network
from cnn2csdf.rings import rings_of
from planners.plan.plan import StreamingPlan


def state_updates(network: Network, plan: StreamingPlan) -> list[tuple[int, str, str]]:
    """Return each update of state, after the last reader: its group, its variable, its source.

    After the group, the variable takes the last rows of the source. In a ring the source is a window:
    its first rows are those of the variable, the others are new. Sorted by group.
    """
    group_of = {
        name: number
        for number, group in enumerate(plan.groups)
        for stage in group.stages
        for name in stage.layers
    }
    windows, consumers = rings_of(network), network.consumers
    updates = []
    for previous, following in network.variables:
        source = following.inputs[0]
        if source in windows:
            names = [*consumers[source], windows[source].new]
        else:
            names = [*consumers[previous.name], source]
        group = max((group_of[name] for name in names if name in group_of), default=0)
        updates.append((group, previous.name, source))
    return sorted(updates, key=lambda update: update[0])


def state_bytes(network: Network, layer: Layer) -> int:
    """Return the bytes of state that a layer keeps between frames, without variables of the network."""
    kept = layer.operator.kept(network.input_shapes(layer)).values()
    return sum(prod(variable.dims) * variable.element.bytes for variable in kept)
