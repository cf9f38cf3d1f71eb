"""Reading a network from a TensorFlow Lite file: the function that converts each operator."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from cnn2csdf.dtypes import USUAL_RUNTIME, Runtime
from cnn2csdf.parameters import with_shared_names
from cnn2csdf.readers.between_tensors import (
    cuts_around,
    needed_nodes,
    tensor_named,
    words_that_read,
)
from cnn2csdf.readers.tflite import (
    batches,
    custom_operators,
    functions,
    moves,
    products,
    recurrences,
    windows,
)
from cnn2csdf.readers.tflite.assembly import Converter, TfliteAssembly
from cnn2csdf.readers.tflite.batches import without_batches
from cnn2csdf.readers.tflite.choices import without_choices
from cnn2csdf.readers.tflite.model_file import TfliteGraph, TfliteNode, parse_graph
from cnn2csdf.readers.tflite.resizing import (
    OpenDims,
    Sizes,
    open_sizes,
    resized,
    usual_shapes,
    words_about,
)
from cnn2csdf.rings import with_rings
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator

WITH_WEIGHTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")


def parse_tflite(
    content: bytes,
    name: str,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    with_weights: bool = False,
    runtime: Runtime = USUAL_RUNTIME,
) -> Model:
    """Return the network in the bytes of a .tflite file, for one frame at a time.

    name: of the file, for messages. shapes: of inputs by name, with the batch, where the file leaves
    them open. Layers are called as the tensors they write. Tensors of int8 with a scale are quantised;
    they are computed as the kernels of the runtime compute them. inputs, outputs: names of tensors, to
    read the part between these tensors. Frames have the dims of `network.inputs`: in a network with
    variables, an input whose only consumer is a view has the dims of the view.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, naming the file and the operator.
    """
    shapes, between = shapes or {}, bool(inputs or outputs)
    try:
        graph = part_of(parse_graph(content), inputs, outputs)
        network_name = os.path.basename(name).removesuffix(".tflite") or "network"
        try:
            return _model(graph, network_name, shapes, with_weights=with_weights, runtime=runtime)
        except OpenDims as error:
            words = _words_that_work(graph, error.sizes, shapes)
            raise UnreadableFile(f"{error}{words}") from None
        except _RefusedNodes as error:
            read = partial(parse_tflite, content, name, shapes=shapes)
            words = "" if between else _words_around(error.obstacles, graph, read)
            raise UnsupportedOperator(f"{error}{words}") from None
        except (UnreadableFile, InvalidNetwork) as error:
            sizes = open_sizes(graph, shapes)
            words = f"{words_about(sizes)}{_words_that_work(graph, sizes, shapes)}"
            raise type(error)(f"{error}{words}") from None
    except (UnreadableFile, UnsupportedOperator, InvalidNetwork) as error:
        raise type(error)(f"{name}: {error}") from None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A node that is refused. message: why; None where its operator is not supported."""

    node: TfliteNode
    message: str | None


def _in_words(obstacles: Sequence[Obstacle], graph: TfliteGraph) -> str:
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


class _RefusedNodes(UnsupportedOperator):
    """The refusal of all nodes that are not read."""

    def __init__(self, obstacles: Sequence[Obstacle], graph: TfliteGraph) -> None:
        super().__init__(_in_words(obstacles, graph))
        self.obstacles = obstacles


def _model(
    graph: TfliteGraph,
    name: str,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    with_weights: bool,
    runtime: Runtime = USUAL_RUNTIME,
) -> Model:
    """Return the network of a graph. Raises _RefusedNodes and OpenDims besides other refusals."""
    graph = without_batches(without_choices(resized(graph, shapes, CONVERTERS)))
    assembly = TfliteAssembly(graph, name, runtime)
    assembly.add_inputs()
    obstacles = _add_layers(graph, assembly)
    if obstacles:
        raise _RefusedNodes(obstacles, graph)
    assembly.add_variables()
    assembly.add_outputs()
    network = with_shared_names(assembly.builder.network())
    weights = assembly.weights if with_weights else None
    return with_rings(Model(network=network, weights=weights))


def _words_that_work(
    graph: TfliteGraph, sizes: Mapping[str, Sizes], shapes: Mapping[str, tuple[int, ...]]
) -> str:
    """Return a clause with words that read the graph; empty where no usual sizes do."""
    for usual in usual_shapes(sizes) if sizes else ():
        try:
            _model(graph, "network", {**shapes, **usual}, with_weights=False)
        except (UnreadableFile, UnsupportedOperator, InvalidNetwork):
            continue
        words = [f"--shape {name}={'x'.join(map(str, dims))}" for name, dims in usual.items()]
        return f"; {' '.join(words)} is read, for example"
    return ""


def _words_around(
    obstacles: Sequence[Obstacle], graph: TfliteGraph, read: Callable[..., Model]
) -> str:
    """Return words of a command line that read the part before or after the obstacles."""
    numbers = {obstacle.node.number for obstacle in obstacles}
    places = {place for place, node in enumerate(graph.nodes) if node.number in numbers}
    return words_that_read(
        cuts_around(graph.nodes, places, graph.outputs),
        lambda number: graph.tensors[number].name,
        lambda begin, until: read(inputs=begin, outputs=until),
    )


def _add_layers(graph: TfliteGraph, assembly: TfliteAssembly) -> list[Obstacle]:
    """Add the layers of all nodes; return the nodes that are refused for what they are.

    Nodes of known operators behind a refused node are not looked at.
    """
    obstacles: list[Obstacle] = []
    lost: set[int] = set()  # tensors that a refused node would have written, or that need one
    for node in graph.nodes:
        convert = CONVERTERS.get(node.kind)
        if convert is None and custom_operators.extension_of(node) is not None:
            convert = custom_operators.extended
        if convert is None:
            obstacles.append(Obstacle(node=node, message=None))
            lost.update(node.outputs)
            continue
        if not lost.isdisjoint(node.inputs):
            lost.update(node.outputs)
            continue
        try:
            convert(node, assembly)
        except UnsupportedOperator as error:
            obstacles.append(Obstacle(node=node, message=str(error)))
            lost.update(node.outputs)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{node}: {error}") from None
    return obstacles


def nothing(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add no layer: what the node says was read with the graph."""


CONVERTERS: Mapping[str, Converter] = {
    "ASSIGN_VARIABLE": lambda node, assembly: assembly.assign_variable(node),
    "CALL_ONCE": nothing,
    "READ_VARIABLE": lambda node, assembly: assembly.read_variable(node),
    "VAR_HANDLE": nothing,
    **batches.CONVERTERS,
    **custom_operators.CONVERTERS,
    **functions.CONVERTERS,
    **moves.CONVERTERS,
    **products.CONVERTERS,
    **recurrences.CONVERTERS,
    **windows.CONVERTERS,
}
