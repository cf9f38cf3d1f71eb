"""Factors and tables with which quantised layers rescale integers, beside trained numbers."""

from __future__ import annotations

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.elements import Quantization
from cnn2csdf.integers import channel_ratios, multipliers
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_bytes

TABLE_BYTES = 256  # of a function of one 8-bit integer


def flash_bytes(network: Network, number_bytes: int | None = None) -> int:
    """Return the bytes of all constant arrays: trained numbers, and what rescales integers.

    number_bytes: of every trained number, and nothing to rescale; by default as in the file.
    """
    if number_bytes is not None:
        return parameter_bytes(network, number_bytes)
    return parameter_bytes(network) + rescaling_bytes(network)


def rescaling_bytes(network: Network) -> int:
    """Return the bytes of multipliers, exponents and tables of all layers; equal ones once."""
    found: dict[object, int] = {}
    for layer in network.layers:
        result = layer.quantization
        given = network.layer(layer.inputs[0]).quantization if layer.inputs else None
        if given is not None and result is not None and result.is_fixed_point:
            found |= _sizes(layer, given, result)
    return sum(found.values())


def is_limit(operator: op.Operator, given: Quantization, result: Quantization) -> bool:
    """Whether an activation keeps integers within limits, and does nothing else."""
    is_bound = isinstance(operator, op.Activation) and operator.function in ("relu", "clip")
    return is_bound and given == result


def sum_ratios(layer: Layer, given: Quantization, result: Quantization) -> list[float] | None:
    """Return the factor of each filter's or unit's sums; None where a layer does not rescale so.

    A fully connected layer with one scale has the product of scales in single precision.
    """
    match layer.operator:
        case op.Convolution(filters=filters):
            weights = layer.stored_as("kernel").quantization
        case op.FullyConnected(units=filters):
            weights = layer.stored_as("matrix").quantization
        case _:
            return None
    if weights is None:
        return None
    if isinstance(layer.operator, op.FullyConnected) and len(weights.scales) == 1:
        product = float(np.float32(given.scale) * np.float32(weights.scale))
        return [product / result.scale] * filters
    return [float(ratio) for ratio in channel_ratios(given, weights, result, filters)]


def _sizes(layer: Layer, given: Quantization, result: Quantization) -> dict[object, int]:
    """Return the bytes of each array of a layer, by what tells different arrays apart.

    A factor takes 32 bits and an exponent of 8; a function of one integer is a table.
    """
    operator = layer.operator
    if isinstance(operator, op.Activation):
        is_table = operator.function != "prelu" and not is_limit(operator, given, result)
        return {(operator, given, result): TABLE_BYTES} if is_table else {}
    ratios = sum_ratios(layer, given, result)
    if ratios is None:
        return {}
    integers, exponents = multipliers(ratios)
    arrays = (integers.astype(np.int32).tobytes(), exponents.astype(np.int8).tobytes())
    return {array: len(array) for array in arrays}
