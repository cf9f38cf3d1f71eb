"""Reading a network from an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import onnx

from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.converters import CONVERTERS, ONLY_IN_PATTERNS
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.input_dims import Dims, input_dims, require_known_names
from cnn2csdf.onnx_files.model_file import (
    DEFAULT_DOMAIN,
    folder_of,
    opset_versions,
    read_model_file,
)
from cnn2csdf.onnx_files.node_order import ordered_nodes
from cnn2csdf.onnx_files.nodes import Node, node_of, unknown, unsupported
from cnn2csdf.onnx_files.patterns import layer_nodes
from cnn2csdf.onnx_files.quantized_nodes import opened
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

    shapes: dims of graph inputs, the batch of one in front, in place of those in the file; needed
    where the file leaves some open. Layers are called as their nodes, those of nameless nodes as
    the tensor they write; inputs that no output needs are left out. Weights are read only where
    they are wanted: without, files that hold them may be missing.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, naming the file and the node.
    """
    try:
        return _network(path, shapes or {}, with_weights=with_weights)
    except (UnreadableFile, UnsupportedOperator, InvalidNetwork) as error:
        raise type(error)(f"{path}: {error}") from None


def _network(path: str, shapes: Mapping[str, Dims], *, with_weights: bool) -> Model:
    model = read_model_file(path)
    opsets = opset_versions(model)
    values = GraphValues(model.graph.initializer, folder=folder_of(path), opsets=opsets)
    inputs = [found for found in model.graph.input if not values.is_static(found.name)]
    require_known_names(shapes, inputs)
    outputs = [output.name for output in model.graph.output]
    nodes = _running_order(model.graph, opsets, outputs)
    used = _used_inputs(inputs, nodes, outputs)
    for found in used:
        dims = input_dims(found, shapes.get(found.name))
        values.add_input(found.name, found.type.tensor_type.elem_type, dims)
    _learn(nodes, values)
    assembly = Assembly(values, _network_name(path), with_weights=with_weights)
    for found in used:
        assembly.add_input(found.name)
    _add_layers(assembly, nodes, outputs)
    weights = assembly.weights if with_weights else None
    network = with_shared_names(assembly.builder.network())
    return with_integers(Model(network=network, weights=weights))


def _network_name(path: str) -> str:
    return os.path.basename(path).removesuffix(".onnx") or "network"


def _running_order(
    graph: onnx.GraphProto, opsets: Mapping[str, int], outputs: Sequence[str]
) -> list[Node]:
    given = {found.name for found in graph.input} | {one.name for one in graph.initializer}
    nodes = [node_of(proto, opsets) for proto in opened(graph.node, opsets[DEFAULT_DOMAIN])]
    order = ordered_nodes(nodes, given, outputs)
    for node in order:
        if node.has_graph:
            raise unsupported(node, "an operator with graphs inside is not supported")
    return order


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


def _learn(nodes: Sequence[Node], values: GraphValues) -> None:
    """Find out types and constants. Raises UnsupportedOperator for the first unknown operator."""
    for node in nodes:
        is_constant = all(values.is_static(name) for name in node.inputs if name)
        if not is_constant and not _is_known(node):
            raise unknown(node)
        values.add_node(node)


def _is_known(node: Node) -> bool:
    known = (*CONVERTERS, *ONLY_IN_PATTERNS, "Shape", "Size")
    return not node.domain and node.op_type in known


def _add_layers(assembly: Assembly, nodes: Sequence[Node], outputs: Sequence[str]) -> None:
    layers, read = layer_nodes(nodes, outputs, assembly.values)
    for node in layers:
        if node.op_type not in CONVERTERS:
            raise unknown(node)
        CONVERTERS[node.op_type](node, assembly)
        left = [name for name in node.outputs if name in read and not assembly.has(name)]
        if left:
            raise unsupported(node, f"its output {left[0]!r} is not supported")
    for name in outputs:
        if not assembly.has(name):
            raise UnreadableFile(f"output {name!r} is the same for every frame")
        assembly.add_output(name)
