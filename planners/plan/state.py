"""State of a network in a plan: when each variable is updated, and the bytes that a frame moves."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cnn2csdf.network import Layer, Network
from cnn2csdf.rings import rings_of
from planners.plan.plan import Kind, StreamBuffer, StreamingPlan


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


def state_moves(network: Network, plan: StreamingPlan) -> Iterator[tuple[StreamBuffer, int, int]]:
    """Yield the bytes that a frame reads from a buffer of a state in slow memory, and writes to it.

    A copy for the readers of a frame reads the whole buffer, and so does a layer without a copy. An
    update of a variable writes the new rows only. The state of a layer is read and written whole.
    """
    windows, consumers = rings_of(network), network.consumers
    kept = {buffer.tensor: buffer for buffer in plan.buffers if buffer.persists}
    named = {buffer.name: buffer for buffer in kept.values()}
    for group in plan.groups:
        for transfer in group.transfers:
            if transfer.source in named:
                yield named[transfer.source], named[transfer.source].size, 0
    copied = {buffer.tensor for buffer in plan.buffers if buffer.kind is Kind.WHOLE}
    executed = {name for group in plan.groups for stage in group.stages for name in stage.layers}
    for buffer in plan.buffers:
        if buffer.kind is Kind.STATE_COPY:
            yield kept[buffer.tensor], buffer.size, buffer.size
        elif buffer.kind is Kind.KEPT and buffer.tensor not in copied:
            for reader in consumers[buffer.tensor]:
                for name in consumers[reader] if reader in windows else (reader,):
                    if name in executed:
                        yield buffer, buffer.size, 0
    for _, variable, source in state_updates(network, plan):
        made = windows[source].new if source in windows else source
        target = kept[variable]
        size = target.size // target.rows * min(target.rows, network.layer(made).shape.rows)
        yield target, 0, size
        if made in kept and kept[made].kind is Kind.KEPT:  # the state of a layer is not its result
            yield kept[made], size, 0


def layer_state_bytes(network: Network, layer: Layer) -> int:
    """Return the bytes of state that a layer keeps between frames, without variables of the network."""
    kept = layer.operator.kept(network.input_shapes(layer)).values()
    return sum(prod(variable.dims) * variable.element.bytes for variable in kept)
