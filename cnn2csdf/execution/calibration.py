"""Random weights under which outputs say something: no softmax that is all zeros and a one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.layer_by_layer import computation, layer_readers
from cnn2csdf.network import Network
from cnn2csdf.weights import Array, Model, Weights, random_weights
from csdf.arguments import Natural, public

SCALED = ("kernel", "matrix")


@public
def calibrated_weights(network: Network, seed: Natural) -> Weights:
    """Return random weights, scaled such that each convolution and product writes unit variance.

    Measured on one random frame, layer by layer. Source: Mishkin and Matas, All You Need is a Good
    Init, ICLR 2016, algorithm 1, with one step a layer and without the orthonormal start.
    """
    weights = {name: dict(roles) for name, roles in random_weights(network, seed).items()}
    model = Model(network=network, weights=weights)
    (frame,) = random_frames(network, 1, seed)
    maps: dict[str, Array] = {}
    for layer in network.layers:
        readers = layer_readers(network, layer, maps, frame)
        layer_weights = weights[layer.name]
        roles = [
            role
            for role in SCALED
            if role in layer_weights and layer_weights[role].dtype.kind == "f"
        ]
        if roles:
            bare = computation(model, replace(layer, epilogue=()))
            deviation = np.std(bare.rows(readers, 0, layer.shape.rows), dtype=np.float64)
            for role in roles if deviation > 0 else ():
                layer_weights[role] = np.asarray(layer_weights[role] / deviation, np.float32)
        maps[layer.name] = computation(model, layer).rows(readers, 0, layer.shape.rows)
    return weights
