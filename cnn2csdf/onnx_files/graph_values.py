"""Types and constant values of the tensors of an ONNX graph.

Every tensor gets its type node by node, from the shape inference of the onnx package. A static tensor
depends on no frame; its value is computed on request, by the reference implementation of the package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from math import ceil, prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import checker, defs, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from cnn2csdf.arrays import are_halves
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.onnx_files.nodes import OnnxNode, unknown, unsupported
from cnn2csdf.shape import Dims
from csdf.errors import UnreadableFile, counted
from csdf.io.files import require_plain

Value = NDArray[Any]

LARGEST_DIM = 2**31 - 1
LARGEST_CONSTANT = 2**28  # elements: a gigabyte of float32
SMALL = 64  # elements of a shape, a list of axes and the like
RANDOM = ("Bernoulli", "Multinomial")
DECIDED_BY_NUMBERS = ("Resize", "Upsample", "Range")  # real inputs decide the output shape
INFERABLE_SINCE = {"GreaterOrEqual": 16, "LessOrEqual": 16}  # in older opsets a function
DIMS_INPUT = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Tile": 1}  # or the repeats
SAME_NUMBERS = (
    "Cast", "DequantizeLinear", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze",
)  # fmt: skip
NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}  # other types have the names of NumPy
ELEMENTS = {
    onnx.TensorProto.DataType.Value(NAMES.get(element.value, element.value.upper())): element
    for element in Element
}
EQUATION = re.compile(
    r"[A-Za-z ]*(\.{3}[A-Za-z ]*)?(,[A-Za-z ]*(\.{3}[A-Za-z ]*)?)*(->[A-Za-z .]*)?"
)
FLOATS = {onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE}
INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)

# Exceptions of the onnx package for malformed graphs.
REFUSALS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip


class GraphValues:
    """Types of all tensors seen so far and values of the static ones; grows node by node."""

    def __init__(
        self, initializers: Iterable[onnx.TensorProto], *, folder: str, opsets: Mapping[str, int]
    ) -> None:
        self._folder = folder
        self._opsets = [onnx.helper.make_opsetid(*entry) for entry in opsets.items()]
        self._stored: dict[str, onnx.TensorProto] = {}
        self._types: dict[str, onnx.TypeProto] = {}
        self.add_constants({tensor.name: tensor for tensor in initializers})
        self._makers: dict[str, OnnxNode] = {}  # nodes of static tensors, by output
        self._static_order: dict[tuple[str, ...], int] = {}  # of static nodes: execution order
        self._values: dict[str, Value] = {}

    def add_input(self, name: str, element_type: int, dims: Dims) -> None:
        """Add an input of the graph, which depends on the frame."""
        self._types[name] = onnx.helper.make_tensor_type_proto(element_type, dims)
        _require_countable(f"input {name!r}", self._types[name])

    def add_constants(self, constants: Mapping[str, onnx.TensorProto]) -> None:
        """Add constants of the graph, or of a graph inside it, by name."""
        for name, tensor in constants.items():
            tensor_type = onnx.helper.make_tensor_type_proto(tensor.data_type, tuple(tensor.dims))
            _require_countable(f"initializer {name!r}", tensor_type)
            self._stored[name], self._types[name] = tensor, tensor_type

    def add_node(self, node: OnnxNode) -> None:
        """Infer the types of the outputs of a node, whose inputs have types.

        Raises UnsupportedOperator for an operator that the onnx package does not know, and
        UnreadableFile where the inputs do not fit it.
        """
        types = self._inferred(node)
        for name, tensor_type in types.items():
            _require_countable(f"{node}: tensor {name!r}", tensor_type)
        self._types.update(types)
        is_random = node.op_type in RANDOM or node.op_type.startswith("Random")
        if node.op_type in ("Shape", "Size") and not self.is_static(node.required(0)):
            dims = self.dims(node.required(0))
            kept = dims[node.integer("start", 0) : node.integer("end", len(dims))]
            measured = prod(dims) if node.op_type == "Size" else kept
            self._values[node.outputs[0]] = np.asarray(measured, dtype=np.int64)
        elif not is_random and all(self.is_static(name) for name in node.inputs if name):
            self._makers.update(dict.fromkeys(filter(None, node.outputs), node))
            self._static_order[node.outputs] = len(self._static_order)

    def is_static(self, name: str) -> bool:
        """Whether the tensor is the same for every frame."""
        return name in self._stored or name in self._values or name in self._makers

    def dims(self, name: str) -> Dims:
        """Return the dims of a tensor. Raises UnreadableFile where they are not fixed."""
        dims = self._known_dims(name)
        if dims is None and self.is_static(name):
            dims = self.value(name).shape
        if dims is None:
            raise UnreadableFile(
                f"tensor {name!r}: its shape depends on more than the shapes of the inputs"
            )
        if 0 in dims and not self.is_static(name):
            listed = "x".join(map(str, dims))
            raise UnreadableFile(f"tensor {name!r} of shape {listed} holds nothing")
        return dims

    def type_of(self, name: str) -> onnx.TypeProto:
        """Return the type of a tensor, with its dims where these are known."""
        return self._types[name]

    def element_type(self, name: str) -> int:
        """Return the element type of a tensor, a number of TensorProto.DataType."""
        return int(self._types[name].tensor_type.elem_type)

    def element(self, name: str) -> Element:
        """Return the type of the elements. Raises UnreadableFile for one that layers cannot have."""
        number = self.element_type(name)
        if number not in ELEMENTS:
            kind = onnx.TensorProto.DataType.Name(number)
            raise UnreadableFile(f"tensor {name!r} holds elements of type {kind}")
        return ELEMENTS[number]

    def stored(self, role: str, name: str, axis: int) -> Stored:
        """Return how a static tensor is stored: under the name, and as the type, in the file.

        axis: along which the output channels lie, so that each may have a scale.
        """
        quantization = None
        while name in self._makers and self._makers[name].op_type in SAME_NUMBERS:
            maker = self._makers[name]
            if maker.op_type == "DequantizeLinear":
                quantization = self.quantization(maker, maker.required(0), axis)
            name = maker.required(0)
        element = ELEMENTS.get(self.element_type(name), Element.FLOAT32)
        if element is Element.FLOAT32 and self._is_of_halves(name):
            element = Element.FLOAT16
        return Stored(role=role, element=element, name=name, quantization=quantization)

    def _is_of_halves(self, name: str) -> bool:
        """Whether a static tensor has numbers of float16, from constants of float16 alone."""
        if name not in self._makers:
            return False
        sources = {name for node in self._unfolded(self._makers[name]) for name in node.inputs}
        types = {self.element_type(source) for source in sources if source in self._stored}
        return types & FLOATS == {onnx.TensorProto.FLOAT16} and are_halves(self.value(name))

    def quantization(
        self, node: OnnxNode, name: str, axis: int | None = None
    ) -> Quantization | None:
        """Return the quantisation that QuantizeLinear or DequantizeLinear states for a tensor.

        axis: along which it may have several scales; None for a single scale. The result is None for
        scales or zero points that layers cannot have.
        """
        scale, zero = node.required(1), node.input(2)
        if not self.is_static(scale) or not (zero is None or self.is_static(zero)):
            raise unsupported(node, "a scale that is computed from the frame is not supported")
        scales = np.asarray(self.value(scale), np.float32).reshape(-1)
        zeros = np.zeros(1, np.int64) if zero is None else self.value(zero).reshape(-1)
        rank = len(self.dims(name))
        along = node.integer("axis", 1) % max(rank, 1)
        if not scales.size or not zeros.size or zeros.min() != zeros.max():
            return None
        if scales.size > 1 and (axis is None or along != axis or node.integer("block_size", 0)):
            return None
        return Quantization(
            element=self.element(name),
            scales=tuple(map(float, scales)),
            zero_point=int(zeros[0]),
            arithmetic=Arithmetic.SINGLE_PRECISION,
        )

    def value(self, name: str) -> Value:
        """Return the value of a static tensor, which may be stored in a file of its own.

        Raises UnreadableFile where it cannot be read or computed.
        """
        if name not in self._values:
            if name in self._stored:
                self._values[name] = self._loaded(self._stored[name])
            else:
                self._fold(self._makers[name])
        return self._values[name]

    def _known_dims(self, name: str) -> Dims | None:
        return _fixed_dims(self._types.get(name))

    def _inferred(self, node: OnnxNode) -> Mapping[str, onnx.TypeProto]:
        try:
            schema = defs.get_schema(node.op_type, node.opset, node.domain)
            if node.op_type in INFERABLE_SINCE:
                version = max(node.opset, INFERABLE_SINCE[node.op_type])
                schema = defs.get_schema(node.op_type, version, node.domain)
        except defs.SchemaError:
            raise unknown(node) from None
        self._require_inferable(node)
        try:
            types = shape_inference.infer_node_outputs(
                schema,
                node.proto,
                {name: self._types[name] for name in node.inputs if name in self._types},
                {
                    name: numpy_helper.from_array(self.value(name), name)
                    for name in node.inputs
                    if self._decides(name, node)
                },
                opset_imports=self._opsets,
            )
        except (shape_inference.InferenceError, checker.ValidationError, *REFUSALS) as error:
            raise UnreadableFile(f"{node}: {_first_line(error)}") from None
        name = node.outputs[0]
        dims = self._dims_in_the_runtime(node, _fixed_dims(types.get(name)))
        if dims is not None:
            kind = types[name].tensor_type.elem_type
            types[name] = onnx.helper.make_tensor_type_proto(kind, dims)
        return types

    def _require_inferable(self, node: OnnxNode) -> None:
        """Raise where shape inference would exhaust memory, crash, or never end.

        UnreadableFile for a list of very many dims, a split into another number of parts, and a
        malformed equation; UnsupportedOperator for several scales before there was an axis for them.
        """
        dims_input = node.input(DIMS_INPUT.get(node.op_type, len(node.inputs)))
        count = prod(self._known_dims(dims_input) or ()) if dims_input is not None else 0
        if count > SMALL:
            raise UnreadableFile(
                f"{node}: {count} axes in {dims_input!r}, expected at most {SMALL}"
            )
        is_quantizer = node.op_type in ("QuantizeLinear", "DequantizeLinear")
        scale = node.input(1) if is_quantizer and node.opset < 13 else None
        if scale is not None and prod(self._known_dims(scale) or ()) != 1:
            raise unsupported(node, "several scales need an axis, which opset 13 brought")
        if node.op_type == "Split":
            parts = node.integer("num_outputs", len(node.outputs))
            if parts != len(node.outputs):
                outputs = counted(len(node.outputs), "output")
                raise UnreadableFile(f"{node}: num_outputs is {parts} for {outputs}")
        if node.op_type == "Einsum":
            equation = node.text("equation", "")
            terms = equation.partition("->")[0].split(",")
            if EQUATION.fullmatch(equation) is None or len(terms) != len(node.inputs):
                inputs = counted(len(node.inputs), "input")
                raise UnreadableFile(f"{node}: equation {equation!r} for {inputs}")

    def _dims_in_the_runtime(self, node: OnnxNode, inferred: Dims | None) -> Dims | None:
        """Return the output dims of a node whose dims ONNX Runtime rounds as onnx does not; or None."""
        if node.integer("ceil_mode", 0) and node.text("auto_pad", "NOTSET") == "NOTSET":
            return self._pooled_dims(node, inferred)
        if node.op_type == "Range":
            return self._range_dims(node)
        return self._resized_dims(node) if node.op_type in ("Resize", "Upsample") else None

    def _pooled_dims(self, node: OnnxNode, inferred: Dims | None) -> Dims | None:
        """Return the dims of a pooling without a last window that begins after the maps."""
        dims = self._known_dims(node.required(0))
        axes = len(node.integers("kernel_shape") or ())
        strides = node.integers("strides") or (1,) * axes
        before = (node.integers("pads") or (0,) * axes)[:axes]
        if dims is None or inferred is None or not len(dims) == len(inferred) == axes + 2:
            return None
        windows = zip(dims[2:], inferred[2:], strides, before, strict=True)
        return inferred[:2] + tuple(
            count - 1 if (count - 1) * stride >= length + pad else count
            for length, count, stride, pad in windows
        )

    def _range_dims(self, node: OnnxNode) -> Dims | None:
        """Return the length of a constant range of reals, counted in double precision."""
        names = tuple(filter(None, node.inputs))
        if not all(map(self.is_static, names)) or len(names) != 3:
            return None
        if self.element_type(names[0]) in INTEGERS:
            return None
        ends = [self.value(name) for name in names]
        if any(end.size != 1 or not np.isfinite(end).all() for end in ends) or not ends[2]:
            return None
        return (range_length(*(end.reshape(()) for end in ends)),)

    def _resized_dims(self, node: OnnxNode) -> Dims | None:
        """Return the dims of a resize by scales, in single precision.

        10 rows times 2.3 are 23 in single precision, and 22.99999952 in double.
        """
        input_dims, scales = self._known_dims(node.required(0)), node.reals("scales")
        name = node.input(2 if node.op_type == "Resize" and node.opset >= 11 else 1)
        if scales is None and name is not None and self.is_static(name):
            scales = tuple(self.value(name).reshape(-1).tolist())
        axes = node.integers("axes") or tuple(range(len(input_dims or ())))
        if input_dims is None or not scales or len(scales) != len(axes):
            return None
        dims = list(input_dims)
        for axis, scale in zip(axes, scales, strict=True):
            size = np.float32(input_dims[axis % len(input_dims)]) * np.float32(scale)
            if not 0 < size < LARGEST_DIM:
                return None
            dims[axis % len(input_dims)] = int(size)
        return tuple(dims)

    def _decides(self, name: str, node: OnnxNode) -> bool:
        """Whether the shape of what the node writes may depend on the value of that input."""
        if not name or not self.is_static(name):
            return False
        if self.element_type(name) not in INTEGERS and node.op_type not in DECIDED_BY_NUMBERS:
            return False
        dims = self._known_dims(name)
        return dims is not None and len(dims) < 2 and prod(dims) <= SMALL

    def _fold(self, last: OnnxNode) -> None:
        """Compute the values of the outputs of a static node, and of the static nodes before it.

        Raises UnreadableFile, naming the node, where they cannot be computed.
        """
        nodes = self._unfolded(last)
        outputs = [name for node in nodes for name in node.outputs if name]
        for output in outputs:
            _require_size(output, self._known_dims(output) or ())
        read = {name for node in nodes for name in node.inputs if name} - set(outputs)
        values_read = {name: self.value(name) for name in sorted(read)}
        graph = onnx.GraphProto(
            name="folded",
            node=[node.proto for node in nodes],
            input=[onnx.ValueInfoProto(name=name) for name in values_read],
            output=[onnx.ValueInfoProto(name=name) for name in outputs],
        )
        model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph, opset_import=self._opsets)
        try:
            with np.errstate(all="ignore"):
                outputs_computed = ReferenceEvaluator(model, new_ops=REFERENCE_OVERRIDES).run(
                    None, values_read
                )
                values = {
                    name: np.asarray(array)
                    for name, array in zip(outputs, outputs_computed, strict=True)
                }
        except REFUSALS as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise UnreadableFile(
                f"{last}: its constant value cannot be computed: {reason}"
            ) from None
        for name, value in values.items():
            dims = self._known_dims(name)
            if dims is not None and dims != value.shape:
                raise UnreadableFile(
                    f"constant {name!r}: the onnx package computes it as {value.shape}, and ONNX "
                    f"Runtime as {dims}; store its value in the file instead"
                )
        self._values.update(values)

    def _unfolded(self, last: OnnxNode) -> list[OnnxNode]:
        """Return the nodes from known values to the outputs of the last node, in execution order."""
        chain = {last.outputs: last}
        frontier = [last]
        while frontier:
            for name in frontier.pop().inputs:
                maker = None if name in self._values else self._makers.get(name)
                if maker is not None and maker.outputs not in chain:
                    chain[maker.outputs] = maker
                    frontier.append(maker)
        return sorted(chain.values(), key=lambda node: self._static_order[node.outputs])

    def _loaded(self, tensor: onnx.TensorProto) -> Value:
        _require_size(tensor.name, tuple(tensor.dims))
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
            for location in locations:
                require_plain(os.path.join(self._folder, location))
            filled = onnx.TensorProto()
            filled.CopyFrom(tensor)
            tensor = filled
            try:
                onnx.external_data_helper.load_external_data_for_tensor(tensor, self._folder)
            except (OSError, checker.ValidationError, *REFUSALS) as error:
                raise UnreadableFile(
                    f"weights {tensor.name!r} are in the file {''.join(locations)!r} beside the model, "
                    f"which cannot be read: {_first_line(error)}"
                ) from None
        try:
            return numpy_helper.to_array(tensor)
        except REFUSALS as error:
            raise UnreadableFile(f"initializer {tensor.name!r}: {_first_line(error)}") from None


def _fixed_dims(found: onnx.TypeProto | None) -> Dims | None:
    """Return the dims of a type; None where they are not known, or not all are numbers."""
    if found is None or not found.tensor_type.HasField("shape"):
        return None
    dims = found.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def _require_countable(what: str, found: onnx.TypeProto) -> None:
    """Raise UnreadableFile for dims with which the sums of inference would overflow."""
    for dim in found.tensor_type.shape.dim:
        if not 0 <= dim.dim_value <= LARGEST_DIM:
            raise UnreadableFile(
                f"{what} has a dim of {dim.dim_value}; expected 0 to {LARGEST_DIM}"
            )


def _require_size(name: str, dims: Dims) -> None:
    if prod(dims) > LARGEST_CONSTANT:
        listed = "x".join(map(str, dims))
        raise UnreadableFile(
            f"constant {name!r} of shape {listed} is larger than the limit of "
            f"{LARGEST_CONSTANT} elements"
        )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].removeprefix("[ShapeInferenceError] ") if lines else type(error).__name__


class QuantizeLinear(OpRun):
    """For all opsets: the onnx package has the newest only."""

    def _run(self, x: Value, scale: Value, zero: Value | None = None, **attributes: Any) -> Any:
        if zero is None:
            output_type = attributes.get("output_dtype") or onnx.TensorProto.UINT8
            zero = np.zeros(1, onnx.helper.tensor_dtype_to_np_dtype(output_type))
        steps, zeros = (_along(array, x, attributes) for array in (scale, zero))
        limits = np.iinfo(zero.dtype)
        quantized = np.rint(x / steps) + zeros.astype(np.float64)
        return (np.clip(quantized, limits.min, limits.max).astype(zero.dtype),)


class DequantizeLinear(OpRun):
    """For all opsets: the onnx package has the newest only."""

    def _run(self, x: Value, scale: Value, zero: Value | None = None, **attributes: Any) -> Any:
        zero = np.zeros(1, x.dtype) if zero is None else zero
        steps, zeros = (_along(array, x, attributes) for array in (scale, zero))
        return ((x.astype(np.int64) - zeros.astype(np.int64)).astype(scale.dtype) * steps,)


def _along(values: Value, tensor: Value, attributes: Mapping[str, Any]) -> Value:
    """Return a single value, or the values along the axis of the node, to broadcast to the tensor."""
    if attributes.get("block_size"):
        raise NotImplementedError("scales of blocks are not supported")
    if values.size == 1:
        return values.reshape(())
    axis = int(attributes["axis"])
    return values.reshape(
        [-1 if index == axis % tensor.ndim else 1 for index in range(tensor.ndim)]
    )


def range_length(start: Value, limit: Value, delta: Value) -> int:
    """Return the number of elements of a range, computed in double precision."""
    if start.dtype.kind == "i":
        return max(-((int(start) - int(limit)) // int(delta)), 0)
    # A longer range is refused by its dims.
    length = min((float(limit) - float(start)) / float(delta), LARGEST_DIM + 1)
    return ceil(max(length, 0))


class Range(OpRun):
    """As ONNX Runtime, which adds the step again and again, each sum rounded."""

    def _run(self, start: Value, limit: Value, delta: Value, **_: Any) -> Any:
        start, limit, delta = (np.reshape(array, ()) for array in (start, limit, delta))
        steps = np.full(range_length(start, limit, delta), delta, start.dtype)
        steps[:1] = start
        return (np.add.accumulate(steps, dtype=start.dtype),)


class GatherElements(OpRun):
    """Also for a tensor longer than the indices, where the onnx package fails."""

    def _run(self, x: Value, indices: Value, axis: int = 0) -> Any:
        kept = [slice(size) for size in indices.shape]
        kept[axis] = slice(None)
        return (np.take_along_axis(x[tuple(kept)], indices, axis=axis),)


REFERENCE_OVERRIDES = [QuantizeLinear, DequantizeLinear, GatherElements, Range]
