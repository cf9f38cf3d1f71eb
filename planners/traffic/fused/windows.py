"""Layers of a network as windows that slide over feature maps."""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network, Shape
from planners.traffic.fused.group import FusedLayer
from planners.traffic.fused.reach import Reach


def window_of(network: Network, layer: Layer) -> FusedLayer | None:
    """Return a layer that slides a window over its input as such; None for other kinds."""
    if not layer.inputs:
        return None
    shape = network.layer(layer.inputs[0]).shape
    match layer.operator:
        case op.Convolution(window=window, groups=groups) if min(window.padding) >= 0:
            return fused_layer(shape, layer.shape, window, groups)
        case op.Pooling(window=window) if min(window.padding) >= 0:
            return fused_layer(shape, layer.shape, window)
        case op.FullyConnected():
            return fused_layer(shape, layer.shape, op.Window(kernel=maps_of(shape)[1:]), 1)
        case op.GlobalPooling() if shape.is_map:
            return fused_layer(shape, layer.shape, op.Window(kernel=maps_of(shape)[1:]))
    return None


def fused_layer(
    source: Shape, result: Shape, window: op.Window, groups: int | None = None
) -> FusedLayer:
    """Return a window over a tensor; without weights where no groups are named."""
    channels, *sizes = maps_of(source)
    filters, *outputs = maps_of(result)
    rows, columns = (
        Reach(
            inputs=sizes[axis],
            outputs=outputs[axis],
            kernel=window.kernel[axis],
            stride=window.stride[axis],
            dilation=window.dilation[axis],
            padding=window.padding[axis],
        )
        for axis in (0, 1)
    )
    return FusedLayer(
        channels=channels,
        filters=filters,
        rows=rows,
        columns=columns,
        groups=channels if groups is None else groups,
        has_weights=groups is not None,
    )


def maps_of(shape: Shape) -> tuple[int, int, int]:
    """Return a tensor as feature maps, rows, columns: one of another rank as maps of one place."""
    if not shape.is_map:
        return shape.elements, 1, 1
    return shape.channels, shape.height, shape.width
