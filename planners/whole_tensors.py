"""The buffers of a network that works layer by layer, as any runtime lays them.

Each tensor needs a buffer from the step of the layer that writes it to the step of the last layer
that reads it, or to the end where it goes out of the network. A step is a layer, in the order of the
network.
"""

from __future__ import annotations

from cnn2csdf.network import Network
from cnn2csdf.operators import Output
from planners.plan import Buffer, Problem


def whole_tensors(
    network: Network, *, element_bytes: int | None = None, outside: frozenset[str] = frozenset()
) -> Problem:
    """Return a buffer for each tensor of a network that works layer by layer, without scratch.

    element_bytes: of all tensors; by default each has its own. outside: tensors in other memory.
    """
    last = {layer.name: step for step, layer in enumerate(network.layers)}
    for step, layer in enumerate(network.layers):
        last.update(dict.fromkeys(layer.inputs, step))
    for layer in network.outputs:  # stay until the frame ends
        last.update(dict.fromkeys(layer.inputs, len(network.layers) - 1))
    buffers = tuple(
        Buffer(
            name=layer.name,
            size=layer.shape.elements * (element_bytes or layer.element_bytes),
            start=step,
            end=last[layer.name] + 1,
            alignment=element_bytes or layer.element_bytes,
        )
        for step, layer in enumerate(network.layers)
        if not isinstance(layer.operator, Output) and layer.name not in outside
    )
    return Problem(name=network.name, buffers=buffers)
