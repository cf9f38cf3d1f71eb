"""Writing a network as an ONNX model: the nodes of each operator, with a batch of one as first axis.

Every tensor of the layers is written as float; truth values and integers are cast before and after the
nodes that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from string import ascii_letters
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.geometry import ceil_overhang
from cnn2csdf.network import Layer, Shape
from cnn2csdf.onnx_files.conversion import elementwise, normalizations, windows
from cnn2csdf.onnx_files.model_file import LARGEST_MESSAGE_BYTES
from cnn2csdf.operators.operands import Constants, constant_role
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
    builder = _GraphBuilder(layer.name for layer in model.network.layers)
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
            builder.add_layer(layer, inputs, model.weights.get(layer.name, {}), tensors)
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


Constant = tuple[str, NDArray[Any]]  # role, value
NOTHING = np.empty(0)  # value of an omitted input


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenNode:
    """A node of the chain that replaces an operator; each node reads the output of the node before it.

    Three chains, with x, y for inputs of the layer and a, b for outputs of nodes:

        [node("Sigmoid"), node("Mul", reads=(0,))]              a = Sigmoid(x); Mul(a, x)
        [node("IsNaN"), node("Where", ("zero", zero), reads=(0,), order=(0, 2, 1))]
                                            a = IsNaN(x); Where(a, zero, x): of a, x, zero in this order
        [node("Transpose", reads=(0,)), replace(node("Transpose", reads=(1,)), starts=True),
        replace(node("MatMul"), joins=True)]
                                            a = Transpose(x); b = Transpose(y); MatMul(a, b)

    constants: read after the tensors; None is an omitted input.
    reads: indices of the inputs of the layer that the node reads in addition; by default the first
    node reads all, a later node none.
    order: for each input of the node, its index among outputs of nodes, inputs of the layer, constants;
    by default in this order.
    output, outputs: index of the output that the next node reads, and the number of outputs.
    starts: the node begins a second branch: it does not read the output of the node before it, which
    waits until a node joins it.
    joins: the node reads the outputs of all branches, oldest first, not only the last output.
    """

    op_type: str
    constants: tuple[Constant | None, ...]
    attributes: Mapping[str, Any]
    reads: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None
    output: int = 0
    outputs: int = 1
    starts: bool = False
    joins: bool = False


Nodes = list[WrittenNode]


def node(
    op_type: str,
    *constants: Constant | None,
    reads: tuple[int, ...] | None = None,
    order: tuple[int, ...] | None = None,
    **attributes: Any,
) -> WrittenNode:
    """Return a node of a type with constants and attributes."""
    return WrittenNode(
        op_type=op_type, constants=constants, attributes=attributes, reads=reads, order=order
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operands:
    """The shapes that an operator reads and writes, and its weights by role."""

    inputs: tuple[Shape, ...]
    output: Shape
    weights: Mapping[str, Array]

    def trained(self) -> tuple[Constant, ...]:
        """Return all weights; the order of their names in the operator is that of ONNX."""
        return tuple(self.weights.items())

    def with_batch(self, array: Array) -> Array:
        """Return a constant, with a batch axis if it has as many axes as the output."""
        return array[None] if array.ndim == len(self.output.dims) else array


class _GraphBuilder:
    """Collects nodes and constants, with unique names."""

    def __init__(self, names: Iterable[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._names = set(names)
        self._shared: dict[tuple[str, tuple[int, ...]], str] = {}  # stored name, dims: constant

    def _free_name(self, wanted: str) -> str:
        """Reserve and return the name, with a number appended if the name exists."""
        name = free_name(wanted, self._names)
        self._names.add(name)
        return name

    def add_layer(
        self,
        layer: Layer,
        inputs: tuple[Shape, ...],
        weights: Mapping[str, Array],
        tensors: Mapping[str, str],
    ) -> None:
        """Add the nodes of a layer. Raises InvalidNetwork for an operator that ONNX lacks."""
        read = [tensors[source] for source in layer.inputs]
        match layer.operator:
            case op.Input(file_dims=None):
                return
            case op.Input(file_dims=tuple(dims)):
                nodes = _reinterpreted(Shape(dims=dims), layer.shape.dims)
                self._add(nodes, [layer.name], tensors[layer.name], f"{layer.name} seen", {})
                return
            case op.Output(dims=None):
                if read[0] != layer.name:
                    copy = self._free_name(f"{layer.name} copy")
                    self.nodes.append(helper.make_node("Identity", read, [layer.name], name=copy))
                return
            case op.Output(dims=tuple(dims)):
                nodes = _reinterpreted(inputs[0], dims)
                self._add(nodes, read, layer.name, f"{layer.name} seen", {})
                return
        chain = (layer.operator, *layer.epilogue)
        for step, operator in enumerate(chain):
            is_last = step == len(chain) - 1
            name = layer.name if step == 0 else self._free_name(f"{layer.name}.{step - 1}")
            target = tensors[layer.name] if is_last else self._free_name(f"{layer.name} {step}")
            prefix = "" if step == 0 else f"{step - 1}."
            step_weights = {
                role: np.asarray(weights[prefix + role], dtype=np.float32)
                for role in operator.trained(inputs)
                if prefix + role in weights
            }
            constant_names = {
                constant.role.removeprefix(prefix): constant.name
                for constant in layer.stored
                if constant.name is not None and constant.role.startswith(prefix)
            }
            operands = _Operands(inputs=inputs, output=layer.shape, weights=step_weights)
            if type(operator) not in _WRITERS:
                raise InvalidNetwork(f"ONNX has no operator for {operator.in_words()!r}")
            nodes = _WRITERS[type(operator)](operator, operands)
            self._add(nodes, read, target, name, constant_names)
            read, inputs = [target], (layer.shape,)

    def _add(
        self,
        nodes: Nodes,
        inputs: Sequence[str],
        target: str,
        name: str,
        constant_names: Mapping[str, str],
    ) -> None:
        """Add the nodes of one operator; the last writes `target` and gets the name.

        constant_names: names, by role, of constants that several layers may share.
        """
        # Outputs of the open branches; the last is the output of the previous node.
        open_outputs: list[str] = []
        for position, step in enumerate(nodes):
            is_last = position == len(nodes) - 1
            all_inputs = range(len(inputs)) if position == 0 else ()
            input_indices = all_inputs if step.reads is None else step.reads
            joined = [] if step.starts else open_outputs if step.joins else open_outputs[-1:]
            constants = []
            for constant in step.constants:
                role, value = constant or ("", NOTHING)
                key = (constant_names.get(role, ""), value.shape)
                if constant is None or (role in constant_names and key in self._shared):
                    constants.append("" if constant is None else self._shared[key])
                    continue
                constants.append(self._free_name(f"{name}.{role}"))
                self.constants[constants[-1]] = value
                self._shared[key] = constants[-1]
            node_name = name if is_last else self._free_name(f"{name} {step.op_type.lower()}")
            output = target if is_last else node_name
            open_outputs = [*open_outputs[: len(open_outputs) - len(joined)], output]
            operands = [*joined, *(inputs[index] for index in input_indices), *constants]
            unread = {
                index: self._free_name(f"{output} {index}")
                for index in range(step.outputs)
                if index != step.output
            }
            self.nodes.append(
                helper.make_node(
                    step.op_type,
                    operands if step.order is None else [operands[index] for index in step.order],
                    [unread.get(index, output) for index in range(step.outputs)],
                    name=node_name,
                    **step.attributes,
                )
            )


def _integers(role: str, *values: int) -> Constant:
    return (role, np.array(values, dtype=np.int64))


def _reshaped(dims: Sequence[int]) -> WrittenNode:
    """A reshape to one frame of these dims."""
    return node("Reshape", _integers("dims", 1, *dims))


FLOAT, BOOL, INTEGER = (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64)
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


def _cast(kind: int) -> WrittenNode:
    return node("Cast", to=kind)


def _trained(
    constants: Constants, operands: _Operands
) -> tuple[tuple[Constant, ...], tuple[int, ...]]:
    """Constant operands, and the order of the node for all operands.

    A node lists its tensors before its constants: a constant as operand 0 of 3 has the order (2, 0, 1).
    """
    positions = [position for position, _ in constants]
    total = len(operands.inputs) + len(positions)
    tensors = [position for position in range(total) if position not in positions]
    order = tuple([*tensors, *positions].index(position) for position in range(total))
    return tuple((role, operands.weights[role]) for role in map(constant_role, positions)), order


def _activation(operator: op.Activation, operands: _Operands) -> Nodes:
    match operator.function:
        case "silu":
            return [node("Sigmoid"), node("Mul", reads=(0,))]
        case "gelu":
            return [node("Gelu")]
        case "gelu tanh":
            return [node("Gelu", approximate="tanh")]
        case "rsqrt":
            return [node("Sqrt"), node("Reciprocal")]
        case "truncate":
            return [_cast(INTEGER), _cast(FLOAT)]
        case "is not zero":
            return [_cast(BOOL), _cast(FLOAT)]
        case "not":
            return [_cast(BOOL), node("Not"), _cast(FLOAT)]
        case "zero for nan":
            zero = ("zero", np.array(0, np.float32))
            return [node("IsNaN"), node("Where", zero, reads=(0,), order=(0, 2, 1))]
        case "clip":
            limits = zip(("low", "high"), operator.parameters, strict=True)
            constants = (
                (role, np.array(limit, dtype=np.float32)) if isfinite(limit) else None
                for role, limit in limits
            )
            return [node("Clip", *constants)]
        case "prelu":
            slope = operands.weights["slope"]
            column = slope.reshape(-1, *(1 for _ in operands.output.dims[1:]))
            return [node("PRelu", ("slope", column))]
    op_type, names = OP_TYPES[operator.function]
    attributes_of = zip(names, operator.parameters, strict=True)
    attributes: dict[str, Any] = {name: value for (name, _), value in attributes_of}
    return [node(op_type, **attributes)]


def _elementwise(operator: op.Elementwise, operands: _Operands) -> Nodes:
    function, count = operator.function, len(operands.inputs)
    if function == "squared difference":
        difference = _elementwise(replace(operator, function="subtract"), operands)
        return [*difference, node("Pow", ("exponent", np.array(2, np.float32)))]
    if function == "not equal":
        equal, cast = _elementwise(replace(operator, function="equal"), operands)
        return [equal, node("Not"), cast]
    if function == "floor divide":
        return [*_elementwise(replace(operator, function="divide"), operands), node("Floor")]
    constants = [(role, operands.with_batch(constant)) for role, constant in operands.trained()]
    first = operator.constant_first
    order = (1, 0) if first and constants else None
    if function in COMPARISONS:
        return [node(COMPARISONS[function], *constants, order=order), _cast(FLOAT)]
    if function in LOGIC:
        if count != 2:
            raise InvalidNetwork(f"{function!r} of a constant has no ONNX node")
        return [node(LOGIC[function]), node("Abs"), _cast(BOOL), _cast(FLOAT)]
    if function in VARIADIC and count + len(constants) != 2:
        return [node(VARIADIC[function], *constants)]
    op_type = BINARY.get(function) or VARIADIC.get(function)
    if op_type is None:
        raise InvalidNetwork(f"{function!r} of floating point has no ONNX node")
    if constants and count == 1:
        return [node(op_type, *constants, order=order)]
    if first:
        raise InvalidNetwork(f"{function} of a constant and {count} inputs has no ONNX node")
    rest = [node(op_type, reads=(index,)) for index in range(2, count)]
    with_constant = [node(op_type, *constants)] if constants else []
    return [node(op_type, reads=(0, 1)), *rest, *with_constant]


def _choice(operator: op.Choice, operands: _Operands) -> Nodes:
    """The condition is cast to a truth value; a trained condition is a truth value already."""
    is_trained = [position == 0 for position, _ in operator.constants]
    trained, order = _trained(operator.constants, operands)
    constants = [
        (role, operands.with_batch(array) != 0 if is_condition else operands.with_batch(array))
        for (role, array), is_condition in zip(trained, is_trained, strict=True)
    ]
    if any(is_trained):
        return [node("Where", *constants, order=order)]
    reads = tuple(range(1, 3 - len(constants)))
    return [node("Cast", to=BOOL, reads=(0,)), node("Where", *constants, order=order, reads=reads)]


def _tensor_product(operator: op.TensorProduct, operands: _Operands) -> Nodes:
    """The batch of one is a letter of its own."""
    letters = set("".join(operator.terms))
    batch = next(ascii_letter for ascii_letter in ascii_letters if ascii_letter not in letters)
    constants, order = _trained(operator.constants, operands)
    trained = [index for index, _ in operator.constants]
    terms = ",".join(
        term if index in trained else batch + term for index, term in enumerate(operator.terms)
    )
    equation = f"{terms}->{batch}{operator.result}"
    ends = [] if operator.result else [_reshaped(operands.output.dims)]
    return [node("Einsum", *constants, order=order, equation=equation), *ends]


def _constant_concatenation(operator: op.ConstantConcatenation, operands: _Operands) -> Nodes:
    trained, order = _trained(operator.constants, operands)
    constants = [(role, array[None]) for role, array in trained]
    return [node("Concat", *constants, order=order, axis=operator.axis + 1)]


def _embedding(_: op.Embedding, operands: _Operands) -> Nodes:
    # Gather appends the elements of an entry as last axis: batch, channels, rows, columns, elements. In
    # the output the elements of all channels are channels.
    looked_up = node("Gather", *operands.trained(), order=(1, 0))
    return [_cast(INTEGER), looked_up, _transpose(0, 1, 4, 2, 3), _reshaped(operands.output.dims)]


def _scaled_embedding(operator: op.ScaledEmbedding, operands: _Operands) -> Nodes:
    """Rows of the table in floating point."""
    table = operands.weights["table"] * np.array(operator.scales, np.float32)[:, None]
    return _embedding(operator, replace(operands, weights={"table": table}))


def _recurrence(operator: op.Recurrence, operands: _Operands) -> Nodes:
    attributes: dict[str, Any] = {"hidden_size": operator.units, "direction": operator.direction}
    if operator.kind == "gru":
        attributes["linear_before_reset"] = int(operator.resets_after)
    roles = ("matrix", "recurrent matrix", "bias", "", "state", "cell")
    weights = operands.weights
    constants = [(role, weights[role]) if role in weights else None for role in roles]
    while constants[-1] is None:
        constants.pop()
    layer = replace(
        node(operator.kind.upper(), *constants, **attributes),
        output={"all": 0, "last": 1, "cell": 2}[operator.gives],
        outputs=3 if operator.kind == "lstm" else 2,
    )
    frames = node("Reshape", _integers("frames", *operands.inputs[0].dims))
    return [frames, layer, _reshaped(operands.output.dims)]


def _resize(operator: op.Resize, operands: _Operands) -> Nodes:
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
        return [node("Resize", None, ("scales", scales), **attributes)]
    sizes = _integers("size", 1, *operands.output.dims)
    return [node("Resize", None, None, sizes, **attributes)]


def _space_to_depth(operator: op.SpaceToDepth, operands: _Operands) -> Nodes:
    block = operator.block
    gather = node("SpaceToDepth", blocksize=block)
    if operator.order == "block first":
        return [gather]
    channels, height, width = operands.inputs[0].dims
    if channels % block**2:
        raise InvalidNetwork(f"{channels} channels are no multiple of {block**2}")
    large = _reshaped((channels // block**2, height * block, width * block))
    return [large, gather, _reshaped(operands.output.dims)]


def _channel_shuffle(operator: op.ChannelShuffle, operands: _Operands) -> Nodes:
    channels, height, width = dims = operands.output.dims
    cut = (operator.groups, channels // operator.groups, height, width)
    return [_reshaped(cut), node("Transpose", perm=[0, 2, 1, 3, 4]), _reshaped(dims)]


def _softmax(operator: op.Softmax, operands: _Operands) -> Nodes:
    op_type = "LogSoftmax" if operator.is_logarithm else "Softmax"
    axis, dims = operator.axis, operands.output.dims
    if operator.last in (None, axis):
        return [node(op_type, axis=axis + 1)]
    if operator.last != len(dims) - 1:
        raise InvalidNetwork(f"a softmax over the axes {axis} to {operator.last} of {len(dims)}")
    return [_reshaped((*dims[:axis], -1)), node(op_type, axis=-1), _reshaped(dims)]


def _reduction(operator: op.Reduction, operands: _Operands) -> Nodes:
    is_full = len(operator.axes) == len(operands.inputs[0].dims) and not operator.keeps
    axes = _integers("axes", *(axis + 1 for axis in operator.axes))
    reduced = node(REDUCTIONS[operator.function], axes, keepdims=int(operator.keeps or is_full))
    return [reduced, _reshaped(operands.output.dims)] if is_full else [reduced]


def _padding(
    padding: tuple[int, int, int, int],
    *,
    mode: str = "constant",
    value: float = 0.0,
    channels: tuple[int, int] = (0, 0),
) -> WrittenNode:
    """A node that adds channels, rows and columns, or cuts off where negative."""
    if mode == "symmetric":
        raise InvalidNetwork("padding that repeats the border in the mirror has no ONNX node")
    top, left, bottom, right = padding
    first, last = channels
    constants = [_integers("pads", 0, first, top, left, 0, last, bottom, right)]
    if mode == "constant":
        constants.append(("value", np.array(value, dtype=np.float32)))
    return node("Pad", *constants, mode=mode)


def _convolution(operator: op.Convolution, operands: _Operands) -> Nodes:
    """An overhang becomes padding: rows and columns of both are zero."""
    attributes = _attributes(_overhang_as_padding(operator.window))
    convolution = node("Conv", *operands.trained(), **attributes, group=operator.groups)
    return [*_crop(operator.window), convolution]


def _transposed(operator: op.TransposedConvolution, operands: _Operands) -> Nodes:
    window = operator.window
    if min(window.padding) < 0 or any(window.overhang):
        raise InvalidNetwork(
            "a transposed convolution with negative padding or an overhang has no ONNX node"
        )
    attributes = _attributes(window) | {"group": operator.groups}
    attributes["output_padding"] = list(operator.extra)
    return [node("ConvTranspose", *operands.trained(), **attributes)]


def _pooling(operator: op.Pooling, operands: _Operands) -> Nodes:
    """An overhang becomes ceil_mode=1 where ONNX then computes the same overhang, otherwise padding.

    Padding is no substitute in an average that counts its padding: an overhang never counts.
    """
    window, is_average = operator.window, operator.function == "average"
    shape = operands.inputs[0]
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
    return [*_crop(window), node("AveragePool" if is_average else "MaxPool", **attributes)]


def _crop(window: op.Window) -> Nodes:
    """A node that crops by the negative padding."""
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    return [_padding((top, left, bottom, right))] if min(window.padding) < 0 else []


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


Writer = Callable[[Any, _Operands], Nodes]


def _plain(op_type: str, **fields: str) -> Writer:
    """Writer of a single node that reads all weights. fields: attribute=field of the operator."""

    def written(operator: op.Operator, operands: _Operands) -> Nodes:
        attributes = {name: getattr(operator, field) for name, field in fields.items()}
        if "axis" in attributes:
            attributes["axis"] += 1  # the batch axis is first
        return [node(op_type, *operands.trained(), **attributes)]

    return written


def _ranking(operator: op.Ranking, _: _Operands) -> Nodes:
    count, largest = _integers("count", operator.count), int(operator.takes_largest)
    ranked = node("TopK", count, axis=operator.axis + 1, largest=largest)
    ends = [_cast(FLOAT)] if operator.gives_places else []
    return [replace(ranked, output=int(operator.gives_places), outputs=2), *ends]


def _repeat(operator: op.Repeat, operands: _Operands) -> Nodes:
    times = [1] * (1 + len(operands.output.dims))
    times[operator.axis + 1] = operator.times
    return [node("Tile", _integers("times", *times))]


def _running_sum(operator: op.RunningSum, _: _Operands) -> Nodes:
    axis = ("axis", np.array(operator.axis + 1, np.int64))
    is_exclusive, is_reversed = int(operator.is_exclusive), int(operator.is_reversed)
    return [node("CumSum", axis, exclusive=is_exclusive, reverse=is_reversed)]


def _slice(operator: op.Slice, _: _Operands) -> Nodes:
    values = (operator.start, operator.stop, operator.axis + 1, operator.step)
    roles = ("start", "stop", "axis", "step")
    return [
        node("Slice", *(_integers(*role_values) for role_values in zip(roles, values, strict=True)))
    ]


def _depth_to_space(operator: op.DepthToSpace, _: _Operands) -> Nodes:
    mode = {"block first": "DCR", "channel first": "CRD"}[operator.order]
    return [node("DepthToSpace", blocksize=operator.block, mode=mode)]


def _extreme_place(operator: op.ExtremePlace, _: _Operands) -> Nodes:
    op_type, takes_last = f"Arg{operator.function.capitalize()}", int(operator.takes_last)
    selected = node(op_type, axis=operator.axis + 1, keepdims=1, select_last_index=takes_last)
    return [selected, _cast(FLOAT)]


def _fully_connected(_: op.FullyConnected, operands: _Operands) -> Nodes:
    is_vector = len(operands.inputs[0].dims) == 1
    return [*([] if is_vector else [node("Flatten")]), node("Gemm", *operands.trained(), transB=1)]


def _matrix_product(_: op.MatrixProduct, operands: _Operands) -> Nodes:
    trained = operands.trained()
    return [node("MatMul", *trained[:1]), *(node("Add", bias) for bias in trained[1:])]


CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations of the axes of a map


def _transpose(*order: int) -> WrittenNode:
    return node("Transpose", perm=order)


def _reinterpreted(source: Shape, dims: Sequence[int]) -> Nodes:
    """Nodes that read the elements in memory order (a map pixel by pixel) as a tensor of other dims."""
    nodes = [_transpose(*CHANNELS_LAST)] if source.is_map else []
    if len(dims) != 3:
        return [*nodes, _reshaped(dims)]
    return [*nodes, _reshaped((dims[1], dims[2], dims[0])), _transpose(*CHANNELS_FIRST)]


def _layer_normalization(operator: op.LayerNormalization, operands: _Operands) -> Nodes:
    if operator.last is None:
        return _plain("LayerNormalization", axis="axis", epsilon="epsilon")(operator, operands)
    if (operator.axis, operator.last) != (0, 0):
        raise InvalidNetwork(f"a normalisation over the axes {operator.axis} to {operator.last}")
    inner = node("LayerNormalization", *operands.trained(), axis=-1, epsilon=operator.epsilon)
    return [_transpose(*CHANNELS_LAST), inner, _transpose(*CHANNELS_FIRST)]


def _place_order(operator: op.PlaceOrder, operands: _Operands) -> Nodes:
    channels = operands.output.channels
    order = (0, 1, *(axis + 2 for axis in operator.permutation))
    return [
        _reshaped((channels, *operator.sizes)),
        _transpose(*order),
        _reshaped(operands.output.dims),
    ]


def _attention(operator: op.AttentionProduct, operands: _Operands) -> Nodes:
    """Matrix product of both operands as heads x groups x tokens x elements of a head.

    The second operand is a second branch, which the product joins. An operand has the axes batch,
    channels, rows (tokens), width: a column for each head, or a single column, in which the channels
    are ordered by head. The result has a column for each head.
    """
    heads, groups, nodes = operator.heads, operator.groups, Nodes()
    for index, shape in enumerate(operands.inputs):
        channels, rows, width = shape.dims
        inner = channels * width // heads  # elements of a head
        cut = node("Reshape", _integers("dims", 1, heads, inner, rows), reads=(index,))
        # Both alternatives have the axes batch or 1, heads, elements, tokens.
        permuted = node("Transpose", reads=(index,), perm=(0, 3, 1, 2))
        begin = permuted if width == heads else cut
        nodes += [replace(begin, starts=index > 0), _transpose(0, 1, 3, 2)]
        nodes += [_reshaped((heads, groups, rows // groups, inner))]
        nodes += [_transpose(0, 1, 2, 4, 3)] if index and operator.gives == "scores" else []
    channels, rows, _ = operands.output.dims
    nodes += [replace(node("MatMul"), joins=True), _reshaped((heads, rows, channels))]
    return [*nodes, _transpose(0, 3, 2, 1)]


_WRITERS: Mapping[type, Writer] = {
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
    op.Gather: lambda operator, _: [
        node("Gather", _integers("places", *operator.places), axis=operator.axis + 1)
    ],
    op.GatherPoints: lambda _operator, _operands: [
        node("Cast", to=INTEGER, reads=(1,)),
        node("GatherND", reads=(0,), order=(1, 0), batch_dims=1),
    ],
    op.GlobalPooling: lambda operator, _: [node(f"Global{operator.function.capitalize()}Pool")],
    op.Identity: lambda operator, _: [
        node("Dropout" if operator.kind == "dropout" else "Identity")
    ],
    op.InstanceNormalization: _plain("InstanceNormalization", epsilon="epsilon"),
    op.LayerNormalization: _layer_normalization,
    op.LocalResponseNormalization: _plain(
        "LRN", size="size", alpha="alpha", beta="beta", bias="bias"
    ),
    op.MatrixProduct: _matrix_product,
    op.Pad: lambda operator, _: [
        _padding(
            operator.padding, mode=operator.mode, value=operator.value, channels=operator.channels
        )
    ],
    op.PlaceOrder: _place_order,
    op.Pooling: _pooling,
    op.Ranking: _ranking,
    op.Recurrence: _recurrence,
    op.Reduction: _reduction,
    op.Repeat: _repeat,
    op.Reshape: lambda operator, _: [_reshaped(operator.dims)],
    op.Resize: _resize,
    op.RunningSum: _running_sum,
    op.ScaledEmbedding: _scaled_embedding,
    op.Slice: _slice,
    op.Softmax: _softmax,
    op.SpaceToDepth: _space_to_depth,
    op.TensorProduct: _tensor_product,
    op.Transpose: lambda operator, _: [
        node("Transpose", perm=[0, *(1 + axis for axis in operator.permutation)])
    ],
    op.TransposedConvolution: _transposed,
    op.View: lambda operator, operands: _reinterpreted(operands.inputs[0], operator.dims),
}
