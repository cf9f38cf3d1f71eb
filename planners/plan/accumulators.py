"""Layers that accumulate: over the rows of a map, row by row, or over blocks of input channels."""

from __future__ import annotations

from cnn2csdf.dtypes import Element
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates


def works_by_channels(layer: Layer, *, is_first: bool) -> bool:
    """Return whether a channel of the result needs only the same channel of the input.

    is_first: whether the layer is the first of its stage, which may read all channels of its input.
    """
    if not all(step.is_channelwise for step in layer.epilogue):
        return False
    return layer.operator.is_channelwise or (is_first and layer.operator.splits_filters)


def sums_over_rows(network: Network, layer: Layer) -> bool:
    """Return whether a layer with one output row can accumulate its input row by row."""
    if not layer.inputs:
        return False
    source = network.input_shapes(layer)[0]
    if not source.is_map or layer.shape.rows != 1 or source.rows == 1:
        return False
    if not layer.operator.accumulates_rows(source, layer.shape):
        return False
    is_product = multiply_accumulates(layer, (source,)) > 0
    return not (is_product and has_wide_sums(network, layer))


def takes_rows(network: Network, layer: Layer) -> bool:
    """Return whether the result of a layer is complete after the last input row, without stored rows.

    The layer accumulates rows, or writes their pixels to other positions of a result stored whole.
    """
    return layer.operator.scatters_rows or sums_over_rows(network, layer)


def has_wide_sums(network: Network, layer: Layer) -> bool:
    """Return whether the sums of a layer exceed the 32 bits that a plan counts for each sum."""
    types = network.layer(layer.inputs[0]).quantization
    return types is not None and types.element is Element.INT16
