"""Normalisations and softmax in either layout, straight into a place given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from cnn2csdf.weights import Array
from planners.kernels import convolution_layers as kernels
from planners.primitives.library.primitive import compiled
from planners.primitives.profile import CHW


def batch_normalization(
    operator: op.BatchNormalization, weights: Mapping[str, Array], layout: str
) -> tuple[Any, int, int]:
    """Return how to normalise maps, the bytes of its workspace, those of factors and shifts."""
    factor = weights["scale"] / np.sqrt(weights["variance"] + np.float32(operator.epsilon))
    shift = weights["shift"] - weights["mean"] * factor
    scale = kernels.scale_by_channels if layout == CHW else kernels.scale_by_places

    def run(inputs: Sequence[Array], output: Array) -> None:
        compiled(scale)(inputs[0], factor, shift, output)

    return run, 0, factor.nbytes + shift.nbytes


def local_response(
    operator: op.LocalResponseNormalization, layout: str, inputs: Sequence[Array], output: Array
) -> None:
    """Write each element over a power of the squares of its neighbours."""
    before = (operator.size - 1) // 2
    after = operator.size - 1 - before
    channels = inputs[0].shape[0 if layout == CHW else 2]
    squares = (
        kernels.neighbour_squares_by_channels
        if layout == CHW
        else kernels.neighbour_squares_by_places
    )
    compiled(squares)(inputs[0], min(before, channels), min(after, channels), output)
    np.multiply(output, np.float32(operator.alpha / operator.size), out=output)
    np.add(output, np.float32(operator.bias), out=output)
    np.power(output, np.float32(-operator.beta), out=output)
    np.multiply(output, inputs[0], out=output)


def row_elements(shape: Shape) -> int:
    """Return the elements that `respond_by_rows` holds aside: a row of all maps, and its answer."""
    return 2 * shape.channels * shape.width


def respond_by_rows(operator: op.LocalResponseNormalization, view: Array, workspace: Array) -> None:
    """Do the same to maps in place; view: by (channel, row, column), however it lies in memory."""
    channels, rows, columns = view.shape
    row, output = workspace[: 2 * channels * columns].reshape(2, channels, 1, columns)
    for number in range(rows):
        row[:, 0] = view[:, number]
        local_response(operator, CHW, (row,), output)
        view[:, number] = output[:, 0]


def softmax(inputs: Sequence[Array], output: Array) -> None:
    """Write exponentials over their sum, of all elements."""
    np.subtract(inputs[0], np.max(inputs[0]), out=output)
    np.exp(output, out=output)
    np.divide(output, np.sum(output), out=output)
