"""Layers between integers: they dequantise, compute, and quantise the result.

Files often contain three nodes for such a layer. Merged into one layer, buffers hold only integers, and
convolutions and fully connected layers have integer accumulators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Model

PAIR = 2
FUNCTIONS_OF_PAIRS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def stored_at_run_time(network: Network) -> frozenset[str]:
    """Return the tensors of 8-bit integers whose scale is found in the frame, and their zero points."""
    quantized_names: set[str] = set()
    for layer in network.layers:
        is_moved = layer.operator.moves and quantized_names.intersection(layer.inputs)
        if is_moved or layer.operator.run_time_result in ("integers", "zero point"):
            quantized_names.add(layer.name)
    return frozenset(quantized_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """Memory layout of an input or output of a network, for the caller that fills or reads it."""

    name: str
    element: Element
    shape: tuple[int, ...]  # of a map rows, columns, channels
    layout: str
    quantization: Quantization | None

    def to_json(self) -> dict[str, Any]:
        """Return this as a JSON value; scale and zero point where integers stand for real numbers."""
        quantization = self.quantization
        scaled = (
            {}
            if quantization is None
            else {"scale": quantization.scale, "zero_point": quantization.zero_point}
        )
        shape = list(self.shape)
        fields = {"name": self.name, "element": self.element.value, "shape": shape}
        return {**fields, "layout": self.layout, **scaled}

    def in_words(self) -> str:
        """Return this in one line."""
        size = "x".join(map(str, self.shape))
        text = f"{self.name}: {self.element.value} {size} ({self.layout})"
        real = self.real_in_words()
        return f"{text}, real = {real}" if real else text

    def real_in_words(self) -> str:
        """Return the real number that an integer stands for; nothing where none is meant."""
        if self.quantization is None:
            return ""
        zero, limits = self.quantization.zero_point, np.iinfo(self.element.value)
        less = f"- {zero}" if zero >= 0 else f"+ {-zero}"
        least, most = (
            self.quantization.scale * (limit - zero) for limit in (limits.min, limits.max)
        )
        return f"{self.quantization.scale:.9g} * (integer {less}), from {least:.4g} to {most:.4g}"


def stored_as(layer: Layer) -> StoredAs:
    """Return the memory layout of the tensor of an input or output: maps are rows of pixels."""
    shape = layer.shape
    return StoredAs(
        name=layer.name,
        element=layer.element,
        shape=(shape.height, shape.width, shape.channels) if shape.is_map else shape.dims,
        layout="HWC" if shape.is_map else "as in the file",
        quantization=layer.quantization,
    )


def stores_integers(network: Network) -> bool:
    """Whether any tensor is stored as quantised integers."""
    is_quantised = any(layer.quantization is not None for layer in network.layers)
    return is_quantised or bool(stored_at_run_time(network))


def with_integers(model: Model) -> Model:
    """Return the model where layers between integers read and write them.

    A layer is merged with its conversions if all its inputs are dequantised, and its output, clipped or
    not, is only quantised again. A dequantisation with further readers stays. So does a layer without
    an integer form: it computes in floating point, as in ONNX Runtime.
    """
    consumers = model.network.consumers
    merged = {
        layer.name: (layer, *behind)
        for layer in model.network.layers
        if (behind := _behind(model.network, consumers, layer))
    }
    moved = {layer.name: first for first, chain in merged.items() for layer in chain[1:]}
    weights = None if model.weights is None else dict(model.weights)
    layers = []
    for original in model.network.layers:
        if original.name in moved:
            continue
        layer = original
        if original.name in merged:
            layer = _merged(model.network, merged[original.name])
            if weights is not None:
                weights[original.name] = _stored_arrays(layer, weights.get(original.name, {})) | {
                    f"{place}.{role}": array
                    for place, moved_layer in enumerate(merged[original.name][1:])
                    for role, array in weights.pop(moved_layer.name, {}).items()
                }
            # A bias is added to sums, and has no scale of its own.
            layer = replace(
                layer,
                stored=tuple(
                    [_real(stored) if stored.role == "bias" else stored for stored in layer.stored]
                ),
            )
        elif original.operator.index_limit is not None and _is_of_bytes(
            original.stored_as("table")
        ):
            # Rows are looked up as integers, and made real behind.
            types = original.stored_as("table").quantization
            assert types is not None
            name = f"{original.name} integers"
            layers.append(replace(original, name=name, element=types.element, quantization=types))
            if weights is not None:
                weights[name] = _stored_arrays(original, weights.pop(original.name))
            layer = replace(original, operator=op.Conversion(), inputs=(name,), stored=())
        else:
            layer = replace(original, stored=tuple(map(_real, original.stored)))
        inputs = tuple(moved.get(name, name) for name in layer.inputs)
        layers.append(replace(layer, inputs=inputs))
    network = _without_unread(Network(name=model.network.name, layers=tuple(layers)))
    return Model(network=network, weights=weights)


def _behind(
    network: Network, consumers: Mapping[str, Sequence[str]], layer: Layer
) -> tuple[Layer, ...]:
    """Return the layers after a layer that are merged into it: limits and its quantisation."""
    if layer.operator.converts or layer.is_end or layer.quantization is not None:
        return ()
    if not all(_is_made_real(network, network.layer(name)) for name in layer.inputs):
        return ()
    chain: list[Layer] = []
    last = layer
    while len(readers := consumers[last.name]) == 1:
        last = network.layer(readers[0])
        chain.append(last)
        if last.operator.converts and last.quantization is not None:
            # How the integers are stored that a layer makes real.
            source_types = [
                network.layer(network.layer(name).inputs[0]).quantization for name in layer.inputs
            ]
            is_merged = _has_integer_form(layer, source_types, last.quantization)
            is_short = any(
                types_of_source and types_of_source.element.bytes > 1
                for types_of_source in (*source_types, last.quantization)
            )
            is_table = is_of_one_element(layer) and not is_short
            has_limits = all(member.operator.is_limit for member in chain[:-1])
            return tuple(chain) if is_table or (is_merged and has_limits) else ()
        if not (last.operator.is_limit or all(map(is_of_one_element, (layer, *chain)))):
            break
    return ()


def _has_integer_form(
    layer: Layer, input_types: Sequence[Quantization | None], result: Quantization
) -> bool:
    """Whether a layer has an integer form; 16-bit layers have no lookup tables."""
    is_alike = set(input_types) == {result}
    is_short = any(
        types_of_source is not None and types_of_source.element.bytes > 1
        for types_of_source in (*input_types, result)
    )
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
            return not is_short or function == "prelu" or (is_alike and layer.operator.is_limit)
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
        not function.is_limit for function in layer.epilogue
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
        has_kernel = (operator.is_limit and source == result) or source.element.bytes > 1
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


def _merged(network: Network, chain: Sequence[Layer]) -> Layer:
    first, *behind, last = chain
    moved = [
        replace(stored, role=f"{place}.{stored.role}", quantization=None)
        for place, layer in enumerate(behind)
        for stored in layer.stored
    ]
    return replace(
        first,
        inputs=tuple(network.layer(source).inputs[0] for source in first.inputs),
        epilogue=(*first.epilogue, *(layer_behind.operator for layer_behind in behind)),
        element=last.element,
        quantization=last.quantization,
        stored=first.stored if _is_summed(first) else (*map(_real, first.stored), *moved),
    )


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


def _stored_arrays(layer: Layer, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The integers that were dequantised to the weights."""
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
            arrays_stored[stored.role] = whole.astype(types.element.value)
    return arrays_stored


def _without_unread(network: Network) -> Network:
    """The network without dequantisations that no layer reads any more."""
    consumers = network.consumers
    return replace(
        network,
        layers=tuple(
            layer
            for layer in network.layers
            if consumers[layer.name] or not layer.operator.converts
        ),
    )
