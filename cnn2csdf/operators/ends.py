"""The ends of a network, where frames come in and results go out, and layers that do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnn2csdf.arrays import Array
from cnn2csdf.integers import centred, multiplier, quantized, real, rescaled, stored
from cnn2csdf.operators.operator import Move, RowByRow, RowMove
from cnn2csdf.part import Part, Types, same_rows
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Move):
    """An input of the network: the frames come in here."""

    dims: Dims

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if inputs:
            raise InvalidNetwork(f"an input reads nothing, found {counted(len(inputs), 'input')}")
        return self.dims

    def computed(self, part: Part) -> Array:
        return same_rows(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(RowMove):
    """An output of the network: the results go out here."""

    def computed(self, part: Part) -> Array:
        return same_rows(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(RowMove):
    """Nothing, at inference: dropout and its like."""

    kind: str = "identity"

    def computed(self, part: Part) -> Array:
        return same_rows(part)

    def in_words(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion(RowByRow):
    """The same numbers in elements of another type: stored as integers, or real again."""

    def computed(self, part: Part) -> Array:
        return same_rows(part)

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return integers for real numbers, real numbers for integers, or integers rescaled."""
        given, result, values = types.inputs[0], types.output, same_rows(part)
        if given is None:
            return values if result is None else quantized(values, result)
        if result is None:
            return real(values, given)
        if not result.is_fixed_point:
            return quantized(real(values, given), result)
        ratio = multiplier(given.scale / result.scale)
        return stored(rescaled(centred(values, given), *ratio), result)

    def in_words(self) -> str:
        return "convert"
