"""Layers that sum: over all rows of a map as they come, or over parts of the channels before them."""

from __future__ import annotations

from cnn2csdf.dtypes import Element
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates


def works_by_channels(layer: Layer, *, is_first: bool) -> bool:
    """Return whether some channels of the result need the same of the input, or, first, any."""
    if not all(step.is_channelwise for step in layer.epilogue):
        return False
    return layer.operator.is_channelwise or (is_first and layer.operator.splits_filters)


def sums_over_rows(network: Network, layer: Layer) -> bool:
    """Return whether a layer of one output row can add up its input row by row."""
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

    It sums over rows, or puts their places where they belong in a result that is stored whole.
    """
    return layer.operator.scatters_rows or sums_over_rows(network, layer)


def has_wide_sums(network: Network, layer: Layer) -> bool:
    """Return whether its sums have more than the 32 bits that a plan counts for each."""
    types = network.layer(layer.inputs[0]).quantization
    return types is not None and types.element is Element.INT16
