"""Writing a network as an ONNX model: the nodes of each operator, with a batch of one in front.

Every tensor of the layers is written as float: truth values and whole numbers are cast around the
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
from cnn2csdf.operators.operator import Constants, constant_role
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidNetwork
from csdf.names import free_name

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
    drawing = _Drawing(layer.name for layer in model.network.layers)
    # The tensor of each layer: called as the first output that reads it, if any.
    tensors = {layer.name: layer.name for layer in model.network.layers}
    for layer in model.network.outputs:
        source = layer.inputs[0]
        is_input = isinstance(model.network.layer(source).operator, op.Input)
        if tensors[source] == source and not is_input:
            tensors[source] = layer.name
    for layer in model.network.layers:
        inputs = model.network.input_shapes(layer)
        try:
            drawing.add_layer(layer, inputs, model.weights.get(layer.name, {}), tensors)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"layer {layer.name!r}: {error}") from None
    read, found = (
        [helper.make_tensor_value_info(one.name, FLOAT, (1, *one.shape.dims)) for one in layers]
        for layers in (model.network.inputs, model.network.outputs)
    )
    constants = [numpy_helper.from_array(one, name) for name, one in drawing.constants.items()]
    graph = helper.make_graph(drawing.nodes, model.network.name, read, found, constants)
    written = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="cnn2csdf",
    )
    return bytes(written.SerializeToString(deterministic=True))


Constant = tuple[str, NDArray[Any]]  # its role, its value


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node among those that a layer becomes; each reads what the node before it wrote.

    constants: read behind the tensors, before them where `constant_first`; None is an input left
    out. reads: which inputs of the layer it reads as well; by default the first node reads all, a
    later one none. order: which of all these comes first, second, and so on; by default as they
    are. output: which of the node's outputs is wanted; outputs: how many it has.
    """

    op_type: str
    constants: tuple[Constant | None, ...]
    attributes: Mapping[str, Any]
    constant_first: bool = False
    reads: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None
    output: int = 0
    outputs: int = 1


Nodes = list[Node]


def node(op_type: str, *constants: Constant | None, **attributes: Any) -> Node:
    """Return a node of a type with constants and attributes."""
    return Node(op_type=op_type, constants=constants, attributes=attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operands:
    """The shapes that an operator reads and writes, and its weights by role."""

    inputs: tuple[Shape, ...]
    output: Shape
    weights: Mapping[str, Array]

    def trained(self, *roles: str) -> tuple[Constant, ...]:
        """Return the weights of these roles that the layer has."""
        return tuple((role, self.weights[role]) for role in roles if role in self.weights)

    def with_batch(self, array: Array) -> Array:
        """Return a constant with a batch axis, where it has as many axes as the result."""
        return array[None] if array.ndim == len(self.output.dims) else array


class _Drawing:
    """Collects nodes and constants; keeps their names apart."""

    def __init__(self, names: Iterable[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._names = set(names)
        self._shared: dict[tuple[str, tuple[int, ...]], str] = {}  # stored name, dims: constant

    def _free_name(self, wanted: str) -> str:
        """Return the name, with a number behind it where it is taken; from now on it is."""
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
        if isinstance(layer.operator, op.Input):
            return
        if isinstance(layer.operator, op.Output):
            if read[0] != layer.name:
                copy = self._free_name(f"{layer.name} copy")
                self.nodes.append(helper.make_node("Identity", read, [layer.name], name=copy))
            return
        chain = (layer.operator, *layer.epilogue)
        for place, operator in enumerate(chain):
            is_last = place == len(chain) - 1
            name = layer.name if place == 0 else self._free_name(f"{layer.name}.{place - 1}")
            target = tensors[layer.name] if is_last else self._free_name(f"{layer.name} {place}")
            prefix = "" if place == 0 else f"{place - 1}."
            own = {
                role.removeprefix(prefix): np.asarray(array, dtype=np.float32)
                for role, array in weights.items()
                if role.startswith(prefix) and (prefix or "." not in role)
            }
            stored = {
                one.role.removeprefix(prefix): one.name
                for one in layer.stored
                if one.name is not None and one.role.startswith(prefix)
            }
            operands = _Operands(inputs=inputs, output=layer.shape, weights=own)
            self._add(_WRITERS[type(operator)](operator, operands), read, target, name, stored)
            read, inputs = [target], (layer.shape,)

    def _add(
        self,
        nodes: Nodes,
        inputs: Sequence[str],
        target: str,
        name: str,
        stored: Mapping[str, str],
    ) -> None:
        """Add the nodes of one operator; the last writes `target` and gets the name.

        stored: by role, what the constants are called that several layers may share.
        """
        current: list[str] = []
        for place, one in enumerate(nodes):
            is_last = place == len(nodes) - 1
            everything = range(len(inputs)) if place == 0 else ()
            reads = everything if one.reads is None else one.reads
            tensors = [*current, *(inputs[index] for index in reads)]
            constants = self._added(one.constants, name, stored)
            called = name if is_last else self._free_name(f"{name} {one.op_type.lower()}")
            current = [target if is_last else called]
            read = [*constants, *tensors] if one.constant_first else [*tensors, *constants]
            others = [index for index in range(one.outputs) if index != one.output]
            unread = {index: self._free_name(f"{current[0]} {index}") for index in others}
            self.nodes.append(
                helper.make_node(
                    one.op_type,
                    read if one.order is None else [read[index] for index in one.order],
                    [unread.get(index, current[0]) for index in range(one.outputs)],
                    name=called,
                    **one.attributes,
                )
            )

    def _added(
        self, constants: Iterable[Constant | None], name: str, stored: Mapping[str, str]
    ) -> list[str]:
        names = []
        for constant in constants:
            if constant is None:
                names.append("")
                continue
            role, value = constant
            key = (stored.get(role, ""), value.shape)
            if role in stored and key in self._shared:
                names.append(self._shared[key])
                continue
            names.append(self._free_name(f"{name}.{role}"))
            self.constants[names[-1]] = value
            self._shared[key] = names[-1]
        return names


def _integers(role: str, *values: int) -> Constant:
    return (role, np.array(values, dtype=np.int64))


def _reshaped(dims: Sequence[int]) -> Node:
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


def _cast(kind: int) -> Node:
    return node("Cast", to=kind)


def _trained(
    constants: Constants, operands: _Operands, *, batch: bool
) -> tuple[tuple[Constant, ...], tuple[int, ...]]:
    """Trained operands, with a batch axis where wanted, and the order of all operands."""
    places = [one for one, _ in constants]
    total = len(operands.inputs) + len(places)
    tensors = [one for one in range(total) if one not in places]
    arrays = {one: operands.weights[constant_role(one)] for one in places}
    given = tuple(
        (constant_role(one), array[None] if batch else array) for one, array in arrays.items()
    )
    return given, tuple([*tensors, *places].index(one) for one in range(total))


def _activation(operator: op.Activation, operands: _Operands) -> Nodes:
    match operator.function:
        case "silu":
            return [node("Sigmoid"), replace(node("Mul"), reads=(0,))]
        case "gelu":
            return [node("Gelu")]
        case "gelu tanh":
            return [node("Gelu", approximate="tanh")]
        case "truncate":
            return [_cast(INTEGER), _cast(FLOAT)]
        case "is not zero":
            return [_cast(BOOL), _cast(FLOAT)]
        case "not":
            return [_cast(BOOL), node("Not"), _cast(FLOAT)]
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
    found = zip(names, operator.parameters, strict=True)
    return [node(op_type, **{name: value for (name, _), value in found})]


def _elementwise(operator: op.Elementwise, operands: _Operands) -> Nodes:
    function, count = operator.function, len(operands.inputs)
    constants = [(role, operands.with_batch(one)) for role, one in operands.trained("constant")]
    first = operator.constant_first
    if function in COMPARISONS:
        return [
            replace(node(COMPARISONS[function], *constants), constant_first=first),
            _cast(FLOAT),
        ]
    if function in LOGIC:
        if count != 2:
            raise InvalidNetwork(f"{function!r} of a constant has no ONNX node")
        return [node(LOGIC[function]), node("Abs"), _cast(BOOL), _cast(FLOAT)]
    if function in VARIADIC and count + len(constants) != 2:
        return [node(VARIADIC[function], *constants)]
    op_type = BINARY.get(function) or VARIADIC[function]
    if constants and count == 1:
        return [replace(node(op_type, *constants), constant_first=first)]
    if first:
        raise InvalidNetwork(f"{function} of a constant and {count} inputs has no ONNX node")
    rest = [replace(node(op_type), reads=(index,)) for index in range(2, count)]
    scaling = [node(op_type, *constants)] if constants else []
    return [replace(node(op_type), reads=(0, 1)), *rest, *scaling]


def _choice(operator: op.Choice, operands: _Operands) -> Nodes:
    """The condition is cast to a truth value; a trained one is one already."""
    places = [place for place, _ in operator.constants]
    given = {place: operands.with_batch(operands.weights[constant_role(place)]) for place in places}
    if 0 in given:
        given[0] = given[0] != 0
    tensors = [place for place in range(3) if place not in given]
    where = replace(
        node("Where", *((constant_role(place), given[place]) for place in places)),
        order=tuple([*tensors, *places].index(place) for place in range(3)),
    )
    if 0 in given:
        return [where]
    return [replace(_cast(BOOL), reads=(0,)), replace(where, reads=tuple(range(1, len(tensors))))]


def _tensor_product(operator: op.TensorProduct, operands: _Operands) -> Nodes:
    """The batch of one is a letter of its own."""
    letters = set("".join(operator.terms))
    batch = next(one for one in ascii_letters if one not in letters)
    constants, order = _trained(operator.constants, operands, batch=False)
    trained = [index for index, _ in operator.constants]
    terms = ",".join(
        term if index in trained else batch + term for index, term in enumerate(operator.terms)
    )
    product = node("Einsum", *constants, equation=f"{terms}->{batch}{operator.result}")
    ends = [] if operator.result else [_reshaped(operands.output.dims)]
    return [replace(product, order=order), *ends]


def _joined(operator: op.ConstantConcatenation, operands: _Operands) -> Nodes:
    constants, order = _trained(operator.constants, operands, batch=True)
    return [replace(node("Concat", *constants, axis=operator.axis + 1), order=order)]


def _recurrence(operator: op.Recurrence, operands: _Operands) -> Nodes:
    attributes = {"hidden_size": operator.units, "direction": operator.direction}
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
    padding: tuple[int, int, int, int], *, mode: str = "constant", value: float = 0.0
) -> Node:
    """A node that adds rows and columns, or cuts off where negative."""
    top, left, bottom, right = padding
    constants = [_integers("pads", 0, 0, top, left, 0, 0, bottom, right)]
    if mode == "constant":
        constants.append(("value", np.array(value, dtype=np.float32)))
    return node("Pad", *constants, mode=mode)


def _convolution(operator: op.Convolution, operands: _Operands) -> Nodes:
    """Rows of an overhang are zero, as those of padding are."""
    attributes = _attributes(_overhang_as_padding(operator.window))
    weights = operands.trained("kernel", "bias")
    return [*_crop(operator.window), node("Conv", *weights, **attributes, group=operator.groups)]


def _transposed(operator: op.TransposedConvolution, operands: _Operands) -> Nodes:
    window = operator.window
    if min(window.padding) < 0 or any(window.overhang):
        raise InvalidNetwork(
            "a transposed convolution with negative padding or an overhang has no ONNX node"
        )
    attributes = _attributes(window) | {"group": operator.groups}
    attributes["output_padding"] = list(operator.extra)
    return [node("ConvTranspose", *operands.trained("kernel", "bias"), **attributes)]


def _pooling(operator: op.Pooling, operands: _Operands) -> Nodes:
    """An overhang becomes ceil mode, or padding that counts not."""
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
    """A node that cuts off what negative padding leaves out."""
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    return [_padding((top, left, bottom, right))] if any((top, left, bottom, right)) else []


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


# Each operator's nodes, from the operator and its operands.
_WRITERS: Mapping[type, Callable[[Any, _Operands], Nodes]] = {
    op.Activation: _activation,
    op.BatchNormalization: lambda one, at: [
        node(
            "BatchNormalization",
            *at.trained("scale", "shift", "mean", "variance"),
            epsilon=one.epsilon,
        )
    ],
    op.ChannelShuffle: _channel_shuffle,
    op.Choice: _choice,
    op.Concatenation: lambda one, _: [node("Concat", axis=one.axis + 1)],
    op.ConstantConcatenation: _joined,
    op.Convolution: _convolution,
    op.DepthToSpace: lambda one, _: [
        node(
            "DepthToSpace",
            blocksize=one.block,
            mode={"block first": "DCR", "channel first": "CRD"}[one.order],
        )
    ],
    op.Elementwise: _elementwise,
    op.ExtremePlace: lambda one, _: [
        node(
            {"max": "ArgMax", "min": "ArgMin"}[one.function],
            axis=one.axis + 1,
            keepdims=1,
            select_last_index=int(one.takes_last),
        ),
        _cast(FLOAT),
    ],
    op.FullyConnected: lambda _, at: [
        *([] if len(at.inputs[0].dims) == 1 else [node("Flatten")]),
        node("Gemm", *at.trained("matrix", "bias"), transB=1),
    ],
    op.Gather: lambda one, _: [node("Gather", _integers("places", *one.places), axis=one.axis + 1)],
    op.GlobalPooling: lambda one, _: [
        node({"max": "GlobalMaxPool", "average": "GlobalAveragePool"}[one.function])
    ],
    op.Identity: lambda one, _: [node("Dropout" if one.kind == "dropout" else "Identity")],
    op.InstanceNormalization: lambda one, at: [
        node("InstanceNormalization", *at.trained("scale", "shift"), epsilon=one.epsilon)
    ],
    op.LayerNormalization: lambda one, at: [
        node(
            "LayerNormalization",
            *at.trained("scale", "shift"),
            axis=one.axis + 1,
            epsilon=one.epsilon,
        )
    ],
    op.LocalResponseNormalization: lambda one, _: [
        node("LRN", size=one.size, alpha=one.alpha, beta=one.beta, bias=one.bias)
    ],
    op.MatrixProduct: lambda _, at: [node("MatMul", *at.trained("matrix"))],
    op.Pad: lambda one, _: [_padding(one.padding, mode=one.mode, value=one.value)],
    op.Pooling: _pooling,
    op.Ranking: lambda one, _: [
        replace(
            node(
                "TopK",
                _integers("count", one.count),
                axis=one.axis + 1,
                largest=int(one.takes_largest),
            ),
            output=int(one.gives_places),
            outputs=2,
        ),
        *([_cast(FLOAT)] if one.gives_places else []),
    ],
    op.Recurrence: _recurrence,
    op.Reduction: _reduction,
    op.Repeat: lambda one, at: [
        node(
            "Tile",
            _integers(
                "times",
                *(
                    1,
                    *(one.times if axis == one.axis else 1 for axis in range(len(at.output.dims))),
                ),
            ),
        )
    ],
    op.Reshape: lambda one, _: [_reshaped(one.dims)],
    op.Resize: _resize,
    op.RunningSum: lambda one, _: [
        node(
            "CumSum",
            ("axis", np.array(one.axis + 1, np.int64)),
            exclusive=int(one.is_exclusive),
            reverse=int(one.is_reversed),
        )
    ],
    op.Slice: lambda one, _: [
        node(
            "Slice",
            _integers("start", one.start),
            _integers("stop", one.stop),
            _integers("axis", one.axis + 1),
            _integers("step", one.step),
        )
    ],
    op.Softmax: _softmax,
    op.SpaceToDepth: _space_to_depth,
    op.TensorProduct: _tensor_product,
    op.Transpose: lambda one, _: [
        node("Transpose", perm=[0, *(axis + 1 for axis in one.permutation)])
    ],
    op.TransposedConvolution: _transposed,
}
