"""Trained parameters and work of a layer: shapes, counts, multiply-accumulates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network, Shape

Dims = tuple[int, ...]


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
    """Return the number of trained numbers of each layer."""
    return {
        layer.name: sum(
            prod(dims) for dims in parameter_shapes(layer, network.input_shapes(layer)).values()
        )
        for layer in network.layers
    }


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
