"""Reading a network from a TensorFlow Lite file.

Which function turns which operator of TensorFlow Lite into layers.

Recurrent operators of a TensorFlow Lite graph as layers: where their states are variable tensors, they
stay from invocation to invocation; otherwise each frame begins with a state of zero.

Functions of elements, reductions and conversions of a TensorFlow Lite graph as layers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from math import log2, prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.operators.recurrences import CELL_GATES
from cnn2csdf.parameters import with_shared_names
from cnn2csdf.readers.tflite import moves, products, windows
from cnn2csdf.readers.tflite.assembly import Assembly, Trained, quantization_of, refusal
from cnn2csdf.readers.tflite.folding import folded
from cnn2csdf.readers.tflite.model_file import Graph, Node, parse_graph
from cnn2csdf.readers.tflite.moves import with_axes_of
from cnn2csdf.readers.tflite.options import fused_behind, options_of, our_axis, require_centred
from cnn2csdf.rings import with_rings
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator

FIRST_MATRIX, FIRST_RECURRENT, FIRST_BIAS = 1, 5, 12  # inputs: one for each of CELL_GATES
OPTIONAL = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, normalisation
HIDDEN, CELL = 18, 19
SVDF_STATE = 4
TANH = 4
ONNX_ORDER = ("input", "output", "forget", "cell")


def lstm(node: Node, assembly: Assembly) -> None:
    """Add an LSTM over a sequence."""
    options, dims = options_of(node), assembly.tensor(node, 0).dims
    if any(assembly.has(node, index) for index in OPTIONAL):
        raise refusal(node, "peepholes, projections and normalised gates are not supported")
    if len(dims) != 3 or dims[0] != 1 or options.integer(3, "b"):
        raise refusal(node, f"an input of {dims}; expected 1 x frames x elements")
    if options.integer(0, "b") != TANH:
        raise refusal(node, f"the activation {options.integer(0, 'b')}, expected tanh")
    for index in (HIDDEN, CELL):
        _require_at_rest(node, assembly, index)
    state = assembly.tensor(node, HIDDEN).dims
    if len(state) != 2 or not prod(state):
        raise UnreadableFile(f"{node}: a state of {state}")
    units = state[-1]
    for place, gate in enumerate(CELL_GATES):
        _require(node, assembly, FIRST_MATRIX + place, (units, dims[2]), gate)
        _require(node, assembly, FIRST_RECURRENT + place, (units, units), gate)
        _require(node, assembly, FIRST_BIAS + place, (units,), gate)
    if is_kept(node, assembly, HIDDEN) != is_kept(node, assembly, CELL):
        raise refusal(
            node, "one of hidden state and cells stays from invocation to invocation only"
        )
    if quantization_of(assembly.tensor(node, 0)) is None:
        if is_kept(node, assembly, HIDDEN):
            raise refusal(node, "a state of real numbers that stays from invocation to invocation")
        # As the LSTM of ONNX: gates one behind another, a sequence of its own as second axis.
        frames = assembly.shape(node, 0).dims[0]
        places = [CELL_GATES.index(gate) for gate in ONNX_ORDER]
        matrix, recurrent, bias = (
            np.concatenate([assembly.constant(node, first + place) for place in places])[None]
            for first in (FIRST_MATRIX, FIRST_RECURRENT, FIRST_BIAS)
        )
        source = assembly.source(node, 0)
        wide = assembly.prepared(node, source, op.Reshape(dims=(frames, 1, matrix.shape[2])))
        trained = [
            assembly.trained(node, FIRST_MATRIX, "matrix", matrix),
            assembly.trained(node, FIRST_RECURRENT, "recurrent matrix", recurrent),
            assembly.trained(
                node, FIRST_BIAS, "bias", np.concatenate([bias, np.zeros_like(bias)], axis=1)
            ),
        ]
        limit = options_of(node).real(1)
        operator = op.Recurrence(kind="lstm", units=units, cell_limit=limit if limit > 0 else None)
        assembly.add(
            node, operator, op.Reshape(dims=(frames, units)), sources=[wide], trained=trained
        )
    else:
        _add_quantized(node, assembly, units)


def is_kept(node: Node, assembly: Assembly, index: int) -> bool:
    """Whether a state stays from invocation to invocation: it is a variable tensor."""
    return assembly.has(node, index) and assembly.tensor(node, index).is_variable


def _require_at_rest(node: Node, assembly: Assembly, index: int) -> None:
    """Raise UnsupportedOperator for a state that begins at other numbers than zero."""
    tensor, types = assembly.tensor(node, index), quantization_of(assembly.tensor(node, index))
    if assembly.is_dynamic(node, index):
        raise refusal(node, f"the state {tensor.name!r} depends on the frame; expected zeros")
    if tensor.is_constant and (tensor.array() != (types.zero_point if types else 0)).any():
        raise refusal(node, f"the state {tensor.name!r} begins at other numbers than zero")


def _require(
    node: Node, assembly: Assembly, index: int, wanted: tuple[int, ...], gate: str
) -> None:
    found = assembly.constant(node, index).shape
    if found != wanted:
        raise UnreadableFile(
            f"{node}: the {gate} gate reads {found} of input {index}, not {wanted}"
        )


def _add_quantized(node: Node, assembly: Assembly, units: int) -> None:
    cell = quantization_of(assembly.tensor(node, CELL))
    if cell is None or cell.element.value != "int16" or log2(cell.scale) % 1:
        raise refusal(node, "cells that are not int16 with a power of two as scale")
    hidden = quantization_of(assembly.tensor(node, HIDDEN))
    if hidden != quantization_of(assembly.output(node)) or hidden is None:
        raise refusal(node, "a state that is stored in another way than the output")
    if {
        one.element.value for one in (hidden, quantization_of(assembly.tensor(node, 0))) if one
    } != {"int8"}:
        raise refusal(node, "an input or a state of other than int8")
    clip = options_of(node).real(1)
    operator = op.QuantizedLstm(
        units=units,
        cell_scale=cell.scale,
        clip=int(min(clip / cell.scale, 2**15 - 1)) if clip > 0 else None,
        keeps=hidden.zero_point if is_kept(node, assembly, HIDDEN) else None,
    )
    trained = []
    for place, gate in enumerate(CELL_GATES):
        for first, role in (
            (FIRST_MATRIX, "matrix"),
            (FIRST_RECURRENT, "recurrent matrix"),
        ):
            found = _as_stored(node, assembly, first + place, f"{gate} {role}")
            require_centred(node, found)
            trained.append(found)
        trained.append(_as_stored(node, assembly, FIRST_BIAS + place, f"{gate} bias"))
    assembly.add(node, operator, sources=[assembly.source(node, 0)], trained=trained)


def _as_stored(node: Node, assembly: Assembly, index: int, role: str) -> Trained:
    found = assembly.trained(node, index, role, assembly.constant(node, index))
    if not role.endswith("bias") and found.stored.quantization is None:
        raise refusal(node, f"weights without a scale (input {index}) for quantised integers")
    return found


def svdf(node: Node, assembly: Assembly) -> None:
    """Add a filter over time in low rank."""
    rank, matrix = options_of(node).integer(0, "i"), assembly.constant(node, 1)
    _require_at_rest(node, assembly, SVDF_STATE)
    state = quantization_of(assembly.tensor(node, SVDF_STATE))
    filters = assembly.constant(node, 2)
    elements = assembly.shape(node, 0).elements
    if rank < 1 or matrix.ndim != 2 or filters.ndim != 2 or matrix.shape[1] != elements:
        raise UnreadableFile(f"{node}: rank {rank}, a matrix of {matrix.shape} for {elements}")
    if len(matrix) % rank or len(filters) != len(matrix) or not filters.shape[1]:
        raise UnreadableFile(
            f"{node}: {len(matrix)} filters of rank {rank}, {len(filters)} in time"
        )
    if quantization_of(assembly.tensor(node, 0)) is None or state is None:
        raise refusal(node, "real numbers are not supported; int8 is")
    if not assembly.has(node, 3):
        raise refusal(node, "without a bias")
    units = len(matrix) // rank
    operator = op.QuantizedSvdf(
        units=units,
        rank=rank,
        places=filters.shape[1],
        state=state,
        keeps=is_kept(node, assembly, SVDF_STATE),
    )
    bias = assembly.constant(node, 3)
    if bias.shape != (units,):
        raise UnreadableFile(f"{node}: biases of shape {bias.shape} for {units} units")
    trained = [
        _as_stored(node, assembly, 1, "matrix"),
        _as_stored(node, assembly, 2, "filters"),
        _as_stored(node, assembly, 3, "bias"),
    ]
    assembly.add(node, operator, sources=[assembly.source(node, 0)], trained=trained)


def elementwise(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add a function of two tensors, one of which may be a constant."""
    dynamic = [index for index in (0, 1) if assembly.is_dynamic(node, index)]
    if not dynamic:
        raise refusal(node, "both operands are constants")
    sources = [assembly.source(node, index) for index in dynamic]
    if len(dynamic) == 2:
        sources = _with_as_many_axes(node, assembly, sources)
        operator, trained = op.Elementwise(function=function), []
    else:
        place = 1 - dynamic[0]
        dims = assembly.output(node).dims
        value = assembly.constant(node, place)
        value = value.reshape((1,) * (len(dims) - value.ndim) + value.shape)
        axes = assembly.axes(node, dims)
        lost = [axis for axis in range(len(dims)) if axis not in axes]
        if value.ndim > len(dims) or any(value.shape[axis] != 1 for axis in lost):
            raise refusal(node, f"a constant of {value.shape} for a result of {dims}")
        value = value.transpose((*lost, *axes))
        value = value.reshape(value.shape[len(dims) - len(axes) :])
        trained = [assembly.trained(node, place, "constant", value)]
        operator = op.Elementwise(
            function=function, constant=value.shape or (1,), constant_first=place == 0
        )
    assembly.add(node, operator, sources=sources, trained=trained, fused=fused_behind(node, 0))


def _with_as_many_axes(node: Node, assembly: Assembly, sources: list[str]) -> list[str]:
    """The operands; one with fewer axes than the other gets axes of size one in front."""
    dims = [assembly.tensor(node, index).dims for index in (0, 1)]
    if len(dims[0]) == len(dims[1]):
        return sources
    short = 0 if len(dims[0]) < len(dims[1]) else 1
    full = (1,) * (len(dims[1 - short]) - len(dims[short])) + dims[short]
    steps = with_axes_of(node, assembly, assembly.shape(node, short), full)
    sources[short] = assembly.prepared(node, sources[short], *steps)
    return sources


def activation(
    node: Node, assembly: Assembly, *, function: str, parameters: tuple[float, ...] = ()
) -> None:
    """Add a function of single elements."""
    operator = op.Activation(function=function, parameters=parameters)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def leaky_relu(node: Node, assembly: Assembly) -> None:
    """Add a rectifier with a slope."""
    slope = float(str(np.float32(options_of(node).real(0))))
    activation(node, assembly, function="leaky relu", parameters=(slope,))


def prelu(node: Node, assembly: Assembly) -> None:
    """Add a rectifier with a trained slope for each channel."""
    slope, shape = assembly.constant(node, 1), assembly.shape(node, 0)
    if slope.size != shape.channels or slope.size != prod(slope.shape[-1:]):
        raise refusal(node, f"slopes of shape {slope.shape}, expected one for each channel")
    trained = [assembly.trained(node, 1, "slope", slope.reshape(-1))]
    operator = op.Activation(function="prelu")
    assembly.add(node, operator, sources=[assembly.source(node, 0)], trained=trained)


def softmax(node: Node, assembly: Assembly, *, is_logarithm: bool = False) -> None:
    """Add a softmax over the last axis, that of the channels in maps."""
    if not is_logarithm and options_of(node).real(0) != 1.0:
        raise refusal(node, f"beta is {options_of(node).real(0)}, expected 1")
    dims = assembly.tensor(node, 0).dims
    axis = our_axis(node, assembly, dims, -1) if len(dims) > 1 else 0
    operator = op.Softmax(axis=axis, is_logarithm=is_logarithm)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def conversion(node: Node, assembly: Assembly) -> None:
    """Add a layer that stores the same numbers in another way."""
    assembly.add(node, op.Conversion(), sources=[assembly.source(node, 0)])


def reduction(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add a mean, sum or extreme over some axes; where an axis goes, the rest may change places."""
    tensor = assembly.tensor(node, 0)
    rank, keeps = len(tensor.dims), bool(options_of(node).integer(0, "b"))
    gone = {axis % rank for axis in assembly.integers(node, 1) if -rank <= axis < rank}
    if not gone or (0 in gone and tensor.dims[0] == 1):
        raise refusal(node, "a reduction over no axis, or over the batch")
    axes = tuple(sorted(our_axis(node, assembly, tensor.dims, axis) for axis in gone))
    steps: list[op.Operator] = [op.Reduction(function=function, axes=axes, keeps=keeps)]
    left = [axis for axis in range(1, rank) if axis not in gone]
    if not keeps and rank == 4 and len(left) == 2:
        now = sorted(left, key=assembly.axes(node, tensor.dims).index)
        if now != left:
            steps.append(op.Transpose(permutation=(1, 0)))
    assembly.add(node, *steps, sources=[assembly.source(node, 0)])


def extreme_place(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add where along an axis the largest or smallest element is; the axis goes."""
    dims = assembly.tensor(node, 0).dims
    axes = assembly.integers(node, 1)
    if len(axes) != 1:
        raise UnreadableFile(f"{node}: {len(axes)} axes; expected one")
    operator = op.ExtremePlace(function=function, axis=our_axis(node, assembly, dims, axes[0]))
    shape = operator.output_shape([assembly.shape(node, 0)])
    steps = with_axes_of(node, assembly, shape, assembly.output(node).dims)
    assembly.add(node, operator, *steps, sources=[assembly.source(node, 0)])


def cast(node: Node, assembly: Assembly) -> None:
    """Add a change of type; what is not quantised is computed in single precision anyway."""
    given, result = assembly.tensor(node, 0), assembly.output(node)
    if given.quantization() is not None or result.quantization() is not None:
        raise refusal(node, "a cast of quantised integers")
    is_cut = result.element is not None and result.element.is_integer
    is_real = given.element is None or not given.element.is_integer
    step = op.Activation(function="truncate") if is_cut and is_real else op.Identity()
    assembly.add(node, step, sources=[assembly.source(node, 0)])


def parse_tflite(content: bytes, name: str, *, with_weights: bool = False) -> Model:
    """Return the network in the bytes of a .tflite file, for one frame at a time.

    name: of the file, for messages. Layers are called as the tensors they write. Tensors of int8
    with a scale are quantised; they are computed as TensorFlow Lite Micro does.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, naming the file and the operator.
    """
    try:
        graph = parse_graph(content, CONVERTERS, folded)
        assembly = Assembly(graph, os.path.basename(name).removesuffix(".tflite") or "network")
        assembly.add_inputs()
        _add_layers(graph, assembly)
        assembly.add_variables()
        assembly.add_outputs()
        network = with_shared_names(assembly.builder.network())
        weights = assembly.weights if with_weights else None
        return with_rings(Model(network=network, weights=weights))
    except (UnreadableFile, UnsupportedOperator, InvalidNetwork) as error:
        raise type(error)(f"{name}: {error}") from None


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


def nothing(node: Node, assembly: Assembly) -> None:
    """Add no layer: what the node says was read with the graph."""


def read_variable(node: Node, assembly: Assembly) -> None:
    """Read what a variable holds."""
    assembly.read_variable(node)


def assign_variable(node: Node, assembly: Assembly) -> None:
    """Let a variable hold another tensor."""
    assembly.assign_variable(node)


CONVERTERS: Mapping[str, Callable[[Node, Assembly], None]] = {
    "ABS": partial(activation, function="abs"),
    "ADD": partial(elementwise, function="add"),
    "ASSIGN_VARIABLE": assign_variable,
    "CALL_ONCE": nothing,
    "READ_VARIABLE": read_variable,
    "VAR_HANDLE": nothing,
    "ARG_MAX": partial(extreme_place, function="max"),
    "ARG_MIN": partial(extreme_place, function="min"),
    "AVERAGE_POOL_2D": partial(windows.pooling, function="average"),
    "BATCH_MATMUL": products.batch_product,
    "CAST": cast,
    "CEIL": partial(activation, function="ceil"),
    "CONCATENATION": moves.concatenation,
    "CONV_2D": windows.convolution,
    "COS": partial(activation, function="cos"),
    "DEPTHWISE_CONV_2D": windows.depthwise_convolution,
    "DEPTH_TO_SPACE": windows.depth_to_space,
    "DEQUANTIZE": conversion,
    "DIV": partial(elementwise, function="divide"),
    "ELU": partial(activation, function="elu", parameters=(1.0,)),
    "EXP": partial(activation, function="exp"),
    "EXPAND_DIMS": moves.reshape,
    "FLOOR": partial(activation, function="floor"),
    "FULLY_CONNECTED": products.fully_connected,
    "GATHER": moves.gather,
    "HARD_SWISH": partial(activation, function="hard swish"),
    "LEAKY_RELU": leaky_relu,
    "LOG": partial(activation, function="log"),
    "LOGISTIC": partial(activation, function="sigmoid"),
    "LOG_SOFTMAX": partial(softmax, is_logarithm=True),
    "MAXIMUM": partial(elementwise, function="maximum"),
    "MAX_POOL_2D": partial(windows.pooling, function="max"),
    "MEAN": partial(reduction, function="mean"),
    "MINIMUM": partial(elementwise, function="minimum"),
    "MIRROR_PAD": windows.mirrored_pad,
    "MUL": partial(elementwise, function="multiply"),
    "NEG": partial(activation, function="negative"),
    "PACK": moves.pack,
    "PAD": windows.pad,
    "PADV2": windows.pad_with,
    "POW": partial(elementwise, function="power"),
    "PRELU": prelu,
    "QUANTIZE": conversion,
    "REDUCE_MAX": partial(reduction, function="max"),
    "REDUCE_MIN": partial(reduction, function="min"),
    "RELU": partial(activation, function="relu"),
    "RELU6": partial(activation, function="clip", parameters=(0.0, 6.0)),
    "RELU_N1_TO_1": partial(activation, function="clip", parameters=(-1.0, 1.0)),
    "RESHAPE": moves.reshape,
    "RESIZE_BILINEAR": partial(windows.resize, function="linear", corners=2),
    "RESIZE_NEAREST_NEIGHBOR": partial(windows.resize, function="nearest", corners=0),
    "ROUND": partial(activation, function="round"),
    "RSQRT": partial(activation, function="rsqrt"),
    "SIN": partial(activation, function="sin"),
    "SLICE": moves.slices,
    "SOFTMAX": softmax,
    "SPACE_TO_DEPTH": windows.space_to_depth,
    "SPLIT": moves.split,
    "SPLIT_V": moves.split_by_sizes,
    "SQRT": partial(activation, function="sqrt"),
    "SQUARED_DIFFERENCE": partial(elementwise, function="squared difference"),
    "SQUEEZE": moves.reshape,
    "STRIDED_SLICE": moves.strided_slice,
    "SUB": partial(elementwise, function="subtract"),
    "SUM": partial(reduction, function="sum"),
    "SVDF": svdf,
    "TANH": partial(activation, function="tanh"),
    "TRANSPOSE": moves.transpose,
    "TRANSPOSE_CONV": windows.transposed_convolution,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "UNPACK": moves.unpack,
}
