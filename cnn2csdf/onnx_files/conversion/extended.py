"""Nodes whose operators other packages define, as layers."""

from __future__ import annotations

from types import ModuleType

import cnn2csdf.extensions as extensions
from cnn2csdf.onnx_files.conversion.assembly import OnnxAssembly, Weighted
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import OnnxNode, attribute_value, shortest_decimal
from cnn2csdf.operators.operator import Operator


def extension_of(node: OnnxNode) -> ModuleType | None:
    """Return the module that defines the operator of a node; None for operators of ONNX."""
    return extensions.extension(node.op_type) if node.domain else None


def learn(node: OnnxNode, values: GraphValues) -> None:
    """Let the dims and the element type of the output of such a node be known."""
    dynamic = [name for name in filter(None, node.inputs) if not values.is_static(name)]
    dims = extensions.output_dims(_operator(node), [values.dims(name) for name in dynamic])
    values.add_input(node.outputs[0], values.element_type(dynamic[0]), dims)


def extended(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add the layer of such a node. Its constants are the parameters, in the order of their roles."""
    operator = _operator(node)
    names = [name for name in node.inputs if name]
    inputs = [name for name in names if not assembly.is_static(name)]
    constants = [assembly.numbers(name) for name in names if assembly.is_static(name)]
    roles = operator.trained([assembly.shape(name) for name in inputs])
    weights = extensions.by_role(node, roles, constants)
    assembly.add(node, Weighted(operator, weights), inputs=inputs)


def _operator(node: OnnxNode) -> Operator:
    module = extension_of(node)
    assert module is not None
    values = {name: attribute_value(attribute) for name, attribute in node.attributes.items()}
    attributes = {
        name: shortest_decimal(value) if isinstance(value, float) else value
        for name, value in values.items()
    }
    return extensions.operator_of(module, node, attributes)
