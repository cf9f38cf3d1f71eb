"""Layers that are no convolution, in either layout, straight into a place given.

The usual ones need no temporary array, or a small one that they declare. For any other the executor
of cnn2csdf computes, with arrays of its own; such a layer runs in "CHW" only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.layers import computation
from cnn2csdf.network import Layer, Network
from cnn2csdf.part import HeldRows, Part
from cnn2csdf.weights import Array, Model
from planners.primitives.library import pooling
from planners.primitives.library.normalization import (
    batch_normalization,
    local_response,
    softmax,
)
from planners.primitives.profile import CHW, HWC, LAYOUTS

Compute = Callable[[Sequence[Array], Array], None]  # inputs in their layout, output

AXES = {CHW: {0: 0, 1: 1, 2: 2}, HWC: {0: 2, 1: 0, 2: 1}}  # where an axis of a map lies
FUNCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


class Computed(NamedTuple):
    """How a layer computes its own operator; allocates: temporary arrays nobody declared."""

    run: Compute
    workspace_bytes: int = 0
    parameter_bytes: int = 0
    allocates: bool = False


def layouts_of(network: Network, layer: Layer) -> tuple[str, ...]:
    """Return the layouts in which a layer that is no convolution can run."""
    shapes = (layer.shape, *network.input_shapes(layer))
    if not all(shape.is_map for shape in shapes):
        return (CHW,)
    return LAYOUTS if _runs_in_both(layer) else (CHW,)


def _runs_in_both(layer: Layer) -> bool:
    match layer.operator:
        case op.Pooling(window=window):
            return pooling.is_plain(window)
        case op.Elementwise(function=function, constant=None):
            return function in FUNCTIONS
        case op.Softmax(axis=0, last=None | 0, is_logarithm=False):
            return _is_column(layer)
        case op.Activation(function="relu" | "clip"):
            return True
    return isinstance(
        layer.operator,
        op.GlobalPooling
        | op.Concatenation
        | op.Identity
        | op.BatchNormalization
        | op.LocalResponseNormalization,
    )


def _is_column(layer: Layer) -> bool:
    """Whether the layer has one element a channel."""
    return layer.shape.elements == layer.shape.dims[0]


def computed_layer(model: Model, layer: Layer, layout: str) -> Computed:
    """Return how to compute the layer's own operator in a layout it can run in."""
    weights = (model.weights or {}).get(layer.name, {})
    match layer.operator:
        case op.Input() | op.Output() | op.Identity():
            return Computed(_copy)
        case op.Reshape():
            return Computed(_reshape)
        case op.Pooling(window=window) as operator if pooling.is_plain(window):
            source = model.network.input_shapes(layer)[0]
            return Computed(*pooling.pooling(operator, source, layer.shape, layout))
        case op.GlobalPooling(function=function):
            return Computed(partial(pooling.global_pooling, function, layout))
        case op.Elementwise(function=function, constant=None) if function in FUNCTIONS:
            return Computed(partial(_elementwise, FUNCTIONS[function]))
        case op.Concatenation(axis=axis):
            return Computed(partial(_concatenate, AXES[layout].get(axis, axis)))
        case op.Activation(function="relu"):
            return Computed(partial(_clip, 0.0, np.inf))
        case op.Activation(function="clip", parameters=(low, high)):
            return Computed(partial(_clip, low, high))
        case op.BatchNormalization() as operator if layer.shape.is_map:
            return Computed(*batch_normalization(operator, weights, layout))
        case op.LocalResponseNormalization() as operator if layer.shape.is_map:
            return Computed(partial(local_response, operator, layout))
        case op.FullyConnected():
            matrix = weights["matrix"]
            return Computed(partial(_multiply, matrix), parameter_bytes=matrix.nbytes)
        case op.Softmax(axis=0, last=None | 0, is_logarithm=False) if _is_column(layer):
            return Computed(softmax)
    return _executed(model, layer)


def _copy(inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output, inputs[0])


def _reshape(inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output.reshape(-1), inputs[0].reshape(-1))


def _elementwise(function: np.ufunc, inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output, inputs[0])
    for one in inputs[1:]:
        function(output, one, out=output)


def _concatenate(axis: int, inputs: Sequence[Array], output: Array) -> None:
    np.concatenate(inputs, axis=axis, out=output)


def _clip(low: float, high: float, inputs: Sequence[Array], output: Array) -> None:
    np.maximum(inputs[0], np.float32(low), out=output)
    if high < np.inf:
        np.minimum(output, np.float32(high), out=output)


def _multiply(matrix: Array, inputs: Sequence[Array], output: Array) -> None:
    np.matmul(matrix, inputs[0].reshape(-1), out=output.reshape(-1))


def _executed(model: Model, layer: Layer) -> Computed:
    """As the executor of cnn2csdf computes it, without what is fused behind."""
    own = computation(model, layer).own
    shapes = model.network.input_shapes(layer)

    def run(inputs: Sequence[Array], output: Array) -> None:
        readers = [
            HeldRows(shape=shape, array=array) for shape, array in zip(shapes, inputs, strict=True)
        ]
        part = Part(readers, own.weights, layer.shape, 0, layer.shape.rows)
        output[...] = own.operator.computed(part)

    parameters = {role: array for role, array in own.weights.items() if not role[0].isdigit()}
    return Computed(run, 0, sum(array.nbytes for array in parameters.values()), allocates=True)
