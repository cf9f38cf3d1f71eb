"""Write buffers: fast memory in which a stage computes pixels of a result in slow memory.

A kernel may write an element several times, and read it in between: accumulators begin with a bias,
and an activation function follows. The kernel does so in a write buffer, a block of some rows and
columns of the result. Each block is stored in slow memory once, as soon as it is complete.
"""

from __future__ import annotations

from cnn2csdf.network import Layer, Network
from planners.plan.plan import Mode, Stage
from planners.plan.regions import can_be_tiled


def smallest_block(network: Network, stage: Stage) -> tuple[int, int]:
    """Return the fewest rows and columns of its result that a stage computes at a time.

    One pixel where all layers compute rectangles. Accumulators over channel blocks hold all rows of a
    firing. Otherwise one row, or all rows of a firing where the layer needs all rows of an input.
    """
    layer = network.layer(stage.result)
    rows = min(stage.rows, layer.shape.rows)
    if stage.mode is not Mode.ROWS:
        return layer.shape.rows, layer.shape.width
    if stage.accumulating_layer == stage.result:
        return rows, 1
    if can_be_tiled(network, layer):
        return 1, 1
    return 1 if _needs_rows_only(network, layer) else rows, layer.shape.width


def _needs_rows_only(network: Network, layer: Layer) -> bool:
    """Whether a row of the result needs some rows of each input, as the kernel knows them."""
    inputs = network.input_shapes(layer)
    needs = (layer.operator.rows_needed(index, inputs, layer.shape) for index in range(len(inputs)))
    return layer.shape.is_map and all(need is not None for need in needs)


def block_bytes(network: Network, stage: Stage, pixels: int, element_bytes: int) -> int:
    """Return the bytes of so many pixels of the result of a stage."""
    return pixels * network.layer(stage.result).shape.pixel_elements * element_bytes
