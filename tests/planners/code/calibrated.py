"""Networks of the catalogue in 8-bit integers: scales from the ranges of a random frame.

As a converter does it: weights of each filter between -127 and 127, biases in 32 bits, tensors between
the least and the largest value seen, those that only move elements in the scale of what they move.
"""

from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.layer_by_layer import run_layers
from cnn2csdf.network import Network
from cnn2csdf.simplify import REWRITES, simplified
from cnn2csdf.weights import Model
from planners.code.frames import random_frame

ROLES = {op.Convolution: "kernel", op.FullyConnected: "matrix"}
UNFUSED = tuple(name for name in REWRITES if name != "fuse-activation")
KEEPS = (op.Pooling, op.Pad, op.Resize, op.Output)


def real_model(network, seed=0):
    """The network with fused layers and random weights under which outputs say something."""
    network = simplified(Model(network=network)).network
    return Model(network=network, weights=calibrated_weights(network, seed))


def integer_model(network, seed=0):
    """The network in 8-bit integers, with fused layers where behind sums there are limits only."""
    fused = simplified(Model(network=network)).network
    if any(_is_curved(one) for layer in fused.layers for one in layer.epilogue):
        fused = simplified(Model(network=network), UNFUSED).network
    network = _with_means(fused)
    real = Model(network=network, weights=calibrated_weights(network, seed))
    types = _types(real, seed)
    layers, weights = [], {}
    for layer in network.layers:
        made, arrays = _layer(layer, real.weights.get(layer.name, {}), types)
        layers.append(made)
        weights[layer.name] = arrays
    return Model(network=Network(name=network.name, layers=tuple(layers)), weights=weights)


def _is_curved(operator):
    return isinstance(operator, op.Activation) and operator.function not in ("relu", "clip")


def _with_means(network):
    """Global pooling as the mean that converters write."""
    layers = [
        replace(layer, operator=op.Reduction(function="mean", axes=(1, 2), keeps=True))
        if isinstance(layer.operator, op.GlobalPooling)
        else layer
        for layer in network.layers
    ]
    return replace(network, layers=tuple(layers))


def _types(model, seed):
    """Return the quantization of each tensor, the same for all that move into one another."""
    network = model.network
    maps = run_layers(model, random_frame(network, seed))
    alike = {layer.name: layer.name for layer in network.layers}

    def root(name):
        return name if alike[name] == name else root(alike[name])

    for layer in network.layers:
        if layer.operator.moves or isinstance(layer.operator, KEEPS):
            for source in layer.inputs:
                alike[root(source)] = root(layer.name)
    shares = {
        root(layer.name) for layer in network.layers if isinstance(layer.operator, op.Softmax)
    }
    ranges = {}
    for name, values in maps.items():
        low, high = ranges.get(root(name), (0.0, 1e-3))
        ranges[root(name)] = min(low, values.min()), max(high, values.max())
    found = {}
    for name in maps:
        low, high = ranges[root(name)]
        scale = float(np.float32((high - low) / 255))
        zero_point = int(np.clip(round(-128 - low / scale), -128, 127))
        if root(name) in shares:
            scale, zero_point = 1 / 256, -128
        found[name] = Quantization(element=Element.INT8, scales=(scale,), zero_point=zero_point)
    return found


def _layer(layer, arrays, types):
    """The layer in integers, and its parameters."""
    made = replace(layer, element=Element.INT8, quantization=types[layer.name])
    role = ROLES.get(type(layer.operator))
    if role is None:
        assert not arrays, layer
        return made, {}
    array = arrays[role]
    rows = array.reshape(len(array), -1)
    largest = np.maximum(np.abs(rows).max(axis=1), 1e-6)
    scales = np.float32((largest if role == "kernel" else largest.max(keepdims=True)) / 127)
    whole = np.rint(rows / scales[:, None]).astype(np.int8).reshape(array.shape)
    kept = Quantization(element=Element.INT8, scales=tuple(map(float, scales)))
    stored = [Stored(role=role, element=Element.INT8, quantization=kept)]
    found = {role: whole}
    if "bias" in arrays:
        step = types[layer.inputs[0]].scale * np.float64(scales)
        found["bias"] = np.rint(arrays["bias"] / step).astype(np.int32)
        stored.append(Stored(role="bias", element=Element.INT32))
    return replace(made, stored=tuple(stored)), found
