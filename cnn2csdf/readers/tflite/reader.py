"""Reading a network from a TensorFlow Lite file: the function that converts each operator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from cnn2csdf.dtypes import USUAL_RUNTIME, Runtime
from cnn2csdf.parameters import with_shared_names
from cnn2csdf.readers.between_tensors import cuts_around, words_that_read
from cnn2csdf.readers.tflite import (
    detections,
    extended,
    functions,
    moves,
    products,
    recurrences,
    windows,
)
from cnn2csdf.readers.tflite.assembly import TfliteAssembly
from cnn2csdf.readers.tflite.choices import without_choices
from cnn2csdf.readers.tflite.model_file import TfliteGraph, TfliteNode, parse_graph
from cnn2csdf.readers.tflite.obstacles import Obstacle, in_words, part_of
from cnn2csdf.rings import with_rings
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator


def parse_tflite(
    content: bytes,
    name: str,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    with_weights: bool = False,
    runtime: Runtime = USUAL_RUNTIME,
) -> Model:
    """Return the network in the bytes of a .tflite file, for one frame at a time.

    name: of the file, for messages. Layers are called as the tensors they write. Tensors of int8
    with a scale are quantised; they are computed as the kernels of the runtime compute them. inputs,
    outputs: names of tensors, to read the part between these tensors.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, naming the file and the operator.
    """
    try:
        graph = without_choices(part_of(parse_graph(content), inputs, outputs))
        network_name = os.path.basename(name).removesuffix(".tflite") or "network"
        assembly = TfliteAssembly(graph, network_name, runtime)
        assembly.add_inputs()
        obstacles = _add_layers(graph, assembly)
        if obstacles:
            named = bool(inputs or outputs)
            words = "" if named else _words_around(obstacles, graph, content, name)
            _refuse(f"{in_words(obstacles, graph)}{words}")
        assembly.add_variables()
        assembly.add_outputs()
        network = with_shared_names(assembly.builder.network())
        weights = assembly.weights if with_weights else None
        return with_rings(Model(network=network, weights=weights))
    except (UnreadableFile, UnsupportedOperator, InvalidNetwork) as error:
        raise type(error)(f"{name}: {error}") from None


def _refuse(message: str) -> NoReturn:
    raise UnsupportedOperator(message)


def _words_around(
    obstacles: Sequence[Obstacle], graph: TfliteGraph, content: bytes, file_name: str
) -> str:
    """Return words of a command line that read the part before or after the obstacles."""
    places = {graph.nodes.index(obstacle.node) for obstacle in obstacles}
    return words_that_read(
        cuts_around(graph.nodes, places, graph.outputs),
        lambda number: graph.tensors[number].name,
        lambda begin, until: parse_tflite(content, file_name, inputs=begin, outputs=until),
    )


def _add_layers(graph: TfliteGraph, assembly: TfliteAssembly) -> list[Obstacle]:
    """Add the layers of all nodes; return the nodes that are refused for what they are.

    Nodes of known operators behind a refused node are not looked at.
    """
    obstacles: list[Obstacle] = []
    lost: set[int] = set()  # tensors that a refused node would have written, or that need one
    for node in graph.nodes:
        convert = CONVERTERS.get(node.kind)
        if convert is None and extended.extension_of(node) is not None:
            convert = extended.extended
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


def read_variable(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Read what a variable holds."""
    assembly.read_variable(node)


def assign_variable(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Let a variable hold another tensor."""
    assembly.assign_variable(node)


CONVERTERS: Mapping[str, Callable[[TfliteNode, TfliteAssembly], None]] = {
    "ABS": partial(functions.activation, function="abs"),
    "ADD": partial(functions.elementwise, function="add"),
    "ADD_N": functions.sum_of_tensors,
    "ASSIGN_VARIABLE": assign_variable,
    "CALL_ONCE": nothing,
    "READ_VARIABLE": read_variable,
    "VAR_HANDLE": nothing,
    "ARG_MAX": partial(functions.extreme_place, function="max"),
    "ARG_MIN": partial(functions.extreme_place, function="min"),
    "AVERAGE_POOL_2D": partial(windows.pooling, function="average"),
    "BATCH_MATMUL": products.batch_product,
    "BROADCAST_TO": moves.broadcast,
    "CAST": functions.cast,
    "CEIL": partial(functions.activation, function="ceil"),
    "CONCATENATION": moves.concatenation,
    "CONV_2D": windows.convolution,
    "COS": partial(functions.activation, function="cos"),
    "CUMSUM": functions.running_sum,
    "CUSTOM:'Convolution2DTransposeBias'": windows.transposed_convolution_of_mediapipe,
    "CUSTOM:'MaxPoolingWithArgmax2D'": windows.pooling_with_places,
    "CUSTOM:'MaxUnpooling2D'": windows.unpooling,
    "CUSTOM:'TFLite_Detection_PostProcess'": detections.detections,
    "DEPTHWISE_CONV_2D": windows.depthwise_convolution,
    "DEPTH_TO_SPACE": windows.depth_to_space,
    "DEQUANTIZE": functions.conversion,
    "DIV": partial(functions.elementwise, function="divide"),
    "EMBEDDING_LOOKUP": moves.embedding,
    "ELU": partial(functions.activation, function="elu", parameters=(1.0,)),
    "EQUAL": partial(functions.elementwise, function="equal", fused=False),
    "EXP": partial(functions.activation, function="exp"),
    "EXPAND_DIMS": moves.reshape,
    "FLOOR": partial(functions.activation, function="floor"),
    "FLOOR_DIV": partial(functions.elementwise, function="floor divide", fused=False),
    "FLOOR_MOD": partial(functions.elementwise, function="floor modulo", fused=False),
    "FULLY_CONNECTED": products.fully_connected,
    "GATHER": moves.gather,
    "GATHER_ND": moves.gather_points,
    "GELU": functions.gelu,
    "GREATER": partial(functions.elementwise, function="greater", fused=False),
    "GREATER_EQUAL": partial(functions.elementwise, function="greater or equal", fused=False),
    "HARD_SWISH": partial(functions.activation, function="hard swish"),
    "L2_NORMALIZATION": functions.unit_length,
    "LEAKY_RELU": functions.leaky_relu,
    "LESS": partial(functions.elementwise, function="less", fused=False),
    "LESS_EQUAL": partial(functions.elementwise, function="less or equal", fused=False),
    "LOG": partial(functions.activation, function="log"),
    "LOGICAL_AND": partial(functions.elementwise, function="and", fused=False),
    "LOGICAL_NOT": partial(functions.activation, function="not"),
    "LOGICAL_OR": partial(functions.elementwise, function="or", fused=False),
    "LOGISTIC": partial(functions.activation, function="sigmoid"),
    "LOG_SOFTMAX": partial(functions.softmax, is_logarithm=True),
    "MAXIMUM": partial(functions.elementwise, function="maximum", fused=False),
    "MAX_POOL_2D": partial(windows.pooling, function="max"),
    "MEAN": partial(functions.reduction, function="mean"),
    "MINIMUM": partial(functions.elementwise, function="minimum", fused=False),
    "MIRROR_PAD": windows.mirrored_pad,
    "MUL": partial(functions.elementwise, function="multiply"),
    "NEG": partial(functions.activation, function="negative"),
    "NOT_EQUAL": partial(functions.elementwise, function="not equal", fused=False),
    "PACK": moves.pack,
    "PAD": windows.pad,
    "PADV2": windows.pad_with,
    "POW": partial(functions.elementwise, function="power"),
    "PRELU": functions.prelu,
    "QUANTIZE": functions.conversion,
    "REDUCE_ALL": partial(functions.reduction, function="min"),
    "REDUCE_ANY": partial(functions.reduction, function="max"),
    "REDUCE_MAX": partial(functions.reduction, function="max"),
    "REDUCE_MIN": partial(functions.reduction, function="min"),
    "RELU": partial(functions.activation, function="relu"),
    "RELU6": partial(functions.activation, function="clip", parameters=(0.0, 6.0)),
    "RELU_0_TO_1": partial(functions.activation, function="clip", parameters=(0.0, 1.0)),
    "RELU_N1_TO_1": partial(functions.activation, function="clip", parameters=(-1.0, 1.0)),
    "RESHAPE": moves.reshape,
    "RESIZE_BILINEAR": partial(windows.resize, function="linear", corners=2),
    "RESIZE_NEAREST_NEIGHBOR": partial(windows.resize, function="nearest", corners=0),
    "REVERSE_V2": moves.reverse,
    "ROUND": partial(functions.activation, function="round"),
    "RSQRT": partial(functions.activation, function="rsqrt"),
    "SELECT": functions.choice,
    "SELECT_V2": functions.choice,
    "SIGN": partial(functions.activation, function="sign"),
    "SIN": partial(functions.activation, function="sin"),
    "SLICE": moves.slices,
    "SOFTMAX": functions.softmax,
    "SPACE_TO_DEPTH": windows.space_to_depth,
    "SPLIT": moves.split,
    "SPLIT_V": moves.split_by_sizes,
    "SQRT": partial(functions.activation, function="sqrt"),
    "SQUARE": functions.square,
    "SQUARED_DIFFERENCE": partial(functions.elementwise, function="squared difference"),
    "SQUEEZE": moves.reshape,
    "STRIDED_SLICE": moves.strided_slice,
    "SUB": partial(functions.elementwise, function="subtract"),
    "SUM": partial(functions.reduction, function="sum"),
    "SVDF": recurrences.svdf,
    "TANH": partial(functions.activation, function="tanh"),
    "TILE": moves.tile,
    "TOPK_V2": functions.largest,
    "TRANSPOSE": moves.transpose,
    "TRANSPOSE_CONV": windows.transposed_convolution,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": recurrences.lstm,
    "UNPACK": moves.unpack,
}
