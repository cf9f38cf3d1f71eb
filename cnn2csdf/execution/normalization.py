"""Normalisation: by trained statistics, by those of the tensor, by neighbouring maps; softmax."""

from __future__ import annotations

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.part import Part, along_channels, cut, same_rows, whole_tensor
from cnn2csdf.weights import Array


def batch_normalization(operator: op.BatchNormalization, part: Part) -> Array:
    """Return the rows of the part of a batch normalisation."""
    values = same_rows(part)
    weights = part.weights
    factor = weights["scale"] / np.sqrt(weights["variance"] + operator.epsilon)
    offset = weights["shift"] - weights["mean"] * factor
    result = values * along_channels(factor, values.ndim)
    result += along_channels(offset, values.ndim)
    return result


def instance_normalization(operator: op.InstanceNormalization, part: Part) -> Array:
    """Return the rows of the part of an instance normalisation, which needs all rows."""
    values = whole_tensor(part.inputs[0])
    standard = _standard(values, tuple(range(1, values.ndim)), operator.epsilon)
    scale, shift = (along_channels(part.weights[role], values.ndim) for role in ("scale", "shift"))
    return cut(standard * scale + shift, part)


def layer_normalization(operator: op.LayerNormalization, part: Part) -> Array:
    """Return the rows of the part; along the width alone it needs those rows only."""
    rank = len(part.shape.dims)
    by_rows = part.shape.is_map and operator.axis == 2
    values = same_rows(part) if by_rows else whole_tensor(part.inputs[0])
    result = _standard(values, tuple(range(operator.axis, rank)), operator.epsilon)
    result *= part.weights["scale"]
    if operator.has_bias:
        result += part.weights["shift"]
    return result if by_rows else cut(result, part)


def _standard(values: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Values with mean zero and variance one along the axes."""
    centred = values - values.mean(axis=axes, keepdims=True)
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    result: Array = centred / np.sqrt(variance + epsilon)
    return result


def local_response_normalization(operator: op.LocalResponseNormalization, part: Part) -> Array:
    """Return the rows of the part; the neighbours of a channel are those of the ONNX operator."""
    values = same_rows(part)
    channels, before = len(values), (operator.size - 1) // 2
    squares = np.zeros((channels + operator.size - 1, *values.shape[1:]), np.float32)
    np.multiply(values, values, out=squares[before : before + channels])
    sums = squares[:channels].copy()
    for shift in range(1, operator.size):
        sums += squares[shift : shift + channels]
    scale = operator.bias + operator.alpha / operator.size * sums
    return (values / np.power(scale, operator.beta)).astype(np.float32, copy=False)


def softmax(operator: op.Softmax, part: Part) -> Array:
    """Return the rows of the part; along axes other than the rows it needs those rows only."""
    last = operator.axis if operator.last is None else operator.last
    axes = tuple(range(operator.axis, last + 1))
    by_rows = part.shape.is_map and 1 not in axes
    values = same_rows(part) if by_rows else whole_tensor(part.inputs[0])
    shifted = values - values.max(axis=axes, keepdims=True)
    powers = np.exp(shifted)
    sums = powers.sum(axis=axes, keepdims=True)
    result = shifted - np.log(sums) if operator.is_logarithm else powers / sums
    return result if by_rows else cut(result, part)
