"""Where frames come in and results go out, and layers that do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnn2csdf.arrays import Array
from cnn2csdf.operators.operator import Operator, RowByRow
from cnn2csdf.part import Part, same_rows
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Operator):
    """Where frames come in."""

    dims: Dims

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if inputs:
            raise InvalidNetwork(f"an input reads nothing, found {len(inputs)} inputs")
        return self.dims

    def computed(self, part: Part) -> Array:
        return same_rows(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(RowByRow):
    """Where results go out."""

    def computed(self, part: Part) -> Array:
        return same_rows(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(RowByRow):
    """Nothing, at inference: dropout and its like."""

    kind: str = "identity"

    def computed(self, part: Part) -> Array:
        return same_rows(part)

    def in_words(self) -> str:
        return self.kind
