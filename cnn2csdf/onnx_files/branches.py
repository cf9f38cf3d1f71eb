"""A choice between two graphs whose condition no frame changes: the nodes of the graph chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import onnx

from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.node_order import ordered_nodes
from cnn2csdf.onnx_files.nodes import Node, node_of, unsupported
from csdf.errors import UnreadableFile, counted

DEEPEST = 32  # graphs inside one another


def with_captured(node: Node) -> Node:
    """Return the node; what its inner graphs read from around them is read behind its inputs."""
    graphs = list(_graphs(node.proto))
    if not graphs:
        return node
    names = [name for graph in graphs for name in _captured(graph)]
    more = dict.fromkeys(name for name in names if name not in node.inputs)
    return replace(node, inputs=(*node.inputs, *more))


def chosen_branch(node: Node, values: GraphValues, opsets: Mapping[str, int]) -> list[Node]:
    """Return the nodes of the branch that the static condition of an If chooses, in running order.

    They write the outputs of the If; their own tensors have its name in front. Constants of the
    branch become known.
    """
    condition = values.value(node.required(0))
    if condition.size != 1:
        raise UnreadableFile(f"{node}: a condition of {condition.size} elements")
    name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    found = node.attributes.get(name)
    if found is None or found.type != onnx.AttributeProto.GRAPH:
        raise UnreadableFile(f"{node}: attribute {name} is missing")
    if node.name.count("/branch/") >= DEEPEST:
        raise unsupported(node, f"more than {DEEPEST} graphs inside one another")
    return _inlined(node, found.g, values, opsets)


def _inlined(
    node: Node, graph: onnx.GraphProto, values: GraphValues, opsets: Mapping[str, int]
) -> list[Node]:
    if len(graph.output) != len(node.outputs):
        raise UnreadableFile(
            f"{node}: {counted(len(node.outputs), 'output')}, but its branch has {len(graph.output)}"
        )
    prefix = f"{node.name}/branch/"
    inner = [one.name for one in graph.initializer]
    inner += [name for proto in graph.node for name in proto.output if name]
    names = {name: prefix + name for name in inner}
    values.add_constants(graph.initializer, names)
    nodes = [with_captured(node_of(_renamed(one, names, prefix), opsets)) for one in graph.node]
    for ours, theirs in zip(node.outputs, graph.output, strict=True):
        source = names.get(theirs.name, theirs.name)
        copy = onnx.helper.make_node("Identity", [source], [ours], name=f"{prefix}{ours}")
        nodes.append(node_of(copy, opsets))
    made = {name for one in nodes for name in one.outputs}
    given = {name for one in nodes for name in one.inputs} - made
    return ordered_nodes(nodes, given, node.outputs)


def _renamed(proto: onnx.NodeProto, names: Mapping[str, str], prefix: str) -> onnx.NodeProto:
    """The node with other names of tensors, in the graphs inside it as well."""
    found = onnx.NodeProto()
    found.CopyFrom(proto)
    found.name = prefix + (proto.name or next(filter(None, proto.output), ""))
    found.input[:] = [names.get(name, name) for name in proto.input]
    found.output[:] = [names.get(name, name) for name in proto.output]
    for graph in _graphs(found):
        _rename_captured(graph, names)
    return found


def _rename_captured(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for proto in graph.node:
        proto.input[:] = [names.get(name, name) for name in proto.input]
        for inner in _graphs(proto):
            _rename_captured(inner, names)
    for output in graph.output:
        made = any(output.name in proto.output for proto in graph.node)
        output.name = output.name if made else names.get(output.name, output.name)


def _graphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    """Tensors that a graph, or a graph inside it, reads and does not make."""
    made = {one.name for one in (*graph.input, *graph.initializer)}
    made |= {name for proto in graph.node for name in proto.output}
    for proto in graph.node:
        inner = [name for one in _graphs(proto) for name in _captured(one)]
        yield from (name for name in (*proto.input, *inner) if name and name not in made)
    yield from (one.name for one in graph.output if one.name not in made)
