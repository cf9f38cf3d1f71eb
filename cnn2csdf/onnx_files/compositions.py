"""ONNX operators that are read as a composition of others: one-hot, sums of powers, and functions.

Of the standard, an operator may be a function: its schema has the nodes that it stands for. The other
compositions follow the texts of the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from cnn2csdf.onnx_files.attention import attention_nodes
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import OnnxNode, node_of, unsupported

OPSET = {"": 17}
STATISTICS = (3, 4)  # inputs of a batch normalisation: mean and variance
FUNCTIONS = ("GroupNormalization", "MeanVarianceNormalization", "RMSNormalization", "Shrink")


def composition(node: OnnxNode, values: GraphValues) -> list[OnnxNode] | None:
    """Return the nodes that a node stands for, in running order; None for a node as it is.

    Constants of the composition become known. Raises UnsupportedOperator for a form of an operator
    that no composition covers.
    """
    if node.domain:
        return None
    if node.op_type == "BatchNormalization" and all(
        values.is_static(node.required(index)) for index in STATISTICS
    ):
        return None
    compose = COMPOSITIONS.get(node.op_type)
    return None if compose is None else compose(node, values)


class _Composition:
    """The nodes of one operator; tensors between them are called after its output."""

    def __init__(self, node: OnnxNode, values: GraphValues) -> None:
        self.node, self.values = node, values
        self.nodes: list[OnnxNode] = []

    def add(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of what it writes."""
        name = output or f"{self.node.name}/{op_type} {len(self.nodes)}"
        proto = helper.make_node(op_type, inputs, [name], name=name, **attributes)
        self.nodes.append(node_of(proto, OPSET))
        return name

    def constant(self, value: Any) -> str:
        """Add a constant, and return its name."""
        array = np.asarray(value)
        name = f"{self.node.name}/constant {len(self.nodes)} {array.shape} {array.size}"
        name = f"{name} {array.reshape(-1)[:2].tolist()}"
        self.values.add_constants({name: numpy_helper.from_array(array, name)})
        return name


def _one_hot(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """The numbers along a new axis compared with 0 to depth - 1; negative numbers count from depth."""
    steps = _Composition(node, values)
    if not all(values.is_static(node.required(index)) for index in (1, 2)):
        raise unsupported(node, "a depth or values that are computed from the frame")
    indices, rank = node.required(0), len(values.dims(node.required(0)))
    depth = int(values.value(node.required(1)).reshape(-1)[0])
    off, on = values.value(node.required(2)).reshape(-1)
    axis = node.integer("axis", -1) % (rank + 1)
    kind = helper.tensor_dtype_to_np_dtype(values.element_type(indices))
    if not np.issubdtype(kind, np.unsignedinteger):
        zero, size = steps.constant(np.zeros(1, kind)), steps.constant(np.full(1, depth, kind))
        from_end = steps.add("Add", indices, size)
        indices = steps.add("Where", steps.add("Less", indices, zero), from_end, indices)
    column = steps.add("Unsqueeze", indices, steps.constant(np.array([axis])))
    dims = [depth if place == axis else 1 for place in range(rank + 1)]
    is_hot = steps.add("Equal", column, steps.constant(np.arange(depth, dtype=kind).reshape(dims)))
    filled = steps.constant(np.array([on])), steps.constant(np.array([off]))
    steps.add("Where", is_hot, *filled, output=node.outputs[0])
    return steps.nodes


def _sum_of(before: str, after: str = "") -> Callable[[OnnxNode, GraphValues], list[OnnxNode]]:
    """Return the composition of a sum of a function of elements, and a function of the sum."""

    def compose(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
        steps, source = _Composition(node, values), node.required(0)
        if before:
            operands = (source, source) if before == "Mul" else (source,)
            source = steps.add(before, *operands)
        axes = node.integers("axes")
        listed = node.input(1)
        if axes is not None:
            listed = steps.constant(np.array(axes))
        attributes = {
            name: node.integer(name, default)
            for name, default in (("keepdims", 1), ("noop_with_empty_axes", 0))
        }
        names = (source,) if listed is None else (source, listed)
        output = "" if after else node.outputs[0]
        total = steps.add("ReduceSum", *names, output=output, **attributes)
        if after:
            steps.add(after, total, output=node.outputs[0])
        return steps.nodes

    return compose


def _normalised_by_frame(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """A batch normalisation by means and variances that the frame gives."""
    if node.integer("training_mode", 0):
        raise unsupported(node, "training_mode is not supported; export the model for inference")
    steps, rank = _Composition(node, values), len(values.dims(node.required(0)))
    dims = steps.constant(np.array([1, -1, *(1 for _ in range(rank - 2))]))
    scale, shift, mean, variance = (
        steps.add("Reshape", node.required(index), dims) for index in range(1, 5)
    )
    epsilon = steps.constant(np.array([node.real("epsilon", 1e-5)], np.float32))
    deviation = steps.add("Sqrt", steps.add("Add", variance, epsilon))
    factor = steps.add("Div", scale, deviation)
    centred = steps.add("Sub", node.required(0), mean)
    scaled = steps.add("Mul", centred, factor)
    steps.add("Add", scaled, shift, output=node.outputs[0])
    return steps.nodes


def _cast_like(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    steps = _Composition(node, values)
    kind = values.element_type(node.required(1))
    steps.add("Cast", node.required(0), output=node.outputs[0], to=kind)
    return steps.nodes


def _function(node: OnnxNode, values: GraphValues) -> list[OnnxNode] | None:
    """The nodes of the function that the standard defines an operator as; None without one."""
    try:
        schema: Any = defs.get_schema(node.op_type, node.opset, "")
    except defs.SchemaError:
        return None
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [values.type_of(name).SerializeToString() for name in node.inputs if name]
        text = schema.get_context_dependent_function(node.proto.SerializeToString(), types)
        function.ParseFromString(text)
    elif schema.has_function:
        function.CopyFrom(schema.function_body)
    if not function.node:
        return None
    opsets = {imported.domain: imported.version for imported in function.opset_import}
    names = {"": "", **dict(zip(function.input, node.inputs, strict=False))}
    names |= dict.fromkeys(function.input[len(node.inputs) :], "")
    names |= dict(zip(function.output, node.outputs, strict=False))
    defaults = {attribute.name: attribute for attribute in function.attribute_proto}
    defaults |= {
        attribute.name: attribute.default_value
        for attribute in schema.attributes.values()
        if attribute.default_value.type
    }
    attributes = defaults | dict(node.attributes)
    nodes: list[OnnxNode] = []
    for inner in function.node:
        proto = onnx.NodeProto()
        proto.CopyFrom(inner)
        for tensors in (proto.input, proto.output):
            tensors[:] = [names.get(name, f"{node.name}/{name}") for name in tensors]
        proto.name = f"{node.name}/{inner.op_type} {len(nodes)}"
        _bind(proto, attributes)
        nodes.append(node_of(proto, opsets))
    return nodes


def _bind(proto: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Put values instead of the names of attributes of a function."""
    bound = []
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            bound.append(attribute)
        elif attribute.ref_attr_name in given:
            copy = onnx.AttributeProto()
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
            bound.append(copy)
    del proto.attribute[:]
    proto.attribute.extend(bound)


COMPOSITIONS: Mapping[str, Callable[[OnnxNode, GraphValues], list[OnnxNode] | None]] = {
    "Attention": attention_nodes,
    "BatchNormalization": _normalised_by_frame,
    "CastLike": _cast_like,
    "OneHot": _one_hot,
    "ReduceL1": _sum_of("Abs"),
    "ReduceLogSum": _sum_of("", "Log"),
    "ReduceSumSquare": _sum_of("Mul"),
    **dict.fromkeys(FUNCTIONS, _function),
}
