"""Writing a network as an ONNX model: the nodes of each operator, with a batch of one as first axis.

Every tensor of the layers is written as float; truth values and integers are cast before and after the
nodes that need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from onnx import helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Shape
from cnn2csdf.onnx_files.graph_builder import FLOAT, OnnxGraphBuilder, OperatorNodes
from cnn2csdf.onnx_files.model_file import LARGEST_MESSAGE_BYTES
from cnn2csdf.onnx_files.operator_writers import WRITERS, reinterpreted
from cnn2csdf.shape import Dims
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidNetwork
from csdf.names import free_name

OPSET = 20  # the first with GELU; ONNX Runtime 1.17 reads it
IR_VERSION = 9


def onnx_bytes(model: Model) -> bytes:
    """Return the network with its weights as an ONNX model of opset 20; the batch is one.

    Nodes, inputs and outputs have the names of their layers. If a layer needs several nodes (fused
    operators, operators that ONNX lacks), their names begin with its name. The same model gives the
    same bytes. Raises InvalidNetwork for a model without weights, a quantised model, a model too large
    for a file, and an operator that ONNX cannot express.
    """
    if model.weights is None:
        raise InvalidNetwork("a network without weights cannot be written as ONNX")
    quantized = [layer.name for layer in model.network.layers if layer.quantization is not None]
    if quantized:
        raise InvalidNetwork(
            f"layer {quantized[0]!r} is quantised; only networks of real numbers are written as ONNX"
        )
    size = sum(4 * array.size for roles in model.weights.values() for array in roles.values())
    if size > LARGEST_MESSAGE_BYTES:
        raise InvalidNetwork(f"{size} bytes of weights do not fit into one ONNX file")
    builder = OnnxGraphBuilder(layer.name for layer in model.network.layers)
    # The tensor of each layer has the name of the layer, or of the first output that returns it as it
    # is. Inputs and outputs with other dims in the file have two tensors: for an input, the tensor in
    # dims of the layer is called "rows"; an output reads the tensor of its layer by reshape nodes
    # ("seen").
    tensors = {layer.name: layer.name for layer in model.network.layers}
    for layer in model.network.outputs:
        source = layer.inputs[0]
        is_input = isinstance(model.network.layer(source).operator, op.Input)
        is_reshaped = isinstance(layer.operator, op.Output) and layer.operator.dims is not None
        if tensors[source] == source and not (is_input or is_reshaped):
            tensors[source] = layer.name
    for layer in model.network.inputs:
        if isinstance(layer.operator, op.Input) and layer.operator.file_dims is not None:
            tensors[layer.name] = free_name(f"{layer.name} rows", tensors)
    for layer in model.network.layers:
        inputs = model.network.input_shapes(layer)
        try:
            _add_layer(builder, layer, inputs, model.weights.get(layer.name, {}), tensors)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"layer {layer.name!r}: {error}") from None
    read, outputs = (
        [
            helper.make_tensor_value_info(layer.name, FLOAT, (1, *_file_dims(layer)))
            for layer in layers
        ]
        for layers in (model.network.inputs, model.network.outputs)
    )
    constants = [
        numpy_helper.from_array(constant, name) for name, constant in builder.constants.items()
    ]
    graph = helper.make_graph(builder.nodes, model.network.name, read, outputs, constants)
    written = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="cnn2csdf",
    )
    return bytes(written.SerializeToString(deterministic=True))


def _file_dims(layer: Layer) -> Dims:
    """The dims of an input or output in the file."""
    file_dims = layer.operator.file_dims if isinstance(layer.operator, op.Input) else None
    return file_dims or layer.shape.dims


def _add_layer(
    graph: OnnxGraphBuilder,
    layer: Layer,
    shapes: tuple[Shape, ...],
    weights: Mapping[str, Array],
    tensors: Mapping[str, str],
) -> None:
    """Add the nodes of a layer. Raises InvalidNetwork for an operator that ONNX lacks.

    shapes: of the inputs of the layer. tensors: the tensor of each layer, by name.
    """
    inputs = [tensors[source] for source in layer.inputs]
    nodes = OperatorNodes(
        graph=graph, name=f"{layer.name} seen", inputs=inputs, shapes=shapes, output=layer.shape
    )
    match layer.operator:
        case op.Input(file_dims=None):
            return
        case op.Input(file_dims=tuple(dims)):
            source = replace(nodes, inputs=[layer.name], shapes=[Shape(dims=dims)])
            reinterpreted(source, layer.shape.dims)
            graph.rename_last(nodes.name, tensors[layer.name])
            return
        case op.Output(dims=None):
            if inputs[0] != layer.name:
                replace(nodes, name=layer.name).node("Identity", inputs[0])
                graph.rename_last(graph.free_name(f"{layer.name} copy"), layer.name)
            return
        case op.Output(dims=tuple(dims)):
            reinterpreted(nodes, dims)
            graph.rename_last(nodes.name, layer.name)
            return
    operators = (layer.operator, *layer.epilogue)
    for step, operator in enumerate(operators):
        is_last = step == len(operators) - 1
        name = layer.name if step == 0 else graph.free_name(f"{layer.name}.{step - 1}")
        target = tensors[layer.name] if is_last else graph.free_name(f"{layer.name} {step}")
        prefix = "" if step == 0 else f"{step - 1}."  # of roles of weights of the layer
        if type(operator) not in WRITERS:
            raise InvalidNetwork(f"ONNX has no operator for {operator.in_words()!r}")
        nodes = OperatorNodes(
            graph=graph,
            name=name,
            inputs=inputs,
            shapes=shapes,
            output=layer.shape,
            weights={
                role: np.asarray(weights[prefix + role], dtype=np.float32)
                for role in operator.trained(shapes)
                if prefix + role in weights
            },
            stored_names={
                constant.role.removeprefix(prefix): constant.name
                for constant in layer.stored
                if constant.name is not None and constant.role.startswith(prefix)
            },
        )
        WRITERS[type(operator)](operator, nodes)
        graph.rename_last(name, target)
        inputs, shapes = [target], (layer.shape,)
