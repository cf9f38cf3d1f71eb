"""Unsigned 8-bit integers as signed ones: kernels in C know one kind of element.

An integer less 128 with a zero point less 128 stands for the same real number, and each result is
the same one less 128.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cnn2csdf.elements import Element, Quantization, Stored
from cnn2csdf.network import Layer
from cnn2csdf.weights import Array, Model

SHIFT = 128


def as_signed(model: Model) -> Model:
    """Return the model where tensors and trained numbers of unsigned 8-bit integers are signed."""
    network = model.network
    if not any(_is_unsigned(layer.quantization) for layer in network.layers) and not any(
        _is_unsigned(one.quantization) for layer in network.layers for one in layer.stored
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
    """Return a tensor as the library has it: unsigned 8-bit integers less 128, others as they are."""
    if array.dtype != np.uint8:
        return array
    return (array.astype(np.int16) - SHIFT).astype(np.int8)


def _is_unsigned(types: Quantization | None) -> bool:
    return types is not None and types.element is Element.UINT8


def _shifted(types: Quantization) -> Quantization:
    return replace(types, element=Element.INT8, zero_point=types.zero_point - SHIFT)


def _signed(layer: Layer) -> Layer:
    found = replace(layer, stored=tuple(map(_signed_stored, layer.stored)))
    if layer.quantization is None or not _is_unsigned(layer.quantization):
        return found
    return replace(found, element=Element.INT8, quantization=_shifted(layer.quantization))


def _signed_stored(one: Stored) -> Stored:
    if one.quantization is None or not _is_unsigned(one.quantization):
        return one
    return replace(one, element=Element.INT8, quantization=_shifted(one.quantization))


def _arrays(layer: Layer, arrays: Mapping[str, Array]) -> dict[str, Array]:
    unsigned = {one.role for one in layer.stored if _is_unsigned(one.quantization)}
    return {
        role: as_signed_array(array.astype(np.uint8)) if role in unsigned else array
        for role, array in arrays.items()
    }
