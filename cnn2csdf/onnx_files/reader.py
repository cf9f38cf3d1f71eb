"""Networks in ONNX files: nodes in topological order, inferred types, a converter for each operator.

Before the conversion, an If whose condition no frame changes becomes the nodes of its branch, and an
operator of ONNX Runtime becomes standard nodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

import onnx
from onnx import numpy_helper

from cnn2csdf.onnx_files.compositions import composition
from cnn2csdf.onnx_files.conversion import (
    dynamic,
    elementwise,
    extended,
    moves,
    normalizations,
    products,
    windows,
)
from cnn2csdf.onnx_files.conversion.assembly import OnnxAssembly
from cnn2csdf.onnx_files.conversion.windows import over_lines
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.inner_graphs import (
    chosen_branch,
    inner_graphs,
    ordered_nodes,
    with_captured,
)
from cnn2csdf.onnx_files.input_dims import (
    OpenSizes,
    constant_input,
    inputs_dims,
    require_known_names,
    usual_sizes,
    words_for,
)
from cnn2csdf.onnx_files.model_file import (
    between,
    cuts_around_nodes,
    opset_versions,
    read_model_file,
)
from cnn2csdf.onnx_files.nodes import (
    NodeRefusal,
    OnnxNode,
    RefusedNodes,
    attribute_value,
    node_of,
    refusal_of_all,
    unknown,
    unsupported,
)
from cnn2csdf.onnx_files.patterns import layer_nodes
from cnn2csdf.onnx_files.runtime_operators import opsets_of, standard_nodes
from cnn2csdf.parameters import with_shared_names
from cnn2csdf.quantized_layers import with_integers
from cnn2csdf.readers.between_tensors import words_that_read
from cnn2csdf.shape import Dims
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator


def read_onnx(
    path: str,
    *,
    shapes: Mapping[str, Dims] | None = None,
    constants: Mapping[str, float] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    with_weights: bool = False,
) -> Model:
    """Return the network in an ONNX file, of opset 7 or newer, for frames one at a time.

    shapes: dims of graph inputs, from the batch of one on, that replace the dims in the file; or the
    size of a dim by its name in the file. Needed where the file leaves dims other than the batch
    open. constants: inputs that have the same number in all elements of every frame. inputs,
    outputs: tensors, to read the network between these tensors. A layer has the name of its node, or
    of the output tensor of a nameless node. Inputs that no output needs are left out. Weights are
    read only with_weights: otherwise external files of weights may be missing.

    Raises UnreadableFile, UnsupportedOperator (naming all unsupported operators) or InvalidNetwork,
    naming the file and the node.
    """
    shapes, constants = shapes or {}, constants or {}
    try:
        model = between(read_model_file(path), inputs, outputs)
        try:
            return _network(model, path, shapes, constants, with_weights=with_weights)
        except OpenSizes as error:
            words = _example_options(model, path, error, shapes, constants)
            example = f"; {words} is read, for example" if words else ""
            raise UnreadableFile(f"{error}{example}") from None
    except RefusedNodes as error:
        words = ""
        if not inputs and not outputs:
            words = words_that_read(
                cuts_around_nodes(model, error.names),
                str,
                lambda begin, until: read_onnx(
                    path, shapes=shapes, constants=constants, inputs=begin, outputs=until
                ),
            )
        raise UnsupportedOperator(f"{path}: {error}{words}") from None
    except UnsupportedOperator as error:
        raise UnsupportedOperator(f"{path}: {error}") from None
    except (UnreadableFile, InvalidNetwork) as error:
        raise type(error)(f"{path}: {error}") from None


def _example_options(
    model: onnx.ModelProto,
    path: str,
    open_sizes: OpenSizes,
    shapes: Mapping[str, Dims],
    constants: Mapping[str, float],
) -> str | None:
    """Return options of a command that reads the file; None where no usual sizes fit."""
    numbers = {name: _compared_number(model, name) for name in open_sizes.scalars}
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    for chosen in usual_sizes(open_sizes, metadata):
        sizes = {name: tuple(dims) for name, dims in chosen.items()}
        try:
            _network(model, path, {**shapes, **sizes}, {**constants, **numbers}, with_weights=False)
        except (UnreadableFile, UnsupportedOperator, InvalidNetwork):
            continue
        words = [
            word
            for name, dims in chosen.items()
            for word in words_for(name, open_sizes.sizes[name], dims)
        ]
        words += [f"--constant {name}={number:g}" for name, number in numbers.items()]
        return " ".join(dict.fromkeys(words))
    return None


USUAL_NUMBERS = {"sr": 16000.0, "sample_rate": 16000.0, "sampling_rate": 16000.0}  # Hz, speech


def _compared_number(model: onnx.ModelProto, name: str) -> float:
    """Return the first constant that a scalar input is compared with; else a usual one, or 1."""
    numbers: dict[str, float] = {}
    tensors = [(initializer.name, initializer) for initializer in model.graph.initializer]
    for proto in model.graph.node:
        for attribute in proto.attribute if proto.op_type == "Constant" and proto.output else ():
            if attribute.type == onnx.AttributeProto.TENSOR:
                tensors.append((proto.output[0], attribute.t))
            elif attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT):
                numbers[proto.output[0]] = float(attribute_value(attribute))
    for tensor_name, tensor in tensors:
        if not any(tensor.dims) and tensor.data_location != onnx.TensorProto.EXTERNAL:
            try:
                numbers[tensor_name] = float(numpy_helper.to_array(tensor).reshape(-1)[0])
            except (ValueError, TypeError, IndexError, KeyError):
                continue  # a damaged constant, which reading the file reports
    for proto in model.graph.node:
        if name in proto.input and proto.op_type in ("Equal", "Greater", "Less"):
            for operand in proto.input:
                if operand in numbers:
                    return numbers[operand]
    return USUAL_NUMBERS.get(name, 1.0)


def _network(
    model: onnx.ModelProto,
    path: str,
    shapes: Mapping[str, Dims],
    constants: Mapping[str, float],
    *,
    with_weights: bool,
) -> Model:
    """Return the network of a model: types of its tensors first, then its layers."""
    graph, opsets = model.graph, opset_versions(model)
    outputs = [output.name for output in graph.output]
    folder = os.path.dirname(os.path.abspath(path))
    values = GraphValues(graph.initializer, folder=folder, opsets=opsets)
    frame_inputs = _frame_inputs(graph, values, shapes, constants)
    if not frame_inputs:
        raise UnreadableFile("the graph has no input")
    nodes = [
        with_captured(node_of(proto, opsets_of(proto, graph_node, opsets)))
        for graph_node in graph.node
        for proto in standard_nodes(graph_node)
    ]
    available = {value_info.name for value_info in (*graph.input, *graph.initializer)}
    nodes = ordered_nodes(nodes, available, outputs)
    names_read = {name for node in nodes for name in node.inputs} | set(outputs)
    inputs = [value_info for value_info in frame_inputs if value_info.name in names_read]
    if not inputs:
        raise UnreadableFile("no output depends on an input")
    recurrent = [node for node in nodes if node.op_type in products.KINDS]
    sequences = {name for node in recurrent for name in node.inputs[:1]}
    dims = inputs_dims(inputs, shapes, sequences)
    for value_info in inputs:
        element_type = value_info.type.tensor_type.elem_type
        values.add_input(value_info.name, element_type, dims[value_info.name])
    nodes, untyped = infer_types(nodes, values, opsets)
    layers, read = layer_nodes(nodes, outputs, values, finds_patterns=not untyped)
    name = os.path.basename(path).removesuffix(".onnx") or "network"
    assembly = OnnxAssembly(values, name, with_weights=with_weights, read=read)
    for value_info in inputs:
        assembly.add_input(value_info.name)
    add_layers(assembly, layers, read)
    for name in outputs:
        if not assembly.has(name):
            raise UnreadableFile(f"output {name!r} is the same for every frame")
        assembly.add_output(name)
    weights = assembly.weights if with_weights else None
    network = with_shared_names(assembly.builder.network())
    return with_integers(Model(network=network, weights=weights))


def _frame_inputs(
    graph: onnx.GraphProto,
    values: GraphValues,
    shapes: Mapping[str, Dims],
    constants: Mapping[str, float],
) -> list[onnx.ValueInfoProto]:
    """The graph inputs that differ from frame to frame; adds the constant inputs to the values."""
    inputs = [value_info for value_info in graph.input if not values.is_static(value_info.name)]
    require_known_names(shapes, inputs)
    fixed = {value_info.name: value_info for value_info in inputs if value_info.name in constants}
    values.add_constants(
        {name: constant_input(value_info, constants) for name, value_info in fixed.items()}
    )
    for name in constants.keys() - fixed.keys():
        listed = ", ".join(repr(value_info.name) for value_info in inputs) or "none"
        raise UnreadableFile(f"there is no input {name!r} to be a constant; inputs: {listed}")
    return [value_info for value_info in inputs if value_info.name not in constants]


# Operators whose outputs have known types, although none of these operators is a layer alone.
TYPED_OPERATORS = ("Shape", "Size", "IsNaN")


def infer_types(
    nodes: Sequence[OnnxNode], values: GraphValues, opsets: Mapping[str, int]
) -> tuple[list[OnnxNode], Set[str]]:
    """Infer types and constants in topological order; expand chosen branches and compositions.

    Returns the expanded nodes, and the untyped tensors: outputs of unsupported operators, and of
    nodes that read an untyped tensor.
    """
    typed_nodes: list[OnnxNode] = []
    untyped: set[str] = set()
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        is_typed = untyped.isdisjoint(node.inputs)
        expansion = _expansion(node, values, opsets, is_typed=is_typed)
        if expansion is not None:
            pending += reversed(expansion)
            continue
        typed_nodes.append(node)
        if not is_typed or not _infer_outputs(node, values):
            untyped.update(filter(None, node.outputs))
    return typed_nodes, untyped


def _expansion(
    node: OnnxNode, values: GraphValues, opsets: Mapping[str, int], *, is_typed: bool
) -> list[OnnxNode] | None:
    """The nodes that replace a node: a chosen branch or a composition; None if it is kept."""
    if node.op_type == "If" and not node.domain and values.is_static(node.required(0)):
        return chosen_branch(node, values, opsets)
    return composition(node, values) if is_typed and not _is_constant(node, values) else None


def _infer_outputs(node: OnnxNode, values: GraphValues) -> bool:
    """Add types and constants of the outputs to the values; False for an unsupported operator."""
    if extended.extension_of(node) is not None:
        extended.learn(node, values)
        return True
    is_typed = not node.domain and (node.op_type in CONVERTERS or node.op_type in TYPED_OPERATORS)
    if is_typed or _is_constant(node, values):
        values.add_node(node)
        return True
    return False


def _is_constant(node: OnnxNode, values: GraphValues) -> bool:
    """Whether all inputs of a node are the same for every frame."""
    return all(values.is_static(name) for name in node.inputs if name)


def add_layers(assembly: OnnxAssembly, layers: Sequence[OnnxNode], read: Set[str]) -> None:
    """Add a layer, or several layers, for each node.

    Raises UnsupportedOperator with all unsupported nodes. After the first such node, only nodes with
    all inputs, and nodes of unknown operators, are examined.
    """
    refusals: list[NodeRefusal] = []
    for node in layers:
        if node.op_type == "If":
            refusals.append(unsupported(node, "its condition is computed from the frame"))
        elif (convert := _converter(node)) is None:
            inside = "an operator with graphs inside is not supported"
            has_graphs = next(inner_graphs(node.proto), None) is not None
            refusals.append(unsupported(node, inside) if has_graphs else unknown(node))
        # After a refusal, nodes without all inputs are skipped.
        elif not refusals or all(
            assembly.has(name) or assembly.is_static(name) for name in node.inputs if name
        ):
            try:
                convert(node, assembly)
                for name in node.outputs:
                    if name in read and not assembly.has(name):
                        raise unsupported(node, f"its output {name!r} is not supported")
            except NodeRefusal as refusal:
                refusals.append(refusal)
            except (UnreadableFile, InvalidNetwork):
                if not refusals:
                    raise
    if refusals:
        raise refusal_of_all(refusals)


def _converter(node: OnnxNode) -> Callable[[OnnxNode, OnnxAssembly], None] | None:
    """The function that adds the layers of a node; None for an operator that is not supported."""
    if not node.domain:
        return CONVERTERS.get(node.op_type)
    return None if extended.extension_of(node) is None else extended.extended


CONVERTERS: Mapping[str, Callable[[OnnxNode, OnnxAssembly], None]] = {
    **dict.fromkeys(elementwise.PLAIN, elementwise.activation),
    **dict.fromkeys(elementwise.FUNCTIONS, elementwise.elementwise),
    **dict.fromkeys(normalizations.REDUCTIONS, normalizations.reduction),
    **dict.fromkeys(elementwise.EXTREMES, elementwise.extreme_place),
    **dict.fromkeys(products.KINDS, products.recurrence),
    "AveragePool": over_lines(partial(windows.pooling, function="average")),
    "BatchNormalization": normalizations.batch_normalization,
    "Cast": elementwise.cast,
    "ChannelShuffle": moves.channel_shuffle,
    "Clip": elementwise.clip,
    "Concat": moves.concatenation,
    "Conv": over_lines(windows.convolution),
    "ConvInteger": over_lines(windows.integer_convolution),
    "ConvTranspose": over_lines(windows.transposed_convolution),
    "CumSum": elementwise.running_sum,
    "DequantizeLinear": dynamic.dequantize,
    "DepthToSpace": moves.depth_to_space,
    "Dropout": elementwise.dropout,
    "DynamicQuantizeLinear": dynamic.dynamic_quantization,
    "Einsum": products.einsum,
    "Expand": moves.expand,
    "Flatten": moves.reshape,
    "Gather": moves.gather,
    "GatherND": moves.gather_nd,
    "Gelu": elementwise.gelu,
    "Gemm": products.gemm,
    "GlobalAveragePool": over_lines(partial(windows.global_pooling, function="average")),
    "GlobalMaxPool": over_lines(partial(windows.global_pooling, function="max")),
    "Identity": elementwise.identity,
    "InstanceNormalization": normalizations.instance_normalization,
    "LRN": normalizations.local_response_normalization,
    "LayerNormalization": normalizations.layer_normalization,
    "LogSoftmax": normalizations.softmax,
    "MatMul": products.matrix_product,
    "MatMulInteger": dynamic.integer_product,
    "MaxPool": over_lines(partial(windows.pooling, function="max")),
    "PRelu": elementwise.prelu,
    "Pad": moves.pad,
    "QuantizeLinear": dynamic.quantize,
    "Reshape": moves.reshape,
    "Resize": windows.resize,
    "Slice": moves.slices,
    "Softmax": normalizations.softmax,
    "SpaceToDepth": moves.space_to_depth,
    "Split": moves.split,
    "Squeeze": moves.reshape,
    "Swish": elementwise.swish,
    "Tile": moves.tile,
    "TopK": elementwise.ranking,
    "Transpose": moves.transpose,
    "Unsqueeze": moves.reshape,
    "Upsample": windows.resize,
    "Where": elementwise.where,
}
