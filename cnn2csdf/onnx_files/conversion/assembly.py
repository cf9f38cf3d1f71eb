"""The layers of a network under construction, and where the tensors of the ONNX graph come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import OnnxNode, shortest_decimal, unsupported
from cnn2csdf.operators.operands import Constants, constant_role
from cnn2csdf.shape import Dims, Shape
from cnn2csdf.weights import Array
from csdf.errors import InvalidNetwork

# Nodes whose results have fractions, which ONNX drops if the operands are integers.
WITH_FRACTIONS = frozenset({"Div", "Pow", "ReduceMean", "ReduceL2"})


class OnnxAssembly:
    """Turns nodes into layers, in execution order.

    The layers have no batch axis. A tensor whose batch axis a node has removed (squeezed, or
    flattened to a vector) keeps all its axes.

    Lines, tensors of 1 x channels x length, have up to two layers: a plain one of channels x length,
    and a raised one of channels x length x 1, which operators on maps read. The second of them is a
    reshape of the first, added when a node asks for it. Elementwise steps between raised lines stay
    raised, so that a chain of windows has no reshapes.
    """

    def __init__(
        self, values: GraphValues, name: str, *, with_weights: bool, read: Set[str] | None = None
    ) -> None:
        """Begin a network; read: the tensors that a node or an output reads, if known."""
        self.values = values
        self._read = read
        self.builder = NetworkBuilder(name)
        self.weights: dict[str, dict[str, Array]] = {}
        self._with_weights = with_weights
        self._layers: dict[str, str] = {}  # by tensor, the plain layer
        self._raised: dict[str, str] = {}  # by lines, the raised layer
        self._batched: set[str] = set()  # tensors whose first axis is a batch of one

    def add_input(self, name: str) -> None:
        """Add an input layer."""
        dims = self.values.dims(name)
        element = self.values.element(name)
        if len(dims) > 1 and dims[0] == 1:
            self._batched.add(name)
            dims = dims[1:]
        self._layers[name] = self.builder.input(dims, name=name, element=element)

    def add_output(self, name: str) -> None:
        """Add an output layer."""
        is_free = self.builder.free_name(name) == name
        self.builder.output(self._layer_of(name), name=name if is_free else f"{name} output")

    def add(
        self,
        node: OnnxNode,
        *steps: Step,
        inputs: Sequence[str] | None = None,
        output: str | None = None,
        name: str | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        """Add layers in sequence; the last layer writes the output tensor of the node.

        inputs: of the first; by default the node's first, which must depend on the frame. Raises
        InvalidNetwork where the last shape is not what the onnx package says.
        """
        inputs = (self.dynamic(node, 0),) if inputs is None else inputs
        target = Target(output or node.outputs[0], name or node.name, quantization)
        if self.values.element(target.tensor).is_integer and self._has_fractions(node):
            steps = (*steps, op.Activation(function="truncate"))
        if inputs and all(tensor in self._raised for tensor in inputs):
            raised_steps = [raised for step in steps if (raised := on_raised_lines(step))]
            if len(raised_steps) == len(steps):
                self.add_raised(target, *raised_steps, inputs=inputs)
                return
        tensor, dims = target.tensor, self.values.dims(target.tensor)
        layer = self._add_layers(steps, [self._layer_of(source) for source in inputs], target)
        ours = self.builder.shape(layer).dims
        if dims == (1, *ours):
            self._batched.add(tensor)
        elif dims != ours and (dims, ours) != ((), (1,)):
            listed = "x".join(map(str, dims))
            raise InvalidNetwork(
                f"layer {layer!r}: a shape of {self.builder.shape(layer)}, "
                f"but the onnx package says {listed}, with the batch"
            )
        self._layers[tensor] = layer

    def _has_fractions(self, node: OnnxNode) -> bool:
        """Whether the result of a node may have fractions although its operands are integers."""
        if node.op_type != "Pow" or not self.is_static(exponent := node.required(1)):
            return node.op_type in WITH_FRACTIONS
        exponents = self.values.value(exponent)
        return bool(((exponents < 0) | (exponents != np.floor(exponents))).any())

    def with_dims(self, node: OnnxNode, tensor: str, dims: Dims) -> str:
        """Return a tensor that has these dims, the batch included, before a node."""
        if self.shape(tensor).dims == dims:
            return tensor
        name = f"{tensor} for {node.name or node.outputs[0]}"
        if name not in self._layers:
            source = self._layer_of(tensor)
            self._layers[name] = self.builder.add(op.Reshape(dims=dims), source, name=name)
        return name

    def add_raised(self, target: Target, *steps: Step, inputs: Sequence[str]) -> None:
        """Add layers that read and write lines as maps of one column."""
        tensor, dims = target.tensor, self.values.dims(target.tensor)
        layer = self._add_layers(steps, [self.raised_layer(source) for source in inputs], target)
        shape = self.builder.shape(layer)
        if (*dims, 1) != (1, *shape.dims):
            raise InvalidNetwork(f"layer {layer!r}: a shape of {shape}, but lines of {dims}")
        self._batched.add(tensor)
        self._raised[tensor] = layer

    def is_line(self, tensor: str) -> bool:
        """Whether the tensor is 1 x channels x length."""
        return tensor in self._batched and len(self.values.dims(tensor)) == 3

    def raised_layer(self, tensor: str) -> str:
        """Return the raised layer of lines."""
        if tensor not in self._raised:
            dims = (*self.values.dims(tensor)[1:], 1)
            self._raised[tensor] = self._reshaped(tensor, self._layers[tensor], dims, "maps")
        return self._raised[tensor]

    def _layer_of(self, tensor: str) -> str:
        """Return the plain layer of a tensor."""
        if tensor not in self._layers:
            dims = self.values.dims(tensor)[1:]
            self._layers[tensor] = self._reshaped(tensor, self._raised[tensor], dims, "lines")
        return self._layers[tensor]

    def _reshaped(self, tensor: str, layer: str, dims: Dims, what: str) -> str:
        """Return a layer in the other form; a conversion to real numbers comes after the reshape."""
        last_layer, element = self.builder.layer(layer), self.values.element(tensor)
        is_made_real = (
            isinstance(last_layer.operator, op.Conversion) and last_layer.quantization is None
        )
        source_layer = self.builder.layer(last_layer.inputs[0]) if is_made_real else last_layer
        moved = self.builder.add(
            op.Reshape(dims=dims),
            source_layer.name,
            name=f"{source_layer.name} {what}",
            element=source_layer.element if is_made_real else element,
            quantization=source_layer.quantization,
        )
        if not is_made_real:
            return moved
        return self.builder.add(op.Conversion(), moved, name=f"{layer} {what}", element=element)

    def _add_layers(self, steps: Sequence[Step], sources: list[str], target: Target) -> str:
        for step in steps[:-1]:
            operator = step.operator if isinstance(step, Weighted) else step
            name = f"{target.name} {type(operator).__name__.lower()}"
            between = target._replace(name=name, quantization=None)
            sources = [self._add_layer(step, sources, between)]
        return self._add_layer(steps[-1], sources, target)

    def _add_layer(self, step: Step, sources: Sequence[str], target: Target) -> str:
        tensor, name, quantization = target
        step = step if isinstance(step, Weighted) else Weighted(step, {})
        stored = [self._stored(role, numbers) for role, numbers in step.weights.items()]
        source = self.builder.layer(sources[0]).quantization
        if source is not None and source.element is self.values.element(tensor):
            quantization = quantization or source  # where integers are moved or pooled as they are
        layer = self.builder.add(
            step.operator,
            *sources,
            name=name,
            element=self.values.element(tensor),
            stored=tuple(stored),
            quantization=quantization,
        )
        if step.weights and self._with_weights:
            self.weights[layer] = {
                role: np.ascontiguousarray(numbers.read(), dtype=np.float32)
                for role, numbers in step.weights.items()
            }
        return layer

    def _stored(self, role: str, numbers: Numbers) -> Stored:
        stored = self.values.stored(role, numbers.tensor, numbers.axis)
        if numbers.factor == 1:
            return stored
        if stored.quantization is not None:
            scales = np.array(stored.quantization.scales, np.float32) * np.float32(numbers.factor)
            types = replace(stored.quantization, scales=tuple(scales.tolist()))
            return replace(stored, quantization=types)
        # Float16 may not hold the products.
        is_half = stored.element is Element.FLOAT16
        return replace(stored, element=Element.FLOAT32) if is_half else stored

    def quantize(self, tensor: str, quantization: Quantization) -> Quantization:
        """Return the quantisation of a tensor; `quantization` applies if no earlier node has set it."""
        known_quantization = self.quantization(tensor)
        if known_quantization is None:
            self._quantize(self._raised.get(tensor) or self._layer_of(tensor), quantization)
        return known_quantization or quantization

    def _quantize(self, name: str, quantization: Quantization) -> None:
        """Set the quantisation of a layer, and of the layers whose integers it moves."""
        layer = self.builder.layer(name)
        if layer.quantization is None:
            self.builder.quantize(name, quantization)
            for source in layer.inputs if layer.operator.picks_elements else ():
                self._quantize(source, quantization)

    def quantization(self, tensor: str) -> Quantization | None:
        """Return the type of a tensor of integers that represent real numbers; None for any other."""
        return self.builder.layer(self._raised.get(tensor) or self._layer_of(tensor)).quantization

    def has(self, tensor: str) -> bool:
        """Whether a layer writes the tensor."""
        return tensor in self._layers or tensor in self._raised

    def is_read(self, tensor: str) -> bool:
        """Whether a node that becomes a layer, or an output, reads the tensor."""
        return self._read is None or tensor in self._read

    def shape(self, tensor: str) -> Shape:
        """Return the shape of a tensor as the layers see it."""
        if tensor in self._layers:
            return self.builder.shape(self._layers[tensor])
        return Shape(dims=self.values.dims(tensor)[1:])

    def indexed_length(self, tensor: str) -> int | None:
        """Return the length of the axis that the elements index, as after ArgMax; else None."""
        layer = self.builder.layer(self._layer_of(tensor))
        while isinstance(layer.operator, (op.Identity, op.Reshape)):
            layer = self.builder.layer(layer.inputs[0])
        if not isinstance(layer.operator, op.ExtremePlace):
            return None
        return self.builder.shape(layer.inputs[0]).dims[layer.operator.axis]

    def is_static(self, tensor: str | None) -> bool:
        """Whether the tensor is a constant, the same for every frame."""
        return tensor is not None and self.values.is_static(tensor)

    def dynamic(self, node: OnnxNode, index: int) -> str:
        """Return the input at an index, which must depend on the frame."""
        tensor = node.required(index)
        if self.values.is_static(tensor):
            raise unsupported(node, f"input {tensor!r} is a constant")
        return tensor

    def map_shape(self, node: OnnxNode, index: int) -> Shape:
        """Return the shape of an input that must be a stack of feature maps."""
        tensor = self.dynamic(node, index)
        if not self.shape(tensor).is_map or tensor not in self._batched:
            listed = "x".join(map(str, self.values.dims(tensor)))
            raise unsupported(node, f"works on 1 x channels x height x width only, found {listed}")
        return self.shape(tensor)

    def frame_axis(self, node: OnnxNode, tensor: str, axis: int) -> int:
        """Return which axis of the layer that axis of the tensor is; a negative one from the end."""
        if (frame_axis := self.frame_axis_or_batch(node, tensor, axis)) is None:
            raise unsupported(node, "works along the batch axis")
        return frame_axis

    def frame_axis_or_batch(self, node: OnnxNode, tensor: str, axis: int) -> int | None:
        """Return which axis of the layer that axis of the tensor is; None if it is the batch."""
        rank = len(self.values.dims(tensor))
        if not -rank <= axis < rank:
            raise unsupported(node, f"axis {axis} of a tensor with {rank} axes")
        axis_in_frame = axis % rank - self.batch_axes(tensor)
        return None if axis_in_frame < 0 else axis_in_frame

    def batch_axes(self, tensor: str) -> int:
        """Return 1 if the tensor has a batch axis, else 0."""
        return int(tensor in self._batched)

    def integers(self, node: OnnxNode, index: int, what: str) -> tuple[int, ...] | None:
        """Return the static integers of an input; None where it is left out."""
        value = self._static(node, index, what)
        if value is None:
            return None
        if value.dtype.kind not in "iub":
            raise unsupported(node, f"{what} {node.input(index)!r} are not integers")
        return tuple(int(number) for number in value.reshape(-1))

    def reals(self, node: OnnxNode, index: int, what: str) -> tuple[float, ...] | None:
        """Return the static numbers of an input; None where it is left out."""
        value = self._static(node, index, what)
        if value is None:
            return None
        if np.isnan(value.astype(np.float64)).any():
            raise unsupported(node, f"{what} {node.input(index)!r} is not a number")
        return tuple(shortest_decimal(float(number)) for number in value.reshape(-1))

    def trained(self, node: OnnxNode, index: int, what: str) -> tuple[str, Dims]:
        """Return the name and dims of an input that must be static: weights."""
        tensor = node.required(index)
        if not self.values.is_static(tensor):
            raise unsupported(node, f"{what} {tensor!r} is computed from the frame")
        return tensor, self.values.dims(tensor)

    def vector(self, node: OnnxNode, index: int, what: str, size: int) -> Numbers:
        """Return a static input as one number for each of `size` places; a single one repeats."""
        tensor, dims = self.trained(node, index, what)
        if prod(dims) not in (1, size):
            raise unsupported(node, f"{what} {tensor!r} has {prod(dims)} numbers, expected {size}")
        return Numbers(
            tensor, lambda: np.broadcast_to(self.values.value(tensor).reshape(-1), (size,))
        )

    def numbers(self, tensor: str) -> Numbers:
        """Return a static tensor as it is."""
        return Numbers(tensor, lambda: self.values.value(tensor))

    def frame_dims(self, node: OnnxNode, constant: str) -> Dims:
        """Return the dims of a constant operand of a node, without a batch axis of one."""
        dims = self.values.dims(constant)
        if 0 in dims:
            raise unsupported(node, f"operand {constant!r} holds nothing")
        has_batch = len(dims) == len(self.values.dims(node.outputs[0])) and dims[:1] == (1,)
        return (dims[1:] if has_batch else dims) or (1,)

    def constant_operands(
        self, operands: Sequence[str], dims_of: Callable[[str], Dims]
    ) -> tuple[Constants, dict[str, Numbers]]:
        """Return the positions and dims of the static operands, and their numbers by role."""
        dims = {at: dims_of(name) for at, name in enumerate(operands) if self.is_static(name)}
        numbers = {constant_role(at): self.reshaped(operands[at], dims[at]) for at in dims}
        return tuple(dims.items()), numbers

    def reshaped(self, tensor: str, dims: Dims) -> Numbers:
        """Return a static tensor, reshaped."""
        return Numbers(
            tensor, lambda: np.asarray(self.values.value(tensor), np.float32).reshape(dims)
        )

    def _static(self, node: OnnxNode, index: int, what: str) -> Array | None:
        tensor = node.input(index)
        return None if tensor is None else self.values.value(self.trained(node, index, what)[0])


class Target(NamedTuple):
    """The tensor that layers write: its name in the file, and the name and type of its layer."""

    tensor: str
    name: str
    quantization: Quantization | None = None


class Numbers(NamedTuple):
    """Parameters: the tensor they come from, read or computed when they are wanted."""

    tensor: str
    read: Callable[[], Array]
    axis: int = 0  # of the tensor, along which the output channels lie
    factor: float = 1  # of the numbers of the tensor; integers stay, their scale is multiplied


class Weighted(NamedTuple):
    """An operator with its weights."""

    operator: op.Operator
    weights: Mapping[str, Numbers]


Step = Weighted | op.Operator


def on_raised_lines(step: Step) -> Weighted | None:
    """Return an elementwise step on raised lines; None for other steps."""
    weighted = step if isinstance(step, Weighted) else Weighted(step, {})
    match weighted.operator:
        case op.Activation() | op.BatchNormalization() | op.Conversion() | op.Identity():
            return weighted
        case op.Elementwise(constant=None):
            return weighted
        case op.Elementwise(constant=tuple(dims)) as operator:
            numbers = weighted.weights["constant"]
            column = Numbers(numbers.tensor, lambda: numbers.read()[..., None])
            wide = replace(operator, constant=(*dims, 1))
            return Weighted(wide, {"constant": column})
    return None
