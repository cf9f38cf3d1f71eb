"""Surroundings of an operator that is written as ONNX, and pieces that many operators need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf.network import Shape
from cnn2csdf.onnx_files.writing.drawing import Constant, NodePiece
from cnn2csdf.weights import Array

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
