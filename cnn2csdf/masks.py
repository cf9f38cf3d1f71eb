"""Masks of tokens: layers that work on nothing else are copied for each layer that reads them.

So only the mask itself is stored from one attention block to the next.
"""

from __future__ import annotations

from dataclasses import replace

from cnn2csdf.network import Layer
from cnn2csdf.weights import Model
from csdf.names import longer_name


def with_masks_of_readers(model: Model) -> Model:
    """Return the model with copies of the layers of masks, each in front of its reader.

    A mask is an input besides the first; its layers read no other tensor and multiply nothing.
    """
    network = model.network
    layer_named = {layer.name: layer for layer in network.layers}
    inputs = {layer.name for layer in network.inputs[1:]}
    masks: set[str] = set()
    for layer in network.layers:
        operator = layer.operator
        is_of_constant = operator.elementwise_function is not None and len(layer.inputs) == 1
        is_small = operator.copies_masks or is_of_constant
        if is_small and (masks | inputs).issuperset(layer.inputs):
            masks.add(layer.name)
    copied_layers: list[Layer] = []
    origins: dict[str, str] = {}

    def copied(name: str) -> str:
        """The tensor for a reader, behind copies of all that it is made from."""
        if name not in masks:
            return name
        sources = tuple(map(copied, layer_named[name].inputs))
        made = longer_name(f"{name} of a reader", {*layer_named, *origins}, by=" ")
        origins[made] = name
        copied_layers.append(replace(layer_named[name], name=made, inputs=sources))
        return made

    for layer in network.layers:
        if layer.name not in masks:
            copied_layers.append(replace(layer, inputs=tuple(map(copied, layer.inputs))))
    weights = None
    if model.weights is not None:
        names = {layer.name: origins.get(layer.name, layer.name) for layer in copied_layers}
        weights = {
            name: model.weights[origin] for name, origin in names.items() if origin in model.weights
        }
    return Model(network=replace(network, layers=tuple(copied_layers)), weights=weights)
