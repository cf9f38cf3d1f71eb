"""Weights of layers in the memories of a plan: which can be moved, and how many bytes they take.

They are the filters of convolutions and the matrices of fully connected layers. Biases, factors and
tables, a few bytes a filter, stay in the memory of the program, and are not counted.
"""

from __future__ import annotations

from math import prod

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network

SINGLE_BYTES = 4
ROLES = {op.Convolution: "kernel", op.FullyConnected: "matrix"}


def weights_role(layer: Layer) -> str | None:
    """Return the name of the weights of a layer that can be moved; None where there are none."""
    return ROLES.get(type(layer.operator))


def weight_bytes(network: Network, layer: Layer, element_bytes: int | None) -> int:
    """Return the bytes of the weights of a layer that can be moved; 0 where there are none.

    element_bytes: of each, where they are not those in which the layer computes: a layer of real
    numbers has weights in single precision, or in two bytes where the file has them in float16.
    """
    role = weights_role(layer)
    if role is None:
        return 0
    dims = layer.operator.trained(network.input_shapes(layer))[role]
    return prod(dims) * bytes_of_each_weight(layer, element_bytes)


def bytes_of_each_weight(layer: Layer, element_bytes: int | None) -> int:
    """Return the bytes of each of the weights that `weight_bytes` counts."""
    role = weights_role(layer)
    assert role is not None
    stored = layer.stored_as(role).element.bytes
    if layer.reads_halves(role) and element_bytes in (None, SINGLE_BYTES):
        return stored
    return element_bytes or (SINGLE_BYTES if layer.quantization is None else stored)
