"""Layers between integers: nodes that dequantise, compute and quantise become one layer.

Files often contain three nodes for such a layer. Merged into one layer, buffers hold only integers, and
convolutions and fully connected layers have integer accumulators. Elementwise functions without an
integer kernel are computed by a lookup table of all 256 integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Model
from csdf.errors import UnsupportedOperator

Weights = dict[str, Mapping[str, Array]]  # by layer and role, changed in place

PAIR = 2
FUNCTIONS_OF_PAIRS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def with_integers(model: Model) -> Model:
    """Return the model where layers between integers read and write them.

    A layer is merged with its conversions if all its inputs are dequantised, and its output, clipped or
    not, is only quantised again. A dequantisation with further readers stays. So does a layer without
    an integer form: it computes in floating point, as in ONNX Runtime. Raises UnsupportedOperator for a
    layer that computes with integers as they are stored, such as a Clip of int8, and for a bias beyond
    32 bits in the scale of the products.
    """
    for layer in model.network.layers:
        _require_numbers(layer, model.network.input_types(layer))
    network, consumers = model.network, model.network.consumers
    chains = {
        layer.name: (layer, *following)
        for layer in network.layers
        if (following := _merged_layers(network, consumers, layer))
    }
    merged_into = {layer.name: first for first, chain in chains.items() for layer in chain[1:]}
    weights = None if model.weights is None else dict(model.weights)
    layers: list[Layer] = []
    for layer in network.layers:
        if layer.name in merged_into:
            continue
        if layer.name in chains:
            new_layers = [_merged(network, chains[layer.name], weights)]
        elif layer.operator.index_limit is not None and _is_of_bytes(layer.stored_as("table")):
            new_layers = _looked_up_as_integers(layer, weights)
        else:
            new_layers = [replace(layer, stored=tuple(map(_real, layer.stored)))]
        layers += [
            replace(new, inputs=tuple(merged_into.get(name, name) for name in new.inputs))
            for new in new_layers
        ]
    merged = Network(name=network.name, layers=tuple(layers))
    # Dequantisations that no layer reads any more are left out.
    read = tuple(
        layer for layer in layers if merged.consumers[layer.name] or not layer.operator.converts
    )
    return Model(network=replace(merged, layers=read), weights=weights)


def _require_numbers(layer: Layer, input_types: Sequence[Quantization | None]) -> None:
    """Raise UnsupportedOperator unless a layer converts, moves or compares integers, or has none.

    The result of a move is stored as its input; a comparison may have an index as its result.
    """
    operator, result = layer.operator, layer.quantization
    has_integers = result is not None or any(input_types)
    if operator.converts or layer.is_end or not has_integers:
        return
    is_index = result is None and not operator.moves
    has_types_of_inputs = is_index or set(input_types) == {result}
    if operator.allows_stored_integers and has_types_of_inputs:
        return
    elements = {kind.element for kind in (result, *input_types) if kind is not None}
    is_stored = layer.element in elements
    words = operator.in_words() if is_stored or not operator.moves else "cast"
    raise UnsupportedOperator(
        f"layer {layer.name!r}: {words} of integers as they are stored; expected DequantizeLinear "
        f"before it{', and QuantizeLinear after it' if is_stored else ''}"
    )


def _merged_layers(
    network: Network, consumers: Mapping[str, Sequence[str]], layer: Layer
) -> tuple[Layer, ...]:
    """The layers after a layer that are merged into it: functions and its quantisation.

    They are a chain in which each layer has one consumer. Without a quantisation at its end, or with
    a layer that has no integer form, none is merged.
    """
    if layer.operator.converts or layer.is_end or layer.quantization is not None:
        return ()
    if not all(_is_made_real(network, network.layer(name)) for name in layer.inputs):
        return ()
    chain: list[Layer] = []
    last = layer
    while len(readers := consumers[last.name]) == 1:
        last = network.layer(readers[0])
        if last.operator.converts and last.quantization is not None:
            dequantised = [network.layer(network.layer(name).inputs[0]) for name in layer.inputs]
            input_types = [source.quantization for source in dequantised]
            is_table = is_of_one_element(layer) and not _are_short(
                (*input_types, last.quantization)
            )
            has_limits = all(function.operator.limits is not None for function in chain)
            has_kernel = has_limits and _has_integer_form(layer, input_types, last.quantization)
            return (*chain, last) if is_table or has_kernel else ()
        chain.append(last)
        if last.operator.limits is None and not all(map(is_of_one_element, (layer, *chain))):
            break
    return ()


def _are_short(types: Sequence[Quantization | None]) -> bool:
    """Whether some of the tensors are integers of more than 8 bits."""
    return any(kind is not None and kind.element.bytes > 1 for kind in types)


def _looked_up_as_integers(layer: Layer, weights: Weights | None) -> list[Layer]:
    """A lookup of rows in integers, and the conversion of the rows to floating point."""
    types = layer.stored_as("table").quantization
    assert types is not None
    name = f"{layer.name} integers"
    if weights is not None:
        weights[name] = _stored_arrays(layer, weights.pop(layer.name))
    return [
        replace(layer, name=name, element=types.element, quantization=types),
        replace(layer, operator=op.Conversion(), inputs=(name,), stored=()),
    ]


def _has_integer_form(
    layer: Layer, input_types: Sequence[Quantization | None], result: Quantization
) -> bool:
    """Whether a layer has an integer form; 16-bit layers have no lookup tables."""
    is_alike = set(input_types) == {result}
    is_short = _are_short((*input_types, result))
    match layer.operator:
        case op.Convolution() | op.FullyConnected() | op.MatrixProduct(units=int()):
            return _is_summed(layer)
        case op.MatrixProduct() | op.LayerNormalization():
            return not is_short
        case op.Pooling(function=function):
            return not is_short or function == "average" or is_alike
        case op.GlobalPooling(function=function):
            return function == "average"
        case op.Reduction(function=function):
            return function == "mean"
        case op.Elementwise(function=function, constant=constant):
            operands = len(input_types) + (constant is not None)
            return operands == PAIR and function in FUNCTIONS_OF_PAIRS
        case op.Softmax(is_logarithm=is_logarithm):
            return not (is_logarithm or is_short)
        case op.Activation(function=function):
            return (
                not is_short
                or function == "prelu"
                or (is_alike and layer.operator.limits is not None)
            )
        case op.BatchNormalization():
            return True
        case op.Resize(function=function):
            return function == "nearest" and (is_alike or not is_short)
        case op.Concatenation():
            return is_alike or (layer.shape.is_map and not is_short)
        case op.Pad():
            return is_alike
    return layer.operator.moves and (is_alike or not is_short)


def is_of_one_element(layer: Layer) -> bool:
    """Whether the layer is an elementwise function of one operand."""
    return layer.operator.is_scalar_function and len(layer.inputs) == 1


def goes_by_table(layer: Layer) -> bool:
    """Whether a lookup table of real-valued elementwise functions computes the integers."""
    result, operator = layer.quantization, layer.operator
    if result is None or result.is_fixed_point or not is_of_one_element(layer):
        return False
    has_kernel = operator.elementwise_function in FUNCTIONS_OF_PAIRS
    return not (has_kernel or operator.has_lookup_table) or any(
        function.limits is None for function in layer.epilogue
    )


class LookupTable(NamedTuple):
    """A function of one 8-bit integer, as a table of 256 bytes.

    names: of the trained arrays in the file that the function reads.
    """

    operator: op.Operator
    epilogue: tuple[op.Operator, ...]
    source: Quantization
    result: Quantization
    names: tuple[str | None, ...] = ()


def lookup_tables(
    layer: Layer, input_types: Sequence[Quantization | None]
) -> tuple[LookupTable | None, ...]:
    """Return for each input of a layer the lookup table that its integers pass through, if any.

    A layer has a table if it is an elementwise function without a kernel for integers, or if it
    moves or stores integers in another scale, in single precision or for a concatenation of uint8.
    """
    result, operator, without = layer.quantization, layer.operator, (None,) * len(input_types)
    source = input_types[0] if input_types else None
    if source is None or result is None or result.element.bytes > 1:
        return without
    if goes_by_table(layer):
        names = tuple(tensor.name for tensor in layer.stored)
        return (LookupTable(operator, layer.epilogue, source, result, names),)
    if operator.has_lookup_table:
        has_kernel = (operator.limits is not None and source == result) or source.element.bytes > 1
        is_table = operator.is_scalar_function and not has_kernel
        return (LookupTable(operator, (), source, result),) if is_table else without
    step: op.Operator = op.Conversion()
    if result.is_fixed_point:
        is_unsigned = result.element is Element.UINT8 or result.is_unsigned
        if operator.joined_axis is None or not is_unsigned:
            return without
        step = op.Concatenation()
    elif not (operator.picks_elements or operator.converts):
        return without
    return tuple(
        None if types in (None, result) else LookupTable(step, (), types, result)
        for types in input_types
    )


def _is_made_real(network: Network, layer: Layer) -> bool:
    return (
        layer.operator.converts
        and layer.quantization is None
        and network.layer(layer.inputs[0]).quantization is not None
    )


def _merged(network: Network, chain: Sequence[Layer], weights: Weights | None) -> Layer:
    """The layer that replaces a chain: its first layer, on integers, with functions as epilogue.

    weights: of the network; those of the chain become those of the merged layer.
    """
    first, *functions, last = chain
    sources = tuple(network.layer(source).inputs[0] for source in first.inputs)
    arrays_of_functions = [
        replace(stored, role=f"{position}.{stored.role}", quantization=None)
        for position, layer in enumerate(functions)
        for stored in layer.stored
    ]
    merged = replace(
        first,
        inputs=sources,
        epilogue=(*first.epilogue, *(layer.operator for layer in functions)),
        element=last.element,
        quantization=last.quantization,
        stored=_with_scale_of_products(first, network.layer(sources[0]).quantization)
        if _is_summed(first)
        else (*map(_real, first.stored), *arrays_of_functions),
    )
    if weights is not None:
        weights[first.name] = _stored_arrays(merged, weights.get(first.name, {})) | {
            f"{position}.{role}": array
            for position, layer in enumerate(chain[1:])
            for role, array in weights.pop(layer.name, {}).items()
        }
    # A bias is added to sums, and has no scale of its own.
    stored = [_real(array) if array.role == "bias" else array for array in merged.stored]
    return replace(merged, stored=tuple(stored))


def _is_of_bytes(stored: Stored) -> bool:
    types = stored.quantization
    return types is not None and len(types.scales) == 1 and types.element is Element.INT8


def _real(stored: Stored) -> Stored:
    return replace(stored, quantization=None)


def _is_summed(layer: Layer) -> bool:
    """Whether factors and biases are integers that can be summed as such."""
    operator, role = layer.operator, layer.operator.weight_role
    if role is None or operator.scatters_products:
        return False
    factors = layer.stored_as(role).quantization
    if factors is None or factors.element.bytes > 1:
        return False
    bias = layer.stored_as("bias")
    is_integer = bias.element is Element.INT32 and bias.quantization is not None
    return is_integer or operator.with_bias() != operator  # or without a bias


def _with_scale_of_products(layer: Layer, source: Quantization | None) -> tuple[Stored, ...]:
    """The stored arrays of a product, its bias in the scale of the sums to which it is added.

    A file may store the bias in another scale; then its numbers are rounded to that of the sums.
    `_stored_arrays` refuses numbers that do not fit there.
    """
    bias = layer.stored_as("bias")
    factors = layer.stored_as(layer.operator.weight_role or "").quantization
    if bias.quantization is None or factors is None or source is None:
        return layer.stored
    scales = np.float32(source.scale) * np.array(factors.scales, np.float32)
    # A quotient of exporters that compute in double precision differs in the last bits only.
    if np.allclose(bias.quantization.scales, scales, rtol=2**-20, atol=0):
        return layer.stored
    types = replace(bias.quantization, scales=tuple(scales.tolist()))
    return tuple(
        replace(array, quantization=types, name=None) if array.role == "bias" else array
        for array in layer.stored
    )


def _stored_arrays(layer: Layer, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The integers that were dequantised to the weights.

    Raises UnsupportedOperator for a bias that does not fit into its integers in the scale of the sums.
    """
    arrays_stored = dict(arrays)
    axis = layer.operator.bias_axis or 0
    for stored in layer.stored:
        if stored.quantization is not None:
            values = arrays[stored.role]
            types = stored.quantization
            dims = [1] * values.ndim
            dims[axis] = -1
            scales = np.array(types.scales, np.float64).reshape(dims)
            whole: Array = np.rint(values / scales) + types.zero_point
            limits = np.iinfo(types.element.value)
            if not ((whole >= limits.min) & (whole <= limits.max)).all():
                raise UnsupportedOperator(
                    f"layer {layer.name!r}: the {stored.role} does not fit into "
                    f"{types.element.value} in the scale of the sums, input times weights; "
                    "expected larger scales of the weights"
                )
            arrays_stored[stored.role] = whole.astype(types.element.value)
    return arrays_stored
