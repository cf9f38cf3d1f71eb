"""Some layers of a network as a network of their own."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input, Operator, Output
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork
from csdf.names import longer_name

RESULT = "result"


def part_of(network: Network, source: str, layers: Sequence[Layer]) -> Network:
    """Return layers that read nothing but each other and one tensor as a network of their own."""
    entry = network.layer(source)
    taken = {source, *(layer.name for layer in layers)}
    output = longer_name(RESULT, taken, by=" ")
    return Network(
        name=network.name,
        layers=(
            _end(entry, source, Input(dims=entry.shape.dims)),
            *layers,
            _end(layers[-1], output, Output(), layers[-1].name),
        ),
    )


def _end(like: Layer, name: str, operator: Operator, *inputs: str) -> Layer:
    """A layer that hands on what another writes, in the same elements."""
    return Layer(
        name=name,
        operator=operator,
        inputs=inputs,
        shape=like.shape,
        element=like.element,
        quantization=like.quantization,
    )


def layer_range(model: Model, first: int, upto: int | None) -> Model:
    """Return layers [first, upto) of a model, counted without inputs and outputs.

    Raises InvalidNetwork where they are none, or read or leave more than one tensor.
    """
    network = model.network
    working = [one for one in network.layers if not isinstance(one.operator, Input | Output)]
    chosen = working[first:upto]
    if not chosen or (upto is not None and upto > len(working)):
        raise InvalidNetwork(
            f"layers {first}:{'' if upto is None else upto} of {network.name!r}, "
            f"which has {len(working)}"
        )
    inside = {layer.name for layer in chosen}
    read = sorted({one for layer in chosen for one in layer.inputs if one not in inside})
    left = [
        layer.name
        for layer in chosen[:-1]
        if any(reader not in inside for reader in network.consumers[layer.name])
    ]
    if len(read) != 1 or left:
        raise InvalidNetwork(
            f"layers {first}:{'' if upto is None else upto} of {network.name!r} are no part of a "
            f"chain: they read {', '.join(map(repr, read))}"
            + (f", and {', '.join(map(repr, left))} are read outside" if left else "")
        )
    weights = model.weights
    part = part_of(network, read[0], chosen)
    return Model(
        network=part,
        weights=None
        if weights is None
        else {one: weights[one] for one in weights if one in inside},
    )
