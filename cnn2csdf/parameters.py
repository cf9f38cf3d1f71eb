"""Trained parameters and work of a layer: shapes, counts, multiply-accumulates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.elements import Element
from cnn2csdf.network import Layer, Network, Shape

Dims = tuple[int, ...]


class StoredArray(NamedTuple):
    """An array of trained numbers, however many layers use it."""

    elements: int
    element: Element


def parameter_shapes(layer: Layer, inputs: Sequence[Shape]) -> dict[str, Dims]:
    """Return the dims of each array of trained numbers, by its role.

    Roles of fused operators have the place in the epilogue in front: "0.scale" is the scale of
    the first operator behind the layer's own.
    """
    roles = operator_parameters(layer.operator, inputs)
    for place, operator in enumerate(layer.epilogue):
        fused = operator_parameters(operator, (layer.shape,))
        roles |= {f"{place}.{role}": dims for role, dims in fused.items()}
    return roles


def operator_parameters(operator: op.Operator, inputs: Sequence[Shape]) -> dict[str, Dims]:
    """Return the dims of each array of trained numbers of one operator, by its role."""
    match operator:
        case op.Convolution(filters=filters, window=window, groups=groups):
            kernel = (filters, inputs[0].channels // groups, *window.kernel)
            return _with_bias({"kernel": kernel}, filters, has_bias=operator.has_bias)
        case op.TransposedConvolution(filters=filters, window=window, groups=groups):
            kernel = (inputs[0].channels, filters // groups, *window.kernel)
            return _with_bias({"kernel": kernel}, filters, has_bias=operator.has_bias)
        case op.FullyConnected(units=units):
            matrix = {"matrix": (units, inputs[0].elements)}
            return _with_bias(matrix, units, has_bias=operator.has_bias)
        case op.MatrixProduct(units=int(units)):
            return {"matrix": (inputs[0].dims[-1], units)}
        case op.BatchNormalization():
            return dict.fromkeys(("scale", "shift", "mean", "variance"), (inputs[0].channels,))
        case op.InstanceNormalization():
            return dict.fromkeys(("scale", "shift"), (inputs[0].channels,))
        case op.LayerNormalization(axis=axis, has_bias=has_bias):
            roles = ("scale", "shift") if has_bias else ("scale",)
            return dict.fromkeys(roles, inputs[0].dims[axis:])
        case op.Activation(function="prelu"):
            return {"slope": (inputs[0].channels,)}
        case op.Elementwise(constant=tuple(dims)):
            return {"constant": dims}
    return {}


def _with_bias(roles: Mapping[str, Dims], size: int, *, has_bias: bool) -> dict[str, Dims]:
    return {**roles, "bias": (size,)} if has_bias else dict(roles)


def layer_parameters(network: Network) -> Mapping[str, int]:
    """Return the number of trained numbers that each layer uses.

    An array that several layers share counts for each of them; stored_arrays counts it once.
    """
    return {
        layer.name: sum(
            prod(dims) for dims in parameter_shapes(layer, network.input_shapes(layer)).values()
        )
        for layer in network.layers
    }


def stored_arrays(network: Network) -> Sequence[StoredArray]:
    """Return the arrays of trained numbers; one that several layers share is there once."""
    found: dict[str | tuple[str, str], StoredArray] = {}
    for layer in network.layers:
        shapes = parameter_shapes(layer, network.input_shapes(layer))
        for role, dims in shapes.items():
            stored = layer.stored_as(role)
            array = StoredArray(prod(dims), stored.element)
            key = stored.name or (layer.name, role)
            found[key] = max(found.get(key, array), array, key=lambda one: one.elements)
    return tuple(found.values())


def parameter_bytes(network: Network, number_bytes: int | None = None) -> int:
    """Return the bytes of all trained numbers, shared arrays once.

    number_bytes: of one number; by default each array is stored as in the file of the network.
    """
    return sum(
        array.elements * (array.element.bytes if number_bytes is None else number_bytes)
        for array in stored_arrays(network)
    )


def layer_parameter_bytes(
    layer: Layer, inputs: Sequence[Shape], number_bytes: int | None = None
) -> int:
    """Return the bytes of the trained numbers that a layer uses."""
    return sum(
        prod(dims) * (number_bytes or layer.stored_as(role).element.bytes)
        for role, dims in parameter_shapes(layer, inputs).items()
    )


def uniform_bytes(network: Network) -> int | None:
    """Return the bytes of each element and each trained number; None where they differ."""
    sizes = {layer.element_bytes for layer in network.layers}
    sizes |= {array.element.bytes for array in stored_arrays(network)}
    return sizes.pop() if len(sizes) == 1 else None


def multiply_accumulates(layer: Layer, inputs: Sequence[Shape]) -> int:
    """Return the multiply-accumulates of one frame: convolutions and matrix products only."""
    match layer.operator:
        case op.Convolution(window=window, groups=groups):
            return layer.shape.elements * (inputs[0].channels // groups) * prod(window.kernel)
        case op.TransposedConvolution(window=window, filters=filters, groups=groups):
            return inputs[0].elements * (filters // groups) * prod(window.kernel)
        case op.FullyConnected(units=units):
            return units * inputs[0].elements
        case op.MatrixProduct():
            return layer.shape.elements * inputs[0].dims[-1]
    return 0


def operations(layer: Layer, inputs: Sequence[Shape]) -> int:
    """Return the arithmetic operations of one frame.

    Two for a multiply-accumulate; one for each element that a pooling window, an elementwise
    function or a fused operator touches; none for moving elements.
    """
    fused = layer.shape.elements * len(layer.epilogue)
    return _own_operations(layer, inputs) + fused


def _own_operations(layer: Layer, inputs: Sequence[Shape]) -> int:
    elements = layer.shape.elements
    match layer.operator:
        case op.Pooling(window=window):
            return elements * prod(window.kernel)
        case op.GlobalPooling() | op.Reduction():
            return inputs[0].elements
        case op.Elementwise(constant=constant):
            return elements * (len(inputs) - (constant is None))
        case op.LocalResponseNormalization(size=size):
            return elements * 2 * size
        case op.BatchNormalization() | op.Activation():
            return elements
        case op.Softmax() | op.InstanceNormalization() | op.LayerNormalization():
            return elements * 3
    return 2 * multiply_accumulates(layer, inputs)
