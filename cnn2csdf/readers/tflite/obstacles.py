"""Unsupported operators of a TensorFlow Lite graph, and the subgraph between given tensors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from cnn2csdf.readers.between_tensors import needed_nodes, tensor_named
from cnn2csdf.readers.tflite.model_file import TfliteGraph, TfliteNode

WITH_WEIGHTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A node that is refused. message: why; None where its operator is not supported."""

    node: TfliteNode
    message: str | None


def in_words(obstacles: Sequence[Obstacle], graph: TfliteGraph) -> str:
    """Return all obstacles by kind, with their count and first place, and the share of MACs read."""
    kinds: dict[str, list[int]] = {}
    for obstacle in obstacles:
        if obstacle.message is None:
            kinds.setdefault(obstacle.node.kind, []).append(obstacle.node.number)
    clauses = []
    if kinds:
        listed = ", ".join(
            f"{kind} ({len(numbers)}x, {'first ' if len(numbers) > 1 else ''}operator {numbers[0]})"
            for kind, numbers in sorted(kinds.items())
        )
        clauses.append(f"operators that are not supported: {listed}")
    messages = [obstacle.message for obstacle in obstacles if obstacle.message is not None]
    clauses += dict.fromkeys(messages)  # copies of a node have the same
    total = sum(_macs(graph, node) for node in graph.nodes)
    missed = sum(_macs(graph, obstacle.node) for obstacle in obstacles)
    if len(graph.nodes) > len(obstacles) and total:
        clauses.append(f"{(total - missed) / total:.1%} of the MACs are in other operators")
    return "; ".join(clauses)


def _macs(graph: TfliteGraph, node: TfliteNode) -> int:
    """Return the multiply-accumulates of a node with weights, from the sizes of its tensors."""
    if node.kind not in WITH_WEIGHTS or len(node.inputs) < 2 or -1 in node.inputs[:2]:
        return 0
    weights = graph.tensors[node.inputs[1]].dims
    # Each position of this tensor is multiplied by all weights; the last axis has the channels.
    tensor = node.inputs[2] if node.kind == "TRANSPOSE_CONV" else node.outputs[0]
    return prod(weights) * prod(graph.tensors[tensor].dims[:-1])


def part_of(graph: TfliteGraph, inputs: Sequence[str], outputs: Sequence[str]) -> TfliteGraph:
    """Return the part of a graph between tensors of these names.

    inputs, outputs: no names stand for the inputs and the outputs of the graph. The part contains the
    assignments to the variables that it reads. Raises UnreadableFile for a name that no tensor has.
    """
    if not inputs and not outputs:
        return graph
    written = [number for node in graph.nodes for number in node.outputs]
    by_name = {graph.tensors[number].name: number for number in (*graph.inputs, *written)}
    begin = [tensor_named(name, by_name) for name in inputs]
    until = [tensor_named(name, by_name) for name in outputs] or list(graph.outputs)
    places = set(needed_nodes(graph.nodes, set(begin), until))
    # The value that a variable gets for the next frame may depend on further variables.
    while missing := _assignments(graph, places) - places:
        for place in missing:
            places |= {place, *needed_nodes(graph.nodes, set(begin), graph.nodes[place].inputs)}
    nodes = tuple(node for place, node in enumerate(graph.nodes) if place in places)
    read = {number for node in nodes for number in node.inputs}
    kept = [number for number in graph.inputs if number in read and number not in begin]
    return replace(graph, nodes=nodes, inputs=(*begin, *kept), outputs=tuple(until))


def _assignments(graph: TfliteGraph, places: Collection[int]) -> set[int]:
    """Return the indices of the nodes that assign variables which nodes at these indices use."""
    read = {tensor for place in places for tensor in graph.nodes[place].inputs}
    variables = {graph.handles[tensor] for tensor in read if tensor in graph.handles}
    return {
        place
        for place, node in enumerate(graph.nodes)
        if node.kind == "ASSIGN_VARIABLE" and graph.handles.get(node.inputs[0]) in variables
    }
