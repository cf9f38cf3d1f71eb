"""The ONNX nodes of each operator; tensors have a batch axis of one in front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
import onnx

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion import elementwise, normalizations, resize
from cnn2csdf.onnx_files.writing.drawing import NodePiece
from cnn2csdf.onnx_files.writing.operand_pieces import TRUTHS, WRITERS, cast, truth_pieces
from cnn2csdf.onnx_files.writing.place import Pieces, WritingPlace, integers, reshaped
from cnn2csdf.onnx_files.writing.window_pieces import (
    convolution,
    pad_piece,
    pooling,
    transposed_convolution,
)
from csdf.errors import InvalidNetwork

OP_TYPES = {function: (op_type, names) for op_type, (function, names) in elementwise.PLAIN.items()}
VARIADIC = {"add": "Sum", "mean": "Mean", "maximum": "Max", "minimum": "Min"}
BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "power": "Pow",
}
COORDINATES = {ours: theirs for theirs, ours in resize.COORDINATES.items()}
ROUNDINGS = {ours: theirs for theirs, ours in resize.ROUNDINGS.items()}
REDUCTIONS = {ours: theirs for theirs, ours in normalizations.REDUCTIONS.items()}


def pieces_of(operator: op.Operator, place: WritingPlace) -> Pieces:
    """Return the nodes. Raises InvalidNetwork for an operator that ONNX cannot express."""
    return _WRITERS[type(operator)](operator, place)


def _convolution(operator: op.Convolution, place: WritingPlace) -> Pieces:
    return convolution(operator, place.trained("kernel", "bias"))


def _transposed(operator: op.TransposedConvolution, place: WritingPlace) -> Pieces:
    return transposed_convolution(operator, place.trained("kernel", "bias"))


def _pooling(operator: op.Pooling, place: WritingPlace) -> Pieces:
    return pooling(operator, place.inputs[0])


def _global_pooling(operator: op.GlobalPooling, _place: WritingPlace) -> Pieces:
    names = {"max": "GlobalMaxPool", "average": "GlobalAveragePool"}
    return [NodePiece(op_type=names[operator.function])]


def _fully_connected(_operator: op.FullyConnected, place: WritingPlace) -> Pieces:
    flat = [] if len(place.inputs[0].dims) == 1 else [NodePiece(op_type="Flatten")]
    constants = place.trained("matrix", "bias")
    return [*flat, NodePiece(op_type="Gemm", constants=constants, attributes={"transB": 1})]


def _matrix_product(_operator: op.MatrixProduct, place: WritingPlace) -> Pieces:
    return [NodePiece(op_type="MatMul", constants=place.trained("matrix"))]


def _batch_normalization(operator: op.BatchNormalization, place: WritingPlace) -> Pieces:
    constants = place.trained("scale", "shift", "mean", "variance")
    attributes = {"epsilon": operator.epsilon}
    return [NodePiece(op_type="BatchNormalization", constants=constants, attributes=attributes)]


def _instance_normalization(operator: op.InstanceNormalization, place: WritingPlace) -> Pieces:
    constants, attributes = place.trained("scale", "shift"), {"epsilon": operator.epsilon}
    return [NodePiece(op_type="InstanceNormalization", constants=constants, attributes=attributes)]


def _layer_normalization(operator: op.LayerNormalization, place: WritingPlace) -> Pieces:
    attributes = {"axis": operator.axis + 1, "epsilon": operator.epsilon}
    constants = place.trained("scale", "shift")
    return [NodePiece(op_type="LayerNormalization", constants=constants, attributes=attributes)]


def _local_response(operator: op.LocalResponseNormalization, _place: WritingPlace) -> Pieces:
    attributes = {
        "size": operator.size,
        "alpha": operator.alpha,
        "beta": operator.beta,
        "bias": operator.bias,
    }
    return [NodePiece(op_type="LRN", attributes=attributes)]


def _activation(operator: op.Activation, place: WritingPlace) -> Pieces:
    match operator.function:
        case "silu":
            return [NodePiece(op_type="Sigmoid"), NodePiece(op_type="Mul", reads=(0,))]
        case "gelu":
            return [NodePiece(op_type="Gelu")]
        case "gelu tanh":
            return [NodePiece(op_type="Gelu", attributes={"approximate": "tanh"})]
        case "truncate":
            return [cast(onnx.TensorProto.INT64), cast(onnx.TensorProto.FLOAT)]
        case "is not zero":
            return [cast(onnx.TensorProto.BOOL), cast(onnx.TensorProto.FLOAT)]
        case "not":
            kinds = (onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT)
            return [cast(kinds[0]), NodePiece(op_type="Not"), cast(kinds[1])]
        case "clip":
            limits = zip(("low", "high"), operator.parameters, strict=True)
            constants = tuple(
                (role, np.array(limit, dtype=np.float32)) if isfinite(limit) else None
                for role, limit in limits
            )
            return [NodePiece(op_type="Clip", constants=constants)]
        case "prelu":
            slope = place.weights["slope"]
            column = slope.reshape(-1, *(1 for _ in place.output.dims[1:]))
            return [NodePiece(op_type="PRelu", constants=(("slope", column),))]
    op_type, names = OP_TYPES[operator.function]
    found = zip(names, operator.parameters, strict=True)
    return [NodePiece(op_type=op_type, attributes={name: value for (name, _), value in found})]


def _elementwise(operator: op.Elementwise, place: WritingPlace) -> Pieces:
    function, count = operator.function, len(place.inputs)
    if function in TRUTHS:
        return truth_pieces(operator, place)
    constants = tuple(
        (role, array[None] if array.ndim == len(place.output.dims) else array)
        for role, array in place.trained("constant")
    )
    if function in VARIADIC and count + len(constants) != 2:
        return [NodePiece(op_type=VARIADIC[function], constants=constants)]
    op_type = BINARY.get(function) or VARIADIC[function]
    if constants and count == 1:
        first = operator.constant_first
        return [NodePiece(op_type=op_type, constants=constants, constant_first=first)]
    if operator.constant_first:
        raise InvalidNetwork(f"{function} of a constant and {count} inputs has no ONNX node")
    rest = [NodePiece(op_type=op_type, reads=(index,)) for index in range(2, count)]
    scaling = [NodePiece(op_type=op_type, constants=constants)] if constants else []
    return [NodePiece(op_type=op_type, reads=(0, 1)), *rest, *scaling]


def _concatenation(operator: op.Concatenation, _place: WritingPlace) -> Pieces:
    return [NodePiece(op_type="Concat", attributes={"axis": operator.axis + 1})]


def _slice(operator: op.Slice, _place: WritingPlace) -> Pieces:
    constants = (
        integers("start", [operator.start]),
        integers("stop", [operator.stop]),
        integers("axis", [operator.axis + 1]),
        integers("step", [operator.step]),
    )
    return [NodePiece(op_type="Slice", constants=constants)]


def _reshape(operator: op.Reshape, _place: WritingPlace) -> Pieces:
    return [reshaped(operator.dims)]


def _channel_shuffle(operator: op.ChannelShuffle, place: WritingPlace) -> Pieces:
    channels, height, width = place.output.dims
    cut = (operator.groups, channels // operator.groups, height, width)
    swap = NodePiece(op_type="Transpose", attributes={"perm": [0, 2, 1, 3, 4]})
    return [reshaped(cut), swap, reshaped(place.output.dims)]


def _resize(operator: op.Resize, place: WritingPlace) -> Pieces:
    attributes: dict[str, Any] = {
        "mode": operator.function,
        "coordinate_transformation_mode": COORDINATES[operator.coordinates],
    }
    if operator.function == "cubic":
        attributes["cubic_coeff_a"] = operator.cubic
        attributes["exclude_outside"] = int(operator.skips_outside)
    if operator.function == "nearest":
        if operator.rounding not in ROUNDINGS:
            raise InvalidNetwork(f"a resize that rounds to {operator.rounding!r} has no ONNX node")
        attributes["nearest_mode"] = ROUNDINGS[operator.rounding]
    if operator.scales is not None:
        scales = np.array([1, 1, *operator.scales], dtype=np.float32)
        return [
            NodePiece(op_type="Resize", constants=(None, ("scales", scales)), attributes=attributes)
        ]
    sizes = integers("size", [1, *place.output.dims])
    return [NodePiece(op_type="Resize", constants=(None, None, sizes), attributes=attributes)]


def _pad(operator: op.Pad, _place: WritingPlace) -> Pieces:
    return [pad_piece(operator.padding, mode=operator.mode, value=operator.value)]


def _space_to_depth(operator: op.SpaceToDepth, place: WritingPlace) -> Pieces:
    block = operator.block
    gather = NodePiece(op_type="SpaceToDepth", attributes={"blocksize": block})
    if operator.order == "block first":
        return [gather]
    channels, height, width = place.inputs[0].dims
    if channels % block**2:
        raise InvalidNetwork(f"{channels} channels are no multiple of {block**2}")
    large = reshaped((channels // block**2, height * block, width * block))
    return [large, gather, reshaped(place.output.dims)]


def _depth_to_space(operator: op.DepthToSpace, _place: WritingPlace) -> Pieces:
    mode = {"block first": "DCR", "channel first": "CRD"}[operator.order]
    attributes = {"blocksize": operator.block, "mode": mode}
    return [NodePiece(op_type="DepthToSpace", attributes=attributes)]


def _transpose(operator: op.Transpose, _place: WritingPlace) -> Pieces:
    order = [0, *(axis + 1 for axis in operator.permutation)]
    return [NodePiece(op_type="Transpose", attributes={"perm": order})]


def _identity(operator: op.Identity, _place: WritingPlace) -> Pieces:
    return [NodePiece(op_type="Dropout" if operator.kind == "dropout" else "Identity")]


def _softmax(operator: op.Softmax, place: WritingPlace) -> Pieces:
    op_type = "LogSoftmax" if operator.is_logarithm else "Softmax"
    axis, dims = operator.axis, place.output.dims
    if operator.last in (None, axis):
        return [NodePiece(op_type=op_type, attributes={"axis": axis + 1})]
    if operator.last != len(dims) - 1:
        raise InvalidNetwork(f"a softmax over the axes {axis} to {operator.last} of {len(dims)}")
    flat = reshaped((*dims[:axis], -1))
    return [flat, NodePiece(op_type=op_type, attributes={"axis": -1}), reshaped(dims)]


def _reduction(operator: op.Reduction, place: WritingPlace) -> Pieces:
    is_full = len(operator.axes) == len(place.inputs[0].dims) and not operator.keeps
    axes = integers("axes", [axis + 1 for axis in operator.axes])
    keeps = int(operator.keeps or is_full)
    piece = NodePiece(
        op_type=REDUCTIONS[operator.function], constants=(axes,), attributes={"keepdims": keeps}
    )
    return [piece, reshaped(place.output.dims)] if is_full else [piece]


_WRITERS: Mapping[type, Callable[[Any, WritingPlace], Pieces]] = {
    op.Convolution: _convolution,
    op.TransposedConvolution: _transposed,
    op.Pooling: _pooling,
    op.GlobalPooling: _global_pooling,
    op.FullyConnected: _fully_connected,
    op.MatrixProduct: _matrix_product,
    op.BatchNormalization: _batch_normalization,
    op.InstanceNormalization: _instance_normalization,
    op.LayerNormalization: _layer_normalization,
    op.LocalResponseNormalization: _local_response,
    op.Activation: _activation,
    op.Elementwise: _elementwise,
    op.Concatenation: _concatenation,
    op.Slice: _slice,
    op.ChannelShuffle: _channel_shuffle,
    op.Resize: _resize,
    op.Pad: _pad,
    op.SpaceToDepth: _space_to_depth,
    op.DepthToSpace: _depth_to_space,
    op.Reshape: _reshape,
    op.Transpose: _transpose,
    op.Identity: _identity,
    op.Softmax: _softmax,
    op.Reduction: _reduction,
    **WRITERS,
}
