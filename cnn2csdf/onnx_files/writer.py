"""Writing a network as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Shape
from cnn2csdf.onnx_files.model_file import LARGEST_MESSAGE_BYTES
from cnn2csdf.onnx_files.writing.drawing import Drawing
from cnn2csdf.onnx_files.writing.pieces import pieces_of
from cnn2csdf.onnx_files.writing.place import WritingPlace
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidNetwork

OPSET = 20  # the first with GELU; ONNX Runtime 1.17 reads it
IR_VERSION = 9


def onnx_bytes(model: Model) -> bytes:
    """Return the network with its weights as an ONNX model of opset 20; the batch is one.

    Nodes are called as their layers, inputs and outputs as theirs. A layer that takes several nodes
    (fused operators, operators ONNX lacks) has them called after it. The same model gives the same
    bytes. Raises InvalidNetwork for a model without weights, a quantised one, one too large for a
    file, and an operator ONNX cannot express.
    """
    if model.weights is None:
        raise InvalidNetwork("a network without weights cannot be written as ONNX")
    quantized = [layer.name for layer in model.network.layers if layer.quantization is not None]
    if quantized:
        raise InvalidNetwork(
            f"layer {quantized[0]!r} is quantised; only networks of real numbers are written as ONNX"
        )
    _require_size(model.weights)
    drawing = Drawing(layer.name for layer in model.network.layers)
    tensors = _tensor_names(model)
    for layer in model.network.layers:
        inputs = model.network.input_shapes(layer)
        try:
            _write_layer(drawing, layer, inputs, model.weights.get(layer.name, {}), tensors)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"layer {layer.name!r}: {error}") from None
    graph = helper.make_graph(
        drawing.nodes,
        model.network.name,
        [_declared(layer.name, layer.shape) for layer in model.network.inputs],
        [_declared(layer.name, layer.shape) for layer in model.network.outputs],
        [numpy_helper.from_array(one, name) for name, one in drawing.constants.items()],
    )
    written = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="cnn2csdf",
    )
    return bytes(written.SerializeToString(deterministic=True))


def _require_size(weights: Mapping[str, Mapping[str, Array]]) -> None:
    size = sum(4 * array.size for roles in weights.values() for array in roles.values())
    if size > LARGEST_MESSAGE_BYTES:
        raise InvalidNetwork(f"{size} bytes of weights do not fit into one ONNX file")


def _tensor_names(model: Model) -> dict[str, str]:
    """For each layer the tensor it writes: called as the first output that reads it, if any."""
    names = {layer.name: layer.name for layer in model.network.layers}
    for layer in model.network.outputs:
        source = layer.inputs[0]
        is_input = isinstance(model.network.layer(source).operator, op.Input)
        if names[source] == source and not is_input:
            names[source] = layer.name
    return names


def _write_layer(
    drawing: Drawing,
    layer: Layer,
    inputs: tuple[Shape, ...],
    weights: Mapping[str, Array],
    tensors: Mapping[str, str],
) -> None:
    read = [tensors[source] for source in layer.inputs]
    if isinstance(layer.operator, op.Input):
        return
    if isinstance(layer.operator, op.Output):
        if read[0] != layer.name:
            drawing.add_identity(read[0], layer.name)
        return
    chain = (layer.operator, *layer.epilogue)
    for place, operator in enumerate(chain):
        is_last = place == len(chain) - 1
        name = layer.name if place == 0 else drawing.free_name(f"{layer.name}.{place - 1}")
        target = tensors[layer.name] if is_last else drawing.free_name(f"{layer.name} {place}")
        prefix = "" if place == 0 else f"{place - 1}."
        own = _own_weights(weights, prefix)
        place_of = WritingPlace(inputs=inputs, output=layer.shape, weights=own)
        stored = {
            one.role.removeprefix(prefix): one.name
            for one in layer.stored
            if one.name is not None and one.role.startswith(prefix)
        }
        drawing.add(pieces_of(operator, place_of), read, target, name, stored)
        read, inputs = [target], (layer.shape,)


def _own_weights(weights: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The weights of one operator of a layer, by role."""
    return {
        role.removeprefix(prefix): np.asarray(array, dtype=np.float32)
        for role, array in weights.items()
        if role.startswith(prefix) and (prefix or "." not in role)
    }


def _declared(name: str, shape: Shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, *shape.dims))
