"""The ONNX nodes of each operator: a writer for each class, which returns the tensor of its result.

A writer adds nodes from the inputs to the result, each after those that it reads; the last node it adds
writes the result. An operator that ONNX lacks is several nodes: SiLU(x) is Mul(Sigmoid(x), x).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from string import ascii_letters
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.geometry import ceil_overhang
from cnn2csdf.onnx_files.conversion import elementwise, normalizations, windows
from cnn2csdf.onnx_files.graph_builder import BOOL, FLOAT, INTEGER, OperatorNodes
from cnn2csdf.weights import Array
from csdf.errors import InvalidNetwork

COMPARISONS = {
    "greater": "Greater",
    "greater or equal": "GreaterOrEqual",
    "less": "Less",
    "less or equal": "LessOrEqual",
    "equal": "Equal",
}
LOGIC = {"and": "Mul", "or": "Max", "exclusive or": "Sub"}  # of numbers that are 0 or 1
OP_TYPES = {function: (op_type, names) for op_type, (function, names) in elementwise.PLAIN.items()}
VARIADIC = {"add": "Sum", "mean": "Mean", "maximum": "Max", "minimum": "Min"}
BINARY = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow"}
COORDINATES = {ours: theirs for theirs, ours in windows.COORDINATES.items()}
ROUNDINGS = {ours: theirs for theirs, ours in windows.ROUNDINGS.items()}
REDUCTIONS = {ours: theirs for theirs, ours in normalizations.REDUCTIONS.items()}
CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations of the axes of a map

Writer = Callable[[Any, OperatorNodes], str]


def _plain(op_type: str, **fields: str) -> Writer:
    """Writer of a single node that reads all weights. fields: attribute=field of the operator."""

    def write(operator: op.Operator, nodes: OperatorNodes) -> str:
        attributes = {name: getattr(operator, field) for name, field in fields.items()}
        if "axis" in attributes:
            attributes["axis"] += 1  # the batch axis is first
        return nodes.node(op_type, *nodes.inputs, *nodes.trained(), **attributes)

    return write


def _activation(operator: op.Activation, nodes: OperatorNodes) -> str:
    (source,) = nodes.inputs
    match operator.function:
        case "silu":
            return nodes.node("Mul", nodes.node("Sigmoid", source), source)
        case "gelu":
            return nodes.node("Gelu", source)
        case "gelu tanh":
            return nodes.node("Gelu", source, approximate="tanh")
        case "rsqrt":
            return nodes.node("Reciprocal", nodes.node("Sqrt", source))
        case "truncate":
            return nodes.cast(nodes.cast(source, INTEGER), FLOAT)
        case "is not zero":
            return nodes.cast(nodes.cast(source, BOOL), FLOAT)
        case "not":
            return nodes.cast(nodes.node("Not", nodes.cast(source, BOOL)), FLOAT)
        case "zero for nan":
            is_nan = nodes.node("IsNaN", source)
            return nodes.node("Where", is_nan, nodes.number("zero", 0), source)
        case "clip":
            limits = zip(("low", "high"), operator.parameters, strict=True)
            constants = [
                nodes.number(role, limit) if isfinite(limit) else "" for role, limit in limits
            ]
            return nodes.node("Clip", source, *constants)
        case "prelu":
            slope = nodes.weights["slope"]
            column = slope.reshape(-1, *(1 for _ in nodes.output.dims[1:]))
            return nodes.node("PRelu", source, nodes.constant("slope", column))
    op_type, names = OP_TYPES[operator.function]
    parameters = zip(names, operator.parameters, strict=True)
    attributes: dict[str, Any] = {name: value for (name, _), value in parameters}
    return nodes.node(op_type, source, **attributes)


def _elementwise(operator: op.Elementwise, nodes: OperatorNodes) -> str:
    function = operator.function
    if function == "squared difference":
        difference = _combination("subtract", operator, nodes)
        return nodes.node("Pow", difference, nodes.number("exponent", 2))
    if function == "floor divide":
        return nodes.node("Floor", _combination("divide", operator, nodes))
    if function in COMPARISONS or function == "not equal":
        compared = _comparison(operator, nodes)
        return nodes.cast(compared, FLOAT)
    if function in LOGIC:
        if len(nodes.inputs) != 2:
            raise InvalidNetwork(f"{function!r} of a constant has no ONNX node")
        signed = nodes.node(LOGIC[function], *nodes.inputs)
        return nodes.cast(nodes.cast(nodes.node("Abs", signed), BOOL), FLOAT)
    return _combination(function, operator, nodes)


def _comparison(operator: op.Elementwise, nodes: OperatorNodes) -> str:
    """Nodes whose result is a truth value."""
    first, second = _all_operands(operator, nodes)
    if operator.function == "not equal":
        return nodes.node("Not", nodes.node("Equal", first, second))
    return nodes.node(COMPARISONS[operator.function], first, second)


def _all_operands(operator: op.Elementwise, nodes: OperatorNodes) -> list[str]:
    """Return the names of inputs and the constant, in the order of the function."""
    constants = [nodes.constant(role, nodes.with_batch(a)) for role, a in nodes.weights.items()]
    return [*constants, *nodes.inputs] if operator.constant_first else [*nodes.inputs, *constants]


def _combination(function: str, operator: op.Elementwise, nodes: OperatorNodes) -> str:
    """Nodes of an arithmetic function: a single one, or a chain over the inputs, constant last."""
    total = len(nodes.inputs) + len(nodes.weights)
    if function in VARIADIC and total != 2:
        return nodes.node(VARIADIC[function], *_all_operands(operator, nodes))
    op_type = BINARY.get(function) or VARIADIC.get(function)
    if op_type is None:
        raise InvalidNetwork(f"{function!r} of floating point has no ONNX node")
    if operator.constant_first and total != 2:
        raise InvalidNetwork(
            f"{function} of a constant and {len(nodes.inputs)} inputs has no ONNX node"
        )
    result, *rest = _all_operands(operator, nodes)
    for operand in rest:
        result = nodes.node(op_type, result, operand)
    return result


def _choice(operator: op.Choice, nodes: OperatorNodes) -> str:
    """The condition is a truth value: operand 0, an input or a constant."""
    is_constant = any(position == 0 for position, _ in operator.constants)
    if not is_constant:
        condition, *rest = nodes.inputs
        nodes = replace(nodes, inputs=[nodes.cast(condition, BOOL), *rest])
    operands = nodes.operands(
        operator.constants,
        lambda position, array: nodes.with_batch(array != 0 if position == 0 else array),
    )
    return nodes.node("Where", *operands)


def _tensor_product(operator: op.TensorProduct, nodes: OperatorNodes) -> str:
    """The batch of one is a letter of its own."""
    letters = set("".join(operator.terms))
    batch = next(ascii_letter for ascii_letter in ascii_letters if ascii_letter not in letters)
    trained = [position for position, _ in operator.constants]
    terms = ",".join(
        term if position in trained else batch + term
        for position, term in enumerate(operator.terms)
    )
    operands = nodes.operands(operator.constants, lambda _, array: array)
    product = nodes.node("Einsum", *operands, equation=f"{terms}->{batch}{operator.result}")
    return product if operator.result else nodes.reshape(product, nodes.output.dims)


def _constant_concatenation(operator: op.ConstantConcatenation, nodes: OperatorNodes) -> str:
    operands = nodes.operands(operator.constants, lambda _, array: array[None])
    return nodes.node("Concat", *operands, axis=operator.axis + 1)


def _embedding(_: op.Embedding, nodes: OperatorNodes) -> str:
    return _look_up(nodes.weights["table"], nodes)


def _scaled_embedding(operator: op.ScaledEmbedding, nodes: OperatorNodes) -> str:
    """The table is one of floating point: each row times its scale."""
    table = nodes.weights["table"] * np.array(operator.scales, np.float32)[:, None]
    return _look_up(table, nodes)


def _look_up(table: Array, nodes: OperatorNodes) -> str:
    """Nodes that read an entry of the table for each index in the input."""
    # Gather appends the elements of an entry as last axis: batch, channels, rows, columns, elements. In
    # the output the elements of all channels are channels.
    indices = nodes.cast(nodes.inputs[0], INTEGER)
    entries = nodes.node("Gather", nodes.constant("table", table), indices)
    return nodes.reshape(nodes.transpose(entries, 0, 1, 4, 2, 3), nodes.output.dims)


def _recurrence(operator: op.Recurrence, nodes: OperatorNodes) -> str:
    """The sequence and the states, inputs or constants, have no batch axis in ONNX."""
    if operator.cell_limit is not None:
        raise InvalidNetwork("a recurrence with a limit of its cells has no ONNX node")
    attributes: dict[str, Any] = {"hidden_size": operator.units, "direction": operator.direction}
    if operator.kind == "gru":
        attributes["linear_before_reset"] = int(operator.resets_after)
    sequence, *initial = (
        nodes.node("Reshape", tensor, nodes.integers("frames", *shape.dims))
        for tensor, shape in zip(nodes.inputs, nodes.shapes, strict=True)
    )
    states = dict(zip(operator.given, initial, strict=True))
    operands = []
    for role in ("matrix", "recurrent matrix", "bias", "lengths", "state", "cell"):
        constant = nodes.weights.get(role)
        operands.append(
            states.get(role, "") if constant is None else nodes.constant(role, constant)
        )
    while not operands[-1]:
        operands.pop()
    result = nodes.node(
        operator.kind.upper(),
        sequence,
        *operands,
        outputs=3 if operator.kind == "lstm" else 2,
        result={"all": 0, "last": 1, "cell": 2}[operator.gives],
        **attributes,
    )
    return nodes.reshape(result, nodes.output.dims)


def _resize(operator: op.Resize, nodes: OperatorNodes) -> str:
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
    # Inputs of the node: the map, a region that this mode leaves out, scales or else the size.
    if operator.scales is not None:
        scales = np.array([1, 1, *operator.scales], dtype=np.float32)
        scaling = [nodes.constant("scales", scales)]
    else:
        scaling = ["", nodes.integers("size", 1, *nodes.output.dims)]
    return nodes.node("Resize", nodes.inputs[0], "", *scaling, **attributes)


def _space_to_depth(operator: op.SpaceToDepth, nodes: OperatorNodes) -> str:
    (source,), block = nodes.inputs, operator.block
    if operator.order == "block first":
        return nodes.node("SpaceToDepth", source, blocksize=block)
    channels, height, width = nodes.shapes[0].dims
    if channels % block**2:
        raise InvalidNetwork(f"{channels} channels are no multiple of {block**2}")
    large = nodes.reshape(source, (channels // block**2, height * block, width * block))
    gathered = nodes.node("SpaceToDepth", large, blocksize=block)
    return nodes.reshape(gathered, nodes.output.dims)


def _depth_to_space(operator: op.DepthToSpace, nodes: OperatorNodes) -> str:
    mode = {"block first": "DCR", "channel first": "CRD"}[operator.order]
    return nodes.node("DepthToSpace", *nodes.inputs, blocksize=operator.block, mode=mode)


def _channel_shuffle(operator: op.ChannelShuffle, nodes: OperatorNodes) -> str:
    channels, height, width = dims = nodes.output.dims
    groups = (operator.groups, channels // operator.groups, height, width)
    cut = nodes.reshape(nodes.inputs[0], groups)
    return nodes.reshape(nodes.transpose(cut, 0, 2, 1, 3, 4), dims)


def _softmax(operator: op.Softmax, nodes: OperatorNodes) -> str:
    (source,) = nodes.inputs
    op_type = "LogSoftmax" if operator.is_logarithm else "Softmax"
    axis, dims = operator.axis, nodes.output.dims
    if operator.last in (None, axis):
        return nodes.node(op_type, source, axis=axis + 1)
    if operator.last != len(dims) - 1:
        raise InvalidNetwork(f"a softmax over the axes {axis} to {operator.last} of {len(dims)}")
    flat = nodes.reshape(source, (*dims[:axis], -1))
    return nodes.reshape(nodes.node(op_type, flat, axis=-1), dims)


def _reduction(operator: op.Reduction, nodes: OperatorNodes) -> str:
    is_full = len(operator.axes) == len(nodes.shapes[0].dims) and not operator.keeps
    axes = nodes.integers("axes", *(axis + 1 for axis in operator.axes))
    op_type = REDUCTIONS[operator.function]
    reduced = nodes.node(op_type, *nodes.inputs, axes, keepdims=int(operator.keeps or is_full))
    return nodes.reshape(reduced, nodes.output.dims) if is_full else reduced


def _padded(
    nodes: OperatorNodes,
    padding: tuple[int, int, int, int],
    *,
    mode: str = "constant",
    value: float = 0.0,
    channels: tuple[int, int] = (0, 0),
) -> str:
    """A node that adds channels, rows and columns to the input, or cuts off where negative."""
    if mode == "symmetric":
        raise InvalidNetwork("padding that repeats the border in the mirror has no ONNX node")
    top, left, bottom, right = padding
    first, last = channels
    constants = [nodes.integers("pads", 0, first, top, left, 0, last, bottom, right)]
    if mode == "constant":
        constants.append(nodes.number("value", value))
    return nodes.node("Pad", nodes.inputs[0], *constants, mode=mode)


def _pad(operator: op.Pad, nodes: OperatorNodes) -> str:
    mode, value, channels = operator.mode, operator.value, operator.channels
    return _padded(nodes, operator.padding, mode=mode, value=value, channels=channels)


def _cropped(window: op.Window, nodes: OperatorNodes) -> str:
    """The input of a window without the rows and columns that negative padding cuts off."""
    if min(window.padding) >= 0:
        return nodes.inputs[0]
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    return _padded(nodes, (top, left, bottom, right))


def _without_negative_padding(window: op.Window) -> op.Window:
    top, left, bottom, right = (max(amount, 0) for amount in window.padding)
    return replace(window, padding=(top, left, bottom, right))


def _overhang_as_padding(window: op.Window) -> op.Window:
    top, left, bottom, right = _without_negative_padding(window).padding
    below, beside = window.overhang
    return replace(window, padding=(top, left, bottom + below, right + beside), overhang=(0, 0))


def _attributes(window: op.Window) -> dict[str, Any]:
    return {
        "strides": list(window.stride),
        "dilations": list(window.dilation),
        "pads": list(window.padding),
    }


def _convolution(operator: op.Convolution, nodes: OperatorNodes) -> str:
    """An overhang becomes padding: rows and columns of both are zero."""
    attributes = _attributes(_overhang_as_padding(operator.window)) | {"group": operator.groups}
    return nodes.node("Conv", _cropped(operator.window, nodes), *nodes.trained(), **attributes)


def _transposed_convolution(operator: op.TransposedConvolution, nodes: OperatorNodes) -> str:
    window = operator.window
    if min(window.padding) < 0 or any(window.overhang):
        raise InvalidNetwork(
            "a transposed convolution with negative padding or an overhang has no ONNX node"
        )
    attributes = _attributes(window) | {"group": operator.groups}
    attributes["output_padding"] = list(operator.extra)
    return nodes.node("ConvTranspose", *nodes.inputs, *nodes.trained(), **attributes)


def _pooling(operator: op.Pooling, nodes: OperatorNodes) -> str:
    """An overhang becomes ceil_mode=1 where ONNX then computes the same overhang, otherwise padding.

    Padding is no substitute in an average that counts its padding: an overhang never counts.
    """
    window, is_average = operator.window, operator.function == "average"
    shape = nodes.shapes[0]
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    cropped_size = (shape.height + top + bottom, shape.width + left + right)
    padded = _without_negative_padding(window)
    ceils = any(window.overhang) and ceil_overhang(cropped_size, padded) == window.overhang
    if any(window.overhang) and not ceils and is_average and operator.counts_padding:
        raise InvalidNetwork(f"an overhang of {window.overhang} has no ONNX node")
    attributes = _attributes(padded if ceils else _overhang_as_padding(window))
    attributes |= {"kernel_shape": list(window.kernel), "ceil_mode": int(ceils)}
    if is_average:
        attributes["count_include_pad"] = int(operator.counts_padding)
    op_type = "AveragePool" if is_average else "MaxPool"
    return nodes.node(op_type, _cropped(window, nodes), **attributes)


def _ranking(operator: op.Ranking, nodes: OperatorNodes) -> str:
    count, largest = nodes.integers("count", operator.count), int(operator.takes_largest)
    # The outputs of TopK are the elements and their positions.
    ranked = nodes.node(
        "TopK",
        *nodes.inputs,
        count,
        outputs=2,
        result=int(operator.gives_places),
        axis=operator.axis + 1,
        largest=largest,
    )
    return nodes.cast(ranked, FLOAT) if operator.gives_places else ranked


def _repeat(operator: op.Repeat, nodes: OperatorNodes) -> str:
    times = [1] * (1 + len(nodes.output.dims))
    times[operator.axis + 1] = operator.times
    return nodes.node("Tile", *nodes.inputs, nodes.integers("times", *times))


def _running_sum(operator: op.RunningSum, nodes: OperatorNodes) -> str:
    axis = nodes.constant("axis", np.array(operator.axis + 1, np.int64))
    is_exclusive, is_reversed = int(operator.is_exclusive), int(operator.is_reversed)
    return nodes.node("CumSum", *nodes.inputs, axis, exclusive=is_exclusive, reverse=is_reversed)


def _slice(operator: op.Slice, nodes: OperatorNodes) -> str:
    values = (operator.start, operator.stop, operator.axis + 1, operator.step)
    roles = ("start", "stop", "axis", "step")
    limits = [nodes.integers(role, value) for role, value in zip(roles, values, strict=True)]
    return nodes.node("Slice", *nodes.inputs, *limits)


def _gather(operator: op.Gather, nodes: OperatorNodes) -> str:
    places = nodes.integers("places", *operator.places)
    return nodes.node("Gather", *nodes.inputs, places, axis=operator.axis + 1)


def _gather_points(_: op.GatherPoints, nodes: OperatorNodes) -> str:
    source, points = nodes.inputs
    return nodes.node("GatherND", source, nodes.cast(points, INTEGER), batch_dims=1)


def _extreme_place(operator: op.ExtremePlace, nodes: OperatorNodes) -> str:
    op_type, takes_last = f"Arg{operator.function.capitalize()}", int(operator.takes_last)
    selected = nodes.node(
        op_type, *nodes.inputs, axis=operator.axis + 1, keepdims=1, select_last_index=takes_last
    )
    return nodes.cast(selected, FLOAT)


def _fully_connected(_: op.FullyConnected, nodes: OperatorNodes) -> str:
    (source,) = nodes.inputs
    vector = source if len(nodes.shapes[0].dims) == 1 else nodes.node("Flatten", source)
    return nodes.node("Gemm", vector, *nodes.trained(), transB=1)


def _matrix_product(_: op.MatrixProduct, nodes: OperatorNodes) -> str:
    # The matrix is an input of the layer or trained; only a product by a trained matrix has a bias.
    trained = nodes.trained()
    product = nodes.node("MatMul", *nodes.inputs, *trained[:1])
    return nodes.node("Add", product, *trained[1:]) if trained[1:] else product


def reinterpreted(nodes: OperatorNodes, dims: Sequence[int]) -> str:
    """Nodes that read the elements of the input in memory order as a tensor of other dims.

    The memory order of a map, which has three dims, is pixel by pixel.
    """
    (tensor,) = nodes.inputs
    if nodes.shapes[0].is_map:
        tensor = nodes.transpose(tensor, *CHANNELS_LAST)
    if len(dims) != 3:
        return nodes.reshape(tensor, dims)
    channels, height, width = dims
    return nodes.transpose(nodes.reshape(tensor, (height, width, channels)), *CHANNELS_FIRST)


def _layer_normalization(operator: op.LayerNormalization, nodes: OperatorNodes) -> str:
    if operator.last is None:
        return _plain("LayerNormalization", axis="axis", epsilon="epsilon")(operator, nodes)
    if (operator.axis, operator.last) != (0, 0):
        raise InvalidNetwork(f"a normalisation over the axes {operator.axis} to {operator.last}")
    pixels = nodes.transpose(nodes.inputs[0], *CHANNELS_LAST)
    normalized = nodes.node(
        "LayerNormalization", pixels, *nodes.trained(), axis=-1, epsilon=operator.epsilon
    )
    return nodes.transpose(normalized, *CHANNELS_FIRST)


def _place_order(operator: op.PlaceOrder, nodes: OperatorNodes) -> str:
    split = nodes.reshape(nodes.inputs[0], (nodes.output.channels, *operator.sizes))
    permuted = nodes.transpose(split, 0, 1, *(axis + 2 for axis in operator.permutation))
    return nodes.reshape(permuted, nodes.output.dims)


def _attention(operator: op.AttentionProduct, nodes: OperatorNodes) -> str:
    """Matrix product of both operands as heads x groups x tokens x elements of a head.

    An operand has the axes batch, channels, rows (tokens), width: a column for each head, or a single
    column, in which the channels are ordered by head. The result has a column for each head.
    """
    heads, groups, matrices = operator.heads, operator.groups, []
    for tensor, shape in zip(nodes.inputs, nodes.shapes, strict=True):
        channels, rows, width = shape.dims
        elements = channels * width // heads  # of a head
        if width == heads:
            by_head = nodes.transpose(tensor, 0, 3, 1, 2)
        else:
            by_head = nodes.reshape(tensor, (heads, elements, rows))
        tokens = nodes.transpose(by_head, 0, 1, 3, 2)
        matrices.append(nodes.reshape(tokens, (heads, groups, rows // groups, elements)))
        if operator.gives == "scores" and len(matrices) == 2:
            matrices[1] = nodes.transpose(matrices[1], 0, 1, 2, 4, 3)
    channels, rows, _ = nodes.output.dims
    product = nodes.node("MatMul", *matrices)
    return nodes.transpose(nodes.reshape(product, (heads, rows, channels)), 0, 3, 2, 1)


def _global_pooling(operator: op.GlobalPooling, nodes: OperatorNodes) -> str:
    return nodes.node(f"Global{operator.function.capitalize()}Pool", *nodes.inputs)


def _identity(operator: op.Identity, nodes: OperatorNodes) -> str:
    return nodes.node("Dropout" if operator.kind == "dropout" else "Identity", *nodes.inputs)


def _transpose(operator: op.Transpose, nodes: OperatorNodes) -> str:
    return nodes.transpose(nodes.inputs[0], 0, *(1 + axis for axis in operator.permutation))


WRITERS: Mapping[type, Writer] = {
    op.Activation: _activation,
    op.AttentionProduct: _attention,
    op.BatchNormalization: _plain("BatchNormalization", epsilon="epsilon"),
    op.ChannelShuffle: _channel_shuffle,
    op.Choice: _choice,
    op.Concatenation: _plain("Concat", axis="axis"),
    op.ConstantConcatenation: _constant_concatenation,
    op.Convolution: _convolution,
    op.DepthToSpace: _depth_to_space,
    op.Elementwise: _elementwise,
    op.Embedding: _embedding,
    op.ExtremePlace: _extreme_place,
    op.FullyConnected: _fully_connected,
    op.Gather: _gather,
    op.GatherPoints: _gather_points,
    op.GlobalPooling: _global_pooling,
    op.Identity: _identity,
    op.InstanceNormalization: _plain("InstanceNormalization", epsilon="epsilon"),
    op.LayerNormalization: _layer_normalization,
    op.LocalResponseNormalization: _plain(
        "LRN", size="size", alpha="alpha", beta="beta", bias="bias"
    ),
    op.MatrixProduct: _matrix_product,
    op.Pad: _pad,
    op.PlaceOrder: _place_order,
    op.Pooling: _pooling,
    op.Ranking: _ranking,
    op.Recurrence: _recurrence,
    op.Reduction: _reduction,
    op.Repeat: _repeat,
    op.Reshape: lambda operator, nodes: nodes.reshape(nodes.inputs[0], operator.dims),
    op.Resize: _resize,
    op.RunningSum: _running_sum,
    op.ScaledEmbedding: _scaled_embedding,
    op.Slice: _slice,
    op.Softmax: _softmax,
    op.SpaceToDepth: _space_to_depth,
    op.TensorProduct: _tensor_product,
    op.Transpose: _transpose,
    op.TransposedConvolution: _transposed_convolution,
    op.View: lambda operator, nodes: reinterpreted(nodes, operator.dims),
}
"""Writers by operator class; ONNX cannot express the other classes."""
