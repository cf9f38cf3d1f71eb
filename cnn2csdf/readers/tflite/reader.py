"""Reading a network from a TensorFlow Lite file."""

from __future__ import annotations

import os

from cnn2csdf.parameters import with_shared_names
from cnn2csdf.readers.tflite.assembly import Assembly
from cnn2csdf.readers.tflite.conversion import CONVERTERS
from cnn2csdf.readers.tflite.model_file import Graph, parse_graph
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator


def parse_tflite(content: bytes, name: str, *, with_weights: bool = False) -> Model:
    """Return the network in the bytes of a .tflite file, for one frame at a time.

    name: of the file, for messages. Layers are called as the tensors they write. Tensors of int8
    with a scale are quantised; they are computed as TensorFlow Lite Micro does.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, naming the file and the operator.
    """
    try:
        return _network(content, os.path.basename(name), with_weights=with_weights)
    except (UnreadableFile, UnsupportedOperator, InvalidNetwork) as error:
        raise type(error)(f"{name}: {error}") from None


def _network(content: bytes, name: str, *, with_weights: bool) -> Model:
    graph = parse_graph(content, CONVERTERS)
    assembly = Assembly(graph, name.removesuffix(".tflite") or "network")
    assembly.add_inputs()
    _add_layers(graph, assembly)
    assembly.add_outputs()
    network = with_shared_names(assembly.builder.network())
    return Model(network=network, weights=assembly.weights if with_weights else None)


def _add_layers(graph: Graph, assembly: Assembly) -> None:
    """Add the layers of all nodes; those behind one that is refused are not looked at.

    Raises UnsupportedOperator for all nodes together that are refused for what they are.
    """
    refusals: list[str] = []
    lost: set[int] = set()  # tensors that a refused node would have written, or that need one
    for node in graph.nodes:
        if not lost.isdisjoint(node.inputs):
            lost.update(node.outputs)
            continue
        try:
            CONVERTERS[node.kind](node, assembly)
        except UnsupportedOperator as error:
            refusals.append(str(error))
            lost.update(node.outputs)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{node}: {error}") from None
    if refusals:
        raise UnsupportedOperator("; ".join(refusals))
