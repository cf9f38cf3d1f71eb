"""Masks of tokens: layers that work on nothing else are copied for each layer that reads them.

So only the mask itself is stored from one attention block to the next.
"""

from __future__ import annotations

from dataclasses import replace

from cnn2csdf.network import Layer
from cnn2csdf.rewriting import Draft, Edit, rewritten
from cnn2csdf.weights import Model
from csdf.names import longer_name


def with_masks_of_readers(model: Model) -> Model:
    """Return the model with copies of the layers of masks, each in front of its reader.

    A mask is an input besides the first; its layers read no other tensor and multiply nothing.

    before: image 1x4x4; mask 1x4x4 -> far 1x4x4; image, far -> first 1x4x4; first, far -> second
            1x4x4
    after:  image 1x4x4; mask 1x4x4 -> far of a reader 1x4x4; image, far of a reader -> first 1x4x4;
            mask -> far of a reader  1x4x4; first, far of a reader  -> second 1x4x4
    """
    network = model.network
    inputs = {layer.name for layer in network.inputs[1:]}
    masks: set[str] = set()
    for layer in network.layers:
        operator = layer.operator
        is_of_constant = operator.elementwise_function is not None and len(layer.inputs) == 1
        is_small = operator.copies_masks or is_of_constant
        if is_small and (masks | inputs).issuperset(layer.inputs):
            masks.add(layer.name)
    names = {layer.name for layer in network.layers}

    def with_copies(draft: Draft, layer: Layer) -> Edit | None:
        if layer.name in masks or masks.isdisjoint(layer.inputs):
            return None
        copies: dict[str, tuple[Layer, str]] = {}

        def copied(name: str) -> str:
            if name not in masks:
                return name
            sources = tuple(map(copied, network.layer(name).inputs))
            copy = longer_name(f"{name} of a reader", names, by=" ")
            names.add(copy)
            copies[copy] = replace(network.layer(name), name=copy, inputs=sources), name
            return copy

        inputs = tuple(map(copied, layer.inputs))
        layers = (*(copy for copy, _ in copies.values()), replace(layer, inputs=inputs))
        weights = {copy: draft.arrays(name) or {} for copy, (_, name) in copies.items()}
        return Edit(layers={layer.name: layers}, weights=weights)

    return rewritten(model, with_copies)
