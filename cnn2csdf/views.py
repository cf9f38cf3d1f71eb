"""Networks and models in notebooks: a table of layers with MACs, parameters and bytes."""

from __future__ import annotations

from cnn2csdf.network import Layer, Network
from cnn2csdf.operators.operator import describe
from cnn2csdf.parameters import layer_parameters, multiply_accumulates
from cnn2csdf.weights import Model
from csdf.errors import counted
from csdf.model.shown import html
from csdf.notebook import table
from csdf.units import bytes_in_words


@html.register
def _network(value: Network) -> str:
    """Return the layers as a table."""
    return _layers(value, f"{value.name}: {counted(len(value.layers), 'layer')}")


@html.register
def _model(value: Model) -> str:
    """Return the layers as a table, and how many weights were read."""
    return _layers(value.network, repr(value).removeprefix("Model(").removesuffix(")"))


def _layers(network: Network, head: str) -> str:
    parameters = layer_parameters(network)

    def row(layer: Layer) -> dict[str, object]:
        return {
            "layer": layer.name,
            "operator": describe(layer.operator, layer.epilogue),
            "inputs": layer.inputs,
            "output": str(layer.shape),
            "element": layer.element.value,
            "parameters": parameters[layer.name],
            "MACs": multiply_accumulates(layer, network.input_shapes(layer)),
            "output size": bytes_in_words(layer.shape.elements * layer.element_bytes),
        }

    return table(head, [row(layer) for layer in network.layers])
