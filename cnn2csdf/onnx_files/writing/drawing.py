"""Nodes and constants of an ONNX graph under construction.

Surroundings of an operator that is written as ONNX, and pieces that many operators need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from cnn2csdf.network import Shape
from cnn2csdf.weights import Array
from csdf.names import free_name

Constant = tuple[str, NDArray[Any]]  # its role, its value


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePiece:
    """A node among those that a layer becomes; each reads what the node before it wrote.

    reads: which inputs of the layer it reads behind that; by default the first piece reads all, a
    later one none. constants: read behind the tensors, before them where `constant_first`; None is
    an input left out. order: which of all these comes first, second, and so on; by default as they
    are. output: which of the node's outputs is wanted;
    outputs: how many it has.
    """

    op_type: str
    constants: tuple[Constant | None, ...] = ()
    constant_first: bool = False
    reads: tuple[int, ...] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[int, ...] | None = None
    output: int = 0
    outputs: int = 1


class Drawing:
    """Collects nodes and constants; keeps their names apart."""

    def __init__(self, names: Iterable[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._names = set(names)
        self._shared: dict[tuple[str, tuple[int, ...]], str] = {}  # stored name, dims: constant

    def free_name(self, wanted: str) -> str:
        """Return the name, with a number behind it where it is taken; from now on it is."""
        name = free_name(wanted, self._names)
        self._names.add(name)
        return name

    def add_identity(self, source: str, target: str) -> None:
        """Give a tensor another name."""
        self.nodes.append(
            helper.make_node("Identity", [source], [target], name=self.free_name(f"{target} copy"))
        )

    def add(
        self,
        pieces: Sequence[NodePiece],
        inputs: Sequence[str],
        target: str,
        name: str,
        stored: Mapping[str, str],
    ) -> None:
        """Add the nodes of one operator; the last writes `target` and gets the name.

        stored: by role, what the constants are called that several layers may share.
        """
        current: list[str] = []
        for place, piece in enumerate(pieces):
            is_last = place == len(pieces) - 1
            everything = range(len(inputs)) if place == 0 else ()
            reads = everything if piece.reads is None else piece.reads
            tensors = [*current, *(inputs[index] for index in reads)]
            constants = self._added(piece.constants, name, stored)
            node = name if is_last else self.free_name(f"{name} {piece.op_type.lower()}")
            current = [target if is_last else node]
            read = [*constants, *tensors] if piece.constant_first else [*tensors, *constants]
            self.nodes.append(
                helper.make_node(
                    piece.op_type,
                    read if piece.order is None else [read[index] for index in piece.order],
                    self._outputs(piece, current[0]),
                    name=node,
                    **piece.attributes,
                )
            )

    def _outputs(self, piece: NodePiece, wanted: str) -> list[str]:
        """The names of all outputs of a node; outputs that nobody reads get names as well."""
        others = [index for index in range(piece.outputs) if index != piece.output]
        names = {index: self.free_name(f"{wanted} {index}") for index in others}
        return [names.get(index, wanted) for index in range(piece.outputs)]

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
            names.append(self.free_name(f"{name}.{role}"))
            self.constants[names[-1]] = value
            self._shared[key] = names[-1]
        return names


Pieces = list[NodePiece]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingPlace:
    """The surroundings of an operator: the shapes it reads and writes and its trained numbers."""

    inputs: tuple[Shape, ...]
    output: Shape
    weights: Mapping[str, Array]

    def trained(self, *roles: str) -> tuple[Constant, ...]:
        """Return the trained numbers of these names that the layer has."""
        return tuple((role, self.weights[role]) for role in roles if role in self.weights)


def integers(role: str, values: Sequence[int]) -> Constant:
    """Return a constant of whole numbers."""
    return (role, np.array(values, dtype=np.int64))


def reshaped(dims: Sequence[int]) -> NodePiece:
    """Return a reshape to one frame of these dims."""
    return NodePiece(op_type="Reshape", constants=(integers("dims", [1, *dims]),))
