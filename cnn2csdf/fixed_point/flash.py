"""Flash bytes of parameters, and of factors and tables that requantise integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.fixed_point.functions import (
    exponential_table,
    reciprocal_table,
    sigmoid_table,
)
from cnn2csdf.fixed_point.single_precision import POWERS, product_factors
from cnn2csdf.integers import channel_ratios, multipliers, multipliers_once
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import layer_parameter_bytes, parameter_shapes, stored_arrays
from cnn2csdf.quantized_layers import goes_by_table, stores_integers
from csdf.units import bytes_in_words

HALF_BYTES, SINGLE_BYTES = 2, 4
TABLE_BYTES = 256  # of a function of one 8-bit integer


Arrays = dict[object, tuple[str, int]]  # the first layer that uses an array, and its bytes


def flash_bytes(network: Network, number_bytes: int | None = None) -> int:
    """Return the bytes of all constant arrays: parameters, what rescales integers, first states.

    number_bytes: of every parameter, and nothing to rescale or repeat; by default as a library
    has them. Four bytes are what a library of real numbers has.
    """
    return sum(flash_by_layer(network, number_bytes).values())


def flash_by_layer(network: Network, number_bytes: int | None = None) -> dict[str, int]:
    """Return the bytes of the constant arrays of each layer, as `flash_bytes` counts them.

    An array that several layers use counts for the first of them.
    """
    sizes_of = dict.fromkeys((layer.name for layer in network.layers), 0)
    is_real = not stores_integers(network)
    if number_bytes is not None and not (is_real and number_bytes == SINGLE_BYTES):
        for array in stored_arrays(network):
            sizes_of[array.layer] += array.elements * number_bytes
        return sizes_of
    for arrays in (_parameters(network), _rescaling(network), _beginnings(network)):
        for name, size in arrays.values():
            sizes_of[name] += size
    return sizes_of


def _parameters(network: Network) -> Arrays:
    """The parameters as C has them; arrays that layers share in the file are stored once."""
    arrays: Arrays = {}
    for layer in network.layers:
        chain = (layer.operator, *layer.epilogue)
        # Whatever type the file has.
        is_float = layer.quantization is None and not layer.operator.has_integer_weights
        if goes_by_table(layer):
            continue
        for role, dims in parameter_shapes(layer, network.input_shapes(layer)).items():
            place, _, kind = role.rpartition(".")
            operator = chain[int(place) + 1 if place else 0]
            stored = layer.stored_as(role)
            element_size = stored.element.bytes if stored.element.is_integer else SINGLE_BYTES
            element_size = SINGLE_BYTES if _stays_real(operator, layer) else element_size
            size = _elements_in_c(operator, kind, layer, prod(dims))
            if is_float:
                element_size = HALF_BYTES if layer.reads_halves(role) else SINGLE_BYTES
            size *= element_size
            # Numbers that one layer reads in two bytes and another in four are stored twice.
            is_half = is_float and element_size == HALF_BYTES
            key = stored.name or (layer.name, role), is_half
            first, before = arrays.get(key, (layer.name, 0))
            arrays[key] = first, max(before, size)
    return arrays


def _stays_real(operator: op.Operator, layer: Layer) -> bool:
    """Whether C holds weights of an integer layer in single precision."""
    is_single = layer.quantization is not None and not layer.quantization.is_fixed_point
    return is_single and operator.has_real_weights


def and_in_flash(parameters: int, stored: int) -> str:
    """Return what to say behind bytes of parameters where C takes another number of bytes for them.

    stored: what `flash_bytes` counts: factors that rescale integers come on top of the trained
    numbers, some are repeated, others fold into one.
    """
    if stored == parameters:
        return ""
    return f"; {bytes_in_words(stored)} of flash as C stores them (csdf fit)"


def rescaling_bytes(network: Network) -> int:
    """Return the bytes of multipliers, exponents and tables of all layers; equal ones once."""
    return sum(size for _, size in _rescaling(network).values())


def _rescaling(network: Network) -> Arrays:
    arrays_by_key: Arrays = {}
    for layer in network.layers:
        if layer.operator.weight_scales:
            scales = np.array(layer.operator.weight_scales, np.float32)
            arrays_by_key.setdefault(scales.tobytes(), (layer.name, scales.nbytes))
        result = layer.quantization
        sources = [network.layer(name).quantization for name in layer.inputs]
        input_types = sources[0] if sources else None
        if input_types is None or result is None:
            continue
        sizes = _sizes(layer, sources, result)
        if not result.is_fixed_point:
            sizes |= _sizes_in_single(network, layer, result)
        if input_types.element in (Element.INT16, Element.UINT16):
            sizes |= _sizes_of_short(layer)
        for key, size in sizes.items():
            arrays_by_key[key] = arrays_by_key.get(key, (layer.name, 0))[0], size
    return arrays_by_key


def _beginnings(network: Network) -> Arrays:
    """The initial numbers of the state that persists between frames.

    Each is filled with one number, in elements of the arena where those make it up; equal ones are
    stored once. Numbers that differ are parameters.
    """
    kinds = [layer.quantization for layer in network.layers if layer.quantization is not None]
    is_short = bool(kinds) and all(kind.element is Element.INT16 for kind in kinds)
    unit = (2 if is_short else 1) if stores_integers(network) else SINGLE_BYTES
    arrays_by_key: Arrays = {}
    initial_states = network.initial_states
    for layer in network.layers:
        if layer.name in initial_states:
            begins = [(initial_states[layer.name].begin, layer.array_type)]
        else:
            kept = layer.operator.kept(network.input_shapes(layer)).values()
            begins = [(state.begin, state.element.value) for state in kept]
        for begin, kind in begins:
            number = b"" if begin is None else np.array(begin, kind).tobytes()
            if number == number[:unit] * (len(number) // unit):
                number = number[:unit]
            arrays_by_key.setdefault(number, (layer.name, len(number)))
    return arrays_by_key


def is_limit(operator: op.Operator, given: Quantization, result: Quantization) -> bool:
    """Whether an activation keeps integers within limits, and does nothing else."""
    return operator.is_limit and given == result


def rounds_once(stored: Stored) -> bool:
    """Whether these are weights whose sums of products are rounded once."""
    return stored.quantization is not None and stored.quantization.rounds_sums_once


def sum_ratios(layer: Layer, given: Quantization, result: Quantization) -> list[float] | None:
    """Return the factor of each filter's or unit's sums; None where a layer does not rescale so."""
    role = layer.operator.weight_role
    weights = None if role is None else layer.stored_as(role).quantization
    if weights is None:
        return None
    outputs = layer.shape.dims[-1] if role == "matrix" else layer.shape.channels
    return [float(ratio) for ratio in channel_ratios(given, weights, result, outputs)]


def _sizes(
    layer: Layer, sources: Sequence[Quantization | None], result: Quantization
) -> dict[object, int]:
    """Return the bytes of each array of a layer, by what tells different arrays apart.

    A factor takes 32 bits and an exponent of 8; a function of one integer is a table, and so is the
    curve of an LSTM. In single precision a factor takes 32 bits, and a softmax has a table of powers.
    """
    operator, input_types = layer.operator, sources[0]
    assert input_types is not None
    if goes_by_table(layer):
        names = tuple(tensor.name for tensor in layer.stored)
        return {(operator, layer.epilogue, input_types, result, names): TABLE_BYTES}
    match operator:
        case op.Activation(function=function):
            is_computed = input_types.element is Element.INT16 or function == "prelu"
            is_table = not (is_computed or is_limit(operator, input_types, result))
            return {(operator, input_types, result): TABLE_BYTES} if is_table else {}
        case op.Concatenation() if result.element is Element.UINT8:
            rescaled = set(sources) - {result} if result.is_fixed_point else ()
            return {("rescaled", types, result): TABLE_BYTES for types in rescaled}
        case op.QuantizedLstm():
            return {"curve": sigmoid_table().size * 4}
        case op.QuantizedSvdf():  # of its filters the places that count, in two bytes
            counted = operator.places if operator.keeps else 1
            places = operator.places * layer.stored_as("filters").element.bytes
            filters = operator.units * operator.rank
            return {(layer.name, "filters"): filters * (2 * counted - places)}
        case op.Softmax() if not result.is_fixed_point:
            return {(operator, input_types.scale): POWERS * 4}
        case op.MatrixProduct() if not result.is_fixed_point:
            return {}
    is_once = any(map(rounds_once, layer.stored))
    return _sizes_of_factors(sum_ratios(layer, input_types, result), result, is_once=is_once)


def _sizes_of_factors(
    ratios: list[float] | None, result: Quantization, *, is_once: bool = False
) -> dict[object, int]:
    """Return the bytes of the factors of sums, and of their exponents in fixed point.

    is_once: whether sums are rounded once, for which few ratios need further bits.
    """
    if ratios is None:
        return {}
    if not result.is_fixed_point:
        factors = np.array(ratios, np.float32)
        return {factors.tobytes(): factors.nbytes}
    if is_once:
        integers, exponents, further = multipliers_once(ratios, result)
    else:
        (integers, exponents), further = multipliers(ratios), np.zeros(1, np.int64)
    arrays = [integers.astype(np.int32).tobytes(), exponents.astype(np.int8).tobytes()]
    arrays += [further.astype(np.int32).tobytes()] * bool(further.any())
    return {array: len(array) for array in arrays}


def _sizes_of_short(layer: Layer) -> dict[object, int]:
    """Return the bytes of tables of curves and of softmax, and of biases of 64 bits in all layers."""
    match layer.operator:
        case op.Activation(function="sigmoid" | "tanh"):
            return {"curve": sigmoid_table().size * 4}
        case op.Softmax():
            return {"powers": exponential_table().size * 4, "shares": reciprocal_table().size * 4}
        case (
            op.Convolution(filters=filters)
            | op.TransposedConvolution(filters=filters)
            | op.FullyConnected(units=filters)
        ):
            is_narrow = layer.operator.has_bias and layer.stored_as("bias").element.bytes <= 4
            return {(layer.name, "bias"): 4 * filters} if is_narrow else {}
    return {}


def _sizes_in_single(network: Network, layer: Layer, result: Quantization) -> dict[object, int]:
    """Return the bytes of tables that rescale, and of normalisations.

    A layer that moves integers has a table for each input of another scale. A normalisation has a
    factor and an offset for each channel instead of its parameters.
    """
    kinds = [network.layer(name).quantization for name in layer.inputs]
    match layer.operator:
        case op.BatchNormalization():
            inputs, shape = network.input_shapes(layer), layer.shape
            trained = layer_parameter_bytes(replace(layer, epilogue=()), inputs)
            factors = shape.channels if shape.is_map else shape.elements
            return {layer.name: 8 * factors - trained}
        case op.Convolution(block=int()):
            types = layer.stored_as("kernel").quantization
            steps = np.array(() if types is None else types.scales, np.float32)
            return {steps.tobytes(): steps.nbytes} if len(steps) > 1 else {}
        case op.MatrixProduct():
            types = layer.stored_as("matrix").quantization
            first, second = (*kinds, types)[:2]
            if first is None or second is None:
                return {}
            arrays = [
                factors.astype(np.float32) for factors in product_factors(first, second, result)
            ]
            return {array.tobytes(): array.nbytes for array in arrays}
    sources = set(kinds)
    if not (layer.operator.picks_elements or layer.operator.converts):
        return {}
    if result.element.bytes > 1:  # computed, without a table
        return {}
    return {("scale", types, result): TABLE_BYTES for types in sources - {result} if types}


def _elements_in_c(operator: op.Operator, role: str, layer: Layer, elements: int) -> int:
    """Return how many numbers C has of an array of parameters.

    A tensor that is no map lies in one row, with a number for each of its elements. A normalisation
    of real numbers has a factor and an offset of all its parameters.
    """
    shape = layer.shape
    match operator:
        case op.BatchNormalization() if layer.quantization is None:
            if role in ("mean", "variance"):
                return 0
            return elements if shape.is_map else shape.elements
        case op.Activation(function="prelu"):
            return elements if shape.is_map else shape.elements
        case op.Elementwise() if role == "constant" and operator is layer.operator:
            return elements
        case op.Elementwise() | op.Choice():
            return elements if len(shape.dims) == 3 or elements == 1 else shape.elements
    return elements
