"""Layers that sum: over all rows of a map as they come, or over parts of the channels before them."""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.network import Layer, Network


def works_by_channels(layer: Layer, *, is_first: bool) -> bool:
    """Return whether some channels of the result need the same of the input, or, first, any."""
    pointwise = (op.BatchNormalization, op.Activation, op.Identity)
    if not all(isinstance(one, pointwise) for one in layer.epilogue):
        return False
    match layer.operator:
        case op.Convolution(groups=groups, filters=filters):
            return is_first or groups == filters > 1
        case op.Pooling():
            return True
    return isinstance(layer.operator, pointwise)


def sums_over_rows(network: Network, layer: Layer) -> bool:
    """Return whether a layer of one output row can add up its input row by row."""
    if not layer.inputs:
        return False
    source = network.input_shapes(layer)[0]
    if not source.is_map or layer.shape.rows != 1 or source.rows == 1:
        return False
    match layer.operator:
        case op.FullyConnected():
            return not has_wide_sums(network, layer)
        case op.GlobalPooling():
            return True
        case op.Reduction(function="mean" | "sum" | "max", axes=axes):
            return {1, 2} == set(axes)
        case op.Pooling(window=window):
            return (
                layer.shape.width == 1
                and window.dilation == (1, 1)
                and not any(window.padding)
                and not any(window.overhang)
            )
    return False


def takes_rows(network: Network, layer: Layer) -> bool:
    """Return whether a layer has its result when the last row has come, and keeps none until then.

    It sums over rows, or puts their places where they belong in a result that lies whole.
    """
    return isinstance(layer.operator, op.PlaceOrder) or sums_over_rows(network, layer)


def has_wide_sums(network: Network, layer: Layer) -> bool:
    """Return whether its sums have more than the 32 bits that a plan counts for each."""
    types = network.layer(layer.inputs[0]).quantization
    return types is not None and types.element is Element.INT16
