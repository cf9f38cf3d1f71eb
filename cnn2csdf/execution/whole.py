"""The reference: every layer computed at once, from whole feature maps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cnn2csdf.execution.layers import computation
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input
from cnn2csdf.part import HeldRows, Reader
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError


def run_whole(model: Model, frame: Mapping[str, Array]) -> dict[str, Array]:
    """Return the output of each output layer, by name.

    frame: an array without batch for each input layer, by name. Raises ExecutionError where one is
    missing or has another shape.
    """
    maps = run_layers(model, frame)
    return {layer.name: maps[layer.name].copy() for layer in model.network.outputs}


def run_layers(model: Model, frame: Mapping[str, Array]) -> dict[str, Array]:
    """Return the output of every layer, by name; all at once in memory, and some may be views."""
    given = checked_frame(model.network, frame)
    maps: dict[str, Array] = {}
    for layer in model.network.layers:
        readers = layer_readers(model.network, layer, maps, given)
        maps[layer.name] = computation(model, layer).rows(readers, 0, layer.shape.rows)
    return maps


def layer_readers(
    network: Network, layer: Layer, maps: Mapping[str, Array], frame: Mapping[str, Array]
) -> list[Reader]:
    """Return readers of what the layer reads: whole maps, or the frame for an input layer."""
    if isinstance(layer.operator, Input):
        return [HeldRows(shape=layer.shape, array=frame[layer.name])]
    return [
        HeldRows(shape=network.layer(source).shape, array=maps[source]) for source in layer.inputs
    ]


def checked_frame(network: Network, frame: Mapping[str, Array]) -> dict[str, Array]:
    """Return the frame in the array types of the inputs.

    Raises ExecutionError where an input does not fit.
    """
    given = {}
    for layer in network.inputs:
        if layer.name not in frame:
            listed = ", ".join(repr(name) for name in frame) or "nothing"
            raise ExecutionError(f"the frame has no input {layer.name!r}, only {listed}")
        array = np.asarray(frame[layer.name], layer.array_type)
        if array.shape != layer.shape.dims:
            raise ExecutionError(
                f"input {layer.name!r} of shape {array.shape}, expected {layer.shape.dims}"
            )
        given[layer.name] = array
    return given
