"""Choices between two graphs (IF) of a TensorFlow Lite file, with the nodes of the graphs in place.

A constant condition leaves the nodes of one graph. A condition of the frame leaves the nodes of both,
and a choice between the outputs: a static plan holds both anyway.
"""

from __future__ import annotations

from dataclasses import replace

from cnn2csdf.readers.tflite.folding import folded
from cnn2csdf.readers.tflite.model_file import Tensor, TfliteGraph, TfliteNode
from csdf.errors import UnreadableFile, UnsupportedOperator

DEEPEST = 32  # choices inside one another
MOST_NODES = 20_000
STATE_KINDS = ("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE")


def without_choices(graph: TfliteGraph) -> TfliteGraph:
    """Return the graph, constants evaluated, where nodes of the graphs chosen replace each IF.

    Raises UnreadableFile for an IF that does not fit its graphs, UnsupportedOperator for graphs that
    read or write variables.
    """
    graph = folded(graph)
    depth = 0
    while any(node.kind == "IF" for node in graph.nodes):
        depth += 1
        if depth > DEEPEST:
            raise UnsupportedOperator(f"more than {DEEPEST} choices (IF) inside one another")
        graph = folded(_opened(graph))
    return graph


def _opened(graph: TfliteGraph) -> TfliteGraph:
    """Return the graph with the nodes of the branches of each IF in its place."""
    tensors, nodes = list(graph.tensors), list[TfliteNode]()
    for node in graph.nodes:
        if node.kind != "IF":
            nodes.append(node)
            continue
        condition = tensors[node.inputs[0]] if node.inputs and node.inputs[0] >= 0 else None
        if condition is None or node.options is None:
            raise UnreadableFile(f"{node}: its condition or its options are missing")
        branches = [_branch(graph, node, node.options.integer(field, "i")) for field in (0, 1)]
        if condition.is_constant:
            is_true = bool(condition.array().reshape(-1)[0])
            inner, results = _placed(branches[not is_true], node, tensors)
            nodes += inner
            # A RESHAPE without new dims is a copy: the output of the IF has the dims of the branch.
            nodes += [
                node.instead("RESHAPE", (source,), output)
                for source, output in zip(results, node.outputs, strict=True)
            ]
        else:
            placed = [_placed(branch, node, tensors) for branch in branches]
            nodes += [node for inner, _ in placed for node in inner]
            for output, first, second in zip(node.outputs, placed[0][1], placed[1][1], strict=True):
                nodes.append(node.instead("SELECT_V2", (node.inputs[0], first, second), output))
        if len(nodes) > MOST_NODES:
            raise UnsupportedOperator(f"{node}: more than {MOST_NODES} operators in its graphs")
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _branch(graph: TfliteGraph, node: TfliteNode, number: int) -> TfliteGraph:
    if not 1 <= number <= len(graph.further):
        raise UnreadableFile(f"{node} chooses graph {number} of {1 + len(graph.further)}")
    branch = graph.further[number - 1]
    if len(branch.inputs) != len(node.inputs) - 1 or len(branch.outputs) != len(node.outputs):
        raise UnreadableFile(
            f"{node}: {len(node.inputs) - 1} inputs and {len(node.outputs)} outputs, but graph "
            f"{number} has {len(branch.inputs)} and {len(branch.outputs)}"
        )
    if any(node.kind in STATE_KINDS for node in branch.nodes):
        raise UnsupportedOperator(f"{node}: graph {number} reads or writes variables")
    return branch


def _placed(
    branch: TfliteGraph, node: TfliteNode, tensors: list[Tensor]
) -> tuple[list[TfliteNode], list[int]]:
    """Add the tensors of a branch to those of the outer graph; return its nodes and outputs.

    Both refer to tensors by their numbers in the outer graph. node: the IF.
    """
    numbers = dict(zip(branch.inputs, node.inputs[1:], strict=True)) | {-1: -1}
    for number, tensor in enumerate(branch.tensors):
        if number not in numbers:
            numbers[number] = len(tensors)
            tensors.append(replace(tensor, name=f"{tensor.name or number} of {node.number}"))
    inner = [
        replace(
            inner_node,
            inputs=tuple(numbers[number] for number in inner_node.inputs),
            outputs=tuple(numbers[number] for number in inner_node.outputs),
        )
        for inner_node in branch.nodes
    ]
    return inner, [numbers[number] for number in branch.outputs]
