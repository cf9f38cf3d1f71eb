"""Layers of a network under construction, from the nodes of a TensorFlow Lite graph.

Tensors of the file are (1, height, width, channels); tensors of layers are (channels, height, width).
Two other kinds of tensors only lose their batch of one: tensors of another rank, and four-axis tensors
that are no maps. The latter are the operands of a batch matrix product, and all tensors connected to
them that no window reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import USUAL_RUNTIME, Arithmetic, Element, Quantization, Runtime, Stored
from cnn2csdf.readers.tflite.model_file import Dims, Tensor, TfliteGraph, TfliteNode
from cnn2csdf.shape import Shape
from csdf.errors import UnreadableFile, UnsupportedOperator

FUSED = {  # by ActivationFunctionType, the activation fused into an operator
    0: (),
    1: (op.Activation(function="relu"),),
    2: (op.Activation(function="clip", parameters=(-1.0, 1.0)),),
    3: (op.Activation(function="clip", parameters=(0.0, 6.0)),),
    4: (op.Activation(function="tanh"),),
}
TANH = 4


QUANTIZED = (Element.INT8, Element.INT16, Element.UINT8, Element.INT32)
CONVERSION_ONLY = (Element.INT32,)  # allowed only in QUANTIZE and DEQUANTIZE
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")
MATRICES = "BATCH_MATMUL"
WITH_ANY_AXES = frozenset(  # kinds whose axes are translated to those of the layer, in any order
    {
        "ABS", "ADD", "ADD_N", "BROADCAST_TO", "CAST", "CEIL", "CONCATENATION", "COS",
        "CUMSUM", "DEQUANTIZE", "DIV", "ELU", "EQUAL", "EXP", "FLOOR", "FLOOR_DIV",
        "FLOOR_MOD", "GATHER", "GELU", "GREATER", "GREATER_EQUAL", "HARD_SWISH",
        "L2_NORMALIZATION", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG", "LOGICAL_AND", "LOGICAL_NOT",
        "LOGICAL_OR", "LOGISTIC", "LOG_SOFTMAX", "MAXIMUM", "MEAN", "MINIMUM", "MUL",
        "NEG", "NOT_EQUAL", "POW", "QUANTIZE", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN",
        "RELU", "RELU6", "REVERSE_V2",
        "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SELECT", "SELECT_V2", "SIGN",
        "SIN", "SLICE", "SOFTMAX", "SPLIT", "SPLIT_V", "SQRT", "SQUARE",
        "SQUARED_DIFFERENCE", "STRIDED_SLICE", "SUB", "SUM", "TANH", "TILE", "TOPK_V2", "TRANSPOSE",
    }
)  # fmt: skip
WITH_FRACTIONS = ("DIV", "MEAN")  # kinds whose fractions are dropped if the operands are integers
RESHAPES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})
TO_MATRIX, TO_MAP = (1, 2, 0), (2, 0, 1)  # from channels first to channels last, and back


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Parameters of a layer: as an array, and how they are stored."""

    array: Array
    stored: Stored


class TfliteAssembly:
    """Turns nodes into layers, in the order of the file.

    A converter asks for an input by `source` (the axes as its node reads them), `source_in_file_axes`
    or `source_as_stored` (the axes of the layer). It adds the layers before the output by `add_moves`
    (elements of one tensor, moved) and `add_inner` (floating point), and the layers of the output by
    `add`. A node that works on maps reads four-axis tensors channels first.
    """

    def __init__(self, graph: TfliteGraph, name: str, runtime: Runtime = USUAL_RUNTIME) -> None:
        self.graph = graph
        self.runtime = runtime
        self.builder = NetworkBuilder(name)
        self.weights: dict[str, dict[str, Array]] = {}
        self._layers: dict[int, str] = {}  # number of a tensor: the layer that writes it
        self._variables: dict[str, str] = {}  # the layer whose output a variable holds
        self._kept: set[int] = set()  # variable tensors that are the state of a node
        self._matrices = _batches_of_matrices(graph)

    def is_map(self, number: int) -> bool:
        """Whether a layer stores that tensor channels first."""
        dims = self.graph.tensors[number].dims
        return len(dims) == 4 and dims[0] == 1 and number not in self._matrices

    def works_on_maps(self, node: TfliteNode) -> bool:
        """Whether a node reads four-axis tensors channels first."""
        if node.kind not in WITH_ANY_AXES:
            return node.kind != MATRICES
        numbers = [number for number in (*node.inputs, *node.outputs) if number >= 0]
        dynamic = [number for number in numbers if not self.graph.tensors[number].is_constant]
        return all(self.is_map(n) for n in dynamic if len(self.graph.tensors[n].dims) >= 4)

    def axes(self, node: TfliteNode, dims: Dims) -> tuple[int, ...]:
        """Return the axes of a tensor of the file, in the order in which a node reads them."""
        return layer_axes(dims, is_map=len(dims) == 4 and self.works_on_maps(node))

    def frame_dims(self, number: int) -> Dims:
        """Return the dims of a tensor as layers have it."""
        return frame_dims(self.graph.tensors[number].dims, is_map=self.is_map(number))

    def add_inputs(self) -> None:
        """Add the input layers."""
        for number in self.graph.inputs:
            tensor = self.graph.tensors[number]
            if len(tensor.dims) > 1 and tensor.dims[0] != 1:
                listed = "x".join(map(str, tensor.dims))
                raise UnsupportedOperator(
                    f"tensor {tensor.name!r} of shape {listed}; expected a batch of 1"
                )
            self._layers[number] = self.builder.input(
                self.frame_dims(number),
                name=self.builder.free_name(tensor.name or "input"),
                element=_element(tensor),
                quantization=quantization_of(tensor),
            )

    def read_variable(self, node: TfliteNode) -> None:
        """Let a node read a variable; the first read adds the layer of its value before the frame."""
        name = self._variable(node)
        self._require_alike(node, name, self.output(node))
        if name not in self._variables:
            self._variables[name] = self._first_read(name, node.outputs[0])
        self._layers[node.outputs[0]] = self._variables[name]

    def _first_read(self, variable: str, number: int) -> str:
        """Add the layer of a variable's value before the frame, as the tensor that reads it."""
        tensor, value = self.graph.tensors[number], self.graph.initial[variable].array()
        dims = self.frame_dims(number)
        if self.is_map(number):
            value = np.moveaxis(value[0], 2, 0)
        value = np.ascontiguousarray(value.reshape(dims))
        first = float(value.flat[0]) if value.size else 0.0
        is_uniform = first.is_integer() and bool((value == value.flat[0]).all())
        stored = Stored(role="initial", element=_element(tensor))
        return self._add_layer(
            op.Previous(dims=dims, variable=variable, begin=int(first) if is_uniform else None),
            name=self.builder.free_name(tensor.name or variable),
            element=_element(tensor),
            quantization=quantization_of(tensor),
            trained=() if is_uniform else (Trained(array=value, stored=stored),),
        )

    def assign_variable(self, node: TfliteNode) -> None:
        """Assign a tensor to a variable; later reads return this tensor."""
        name = self._variable(node)
        self._require_alike(node, name, self.tensor(node, 1))
        self._variables[name] = self.source(node, 1)

    def layer_of_output(self, node: TfliteNode) -> str:
        """Return the layer that writes the output of a node."""
        return self._layers[node.outputs[0]]

    def keep_state(self, node: TfliteNode, index: int) -> None:
        """Let a variable tensor be a state. Raises UnsupportedOperator if it is another state too."""
        if node.inputs[index] in self._kept:
            name = self.tensor(node, index).name
            raise refusal(node, f"the state {name!r} (input {index}) is that of another input too")
        self._kept.add(node.inputs[index])

    def state_before(self, node: TfliteNode, index: int, dims: Dims) -> str:
        """Add the layer of a floating-point variable's value before the frame: zeros at first."""
        name = self.builder.free_name(self.tensor(node, index).name or f"{node} state {index}")
        if name in self.graph.initial:  # a variable of another tensor
            name = self.builder.free_name(f"{name} state")
        layer = self.builder.add(op.Previous(dims=dims, variable=name, begin=0), name=name)
        self._variables[name] = layer
        return layer

    def state_after(
        self,
        before: str,
        step: op.Operator,
        sources: Sequence[str],
        trained: Sequence[Trained] = (),
    ) -> None:
        """Add the layer that writes a state for the next frame; before: the state of this frame."""
        operator = self.builder.layer(before).operator
        assert isinstance(operator, op.Previous)
        name = self.builder.free_name(f"{operator.variable} after")
        self._variables[operator.variable] = self._add_layer(
            step, *sources, name=name, trained=trained
        )

    def _variable(self, node: TfliteNode) -> str:
        handle = node.inputs[0] if node.inputs else -1
        if handle not in self.graph.handles:
            raise UnreadableFile(f"{node}: input 0 stands for no variable")
        return self.graph.handles[handle]

    def _require_alike(self, node: TfliteNode, name: str, tensor: Tensor) -> None:
        """Raise UnsupportedOperator unless a tensor is stored as the first value of a variable."""
        initial = self.graph.initial[name]
        stored_as, initially_stored_as = (
            (value.dims, value.element, quantization_of(value)) for value in (tensor, initial)
        )
        if stored_as != initially_stored_as:
            raise refusal(
                node,
                f"variable {name!r} begins as {initial.name!r} with other sizes, type or scale than "
                f"{tensor.name!r}",
            )

    def add_variables(self) -> None:
        """Add the layers that store the variables for the next frame."""
        first_reads = [
            layer.operator
            for layer in self.builder.network().layers
            if isinstance(layer.operator, op.Previous)
        ]
        for operator in first_reads:
            source = self.builder.layer(self._variables[operator.variable])
            self.builder.add(
                op.Next(variable=operator.variable),
                source.name,
                name=self.builder.free_name(f"{operator.variable} next"),
                quantization=source.quantization,
            )

    def add_outputs(self) -> None:
        """Add the output layers."""
        for number in self.graph.outputs:
            if number not in self._layers:
                name = self.graph.tensors[number].name
                raise UnreadableFile(f"output {name!r} is the same for every frame")
            name = self.builder.free_name(f"{self.graph.tensors[number].name} output")
            self.builder.output(self._layers[number], name=name)

    def tensor(self, node: TfliteNode, index: int) -> Tensor:
        """Return an input of a node. Raises UnreadableFile where it is left out."""
        if not self.has(node, index):
            raise UnreadableFile(f"{node}: input {index} is missing")
        return self.graph.tensors[node.inputs[index]]

    def has(self, node: TfliteNode, index: int) -> bool:
        """Whether the node has this input."""
        return index < len(node.inputs) and node.inputs[index] != -1

    def output(self, node: TfliteNode, index: int = 0) -> Tensor:
        """Return an output of a node."""
        return self.graph.tensors[node.outputs[index]]

    def constant(self, node: TfliteNode, index: int) -> Array:
        """Return a constant input. Raises UnsupportedOperator where it depends on the frame."""
        tensor = self.tensor(node, index)
        if not tensor.is_constant:
            raise refusal(node, f"input {tensor.name!r} is computed from the frame")
        return tensor.array()

    def integers(self, node: TfliteNode, index: int) -> tuple[int, ...]:
        """Return a constant input as whole numbers."""
        return tuple(int(number) for number in self.constant(node, index).reshape(-1))

    def shape(self, node: TfliteNode, index: int) -> Shape:
        """Return the shape of an input that depends on the frame, as the node sees it."""
        return self.builder.shape(self.source(node, index))

    def map_shape(self, node: TfliteNode, index: int) -> Shape:
        """Return the shape of an input that must be a stack of feature maps."""
        dims = self.tensor(node, index).dims
        if len(dims) != 4 or dims[0] != 1:
            raise refusal(node, f"works on 1 x height x width x channels, found {dims}")
        return self.shape(node, index)

    def source(self, node: TfliteNode, index: int) -> str:
        """Return the layer that holds an input with the axes as the node reads them."""
        tensor, layer = self.tensor(node, index), self.source_as_stored(node, index)
        has_channels_first = self.is_map(node.inputs[index])
        if len(tensor.dims) != 4 or has_channels_first == self.works_on_maps(node):
            return layer
        turn = op.Transpose(permutation=TO_MATRIX if has_channels_first else TO_MAP)
        return self.add_moves(node, layer, turn)

    def source_in_file_axes(self, node: TfliteNode, index: int) -> str:
        """Return the layer that holds an input with the axes of the file."""
        source = self.source_as_stored(node, index)
        if not self.is_map(node.inputs[index]):
            return source
        return self.add_moves(node, source, op.Transpose(permutation=TO_MATRIX))

    def source_as_stored(self, node: TfliteNode, index: int) -> str:
        """Return the layer that writes an input, with the axes of the layer."""
        tensor = self.tensor(node, index)
        if node.inputs[index] not in self._layers:
            what = "a constant" if tensor.is_constant else "written by no operator before it"
            raise refusal(node, f"input {tensor.name!r} is {what}")
        return self._layers[node.inputs[index]]

    def is_dynamic(self, node: TfliteNode, index: int) -> bool:
        """Whether an input depends on the frame."""
        return self.has(node, index) and node.inputs[index] in self._layers

    def trained(self, node: TfliteNode, index: int, role: str, array: Array) -> Trained:
        """Return parameters that were put into our order of axes."""
        tensor = self.tensor(node, index)
        types = None if role == "bias" else quantization_of(tensor)
        if types is not None and types.element is Element.UINT8 and role == "kernel":
            types = replace(types, arithmetic=Arithmetic.UNSIGNED_FIXED_POINT)
        stored = Stored(
            role=role,
            element=Element.FLOAT16 if tensor.is_of_halves else _element(tensor),
            name=f"buffer {tensor.buffer}",
            quantization=types,
        )
        return Trained(array=np.ascontiguousarray(array), stored=stored)

    def add(
        self,
        node: TfliteNode,
        *steps: op.Operator,
        sources: Sequence[str] | None = None,
        trained: Sequence[Trained] = (),
        fused: int = 0,
        output: int = 0,
        has_node_axes: bool = True,
        dims: Dims | None = None,
    ) -> None:
        """Add a chain of layers; the last layer writes an output of the node.

        sources: layers that the first layer reads, by default that of input 0 as the node sees it.
        trained: weights of the first layer. fused: ActivationFunctionType of the activation after the
        first layer. has_node_axes: whether the axes have the order of the node, so that the result may
        need a transposition. dims: of the result, if the file leaves them open.
        """
        tensor, number = self.output(node, output), node.outputs[output]
        inputs = [self.source(node, 0)] if sources is None else list(sources)
        quantization = quantization_of(tensor)
        if fused not in FUSED or (fused == TANH and quantization is not None):
            raise refusal(node, f"the activation {fused} after it is not supported")
        self._require_types(
            node, [quantization, *(self.builder.layer(name).quantization for name in inputs)]
        )
        if node.kind in WITH_FRACTIONS and quantization is None and _element(tensor).is_integer:
            steps = (*steps, op.Activation(function="truncate"))
        if (
            has_node_axes
            and len(tensor.dims) == 4
            and self.is_map(number) != self.works_on_maps(node)
        ):
            turn = TO_MAP if self.is_map(number) else TO_MATRIX
            steps = (*steps, op.Transpose(permutation=turn))
        wanted = self.frame_dims(number) if dims is None else dims
        computed = dims_after(steps, [self.builder.shape(name) for name in inputs])
        if computed != wanted:
            # Only axes of size one may differ: then a reshape preserves the order of elements.
            if [size for size in computed if size > 1] != [size for size in wanted if size > 1]:
                raise refusal(node, f"its output would be {computed}, but the file says {wanted}")
            steps = (*steps, op.Reshape(dims=wanted))
        for position, step in enumerate(steps):
            is_first, is_last = position == 0, position == len(steps) - 1
            layer = self._add_layer(
                step,
                *inputs,
                name=tensor.name if is_last else f"{tensor.name} {step.in_words()}",
                element=_element(tensor),
                trained=trained if is_first else (),
                quantization=quantization,
                epilogue=FUSED[fused] if is_first else (),
            )
            inputs = [layer]
        self._layers[number] = inputs[0]

    def _add_layer(
        self,
        operator: op.Operator,
        *sources: str,
        name: str,
        trained: Sequence[Trained],
        element: Element | None = None,
        quantization: Quantization | None = None,
        epilogue: tuple[op.Operator, ...] = (),
    ) -> str:
        """Add a layer and its parameters; the arguments are those of `NetworkBuilder.add`."""
        stored = tuple(parameters.stored for parameters in trained)
        layer = self.builder.add(
            operator,
            *sources,
            name=name,
            element=element,
            stored=stored,
            quantization=quantization,
            epilogue=epilogue,
        )
        if trained:
            self.weights[layer] = {
                parameters.stored.role: parameters.array for parameters in trained
            }
        return layer

    def add_inner(
        self,
        node: TfliteNode,
        operator: op.Operator,
        sources: Sequence[str],
        trained: Sequence[Trained],
        what: str = "",
    ) -> str:
        """Add a layer of floating point before the layers that write outputs of a node."""
        name = f"{self.output(node).name} {what or operator.in_words()}"
        return self._add_layer(
            operator, *sources, name=name, trained=trained, element=Element.FLOAT32
        )

    def add_moves(self, node: TfliteNode, source: str, *steps: op.Operator) -> str:
        """Add steps that move the elements of a layer before the node; return the last layer."""
        layer = self.builder.layer(source)
        for step in steps:
            if step == op.Reshape(dims=self.builder.shape(source).dims):
                continue
            source = self.builder.add(
                step,
                source,
                name=f"{self.output(node).name} {step.in_words()}",
                element=layer.element,
                quantization=layer.quantization,
            )
        return source

    def _require_types(self, node: TfliteNode, types: Sequence[Quantization | None]) -> None:
        """Raise UnsupportedOperator if a node computes integers that only conversions may read."""
        if node.kind in CONVERSIONS:
            return
        for quantization in filter(None, types):
            if quantization.element in CONVERSION_ONLY:
                raise refusal(
                    node,
                    f"quantised {quantization.element.value}; int8, int16 and uint8 are supported",
                )
            is_int16 = quantization.element is Element.INT16
            if is_int16 and quantization.zero_point and node.kind != "SOFTMAX":
                raise refusal(
                    node, f"int16 with a zero point of {quantization.zero_point}; expected 0"
                )


def layer_axes(dims: Dims, *, is_map: bool) -> tuple[int, ...]:
    """Return the axes of a tensor in the order of a layer; a batch of one is left out."""
    if is_map:
        return (3, 1, 2)
    has_batch = len(dims) > 1 and dims[0] == 1
    return tuple(range(int(has_batch), len(dims)))


def frame_dims(dims: Dims, *, is_map: bool) -> Dims:
    """Return the dims in the order of a layer, without a batch of one."""
    return tuple(dims[axis] for axis in layer_axes(dims, is_map=is_map)) or (1,)


def _batches_of_matrices(graph: TfliteGraph) -> frozenset[int]:
    """Return the four-axis tensors connected to BATCH_MATMUL that are stored in the axes of the file.

    All nodes at such a tensor are matrix products, reshapes, or kinds that support any axes.
    """
    nodes_at: dict[int, list[TfliteNode]] = {}  # number of a tensor: its writer and readers
    for node in graph.nodes:
        for number in (*node.inputs, *node.outputs):
            nodes_at.setdefault(number, []).append(node)
    ends = {*graph.inputs, *graph.outputs}
    waiting = [node for node in graph.nodes if node.kind == MATRICES]
    matrices: set[int] = set()
    while waiting:
        node = waiting.pop()
        for number in {*node.inputs, *node.outputs} - matrices - ends:
            kinds = {neighbour.kind for neighbour in nodes_at[number]}
            is_wide = number >= 0 and len(graph.tensors[number].dims) == 4
            if is_wide and kinds <= WITH_ANY_AXES | RESHAPES | {MATRICES}:
                matrices.add(number)
                waiting += [node for node in nodes_at[number] if node.kind in WITH_ANY_AXES]
    return frozenset(matrices)


def quantization_of(tensor: Tensor) -> Quantization | None:
    """Return the quantisation of a tensor. Raises UnsupportedOperator for unsupported types."""
    quantization = tensor.quantization()
    if quantization is not None and quantization.element not in QUANTIZED:
        raise UnsupportedOperator(
            f"tensor {tensor.name!r} is quantised as {quantization.element.value}; int8 and int16 are "
            "supported"
        )
    return quantization


def _element(tensor: Tensor) -> Element:
    if tensor.element is None:
        raise UnsupportedOperator(f"tensor {tensor.name!r} is of a type that is not supported")
    return tensor.element


def dims_after(steps: Sequence[op.Operator], shapes: Sequence[Shape]) -> Dims:
    """Return the dims of the output of the last of a chain of operators."""
    for step in steps:
        shapes = [step.output_shape(shapes)]
    return shapes[0].dims


def refusal(node: TfliteNode, what: str) -> UnsupportedOperator:
    """Return the refusal of a node of a known kind."""
    return UnsupportedOperator(f"{node}: {what}")


Converter = Callable[[TfliteNode, TfliteAssembly], None]
"""Adds the layers of one node of a file to the assembly of its network."""
