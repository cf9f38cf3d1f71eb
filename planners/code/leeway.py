"""The tolerance of test vectors, where computed real numbers are rounded to integers.

Sums in another order and mathematical functions of another library give real numbers that differ in
their last bits; where one lies between two integers, its rounding differs by a step, and what follows
with it. The network is run with all such numbers a little larger and a little smaller: what changes
in its outputs is what may.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array, Model

SHARE = 2.0**-20  # of the range of a tensor: errors of sums in single precision


def leeways(
    model: Model, frame: Mapping[str, Array], outputs: Mapping[str, Array]
) -> dict[str, float]:
    """Return for each output how far its elements may lie from those that are given; mostly zero."""
    found = dict.fromkeys(outputs, 0.0)
    if not _rounded(model.network):
        return found
    for sign in (-1, 1):
        for name, array in run_whole(_nudged(model, sign * SHARE), frame).items():
            away = np.abs(array.astype(np.float64) - outputs[name].astype(np.float64))
            found[name] = max(found[name], 2 * float(np.nan_to_num(away).max(initial=0)))
    return found


def _rounded(network: Network) -> set[str]:
    """The layers that round real numbers which other layers compute."""
    computed: set[str] = set()
    found: set[str] = set()
    for layer in network.layers:
        is_fed = bool(layer.inputs) and layer.inputs[0] in computed
        makes_integers = isinstance(layer.operator, op.DynamicQuantization) or (
            isinstance(layer.operator, op.Conversion) and layer.quantization is not None
        )
        if makes_integers:
            found |= {layer.name} if is_fed else set()
        elif layer.quantization is None and layer.inputs:
            is_exact = isinstance(layer.operator, op.Conversion) or layer.operator.moves
            computed |= {layer.name} if is_fed or layer.epilogue or not is_exact else set()
    return found


def _nudged(model: Model, share: float) -> Model:
    """The model with a layer before each rounding of computed numbers that moves them all one way."""
    layers, weights = [], dict(model.weights or {})
    rounded = _rounded(model.network)
    for layer in model.network.layers:
        if layer.name not in rounded:
            layers.append(layer)
            continue
        before = model.network.layer(layer.inputs[0])
        moved = _moved(layer, before, model.network)
        layers += [moved, replace(layer, inputs=(moved.name, *layer.inputs[1:]))]
        weights[moved.name] = {"constant": np.array([_constant(layer, share)], np.float32)}
    return Model(network=replace(model.network, layers=tuple(layers)), weights=weights)


def _moved(layer: Layer, before: Layer, network: Network) -> Layer:
    names = {one.name for one in network.layers}
    name = f"before {layer.name}"
    while name in names:
        name += "'"
    function = "multiply" if layer.quantization is None else "add"
    operator = op.Elementwise(function=function, constant=(1,))
    return Layer(
        name=name,
        operator=operator,
        inputs=(before.name,),
        shape=before.shape,
        element=before.element,
    )


def _constant(layer: Layer, share: float) -> float:
    """The number that is added, of all steps that there are; without a known scale the factor."""
    types = layer.quantization
    return 1 + share if types is None else types.scale * 2 ** (8 * types.element.bytes) * share
