"""Writing a network as an ONNX model.

The ONNX nodes of each operator; tensors have a batch axis of one in front.

ONNX nodes of operators with truth values, places, trained operands and states.

Every tensor of the layers is written as float: truth values and whole numbers are cast around the
nodes that need them.

The ONNX nodes of convolutions and poolings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from string import ascii_letters
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.geometry import ceil_overhang
from cnn2csdf.network import Layer, Shape
from cnn2csdf.onnx_files.conversion import elementwise, normalizations, windows
from cnn2csdf.onnx_files.model_file import LARGEST_MESSAGE_BYTES
from cnn2csdf.onnx_files.writing.drawing import (
    Constant,
    Drawing,
    NodePiece,
    Pieces,
    WritingPlace,
    integers,
    reshaped,
)
from cnn2csdf.operators.operands import Constants, constant_role
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
    size = sum(4 * array.size for roles in model.weights.values() for array in roles.values())
    if size > LARGEST_MESSAGE_BYTES:
        raise InvalidNetwork(f"{size} bytes of weights do not fit into one ONNX file")
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
        # The nodes. Raises InvalidNetwork for an operator that ONNX cannot express.
        drawing.add(_WRITERS[type(operator)](operator, place_of), read, target, name, stored)
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


FLOAT, BOOL, INTEGER = (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64)
COMPARISONS = {
    "greater": "Greater",
    "greater or equal": "GreaterOrEqual",
    "less": "Less",
    "less or equal": "LessOrEqual",
    "equal": "Equal",
}
LOGIC = {"and": "Mul", "or": "Max", "exclusive or": "Sub"}  # of numbers that are 0 or 1
TRUTHS = (*COMPARISONS, *LOGIC)
RECURRENCES = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}


def cast(kind: int) -> NodePiece:
    """Return a conversion to that type of element."""
    return NodePiece(op_type="Cast", attributes={"to": kind})


def truth_pieces(operator: op.Elementwise, place: WritingPlace) -> Pieces:
    """Return a comparison; of truth values, arithmetic of numbers that are 0 or 1."""
    rank, constants = len(place.output.dims), place.trained("constant")
    given = tuple((role, one[None] if one.ndim == rank else one) for role, one in constants)
    if operator.function in COMPARISONS:
        first = operator.constant_first
        kind = COMPARISONS[operator.function]
        return [NodePiece(op_type=kind, constants=given, constant_first=first), cast(FLOAT)]
    if len(place.inputs) != 2:
        raise InvalidNetwork(f"{operator.function!r} of a constant has no ONNX node")
    kind = LOGIC[operator.function]
    return [NodePiece(op_type=kind), NodePiece(op_type="Abs"), cast(BOOL), cast(FLOAT)]


def _choice(operator: op.Choice, place_of: WritingPlace) -> Pieces:
    """The condition is cast to a truth value; a trained one is one already."""
    weights, rank = place_of.weights, len(place_of.output.dims)
    places = [place for place, _ in operator.constants]
    given = {
        place: array[None] if array.ndim == rank else array
        for place, array in ((place, weights[constant_role(place)]) for place in places)
    }
    if 0 in given:
        given[0] = given[0] != 0
    constants = tuple((constant_role(place), given[place]) for place in places)
    tensors = [place for place in range(3) if place not in given]
    order = tuple([*tensors, *places].index(place) for place in range(3))
    if 0 in given:
        return [NodePiece(op_type="Where", constants=constants, order=order)]
    condition = NodePiece(op_type="Cast", attributes={"to": BOOL}, reads=(0,))
    rest = tuple(range(1, len(tensors)))
    return [condition, NodePiece(op_type="Where", constants=constants, reads=rest, order=order)]


def _extreme_place(operator: op.ExtremePlace, _place: WritingPlace) -> Pieces:
    attributes = {
        "axis": operator.axis + 1,
        "keepdims": 1,
        "select_last_index": int(operator.takes_last),
    }
    kind = {"max": "ArgMax", "min": "ArgMin"}[operator.function]
    return [NodePiece(op_type=kind, attributes=attributes), cast(FLOAT)]


def _ranking(operator: op.Ranking, _place: WritingPlace) -> Pieces:
    piece = NodePiece(
        op_type="TopK",
        constants=(("count", np.array([operator.count], np.int64)),),
        attributes={"axis": operator.axis + 1, "largest": int(operator.takes_largest)},
        output=int(operator.gives_places),
        outputs=2,
    )
    return [piece, cast(FLOAT)] if operator.gives_places else [piece]


def _running_sum(operator: op.RunningSum, _place: WritingPlace) -> Pieces:
    attributes = {"exclusive": int(operator.is_exclusive), "reverse": int(operator.is_reversed)}
    axis = ("axis", np.array(operator.axis + 1, np.int64))
    return [NodePiece(op_type="CumSum", constants=(axis,), attributes=attributes)]


def _repeat(operator: op.Repeat, place: WritingPlace) -> Pieces:
    axes = range(len(place.output.dims))
    times = [1, *(operator.times if axis == operator.axis else 1 for axis in axes)]
    return [NodePiece(op_type="Tile", constants=(integers("times", times),))]


def _gather(operator: op.Gather, _place: WritingPlace) -> Pieces:
    places = integers("places", operator.places)
    return [
        NodePiece(op_type="Gather", constants=(places,), attributes={"axis": operator.axis + 1})
    ]


def _joined(operator: op.ConstantConcatenation, place: WritingPlace) -> Pieces:
    constants, order = _trained(operator.constants, place, batch=True)
    attributes = {"axis": operator.axis + 1}
    return [NodePiece(op_type="Concat", constants=constants, order=order, attributes=attributes)]


def _tensor_product(operator: op.TensorProduct, place: WritingPlace) -> Pieces:
    """The batch of one is a letter of its own."""
    letters = set("".join(operator.terms))
    batch = next(one for one in ascii_letters if one not in letters)
    constants, order = _trained(operator.constants, place, batch=False)
    trained = [index for index, _ in operator.constants]
    terms = ",".join(
        term if index in trained else batch + term for index, term in enumerate(operator.terms)
    )
    attributes = {"equation": f"{terms}->{batch}{operator.result}"}
    ends = [] if operator.result else [reshaped(place.output.dims)]
    product = NodePiece(op_type="Einsum", constants=constants, order=order, attributes=attributes)
    return [product, *ends]


def _trained(
    constants: Constants, place: WritingPlace, *, batch: bool
) -> tuple[tuple[Constant, ...], tuple[int, ...]]:
    """Trained operands, with a batch axis where wanted, and the order of all operands."""
    places = [one for one, _ in constants]
    total = len(place.inputs) + len(places)
    tensors = [one for one in range(total) if one not in places]
    arrays = {one: place.weights[constant_role(one)] for one in places}
    given = tuple(
        (constant_role(one), array[None] if batch else array) for one, array in arrays.items()
    )
    return given, tuple([*tensors, *places].index(one) for one in range(total))


def _recurrence(operator: op.Recurrence, place: WritingPlace) -> Pieces:
    attributes: dict[str, Any] = {
        "hidden_size": operator.units,
        "direction": operator.direction,
    }
    if operator.kind == "gru":
        attributes["linear_before_reset"] = int(operator.resets_after)
    roles = ("matrix", "recurrent matrix", "bias", "", "state", "cell")
    constants = [(role, place.weights[role]) if role in place.weights else None for role in roles]
    while constants[-1] is None:
        constants.pop()
    output = {"all": 0, "last": 1, "cell": 2}[operator.gives]
    frames = NodePiece(op_type="Reshape", constants=(integers("frames", place.inputs[0].dims),))
    layer = NodePiece(
        op_type=RECURRENCES[operator.kind],
        constants=tuple(constants),
        attributes=attributes,
        output=output,
        outputs=3 if operator.kind == "lstm" else 2,
    )
    return [frames, layer, reshaped(place.output.dims)]


WRITERS: Mapping[type, Callable[[Any, WritingPlace], Pieces]] = {
    op.Choice: _choice,
    op.ConstantConcatenation: _joined,
    op.ExtremePlace: _extreme_place,
    op.Gather: _gather,
    op.Ranking: _ranking,
    op.Recurrence: _recurrence,
    op.Repeat: _repeat,
    op.RunningSum: _running_sum,
    op.TensorProduct: _tensor_product,
}


OP_TYPES = {function: (op_type, names) for op_type, (function, names) in elementwise.PLAIN.items()}
VARIADIC = {"add": "Sum", "mean": "Mean", "maximum": "Max", "minimum": "Min"}
BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "power": "Pow",
}
COORDINATES = {ours: theirs for theirs, ours in windows.COORDINATES.items()}
ROUNDINGS = {ours: theirs for theirs, ours in windows.ROUNDINGS.items()}
REDUCTIONS = {ours: theirs for theirs, ours in normalizations.REDUCTIONS.items()}


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


Padding = tuple[int, int, int, int]


def pad_piece(padding: Padding, *, mode: str = "constant", value: float = 0.0) -> NodePiece:
    """Return a node that adds rows and columns, or cuts off where negative."""
    top, left, bottom, right = padding
    pads = np.array([0, 0, top, left, 0, 0, bottom, right], dtype=np.int64)
    constants: tuple[Constant, ...] = (("pads", pads),)
    if mode == "constant":
        constants = (*constants, ("value", np.array(value, dtype=np.float32)))
    return NodePiece(op_type="Pad", constants=constants, attributes={"mode": mode})


def convolution(operator: op.Convolution, weights: tuple[Constant, ...]) -> list[NodePiece]:
    """Return the nodes of a convolution; rows of an overhang are zero, as those of padding are."""
    attributes = _attributes(_overhang_as_padding(operator.window)) | {"group": operator.groups}
    piece = NodePiece(op_type="Conv", constants=weights, attributes=attributes)
    return [*_crop(operator.window), piece]


def transposed_convolution(
    operator: op.TransposedConvolution, weights: tuple[Constant, ...]
) -> list[NodePiece]:
    """Return the node of a transposed convolution."""
    window = operator.window
    if min(window.padding) < 0 or any(window.overhang):
        raise InvalidNetwork(
            "a transposed convolution with negative padding or an overhang has no ONNX node"
        )
    attributes = _attributes(window) | {
        "group": operator.groups,
        "output_padding": list(operator.extra),
    }
    return [NodePiece(op_type="ConvTranspose", constants=weights, attributes=attributes)]


def pooling(operator: op.Pooling, shape: Shape) -> list[NodePiece]:
    """Return the nodes of a pooling; an overhang becomes ceil mode, or padding that counts not."""
    window, is_average = operator.window, operator.function == "average"
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    kept = (shape.height + top + bottom, shape.width + left + right)
    padded = _positive(window)
    ceils = any(window.overhang) and ceil_overhang(kept, padded) == window.overhang
    if any(window.overhang) and not ceils and is_average and operator.counts_padding:
        raise InvalidNetwork(f"an overhang of {window.overhang} has no ONNX node")
    attributes = _attributes(padded if ceils else _overhang_as_padding(window))
    attributes |= {"kernel_shape": list(window.kernel), "ceil_mode": int(ceils)}
    if is_average:
        attributes["count_include_pad"] = int(operator.counts_padding)
    piece = NodePiece(op_type="AveragePool" if is_average else "MaxPool", attributes=attributes)
    return [*_crop(window), piece]


def _crop(window: op.Window) -> list[NodePiece]:
    """Return a node that cuts off what negative padding leaves out."""
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    return [pad_piece((top, left, bottom, right))] if any((top, left, bottom, right)) else []


def _positive(window: op.Window) -> op.Window:
    top, left, bottom, right = (max(amount, 0) for amount in window.padding)
    return replace(window, padding=(top, left, bottom, right))


def _overhang_as_padding(window: op.Window) -> op.Window:
    top, left, bottom, right = _positive(window).padding
    below, beside = window.overhang
    return replace(window, padding=(top, left, bottom + below, right + beside), overhang=(0, 0))


def _attributes(window: op.Window) -> dict[str, Any]:
    return {
        "strides": list(window.stride),
        "dilations": list(window.dilation),
        "pads": list(window.padding),
    }
