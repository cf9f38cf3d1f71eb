"""Reading a network from an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import onnx

from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.input_dims import Dims, input_dims, require_known_names
from cnn2csdf.onnx_files.learning import add_layers, learned, running_order
from cnn2csdf.onnx_files.model_file import folder_of, opset_versions, read_model_file
from cnn2csdf.onnx_files.nodes import Node
from cnn2csdf.onnx_files.patterns import layer_nodes
from cnn2csdf.parameters import with_shared_names
from cnn2csdf.quantized_layers import with_integers
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator


def read_onnx(
    path: str,
    *,
    shapes: Mapping[str, Dims] | None = None,
    with_weights: bool = False,
) -> Model:
    """Return the network in an ONNX file, of opset 7 or newer, for frames one at a time.

    shapes: dims of graph inputs, the batch of one in front, in place of those in the file; or the
    size of a dim by the name that the file gives it. Needed where the file leaves dims other than
    the batch open. Layers are called as their nodes, those of nameless nodes as the tensor they
    write; inputs that no output needs are left out. Weights are read only where they are wanted:
    without, files that hold them may be missing.

    Raises UnreadableFile, UnsupportedOperator (naming all such operators that were found) or
    InvalidNetwork, naming the file and the node.
    """
    try:
        return _network(path, shapes or {}, with_weights=with_weights)
    except UnsupportedOperator as error:
        raise UnsupportedOperator(f"{path}: {error}") from None
    except (UnreadableFile, InvalidNetwork) as error:
        raise type(error)(f"{path}: {error}") from None


def _network(path: str, shapes: Mapping[str, Dims], *, with_weights: bool) -> Model:
    model = read_model_file(path)
    opsets = opset_versions(model)
    values = GraphValues(model.graph.initializer, folder=folder_of(path), opsets=opsets)
    inputs = [found for found in model.graph.input if not values.is_static(found.name)]
    require_known_names(shapes, inputs)
    outputs = [output.name for output in model.graph.output]
    nodes = running_order(model.graph, opsets, outputs)
    used = _used_inputs(inputs, nodes, outputs)
    for found in used:
        dims = input_dims(found, shapes)
        values.add_input(found.name, found.type.tensor_type.elem_type, dims)
    known, lost = learned(nodes, values, opsets)
    layers, read = layer_nodes(known, outputs, values, finds_patterns=not lost)
    assembly = Assembly(values, _network_name(path), with_weights=with_weights, read=read)
    for found in used:
        assembly.add_input(found.name)
    add_layers(assembly, layers, read)
    _add_outputs(assembly, outputs)
    weights = assembly.weights if with_weights else None
    network = with_shared_names(assembly.builder.network())
    return with_integers(Model(network=network, weights=weights))


def _network_name(path: str) -> str:
    return os.path.basename(path).removesuffix(".onnx") or "network"


def _used_inputs(
    inputs: Sequence[onnx.ValueInfoProto], nodes: Sequence[Node], outputs: Sequence[str]
) -> list[onnx.ValueInfoProto]:
    """The inputs that the outputs need. Raises UnreadableFile where there is none."""
    if not inputs:
        raise UnreadableFile("the graph has no input")
    read = {name for node in nodes for name in node.inputs} | set(outputs)
    used = [found for found in inputs if found.name in read]
    if not used:
        raise UnreadableFile("no output depends on an input")
    return used


def _add_outputs(assembly: Assembly, outputs: Sequence[str]) -> None:
    for name in outputs:
        if not assembly.has(name):
            raise UnreadableFile(f"output {name!r} is the same for every frame")
        assembly.add_output(name)
