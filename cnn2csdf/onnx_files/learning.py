"""From the nodes of a graph to layers: what is known of each node, and all that is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import onnx

from cnn2csdf.onnx_files.branches import chosen_branch, with_captured
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.converters import CONVERTERS
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.node_order import ordered_nodes
from cnn2csdf.onnx_files.nodes import (
    Node,
    NodeRefusal,
    node_of,
    refusal_of_all,
    unknown,
    unsupported,
)
from cnn2csdf.onnx_files.quantized_nodes import opened, with_axes
from csdf.errors import InvalidNetwork, UnreadableFile


def running_order(
    graph: onnx.GraphProto, opsets: Mapping[str, int], outputs: Sequence[str]
) -> list[Node]:
    """Return the nodes that the outputs need, each behind those it reads, inner graphs too."""
    given = {found.name for found in graph.input} | {one.name for one in graph.initializer}
    nodes = [
        with_captured(node_of(proto, with_axes(proto, opsets))) for proto in opened(graph.node)
    ]
    return ordered_nodes(nodes, given, outputs)


def learned(
    nodes: Sequence[Node], values: GraphValues, opsets: Mapping[str, int]
) -> tuple[list[Node], Set[str]]:
    """Find out types and constants; put the nodes of a chosen branch in the place of the choice.

    Returns the nodes and the tensors of which nothing is known, since an operator that is not
    supported writes them or something they are computed from.
    """
    found: list[Node] = []
    lost: set[str] = set()
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if node.op_type == "If" and not node.domain and values.is_static(node.required(0)):
            waiting += reversed(chosen_branch(node, values, opsets))
            continue
        found.append(node)
        if not lost.isdisjoint(node.inputs):
            lost.update(filter(None, node.outputs))
        elif _is_known(node) or all(values.is_static(name) for name in node.inputs if name):
            values.add_node(node)
        else:
            lost.update(filter(None, node.outputs))
    return found, lost


def _is_known(node: Node) -> bool:
    return not node.domain and (node.op_type in CONVERTERS or node.op_type in ("Shape", "Size"))


def add_layers(assembly: Assembly, layers: Sequence[Node], read: Set[str]) -> None:
    """Add a layer for each node, or several.

    Raises UnsupportedOperator for all nodes together that are not supported; those behind such a
    node are not looked at, unless their operator is not known.
    """
    refusals: list[NodeRefusal] = []
    for node in layers:
        if node.op_type not in CONVERTERS or node.domain:
            refusals.append(_refusal(node))
        elif not refusals or _is_ready(node, assembly):
            try:
                _add(assembly, node, read)
            except NodeRefusal as refusal:
                refusals.append(refusal)
            except (UnreadableFile, InvalidNetwork):
                if not refusals:
                    raise
    if refusals:
        raise refusal_of_all(refusals)


def _refusal(node: Node) -> NodeRefusal:
    if node.op_type == "If":
        return unsupported(node, "its condition is computed from the frame")
    if node.has_graph:
        return unsupported(node, "an operator with graphs inside is not supported")
    return unknown(node)


def _is_ready(node: Node, assembly: Assembly) -> bool:
    """Whether all that it reads is there."""
    return all(assembly.has(name) or assembly.is_static(name) for name in node.inputs if name)


def _add(assembly: Assembly, node: Node, read: Set[str]) -> None:
    CONVERTERS[node.op_type](node, assembly)
    left = [name for name in node.outputs if name in read and not assembly.has(name)]
    if left:
        raise unsupported(node, f"its output {left[0]!r} is not supported")
