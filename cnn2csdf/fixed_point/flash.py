"""Factors and tables with which quantised layers rescale integers, beside trained numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.elements import Element, Quantization
from cnn2csdf.fixed_point.short_functions import (
    exponential_table,
    reciprocal_table,
    sigmoid_table,
)
from cnn2csdf.fixed_point.single_precision import POWERS
from cnn2csdf.integers import channel_ratios, multipliers
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import layer_parameter_bytes, parameter_bytes

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
        if given is not None and result is not None:
            found |= _sizes(layer, given, result)
            if not result.is_fixed_point:
                found |= _sizes_in_single(network, layer, result)
            if given.element is Element.INT16:
                found |= _sizes_of_short(layer)
    return sum(found.values())


def is_limit(operator: op.Operator, given: Quantization, result: Quantization) -> bool:
    """Whether an activation keeps integers within limits, and does nothing else."""
    is_bound = isinstance(operator, op.Activation) and operator.function in ("relu", "clip")
    return is_bound and given == result


def sum_ratios(layer: Layer, given: Quantization, result: Quantization) -> list[float] | None:
    """Return the factor of each filter's or unit's sums; None where a layer does not rescale so.

    In fixed point, a fully connected layer with one scale has the product of scales in single
    precision.
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
    is_one = len(weights.scales) == 1 and result.is_fixed_point
    if isinstance(layer.operator, op.FullyConnected) and is_one:
        product = float(np.float32(given.scale) * np.float32(weights.scale))
        return [product / result.scale] * filters
    return [float(ratio) for ratio in channel_ratios(given, weights, result, filters)]


def _sizes(layer: Layer, given: Quantization, result: Quantization) -> dict[object, int]:
    """Return the bytes of each array of a layer, by what tells different arrays apart.

    A factor takes 32 bits and an exponent of 8; a function of one integer is a table, and so is the
    curve of an LSTM. In single precision a factor takes 32 bits, and a softmax has a table of powers.
    """
    operator = layer.operator
    if isinstance(operator, op.Activation) and given.element is Element.INT16:
        return {}
    if isinstance(operator, op.Activation):
        is_table = operator.function != "prelu" and not is_limit(operator, given, result)
        return {(operator, given, result): TABLE_BYTES} if is_table else {}
    if isinstance(operator, op.QuantizedLstm):
        return {"curve": sigmoid_table().size * 4}
    if isinstance(operator, op.QuantizedSvdf):  # of its filters the last place, in two bytes
        places = operator.places * layer.stored_as("filters").element.bytes
        return {(layer.name, "filters"): operator.units * operator.rank * (2 - places)}
    if isinstance(operator, op.Softmax) and not result.is_fixed_point:
        return {(operator, given.scale): POWERS * 4}
    ratios = sum_ratios(layer, given, result)
    if ratios is None:
        return {}
    if not result.is_fixed_point:
        factors = np.array(ratios, np.float32)
        return {factors.tobytes(): factors.nbytes}
    integers, exponents = multipliers(ratios)
    arrays = (integers.astype(np.int32).tobytes(), exponents.astype(np.int8).tobytes())
    return {array: len(array) for array in arrays}


def _sizes_of_short(layer: Layer) -> dict[object, int]:
    """Return the bytes of tables of curves and of softmax, and of biases of 64 bits in all layers."""
    match layer.operator:
        case op.Activation(function="sigmoid" | "tanh"):
            return {"curve": sigmoid_table().size * 4}
        case op.Softmax():
            return {"powers": exponential_table().size * 4, "shares": reciprocal_table().size * 4}
        case op.Convolution(filters=filters) | op.FullyConnected(units=filters):
            is_narrow = layer.operator.has_bias and layer.stored_as("bias").element.bytes <= 4
            return {(layer.name, "bias"): 4 * filters} if is_narrow else {}
    return {}


def _sizes_in_single(network: Network, layer: Layer, result: Quantization) -> dict[object, int]:
    """Return the bytes of tables that change scales on the way, and of normalisations.

    A layer that moves integers has a table for each input of another scale. A normalisation has a
    factor and an offset for each channel in place of its trained numbers.
    """
    inputs = network.input_shapes(layer)
    if isinstance(layer.operator, op.BatchNormalization):
        trained = layer_parameter_bytes(replace(layer, epilogue=()), inputs)
        return {layer.name: 8 * inputs[0].channels - trained}
    sources = {network.layer(name).quantization for name in layer.inputs}
    if not (is_choice(layer.operator) or isinstance(layer.operator, op.Conversion)):
        return {}
    return {("scale", one, result): TABLE_BYTES for one in sources - {result} if one}


def is_choice(operator: op.Operator) -> bool:
    """Whether each element of the result is one of the input: integers may stay as they are."""
    match operator:
        case op.Pooling(function=function) | op.GlobalPooling(function=function):
            return function == "max"
        case op.Resize(function=function):
            return function == "nearest"
        case op.Output():
            return False
        case _:
            return operator.moves
