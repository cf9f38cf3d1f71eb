"""Conversion of unsigned to signed quantised tensors: the kernels in C support signed integers only.

If 128 is subtracted from both an integer and its zero point, the integer represents the same real
number, and each result is smaller by 128. For integers of 16 bits, 32768 is subtracted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array, Model
from csdf.errors import UnsupportedOperator
from planners.plan.plan import Kind, StreamBuffer, StreamingPlan

SIGNED = {Element.UINT8: Element.INT8, Element.UINT16: Element.INT16}


def as_signed(model: Model) -> Model:
    """Return the model with unsigned tensors and parameters converted to signed."""
    network = model.network
    if not any(_is_unsigned(layer.quantization) for layer in network.layers) and not any(
        _is_unsigned(stored.quantization) for layer in network.layers for stored in layer.stored
    ):
        return model
    layers = tuple(_signed(layer) for layer in network.layers)
    weights = model.weights
    if weights is not None:
        weights = {
            layer.name: _arrays(layer, weights.get(layer.name, {})) for layer in network.layers
        }
    return Model(network=replace(network, layers=layers), weights=weights)


def as_signed_array(array: Array) -> Array:
    """Return a tensor as stored in the library: unsigned integers converted to signed."""
    element = next((candidate for candidate in SIGNED if array.dtype == candidate.value), None)
    if element is None:
        return array
    return (array.astype(np.int32) - element.middle).astype(SIGNED[element].value)


def can_change_in_place(
    plan: StreamingPlan, network: Network, tensor: str, results: Collection[str]
) -> bool:
    """Return whether an unsigned input or output can change its first bits in its own bytes.

    results: the tensors of all outputs. An input in memory of the caller is read there, and is not to
    be changed. Bytes that remain in the arena for the next frame, or that outputs share, are stored in
    the form of the kernels.
    """
    buffers_of_tensor = [buffer for buffer in plan.buffers if buffer.tensor == tensor]
    if network.layer(tensor).is_input:
        return all(buffer.kind is not Kind.EXTERNAL for buffer in buffers_of_tensor)
    further_results = set(results) - {tensor}
    if any(alias.host == tensor and alias.tensor in further_results for alias in plan.aliases):
        return False
    last = len(plan.groups) - 1
    places = [buffer for buffer in buffers_of_tensor if buffer.is_live(last)]
    fixed = [
        buffer
        for buffer in plan.buffers
        if buffer.persists or (buffer.is_live(last) and buffer.tensor in further_results)
    ]
    return bool(places) and not any(
        _overlap(place, buffer)
        for place in places
        for buffer in fixed
        if Kind.EXTERNAL not in (place.kind, buffer.kind)
    )


def _overlap(first: StreamBuffer, second: StreamBuffer) -> bool:
    """Return whether two buffers of the arena have a byte in common."""
    return max(first.offset, second.offset) < min(first.end_byte, second.end_byte)


def _is_unsigned(types: Quantization | None) -> bool:
    return types is not None and types.element in SIGNED


def _shifted(types: Quantization) -> Quantization:
    zero_point = types.zero_point - types.element.middle
    return replace(types, element=SIGNED[types.element], zero_point=zero_point)


def _require_same_bits(layer: Layer) -> None:
    """Raise UnsupportedOperator for a layer that TensorFlow Lite computes otherwise when unsigned."""
    if layer.quantization is None or not layer.quantization.is_fixed_point:
        return
    if layer.operator.counts_zero_padding:
        raise UnsupportedOperator(
            f"layer {layer.name!r}: {layer.operator.in_words()} of {layer.element.value} counts "
            "padding of zeros, and has no C code; convert the network to int8"
        )


def _signed(layer: Layer) -> Layer:
    signed = replace(layer, stored=tuple(map(_signed_stored, layer.stored)))
    if layer.quantization is None or not _is_unsigned(layer.quantization):
        return signed
    _require_same_bits(layer)
    types, offset = _shifted(layer.quantization), layer.quantization.element.middle
    if types.is_fixed_point:
        # Functions keep the bits of uint8, which TensorFlow Lite computes in single precision.
        types = replace(types, arithmetic=Arithmetic.UNSIGNED_FIXED_POINT)
    operator = layer.operator.on_signed_integers(
        offset, is_fixed_point=layer.quantization.is_fixed_point
    )
    return replace(signed, operator=operator, element=types.element, quantization=types)


def _signed_stored(one: Stored) -> Stored:
    if one.quantization is None or not _is_unsigned(one.quantization):
        return one
    types = _shifted(one.quantization)
    return replace(one, element=types.element, quantization=types)


def _arrays(layer: Layer, arrays: Mapping[str, Array]) -> dict[str, Array]:
    unsigned = {
        stored.role: stored.element.value
        for stored in layer.stored
        if _is_unsigned(stored.quantization)
    }
    if layer.operator.is_state and layer.is_input and _is_unsigned(layer.quantization):
        unsigned["initial"] = layer.element.value
    return {
        role: as_signed_array(array.astype(unsigned[role])) if role in unsigned else array
        for role, array in arrays.items()
    }
