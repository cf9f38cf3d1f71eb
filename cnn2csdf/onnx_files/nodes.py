"""A node of an ONNX graph, with its attributes by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

import numpy as np
import onnx
from onnx import defs

from csdf.errors import UnreadableFile, UnsupportedOperator, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxNode:
    """An operator and the names of the tensors it reads and writes; "" is an input left out."""

    name: str  # of the node in the file, or else of its first output
    op_type: str
    domain: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, onnx.AttributeProto]
    proto: onnx.NodeProto

    def input(self, index: int) -> str | None:
        """Return the tensor at that place; None where it is left out."""
        return (self.inputs[index] or None) if index < len(self.inputs) else None

    def required(self, index: int) -> str:
        """Return the tensor at that place. Raises UnreadableFile where it is left out."""
        name = self.input(index)
        if name is None:
            raise UnreadableFile(f"{self}: input {index} is missing")
        return name

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        return int(self._attribute(name, "INT", default))

    def real(self, name: str, default: float) -> float:
        """Return a floating-point attribute, the shortest decimal that is the same in single precision.

        Raises UnreadableFile where it is no finite number.
        """
        number = self._attribute(name, "FLOAT", None)
        return default if number is None else self._decimal(name, number)

    def text(self, name: str, default: str) -> str:
        """Return a text attribute."""
        return str(self._attribute(name, "STRING", default))

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute of integers; None where it is left out."""
        attribute: tuple[int, ...] | None = self._attribute(name, "INTS", None)
        return attribute

    def reals(self, name: str) -> tuple[float, ...] | None:
        """Return an attribute of numbers, each as `real`; None where it is left out."""
        numbers = self._attribute(name, "FLOATS", None)
        return None if numbers is None else tuple(self._decimal(name, each) for each in numbers)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return an attribute of texts; None where it is left out."""
        attribute: tuple[str, ...] | None = self._attribute(name, "STRINGS", None)
        return attribute

    def numbers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Return an attribute of integers, as many as the default has."""
        numbers = self.integers(name)
        if numbers is not None and len(numbers) != len(default):
            raise UnreadableFile(
                f"{self}: attribute {name} has {len(numbers)} numbers, expected {len(default)}"
            )
        return default if numbers is None else numbers

    def pair(self, name: str, default: tuple[int, int]) -> tuple[int, int]:
        """Return an attribute of two integers, the vertical one first."""
        rows, columns = self.numbers(name, default)
        return (rows, columns)

    def _attribute(self, name: str, kind: str, default: Any) -> Any:
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        if onnx.AttributeProto.AttributeType.Name(attribute.type) != kind:
            raise UnreadableFile(f"{self}: attribute {name} is not of type {kind}")
        return attribute_value(attribute)

    def _decimal(self, name: str, number: float) -> float:
        if not isfinite(number):
            raise UnreadableFile(f"{self}: attribute {name} is {number}")
        return shortest_decimal(number)

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.op_type}, opset {self.opset})"


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return the value of an attribute; texts as str, several values as a tuple.

    Raises UnreadableFile where it has none, since it names an attribute of a function.
    """
    try:
        value = onnx.helper.get_attribute_value(attribute)
    except ValueError:
        said = f"attribute {attribute.name!r} has no value, but perhaps the name of another"
        raise UnreadableFile(said) from None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == onnx.AttributeProto.STRINGS:
        return tuple(text.decode("utf-8", "replace") for text in value)
    is_list = attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)
    return tuple(value) if is_list else value


def shortest_decimal(number: float) -> float:
    """Return the shortest decimal that is the same number in single precision."""
    return float(str(np.float32(number)))


def node_of(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> OnnxNode:
    """Return the node of a message. Raises UnreadableFile where it writes nothing."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    outputs = tuple(proto.output)
    named = [name for name in outputs if name]
    if not named:
        raise UnreadableFile(f"node {proto.name!r} ({proto.op_type}) has no output")
    opset = opsets.get(domain, 0)
    return OnnxNode(
        name=proto.name or named[0],
        op_type=proto.op_type,
        domain=domain,
        opset=opset if domain else max(opset, first_opset(proto.op_type)),
        inputs=tuple(proto.input),
        outputs=outputs,
        attributes={attribute.name: attribute for attribute in proto.attribute},
        proto=proto,
    )


@cache
def first_opset(op_type: str) -> int:
    """Return the opset that brought an operator of the standard; 0 for an unknown operator.

    ONNX Runtime computes newer operators, such as LayerNormalization, in files of older opsets too.
    """
    versions = [
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if schema.name == op_type and not schema.domain
    ]
    return min(versions, default=0)


class NodeRefusal(UnsupportedOperator):
    """The refusal of one node.

    kind: of operator and form of it, the same for all nodes that are refused for the same reason.
    """

    def __init__(self, node: OnnxNode, kind: str, message: str) -> None:
        self.node = node
        self.kind = kind
        super().__init__(message)


class RefusedNodes(UnsupportedOperator):
    """The refusal of several nodes. names: of all of them."""

    def __init__(self, message: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names = frozenset(names)


def unsupported(node: OnnxNode, what: str) -> NodeRefusal:
    """Return the refusal of a node of a known operator."""
    return NodeRefusal(node, f"{node.op_type}: {what}", f"{node}: {what}")


def unknown(node: OnnxNode) -> NodeRefusal:
    """Return the refusal of a node of an operator that is not known."""
    kind = f"operator {node.op_type!r} of domain {node.domain or 'ai.onnx'!r}, opset {node.opset}"
    return NodeRefusal(node, kind, f"node {node.name!r}: {kind}, is not supported")


def refusal_of_all(refusals: Sequence[NodeRefusal]) -> RefusedNodes:
    """Return one refusal that names each kind of operator, a node of it and how many there are."""
    if any(refusal.node.domain.startswith("finn.") for refusal in refusals):
        return RefusedNodes("a model of FINN: `csdf fifo finn` reads it, and sizes its FIFOs", ())
    nodes = [refusal.node.name for refusal in refusals]
    if len(refusals) == 1:
        return RefusedNodes(str(refusals[0]), nodes)
    kinds: dict[str, list[str]] = {}
    for refusal in refusals:
        kinds.setdefault(refusal.kind, []).append(refusal.node.name)
    listed = []
    for kind, names in kinds.items():
        more = f" and {counted(len(names) - 1, 'other')}" if len(names) > 1 else ""
        listed.append(f"{kind} (node {names[0]!r}{more})")
    said = f"{len(refusals)} nodes are not supported: {'; '.join(listed)}"
    return RefusedNodes(said, nodes)
