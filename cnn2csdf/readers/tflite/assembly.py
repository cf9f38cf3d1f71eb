"""Layers of a network under construction, from the nodes of a TensorFlow Lite graph.

Tensors there are (1, height, width, channels); the layers have (channels, height, width). A tensor
of another rank only loses its batch of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.readers.tflite.model_file import Dims, Graph, Node, Tensor
from cnn2csdf.shape import Shape
from csdf.errors import UnreadableFile, UnsupportedOperator

FUSED = {  # ActivationFunctionType: what is fused behind an operator
    0: (),
    1: (op.Activation(function="relu"),),
    2: (op.Activation(function="clip", parameters=(-1.0, 1.0)),),
    3: (op.Activation(function="clip", parameters=(0.0, 6.0)),),
    4: (op.Activation(function="tanh"),),
}
TANH = 4


QUANTIZED = (Element.INT8, Element.INT16, Element.UINT8, Element.INT32)
AT_ENDS = (Element.UINT8, Element.INT32)  # what other integers are made of, or made into
ENDS = ("QUANTIZE", "DEQUANTIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Parameters of a layer: as an array, and how they are stored."""

    array: Array
    stored: Stored


class Assembly:
    """Turns nodes into layers, in the order of the file."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.builder = NetworkBuilder(name)
        self.weights: dict[str, dict[str, Array]] = {}
        self._layers: dict[int, str] = {}  # number of a tensor: the layer that writes it
        self._variables: dict[str, str] = {}  # the layer whose output a variable holds

    def add_inputs(self) -> None:
        """Add the layers where frames come in."""
        for number in self.graph.inputs:
            tensor = self.graph.tensors[number]
            self._layers[number] = self.builder.input(
                frame_dims(tensor),
                name=self.builder.free_name(tensor.name or "input"),
                element=_element(tensor),
                quantization=quantization_of(tensor),
            )

    def read_variable(self, node: Node) -> None:
        """Let what a variable holds be read; add what it held before the frame, the first time."""
        name = self._variable(node)
        tensor, initial = self.output(node), self.graph.initial[name]
        quantization = quantization_of(tensor)
        self._require_alike(node, name, tensor)
        if name not in self._variables:
            value = initial.array()
            dims = frame_dims(tensor)
            if len(tensor.dims) == 4:
                value = np.moveaxis(value[0], 2, 0)
            value = np.ascontiguousarray(value.reshape(dims))
            first = float(value.flat[0]) if value.size else 0.0
            is_uniform = first.is_integer() and bool((value == value.flat[0]).all())
            begin = int(first) if is_uniform else None
            operator = op.Previous(dims=dims, variable=name, begin=begin)
            layer = self.builder.add(
                operator,
                name=self.builder.free_name(tensor.name or name),
                element=_element(tensor),
                quantization=quantization,
                stored=() if is_uniform else (Stored(role="initial", element=_element(tensor)),),
            )
            if not is_uniform:
                self.weights[layer] = {"initial": value}
            self._variables[name] = layer
        self._layers[node.outputs[0]] = self._variables[name]

    def assign_variable(self, node: Node) -> None:
        """Let a variable hold another tensor from here on."""
        name = self._variable(node)
        self._require_alike(node, name, self.tensor(node, 1))
        self._variables[name] = self.source(node, 1)

    def _variable(self, node: Node) -> str:
        handle = node.inputs[0] if node.inputs else -1
        if handle not in self.graph.handles:
            raise UnreadableFile(f"{node}: input 0 stands for no variable")
        return self.graph.handles[handle]

    def _require_alike(self, node: Node, name: str, tensor: Tensor) -> None:
        """Raise UnsupportedOperator unless a tensor is stored as the first value of a variable."""
        initial = self.graph.initial[name]
        found, wanted = ((one.dims, one.element, quantization_of(one)) for one in (tensor, initial))
        if found != wanted:
            raise refusal(
                node,
                f"variable {name!r} begins as {initial.name!r} with other sizes, type or scale than "
                f"{tensor.name!r}",
            )

    def add_variables(self) -> None:
        """Add the layers that take what variables hold behind the frame."""
        given = [
            layer.name
            for layer in self.builder.network().layers
            if isinstance(layer.operator, op.Previous)
        ]
        for layer in given:
            operator = self.builder.layer(layer).operator
            assert isinstance(operator, op.Previous)
            source = self.builder.layer(self._variables[operator.variable])
            self.builder.add(
                op.Next(variable=operator.variable),
                source.name,
                name=self.builder.free_name(f"{operator.variable} next"),
                quantization=source.quantization,
            )

    def add_outputs(self) -> None:
        """Add the layers where results go out."""
        for number in self.graph.outputs:
            if number not in self._layers:
                name = self.graph.tensors[number].name
                raise UnreadableFile(f"output {name!r} is the same for every frame")
            name = self.builder.free_name(f"{self.graph.tensors[number].name} output")
            self.builder.output(self._layers[number], name=name)

    def tensor(self, node: Node, index: int) -> Tensor:
        """Return an input of a node. Raises UnreadableFile where it is left out."""
        if not self.has(node, index):
            raise UnreadableFile(f"{node}: input {index} is missing")
        return self.graph.tensors[node.inputs[index]]

    def has(self, node: Node, index: int) -> bool:
        """Whether the input is there."""
        return index < len(node.inputs) and node.inputs[index] != -1

    def output(self, node: Node, index: int = 0) -> Tensor:
        """Return an output of a node."""
        return self.graph.tensors[node.outputs[index]]

    def constant(self, node: Node, index: int) -> Array:
        """Return a constant input. Raises UnsupportedOperator where it depends on the frame."""
        tensor = self.tensor(node, index)
        if not tensor.is_constant:
            raise refusal(node, f"input {tensor.name!r} is computed from the frame")
        return tensor.array()

    def integers(self, node: Node, index: int) -> tuple[int, ...]:
        """Return a constant input as whole numbers."""
        return tuple(int(one) for one in self.constant(node, index).reshape(-1))

    def shape(self, node: Node, index: int) -> Shape:
        """Return the shape of an input that depends on the frame, as the layers see it."""
        return self.builder.shape(self.source(node, index))

    def map_shape(self, node: Node, index: int) -> Shape:
        """Return the shape of an input that must be a stack of feature maps."""
        if len(self.tensor(node, index).dims) != 4:
            raise refusal(
                node,
                f"works on 1 x height x width x channels, found {self.tensor(node, index).dims}",
            )
        return self.shape(node, index)

    def source(self, node: Node, index: int) -> str:
        """Return the layer that writes an input."""
        tensor = self.tensor(node, index)
        if node.inputs[index] not in self._layers:
            what = "a constant" if tensor.is_constant else "written by no operator before it"
            raise refusal(node, f"input {tensor.name!r} is {what}")
        return self._layers[node.inputs[index]]

    def is_dynamic(self, node: Node, index: int) -> bool:
        """Whether an input depends on the frame."""
        return self.has(node, index) and node.inputs[index] in self._layers

    def trained(self, node: Node, index: int, role: str, array: Array) -> Trained:
        """Return parameters that were put into our order of axes."""
        tensor = self.tensor(node, index)
        stored = Stored(
            role=role,
            element=_element(tensor),
            name=f"buffer {tensor.buffer}",
            quantization=None if role == "bias" else quantization_of(tensor),
        )
        return Trained(array=np.ascontiguousarray(array), stored=stored)

    def add(
        self,
        node: Node,
        *steps: op.Operator,
        sources: Sequence[str],
        trained: Sequence[Trained] = (),
        fused: int = 0,
        output: int = 0,
    ) -> None:
        """Add layers that work one after another; the last writes an output of the node.

        trained: of the first. fused: ActivationFunctionType of what is behind the first.
        """
        tensor, names = self.output(node, output), list(sources)
        quantization = quantization_of(tensor)
        if fused not in FUSED or (fused == TANH and quantization is not None):
            raise refusal(node, f"the activation {fused} behind it is not supported")
        self._require_types(node, [quantization, *map(self._quantization, names)])
        wanted = frame_dims(tensor)
        shapes = [self.builder.shape(name) for name in names]
        found = _dims_after(steps, shapes)
        if found != wanted:
            # A reshape where only axes of size one come or go, so that the order of elements
            # stays.
            if [size for size in found if size > 1] != [size for size in wanted if size > 1]:
                raise refusal(node, f"its output would be {found}, but the file says {wanted}")
            steps = (*steps, op.Reshape(dims=wanted))
        for place, step in enumerate(steps):
            is_first = place == 0
            name = self.builder.add(
                step,
                *names,
                name=tensor.name if place == len(steps) - 1 else f"{tensor.name} {step.in_words()}",
                element=_element(tensor),
                stored=tuple(one.stored for one in trained) if is_first else (),
                quantization=quantization,
                epilogue=FUSED[fused] if is_first else (),
            )
            if is_first and trained:
                self.weights[name] = {one.stored.role: one.array for one in trained}
            names = [name]
        self._layers[node.outputs[output]] = names[0]

    def prepared(self, node: Node, source: str, *steps: op.Operator) -> str:
        """Return the layer behind steps that only move what a layer writes, before the node."""
        layer = self.builder.layer(source)
        for step in steps:
            source = self.builder.add(
                step,
                source,
                name=f"{self.output(node).name} {step.in_words()}",
                element=layer.element,
                quantization=layer.quantization,
            )
        return source

    def _quantization(self, layer: str) -> Quantization | None:
        return self.builder.layer(layer).quantization

    def _require_types(self, node: Node, found: Sequence[Quantization | None]) -> None:
        """Raise UnsupportedOperator where a node computes integers that others only store."""
        if node.kind in ENDS:
            return
        for one in found:
            if one is not None and one.element in AT_ENDS:
                raise refusal(node, f"quantised {one.element.value}; int8 and int16 are supported")
            if one is not None and one.element is Element.INT16 and one.zero_point:
                if node.kind != "SOFTMAX":
                    raise refusal(node, f"int16 with a zero point of {one.zero_point}; expected 0")


def frame_dims(tensor: Tensor) -> Dims:
    """Return the dims without the batch, channels first. Raises UnsupportedOperator for others."""
    dims = tensor.dims
    if len(dims) < 2:
        return dims or (1,)
    if dims[0] != 1 or len(dims) > 4:
        listed = "x".join(map(str, dims))
        raise UnsupportedOperator(
            f"tensor {tensor.name!r} of shape {listed}; expected a batch of 1"
        )
    return (dims[3], dims[1], dims[2]) if len(dims) == 4 else dims[1:]


def quantization_of(tensor: Tensor) -> Quantization | None:
    """Return how a tensor is quantised. Raises UnsupportedOperator for types that nobody computes."""
    found = tensor.quantization()
    if found is not None and found.element not in QUANTIZED:
        raise UnsupportedOperator(
            f"tensor {tensor.name!r} is quantised as {found.element.value}; int8 and int16 are "
            "supported"
        )
    return found


def _element(tensor: Tensor) -> Element:
    if tensor.element is None:
        raise UnsupportedOperator(f"tensor {tensor.name!r} is of a type that is not supported")
    return tensor.element


def _dims_after(steps: Sequence[op.Operator], shapes: Sequence[Shape]) -> Dims:
    for step in steps:
        shapes = [step.output_shape(shapes)]
    return shapes[0].dims


def refusal(node: Node, what: str) -> UnsupportedOperator:
    """Return the refusal of a node of a known kind."""
    return UnsupportedOperator(f"{node}: {what}")
