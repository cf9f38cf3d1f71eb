"""Nodes of an ONNX graph in topological order, and graphs inside nodes: branches of an If."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

import onnx

from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import OnnxNode, node_of, unsupported
from cnn2csdf.readers.reading_order import reading_order
from csdf.errors import UnreadableFile, counted

MAX_NESTED_GRAPHS = 32


def with_captured(node: OnnxNode) -> OnnxNode:
    """Return the node with the outer tensors that its inner graphs read appended to its inputs."""
    added = dict.fromkeys(name for name in captured(node.proto) if name not in node.inputs)
    return replace(node, inputs=(*node.inputs, *added)) if added else node


def chosen_branch(node: OnnxNode, values: GraphValues, opsets: Mapping[str, int]) -> list[OnnxNode]:
    """Return the nodes of the branch that an If with a static condition chooses, in order.

    The nodes write the outputs of the If; the names of inner tensors begin with the name of the If.
    Constants of the branch are added to the values.
    """
    condition = values.value(node.required(0))
    if condition.size != 1:
        raise UnreadableFile(f"{node}: a condition of {condition.size} elements")
    name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != onnx.AttributeProto.GRAPH:
        raise UnreadableFile(f"{node}: attribute {name} is missing")
    if node.name.count("/branch/") >= MAX_NESTED_GRAPHS:
        raise unsupported(node, f"more than {MAX_NESTED_GRAPHS} graphs inside one another")
    graph = attribute.g
    if len(graph.output) != len(node.outputs):
        raise UnreadableFile(
            f"{node}: {counted(len(node.outputs), 'output')}, but its branch has {len(graph.output)}"
        )
    prefix = f"{node.name}/branch/"
    inner = [initializer.name for initializer in graph.initializer]
    inner += [name for proto in graph.node for name in proto.output if name]
    names = {name: prefix + name for name in inner}
    values.add_constants(
        {names[initializer.name]: initializer for initializer in graph.initializer}
    )
    nodes = [with_captured(node_of(_renamed(node, names, prefix), opsets)) for node in graph.node]
    for ours, theirs in zip(node.outputs, graph.output, strict=True):
        source = names.get(theirs.name, theirs.name)
        copy = onnx.helper.make_node("Identity", [source], [ours], name=f"{prefix}{ours}")
        nodes.append(node_of(copy, opsets))
    written = {name for node in nodes for name in node.outputs}
    outer = {name for node in nodes for name in node.inputs} - written
    return ordered_nodes(nodes, outer, node.outputs)


def _renamed(proto: onnx.NodeProto, names: Mapping[str, str], prefix: str) -> onnx.NodeProto:
    """The node with its tensors renamed, in inner graphs as well."""
    renamed = onnx.NodeProto()
    renamed.CopyFrom(proto)
    renamed.name = prefix + (proto.name or next(filter(None, proto.output), ""))
    renamed.output[:] = [names.get(name, name) for name in proto.output]
    pending = [renamed]
    while pending:
        node = pending.pop()
        node.input[:] = [names.get(name, name) for name in node.input]
        for graph in inner_graphs(node):
            pending += graph.node
            written = {name for node in graph.node for name in node.output}
            for output in graph.output:
                if output.name not in written:
                    output.name = names.get(output.name, output.name)
    return renamed


def inner_graphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in the attributes of a node."""
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def captured(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the outer tensors that the inner graphs of a node, or graphs inside these, read."""
    for graph in inner_graphs(node):
        written = {value_info.name for value_info in (*graph.input, *graph.initializer)}
        written |= {name for proto in graph.node for name in proto.output}
        for proto in graph.node:
            names = (*proto.input, *captured(proto))
            yield from (name for name in names if name and name not in written)
        yield from (output.name for output in graph.output if output.name not in written)


def ordered_nodes(
    nodes: Sequence[OnnxNode], available: Set[str], outputs: Sequence[str]
) -> list[OnnxNode]:
    """Return the nodes that the outputs depend on in topological order, else in the file's order.

    available: tensors that no node has to write. Raises UnreadableFile for a tensor without a writer
    or with two writers, and for a cycle, naming its nodes.
    """
    writers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for output in filter(None, node.outputs):
            if output in writers or output in available:
                raise UnreadableFile(f"{node} writes {output!r}, which is already there")
            writers[output] = position
    for name in outputs:
        if name not in writers and name not in available:
            raise UnreadableFile(f"output {name!r} is not produced by any node")
    frontier = [writers[name] for name in outputs if name in writers]
    sources: dict[int, set[int]] = {}
    while frontier:
        position = frontier.pop()
        if position in sources:
            continue
        for name in filter(None, nodes[position].inputs):
            if name not in writers and name not in available:
                raise UnreadableFile(f"{nodes[position]} reads {name!r}, which nothing produces")
        sources[position] = {writers[name] for name in nodes[position].inputs if name in writers}
        frontier.extend(sources[position])
    order = reading_order(sources)
    if len(order) < len(sources):
        stuck = sources.keys() - set(order)
        # Each stuck node reads from a stuck node, so that a walk backwards must repeat a node.
        trail = [min(stuck)]
        while trail[-1] not in trail[:-1]:
            trail.append(min(sources[trail[-1]] & stuck))
        cycle = trail[trail.index(trail[-1]) : -1][::-1]
        first = cycle.index(min(cycle))
        names = [repr(nodes[position].name) for position in (*cycle[first:], *cycle[: first + 1])]
        raise UnreadableFile(f"the graph has a cycle: {' -> '.join(names)}")
    return [nodes[position] for position in order]
