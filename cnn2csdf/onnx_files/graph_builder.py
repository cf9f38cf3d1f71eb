"""Building an ONNX graph: its nodes and constants, with unique names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from cnn2csdf.operators.operands import Constants, constant_role
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Array
from csdf.names import free_name

FLOAT, BOOL, INTEGER = (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64)


class OnnxGraphBuilder:
    """The nodes, constants and names of a graph.

    nodes: in an order in which each tensor is written before it is read.
    constants: arrays by name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._names = set(names)
        # Name of the constant for a stored name, dims and element type.
        self._shared: dict[tuple[str, tuple[int, ...], str], str] = {}

    def free_name(self, wanted: str) -> str:
        """Reserve and return the name, with a number appended if the name exists."""
        name = free_name(wanted, self._names)
        self._names.add(name)
        return name

    def add_constant(self, wanted: str, value: NDArray[Any], stored_name: str | None) -> str:
        """Add a constant; return its name.

        stored_name: name of the array in the network, where several layers may read it. An equal array
        of the same name is added once.
        """
        key = (stored_name or "", value.shape, value.dtype.str)
        shared = self._shared.get(key)
        if shared is not None and np.array_equal(self.constants[shared], value, equal_nan=True):
            return shared
        name = self.free_name(wanted)
        self.constants[name] = value
        if stored_name is not None:
            self._shared[key] = name
        return name

    def rename_last(self, name: str, output: str) -> None:
        """Name the last node and its result; its other outputs have free names after the result."""
        last = self.nodes[-1]
        self._names.difference_update(last.output)
        last.output[:] = [
            output
            if tensor == last.name
            else self.free_name(output + tensor.removeprefix(last.name))
            for tensor in last.output
        ]
        last.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorNodes:
    """The nodes of one operator, which are added to a graph.

    name: of the operator; the names of its nodes and constants begin with it.
    inputs: names of the tensors that the operator reads, and in `shapes` their shapes without batch.
    output: shape of the result without batch.
    weights: trained arrays by role; `stored_names`: names of those that several layers may read.
    """

    graph: OnnxGraphBuilder
    name: str
    inputs: Sequence[str]
    shapes: Sequence[Shape]
    output: Shape
    weights: Mapping[str, Array] = field(default_factory=dict)
    stored_names: Mapping[str, str] = field(default_factory=dict)

    def node(
        self, op_type: str, *inputs: str, outputs: int = 1, result: int = 0, **attributes: Any
    ) -> str:
        """Add a node; return the name of its output with index `result`, of a number of outputs.

        inputs: names of tensors and constants; "" is an input left out.
        """
        name = self.graph.free_name(f"{self.name} {op_type.lower()}")
        written = [
            name if index == result else self.graph.free_name(f"{name} {index}")
            for index in range(outputs)
        ]
        self.graph.nodes.append(helper.make_node(op_type, inputs, written, name=name, **attributes))
        return name

    def constant(self, role: str, value: NDArray[Any]) -> str:
        """Add a constant; return its name."""
        return self.graph.add_constant(f"{self.name}.{role}", value, self.stored_names.get(role))

    def number(self, role: str, value: float) -> str:
        """Add a constant without axes; return its name."""
        return self.constant(role, np.array(value, dtype=np.float32))

    def integers(self, role: str, *values: int) -> str:
        """Add a constant list of integers; return its name."""
        return self.constant(role, np.array(values, dtype=np.int64))

    def trained(self) -> list[str]:
        """Add all weights, in the order of their roles in the operator; return their names."""
        return [self.constant(role, array) for role, array in self.weights.items()]

    def operands(
        self, constants: Constants, prepared: Callable[[int, Array], NDArray[Any]]
    ) -> list[str]:
        """Return the names of all operands, inputs and added constants, in the order of the operator.

        prepared: the constant to add, for the position and the array of a trained operand.
        """
        names = list(self.inputs)
        for position, _ in constants:
            role = constant_role(position)
            names.insert(position, self.constant(role, prepared(position, self.weights[role])))
        return names

    def with_batch(self, array: Array) -> Array:
        """Return a constant, with a batch axis if it has as many axes as the output."""
        return array[None] if array.ndim == len(self.output.dims) else array

    def cast(self, tensor: str, element_type: int) -> str:
        """Add a cast to an element type of ONNX; return its output."""
        return self.node("Cast", tensor, to=element_type)

    def reshape(self, tensor: str, dims: Sequence[int]) -> str:
        """Add a reshape to one frame of these dims; return its output."""
        return self.node("Reshape", tensor, self.integers("dims", 1, *dims))

    def transpose(self, tensor: str, *permutation: int) -> str:
        """Add a transposition, batch axis included; return its output."""
        return self.node("Transpose", tensor, perm=permutation)
